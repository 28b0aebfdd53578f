# SPDX-License-Identifier: Apache-2.0
"""What a client may do: ACL files on publish, subscribe, delivery, retained messages and wills, with reloads while
clients are connected; and the rates of clients and addresses."""
import signal
import tempfile
import time

import pytest

from harness import engines
from harness.accounts import Files, crypt_line
from harness.client import Device, ack, frame, hello
from harness.gateway import Gateway
from harness.mqtt_peer import V5, V311, Client, Ended, Will, wire
from harness.wait import until

ENGINES = [(e, w) for e in engines.selected() for w in (1, 2)]
ACL = """topic read public/#
user alice
topic readwrite shared/#
topic deny shared/secret
topic read $SYS/#
user root
topic readwrite #
pattern readwrite own/%c/#
pattern write mail/%u
"""


@pytest.fixture(scope="module", params=ENGINES, ids=lambda p: f"{p[0]}-{p[1]}w")
def gateway(request, sluice):
    engine, workers = request.param
    engines.need(engine)
    with tempfile.TemporaryDirectory() as directory:
        files = Files(directory)
        passwords = files.write("passwords", "".join(crypt_line(u, "p") for u in ("alice", "bob", "root")))
        rights = {"bind": "127.0.0.1:0", "password_file": passwords, "acl_file": files.write("acl", ACL),
                  "anonymous": True}
        mqtt = {"protocol": "mqtt", "bind": "127.0.0.1:0"}
        listeners = {"mqtt": {**mqtt, **rights},
                     "devices": {"protocol": "frame", "mode": "publish", **rights, "up_topic": "own/%i/up",
                                 "down_topic": "shared/#"},
                     "rated": {**mqtt, "message_rate": 20},
                     "bytes": {**mqtt, "byte_rate": "100k"},
                     "strict": {**mqtt, "message_rate": 5, "rate_policy": "disconnect"},
                     "shallow": {**mqtt, "max_topic_levels": 3},
                     "hasty": {**mqtt, "connect_rate_per_address": 5}}
        with Gateway(sluice, engine, workers=workers, listeners=listeners,
                     settings={"sys_interval": "1s"}) as running:
            running.files = files
            yield running


@pytest.fixture(autouse=True)
def nothing_left(gateway):
    yield
    Client.end_all()
    gateway.expect_no_conns()


def client(gateway, user=None, version=V5, listener="mqtt", client_id=None, **more):
    credentials = {} if user is None else {"user": user, "password": b"p"}
    return Client(gateway.address(listener), version).hello(client_id, **credentials, **more)


def test_publish(gateway):
    alice = client(gateway, "alice", client_id="a-1")
    for topic, allowed in (("shared/x", True), ("shared/secret", False), ("public/x", False), ("own/a-1/x", True),
                           ("own/a-2/x", False), ("mail/alice", True), ("mail/bob", False), ("x", False)):
        for qos in (1, 2):
            assert (alice.publish(topic, b"m", qos=qos) != 0x87) == allowed, topic
    old = client(gateway, "alice", V311)
    old.publish("x", b"m", qos=1)  # acknowledged, and goes nowhere
    old.publish("x", b"m")
    old.ping()
    anonymous = client(gateway)
    assert anonymous.publish("public/x", b"m", qos=1) == 0x87
    assert anonymous.publish("mail/", b"m", qos=1) == 0x87


def test_subscribe_and_delivery(gateway):
    root, alice, nobody = client(gateway, "root"), client(gateway, "alice", client_id="a-3"), client(gateway)
    assert list(alice.subscribe("#", "shared/#", "public/#", "shared/secret", "own/+/x", "$SYS/#")) == \
        [0, 0, 0x87, 0x87, 0, 0]
    assert list(nobody.subscribe("public/x", "shared/#", "+/x")) == [0, 0x87, 0]
    for topic in ("shared/secret", "x", "public/x", "own/a-2/x", "shared/x", "own/a-3/x"):
        root.publish(topic, topic.encode(), qos=1)

    def topics(it, last):
        seen = set()
        while last not in seen:
            got = it.message()
            if not got.topic.startswith("$SYS"):
                seen.add(got.topic)
        return seen
    assert topics(alice, "own/a-3/x") == {"shared/x", "own/a-3/x"}
    assert topics(nobody, "public/x") == {"public/x"}
    assert gateway.metric("sluice_acl_denied_total", access="read") >= 4


def test_retained(gateway):
    root = client(gateway, "root")
    for topic in ("shared/r", "shared/secret", "own/a-9/r"):
        root.publish(topic, b"kept", qos=1, retain=True)
    alice = client(gateway, "alice", client_id="a-4")
    alice.subscribe("shared/#", qos=1)
    alice.subscribe("own/#", qos=1)
    assert alice.message().topic == "shared/r"
    root.publish("shared/end", b"", qos=1)
    assert alice.message().topic == "shared/end"
    for topic in ("shared/r", "shared/secret", "own/a-9/r"):
        root.publish(topic, b"", qos=1, retain=True)


def test_wills(gateway):
    root = client(gateway, "root")
    root.subscribe("shared/#", "own/#")
    Client(gateway.address("mqtt")).hello("w-1", expect=0x87, will=Will("own/w-2/gone"), user="bob",
                                          password=b"p").expect_end()
    Client(gateway.address("mqtt")).hello("w-1", will=Will("own/w-1/gone"), user="bob", password=b"p").drop()
    assert root.message().topic == "own/w-1/gone"


def test_framed_devices(gateway):
    root = client(gateway, "root")
    root.subscribe("own/#")
    with Device(gateway.address("devices")) as device:
        device.send(hello("alice", token="p") + frame(b"up"))
        device.expect(ack(0) + ack(1))
        assert root.message().topic == "own/alice/up"
        root.publish("shared/secret", b"hidden", qos=1)
        root.publish("shared/x", b"shown", qos=1)
        device.expect(frame(b"shown"))


def reload(gateway):
    before = gateway.status()["reloads"]
    gateway.signal(signal.SIGHUP)
    until(lambda: gateway.status()["reloads"] != before, "the reload is applied")


def test_reload_changes_the_rights_of_connected_clients(gateway):
    alice, root = client(gateway, "alice"), client(gateway, "root")
    alice.subscribe("shared/#", qos=1)
    away = client(gateway, "alice", client_id="away", clean=False, props={"session_expiry": 60})
    away.subscribe("shared/#", qos=1)
    away.drop()
    assert alice.publish("shared/x", b"1", qos=1) == 0
    alice.message()
    try:
        gateway.files.write("acl", ACL.replace("shared/#", "other/#"))
        reload(gateway)
        until(lambda: alice.publish("shared/x", b"2", qos=1) == 0x87, "the new rights hold")
        root.publish("shared/x", b"3", qos=1)
        assert alice.publish("other/x", b"4", qos=1) == 0x10
        alice.ping()  # nothing came
        # What waits for one that was away is judged by the rights it comes back with.
        back = Client(gateway.address("mqtt")).hello("away", clean=False, user="alice", password=b"p",
                                                     props={"session_expiry": 0})
        assert back.connack.session_present
        back.ping()
    finally:
        gateway.files.write("acl", ACL)
        reload(gateway)


# --- rates ---

def test_a_client_over_its_rate_is_slowed_and_loses_nothing(gateway):
    it = client(gateway, listener="rated")
    watcher = client(gateway, listener="shallow")
    watcher.subscribe("r", qos=1)
    began = time.monotonic()
    it.send(b"".join(wire.publish(V5, "r", b"%d" % n, 1, n + 1) for n in range(40)))
    for n in range(40):
        assert it.expect(wire.PUBACK).ident == n + 1
    assert time.monotonic() - began >= 0.9  # 20 at once, 20 in a second
    assert [watcher.message().payload for _ in range(40)] == [b"%d" % n for n in range(40)]
    assert gateway.metric("sluice_rate_pauses_total") >= 1
    it.ping()


def test_bytes_count_too(gateway):
    it = client(gateway, listener="bytes")
    began = time.monotonic()
    for _ in range(4):
        it.publish("r", b"x" * 50000, qos=1)
    assert time.monotonic() - began >= 0.9
    # One that goes away while it is paused.
    it.send(b"".join(wire.publish(V5, "r", b"y" * 50000, 1, n + 1) for n in range(10)))
    it.reset()


def test_a_rate_may_end_the_connection(gateway):
    it = client(gateway, listener="strict")
    it.send(b"".join(wire.publish(V5, "r", b"x") for _ in range(20)))
    it.expect_end(0x96)
    until(lambda: gateway.closes("message_rate") >= 1, "the reason is counted")


def test_topic_levels(gateway):
    it = client(gateway, listener="shallow")
    assert list(it.subscribe("a/b/c", "a/b/c/d", "a/b/#")) == [0, 0x8F, 0]
    assert it.publish("x/b/c", b"", qos=1) == 0x10
    assert it.publish("x/b/c/d", b"", qos=1) == 0x90


def test_connections_of_an_address(gateway):
    def refused():
        """Of twelve that come at once, on a machine that lets them."""
        count = 0
        for it in [Client(gateway.address("hasty")) for _ in range(12)]:
            try:
                it.hello()
            except Ended:
                count += 1
        return count >= 5
    until(refused, "five of twelve are over the rate")
    until(lambda: gateway.closes("connect_rate") >= 5, "the reason is counted")

# SPDX-License-Identifier: Apache-2.0
"""MQTT 5's enhanced authentication with SCRAM-SHA-256: the exchange, what is wrong in every step, and again while
connected."""
import signal
import tempfile

import pytest

from harness import engines
from harness.accounts import Files, Scram, crypt_line, scram_line
from harness.gateway import Gateway
from harness.mqtt_peer import V5, V311, Client, Will, wire
from harness.wait import until

METHOD = "SCRAM-SHA-256"
ENGINES = [(e, w) for e in engines.selected() for w in (1, 2)]


@pytest.fixture(scope="module", params=ENGINES, ids=lambda p: f"{p[0]}-{p[1]}w")
def gateway(request, sluice):
    engine, workers = request.param
    engines.need(engine)
    with tempfile.TemporaryDirectory() as directory:
        files = Files(directory)
        mqtt = {"protocol": "mqtt", "bind": "127.0.0.1:0", "auth_delay": "20ms", "auth_failures": "unlimited"}
        both = files.write("both", scram_line("user", "pencil") + crypt_line("user", "pencil") + scram_line("other", "x"))
        acl = files.write("acl", "user user\ntopic readwrite u/#\n")
        listeners = {"scram": {**mqtt, "password_file": both, "acl_file": acl},
                     "plain": {**mqtt, "password_file": files.write("plain", crypt_line("user", "pencil"))}}
        with Gateway(sluice, engine, workers=workers, listeners=listeners) as running:
            running.files = files
            yield running


@pytest.fixture(autouse=True)
def nothing_left(gateway):
    yield
    Client.end_all()
    gateway.expect_no_conns()


def begin(gateway, scram, client_id="s", listener="scram", **more):
    it = Client(gateway.address(listener))
    it.send(wire.connect(V5, client_id, props={"auth_method": METHOD, "auth_data": scram.first}, **more))
    return it


def login(gateway, user="user", password="pencil", **more):
    scram = Scram(user, password)
    it = begin(gateway, scram, **more)
    challenge = it.expect(wire.AUTH, reason=0x18)
    assert challenge.props["auth_method"] == METHOD
    it.send(wire.auth(0x18, {"auth_method": METHOD, "auth_data": scram.final(challenge.props["auth_data"])}))
    return it, scram


def test_the_exchange(gateway):
    for n in range(4):  # ids of both workers
        it, scram = login(gateway, client_id=f"s{n}", will=Will("u/will"))
        connack = it.expect(wire.CONNACK, reason=0)
        assert connack.props["auth_data"] == scram.expected
        assert connack.props["auth_method"] == METHOD
        it.subscribe("u/#")
        it.publish("u/x", b"hello")
        assert it.message().payload == b"hello"
        it.bye()


def test_an_assigned_id(gateway):
    it, _ = login(gateway, client_id="")
    assert it.expect(wire.CONNACK, reason=0).props["assigned_client_id"].startswith("auto-")


@pytest.mark.parametrize("user, password", [("user", "pencils"), ("nobody", "pencil")])
def test_wrong_ones_look_the_same(gateway, user, password):
    it, _ = login(gateway, user, password)
    packets = it.rest()
    assert [(p.kind, p.reason) for p in packets] == [(wire.CONNACK, 0x86)]
    assert not {"auth_data", "auth_method"} & set(packets[0].props)


def test_a_user_that_does_not_exist_has_a_salt_of_its_own(gateway):
    def salt():
        it = begin(gateway, Scram("nobody", "x"))
        return it.expect(wire.AUTH).props["auth_data"].split(b",")[1:]
    first = salt()
    assert salt() == first and first[1] == b"i=4096"


@pytest.mark.parametrize("first", [b"", b"n,,n=user", b"p=tls-unique,,n=user,r=abc", b"n,a=other,n=user,r=abc", b"\xff" * 10,
                                   b"n,,n=user,r=" + b"x" * 2000])
def test_a_first_message_that_is_wrong(gateway, first):
    it = Client(gateway.address("scram"))
    it.send(wire.connect(V5, "s", props={"auth_method": METHOD, "auth_data": first}))
    assert [(p.kind, p.reason) for p in it.rest()] == [(wire.CONNACK, 0x86)]


def test_packets_out_of_turn(gateway):
    for packet in (wire.PING, wire.publish(V5, "u/x"), wire.subscribe(V5, 1, [("u/#", 0)]), wire.connect(V5, "s"),
                   wire.auth(0x19, {"auth_method": METHOD, "auth_data": b"n,,n=user,r=x"}),
                   wire.auth(0x18, {"auth_method": "OTHER", "auth_data": b"x"}), wire.disconnect(V5)):
        it = begin(gateway, Scram("user", "pencil"))
        it.expect(wire.AUTH)
        it.send(packet)
        assert all(p.kind == wire.CONNACK and p.reason >= 0x80 for p in it.rest())


def test_a_listener_without_verifiers_knows_no_method(gateway):
    it = begin(gateway, Scram("user", "pencil"), listener="plain")
    assert [(p.kind, p.reason) for p in it.rest()] == [(wire.CONNACK, 0x8C)]


def test_passwords_still_work_beside_it(gateway):
    for version in (V311, V5):
        Client(gateway.address("scram"), version).hello(user="user", password=b"pencil").ping()


# --- re-authentication ---

def again(it, user="user", password="pencil"):
    scram = Scram(user, password)
    it.send(wire.auth(0x19, {"auth_method": METHOD, "auth_data": scram.first}))
    return scram


def connected(gateway):
    it, _ = login(gateway)
    it.expect(wire.CONNACK, reason=0)
    return it


def test_again_while_connected(gateway):
    it = connected(gateway)
    for _ in range(2):
        scram = again(it)
        challenge = it.expect(wire.AUTH, reason=0x18)
        it.ping()  # other packets flow meanwhile
        it.send(wire.auth(0x18, {"auth_method": METHOD, "auth_data": scram.final(challenge.props["auth_data"])}))
        assert it.expect(wire.AUTH, reason=0).props["auth_data"] == scram.expected
    it.ping()


@pytest.mark.parametrize("user, password", [("user", "pencils"), ("other", "x")])
def test_a_wrong_one_again_ends_the_connection(gateway, user, password):
    it = connected(gateway)
    scram = again(it, user, password)
    if user == "user":
        challenge = it.expect(wire.AUTH, reason=0x18)
        it.send(wire.auth(0x18, {"auth_method": METHOD, "auth_data": scram.final(challenge.props["auth_data"])}))
    it.expect_end(0x87)


def test_auth_out_of_turn_ends_the_connection(gateway):
    for packet in (wire.auth(0x18, {"auth_method": METHOD, "auth_data": b"x"}), wire.auth(0x19, {"auth_method": "x"}),
                   wire.auth(0x00, {"auth_method": METHOD})):
        it = connected(gateway)
        it.send(packet)
        it.expect_end((0x82,))


# --- while a reload comes ---

def reload(gateway):
    before = gateway.status()["reloads"]
    gateway.signal(signal.SIGHUP)
    until(lambda: gateway.status()["reloads"] != before, "the reload is applied")


def test_a_reload_in_the_middle_of_an_exchange_counts(gateway):
    """Who began with a password that is no longer the user's does not get in with it."""
    scram = Scram("user", "pencil")
    it = begin(gateway, scram)
    challenge = it.expect(wire.AUTH, reason=0x18)
    try:
        gateway.files.write("both", scram_line("user", "another") + crypt_line("user", "another"))
        reload(gateway)
        it.send(wire.auth(0x18, {"auth_method": METHOD, "auth_data": scram.final(challenge.props["auth_data"])}))
        assert [(p.kind, p.reason) for p in it.rest()] == [(wire.CONNACK, 0x86)]
        gateway.wait_log("is no longer let in: revoked")
    finally:
        gateway.files.write("both", scram_line("user", "pencil") + crypt_line("user", "pencil") + scram_line("other", "x"))
        reload(gateway)
    login(gateway)[0].expect(wire.CONNACK, reason=0)

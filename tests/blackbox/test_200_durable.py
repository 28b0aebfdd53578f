# SPDX-License-Identifier: Apache-2.0
"""What was acknowledged survives kill -9: sessions with their subscriptions, what waits for them and what is in flight in
both directions, retained messages, wills, and acknowledged frames. What the client has acknowledged does not come back."""
import os
import sys
import time

import pytest

from harness import engines
from harness.client import Device, ack, frame, hello
from harness.gateway import Gateway
from harness.wait import until

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "conformance"))
from mqtt import wire  # noqa: E402
from mqtt.client import Client  # noqa: E402

ENGINES = [(e, w) for e in engines.selected() for w in (1, 2)]
LISTENERS = {
    "mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0", "max_queued_messages": 100000, "max_queued_bytes": "64m",
             "receive_max": 1000},
    "devices": {"protocol": "frame", "bind": "127.0.0.1:0", "mode": "publish"},
}
FOREVER = {"session_expiry": 0xFFFFFFFF}


@pytest.fixture(params=ENGINES, ids=lambda p: f"{p[0]}-{p[1]}w")
def gateway(request, sluice):
    engine, workers = request.param
    engines.need(engine)
    with Gateway(sluice, engine, workers=workers, listeners=LISTENERS, settings=SETTINGS) as running:
        yield running
        Client.end_all()


SETTINGS = {}


def crash(gateway):
    """kill -9, and the same again on the same data."""
    Client.end_all()
    gateway.crash()
    gateway.start()


def client(gateway, version=wire.V5):
    return Client(gateway.address("mqtt"), version)


def durable(gateway, name, clean=False, version=wire.V5, **more):
    props = dict(FOREVER) if version == wire.V5 else None
    return client(gateway, version).hello(name, clean, props=props, **more)


def subscriber_away(gateway, name, topic, qos, version=wire.V5):
    with durable(gateway, name, clean=version == wire.V5, version=version) as s:
        s.subscribe(topic, qos=qos)
        s.bye()


def publish_all(publisher, topic, count, qos, first=0):
    for i in range(first, first + count):
        publisher.publish(topic, b"%d" % i, qos)


def receive(s, count):
    return [int(s.message().payload) for _ in range(count)]


@pytest.mark.parametrize("version", [wire.V5, wire.V311])
def test_what_waits_for_a_client_away_survives(gateway, version):
    subscriber_away(gateway, "away", "t/#", 2, version)
    with client(gateway).hello() as p:
        for i in range(300):
            p.publish("t/x", b"%d" % i, 1 + i % 2)
    crash(gateway)
    with durable(gateway, "away", version=version) as s:
        assert s.connack.session_present
        got = receive(s, 300)
        assert sorted(got) == list(range(300))
        assert [i for i in got if i % 2] == list(range(1, 300, 2)), "order of QoS 2"
        assert [i for i in got if not i % 2] == list(range(0, 300, 2)), "order of QoS 1"
        with client(gateway).hello() as p:
            assert s.messages_before(p, 1) == []
        s.subscribe("sync")  # SUBACK: what it acknowledged before is on disk
    crash(gateway)
    with durable(gateway, "away", version=version) as s:
        with client(gateway).hello() as p:
            assert s.messages_before(p, 1) == [], "what was acknowledged comes again"


def test_subscriptions_are_in_force_before_anybody_is_let_in(gateway):
    for i in range(20):
        subscriber_away(gateway, f"s{i}", f"topic/{i}/+", 1)
    crash(gateway)
    with client(gateway).hello() as p:
        for i in range(20):
            p.publish(f"topic/{i}/a", b"%d" % i, 1)
    for i in range(20):
        with durable(gateway, f"s{i}") as s:
            assert receive(s, 1) == [i]
            s.bye()


def test_an_identifier_is_not_used_again_soon(gateway):
    """Not when the client is quiet, nor after a restart: the log names what is in flight by it."""
    seen = []

    def exchange():
        with client(gateway).hello() as p, durable(gateway, "quiet") as s:
            if not seen:
                s.subscribe("t", qos=1)
            for _ in range(3):
                p.publish("t", b"x", 1)
                seen.append(s.message().ident)
                s.ping()
            s.bye()
    exchange()
    exchange()
    crash(gateway)
    exchange()
    assert seen == sorted(set(seen)), seen


def test_unsubscribed_stays_unsubscribed(gateway):
    subscriber_away(gateway, "u", "gone", 1)
    with durable(gateway, "u") as s:
        s.subscribe("stays", qos=1)
        s.unsubscribe("gone")
        s.bye()
    crash(gateway)
    with client(gateway).hello() as p:
        p.publish("gone", b"1", 1)
        p.publish("stays", b"2", 1)
    with durable(gateway, "u") as s:
        assert receive(s, 1) == [2]


def test_in_flight_to_the_client(gateway):
    s = durable(gateway, "f", clean=True)
    s.subscribe("t", qos=2)
    with client(gateway).hello() as p:
        publish_all(p, "t", 4, 2)
    packets = [s.expect(wire.PUBLISH) for _ in range(4)]
    s.ack(wire.PUBREC, packets[0].ident)
    s.expect(wire.PUBREL, ident=packets[0].ident)
    s.ack(wire.PUBREC, packets[1].ident)
    s.expect(wire.PUBREL, ident=packets[1].ident)
    s.ack(wire.PUBCOMP, packets[1].ident)
    s.subscribe("sync")  # SUBACK: what it acknowledged before is on disk
    crash(gateway)
    with durable(gateway, "f") as s:
        assert s.connack.session_present
        assert s.expect(wire.PUBREL).ident == packets[0].ident
        again = [s.expect(wire.PUBLISH) for _ in range(2)]
        assert [(p.ident, p.payload, p.dup) for p in again] == [(p.ident, p.payload, True) for p in packets[2:]]


def test_in_flight_from_the_client(gateway):
    subscriber_away(gateway, "to", "t", 2)
    p = durable(gateway, "from", clean=True)
    p.send(p.publish_bytes("t", b"1", 2, ident=7))
    p.expect(wire.PUBREC, ident=7)
    crash(gateway)
    with durable(gateway, "from") as p:
        assert p.connack.session_present
        p.send(wire.publish(p.version, "t", b"1", 2, 7, dup=True))
        p.expect(wire.PUBREC, ident=7)
        p.ack(wire.PUBREL, 7)
        p.expect(wire.PUBCOMP, ident=7)
        p.publish("t", b"2", 2, ident=7)
    with durable(gateway, "to") as s:
        assert receive(s, 2) == [1, 2]
        with client(gateway).hello() as q:
            assert s.messages_before(q, 2) == []


def test_retained_messages(gateway):
    with client(gateway).hello() as p:
        for i in range(50):
            p.publish(f"r/{i}", b"%d" % i, 1, retain=True)
        p.publish("r/3", b"", 1, retain=True)
        p.publish("r/4", b"44", 2, retain=True)
    crash(gateway)
    with client(gateway).hello() as s:
        s.subscribe("r/#", qos=1)
        got = {}
        for _ in range(49):
            it = s.message()
            assert it.retain
            got[it.topic] = it.payload
    wanted = {f"r/{i}": b"%d" % i for i in range(50) if i != 3}
    wanted["r/4"] = b"44"
    assert got == wanted


def test_a_session_that_ended_is_gone(gateway):
    subscriber_away(gateway, "e", "t", 1)
    with client(gateway).hello() as p:
        p.publish("t", b"1", 1)
    with client(gateway).hello("e", True) as s:
        assert not s.connack.session_present
    crash(gateway)
    with durable(gateway, "e") as s:
        assert not s.connack.session_present


def test_will_of_a_client_that_was_connected(gateway):
    subscriber_away(gateway, "heir", "will", 1)
    will = wire.Will("will", b"77", qos=1, props={"will_delay": 1})
    s = durable(gateway, "mortal", clean=True, will=will)
    s.ping()
    s.subscribe("x", qos=1)  # SUBACK: its state is on disk
    crash(gateway)
    with durable(gateway, "heir") as s:
        assert receive(s, 1) == [77]


def test_expiry_counts_while_nobody_runs(gateway):
    with client(gateway).hello("short", True, props={"session_expiry": 1}) as s:
        s.subscribe("t", qos=1)
    with client(gateway).hello("long", True, props={"session_expiry": 3600}) as s:
        s.subscribe("t", qos=1)
    gateway.process.kill()
    gateway.process.wait()
    time.sleep(1.5)
    gateway.forget_addresses()
    gateway.start()
    until(lambda: gateway.metric("sluice_mqtt_sessions") == 1, "one session has expired")
    with client(gateway).hello("short", False, props={"session_expiry": 5}) as s:
        assert not s.connack.session_present
    with client(gateway).hello("long", False, props={"session_expiry": 5}) as s:
        assert s.connack.session_present


def test_acknowledged_frames_reach_a_durable_subscriber(gateway):
    subscriber_away(gateway, "frames", "devices/+/up", 1)
    device = Device(gateway.address("devices"))
    device.say_hello("d1")
    device.send(b"".join(frame(b"%d" % i) for i in range(100)))
    assert [device.recv_ack() for _ in range(100)] == list(range(1, 101))
    crash(gateway)
    with durable(gateway, "frames") as s:
        assert receive(s, 100) == list(range(100))


def test_frames_are_acknowledged_to_a_device_that_has_shut_its_side(gateway):
    subscriber_away(gateway, "last", "devices/+/up", 1)
    for i in range(8):
        with Device(gateway.address("devices")) as device:
            device.send(hello(f"d{i}") + frame(b"%d" % i) + frame(b"%d" % (100 + i)))
            device.half_close()
            device.expect(ack(0) + ack(1) + ack(2))
            assert device.expect_end() == ("eof", b"")


def test_clean_stop_and_start(gateway):
    subscriber_away(gateway, "c", "t", 1)
    with client(gateway).hello() as p:
        publish_all(p, "t", 500, 1)
    gateway.stop()
    gateway.forget_addresses()
    gateway.start()
    with durable(gateway, "c") as s:
        assert receive(s, 500) == list(range(500))

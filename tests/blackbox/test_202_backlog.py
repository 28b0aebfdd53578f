# SPDX-License-Identifier: Apache-2.0
"""Queues on disk: long ones come back in order, also after another number of workers has taken over; what gives way when one
is full; and a log that is full refuses by name, lets QoS 0 through and recovers by itself."""
import os
import sys

import pytest

from harness import engines
from harness.gateway import Gateway
from harness.wait import until

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "conformance"))
from mqtt import wire  # noqa: E402
from mqtt.client import Client  # noqa: E402

ENGINE = engines.selected()[-1]
FOREVER = {"session_expiry": 0xFFFFFFFF}
MQTT = {"protocol": "mqtt", "bind": "127.0.0.1:0", "max_queued_messages": 100000, "max_queued_bytes": "512m",
        "max_packet": "256k"}


@pytest.fixture
def start(sluice):
    made = []

    def make(workers=1, settings=None, **more):
        gateway = Gateway(sluice, ENGINE, workers=workers, listeners={"mqtt": {**MQTT, **more}}, settings=settings)
        made.append(gateway)
        return gateway.start()
    yield make
    Client.end_all()
    for gateway in made:
        gateway.kill()
        gateway.remove()


def crash(gateway, workers=None):
    Client.end_all()
    gateway.process.kill()
    gateway.process.wait()
    gateway.workers = workers or gateway.workers
    gateway.forget_addresses()
    gateway.start()


def durable(gateway, name, clean=False):
    return Client(gateway.address("mqtt")).hello(name, clean, props=dict(FOREVER, receive_max=50))


def away(gateway, name, topic="t", qos=1):
    with durable(gateway, name, True) as s:
        s.subscribe(topic, qos=qos)
        s.bye()


def publish_many(p, count, qos=1, first=0, topic="t", size=0):
    """In windows, as a client does that does not wait for each."""
    for at in range(first, first + count, 50):
        numbers = range(at, min(at + 50, first + count))
        p.send(*(p.publish_bytes(topic, b"%d" % i + b" " * size, qos, 1 + i % 60000) for i in numbers))
        for i in numbers:
            p.wait_for(wire.PUBACK if qos == 1 else wire.PUBREC, ident=1 + i % 60000)
            if qos == 2:
                p.ack(wire.PUBREL, 1 + i % 60000)
                p.wait_for(wire.PUBCOMP, ident=1 + i % 60000)


def numbers(s, count):
    return [int(s.message().payload) for _ in range(count)]


def row(gateway, name):
    return gateway.api(f"/api/sessions?client={name}")["sessions"][0]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_long_queue_comes_in_order(start, qos):
    gateway = start()
    away(gateway, "long", qos=qos)
    with Client(gateway.address("mqtt")).hello() as p:
        publish_many(p, 3000, qos)
    listed = row(gateway, "long")
    assert listed["durable"] and listed["queued"] == listed["queued_log"] == 3000
    crash(gateway)
    with durable(gateway, "long") as s:
        assert numbers(s, 1234) == list(range(1234))
        s.subscribe("sync")
    crash(gateway)
    assert row(gateway, "long")["queued"] <= 3000 - 1234
    with durable(gateway, "long") as s:
        got = numbers(s, 3000 - 1234)
        assert got == list(range(1234, 3000))


def test_while_it_drains_new_ones_wait_behind(start):
    gateway = start()
    away(gateway, "s")
    with Client(gateway.address("mqtt")).hello() as p:
        publish_many(p, 500)
        with durable(gateway, "s") as s:
            assert numbers(s, 200) == list(range(200))
            publish_many(p, 500, first=500)
            assert numbers(s, 800) == list(range(200, 1000))


@pytest.mark.parametrize("before,after", [(1, 2), (2, 1), (2, 3)])
def test_another_number_of_workers(start, before, after):
    gateway = start(before)
    for i in range(10):
        away(gateway, f"w{i}", f"t/{i}")
    with Client(gateway.address("mqtt")).hello() as p:
        for i in range(10):
            publish_many(p, 100, topic=f"t/{i}")
            p.publish(f"keep/{i}", b"%d" % i, 1, retain=True)
    crash(gateway, after)
    with Client(gateway.address("mqtt")).hello() as p:
        for i in range(10):
            publish_many(p, 10, topic=f"t/{i}", first=100)
    for i in range(10):
        with durable(gateway, f"w{i}") as s:
            assert s.connack.session_present, i
            assert numbers(s, 110) == list(range(110)), i
    with Client(gateway.address("mqtt")).hello() as s:
        s.subscribe("keep/#", qos=1)
        assert sorted(numbers(s, 10)) == list(range(10))


def test_there_and_back(start):
    """Each start with another number of workers than the last one: the logs have copies out of several others."""
    gateway, names = start(2), [f"w{i}" for i in range(12)]
    for name in names:
        with durable(gateway, name, True) as s:
            s.subscribe("t/#", f"own/{name}", qos=1)
            s.bye()
    count = 0
    for workers in (3, 2, 1, 3, 2):
        with Client(gateway.address("mqtt")).hello() as p:
            for name in names:
                publish_many(p, 2, topic="t/x", first=count)
                publish_many(p, 3, topic=f"own/{name}", first=count)
                count += 3
        crash(gateway, workers)
    for k, name in enumerate(names):
        want = []
        for i in range(0, count, 3):
            want += [i, i + 1] + ([i, i + 1, i + 2] if i // 3 % len(names) == k else [])
        with durable(gateway, name) as s:
            assert s.connack.session_present, name
            assert numbers(s, len(want)) == want, name


@pytest.mark.parametrize("policy,kept", [("newest", range(100)), ("oldest", range(50, 150))])
def test_the_budget_and_its_policy(start, policy, kept):
    gateway = start(max_queued_messages=100, queue_policy=policy)
    away(gateway, "b")
    with Client(gateway.address("mqtt")).hello() as p:
        publish_many(p, 150)
    reason = {"newest": "queue_full", "oldest": "queue_oldest"}[policy]
    assert gateway.metric("sluice_mqtt_dropped_total", reason=reason) == 50
    crash(gateway)
    with durable(gateway, "b") as s:
        assert numbers(s, 100) == list(kept)


@pytest.mark.parametrize("policy", ["newest", "oldest"])
def test_the_budget_in_bytes(start, policy):
    gateway = start(max_queued_bytes="64k", queue_policy=policy)
    away(gateway, "b")
    with Client(gateway.address("mqtt")).hello() as p:
        publish_many(p, 150, size=1000)
    reason = {"newest": "queue_full", "oldest": "queue_oldest"}[policy]
    dropped = int(gateway.metric("sluice_mqtt_dropped_total", reason=reason))
    listed = row(gateway, "b")
    assert listed["queued"] == 150 - dropped and 30 < listed["queued"] <= 64, (listed, dropped)
    crash(gateway)
    with durable(gateway, "b") as s:
        got = numbers(s, 150 - dropped)
        first = 0 if policy == "newest" else dropped
        assert got == list(range(first, first + len(got)))


def test_the_policy_to_disconnect(start):
    """The client is told and goes; what it had stays, and while it is away the newest messages give way."""
    gateway = start(max_queued_messages=20, queue_policy="disconnect")
    slow = durable(gateway, "slow", True)
    slow.subscribe("t", qos=1)
    with Client(gateway.address("mqtt")).hello() as p:
        publish_many(p, 150)  # 50 are on their way, 20 wait
    until(lambda: gateway.closes("queue_full") == 1, "the slow client is gone")
    dropped = int(gateway.metric("sluice_mqtt_dropped_total", reason="queue_full"))
    assert 0 < dropped < 150
    crash(gateway)
    with durable(gateway, "slow") as s:
        assert numbers(s, 150 - dropped) == list(range(150 - dropped))


def test_a_full_log_refuses_by_name_and_recovers(start):
    gateway = start(settings={"log_max": "16m"})
    away(gateway, "full")
    p = Client(gateway.address("mqtt")).hello()
    other = Client(gateway.address("mqtt")).hello()
    other.subscribe("live")
    accepted = 0
    payload = b"x" * 200000
    while p.publish("t", b"%d " % accepted + payload, 1) == 0:
        accepted += 1
        assert accepted < 5000, "the log is never full"
    assert p.publish("t", payload, 1) == 0x97
    assert gateway.metric("sluice_mqtt_dropped_total", reason="log_full") >= 2
    p.publish("live", b"still", 0)
    assert other.message().payload == b"still"
    with Client(gateway.address("mqtt"), wire.V311).hello() as old:
        old.send(old.publish_bytes("t", payload, 1, 1))
        old.expect_end()
    with durable(gateway, "full") as s:
        for i in range(accepted):
            assert int(s.message().payload.split()[0]) == i
        s.bye()
    until(lambda: p.publish("t", b"0", 1) == 0, "messages are taken again", 30, 0.2)


@pytest.mark.parametrize("size", [150_000, 200_000, 230_000, 260_000])
def test_what_a_full_log_refuses_is_not_retained(start, size):
    """The retained message and the one that waits are a record each: there may be room for the first of them only."""
    gateway = start(settings={"log_max": "16m"})
    away(gateway, "full")
    p = Client(gateway.address("mqtt")).hello()
    accepted = 0
    while p.publish("t", b"%d " % accepted + b"x" * size, 1, retain=True) == 0:
        accepted += 1
        assert accepted < 5000, "the log is never full"
    reader = Client(gateway.address("mqtt")).hello()
    reader.subscribe("t")
    assert int(reader.message().payload.split()[0]) == accepted - 1

# SPDX-License-Identifier: Apache-2.0
"""Keep alive: silence ends a connection after one and a half times the interval, and nothing else does."""
import time

import pytest
from harness.wait import in_time
from mqtt import wire
from mqtt.client import Ended
from mqtt.statements import shows
from mqtt.wire import V5, V311

both = pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])
# The gateway counts whole seconds, and the machine may be busy.
EARLY_S, LATE_S = 0.05, 3.0
# What a client that has to send within one and a half seconds is held to.
IN_TIME_S = 1.4


def ended_in_time(end, tries=3):
    """end() returns how long after its last packet a silent client was ended. Never before its time; a machine that was held up
    is late once, a wrong interval is so always."""
    passed = []
    while not passed or (passed[-1] > 1.5 + LATE_S and len(passed) < tries):
        passed.append(end())
        assert passed[-1] >= 1.5 - EARLY_S, passed
    assert passed[-1] <= 1.5 + LATE_S, passed


@pytest.mark.core
@both
@shows(v5="3.1.2-22 3.2.2-22", v3="3.1.2-24")
def test_silence_ends_the_connection(broker, v):
    def end():
        start = time.monotonic()
        client = broker.connect(v, keep_alive=1)
        client.expect_end(0x8D if v == V5 and not broker.external else None)
        return time.monotonic() - start
    ended_in_time(end)


@both
@shows(v5="3.1.2-22", v3="3.1.2-24")
def test_any_packet_keeps_the_connection(broker, v):
    def attempt(pace):
        client = broker.connect(v, keep_alive=1)
        client.subscribe(broker.name("t"))
        for packet in (wire.PING, wire.publish(v, broker.name("t"), b"x"), wire.ack(v, wire.PUBACK, 9),
                       wire.subscribe(v, 5, [("a", 0)])):
            time.sleep(0.9)
            client.send(packet)
            pace()
        pace.end()
        client.wait_for(wire.SUBACK, ident=5)
    in_time(attempt, IN_TIME_S)


@both
@shows(v5="3.1.2-22", v3="3.1.2-24")
def test_what_the_broker_sends_does_not_keep_the_connection(broker, v):
    def end():
        publisher = broker.connect(v)
        client = broker.connect(v, keep_alive=1)
        start = time.monotonic()
        client.subscribe(broker.name("t"))
        while time.monotonic() - start < 1.5 + 2 * LATE_S:
            publisher.publish(broker.name("t"), b"x")
            try:
                client.message(payload=b"x")
            except AssertionError:
                break
            time.sleep(0.2)
        return time.monotonic() - start
    ended_in_time(end)


@both
@shows(v5="3.1.2-22", v3="3.1.2-24")
def test_half_a_packet_does_not_keep_the_connection(broker, v):
    """A keep alive counts packets, not bytes: one that trickles in ends the connection like silence."""
    packet = wire.publish(v, broker.name("t"), b"x" * 100)

    def end():
        start = time.monotonic()
        client = broker.connect(v, keep_alive=1)
        try:
            for byte in packet[:70]:
                client.send(bytes([byte]))
                time.sleep(0.1)
        except Ended:
            pass
        return time.monotonic() - start
    ended_in_time(end)


@both
def test_a_slow_packet_within_the_time_is_taken(broker, v):
    packet = wire.publish(v, broker.name("t"), b"x" * 8)

    def attempt(pace):
        client = broker.connect(v, keep_alive=1)
        client.subscribe(broker.name("t"))
        time.sleep(0.9)
        client.send(packet[:1])
        pace()
        for part in (packet[1:6], packet[6:9], packet[9:]):
            time.sleep(0.25)
            client.send(part)
        pace.end()
        client.message(payload=b"x" * 8)
    in_time(attempt, IN_TIME_S)


@both
@shows(v5="3.1.2-22", v3="3.1.2-24")
def test_no_keep_alive(broker, v):
    client = broker.connect(v, keep_alive=0)
    assert client.is_quiet(2.2)
    client.ping()


@shows(v5="3.1.2-22 3.2.2-22")
def test_the_servers_keep_alive(broker):
    """Told in the CONNACK, it counts instead of the client's."""
    for asked in (0, 300):
        start = time.monotonic()
        client = broker.connect(V5, listener="keeping", keep_alive=asked)
        assert client.connack.props["server_keep_alive"] == 1
        client.expect_end(0x8D)
        assert time.monotonic() - start >= 1.5 - EARLY_S
    # 3.1.1 has no way to be told, so its own counts.
    client = broker.connect(V311, listener="keeping", keep_alive=300)
    assert client.is_quiet(2.2)
    client.ping()


@shows(v5="3.2.2-22")
def test_the_servers_longest_keep_alive(broker):
    for asked, told in ((0, 30), (31, 30), (30, None), (5, None)):
        client = broker.connect(V5, listener="capped", keep_alive=asked)
        assert client.connack.props.get("server_keep_alive") == told, asked
    assert "server_keep_alive" not in broker.connect(V5, keep_alive=0).connack.props


@both
@shows(v5="3.12.4-1", v3="3.12.4-1")
def test_each_pingreq_is_answered(broker, v):
    client = broker.connect(v, keep_alive=10)
    client.send(wire.PING * 100)
    for _ in range(100):
        assert client.expect(wire.PINGRESP).raw == b"\xd0\0"
    client.bye()

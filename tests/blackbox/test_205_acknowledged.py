# SPDX-License-Identifier: Apache-2.0
"""An answer that promises something comes when it is on disk: commits wait as long as they may (commit_delay), and the gateway
is killed right behind each answer."""
import pytest

from harness.durable import FOREVER, client, crash, durable, gateways
from harness.mqtt_peer import Ended, wire

gateway = gateways({"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0", "inflight_max": 20}}, (1, 2), commit_delay="100ms")


@pytest.mark.parametrize("version", [wire.V5, wire.V311])
def test_suback_and_unsuback(gateway, version):
    s = durable(gateway, "u", version=version)
    s.subscribe("a", qos=1)
    s.subscribe("b", qos=1)
    s.unsubscribe("a")
    crash(gateway)
    with client(gateway).hello() as p:
        p.publish("a", b"1", 1)
        p.publish("b", b"2", 1)
    with durable(gateway, "u", version=version) as s:
        assert s.connack.session_present
        assert s.message().payload == b"2"


@pytest.mark.parametrize("version", [wire.V5, wire.V311])
@pytest.mark.parametrize("connected", [False, True])
def test_connack_of_a_clean_start(gateway, version, connected):
    """The session that was wiped is not found again."""
    old = durable(gateway, "c", version=version)
    old.subscribe("t", qos=1)
    if not connected:
        old.bye()
    s = client(gateway, version=version).hello("c", True)
    assert not s.connack.session_present
    crash(gateway)
    with durable(gateway, "c", version=version) as s:
        assert not s.connack.session_present


def test_connack_of_a_clean_start_that_nobody_waited_for(gateway):
    """The first one to wipe it leaves at once: the second is told the same truth."""
    durable(gateway, "c").bye()
    first = client(gateway)
    first.send(wire.connect(wire.V5, "c", True))
    first.drop()
    try:
        second = client(gateway).hello("c", True)
    except Ended:  # the first came after it, by way of another worker, and took over
        second = client(gateway).hello("c", True)
    assert not second.connack.session_present
    crash(gateway)
    with durable(gateway, "c") as s:
        assert not s.connack.session_present


def test_packets_behind_a_connect_that_waits(gateway):
    """They come right behind it, and are answered in their order."""
    durable(gateway, "c").bye()
    s = client(gateway)
    s.send(wire.connect(wire.V5, "c", True, props=dict(FOREVER)) + wire.subscribe(wire.V5, 1, [("t", wire.options(1))]) +
           wire.publish(wire.V5, "t", b"x", 1, 7))
    s.expect(wire.CONNACK)
    s.expect(wire.SUBACK, ident=1)
    got = {p.kind for p in (s.recv(), s.recv())}
    assert got == {wire.PUBLISH, wire.PUBACK}
    s.id = "c"


def test_puback_of_retained_messages(gateway):
    p = client(gateway).hello()
    p.publish("r/1", b"1", 1, retain=True)
    p.publish("r/2", b"2", 1, retain=True)
    p.publish("r/1", b"", 1, retain=True)
    crash(gateway)
    with client(gateway).hello() as s:
        s.subscribe("r/#", qos=1)
        assert s.message().topic == "r/2"


def test_pubcomp(gateway):
    """Its packet identifier is the client's again: a message under it is a new one."""
    durable(gateway, "to").subscribe("t", qos=2)
    p = durable(gateway, "from")
    p.publish("t", b"1", 2, ident=9)
    crash(gateway)
    with durable(gateway, "from") as p:
        p.publish("t", b"2", 2, ident=9)
    with durable(gateway, "to") as s:
        assert [s.message().payload for _ in range(2)] == [b"1", b"2"]


def members(gateway, count, window=2):
    """Of a shared subscription; they acknowledge nothing, so that each is full after `window` messages."""
    made = []
    for i in range(count):
        s = client(gateway).hello(f"m{i}", False, props=dict(FOREVER, receive_max=window))
        s.subscribe("$share/g/s/#", qos=1)
        made.append(s)
    return made


def test_shared_subscription_whose_members_are_full(gateway):
    """What none of them has room for is kept all the same; each message comes back to one of them."""
    count = 20
    held = members(gateway, 3)
    for n in range(4):  # publishers on different workers
        p = client(gateway).hello(f"p{n}")
        for i in range(n, count, 4):
            assert p.publish("s/x", b"%d" % i, 1) == 0
    assert all(m.sock is not None for m in held)
    crash(gateway)
    got = []
    for i in range(3):
        s = durable(gateway, f"m{i}")
        assert s.connack.session_present
        s.subscribe("fence", qos=1)
        with client(gateway).hello() as fence:
            got += [int(m.payload) for m in s.messages_before(fence, 1)]
        s.bye()
    assert sorted(got) == list(range(count))


def test_shared_subscription_whose_members_are_away(gateway):
    count = 12
    for s in members(gateway, 3):
        s.bye()
    for n in range(4):
        p = client(gateway).hello(f"p{n}")
        for i in range(n, count, 4):
            assert p.publish("s/x", b"%d" % i, 1) == 0
    crash(gateway)
    got = []
    for i in range(3):
        s = durable(gateway, f"m{i}")
        s.subscribe("fence", qos=1)
        with client(gateway).hello() as fence:
            got += [int(m.payload) for m in s.messages_before(fence, 1)]
        s.bye()
    assert sorted(got) == list(range(count))

# SPDX-License-Identifier: Apache-2.0
"""QoS 2 to a shared subscription through a crash: what docs/mqtt.md promises. Without a crash exactly once, however often the connection
breaks; a crash between the message's record and that of its exchange makes it come a second time, and never makes it vanish.
Commits wait as long as they may (commit_delay), so that kills fall between them."""
import random
import time
from collections import Counter

import pytest

from harness.durable import crash, durable, gateways
from harness.mqtt_peer import wire

MEMBERS, PUBLISHERS, ROUNDS, AHEAD = 4, 3, 8, 4
pytestmark = pytest.mark.guard(120)
gateway = gateways({"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0"}}, (1, 3), commit_delay="5ms")


def subscribe_all(gateway):
    for n in range(MEMBERS):
        with durable(gateway, f"m{n}", True) as s:
            s.subscribe("$share/g/t/#", qos=2)
            s.bye()
    with durable(gateway, "plain", True) as s:
        s.subscribe("t/#", qos=2)
        s.bye()


def drain(gateway, name):
    with durable(gateway, name) as s:
        s.subscribe("sync/" + name, qos=2)
        s.publish("sync/" + name, b"end", 2)
        got = []
        while True:
            m = s.message()
            if m.topic.startswith("sync/"):
                break
            got.append(int(m.payload))
        s.unsubscribe("sync/" + name)
        s.bye()
    return got


def finish(p, idents):
    """What a client does that has come back: PUBLISH again, with DUP, of all that had no PUBREC, and each exchange to its end."""
    p.send(*(p.publish_bytes("t/x", b"%d" % number, 2, ident, dup=True) for ident, number in idents.items()))
    for ident in idents:
        assert p.wait_for(wire.PUBREC, ident=ident).reason in (0, 0x10)
    for ident in idents:
        p.ack(wire.PUBREL, ident)
        p.wait_for(wire.PUBCOMP, ident=ident)


def test_connections_that_break(gateway):
    subscribe_all(gateway)
    for at in range(0, 40, AHEAD):
        idents = {1 + i % 60: i for i in range(at, at + AHEAD)}
        p = durable(gateway, "publisher")
        p.send(*(p.publish_bytes("t/x", b"%d" % i, 2, ident) for ident, i in idents.items()))
        if at % (2 * AHEAD):
            p.wait_for(wire.PUBREC)
        p.drop()
        with durable(gateway, "publisher") as p:
            assert p.connack.session_present or at == 0
            finish(p, idents)
    assert sorted(n for m in range(MEMBERS) for n in drain(gateway, f"m{m}")) == list(range(40))
    assert drain(gateway, "plain") == list(range(40))


def test_crashes(gateway):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    subscribe_all(gateway)
    count = 0
    for _ in range(ROUNDS):
        open_now = {}
        for n in range(PUBLISHERS):
            p = durable(gateway, f"p{n}")
            open_now[n] = {1 + i % 60000: i for i in range(count, count + AHEAD)}
            p.send(*(p.publish_bytes("t/x", b"%d" % i, 2, ident) for ident, i in open_now[n].items()))
            count += AHEAD
        time.sleep(draw.uniform(0, 0.02))  # not a measure: where the kill falls
        crash(gateway)
        for n, idents in open_now.items():
            with durable(gateway, f"p{n}") as p:
                finish(p, idents)
    shared = Counter(n for m in range(MEMBERS) for n in drain(gateway, f"m{m}"))
    plain = Counter(drain(gateway, "plain"))
    for got in (shared, plain):
        assert sorted(got) == list(range(count)), f"lost: {sorted(set(range(count)) - set(got))}"
        assert max(got.values()) <= 2, f"more than twice: {got.most_common(3)}"

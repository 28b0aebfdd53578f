# SPDX-License-Identifier: Apache-2.0
"""kill -9 under load, with a ledger. Publishers of QoS 1 and 2 with sessions of their own send numbered messages to durable
subscribers, some connected and some away; the gateway is killed at random and started again. At the end: nothing that was
acknowledged is missing, each publisher's messages come in its order, and QoS 2 comes exactly once."""
import os
import random
import sys
import threading
import time

import pytest

from harness import engines
from harness.gateway import Gateway
from harness.wait import until

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "conformance"))
from mqtt import wire  # noqa: E402
from mqtt.client import Client, Ended  # noqa: E402

ENGINES = [(e, w) for e in engines.selected() for w in (1, 2)]
LISTENERS = {"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0", "max_queued_messages": 1000000,
                      "max_queued_bytes": "256m", "receive_max": 1000, "inflight_max": 20}}
FOREVER = {"session_expiry": 0xFFFFFFFF}
KILLS = 4
GONE = (OSError, Ended, AssertionError)


class Party(threading.Thread):
    """A client that comes back until it is told to stop."""

    def __init__(self, world, name):
        super().__init__(daemon=True)
        self.world, self.name, self.failure = world, name, None

    def run(self):
        try:
            while not self.done():
                try:
                    with Client(self.world.gateway.address("mqtt")) as c:
                        c.sock.settimeout(3)  # a gateway that was killed says nothing
                        c.hello(self.name, False, props=FOREVER)
                        self.session(c)
                except GONE:
                    time.sleep(0.02)
        except Exception as e:  # told by the test
            self.failure = e

    def done(self):
        return self.world.over


class Publisher(Party):
    """Up to WINDOW messages on their way. After a reconnect what was not acknowledged is sent again, in order."""
    WINDOW = 16

    def __init__(self, world, name, qos):
        super().__init__(world, name)
        self.qos, self.next, self.acknowledged = qos, 0, set()
        self.open = {}  # packet identifier -> [number, "sent" or "released"], in the order of sending

    def done(self):
        return self.world.quiet and not self.open

    def packet(self, c, ident, number, dup):
        topic = f"load/{self.qos}/{self.name}"
        return wire.publish(c.version, topic, b"%s %d" % (self.name.encode(), number), self.qos, ident, dup=dup)

    def session(self, c):
        present = c.connack.session_present
        if not present and self.open and self.qos == 2:
            self.world.lost_sessions += 1
        for ident, (number, state) in list(self.open.items()):
            if state == "sent":
                c.send(self.packet(c, ident, number, True))
            else:
                c.ack(wire.PUBREL, ident)
        while not self.done():
            while len(self.open) < self.WINDOW and not self.world.quiet:
                ident = next(i for i in range(1, 65536) if i not in self.open)
                self.open[ident] = [self.next, "sent"]
                self.next += 1  # before it is sent, which may fail
                c.send(self.packet(c, ident, self.next - 1, False))
            if self.open:
                self.take(c, c.recv())

    def take(self, c, it):
        if it.kind == wire.PUBACK or (it.kind == wire.PUBREC and it.reason >= 0x80):
            number, _ = self.open.pop(it.ident)
            if it.reason < 0x80:
                self.acknowledged.add(number)
        elif it.kind == wire.PUBREC:
            self.open[it.ident][1] = "released"
            self.acknowledged.add(self.open[it.ident][0])
            c.ack(wire.PUBREL, it.ident)
        elif it.kind == wire.PUBCOMP:
            self.open.pop(it.ident)


class Subscriber(Party):
    """Takes what comes. A QoS 2 message counts when its PUBLISH comes with an identifier that is not open."""

    def __init__(self, world, name):
        super().__init__(world, name)
        self.got, self.idents, self.connections = [], set(), 0

    def session(self, c):
        self.connections += 1
        if not c.connack.session_present:
            self.world.lost_sessions += 1
        while not self.done():
            it = c.recv()
            if it.kind == wire.PUBLISH:
                if it.qos == 1 or it.ident not in self.idents:
                    self.got.append((it.qos, (it.dup, it.ident, self.connections), it.payload))
                if it.qos == 2:
                    self.idents.add(it.ident)
                c.ack(wire.PUBACK if it.qos == 1 else wire.PUBREC, it.ident)
            elif it.kind == wire.PUBREL:
                self.idents.discard(it.ident)
                c.ack(wire.PUBCOMP, it.ident)


class World:
    def __init__(self, gateway):
        self.gateway, self.over, self.quiet, self.lost_sessions = gateway, False, False, 0


def judge(world, publishers, subscriber):
    by = {}
    for qos, dup, payload in subscriber.got:
        name, number = payload.decode().split()
        by.setdefault(name, []).append((int(number), dup))
    for p in publishers:
        got = by.get(p.name, [])
        numbers = [n for n, _ in got]
        missing = p.acknowledged - set(numbers)
        assert not missing, f"{p.name} -> {subscriber.name}: {len(missing)} acknowledged are missing: {sorted(missing)[:9]}"
        first = list(dict.fromkeys(numbers))
        assert first == sorted(first), f"{p.name} -> {subscriber.name}: out of order"
        if p.qos == 2:
            twice = sorted({n for n in numbers if numbers.count(n) > 1}) if len(numbers) != len(set(numbers)) else []
            assert not twice, (f"{p.name} -> {subscriber.name}: QoS 2 twice: {twice[:9]}: "
                               f"{[g for g in got if g[0] in twice[:3]]}")
            strangers = set(numbers) - set(range(p.next))
            assert not strangers


@pytest.mark.parametrize("engine,workers", ENGINES, ids=lambda v: str(v))
def test_killed_under_load(sluice, engine, workers):
    engines.need(engine)
    chance = random.Random(workers)
    gateway = Gateway(sluice, engine, workers=workers, listeners=LISTENERS)
    try:
        gateway.start()
        world = World(gateway)
        names = [f"online{i}" for i in range(2)] + [f"away{i}" for i in range(2)]
        for name in names:
            with Client(gateway.address("mqtt")).hello(name, True, props=FOREVER) as c:
                c.subscribe("load/#", qos=2)
                c.bye()
        publishers = [Publisher(world, f"p{qos}{i}", qos) for qos in (1, 2) for i in range(2)]
        online = [Subscriber(world, n) for n in names[:2]]
        for party in publishers + online:
            party.start()
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.3, 0.9))
            gateway.process.kill()
            gateway.process.wait()
            gateway.spawn()
            # The port is another one: clients find it again.
            gateway.forget_addresses()
            until(gateway._is_ready, lambda: gateway.explain("the gateway is ready"), 30)
            gateway.forget_addresses()
        until(lambda: sum(len(p.acknowledged) for p in publishers) > 50, "messages are acknowledged", 30)
        time.sleep(0.5)
        world.quiet = True
        for p in publishers:
            p.join(30)
            assert not p.is_alive() and p.failure is None, f"{p.name}: {p.failure!r}, open: {p.open}"
        away = [Subscriber(world, n) for n in names[2:]]
        for s in away:
            s.start()
        until(lambda: all(s.connections for s in away), "those that were away are back", 30)
        until(lambda: gateway.metric("sluice_mqtt_queued") == 0 and gateway.metric("sluice_mqtt_in_flight") == 0,
              lambda: f"everything is delivered: {[len(s.got) for s in online + away]}", 60)
        world.over = True
        for s in online + away:
            s.join(30)
            assert not s.is_alive() and s.failure is None, f"{s.name}: {s.failure!r}"
        assert world.lost_sessions == 0
        for s in online + away:
            judge(world, publishers, s)
    finally:
        Client.end_all()
        gateway.kill()
        gateway.remove()

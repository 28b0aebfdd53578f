# SPDX-License-Identifier: Apache-2.0
"""Clients that misbehave as networks do: threads that publish and subscribe while they cut, reset and take over
their own connections, and that keep their half of the protocol's state as the standard asks of a client.

What each actor saw is for the test to judge: a QoS 1 message at least once, a QoS 2 message exactly once, the
first copies of each publisher's messages in order.
"""
import random
import threading
import time

from . import wire
from .client import Ended

END_S = 30


class Actor(threading.Thread):
    def __init__(self, broker, version, client_id, seed, calm_after):
        super().__init__(daemon=True)
        self.broker, self.version, self.id = broker, version, client_id
        self.random, self.calm_after = random.Random(seed), calm_after
        self.client, self.problem, self.connects, self.over = None, None, 0, False

    def run(self):
        try:
            self.work()
        except Exception as e:  # noqa: BLE001 - the test's own thread reports it
            self.problem = f"{self.id}: {e!r}"

    def connect(self):
        props = {"session_expiry": 300} if self.version == wire.V5 else None
        client = self.broker.raw(self.version)
        client.sock.settimeout(END_S)
        client.hello(self.id, clean=False, props=props)
        self.connects += 1
        if self.connects > 1:
            assert client.connack.session_present, "the session is lost"
        self.client = client
        self.resume()

    def disturb(self):
        """From time to time the connection ends in one of the ways it can."""
        if time.monotonic() > self.calm_after or self.random.random() > 0.02:
            return
        old, how = self.client, self.random.choice(["drop", "reset", "bye", "takeover", "half"])
        if how == "half":
            old.sock.sendall(b"\x32")  # the first byte of a packet, and no more
            how = "drop"
        if how == "bye":
            old.send(wire.disconnect(self.version))
        if how == "takeover":
            self.connect()
            old.drop()
            return
        (old.reset if how == "reset" else old.drop)()
        if self.random.random() < 0.3:
            time.sleep(self.random.random() * 0.1)
        self.connect()

    def step(self, timeout):
        """One packet, if one comes in that time; a cut connection is made again."""
        if not self.client.buffer and not self.client.early:
            self.client.sock.settimeout(timeout)
            try:
                piece = self.client.sock.recv(1 << 16)
            except TimeoutError:
                return None
            except ConnectionResetError:
                piece = b""
            finally:
                self.client.sock.settimeout(END_S)
            if not piece:
                raise Ended("the broker closed the connection")
            self.client.buffer += piece
        return self.client.recv()


class Publisher(Actor):
    """Publishes numbers on its topic, QoS 1 and 2 in turns, a few at a time."""
    WINDOW = 6

    def __init__(self, *args, topic, count):
        super().__init__(*args)
        self.topic, self.count, self.sent, self.flight = topic, count, 0, {}

    def packet(self, ident, dup):
        number, qos, released = self.flight[ident]
        if released:
            return wire.ack(self.version, wire.PUBREL, ident)
        return wire.publish(self.version, self.topic, b"%d" % number, qos, ident, dup=dup)

    def resume(self):
        self.client.send(*[self.packet(ident, True) for ident in self.flight])

    def work(self):
        self.connect()
        end = time.monotonic() + END_S
        while self.sent < self.count or self.flight:
            assert time.monotonic() < end, f"not acknowledged: {self.flight}"
            if self.sent < self.count and len(self.flight) < self.WINDOW:
                ident = self.sent % 60000 + 1
                self.flight[ident] = (self.sent, 1 + self.sent % 2, False)
                self.sent += 1
                self.client.send(self.packet(ident, False))
            it = self.step(0.0005 if len(self.flight) < self.WINDOW else 0.05)
            if it and it.kind == wire.PUBREC and it.ident in self.flight:
                number, qos, _ = self.flight[it.ident]
                assert qos == 2 and it.reason in (0, 0x10), it
                # What is released is sent again as PUBREL, in the order of the releases.
                self.flight[it.ident] = (number, qos, True)
                self.client.send(wire.ack(self.version, wire.PUBREL, it.ident))
            elif it and it.kind in (wire.PUBACK, wire.PUBCOMP):
                assert it.reason in (0, 0x10) or (it.kind == wire.PUBCOMP and it.reason == 0x92), it
                self.flight.pop(it.ident, None)
            self.disturb()
        self.client.drop()
        self.over = True


class Subscriber(Actor):
    """Takes what comes, as a client with a store would: a QoS 2 identifier it holds is not a new message."""

    def __init__(self, *args, filters, finished):
        super().__init__(*args)
        self.filters, self.finished = filters, finished
        self.seen, self.held, self.ready = [], set(), threading.Event()

    def resume(self):
        pass

    def work(self):
        self.connect()
        self.client.subscribe(*[(f, 2) for f in self.filters])
        self.ready.set()
        end = time.monotonic() + END_S
        while not self.finished():
            assert time.monotonic() < end, "what is missing does not come"
            it = self.step(0.05)
            if it and it.kind == wire.PUBLISH:
                self.take(it)
            elif it and it.kind == wire.PUBREL:
                self.held.discard(it.ident)
                self.client.ack(wire.PUBCOMP, it.ident)
            self.disturb()
        self.client.drop()
        self.over = True

    def take(self, it):
        if it.qos != 2 or it.ident not in self.held:
            self.seen.append((it.topic, it.qos, int(it.payload), it.dup))
        if it.qos == 2:
            self.held.add(it.ident)
        if self.random.random() < 0.05 and time.monotonic() < self.calm_after:
            # Cut before the acknowledgement: the message is owed again.
            self.client.drop()
            self.connect()
        else:
            self.client.ack(wire.PUBACK if it.qos == 1 else wire.PUBREC, it.ident)

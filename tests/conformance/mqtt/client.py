# SPDX-License-Identifier: Apache-2.0
"""A client that sends what a test says and answers only what a test lets it answer.

Every wait ends: GUARD_S is a hang guard, not a measurement. That nothing comes is shown by what comes next
instead of by waiting: nothing_before() lets a publisher send a marker the same way and expects it first.
"""
import itertools
import socket
import struct
import weakref

from harness.wait import GUARD_S

from . import wire
from .wire import V5, V311, Will  # noqa: F401

_numbers = itertools.count(1)


class Ended(AssertionError):
    """The broker ended the connection while a packet was expected."""


class Client:
    everyone = weakref.WeakSet()

    @classmethod
    def end_all(cls):
        for client in list(cls.everyone):
            client.drop()

    def __init__(self, address, version=V5, rcvbuf=None):
        self.version, self.connack, self.id, self.buffer = version, None, None, b""
        self.early = []
        self.idents, self.fence = itertools.cycle(range(1, 65536)), None
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.settimeout(GUARD_S)
        self.everyone.add(self)
        try:
            self.sock.connect(address)
        except BaseException:
            self.sock.close()
            raise
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.drop()

    # --- bytes ---

    def send(self, *packets):
        try:
            self.sock.sendall(b"".join(packets))
        except (BrokenPipeError, ConnectionResetError) as e:
            raise Ended("the connection was closed before") from e

    def _fill(self, count):
        while len(self.buffer) < count:
            try:
                piece = self.sock.recv(1 << 16)
            except ConnectionResetError as e:
                raise Ended(f"reset; came before: {self.buffer!r}") from e
            except socket.timeout as e:
                raise AssertionError(f"nothing came; before: {self.buffer!r}") from e
            if not piece:
                raise Ended(f"end; came before: {self.buffer!r}" if self.buffer else "end")
            self.buffer += piece

    def recv(self):
        """The next packet, judged."""
        if self.early:
            return self.early.pop(0)
        return self._read()

    def wait_for(self, kind, **fields):
        """The next packet of this kind; what comes before it is kept for later."""
        passed = []
        while True:
            it = self.recv()
            if it.kind == kind and all(getattr(it, k) == v for k, v in fields.items()):
                self.early = passed + self.early
                return it
            passed.append(it)

    def _read(self):
        self._fill(2)
        size = shift = 0
        at = 1
        while True:
            self._fill(at + 1)
            byte = self.buffer[at]
            size |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if not byte & 0x80:
                break
            if shift > 21:
                raise wire.BadPacket("remaining length of more than four bytes")
        if wire.varint(size) != self.buffer[1:at]:
            raise wire.BadPacket("remaining length in more bytes than needed")
        self._fill(at + size)
        raw, self.buffer = self.buffer[:at + size], self.buffer[at + size:]
        return wire.decode(self.version, raw[0], raw[at:], raw)

    def expect(self, kind, **fields):
        """The next packet is of this kind and has these fields."""
        it = self.recv()
        assert it.kind == kind, f"expected {wire.NAMES[kind]}, got {it}"
        for name, value in fields.items():
            assert getattr(it, name) == value, f"{it}: {name} is not {value!r}"
        return it

    def is_quiet(self, seconds):
        """True when nothing comes, not even the end, for so long. For what only time can show."""
        if self.buffer or self.early:
            return False
        self.sock.settimeout(seconds)
        try:
            self.buffer += self.sock.recv(1 << 16)
            return False
        except socket.timeout:
            return True
        except ConnectionResetError:
            return False
        finally:
            self.sock.settimeout(GUARD_S)

    def rest(self):
        """Reads to the end of the connection: the packets that came before it."""
        packets = []
        try:
            while True:
                packets.append(self.recv())
        except Ended:
            assert not self.buffer, f"the connection ended within a packet: {self.buffer!r}"
        return packets

    def expect_end(self, reason=None):
        """The broker ends the connection. 5.0: after a DISCONNECT of that reason (or one of those) where one is
        given, else with any DISCONNECT or none; nothing else comes. 3.x: nothing comes."""
        packets = self.rest()
        self.drop()
        if self.version < V5 or not packets:
            assert not packets, f"packets before the end: {packets}"
            assert self.version < V5 or reason is None, f"ended without a DISCONNECT (expected {reason})"
            return None
        assert len(packets) == 1 and packets[0].kind == wire.DISCONNECT, f"packets before the end: {packets}"
        allowed = (reason,) if isinstance(reason, int) else reason
        assert not allowed or packets[0].reason in allowed, \
            f"{packets[0]} with {packets[0].reason:#x}, expected {[hex(r) for r in allowed]}"
        return packets[0]

    def drop(self):
        """The connection ends without a DISCONNECT."""
        self.sock.close()

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    # --- packets ---

    def ident(self):
        return next(self.idents)

    def hello(self, client_id=None, clean=True, expect=0, **more):
        """CONNECT and CONNACK. expect: the reason or return code, None for any. The id is one of its own
        when none is given."""
        self.id = f"c{next(_numbers)}" if client_id is None else client_id
        self.send(wire.connect(self.version, self.id, clean, **more))
        self.connack = self.expect(wire.CONNACK)
        if expect is not None:
            assert self.connack.reason == expect, f"{self.connack}: expected {expect:#x}"
        return self

    def subscribe(self, *filters, qos=0, props=None, ident=None, **options):
        """filters: texts, or (text, options byte). Returns the codes; a single one that is no failure is
        required for a single text."""
        pairs = [f if isinstance(f, tuple) else (f, wire.options(qos, **options)) for f in filters]
        ident = ident or self.ident()
        self.send(wire.subscribe(self.version, ident, pairs, props))
        codes = self.wait_for(wire.SUBACK, ident=ident).reasons
        assert len(codes) == len(pairs), f"{len(codes)} codes for {len(pairs)} filters"
        if len(filters) == 1 and isinstance(filters[0], str):
            assert codes[0] <= 2, f"{filters[0]!r}: {codes[0]:#x}"
        return codes

    def unsubscribe(self, *filters):
        ident = self.ident()
        self.send(wire.unsubscribe(self.version, ident, filters))
        return self.wait_for(wire.UNSUBACK, ident=ident).reasons

    def publish_bytes(self, topic, payload=b"", qos=0, ident=None, **more):
        return wire.publish(self.version, topic, payload, qos, ident if qos else None, **more)

    def publish(self, topic, payload=b"", qos=0, ident=None, **more):
        """The whole exchange; returns the reason code of the PUBACK or PUBREC. What else comes is kept."""
        ident = (ident or self.ident()) if qos else None
        self.send(self.publish_bytes(topic, payload, qos, ident, **more))
        if qos == 0:
            return 0
        answer = self.wait_for(wire.PUBACK if qos == 1 else wire.PUBREC, ident=ident)
        if qos == 2 and answer.reason < 0x80:
            self.ack(wire.PUBREL, ident)
            self.wait_for(wire.PUBCOMP, ident=ident, reason=0)
        return answer.reason

    def ack(self, kind, ident, reason=0, **more):
        self.send(wire.ack(self.version, kind, ident, reason, **more))

    def message(self, answer=True, **fields):
        """The next packet is a PUBLISH with these fields; it is acknowledged to the end."""
        it = self.expect(wire.PUBLISH, **fields)
        if answer:
            self.answer(it)
        return it

    def answer(self, it):
        if it.qos == 1:
            self.ack(wire.PUBACK, it.ident)
        elif it.qos == 2:
            self.ack(wire.PUBREC, it.ident)
            self.wait_for(wire.PUBREL, ident=it.ident)
            self.ack(wire.PUBCOMP, it.ident)

    def ping(self):
        """Everything sent before was processed on this connection, and nothing came but this answer."""
        self.send(wire.PING)
        self.expect(wire.PINGRESP)

    def bye(self, reason=0, props=None):
        self.send(wire.disconnect(self.version, reason, props))
        packets = self.rest()
        assert not packets, f"after DISCONNECT came {packets}"
        self.drop()

    # --- that something does not come ---

    def watch(self):
        """Prepares nothing_before(), for a client whose deliveries will be of interest."""
        if not self.fence:
            fence = f"fence/{next(_numbers)}"
            self.subscribe(fence, qos=2)
            self.fence = fence
        return self

    def nothing_before(self, publisher, qos=0):
        """What the publisher did before has caused no packet to this client: its marker, published now, is
        the next packet that comes."""
        got = self.messages_before(publisher, qos)
        assert not got, f"unexpected: {got}"

    def messages_before(self, publisher, qos=0):
        """All that comes because of what the publisher did before, acknowledged. qos is that of the messages of
        interest: only among its like the marker has its place."""
        self.watch()
        mark = b"%d" % next(_numbers)
        publisher.publish(self.fence, mark, qos)
        got = []
        while True:
            it = self.message()
            if it.topic != self.fence:
                got.append(it)
            elif it.payload == mark:
                return got

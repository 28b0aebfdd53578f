# SPDX-License-Identifier: Apache-2.0
"""Writes packets as a client and reads packets as a client, byte by byte.

Writing checks nothing: a test may put anything anywhere. Reading is strict: decode() raises BadPacket on
whatever the standard does not let a server send (flags, properties, reason codes, lengths, UTF-8), so that
every packet of every test is judged, not only the one the test is about.
"""
import struct

(CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ,
 PINGRESP, DISCONNECT, AUTH) = range(1, 16)
NAMES = {v: k for k, v in list(globals().items()) if isinstance(v, int)}

V31, V311, V5 = 3, 4, 5

# name: (identifier, kind, packets in which a server may send it)
PROPERTIES = {
    "payload_format": (0x01, "byte", {PUBLISH}),
    "message_expiry": (0x02, "u32", {PUBLISH}),
    "content_type": (0x03, "text", {PUBLISH}),
    "response_topic": (0x08, "text", {PUBLISH}),
    "correlation_data": (0x09, "binary", {PUBLISH}),
    "subscription_id": (0x0B, "varint", {PUBLISH}),
    "session_expiry": (0x11, "u32", {CONNACK}),
    "assigned_client_id": (0x12, "text", {CONNACK}),
    "server_keep_alive": (0x13, "u16", {CONNACK}),
    "auth_method": (0x15, "text", {CONNACK, AUTH}),
    "auth_data": (0x16, "binary", {CONNACK, AUTH}),
    "request_problem_info": (0x17, "byte", set()),
    "will_delay": (0x18, "u32", set()),
    "request_response_info": (0x19, "byte", set()),
    "response_info": (0x1A, "text", {CONNACK}),
    "server_reference": (0x1C, "text", {CONNACK, DISCONNECT}),
    "reason_string": (0x1F, "text", {CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, DISCONNECT, AUTH}),
    "receive_max": (0x21, "u16", {CONNACK}),
    "topic_alias_max": (0x22, "u16", {CONNACK}),
    "topic_alias": (0x23, "u16", {PUBLISH}),
    "qos_max": (0x24, "byte", {CONNACK}),
    "retain_available": (0x25, "byte", {CONNACK}),
    "user_property": (0x26, "pair", {CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, DISCONNECT,
                                     AUTH}),
    "packet_size_max": (0x27, "u32", {CONNACK}),
    "wildcard_available": (0x28, "byte", {CONNACK}),
    "subscription_id_available": (0x29, "byte", {CONNACK}),
    "shared_available": (0x2A, "byte", {CONNACK}),
}
BY_ID = {ident: (name, kind, where) for name, (ident, kind, where) in PROPERTIES.items()}
REPEATABLE = {"user_property", "subscription_id"}

# Reason codes a server may put into each packet of 5.0.
REASONS = {
    CONNACK: {0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F},
    PUBACK: {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    PUBREC: {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    PUBREL: {0x00, 0x92},
    PUBCOMP: {0x00, 0x92},
    SUBACK: {0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2},
    UNSUBACK: {0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91},
    DISCONNECT: {0x00, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, *range(0x93, 0xA3)},
    AUTH: {0x00, 0x18},
}
FLAGS = {PUBREL: 2}
ACKS = (PUBACK, PUBREC, PUBREL, PUBCOMP)


class BadPacket(AssertionError):
    """The broker sent what no server may send."""


# --- writing ---

def u16(n):
    return struct.pack(">H", n)


def u32(n):
    return struct.pack(">I", n)


def varint(n):
    out = b""
    while True:
        n, low = n >> 7, n & 0x7F
        out += bytes([low | (0x80 if n else 0)])
        if not n:
            return out


def binary(data):
    return u16(len(data)) + data


def text(data):
    return binary(data if isinstance(data, bytes) else data.encode())


def property_bytes(name, value):
    ident, kind, _ = PROPERTIES[name]
    if kind == "pair":
        value = text(value[0]) + text(value[1])
    else:
        value = {"byte": lambda v: bytes([v]), "u16": u16, "u32": u32, "varint": varint, "text": text,
                 "binary": binary}[kind](value)
    return bytes([ident]) + value


def properties(version, props):
    """The property field: nothing in 3.x, else the length and what props names, in that order. A list stands for
    a property that is there several times; bytes are taken as they are, without the length."""
    if version < V5:
        return b""
    if isinstance(props, bytes):
        return varint(len(props)) + props
    out = b""
    for name, value in (props or {}).items():
        for one in value if isinstance(value, list) else [value]:
            out += property_bytes(name, one)
    return varint(len(out)) + out


def packet(kind, flags, body):
    return bytes([kind << 4 | flags]) + varint(len(body)) + body


def connect(version, client_id, clean=True, keep_alive=0, props=None, will=None, user=None, password=None, flags=None,
            name=None, level=None, payload=None):
    """will: a Will. flags, name, level and payload replace what follows from the rest."""
    bits = (2 if clean else 0) | (0x80 if user is not None else 0) | (0x40 if password is not None else 0)
    fields = text(client_id)
    if will:
        bits |= 4 | will.qos << 3 | (0x20 if will.retain else 0)
        fields += properties(version, will.props) + text(will.topic) + binary(will.payload)
    if user is not None:
        fields += text(user)
    if password is not None:
        fields += binary(password)
    name = name if name is not None else ("MQIsdp" if version == V31 else "MQTT")
    return packet(CONNECT, 0, text(name) + bytes([version if level is None else level, bits if flags is None else flags])
                  + u16(keep_alive) + properties(version, props) + (fields if payload is None else payload))


class Will:
    def __init__(self, topic, payload=b"gone", qos=0, retain=False, props=None):
        self.topic, self.payload, self.qos, self.retain, self.props = topic, payload, qos, retain, props


def publish(version, topic, payload=b"", qos=0, ident=None, retain=False, dup=False, props=None):
    return packet(PUBLISH, qos << 1 | (1 if retain else 0) | (8 if dup else 0),
                  text(topic) + (u16(ident) if ident is not None else b"") + properties(version, props) + payload)


def ack(version, kind, ident, reason=0, props=None, flags=None):
    """PUBACK, PUBREC, PUBREL, PUBCOMP in the shortest form that says it."""
    body = u16(ident)
    if version == V5 and (reason or props is not None):
        body += bytes([reason]) + (properties(version, props) if props is not None else b"")
    return packet(kind, FLAGS.get(kind, 0) if flags is None else flags, body)


def options(qos=0, no_local=False, retain_as_published=False, retain_handling=0):
    return qos | (4 if no_local else 0) | (8 if retain_as_published else 0) | retain_handling << 4


def subscribe(version, ident, filters, props=None, flags=2):
    """filters: (filter, options byte) pairs."""
    return packet(SUBSCRIBE, flags, u16(ident) + properties(version, props)
                  + b"".join(text(f) + bytes([o]) for f, o in filters))


def unsubscribe(version, ident, filters, props=None, flags=2):
    return packet(UNSUBSCRIBE, flags, u16(ident) + properties(version, props) + b"".join(map(text, filters)))


def disconnect(version, reason=0, props=None, flags=0):
    body = b""
    if version == V5 and (reason or props is not None):
        body = bytes([reason]) + (properties(version, props) if props is not None else b"")
    return packet(DISCONNECT, flags, body)


def auth(reason=0x18, props=None, flags=0):
    return packet(AUTH, flags, bytes([reason]) + properties(V5, props or {}))


PING = packet(PINGREQ, 0, b"")


# --- reading ---

class Cursor:
    def __init__(self, data, what):
        self.data, self.at, self.what = data, 0, what

    def take(self, count):
        if self.at + count > len(self.data):
            raise BadPacket(f"{self.what}: a field reaches beyond the end: {self.data!r}")
        piece = self.data[self.at:self.at + count]
        self.at += count
        return piece

    def byte(self):
        return self.take(1)[0]

    def u16(self):
        return struct.unpack(">H", self.take(2))[0]

    def u32(self):
        return struct.unpack(">I", self.take(4))[0]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                if byte == 0 and shift:
                    raise BadPacket(f"{self.what}: variable byte integer longer than needed")
                return value
            shift += 7
            if shift > 21:
                raise BadPacket(f"{self.what}: variable byte integer too long")

    def binary(self):
        return self.take(self.u16())

    def text(self):
        try:
            value = self.binary().decode()
        except UnicodeDecodeError as e:
            raise BadPacket(f"{self.what}: {e}") from e
        if "\0" in value:
            raise BadPacket(f"{self.what}: U+0000 in a string")
        return value

    @property
    def left(self):
        return len(self.data) - self.at


class Packet:
    """What came, decoded: those of ident, reason, reasons, props, topic, payload, qos, dup, retain and
    session_present that the packet has. raw is the packet as it came."""
    ident = reason = topic = payload = qos = session_present = None
    dup = retain = False
    reasons = ()

    def __init__(self, kind, flags, raw):
        self.kind, self.flags, self.raw, self.props = kind, flags, raw, {}

    def __repr__(self):
        told = {k: v for k, v in vars(self).items() if k not in ("kind", "raw", "flags") and v not in (None, {}, ())}
        return f"{NAMES.get(self.kind, self.kind)}({', '.join(f'{k}={v!r}' for k, v in told.items())})"


def read_properties(cursor, kind):
    inner = Cursor(cursor.take(cursor.varint()), cursor.what + " properties")
    found = {}
    while inner.left:
        ident = inner.varint()
        if ident not in BY_ID:
            raise BadPacket(f"{inner.what}: no such property: {ident:#x}")
        name, value_kind, where = BY_ID[ident]
        if kind not in where:
            raise BadPacket(f"{inner.what}: {name} in {NAMES[kind]} from a server")
        value = (inner.text(), inner.text()) if value_kind == "pair" else getattr(inner, value_kind)()
        if name in REPEATABLE:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise BadPacket(f"{inner.what}: {name} twice")
        else:
            found[name] = value
    for name in ("payload_format", "qos_max", "retain_available", "wildcard_available", "shared_available",
                 "subscription_id_available"):
        if found.get(name, 0) not in (0, 1):
            raise BadPacket(f"{inner.what}: {name} = {found[name]}")
    for name in ("receive_max", "packet_size_max", "topic_alias"):
        if found.get(name) == 0:
            raise BadPacket(f"{inner.what}: {name} = 0")
    if 0 in found.get("subscription_id", ()):
        raise BadPacket(f"{inner.what}: subscription identifier 0")
    return found


def _reason(packet_, version, code):
    if version == V5 and code not in REASONS[packet_.kind]:
        raise BadPacket(f"{NAMES[packet_.kind]} with reason {code:#x}")
    return code


def decode(version, first, body, raw):
    """One packet from a server, judged; version is that of the CONNECT."""
    kind, flags = first >> 4, first & 15
    it, cursor = Packet(kind, flags, raw), Cursor(body, NAMES.get(kind, str(kind)))
    if kind not in NAMES or kind in (CONNECT, SUBSCRIBE, UNSUBSCRIBE, PINGREQ):
        raise BadPacket(f"a server sends no packet of type {kind}")
    if version < V5 and kind in (DISCONNECT, AUTH):
        raise BadPacket(f"a server of 3.x sends no {NAMES[kind]}")
    if kind != PUBLISH and flags != FLAGS.get(kind, 0):
        raise BadPacket(f"{NAMES[kind]} with flags {flags:#x}")
    {CONNACK: _connack, PUBLISH: _publish, PINGRESP: lambda *_: None, DISCONNECT: _disconnect, AUTH: _disconnect,
     SUBACK: _suback, UNSUBACK: _suback}.get(kind, _ack)(it, cursor, version)
    if cursor.left:
        raise BadPacket(f"{it}: {cursor.left} bytes behind the last field")
    return it


def _connack(it, cursor, version):
    flags = cursor.byte()
    if flags & 0xFE:
        raise BadPacket(f"CONNACK flags {flags:#x}")
    it.session_present = bool(flags)
    if cursor.data == b"\0\x01":
        # A version that is not served is refused in the form of 3.1.1, whatever form the client used.
        it.reason = cursor.byte()
        return
    it.reason = _reason(it, version, cursor.byte())
    if version < V5 and it.reason > 5:
        raise BadPacket(f"CONNACK with return code {it.reason}")
    if it.reason and it.session_present:
        raise BadPacket("session present in a refusal")
    if version == V5:
        it.props = read_properties(cursor, CONNACK)


def _publish(it, cursor, version):
    it.qos, it.dup, it.retain = it.flags >> 1 & 3, bool(it.flags & 8), bool(it.flags & 1)
    if it.qos == 3 or (it.dup and it.qos == 0):
        raise BadPacket(f"PUBLISH with flags {it.flags:#x}")
    it.topic = cursor.text()
    if "+" in it.topic or "#" in it.topic:
        raise BadPacket(f"PUBLISH with the topic {it.topic!r}")
    if it.qos:
        it.ident = cursor.u16()
        if not it.ident:
            raise BadPacket("PUBLISH with packet identifier 0")
    if version == V5:
        it.props = read_properties(cursor, PUBLISH)
    if not it.topic and "topic_alias" not in it.props:
        raise BadPacket("PUBLISH without a topic")
    it.payload = cursor.take(cursor.left)


def _ack(it, cursor, version):
    it.ident, it.reason = cursor.u16(), 0
    if version == V5 and cursor.left:
        it.reason = _reason(it, version, cursor.byte())
        if cursor.left:
            it.props = read_properties(cursor, it.kind)


def _suback(it, cursor, version):
    it.ident = cursor.u16()
    if version == V5:
        it.props = read_properties(cursor, it.kind)
    if version == V5 or it.kind == SUBACK:
        it.reasons = [_reason(it, version, c) for c in cursor.take(cursor.left)]
        if not it.reasons:
            raise BadPacket(f"{NAMES[it.kind]} without a reason code")
        if version < V5 and not set(it.reasons) <= {0, 1, 2, 0x80}:
            raise BadPacket(f"SUBACK with {it.reasons}")


def _disconnect(it, cursor, version):
    it.reason = 0
    if cursor.left:
        it.reason = _reason(it, version, cursor.byte())
        if cursor.left:
            it.props = read_properties(cursor, it.kind)

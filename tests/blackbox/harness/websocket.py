# SPDX-License-Identifier: Apache-2.0
"""A WebSocket client with exact control of its bytes, and the few MQTT 3.1.1 packets that its tests need."""
import base64
import hashlib
import os
import struct

from .client import Device

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MASK = b"\x37\xfa\x21\x3d"
ACCEPT_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(payload, opcode=BINARY, final=True, mask=MASK, reserved=0, length_form=None):
    """A client's frame; mask None: not masked; length_form 2 or 8: the length in so many bytes."""
    form = length_form or (1 if len(payload) < 126 else 2 if len(payload) < 65536 else 8)
    second = len(payload) if form == 1 else {2: 126, 8: 127}[form]
    head = bytes([0x80 * final | reserved | opcode, 0x80 * (mask is not None) | second])
    head += len(payload).to_bytes(form, "big") if form > 1 else b""
    if mask is None:
        return head + payload
    return head + mask + bytes(b ^ mask[i & 3] for i, b in enumerate(payload))


def request(path="/mqtt", key=None, protocol="mqtt", **fields):
    """The handshake's bytes. fields replace or add header fields; None leaves one out."""
    key = key or base64.b64encode(os.urandom(16)).decode()
    values = {"Host": "gateway", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": key,
              "Sec-WebSocket-Version": "13", "Sec-WebSocket-Protocol": protocol}
    values.update({name.replace("_", "-"): value for name, value in fields.items()})
    lines = [f"GET {path} HTTP/1.1"] + [f"{n}: {v}" for n, v in values.items() if v is not None]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def accept_of(key):
    return base64.b64encode(hashlib.sha1(key.encode() + ACCEPT_SUFFIX).digest()).decode()


class WebSocket(Device):
    def answer(self):
        """The head of the handshake's answer: (status, fields)."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.recv_exact(1)
        lines = head.decode().split("\r\n")
        return int(lines[0].split()[1]), dict(line.split(": ", 1) for line in lines[1:] if line)

    def open(self, **more):
        key = base64.b64encode(os.urandom(16)).decode()
        self.send(request(key=key, **more))
        status, fields = self.answer()
        assert status == 101, (status, fields)
        assert fields["Sec-WebSocket-Accept"] == accept_of(key) and fields["Upgrade"] == "websocket"
        self.stream = b""
        return self

    def recv_ws(self):
        """One frame of the gateway: (opcode, payload). It is final and not masked."""
        first, second = self.recv_exact(2)
        assert first & 0xf0 == 0x80, f"first byte {first:#x}"
        assert second < 128, "a server does not mask"
        length = second
        if length == 126:
            (length,) = struct.unpack(">H", self.recv_exact(2))
            assert length > 125
        elif length == 127:
            (length,) = struct.unpack(">Q", self.recv_exact(8))
            assert length > 65535
        return first & 15, self.recv_exact(length)

    def recv_stream(self, count):
        """Bytes of the binary messages, wherever their frames end."""
        while len(self.stream) < count:
            opcode, payload = self.recv_ws()
            assert opcode == BINARY, (opcode, payload)
            self.stream += payload
        data, self.stream = self.stream[:count], self.stream[count:]
        return data

    def expect_packet(self, packet):
        got = self.recv_stream(len(packet))
        assert got == packet, f"got {got[:80]!r}, expected {packet[:80]!r}"

    def expect_close(self, code):
        opcode, payload = self.recv_ws()
        assert (opcode, payload) == (CLOSE, struct.pack(">H", code)), (opcode, payload)

    def connect_mqtt(self, ident):
        self.send(frame(mqtt_connect(ident)))
        self.expect_packet(CONNACK)
        return self


# --- MQTT 3.1.1 ---

CONNACK = b"\x20\x02\0\0"
PINGREQ, PINGRESP, DISCONNECT = b"\xc0\0", b"\xd0\0", b"\xe0\0"


def _packet(first, body):
    length, out = len(body), b""
    while True:
        out += bytes([length % 128 | (0x80 if length >= 128 else 0)])
        length //= 128
        if not length:
            return bytes([first]) + out + body


def _text(text):
    return struct.pack(">H", len(text)) + text.encode()


def mqtt_connect(ident, keep_alive=60):
    return _packet(0x10, b"\0\4MQTT\4\2" + struct.pack(">H", keep_alive) + _text(ident))


def publish(topic, payload, qos=0, number=None):
    return _packet(0x30 | qos << 1, _text(topic) + (struct.pack(">H", number) if qos else b"") + payload)


def subscribe(number, topic, qos=0):
    return _packet(0x82, struct.pack(">H", number) + _text(topic) + bytes([qos]))


def suback(number, qos=0):
    return b"\x90\x03" + struct.pack(">H", number) + bytes([qos])


def puback(number):
    return b"\x40\x02" + struct.pack(">H", number)

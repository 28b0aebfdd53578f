# SPDX-License-Identifier: Apache-2.0
"""A DHCP server that does as it is told: answers with any options, refuses, or says nothing."""
import socket
import struct
import threading

DISCOVER, OFFER, REQUEST, DECLINE, ACK, NAK = 1, 2, 3, 4, 5, 6
COOKIE = b"\x63\x82\x53\x63"


def parse(message):
    options, at = {}, 240
    while at < len(message) and message[at] != 255:
        if message[at] == 0:
            at += 1
            continue
        options[message[at]] = message[at + 2:at + 2 + message[at + 1]]
        at += 2 + message[at + 1]
    return options


class FakeDhcp:
    """answer(type, options) returns a list of (type, options) to send, in order. seen: what clients asked."""

    def __init__(self, lab, answer, address="10.9.0.50", server="10.9.0.1"):
        self.answer, self.address, self.source = answer, socket.inet_aton(address), socket.inet_aton(server)
        self.seen = []

        def make():
            raw = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
            raw.bind(("s0", 0x0800))
            raw.settimeout(0.2)
            return raw
        self.raw = lab.in_server(make)
        self.ended = False
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def close(self):
        self.ended = True
        self.thread.join()
        self.raw.close()

    def types(self):
        return [t for t, _ in self.seen]

    def usual(self, lease=600, server=None, **more):
        options = {54: server if server is not None else self.source, 51: struct.pack(">I", lease), 1: b"\xff\xff\xff\0",
                   3: self.source}
        options.update({int(k[1:]): v for k, v in more.items()})
        return {k: v for k, v in options.items() if v is not None}

    def _serve(self):
        while not self.ended:
            try:
                packet, where = self.raw.recvfrom(2048)
            except socket.timeout:
                continue
            header = (packet[0] & 15) * 4
            if packet[9] != 17 or packet[header + 2:header + 4] != struct.pack(">H", 67):
                continue
            message = packet[header + 8:]
            asked = parse(message)
            kind = asked[53][0]
            self.seen.append((kind, asked))
            for reply, options in self.answer(self, kind, asked):
                if isinstance(reply, bytes):
                    self._send(reply, where)
                else:
                    self._send(self._build(message, reply, options), where)

    def _build(self, asked, kind, options):
        reply = b"\x02\x01\x06\0" + asked[4:8] + b"\0" * 8 + (self.address if kind != NAK else b"\0" * 4)
        reply += b"\0" * 8 + asked[28:44] + b"\0" * 192 + COOKIE + bytes([53, 1, kind])
        for code, value in options.items():
            reply += bytes([code, len(value)]) + value
        return (reply + b"\xff").ljust(300, b"\0")

    def _send(self, message, where):
        udp = struct.pack(">HHHH", 67, 68, 8 + len(message), 0) + message
        head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, self.source, b"\xff" * 4)
        total = sum(struct.unpack(">10H", head))
        total = (total & 0xffff) + (total >> 16)
        total = (total & 0xffff) + (total >> 16)
        head = head[:10] + struct.pack(">H", ~total & 0xffff) + head[12:]
        self.raw.sendto(head + udp, ("s0", 0x0800, 0, 1, b"\xff" * 6))

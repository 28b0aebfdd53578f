# SPDX-License-Identifier: Apache-2.0
"""TLS clients: Python's ssl (OpenSSL) around a Device, and exact bytes for those that behave badly."""
import ssl
import struct

from .client import Device

ALERT, HANDSHAKE, DATA = 21, 22, 23
ALERTS = {0: "close_notify", 10: "unexpected_message", 20: "bad_record_mac", 22: "record_overflow",
          40: "handshake_failure", 42: "bad_certificate", 44: "certificate_revoked", 45: "certificate_expired",
          48: "unknown_ca", 50: "decode_error", 70: "protocol_version", 100: "no_renegotiation"}


def context(pki, ca="ca", cert=None, ciphers=None, groups=None, alpn=None, version=ssl.TLSVersion.TLSv1_2):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.maximum_version = version
    made.load_verify_locations(pki.cert(ca))
    if cert:
        made.load_cert_chain(pki.cert(cert), pki.key(cert))
    if ciphers:
        made.set_ciphers(ciphers)
    if groups:
        made.set_ecdh_curve(groups)
    if alpn:
        made.set_alpn_protocols(alpn)
    return made


class TlsDevice(Device):
    """A Device whose bytes go through TLS."""

    def __init__(self, address, tls, name="localhost", session=None, **settings):
        super().__init__(address, **settings)
        self.plain = self.sock
        try:
            self.sock = tls.wrap_socket(self.plain, server_hostname=name, session=session)
        except BaseException:
            self.plain.close()
            raise


class Cut(Device):
    """OpenSSL over memory: what goes out can be cut anywhere."""

    def __init__(self, address, tls, name="localhost", session=None):
        super().__init__(address)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = tls.wrap_bio(self.incoming, self.outgoing, server_hostname=name, session=session)

    def push(self, piece):
        data = self.outgoing.read()
        for at in range(0, len(data), piece):
            self.sock.sendall(data[at:at + piece])

    def run(self, call, piece):
        while True:
            try:
                result = call()
                self.push(piece)
                return result
            except ssl.SSLWantReadError:
                self.push(piece)
                data = self.sock.recv(65536)
                assert data, "the gateway closed"
                self.incoming.write(data)


def record(kind, payload, version=0x0303):
    return struct.pack(">BHH", kind, version, len(payload)) + payload


def read_record(device):
    """The next record of the gateway: type and payload."""
    head = device.recv_exact(5)
    kind, _, length = struct.unpack(">BHH", head)
    return kind, device.recv_exact(length)


def client_hello(suites=(0xC02B,), version=0x0303, extensions=None, session=b""):
    """A ClientHello record. By default with P-256 and ECDSA with SHA-256."""
    if extensions is None:
        extensions = (struct.pack(">HHHH", 10, 4, 2, 23) + struct.pack(">HHHBB", 13, 4, 2, 4, 3) +
                      struct.pack(">HHBB", 11, 2, 1, 0) + struct.pack(">HHB", 0xFF01, 1, 0))
    body = struct.pack(">H", version) + b"r" * 32 + bytes([len(session)]) + session
    body += struct.pack(">H", 2 * len(suites)) + b"".join(struct.pack(">H", s) for s in suites)
    body += b"\x01\x00" + struct.pack(">H", len(extensions)) + extensions
    return record(HANDSHAKE, b"\x01" + struct.pack(">I", len(body))[1:] + body, 0x0301)

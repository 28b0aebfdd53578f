# SPDX-License-Identifier: Apache-2.0
"""A framed device with exact control of its bytes: what goes out in which piece, when it reads, and how it
ends (orderly, half, or with a reset)."""
import json
import socket
import struct
import weakref

from .wait import GUARD_S

HEARTBEAT = b"\0\0\0\0"


def frame(payload):
    return struct.pack(">I", len(payload)) + payload


def ack(number):
    return struct.pack(">IQ", 8, number)


def hello(ident, token=None, **more):
    members = {"id": ident, **more}
    if token is not None:
        members["token"] = token
    return frame(json.dumps(members).encode())


class Ended(AssertionError):
    """The gateway ended the connection while bytes were expected."""


class Device:
    """Devices a failed test leaves open are closed by end_all, so that they fail no other test."""
    open_devices = weakref.WeakSet()

    @classmethod
    def end_all(cls):
        for device in list(cls.open_devices):
            device.close()

    def __init__(self, address, guard_s=None, rcvbuf=None, sndbuf=None, source=None, nodelay=True):
        unix = isinstance(address, str)
        family = socket.AF_UNIX if unix else (
            socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.pending = b""
        self.open_devices.add(self)
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        if sndbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sndbuf)
        if source:
            self.sock.bind((source, 0))
        self.sock.settimeout(guard_s or GUARD_S)
        try:
            self.sock.connect(address)
        except BaseException:
            self.sock.close()
            raise
        if nodelay and not unix:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.local = None if unix else self.sock.getsockname()[:2]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def peer_text(self):
        """How the gateway prints this device's address."""
        host, port = self.local
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def send(self, data):
        self.sock.sendall(data)

    def send_some(self, data):
        """Sends what fits without waiting; returns how much that was."""
        self.sock.setblocking(False)
        try:
            return self.sock.send(data)
        except BlockingIOError:
            return 0
        finally:
            self.sock.settimeout(GUARD_S)

    def recv_exact(self, count):
        data = self.pending[:count]
        self.pending = self.pending[count:]
        while len(data) < count:
            try:
                piece = self.sock.recv(min(count - len(data), 1 << 20))
            except ConnectionResetError as e:
                raise Ended(f"reset after {len(data)} of {count} bytes: {data[:80]!r}") from e
            except socket.timeout as e:
                self.pending = data  # for who reads on later
                raise AssertionError(f"no more than {len(data)} of {count} bytes came") from e
            if not piece:
                raise Ended(f"end after {len(data)} of {count} bytes: {data[:80]!r}")
            data += piece
        return data

    def recv_frame(self):
        head = self.recv_exact(4)
        try:
            return self.recv_exact(struct.unpack(">I", head)[0])
        except AssertionError:
            self.pending = head + self.pending
            raise

    def recv_ack(self):
        payload = self.recv_frame()
        assert len(payload) == 8, f"an ack has 8 bytes, not {payload!r}"
        return struct.unpack(">Q", payload)[0]

    def expect(self, data):
        got = self.recv_exact(len(data))
        assert got == data, f"got {got[:120]!r}, expected {data[:120]!r}"

    def expect_end(self):
        """Reads until the gateway ends the connection; returns (how, bytes that came before)."""
        data, self.pending = self.pending, b""
        while True:
            try:
                piece = self.sock.recv(1 << 16)
            except ConnectionResetError:
                return "reset", data
            except socket.timeout as e:
                raise AssertionError(f"not ended; got {len(data)} bytes {data[:80]!r}") from e
            if not piece:
                return "eof", data
            data += piece

    def drain_to_end(self):
        """Reads whatever comes until the gateway ends the connection, in order or with a reset."""
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionError:
            pass

    def is_quiet(self, seconds):
        """True when neither bytes nor an end come for so long."""
        self.sock.settimeout(seconds)
        try:
            piece = self.sock.recv(1 << 16)
            self.pending += piece
            return False
        except (socket.timeout, BlockingIOError):  # the latter when seconds is 0
            return True
        except ConnectionResetError:
            return False
        finally:
            self.sock.settimeout(GUARD_S)

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()

    # --- publish mode ---

    def say_hello(self, ident, token=None):
        self.send(hello(ident, token))
        number = self.recv_ack()
        assert number == 0, f"hello answered by ack {number}"
        return self

# SPDX-License-Identifier: Apache-2.0
"""A small HTTP/1.1 client over TCP or a unix socket. It is strict where the gateway must be right (status
line, header syntax, Content-Length or chunked framing) because the tests judge the server by it."""
import json
import socket

from .wait import GUARD_S


class HttpError(AssertionError):
    pass


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def text(self):
        return self.body.decode()

    def json(self):
        return json.loads(self.body)


def connect(address, guard_s=None):
    """address: a path of a unix socket, or (host, port)."""
    family = socket.AF_UNIX if isinstance(address, str) else (
        socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.settimeout(guard_s or GUARD_S)
    try:
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


def read_response(stream, head_only=False):
    line = stream.readline(8192)
    if not line:
        raise HttpError("closed without a response")
    parts = line.decode().rstrip("\r\n").split(" ", 2)
    if not line.endswith(b"\r\n") or parts[0] not in ("HTTP/1.1", "HTTP/1.0") or len(parts) < 2:
        raise HttpError(f"bad status line {line!r}")
    headers = {}
    while True:
        line = stream.readline(8192)
        if line == b"\r\n":
            break
        if not line.endswith(b"\r\n") or b":" not in line:
            raise HttpError(f"bad header line {line!r}")
        name, value = line.decode().split(":", 1)
        headers[name.strip().lower()] = value.strip()
    body = b""
    if head_only:
        pass
    elif headers.get("transfer-encoding", "").lower() == "chunked":
        while True:
            size = int(stream.readline(64).split(b";")[0], 16)
            body += stream.read(size)
            if stream.read(2) != b"\r\n":
                raise HttpError("chunk without its end")
            if size == 0:
                break
    elif "content-length" in headers:
        length = int(headers["content-length"])
        body = stream.read(length)
        if len(body) != length:
            raise HttpError(f"body of {len(body)} bytes, announced {length}")
    else:
        body = stream.read()
    return Response(int(parts[1]), headers, body)


def request(address, path, method="GET", body=None, headers=None, guard_s=None):
    """One request on a connection of its own."""
    with connect(address, guard_s) as sock:
        lines = [f"{method} {path} HTTP/1.1", "Host: sluice", "Connection: close"]
        lines += [f"{k}: {v}" for k, v in (headers or {}).items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))
        with sock.makefile("rb") as stream:
            return read_response(stream, head_only=method == "HEAD")


class Session:
    """Requests one after the other on one connection, for when no other can be had."""

    def __init__(self, address, guard_s=None):
        self.sock = connect(address, guard_s)
        self.stream = self.sock.makefile("rb")

    def request(self, path, method="GET"):
        self.sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return read_response(self.stream, head_only=method == "HEAD")

    def close(self):
        self.stream.close()
        self.sock.close()

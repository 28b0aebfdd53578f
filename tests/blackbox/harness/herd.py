# SPDX-License-Identifier: Apache-2.0
"""Very many client connections in a process of their own, which has its own descriptor limit.

Herd is the test's side; run as a program this file is the other side: it takes one JSON command a line on
stdin and answers each with one JSON line. Commands: open, echo, close, quit.
"""
import errno
import json
import os
import resource
import select
import socket
import struct
import subprocess
import sys
import time

MARGIN_FDS = 64


class Herd:
    def __init__(self):
        from . import proc
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        preexec_fn=proc.child_setup())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def call(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"error": "the herd has died"}')
        assert "error" not in answer, answer
        return answer

    def open(self, address, count, sources=4, guard_s=60):
        """Opens count connections more, a bounded number at a time. Returns {"open", "failed": {errno: n}}."""
        return self.call(do="open", address=list(address), count=count, sources=sources, guard_s=guard_s)

    def echo(self, payload_bytes=16, guard_s=60):
        """Sends a frame of its own on every connection and checks every reply. Returns {"ok", "ended", ...}."""
        return self.call(do="echo", bytes=payload_bytes, guard_s=guard_s)

    def close(self, count=None, reset=True):
        """Closes so many (all when None). reset keeps TIME_WAIT from using up the ports of later tests."""
        return self.call(do="close", count=count, reset=reset)


class _Flock:
    WINDOW = 256  # connects under way at once

    def __init__(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.socks = []
        self.number = 0

    def open(self, address, count, sources, guard_s):
        end = time.monotonic() + guard_s
        poll, pending, failed, started = select.epoll(), {}, {}, 0
        while (started < count or pending) and time.monotonic() < end:
            while started < count and len(pending) < self.WINDOW:
                sock = socket.socket()
                sock.setblocking(False)
                if sources > 1:
                    sock.bind((f"127.0.0.{2 + started % sources}", 0))
                started += 1
                code = sock.connect_ex(tuple(address))
                if code not in (0, errno.EINPROGRESS):
                    failed[errno.errorcode[code]] = failed.get(errno.errorcode[code], 0) + 1
                    sock.close()
                    continue
                pending[sock.fileno()] = sock
                poll.register(sock, select.EPOLLOUT)
            for fd, _ in poll.poll(1):
                sock = pending.pop(fd)
                poll.unregister(fd)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    failed[errno.errorcode[code]] = failed.get(errno.errorcode[code], 0) + 1
                    sock.close()
                else:
                    self.socks.append(sock)
        for sock in pending.values():
            failed["guard"] = failed.get("guard", 0) + 1
            sock.close()
        poll.close()
        return {"open": len(self.socks), "failed": failed}

    def echo(self, bytes, guard_s):
        end = time.monotonic() + guard_s
        poll, waiting, ended, wrong = select.epoll(), {}, 0, 0
        for sock in self.socks:
            self.number += 1
            payload = struct.pack(">Q", self.number).ljust(bytes, b"h")
            data = struct.pack(">I", len(payload)) + payload
            try:
                sock.sendall(data)
            except OSError:
                ended += 1
                continue
            waiting[sock.fileno()] = [sock, data, b""]
            poll.register(sock, select.EPOLLIN)
        ok = 0
        while waiting and time.monotonic() < end:
            for fd, _ in poll.poll(1, 1024):
                state = waiting[fd]
                try:
                    piece = state[0].recv(65536)
                except ConnectionResetError:
                    piece = b""
                state[2] += piece
                done = state[2] == state[1]
                if done or not piece or not state[1].startswith(state[2]):
                    ok += done
                    ended += not piece
                    wrong += bool(piece) and not done
                    poll.unregister(fd)
                    del waiting[fd]
        poll.close()
        return {"ok": ok, "ended": ended, "wrong": wrong, "waiting": len(waiting)}

    def close(self, count, reset):
        count = len(self.socks) if count is None else count
        linger = struct.pack("ii", 1, 0)
        for sock in self.socks[:count]:
            if reset:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            sock.close()
        del self.socks[:count]
        return {"open": len(self.socks)}


def main():
    flock = _Flock()
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(flock, command.pop("do"))(**command)
        except Exception as e:  # the test must see it, whatever it is
            answer = {"error": repr(e)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""A link between a client and a server that is slow, breaks, or is away."""
import socket
import threading
import time


def end_listening(server):
    """A thread that waits in accept() ends: close() alone would leave it there, on a descriptor that the next socket gets."""
    try:
        server.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    server.close()


class Link:
    """Forwards connections to a unix socket or an address. slow: bytes a second that go up while fewer than slow_until went; cuts: totals of
    bytes at which the connection that brings them ends."""

    def __init__(self, target):
        self.target, self.up, self.slow, self.slow_until, self.cuts, self.away = target, 0, 0, 0, [], False
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = self.server.getsockname()
        threading.Thread(target=self._run, daemon=True).start()

    def close(self):
        end_listening(self.server)

    def _run(self):
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX if isinstance(self.target, str) else socket.AF_INET)
            if self.away or far.connect_ex(self.target) != 0:
                near.close()
                continue
            near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            threading.Thread(target=self._move, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._move, args=(far, near, False), daemon=True).start()

    def _move(self, source, to, upward):
        try:
            while True:
                data = source.recv(512 if self.up < self.slow_until else 65536)
                if not data:
                    break
                if upward:
                    if self.up < self.slow_until:
                        time.sleep(len(data) / self.slow)
                    self.up += len(data)
                    if self.cuts and self.up >= self.cuts[0]:
                        self.cuts.pop(0)
                        break
                to.sendall(data)
        except OSError:
            pass
        for s in (source, to):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

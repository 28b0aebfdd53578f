# SPDX-License-Identifier: Apache-2.0
"""Time servers on loopback, as a guest's user network reaches them at 10.0.2.2: each tells the time it was given."""
import socket
import struct
import threading
import time


class TimeServer:
    def __init__(self, unix_time):
        self.offset = unix_time - time.time()
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self.asked = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _stamp(self):
        now = time.time() + self.offset + 2208988800
        return struct.pack(">II", int(now) & 0xffffffff, int(now % 1 * (1 << 32)))

    def _serve(self):
        while True:
            try:
                data, peer = self.sock.recvfrom(512)
            except OSError:
                return
            self.asked += 1
            head = struct.pack(">BBbbII4s", 4 << 3 | 4, 2, 6, -20, 64, 64, b"TEST")
            self.sock.sendto(head + self._stamp() + data[40:48] + self._stamp() + self._stamp(), peer)

    def close(self):
        self.sock.close()

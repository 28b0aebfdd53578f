# SPDX-License-Identifier: Apache-2.0
"""A gateway whose data stays over restarts, and MQTT 3.1.1 clients that are quick enough to fill it: packets are made in whole
batches and read back by slices, so that one Python process keeps up with the disk."""
import array
import os
import re
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time

import gateway as gw
import mqtt_peers as peers

PUBACK = b"\x40\x02"


class Sluice(peers.Sluice):
    """start, end and kill keep the data; `with` removes it."""

    def __init__(self, cpus, settings="", listener="", sections="", engine="auto"):
        super().__init__(cpus, engine, settings, listener)
        self.sections = sections
        self.port = peers.free_port()
        self.ready_s, self.starts = 0, 0

    def command(self):
        path = self.write("sluice.conf", f"""workers = {len(self.cpus.split(','))};
data_dir = "{self.dir.name}/data";
{self.settings}
admin {{ enabled = false; }}
{self.sections}
listener mqtt {{ protocol = mqtt; bind = "127.0.0.1:{self.port}"; anonymous = true; receive_max = 65535; {self.listener} }}
""")
        return [gw.SLUICE, "run", "-c", path, "--engine", self.engine]

    def ready(self):
        """A client is let in: the kernel takes connections earlier."""
        try:
            dial(self.port, "bench-ready")[0].close()
            return True
        except (OSError, peers.PeerError):
            return False

    def log_path(self):
        return os.path.join(self.dir.name, f"log.{self.starts}")

    def log(self):
        with open(self.log_path(), encoding="utf-8", errors="replace") as f:
            return f.read()

    def ctl(self, *words):
        done = subprocess.run([gw.SLUICE, "ctl", "--socket", f"{self.dir.name}/data/ctl.sock", *words], capture_output=True,
                              text=True, timeout=30, check=False)
        return done.stdout if done.returncode == 0 else ""

    def metric(self, name):
        """The sum of a metric over its labels."""
        found = re.findall(rf"^{name}(?:\{{[^}}]*\}})? ([0-9.e+-]+)$", self.ctl("metrics"), re.M)
        return sum(map(float, found))

    def start(self, limit_s=300):
        self.starts += 1
        command = ["taskset", "-c", self.cpus, *self.command()]
        began = time.monotonic()
        with open(self.log_path(), "wb") as f:
            self.process = subprocess.Popen(command, stdout=f, stderr=subprocess.STDOUT)
        self.pid = self.process.pid
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > began + limit_s:
                raise peers.PeerError(f"the gateway did not start: {self.log()[-800:]}")
            time.sleep(0.005)
        self.ready_s = time.monotonic() - began
        return self

    def end(self, how=signal.SIGTERM):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def memory(self, what="VmRSS"):
        """Bytes: VmRSS, RssAnon, VmHWM of /proc/PID/status."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            return int(re.search(rf"^{what}:\s+(\d+) kB", f.read(), re.M)[1]) * 1024

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        self.end()
        self.dir.cleanup()


def drop_caches():
    """What the kernel has read of the disk is forgotten. False: not allowed here."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as f:
            f.write("3\n")
        return True
    except OSError:
        return False


def forget_files(directory):
    """The same for the files of a directory, which needs no rights."""
    for at, _, names in os.walk(directory):
        for name in names:
            try:
                fd = os.open(os.path.join(at, name), os.O_RDONLY)
            except OSError:
                continue
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


# --- packets ---

def length(n):
    out = bytearray()
    while True:
        n, low = n >> 7, n & 127
        out.append(low | (128 if n else 0))
        if not n:
            return bytes(out)


def text(s):
    b = s.encode()
    return struct.pack(">H", len(b)) + b


def connect_packet(client, clean=True, keepalive=0):
    body = text("MQTT") + bytes([4, 2 if clean else 0]) + struct.pack(">H", keepalive) + text(client)
    return b"\x10" + length(len(body)) + body


def subscribe(sock, topic, qos):
    """Until it is granted."""
    sock.sendall(subscribe_packet(topic, qos))
    answer = exactly(sock, 5)
    if answer[0] != 0x90 or answer[4] != qos:
        raise peers.PeerError(f"SUBACK {answer.hex()}")


def subscribe_packet(topic, qos=1, ident=1):
    body = struct.pack(">H", ident) + text(topic) + bytes([qos])
    return b"\x82" + length(len(body)) + body


def publish_head(topic, payload_bytes, qos=1):
    body = text(topic)
    return (b"\x32" if qos else b"\x30") + length(len(body) + (2 if qos else 0) + payload_bytes) + body


def batch(topic, first, count, size, first_id=1):
    """QoS 1 publications whose payloads begin with their number (4 bytes) and are `size` long."""
    head, tail = publish_head(topic, size), bytes(size - 4)
    make = struct.Struct(">HI").pack
    return b"".join([head + make(first_id + i, first + i) + tail for i in range(count)])


def dial(port, client, clean=True, host="127.0.0.1", rcvbuf=None):
    s = socket.socket()
    if rcvbuf:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
    s.connect((host, port))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.settimeout(120)
    s.sendall(connect_packet(client, clean))
    answer = exactly(s, 4)
    if answer[0] != 0x20 or answer[3] != 0:
        raise peers.PeerError(f"CONNACK {answer.hex()}")
    return s, answer[2] == 1


def exactly(s, n):
    out = bytearray()
    while len(out) < n:
        piece = s.recv(n - len(out))
        if not piece:
            raise peers.PeerError("the broker has closed the connection")
        out += piece
    return bytes(out)


def publish(port, count, size, topic="load/t", first=0, clients=4, window=1000, watch=None):
    """count numbered messages, each acknowledged, over a few connections in turn; order is that of each batch.
    watch(done) is called now and then."""
    socks = [dial(port, f"bench-pub-{i}")[0] for i in range(clients)]
    owed, at, watched = [0] * clients, first, time.monotonic()
    turn = 0
    while at < first + count or any(owed):
        i = turn % clients
        turn += 1
        if owed[i]:
            exactly(socks[i], 4 * owed[i])
            owed[i] = 0
        if at < first + count:
            n = min(window, first + count - at)
            socks[i].sendall(batch(topic, at, n, size))
            owed[i], at = n, at + n
        if watch and time.monotonic() > watched + 0.5:
            watched = time.monotonic()
            watch(at - first - sum(owed))
    for s in socks:
        s.sendall(b"\xe0\x00")
        s.close()


# --- what comes back ---

class Reader:
    """The publications of one topic and size as they come over one connection, acknowledged by the slice. numbers: those of the
    payloads in the order they came; first_s, last_s: when the first and the last one came."""

    def __init__(self, sock, topic, size, qos=1):
        self.sock, self.rest, self.qos = sock, bytearray(), qos
        head = publish_head(topic, size, qos)
        self.head, self.at = bytes(head[1:]), len(head)
        self.payload = self.at + (2 if qos else 0)
        self.stride = self.payload + size
        self.numbers = array.array("I")
        self.first_s = self.last_s = 0

    def take(self):
        """One recv. False: the connection has ended."""
        data = self.sock.recv(1 << 20)
        if not data:
            return False
        self.rest += data
        while self.rest and self.rest[0] & 0xF0 != 0x30:
            skip = 2 + self.rest[1] if len(self.rest) > 1 else len(self.rest) + 1
            if len(self.rest) < skip:
                return True
            del self.rest[:skip]
        n = len(self.rest) // self.stride
        if n == 0:
            return True
        block, self.rest = self.rest[:n * self.stride], self.rest[n * self.stride:]
        if block[1:1 + len(self.head)] != self.head:
            raise peers.PeerError(f"an unexpected packet: {bytes(block[:64]).hex()}")
        self.last_s = time.monotonic()
        self.first_s = self.first_s or self.last_s
        step, at = self.stride, self.at
        if self.qos:
            acks = bytearray(PUBACK + b"\0\0") * n
            acks[2::4], acks[3::4] = block[at::step], block[at + 1::step]
            self.sock.sendall(acks)
        values = bytearray(4 * n)
        for k in range(4):
            values[3 - k::4] = block[self.payload + k::step]
        self.numbers.frombytes(values)
        return True


def read_until(reader, done, limit_s, idle_s=60):
    """Takes until done(reader); raises when nothing has come for so long."""
    end = time.monotonic() + limit_s
    reader.sock.settimeout(idle_s)
    while not done(reader):
        if time.monotonic() > end:
            raise peers.PeerError(f"only {len(reader.numbers)} came in {limit_s} s")
        try:
            if not reader.take():
                raise peers.PeerError("the broker has closed the connection")
        except TimeoutError:
            raise peers.PeerError(f"only {len(reader.numbers)} came, then nothing for {idle_s} s") from None


def judge(numbers, count, first=0):
    """(lost, duplicates, reordered) of numbers that should be first, first + 1, ...; the order is that of first sight."""
    if numbers == array.array("I", range(first, first + count)):
        return 0, 0, 0
    seen, extra, back, high = bytearray(count), 0, 0, -1
    for n in numbers:
        if seen[n - first]:
            extra += 1
            continue
        seen[n - first] = 1
        if n < high:
            back += 1
        high = max(high, n)
    return seen.count(0), extra, back


# --- many sessions ---

def sessions(port, names, topic, at_once=500, limit_s=600):
    """Durable sessions with one subscription each, made by clients that connect, subscribe and leave, so many at a time."""
    names, selector, waiting = iter(names), selectors.DefaultSelector(), {}
    end = time.monotonic() + limit_s

    def begin():
        name = next(names, None)
        if name is None:
            return
        s = socket.socket()
        s.connect(("127.0.0.1", port))
        s.sendall(connect_packet(name, clean=False) + subscribe_packet(topic(name)))
        waiting[s] = bytearray()
        selector.register(s, selectors.EVENT_READ)

    for _ in range(at_once):
        begin()
    while waiting:
        if time.monotonic() > end:
            raise peers.PeerError(f"sessions were not made in {limit_s} s")
        for key, _ in selector.select(5):
            s = key.fileobj
            waiting[s] += s.recv(64)
            if len(waiting[s]) < 9:
                continue
            if waiting[s][3] != 0 or waiting[s][8] != 1:
                raise peers.PeerError(f"CONNACK and SUBACK {waiting[s].hex()}")
            s.sendall(b"\xe0\x00")
            selector.unregister(s)
            s.close()
            del waiting[s]
            begin()


def say(what):
    print(what, flush=True)


def mib(n):
    return f"{n / (1 << 20):,.1f} MiB"


def run(name, main):
    """Of a script: main() prints its figures and returns whether they are good."""
    if name != "__main__":
        return
    try:
        sys.exit(0 if main() else 1)
    except (peers.PeerError, gw.BenchError, OSError) as e:
        sys.exit(f"bench: {e}")

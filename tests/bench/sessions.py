# SPDX-License-Identifier: Apache-2.0
"""Many sessions that are away with long queues: memory and disk of each. Usage: sessions.py [--sessions N] [--messages M]

--sessions clients connect, subscribe to one of --topics topics and leave. --messages are published to each, of --size bytes: every session
waits for all messages of its topic. Then the gateway is killed and started again, and --back sessions come for their messages, which must
be all there, in order, once. Good when the gateway's memory has stayed below --limit-mib.
"""
import os
import random
import signal
import time

import arguments
import bulk
from bulk import mib, say



def options():
    p = arguments.Parser(__doc__)
    p.add_argument("--sessions", type=int, default=100000)
    p.add_argument("--messages", type=int, default=1000)
    p.add_argument("--size", type=int, default=1024, help="bytes of a message (default %(default)s)")
    p.add_argument("--topics", type=int, default=100)
    p.add_argument("--back", type=int, default=200)
    p.add_argument("--limit-mib", type=int, default=2048)
    p.add_argument("--workers", type=int, default=1, help="one CPU each")
    return p.parse_args()


def log_bytes(g):
    found = [os.stat(os.path.join(at, n)) for at, _, names in os.walk(f"{g.dir.name}/data/log") for n in names]
    return sum(s.st_blocks * 512 for s in found)


class Meter:
    """Memory and written bytes between steps."""

    def __init__(self, g):
        self.g, self.high = g, 0
        self.memory, self.written = g.memory("RssAnon"), 0

    def step(self, what, count):
        memory, written = self.g.memory("RssAnon"), self.g.metric("sluice_store_written_bytes_total")
        say(f"  {what}: {(memory - self.memory) / count:,.1f} bytes of memory each, {(written - self.written) / count:,.1f} written each; "
            f"now {mib(memory)}, peak {mib(self.g.memory('VmHWM'))}, log on disk {mib(log_bytes(self.g))}")
        self.memory, self.written = memory, written
        self.high = max(self.high, self.g.memory("VmHWM"))


def topic_of(name, topics):
    return f"load/{int(name[1:]) % topics:04d}"


def comes_back(g, name, topic, count, size):
    sock, present = bulk.dial(g.port, name, clean=False)
    with sock:
        if not present:
            raise bulk.peers.PeerError(f"session {name} is gone")
        reader = bulk.Reader(sock, topic, size)
        bulk.read_until(reader, lambda r: len(r.numbers) >= count, 120)
        sock.settimeout(0.05)
        try:
            reader.take()  # one too many would come now
        except TimeoutError:
            pass
        sock.sendall(b"\xe0\x00")
    return bulk.judge(reader.numbers, count)


def main():
    a = options()
    cpus = ",".join(str(i) for i in range(a.workers))
    listener = f"max_queued_messages = {a.messages + 10}; max_queued_bytes = 1g;"
    names = [f"s{i:06d}" for i in range(a.sessions)]
    with bulk.Sluice(cpus, settings="log_max = 16g;", listener=listener) as g:
        meter = Meter(g)
        bulk.sessions(g.port, iter(names), lambda name: topic_of(name, a.topics))
        meter.step(f"{a.sessions:,} sessions made", a.sessions)
        began = time.monotonic()
        for i in range(a.topics):
            bulk.publish(g.port, a.messages, a.size, topic=topic_of(f"s{i}", a.topics), clients=1, window=100)
        say(f"  {a.messages:,} messages for each of them in {time.monotonic() - began:.1f} s")
        meter.step("queued messages", a.sessions * a.messages)
        g.end(signal.SIGKILL)
        g.start()
        say(f"  after a kill it accepts in {g.ready_s:.2f} s, {mib(g.memory('RssAnon'))}, peak {mib(g.memory('VmHWM'))}")
        meter.high = max(meter.high, g.memory("VmHWM"))
        wrong = []
        began = time.monotonic()
        for name in random.Random(1).sample(names, min(a.back, a.sessions)):
            found = comes_back(g, name, topic_of(name, a.topics), a.messages, a.size)
            if found != (0, 0, 0):
                wrong.append((name, *found))
        say(f"  {min(a.back, a.sessions)} sessions got their {a.messages:,} messages in {time.monotonic() - began:.1f} s; "
            f"not as they should (lost, twice, reordered): {wrong[:5] or 'none'}")
        meter.high = max(meter.high, g.memory("VmHWM"))
        say(f"  peak {mib(meter.high)} of {a.limit_mib} MiB")
        return not wrong and meter.high <= a.limit_mib << 20


bulk.run(__name__, main)

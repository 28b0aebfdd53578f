# SPDX-License-Identifier: Apache-2.0
"""How long a start takes with a short and with a long log, and how much memory the gateway has then. Usage: start.py [--mib N,M]

The log is filled through the gateway with a stream of QoS 1 messages (--size), 1,000 durable sessions beside it with messages in
their queues. Then it is killed and started, with what the kernel has cached of the log forgotten before. Rounds are interleaved.
"""
import os
import re
import signal
import statistics

import arguments
import bulk
from bulk import mib, say

SESSIONS = 1000


def options():
    p = arguments.Parser(__doc__, "rounds", rounds={"default": 5})
    p.add_argument("--mib", default="100,10240", help="sizes of the logs to compare, MiB (default %(default)s)")
    p.add_argument("--size", type=int, default=4096, help="bytes of a message (default %(default)s)")
    p.add_argument("--workers", type=int, default=1, help="one CPU each")
    return p.parse_args()


def gateway(a, size_mib):
    room = size_mib * 2 + 2048
    cpus = ",".join(str(i) for i in range(a.workers))
    return bulk.Sluice(cpus, settings=f"log_max = {room}m;",
                          sections=f'stream kept {{ topics = ["load/#"]; max_bytes = {size_mib}m; }}')


def fill(g, a, size_mib):
    bulk.sessions(g.port, (f"s{i}" for i in range(SESSIONS)), lambda name: "few/t")
    bulk.publish(g.port, 200, 64, topic="few/t")
    bulk.publish(g.port, (size_mib << 20) // (a.size + 120), a.size, window=max(1, min(1000, (1 << 20) // a.size)))


def log_bytes(g):
    return sum(os.path.getsize(os.path.join(at, n)) for at, _, names in os.walk(f"{g.dir.name}/data/log") for n in names)


def replay(g):
    """(ms, KiB) that the workers' logs say of their start; the slowest and the sum."""
    found = re.findall(r"records \((\d+) KiB\) read in (\d+) ms", g.log())
    return max((int(ms) for _, ms in found), default=0), sum(int(kib) for kib, _ in found)


def main():
    a = options()
    sizes = [int(n) for n in a.mib.split(",")]
    gateways, rows, forgotten = {}, {n: [] for n in sizes}, False
    try:
        for n in sizes:
            gateways[n] = gateway(a, n).start()
            fill(gateways[n], a, n)
            g = gateways[n]
            say(f"{n} MiB: filled; log {mib(log_bytes(g))}, {g.metric('sluice_store_segments'):.0f} segments, "
                f"RSS {mib(g.memory())}, anonymous {mib(g.memory('RssAnon'))}")
            g.end(signal.SIGKILL)
        for i in range(a.rounds):
            for n in sizes if i % 2 == 0 else reversed(sizes):
                g = gateways[n]
                forgotten = bulk.drop_caches()
                if not forgotten:
                    bulk.forget_files(f"{g.dir.name}/data")
                g.start()
                ms, kib = replay(g)
                rows[n].append((g.ready_s, ms, kib, g.memory(), g.memory("RssAnon")))
                g.end(signal.SIGKILL)
    finally:
        for g in gateways.values():
            g.__exit__()
    say(f"started after a kill, the kernel's cache {'dropped' if forgotten else 'of the log dropped'}, medians of {a.rounds}:")
    medians = {n: [statistics.median(column) for column in zip(*rows[n])] for n in sizes}
    for n in sizes:
        ready, ms, kib, rss, anonymous = medians[n]
        say(f"  {n:6d} MiB: accepts after {ready:.2f} s (longest {max(r[0] for r in rows[n]):.2f}), log read in {ms:.0f} ms "
            f"({kib / 1024:.1f} MiB), RSS {mib(rss)}, anonymous {mib(anonymous)}")
    small, large = medians[sizes[0]], medians[sizes[-1]]
    say(f"  ratio {sizes[-1]} / {sizes[0]} MiB: time {large[0] / small[0]:.2f}, anonymous memory {large[4] / small[4]:.2f}")
    return max(r[0] for r in rows[sizes[-1]]) < 2


bulk.run(__name__, main)

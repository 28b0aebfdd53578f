# SPDX-License-Identifier: Apache-2.0
"""Acknowledged means on disk: what it costs, beside others in the same run. Usage: durable.py [--rounds N] [--seconds S] [--sizes 64,1024]

100 publishers with QoS 1 each keep --inflight messages on their way and wait for the acknowledgement, which comes when the
message is on disk: Sluice with a stream and with a session that is away, and without its log (volatile); nats-server's
JetStream with sync_interval always (publishers that wait for the stream); Mosquitto with its SQLite plugin, which acknowledges
before it commits, with sync normal (its default: not synced either) and full. Each runs alone on --cpus, the generator on
--pin; rounds are interleaved, medians are taken. Flushes and bytes written are the disk's own, by /proc/diskstats.
"""
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import arguments
import durable_peers as durable
import gateway as gw
import mqtt_peers as peers

TIMES_NATS, TIMES_MOSQUITTO, TIMES_DISK = 30, 3, 3
WRITTEN_MAX = 1.3


@dataclasses.dataclass
class Load:
    pubs: int
    inflight: int
    size: int
    seconds: float
    warmup: float
    pin: int
    rate: str
    nice: int = 0


def disk_of(path):
    """The name of the block device a directory is on, as in /proc/diskstats; None where there is none."""
    device = os.stat(path).st_dev
    want = [str(os.major(device)), str(os.minor(device))]
    with open("/proc/diskstats", encoding="ascii") as f:
        for line in f:
            if line.split()[:2] == want:
                return line.split()[2]
    return None


def disk_counts(name):
    """(bytes written, flushes)."""
    with open("/proc/diskstats", encoding="ascii") as f:
        for line in f:
            fields = line.split()
            if fields[2] == name:
                return int(fields[9]) * 512, int(fields[18]) if len(fields) > 18 else 0
    return 0, 0


def disk_alone(seconds):
    """The disk's own p50 and p99 in us for a 4 KiB write and fdatasync, to written blocks."""
    with tempfile.TemporaryDirectory(prefix="sluice-peer-") as directory:
        done = subprocess.run([gw.SLUICE, "bench", "log", "--dir", directory, "--paths", "call", "--files", "written", "--sizes", "4k",
                               "--time", f"{seconds}s", "--json"], capture_output=True, text=True, timeout=120, check=True)
    point = json.loads(done.stdout)["points"][0]
    return {"rate": point["commits_per_s"], "p50": point["p50_us"], "p99": point["p99_us"], "p99.9": point["p99.9_us"]}


def gaps(cpu, seconds=0.8):
    """What the machine itself does not give: the longest times in us, in order, that a thread which only reads the clock does not run on
    a CPU, at real-time priority where that is allowed. Shorter than the second after which the kernel takes it away."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pass
    clock, found = time.monotonic_ns, []
    last = clock()
    end = last + int(seconds * 1e9)
    while last < end:
        now = clock()
        if now - last > 20000:
            found.append((now - last) / 1000)
        last = now
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.sched_setaffinity(0, before)
    return sorted(found, reverse=True)


def machine():
    """One line: the longest gap of each CPU, and how many there were."""
    found = {cpu: gaps(cpu) for cpu in sorted(os.sched_getaffinity(0))}
    return "; ".join(f"CPU {cpu}: longest {g[0] if g else 0:,.0f} us, {len(g)} above 20 us in 0.8 s" for cpu, g in found.items())


def one(make, load, disk):
    with make() as peer:
        for tid in os.listdir(f"/proc/{peer.pid}/task") if load.nice else ():
            os.setpriority(os.PRIO_PROCESS, int(tid), load.nice)
        own = peer.metrics() if isinstance(peer, durable.Sluice) else {}
        begin, before = time.monotonic(), disk_counts(disk)
        result = peer.run(load)
        after, took = disk_counts(disk), time.monotonic() - begin
        if own:
            now = peer.metrics()
            own = {k: now[k] - own.get(k, 0) for k in now if k.startswith("sluice_store_")}
        # The counts are of the whole run, warm-up included, during which the rate is the same.
        messages = result["rate"] * took
        result.update({"flushes": (after[1] - before[1]) / took, "disk_bytes": (after[0] - before[0]) / max(messages * load.size, 1),
                       "commits": own.get("sluice_store_commits_total", 0) / took,
                       "records": own.get("sluice_store_records_total", 0) / max(own.get("sluice_store_commits_total", 0), 1),
                       "log_bytes": own.get("sluice_store_written_bytes_total", 0)
                       / max(own.get("sluice_store_accepted_bytes_total", 0), 1)})
    if result["errors"]:
        print(f"  {peer.name}: errors {result['errors']}", flush=True)
    return result


def measure(a, makers, load, disk):
    """{name: medians}, the disk's own beside."""
    runs, alone, broken = {name: [] for name in makers}, [], set()
    for i in range(a.rounds):
        alone.append(disk_alone(a.disk_seconds))
        for name in makers if i % 2 == 0 else reversed(list(makers)):
            if name in broken:
                continue
            try:
                runs[name].append(one(makers[name], load, disk))
            except (peers.PeerError, OSError, subprocess.SubprocessError) as e:
                print(f"  {name}: {e}", flush=True)
                broken.add(name)
    print(f"a thread that only reads the clock did not run: {machine()}", flush=True)
    medians = {name: {k: statistics.median(r[k] for r in rows) for k in rows[0] if k != "errors"} for name, rows in runs.items() if rows}
    return medians, {k: statistics.median(d[k] for d in alone) for k in alone[0]}, runs


def report(load, medians, alone):
    print(f"\n### {load.pubs} publishers, {load.inflight} in flight each, {load.size} bytes, QoS 1{f', {load.rate}/s' if load.rate else ''}\n")
    print(f"The disk alone: a 4 KiB write and fdatasync takes p50 {alone['p50']:.0f} us, p99 {alone['p99']:.0f} us, p99.9 "
          f"{alone['p99.9']:.0f} us ({alone['rate']:,.0f}/s).\n")
    print("| broker | acknowledged/s | p50 us | p99 | p99.9 | p99.99 | max | CPU us each | disk flushes/s | disk bytes per byte |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, m in medians.items():
        print(f"| {name} | {m['rate']:,.0f} | " + " | ".join(f"{m[p]:,.0f}" for p in ("p50", "p99", "p99.9", "p99.99", "max"))
              + f" | {m['cpu_us']:.1f} | {m['flushes']:,.0f} | {m['disk_bytes']:.2f} |")
    if load.rate:
        late = max(m.get("lag_p99", 0) for m in medians.values())
        print(f"\nThe generator itself was late by {late:,.0f} us at most (p99)", flush=True)
    ours = [m for name, m in medians.items() if name in ("sluice, stream", "sluice, session")]
    if not ours:
        return
    best = max(ours, key=lambda m: m["rate"])
    for m in ours:
        print(f"\nsluice: {m['commits']:,.0f} commits/s of {m['records']:.0f} records, {m['log_bytes']:.2f} bytes written to the log for "
              "each byte given to it", end="")
    print(f"\n\np99 is {best['p99'] / alone['p99']:.1f} times the disk's own (aim: at most {TIMES_DISK})")
    for name, times in (("nats, sync always", TIMES_NATS), ("mosquitto, sqlite normal", TIMES_MOSQUITTO),
                        ("mosquitto, sqlite full", TIMES_MOSQUITTO)):
        if name in medians:
            print(f"{best['rate'] / medians[name]['rate']:.1f} times {name} (aim: at least {times})")
    if "sluice, volatile" in medians:
        print(f"p99 is {best['p99'] / medians['sluice, volatile']['p99']:.1f} times that of the volatile broker")
        print(f"{best['rate'] / medians['sluice, volatile']['rate']:.2f} of the volatile rate")
    if load.size >= 1024:
        print(f"bytes written per byte accepted: {min(m['log_bytes'] for m in ours):.2f} (aim: at most {WRITTEN_MAX})", flush=True)


def makers_of(a):
    known = {"sluice, stream": lambda: durable.Sluice(a.cpus, "stream", settings=a.settings),
             "sluice, session": lambda: durable.Sluice(a.cpus, "session", settings=a.settings),
             "sluice, volatile": lambda: durable.Sluice(a.cpus, "session", durable=False, settings=a.settings)}
    if durable.Mosquitto.plugin():
        for sync in ("normal", "full"):
            known[f"mosquitto, sqlite {sync}"] = lambda s=sync: durable.Mosquitto(a.cpus, s)
    else:
        print("no Mosquitto with its SQLite plugin here: --newest fetches one", flush=True)
    if peers.Nats in peers.installed() and not a.rate:
        known["nats, sync always"] = lambda: durable.Nats(a.cpus)
    return {n: m for n, m in known.items() if not a.brokers or any(n.startswith(b) for b in a.brokers)}


def main():
    parser = arguments.Parser(__doc__, "rounds", "seconds", "brokers", "cpus", "pin", "settings", "newest", "out",
                            brokers={"help": "beginnings of names: sluice,nats"})
    parser.add_argument("--warmup", type=float, default=1)
    parser.add_argument("--disk-seconds", type=float, default=1)
    parser.add_argument("--sizes", type=arguments.numbers, default=[64, 1024])
    parser.add_argument("--pubs", type=int, default=100)
    parser.add_argument("--inflight", type=arguments.numbers, default=[1], help="of each publisher: 1 or 1,16")
    parser.add_argument("--rate", default="", help="messages/s on a schedule instead of as acknowledged; not for nats-server")
    parser.add_argument("--nice", type=int, default=0, help="of the brokers' threads: -20 is before everybody else's")
    a = parser.parse_args()
    arguments.need_gateway()
    if a.newest:
        peers.newest()
    disk = disk_of(tempfile.gettempdir())
    makers = makers_of(a)
    print("; ".join([peers.Sluice.version(), *(c.version() for c in peers.installed())]))
    print(f"kernel {os.uname().release} {os.uname().machine}, {os.cpu_count()} CPUs, disk {disk}, brokers on CPU {a.cpus}, generator on {a.pin}, "
          f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, {a.rounds} rounds of {a.seconds:g} s", flush=True)
    document = {}
    for inflight in a.inflight:
        for size in a.sizes:
            load = Load(a.pubs, inflight, size, a.seconds, a.warmup, a.pin, a.rate, a.nice)
            medians, alone, runs = measure(a, makers, load, disk)
            report(load, medians, alone)
            document[f"{size}x{inflight}"] = {"runs": runs, "disk": alone}
    if a.out:
        with open(a.out, "w", encoding="utf-8") as f:
            json.dump(document, f)
    return 0 if document else 1


if __name__ == "__main__":
    sys.exit(main())

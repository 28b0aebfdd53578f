# SPDX-License-Identifier: Apache-2.0
"""The gateway's benchmarks. Usage: run.py [NAME...] [--rounds N] [--seconds S] [--quick] [--out FILE]

NAME: long short scale idle table stall copies (default: all). Rounds are interleaved (A B C, C B A, ...)
and medians are taken; every figure of interest is a ratio against epoll-et of the same rounds. The server
runs on CPU 0, the generator on CPU 1.
"""
import json
import os
import statistics
import subprocess
import sys
import time

import arguments
import gateway as gw
from gateway import Gateway, bench, pick

ENGINES = ["uring", "epoll-et", "epoll-lt", "poll", "select"]
BASE = "epoll-et"


def say(text):
    print(text, flush=True)


def median(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def number(value, digits=3):
    if value is None:
        return "-"
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"


def table(header, rows):
    say("")
    say("| " + " | ".join(header) + " |")
    say("|" + "|".join("---" for _ in header) + "|")
    for row in rows:
        say("| " + " | ".join(row) + " |")
    say("")


def interleave(variants, rounds, measure):
    """Runs measure(variant) for each variant in alternating order; returns {variant: [documents]}."""
    results = {v: [] for v in variants}
    for r in range(rounds):
        for v in (variants if r % 2 == 0 else variants[::-1]):
            results[v].append(measure(v))
            print(".", end="", file=sys.stderr, flush=True)
    print("", file=sys.stderr)
    return results


def compare(results, kind, base=BASE):
    """Rows of a table with ratios against the base, paired round by round."""
    latency = "long/latency_us/" if kind == "long" else "short/latency_us/"
    fields = ["server/cpu_us_per_exchange", "server/syscalls_per_exchange", "server/switches_per_exchange"]
    tails = [latency + q for q in ("p50", "p99", "p99.9", "max")]
    rows = []
    for v, docs in results.items():
        cpu = median([pick(d, fields[0]) for d in docs])
        ratios = [pick(d, fields[0]) / pick(b, fields[0]) for d, b in zip(docs, results[base])
                  if pick(d, fields[0]) and pick(b, fields[0])]
        row = [str(v), number(cpu), f"{number(median(ratios))} ({number(min(ratios))}-{number(max(ratios))})"
               if ratios else "-"]
        row += [number(median([pick(d, f) for d in docs])) for f in fields[1:]]
        row += [number(median([pick(d, f) for d in docs])) for f in tails]
        row.append(f"{sum(1 for d in docs if d.get('valid'))}/{len(docs)}")
        rows.append(row)
    return rows


HEADER = ["variant", "CPU us", "CPU / epoll-et", "syscalls", "switches", "p50 us", "p99 us", "p99.9 us",
          "max us", "valid"]


def engine_of(variant):
    return variant.split("+")[0]


def settings_of(variant):
    """'uring+min_wait=100us' -> the engine uring with that setting."""
    return "\n".join(part.replace("=", " = ") + ";" for part in variant.split("+")[1:])


def run_long(a):
    """3,000 connections, 64-byte frames echoed: at a rate that keeps epoll near half its core, then the
    highest rate under p99 5 ms."""
    variants = a.variants or ["uring", "uring+min_wait=100us", "uring+min_wait=200us", "epoll-et", "epoll-lt"]

    def at_rate(v):
        with Gateway(engine_of(v), settings=settings_of(v)) as g:
            return bench("frame", g.port, g.process.pid, "--conns", "3000", "--size", "64", "--rate", str(a.rate),
                         "--duration", f"{a.seconds}s", "--warmup", "1s")
    say(f"## long connections: 3,000, 64-byte frames echoed, {a.rate} messages/s")
    results = interleave(variants, a.rounds, at_rate)
    table(HEADER, compare(results, "long"))
    a.document["long"] = results

    def highest(v):
        with Gateway(engine_of(v), settings=settings_of(v)) as g:
            return bench("frame", g.port, g.process.pid, "--conns", "3000", "--size", "64", "--rate", str(a.rate),
                         "--duration", f"{max(2, a.seconds // 2)}s", "--warmup", "500ms", "--find-max", "--p99", "5ms")
    if a.quick:
        return
    say("## long connections: highest rate with p99 under 5 ms")
    results = interleave([v for v in variants if v != "epoll-lt"], 1, highest)
    a.document["long_max"] = results
    table(["variant", "messages/s", "CPU us", "p99 us"],
          [[v, number(pick(d[0], "long/rate_answered")), number(pick(d[0], "server/cpu_us_per_exchange")),
            number(pick(d[0], "long/latency_us/p99"))] for v, d in results.items()])


def run_short(a):
    """connect, 32 bytes, reply, close."""
    variants = a.variants or ["uring", "uring+min_wait=100us", "uring+min_wait=200us", "epoll-et", "epoll-lt"]

    def measure(v):
        with Gateway(engine_of(v), settings=settings_of(v)) as g:
            return bench("conn", g.port, g.process.pid, "--rate", str(a.short_rate), "--duration", f"{a.seconds}s",
                         "--warmup", "1s")
    say(f"## short connections: {a.short_rate}/s of connect, 32 bytes, reply, close")
    results = interleave(variants, a.rounds, measure)
    table(HEADER, compare(results, "short"))
    a.document["short"] = results


def run_scale(a):
    """18,000 framed connections, 3,000 active, two workers."""
    conns, rate = (4000, 5000) if a.quick else (18000, a.scale_rate)

    def measure(v):
        with Gateway(v, workers=2) as g:
            return bench("frame", g.port, g.process.pid, "--conns", str(conns), "--active", "3000", "--rate",
                         str(rate), "--duration", f"{a.seconds}s", "--warmup", "1s", "--wait", "sleep", pin=None)
    say(f"## scale: {conns} connections, 3,000 active, two workers, {rate} messages/s (generator unpinned)")
    results = interleave(["uring", "epoll-et"], a.rounds, measure)
    table(HEADER, compare(results, "long"))
    a.document["scale"] = results


def rss_private(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        fields = dict(line.split(":") for line in f.read().splitlines()[1:])
    return sum(int(fields[k].split()[0]) for k in ("Private_Clean", "Private_Dirty")) * 1024


def run_idle(a):
    """User-space memory of an idle connection: RSS with 15,000 idle minus RSS with none."""
    conns = 3000 if a.quick else 15000
    rows = []
    for engine in ["uring", "epoll-et", "epoll-lt", "poll", "select"]:
        with Gateway(engine) as g:
            d = bench("idle", g.port, g.process.pid, "--conns", str(conns), "--duration", "3s")
            rows.append([engine, number(pick(d, "idle/rss_per_conn")),
                         number(pick(d, "idle/private_per_conn"))])
            a.document.setdefault("idle", {})[engine] = d
    say(f"## memory: {conns} idle connections, bytes each")
    table(["engine", "RSS", "private"], rows)


def run_table(a):
    """select, poll, epoll and uring over connections and share of active ones."""
    rows = []
    sizes = a.sizes or ([200, 800] if a.quick else [200, 800, 5000, 18000])
    for conns in sizes:
        for share in (5, 70, 100):
            active = max(1, conns * share // 100)

            def measure(v, conns=conns, active=active):
                with Gateway(v) as g:
                    return bench("frame", g.port, g.process.pid, "--conns", str(conns), "--active", str(active),
                                 "--rate", str(a.table_rate), "--duration", f"{max(2, a.seconds // 2)}s", "--warmup",
                                 "500ms", "--syscalls", "0")
            results = interleave(ENGINES, max(1, a.rounds - 1), measure)
            cpu = {v: median([pick(d, "server/cpu_us_per_exchange") for d in docs]) for v, docs in results.items()}
            tail = {v: median([pick(d, "long/latency_us/p99") for d in docs]) for v, docs in results.items()}
            base = cpu[BASE]
            rows.append([str(conns), f"{share} %"] +
                        [f"{number(cpu[v] / base if base and cpu[v] else None)} ({number(tail[v])})" for v in ENGINES])
            a.document.setdefault("table", {})[f"{conns}/{share}"] = {"cpu": cpu, "p99": tail}
    say(f"## engines at {a.table_rate} messages/s: CPU per message / epoll-et (p99 us)")
    table(["connections", "active"] + ENGINES, rows)


def run_stall(a):
    """A log sink that nobody reads: p99 with it against p99 without, and the drop counter."""
    def measure(stalled):
        read_end, write_end = os.pipe()
        settings = "log { level = debug; ring = 64k; }" if stalled else "log { level = error; }"
        try:
            with Gateway(a.engine, settings=settings, stderr=write_end) as g:
                d = bench("frame", g.port, g.process.pid, "--conns", "1000", "--rate", "5000", "--short", "200",
                          "--duration", f"{a.seconds}s", "--warmup", "1s")
                d["log_dropped"] = g.metric_sum("sluice_log_dropped_total")
                return d
        finally:
            os.close(write_end)
            os.close(read_end)
    say("## a stalled log sink (debug lines of 200 connects/s into a pipe nobody reads)")
    results = interleave([False, True], a.rounds, measure)
    p99 = {v: median([pick(d, "long/latency_us/p99") for d in docs]) for v, docs in results.items()}
    table(["sink", "p99 us", "ratio", "lines dropped"],
          [["reading" if not v else "stalled", number(p99[v]), number(p99[v] / p99[False] if p99[False] else None),
            number(median([d["log_dropped"] for d in results[v]]))] for v in (False, True)])
    a.document["stall"] = results


def run_copies(a):
    """Copies per byte received: whole frames, and frames larger than a receive buffer."""
    rows = []
    for engine in ["uring", "epoll-et"]:
        for size in (64, 60000):
            with Gateway(engine) as g:
                bench("frame", g.port, g.process.pid, "--conns", "50", "--size", str(size), "--rate",
                      "2000" if size < 1000 else "200", "--duration", "2s", "--warmup", "200ms", "--syscalls", "0")
                received = g.metric_sum("sluice_received_bytes_total")
                copied = g.metric_sum("sluice_copied_in_bytes_total")
                rows.append([engine, str(size), number(received), number(copied / received if received else None)])
    say("## copies per byte received, by counter")
    table(["engine", "frame bytes", "received bytes", "copies per byte"], rows)
    a.document["copies"] = rows


RUNS = {"long": run_long, "short": run_short, "scale": run_scale, "idle": run_idle, "table": run_table,
        "stall": run_stall, "copies": run_copies}


def main():
    parser = arguments.Parser(__doc__, "rounds", "seconds", "out", seconds={"type": int})
    parser.add_argument("names", nargs="*", help=", ".join(RUNS))
    parser.add_argument("--rate", type=int, default=25000, help="messages/s of `long`")
    parser.add_argument("--short-rate", type=int, default=10000, help="connections/s of `short`")
    parser.add_argument("--scale-rate", type=int, default=10000)
    parser.add_argument("--table-rate", type=int, default=10000)
    parser.add_argument("--sizes", type=arguments.numbers, help="connections of `table`")
    parser.add_argument("--engine", default="uring", help="engine of `stall`")
    parser.add_argument("--variants", type=arguments.words, help="for long and short: ENGINE[+KEY=VALUE...],...")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it work at all")
    a = parser.parse_args()
    parser.only(a.names, RUNS)
    a.document = {}
    arguments.need_gateway()
    version = subprocess.run([gw.SLUICE, "version"], capture_output=True, text=True, check=False).stdout.strip()
    with open("/proc/loadavg", encoding="ascii") as f:
        load = f.read().split()[0]
    say(f"{version}\nkernel {os.uname().release} {os.uname().machine}, {os.cpu_count()} CPUs, load {load}, "
        f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC\n")
    try:
        for name in a.names or RUNS:
            RUNS[name](a)
    except gw.BenchError as e:
        sys.exit(f"bench: {e}")
    finally:
        if a.out:
            with open(a.out, "w", encoding="utf-8") as f:
                json.dump(a.document, f, default=str)


if __name__ == "__main__":
    main()

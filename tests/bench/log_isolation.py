# SPDX-License-Identifier: Apache-2.0
"""What the durable log costs clients that do not use it. Usage: log_isolation.py [CASE...] [--rounds N] [--seconds S]

100 pairs exchange QoS 0 messages at a fixed rate while 20 other publishers send QoS 1 messages of 1 KiB at a fixed rate:
  volatile   to a gateway without a log: what the load itself costs
  sync       with a log whose segment is large: commits only
  roll       with segments of 16 MiB, which are begun one after the other, new ones
  reclaim    the same in a log that is small and full: segments are freed and used again, checkpoints are made
  uplink     as sync, with an uplink whose remote is not there
`quiet` is the pairs alone. Printed: the pairs' latencies as ratios to quiet and to volatile of the same rounds. The broker runs on
--cpus (0), both generators on --pin (1).
"""
import statistics
import subprocess
import sys
import time

import arguments
import durable_peers as durable
import gateway as gw
import mqtt_peers as peers
from gateway import pick

STREAM = 'stream all {{ topics = ["durable/#"]; max_bytes = {}; }}'
CASES = {
    "quiet": None,
    "volatile": "durable = no;",
    "sync": "log_max = 16g; " + STREAM.format("1g"),
    "roll": "log_max = 1g; " + STREAM.format("900m"),
    "reclaim": "log_max = 96m; " + STREAM.format("16m"),
    "uplink": "log_max = 16g; " + STREAM.format("1g")
              + f' uplink away {{ kind = mqtt; url = ["mqtt://127.0.0.1:{peers.free_port()}"]; streams = ["all"]; }}',
}
AIM = 1.5
FULL_S = 9  # after so long, at 10,000 messages of 1 KiB a second, the small log is full and gives segments back


def before_of(a, case):
    return max(a.before, FULL_S) if case == "reclaim" else a.before


def measure(a, case):
    settings = CASES[case]
    with durable.Sluice(a.cpus, keep="none", durable=case != "volatile", settings=settings or CASES["sync"], plain=True) as peer:
        beside = None
        if case != "quiet":
            command = [gw.SLUICE, "bench", "mqtt", "ingest", "--to", f"127.0.0.1:{peer.port}", "--pubs", "20", "--inflight", "1000",
                       "--rate", a.load, "--size", "1024", "--prefix", "durable/beside", "--wait", "sleep", "--pid", "none",
                       "--warmup", "0s", "--duration", f"{a.seconds + before_of(a, case) + 2}s", "--drain", "1s", "--lag-limit", "20s", "--json"]
            command += ["--pin", str(a.pin)] if a.pin is not None else []
            beside = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(before_of(a, case))
        try:
            before = peer.metrics() if case not in ("quiet", "volatile") else {}
            document = peers.run_load(peer, ["pairs", "--pairs", "100", "--qos", "0", "--rate", a.rate, "--warmup", "500ms"], a.pin,
                                      a.seconds)
            after = peer.metrics() if before else {}
        finally:
            if beside:
                beside.terminate()
                beside.wait()
    if not document.get("measured"):
        raise peers.PeerError(document.get("failure"))
    document["log"] = {k: after[f"sluice_store_{k}_total"] - before.get(f"sluice_store_{k}_total", 0) for k in
                       ("commits", "segments_freed", "checkpoints", "written_bytes")} if after else {}
    return document


def main():
    parser = arguments.Parser(__doc__, "rounds", "seconds", "cpus", "pin")
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--before", type=float, default=4, help="seconds of the other load before the window")
    parser.add_argument("--rate", default="2k", help="of the pairs")
    parser.add_argument("--load", default="10k", help="of the others: messages of 1 KiB a second")
    a = parser.parse_args()
    wanted = list(dict.fromkeys(["quiet", "volatile", *(a.cases or CASES)]))
    parser.only(wanted, CASES)
    results = {c: [] for c in wanted}
    for i in range(a.rounds):
        for case in wanted if i % 2 == 0 else reversed(wanted):
            results[case].append(measure(a, case))
    print(f"\n### 100 pairs, QoS 0, {a.rate}/s, beside {a.load}/s of 1 KiB, {a.rounds} rounds of {a.seconds:g} s\n")
    print("| beside | p50 us (of quiet, of volatile) | p99 us | p99.9 us | commits/s | MB/s | segments freed | checkpoints | in time |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case in wanted:
        cells = []
        for p in ("p50", "p99", "p99.9"):
            value, quiet, volatile = (statistics.median(pick(d, f"messages/latency_us/{p}") for d in results[c])
                                      for c in (case, "quiet", "volatile"))
            cells.append(f"{value:,.0f} ({value / quiet:.2f}, {value / volatile:.2f})")
        log = [d["log"] for d in results[case]]
        if log[0]:
            cells += [f"{statistics.median(x['commits'] for x in log) / a.seconds:,.0f}",
                      f"{statistics.median(x['written_bytes'] for x in log) / a.seconds / 1e6:.1f}",
                      *(f"{sum(x[k] for x in log):.0f}" for k in ("segments_freed", "checkpoints"))]
        else:
            cells += ["-"] * 4
        errors = sum(d["errors_total"] for d in results[case])
        valid = sum(1 for d in results[case] if d["valid"])
        print(f"| {case} | " + " | ".join(cells) + f" | {valid}/{len(results[case])}{f', {errors} errors' if errors else ''} |", flush=True)
    print(f"\nAim: p99.9 at most {AIM} times the figure without the log.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

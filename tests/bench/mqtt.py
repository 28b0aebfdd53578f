# SPDX-License-Identifier: Apache-2.0
"""This broker beside others, as ratios. Usage: mqtt.py [LOAD...] [--rounds N] [--seconds S] [--brokers A,B] [--at NAME=HOST:PORT[,PID]]

LOAD: fan-in-max burst-max fan-in fan-out-max pairs storm idle idle-1 (default: these), all-at-once, retained. Brokers:
mosquitto and nats-server where they are installed, sluice, and any that runs already, by address. Each runs alone on --cpus (default 0), the generator on --pin
(default 1). Rounds are interleaved (A B C, C B A, ...) and medians are taken; each figure of a broker stands beside the best of
the others. Absolute figures belong to the machine of that hour.
"""
import json
import os
import statistics
import sys
import time

import arguments
import mqtt_peers as peers
from gateway import pick

# name: what it is, arguments, figures. A figure: title, path in the document, more is better.
RATE = ("delivered/s", "messages/rate_delivered", True)
CPU = ("CPU s per million", "server/cpu_us_per_exchange", False)
P50, P99, P999 = ((f"{p} us", f"messages/latency_us/{p}", False) for p in ("p50", "p99", "p99.9"))
FIND = ["--find-max", "--p99", "50ms", "--warmup", "500ms"]
LOADS = {
    "fan-in-max": ("fan-in, 100 publishers, QoS 0, 64 B, highest rate with p99 under 50 ms",
                   ["fan-in", "--rate", "40k", *FIND], [RATE, CPU, P99]),
    "burst-max": ("the same in bursts of 10", ["fan-in", "--rate", "40k", "--burst", "10", *FIND], [RATE, CPU, P99]),
    "fan-in": ("fan-in at a fixed 20k/s", ["fan-in", "--rate", "20k"], [CPU, P50, P99, P999]),
    "fan-out-max": ("fan-out, 5 publishers, 500 subscribers, highest rate",
                    ["fan-out", "--rate", "100", *FIND], [RATE, CPU, P99]),
    "pairs": ("1,000 pairs, QoS 1, 10k/s", ["pairs", "--qos", "1", "--rate", "10k"], [CPU, P99, P999]),
    "storm": ("connect, CONNACK, disconnect, 100 at a time", ["storm", "--at-once", "100"],
              [("connections/s", "storm/rate", True), CPU]),
    "idle": ("idle connection", ["idle", "--conns", "10000"], [("bytes each", "memory/private_each", False)]),
    "idle-1": ("idle connection with one subscription", ["idle", "--conns", "10000", "--filters", "1"],
               [("bytes each", "memory/private_each", False)]),
    "all-at-once": ("15,000 connections at once, held",
                    ["storm", "--conns", "15000", "--at-once", "15000", "--hold", "--timeout", "60s"],
                    [("served s", "storm/served_s", False), ("slowest us", "handshake_us/max", False)]),
    "retained": ("100,000 retained messages to one subscriber", ["retained", "--messages", "100k"],
                 [("stored/s", "retained/rate_stored", True), ("delivered/s", "messages/rate_delivered", True)]),
}


def say(text):
    print(text, flush=True)


def number(value):
    if value is None:
        return "-"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def median(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def interleaved(names, rounds):
    for i in range(rounds):
        yield from names if i % 2 == 0 else reversed(names)


def measure(a, load, brokers):
    """{broker: [document, ...]}; a broker that fails is named and left out of this load."""
    _, arguments, _ = LOADS[load]
    results, broken = {name: [] for name in brokers}, set()
    for name in interleaved(list(brokers), a.rounds):
        if name in broken:
            continue
        try:
            with brokers[name]() as peer:
                document = peers.run_load(peer, [*arguments, *a.more], a.pin, a.seconds)
        except (peers.PeerError, OSError) as e:
            say(f"  {name}: {e}")
            broken.add(name)
            continue
        if not document.get("measured"):
            say(f"  {name}: {document.get('failure')}")
            broken.add(name)
            continue
        if document.get("errors_total"):
            say(f"  {name}: errors {document['errors']}")
        results[name].append(document)
    return results


def cell(value, best):
    """The figure, and in brackets its ratio to the best of the others."""
    if value is None:
        return "-"
    if not best or not value:
        return number(value)
    return f"{number(value)} ({value / best:.2f})"


def report(load, results):
    title, _, figures = LOADS[load]
    names = list(results)
    say(f"\n### {title}\n")
    say("| figure | " + " | ".join(names) + " |")
    say("|---|" + "---|" * len(names))
    for label, path, more in figures:
        values = {n: median([pick(d, path) for d in results[n]]) for n in names}
        cells = []
        for n in names:
            others = [v for k, v in values.items() if k != n and v]
            cells.append(cell(values[n], (max if more else min)(others) if others else None))
        say(f"| {label} | " + " | ".join(cells) + " |")
    errors = {n: sum(d.get("errors_total", 0) for d in results[n]) for n in names}
    valid = {n: f"{sum(1 for d in results[n] if d.get('valid'))}/{len(results[n])}" for n in names}
    say("| errors | " + " | ".join(str(errors[n]) for n in names) + " |")
    say("| runs in which the generator was in time | " + " | ".join(valid[n] for n in names) + " |")
    for n in names:
        for d in results[n]:
            for line in d.get("said", []):
                say(f"  {n}: {line}")


def brokers_of(a):
    """{name: function that makes one}, and their versions."""
    known = {c.name: c for c in peers.installed()}
    wanted = a.brokers or [*known, "sluice"]
    brokers, versions = {}, []
    for name in wanted:
        if name == "sluice":
            brokers[name] = lambda: peers.Sluice(a.cpus, a.engine, a.settings, a.listener)
            versions.append(peers.Sluice.version())
        elif name in known:
            brokers[name] = lambda c=known[name]: c(a.cpus)
            versions.append(known[name].version())
        else:
            sys.exit(f"mqtt: broker {name} is not installed; known: mosquitto, nats-server, sluice, or --at NAME=HOST:PORT")
    for text in a.at:
        try:
            remote = peers.Remote(text)
        except ValueError:
            sys.exit(f"mqtt: --at {text}: allowed: NAME=HOST:PORT or NAME=HOST:PORT,PID")
        brokers[remote.name] = lambda r=remote: r
        versions.append(remote.version())
    return brokers, versions


def main():
    parser = arguments.Parser(__doc__, "rounds", "seconds", "brokers", "cpus", "pin", "settings", "newest", "out",
                            seconds={"type": int}, pin={"default": 1}, brokers={"help": "mosquitto,nats-server,sluice"})
    parser.add_argument("loads", nargs="*", help=", ".join(LOADS))
    parser.add_argument("--at", action="append", default=[], metavar="NAME=HOST:PORT[,PID]", help="a broker that runs already")
    parser.add_argument("--engine", default="auto", help="of sluice")
    parser.add_argument("--listener", default="", help="more settings of sluice's listener")
    parser.add_argument("--more", type=str.split, default=[], help="more arguments of the generator, \"--version 5.0\"")
    a = parser.parse_args()
    parser.only(a.loads, LOADS)
    arguments.need_gateway()
    try:
        if a.newest:
            peers.newest()
        brokers, versions = brokers_of(a)
    except peers.PeerError as e:
        sys.exit(f"mqtt: {e}")
    with open("/proc/loadavg", encoding="ascii") as f:
        load_average = f.read().split()[0]
    say("; ".join(versions))
    say(f"kernel {os.uname().release} {os.uname().machine}, {os.cpu_count()} CPUs, load {load_average}, brokers on CPU {a.cpus}, "
        f"generator on {a.pin}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, {a.rounds} rounds of {a.seconds} s")
    say("In brackets: the ratio to the best of the other brokers.")
    document = {}
    default = [n for n in LOADS if n not in ("all-at-once", "retained")]
    try:
        for load in a.loads or default:
            results = measure(a, load, brokers)
            report(load, results)
            document[load] = results
    finally:
        if a.out:
            with open(a.out, "w", encoding="utf-8") as f:
                json.dump(document, f)


if __name__ == "__main__":
    main()

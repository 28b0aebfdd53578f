# SPDX-License-Identifier: Apache-2.0
"""What one bad client costs the others. Usage: isolation.py [DISTURBANCE...] [--rounds N] [--seconds S] [--brokers A,B]

100 pairs exchange QoS 1 messages at a fixed rate, alone (quiet) and beside one disturbance at a time:
  stalled   5 subscribers of everything that stop reading
  flood     one publisher of QoS 0 messages that sends as fast as the broker reads
  filters   one client with 10,000 filters that all match one topic, to which 20 messages a second are published
Printed: the others' latencies as ratios to the quiet runs of the same rounds. The broker runs on CPU 0, generator and
disturbance on CPU 1, which they share: the disturbances need little of it.
"""
import itertools
import os
import socket
import statistics
import struct
import threading
import time

import arguments
import mqtt_peers as peers
from gateway import pick

FILTERS = 10_000
LEVELS = 14  # 2 ** 14 ways to write + for some of them
FLOOD_BYTES = 64
DEEP_TOPIC = "/".join(f"l{i}" for i in range(LEVELS))


def varint(value):
    out = b""
    while True:
        value, low = value >> 7, value & 127
        out += bytes([low | (128 if value else 0)])
        if not value:
            return out


def packet(first, body):
    return bytes([first]) + varint(len(body)) + body


def text(value):
    return struct.pack("!H", len(value)) + value.encode()


def publish(topic, payload):
    return packet(0x30, text(topic) + payload)


def connected(peer, name):
    s = socket.create_connection((getattr(peer, "host", "127.0.0.1"), peer.port), timeout=20)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.sendall(packet(0x10, text("MQTT") + b"\x04\x02\x00\x00" + text(name)))
    if s.recv(4) != b"\x20\x02\x00\x00":
        raise peers.PeerError(f"{name}: refused")
    return s


class Disturbance(threading.Thread):
    """Runs beside the load until stop()."""

    def __init__(self, peer):
        super().__init__(daemon=True)
        self.peer, self.ended, self.count, self.failure = peer, threading.Event(), 0, None

    def run(self):
        if hasattr(os, "sched_setaffinity") and os.cpu_count() > 1:
            os.sched_setaffinity(0, {1})
        try:
            self.disturb()
        except OSError as e:
            if not self.ended.is_set():
                self.failure = e

    def stop(self):
        self.ended.set()
        self.join(30)

    def disturb(self):
        raise NotImplementedError


class Flood(Disturbance):
    def disturb(self):
        s = connected(self.peer, "isolation-flood")
        batch = publish("flood/nobody", bytes(FLOOD_BYTES)) * 512
        while not self.ended.is_set():
            s.sendall(batch)
            self.count += 512
        s.close()


class Filters(Disturbance):
    def __init__(self, peer):
        super().__init__(peer)
        self.subscriber = connected(peer, "isolation-filters")
        levels = DEEP_TOPIC.split("/")
        choices = itertools.islice(itertools.product((False, True), repeat=LEVELS), FILTERS)
        filters = ["/".join("+" if wild else level for level, wild in zip(levels, choice)) for choice in choices]
        for first in range(0, FILTERS, 100):
            part = filters[first:first + 100]
            self.subscriber.sendall(packet(0x82, struct.pack("!H", first // 100 + 1) + b"".join(text(f) + b"\0" for f in part)))
            self.take(4 + len(part))

    def take(self, count):
        while count > 0:
            got = len(self.subscriber.recv(count))
            if got == 0:
                raise peers.PeerError("isolation-filters: cut off")
            count -= got

    def disturb(self):
        s = connected(self.peer, "isolation-publisher")
        self.subscriber.settimeout(0.001)
        while not self.ended.wait(0.05):
            s.sendall(publish(DEEP_TOPIC, b"x"))
            self.count += 1
            try:
                self.subscriber.recv(1 << 20)
            except TimeoutError:
                pass
        s.close()
        self.subscriber.close()


DISTURBANCES = {"stalled": None, "flood": Flood, "filters": Filters}


def measure(a, make, what):
    arguments = ["pairs", "--pairs", "100", "--qos", "1", "--rate", a.rate]
    if what == "stalled":
        arguments += ["--stalled", "5"]
    with make() as peer:
        other = DISTURBANCES.get(what)
        thread = other(peer) if other else None
        if thread:
            thread.start()
        time.sleep(0.2)
        try:
            document = peers.run_load(peer, arguments, a.pin, a.seconds)
        finally:
            if thread:
                thread.stop()
        if thread and thread.failure:
            print(f"  {what}: {thread.failure}", flush=True)
        document["disturbed"] = thread.count if thread else 0
        return document


def main():
    parser = arguments.Parser(__doc__, "rounds", "seconds", "brokers", "pin", "newest", seconds={"type": int}, pin={"default": 1},
                            brokers={"default": ["sluice"], "help": "sluice, mosquitto"})
    parser.add_argument("what", nargs="*", help=", ".join(DISTURBANCES))
    parser.add_argument("--rate", default="2k", help="of the pairs")
    a = parser.parse_args()
    if a.newest:
        peers.newest()
    makers = {"sluice": lambda: peers.Sluice("0"), "mosquitto": lambda: peers.Mosquitto("0")}
    wanted = ["quiet", *(a.what or DISTURBANCES)]
    for broker in a.brokers:
        results = {w: [] for w in wanted}
        for i in range(a.rounds):
            for w in wanted if i % 2 == 0 else reversed(wanted):
                results[w].append(measure(a, makers[broker], w))
        print(f"\n### {broker}: 100 pairs, QoS 1, {a.rate}/s, {a.rounds} rounds of {a.seconds} s\n")
        print("| beside | p50 us (ratio) | p99 us (ratio) | p99.9 us (ratio) | errors | disturbances | generator in time |")
        print("|---|---|---|---|---|---|---|")
        for w in wanted:
            cells = []
            for p in ("p50", "p99", "p99.9"):
                values = [pick(d, f"messages/latency_us/{p}") for d in results[w]]
                quiet = [pick(d, f"messages/latency_us/{p}") for d in results["quiet"]]
                cells.append(f"{statistics.median(values):,.0f} ({statistics.median(values) / statistics.median(quiet):.2f})")
            errors = sum(d.get("errors_total", 0) for d in results[w])
            valid = sum(1 for d in results[w] if d.get("valid"))
            count = sum(d["disturbed"] for d in results[w])
            print(f"| {w} | " + " | ".join(cells) + f" | {errors} | {count} | {valid}/{len(results[w])} |", flush=True)


if __name__ == "__main__":
    main()

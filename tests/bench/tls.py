# SPDX-License-Identifier: Apache-2.0
"""TLS, as ratios. Usage: tls.py [LOAD...] [--rounds N] [--seconds S] [--conns N] [--newest]

LOAD: idle handshakes messages storm reload (default: all).
  idle        user-space memory of an idle TLS connection, beside a plain one, beside Mosquitto's
  handshakes  the server's CPU for a connection with a full handshake, a resumed one and none, beside Mosquitto's
  messages    CPU of a delivery over TLS and over plain connections, beside Mosquitto's
  storm       --conns clients come at once with full handshakes: all are served; latency of connected ones, with and without
  reload      a new certificate under --conns connected clients: none is dropped, new handshakes get it
Server on CPU 0, generator on CPU 1. Both brokers speak TLS 1.2 with the same ECDSA P-256 certificate and chain. Exit status 1: a
storm left somebody unserved, or a reload dropped somebody.
"""
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import arguments
import gateway as gw
import mqtt_peers as peers
from gateway import pick
from mqtt import interleaved, median, number, say

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../blackbox"))
from harness import pki as pki_of  # noqa: E402 # certificates are made as for the tests

PAIRS = ["pairs", "--pairs", "100", "--rate", "4k"]
STEADY = ["pairs", "--pairs", "50", "--rate", "2k", "--warmup", "1s", "--wait", "sleep"]
NEIGHBOUR = ["chrt", "-f", "10"]  # what measures latency goes before what makes the storm


class Mosquitto(peers.Mosquitto):
    def __init__(self, cpus, pki):
        super().__init__(cpus)
        self.pki, self.tls_port = pki, peers.free_port()

    def command(self):
        command = super().command()
        with open(command[-1], "a", encoding="utf-8") as f:
            f.write(f"user root\nlistener {self.tls_port} 127.0.0.1\ncertfile {self.pki.cert('server')}\n"
                    f"keyfile {self.pki.key('server')}\n")
        return command


class Sluice(peers.Sluice):
    def __init__(self, cpus, pki):
        self.tls_port = peers.free_port()
        super().__init__(cpus, settings=f"""listener tls {{
    protocol = mqtt; bind = "127.0.0.1:{self.tls_port}"; anonymous = true;
    tls {{ cert = "{pki.cert('server')}"; key = "{pki.key('server')}"; }}
}}""")

    def ctl(self, *words):
        done = subprocess.run([gw.SLUICE, "ctl", "--socket", f"{self.dir.name}/data/ctl.sock", *words],
                              capture_output=True, text=True, timeout=30, check=True)
        return done.stdout

    def metric(self, name):
        return sum(float(line.rsplit(" ", 1)[1]) for line in self.ctl("metrics").splitlines()
                   if line.split("{")[0].split(" ")[0] == name)


def command(a, peer, arguments, tls, seconds):
    port = peer.tls_port if tls else peer.port
    return [gw.SLUICE, "bench", "mqtt", *arguments, "--to", f"127.0.0.1:{port}", "--json", "--duration", f"{seconds}s",
            "--pid", str(peer.pid), "--pin", str(a.pin), *(["--cafile", a.pki.cert("ca")] if tls else [])]


def run(a, peer, arguments, tls, seconds=None, before=()):
    words = [*before, *command(a, peer, arguments, tls, seconds or a.seconds)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        raise peers.PeerError(f"{' '.join(words)}: {done.stderr.strip()[-300:]}") from None
    if not document.get("measured") or document.get("errors_total"):
        say(f"  {peer.name}: {document.get('failure') or document['errors']} {document.get('broker_said', '')}")
    return document


def table(header, rows):
    say("\n| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for row in rows:
        say("| " + " | ".join(row) + " |")


def collect(a, brokers, ways):
    """{broker: {way: [documents]}}; ways: {name: (arguments, over TLS)}. Each run has a broker of its own."""
    results = {n: {way: [] for way in ways} for n in brokers}
    for name in interleaved(list(brokers), a.rounds):
        for way, (arguments, tls) in ways.items():
            with brokers[name]() as peer:
                results[name][way].append(run(a, peer, arguments, tls))
    return results


def figures(results, path):
    return {n: {way: median([pick(d, path) for d in documents]) for way, documents in by_way.items()}
            for n, by_way in results.items()}


def idle(a, brokers):
    load = ["idle", "--conns", str(a.conns), "--connect-rate", "1000"]
    values = figures(collect(a, brokers, {"plain": (load, False), "TLS": (load, True)}), "memory/private_each")
    names = list(brokers)
    say(f"\n### idle connection, {a.conns} of them, user-space bytes each")
    table(["", *names], [[way, *(number(values[n][way]) for n in names)] for way in ("plain", "TLS")])


def handshakes(a, brokers):
    load = ["storm", "--at-once", "32"]
    ways = {"plain": (load, False), "full": (load, True), "resumed": ([*load, "--resume"], True)}
    results = collect(a, brokers, ways)
    cpu, names = figures(results, "server/cpu_us_per_exchange"), list(brokers)
    say("\n### connect, handshake, CONNECT, CONNACK, DISCONNECT: CPU us of the server")
    table(["connection", *names, "ratio"],
          [[way, *(number(cpu[n][way]) for n in names), number(ratio(cpu, names, way))] for way in ways])
    table(["connections/s that one core can do", *names],
          [[way, *(number(1e6 / cpu[n][way] if cpu[n][way] else None) for n in names)] for way in ways])
    for n in names:
        kinds = [pick(d, "tls") for d in results[n]["resumed"]]
        say(f"  {n}: of the resumed ones were full: {sum(k['full'] for k in kinds)} of {sum(sum(k.values()) for k in kinds)}")


def ratio(values, names, way):
    """Ours to the other's."""
    if len(names) != 2 or not values[names[0]][way] or not values[names[1]][way]:
        return None
    return values[names[1]][way] / values[names[0]][way]


def messages(a, brokers):
    results = collect(a, brokers, {"plain": (PAIRS, False), "TLS": (PAIRS, True)})
    cpu, names = figures(results, "server/cpu_us_per_exchange"), list(brokers)
    say("\n### 100 pairs, 4,000/s, 64 bytes, QoS 0: CPU us of the server for a delivery")
    rows = [[way, *(number(cpu[n][way]) for n in names)] for way in ("plain", "TLS")]
    rows.append(["TLS / plain", *(number(cpu[n]["TLS"] / cpu[n]["plain"] if cpu[n]["plain"] else None) for n in names)])
    table(["", *names], rows)


def storm(a, brokers):
    """A quiet window, then the same with a storm in it. The window must be longer than the storm."""
    rows, served_all = [], True
    for name in brokers:
        quiet, loud, storms = [], [], []
        for _ in range(a.rounds):
            with brokers[name]() as peer:
                quiet.append(run(a, peer, STEADY, True, before=NEIGHBOUR))
                words = [*NEIGHBOUR, *command(a, peer, STEADY, True, a.storm_seconds)]
                with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as steady:
                    time.sleep(2)
                    storms.append(run(a, peer, ["storm", "--conns", str(a.conns), "--at-once", str(a.conns), "--hold", "--timeout",
                                                "10m", "--wait", "sleep"], True))
                    loud.append(json.loads(steady.communicate(timeout=900)[0]))
        served = [pick(d, "storm/served") for d in storms]
        served_all = served_all and all(s == a.conns for s in served)
        row = [name, " ".join(str(s) for s in served), number(median([pick(d, "storm/served_s") for d in storms]))]
        for p in ("p50", "p99", "p99.9"):
            before, during = (median([pick(d, f"messages/latency_us/{p}") for d in ds]) for ds in (quiet, loud))
            row.append(f"{number(before)} / {number(during)} ({number(during / before)})")
        rows.append([*row, str(sum(d.get("errors_total", 0) for d in loud))])
    say(f"\n### {a.conns} clients come at once with full handshakes, beside 50 pairs over TLS at 2,000/s; us quiet / in the storm (ratio)")
    table(["", "served", "in s", "p50", "p99", "p99.9", "errors of the others"], rows)
    return served_all


def serial_of(a, port):
    context = ssl.create_default_context(cafile=a.pki.cert("ca"))
    with socket.create_connection(("127.0.0.1", port), 60) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as sock:
            return sock.getpeercert()["serialNumber"]


def reload(a, brokers):
    """Ours only: with Mosquitto the question is not one of speed."""
    with brokers["sluice"]() as peer:
        words = command(a, peer, ["idle", "--conns", str(a.conns), "--connect-rate", "1000"], True, a.seconds + 10)
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
            deadline = time.monotonic() + 120
            while peer.metric("sluice_tls_handshakes_total") < a.conns and time.monotonic() < deadline:
                time.sleep(0.2)
            before = serial_of(a, peer.tls_port)
            a.pki.issue("server", "sub", san="DNS:localhost", chain=["sub"])
            started = time.monotonic()
            peer.ctl("reload")
            while serial_of(a, peer.tls_port) == before and time.monotonic() < started + 60:
                time.sleep(0.01)
            took = time.monotonic() - started
            document = json.loads(holder.communicate(timeout=300)[0])
    say(f"\n### a new certificate under {a.conns} connected clients\n\n{pick(document, 'alive')} of {a.conns} are still connected, "
        f"{document.get('errors_total')} errors; a new handshake got the new certificate {took * 1000:.0f} ms after the reload was asked for")
    return took < 60 and pick(document, "alive") == a.conns and not document.get("errors_total")


LOADS = {"idle": idle, "handshakes": handshakes, "messages": messages, "storm": storm, "reload": reload}


def main():
    parser = arguments.Parser(__doc__, "rounds", "seconds", "brokers", "pin", "newest", seconds={"type": int}, pin={"default": 1},
                            brokers={"default": ["mosquitto", "sluice"]})
    parser.add_argument("loads", nargs="*", help=" ".join(LOADS))
    parser.add_argument("--storm-seconds", type=int, default=12, help="of the window with a storm in it")
    parser.add_argument("--conns", type=int, default=5000)
    a = parser.parse_args()
    parser.only(a.loads, LOADS)
    parser.only(a.brokers, ("mosquitto", "sluice"))
    arguments.need_gateway()
    made = {"mosquitto": Mosquitto, "sluice": Sluice}
    failed = []
    with tempfile.TemporaryDirectory(prefix="sluice-tls-") as directory:
        a.pki = pki_of.standard(directory)
        try:
            if a.newest:
                peers.newest()
            say("; ".join(made[n].version() for n in a.brokers))
            with open("/proc/loadavg", encoding="ascii") as f:
                say(f"kernel {os.uname().release} {os.uname().machine}, {os.cpu_count()} CPUs, load {f.read().split()[0]}, "
                    f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, {a.rounds} rounds of {a.seconds} s")
            for load in a.loads or LOADS:
                if LOADS[load](a, {n: lambda c=made[n]: c("0", a.pki) for n in a.brokers}) is False:
                    failed.append(load)
        except (peers.PeerError, OSError) as e:
            sys.exit(f"tls: {e}")
    if failed:
        sys.exit(f"tls: failed: {' '.join(failed)}")


if __name__ == "__main__":
    main()

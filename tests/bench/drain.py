# SPDX-License-Identifier: Apache-2.0
"""How fast a backlog reaches the remote broker after an outage, beside Mosquitto's own bridge. Usage: drain.py [--messages N] [--rounds R]

The remote is down while --messages QoS 1 messages are published to the edge broker; then it is started, and a subscriber (QoS 0, of all
of it) that is there before the edge comes back measures from the first message that arrives to the last. The remote is a real Mosquitto, or
this gateway without a log (`to a gateway`), which takes more than any edge sends, or nats-server, whose stream's own count is watched.
The edge: Mosquitto with a bridge as it is by default (20 messages in flight) and with as many in flight as an uplink of this gateway has by
default (without a limit, 0, Mosquitto 2.1.2 refuses its own MQTT 5 bridge: protocol error); this gateway as it is by default. It runs on
CPU 0, the remote and the subscriber on CPU 1. Rounds are interleaved. Good when every message arrived and the slowest ratio to the
bridge by default, to the same remote, is at least --ratio.
"""
import os
import signal
import statistics
import subprocess
import sys
import time

import arguments
import bulk
import mqtt_peers as peers
from bulk import say

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "blackbox"))
from harness.jetstream import Client  # noqa: E402

TOPIC, RETRY_S = "load/t", 2
IDLE_S = 20  # nothing for so long: it does not come any more
SETTLE_S = 3  # a bridge queues nothing before its first attempt to connect


def options():
    p = arguments.Parser(__doc__, "rounds", "newest")
    p.add_argument("--messages", type=int, default=200000)
    p.add_argument("--size", type=int, default=64)
    p.add_argument("--ratio", type=float, default=5)
    p.add_argument("--inflight", type=arguments.numbers, default=[],
                   help="more edges: this gateway with so many messages in flight")
    p.add_argument("--only", help="names of edges, separated by semicolons")
    return p.parse_args()


class Restarted:
    """A remote whose port stays: it is down until start() and can be ended and started again."""

    def start(self):
        command = ["taskset", "-c", self.cpus, *self.command()]
        with open(os.path.join(self.dir.name, "log"), "ab") as f:
            self.process = subprocess.Popen(command, stdout=f, stderr=subprocess.STDOUT, env=self.environment())
        self.pid = self.process.pid
        return self

    def __enter__(self):
        self.port = peers.free_port()
        return self

    def __exit__(self, *exc):
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.dir.cleanup()


class Broker(Restarted, peers.Mosquitto):
    pass


class Gateway(Restarted, peers.Sluice):
    """This gateway as a remote that is not the bound: it keeps nothing, as Mosquitto does not."""

    def __init__(self, cpus):
        super().__init__(cpus, settings="durable = no;")


class JetStream(Restarted, peers.Nats):
    def command(self):
        return [*peers.program("nats-server"), "-c", self.write("nats.conf", f"""server_name: far
listen: "127.0.0.1:{self.port}"
jetstream {{ store_dir: "{self.dir.name}/js" }}
""")]


class Bridge(peers.Mosquitto):
    """Mosquitto at the edge."""

    def __init__(self, cpus, remote, version, in_flight):
        super().__init__(cpus)
        self.remote, self.bridge_version = remote, {"5": "mqttv50", "3.1.1": "mqttv311"}[version]
        self.in_flight = in_flight

    def command(self):
        return [*peers.program("mosquitto"), "-c", self.write("mosquitto.conf", f"""listener {self.port} 127.0.0.1
allow_anonymous true
max_queued_messages 0
{'' if self.in_flight is None else f'max_inflight_messages {self.in_flight}'}
set_tcp_nodelay true
persistence false
log_type error
connection far
address 127.0.0.1:{self.remote}
topic load/# out 1
notifications false
try_private false
cleansession false
bridge_protocol_version {self.bridge_version}
restart_timeout {RETRY_S}
""")]


def uplink(cpus, remote, kind, version, in_flight=None, keep=""):
    more = f"version = {version};" if kind == "mqtt" else ""
    more += f" inflight = {in_flight};" if in_flight else ""
    return bulk.Sluice(cpus, sections=f"""stream kept {{ topics = ["load/#"]; {keep} }}
uplink far {{ kind = {kind}; url = ["{kind}://127.0.0.1:{remote}"]; streams = ["kept"]; {more}
    backoff_min = {RETRY_S}s; backoff_max = {RETRY_S}s; }}""")


def subscriber(port):
    """There before anybody else: asks as fast as it can."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            sock, _ = bulk.dial(port, "bench-sub", rcvbuf=4 << 20)
            bulk.subscribe(sock, "load/#", 0)
            return sock
        except ConnectionRefusedError:
            time.sleep(0.002)
    raise peers.PeerError("the remote did not start")


def cpu_s(pid):
    """User and system time of a process."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def to_broker(a, edge_of, kind=Broker):
    """(messages/s, CPU us per message at the edge, the same at the remote); None when something was lost."""
    with kind("1") as remote, edge_of(remote.port) as edge:
        time.sleep(SETTLE_S)
        bulk.publish(edge.port, a.messages, a.size, topic=TOPIC, clients=1, window=8000)
        remote.start()
        with subscriber(remote.port) as sock:
            reader, before = bulk.Reader(sock, TOPIC, a.size, qos=0), cpu_s(edge.pid)
            bulk.read_until(reader, lambda r: len(r.numbers) >= a.messages, 240, IDLE_S)
        used = [(cpu_s(edge.pid) - before) * 1e6 / a.messages, cpu_s(remote.pid) * 1e6 / a.messages]
    lost, twice, _ = bulk.judge(reader.numbers, a.messages)
    if lost or twice:
        say(f"  {lost} lost, {twice} twice")
    return None if lost else (len(reader.numbers) / (reader.last_s - reader.first_s), *used)


def to_jetstream(a, edge_of):
    with JetStream("1") as remote, edge_of(remote.port) as edge:
        remote.start()
        while not remote.ready():
            time.sleep(0.01)
        with Client(remote.port) as js:
            js.stream_create("T", ["load.>"])
        remote.process.send_signal(signal.SIGTERM)
        remote.process.wait()
        bulk.publish(edge.port, a.messages, a.size, topic=TOPIC, clients=1, window=8000)
        remote.start()
        before = cpu_s(edge.pid)
        while not remote.ready():
            time.sleep(0.01)
        with Client(remote.port, 60) as js:
            began, first, count, end = 0, 0, 0, time.monotonic() + 240
            while count < a.messages:
                if time.monotonic() > end:
                    say(f"  only {count} in the stream")
                    return None
                time.sleep(0.02)
                count = js.stream_state("T")["messages"]
                if count > 0 and began == 0:
                    began, first = time.monotonic(), count
            if count == first:
                return None
            return ((count - first) / (time.monotonic() - began), (cpu_s(edge.pid) - before) * 1e6 / a.messages,
                    cpu_s(remote.pid) * 1e6 / a.messages)


def to_gateway(a, edge_of):
    return to_broker(a, edge_of, Gateway)


BRIDGE = "Mosquitto bridge, MQTT {}{}"
WIDE = 1024  # the default of an uplink


def edges(a):
    """(name, how it is measured, the edge for a remote's port)."""
    for measure, to in ((to_broker, ""), (to_gateway, ", to a gateway")):
        for version in ("5", "3.1.1"):
            bridge = BRIDGE.format(version, to)
            yield bridge, measure, lambda port, v=version: Bridge("0", port, v, None)
            yield f"{bridge}, {WIDE} in flight", measure, lambda port, v=version: Bridge("0", port, v, WIDE)
            yield f"Sluice, MQTT {version}{to}", measure, lambda port, v=version: uplink("0", port, "mqtt", v)
            for n in a.inflight:
                yield (f"Sluice, MQTT {version}{to}, {n} in flight", measure,
                       lambda port, v=version, n=n: uplink("0", port, "mqtt", v, n))
    yield "Sluice, JetStream", to_jetstream, lambda port: uplink("0", port, "nats", None)


def bridge_of(name):
    """The bridge that an edge of this gateway is compared with: the same version to the same remote."""
    return BRIDGE.format("3.1.1" if "3.1.1" in name else "5", ", to a gateway" if "to a gateway" in name else "")


def main():
    a = options()
    if a.newest:
        peers.newest()
    say(f"{peers.Mosquitto.version()}; {peers.Nats.version()}; {a.messages} messages of {a.size} bytes, medians of {a.rounds}")
    wanted = {name: (measure, edge) for name, measure, edge in edges(a) if a.only is None or name in a.only.split(";")}
    rates, failed = {name: [] for name in wanted}, False
    for i in range(a.rounds):
        for name in wanted if i % 2 == 0 else reversed(wanted):
            measure, edge = wanted[name]
            try:
                rate = measure(a, edge)
            except peers.PeerError as e:
                say(f"  {name}: {e}")
                rate = None
            failed = failed or rate is None
            if rate is not None:
                rates[name].append(rate)
    good = not failed
    for name, found in rates.items():
        if not found:
            say(f"  {name}: nothing measured")
            continue
        rate, edge_us, remote_us = (statistics.median(column) for column in zip(*found))
        low, high = min(row[0] for row in found), max(row[0] for row in found)
        bridge = bridge_of(name)
        line = f"  {name}: {rate:,.0f}/s ({low:,.0f}-{high:,.0f}), CPU us per message {edge_us:.1f} (remote {remote_us:.1f})"
        for of in (bridge, f"{bridge}, {WIDE} in flight"):
            if name.startswith("Sluice") and rates.get(of):
                ratio = rate / statistics.median(row[0] for row in rates[of])
                line += f"; {ratio:.1f} times {of}"
                good = good and (ratio >= a.ratio or of != bridge or "JetStream" in name)
        say(line)
    return good


bulk.run(__name__, main)

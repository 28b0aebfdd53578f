# SPDX-License-Identifier: Apache-2.0
"""Brokers that put what they acknowledge on disk, each with the load of the comparison: publishers that keep a window of
messages on their way and wait for the acknowledgement. run() returns acknowledged/s, latencies in us, CPU."""
import os
import re
import selectors
import socket
import subprocess
import time

import gateway as gw
import mqtt_peers as peers
from isolation import packet, text

TOPICS = "durable"  # all are under it


def session_keep(port, name="keeper"):
    """A durable session that waits for every message, and is away."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        s.sendall(packet(0x10, text("MQTT") + b"\x04\x00\x00\x00" + text(name)))
        if s.recv(4)[2:] != b"\0\0":
            raise peers.PeerError("the durable session was refused")
        s.sendall(packet(0x82, b"\0\1" + text(f"{TOPICS}/#") + b"\1"))
        if s.recv(5)[-1] != 1:
            raise peers.PeerError("the durable session's subscription was refused")
        s.sendall(b"\xe0\0")


def load_mqtt(peer, load):
    rate = ["--rate", load.rate] if load.rate else []
    document = peers.run_load(peer, ["ingest", *rate, "--pubs", str(load.pubs), "--inflight", str(load.inflight), "--size", str(load.size),
                                     "--prefix", f"{TOPICS}/{os.getpid()}", "--warmup", f"{load.warmup}s"], load.pin, load.seconds)
    if not document.get("measured"):
        raise peers.PeerError(document.get("failure"))
    ack = document["messages"]["ack_us"]
    return {"rate": document["messages"]["rate_delivered"], "cpu_us": gw.pick(document, "server/cpu_us_per_exchange"),
            "errors": document["errors"], "lag_p99": document["generator"]["lag_us"]["p99"], **{p: ack[p] for p in ("p50", "p99", "p99.9", "p99.99", "max")}}


class Sluice(peers.Sluice):
    """keep: what makes every message stored: a stream, a session that is away, or (none) only what the settings say. plain: nothing is
    added to the settings."""

    def __init__(self, cpus, keep="stream", durable=True, settings="", listener="", plain=False):
        lines = [settings]
        if not plain:
            lines.append("log_max = 4g;" if durable else "durable = no;")
        if keep == "stream":
            lines.append(f'stream all {{ topics = ["{TOPICS}/#"]; max_bytes = 1g; }}')
        super().__init__(cpus, settings="\n".join(lines), listener=listener)
        self.keep, self.name = keep, f"sluice, {keep}" if durable else "sluice, volatile"

    def __enter__(self):
        super().__enter__()
        if self.keep == "session":
            session_keep(self.port)
        return self

    def metrics(self):
        done = subprocess.run([gw.SLUICE, "ctl", "--socket", f"{self.dir.name}/data/ctl.sock", "metrics"], capture_output=True,
                              text=True, timeout=20, check=True)
        return {m[1]: float(m[2]) for m in re.finditer(r"^(\w+)(?:\{worker=\"0\"\})? (\S+)$", done.stdout, re.M)}

    queue = "max_queued_messages = 16000000; max_queued_bytes = 1g;"  # what a full one drops would cost nothing
    run = load_mqtt


class Mosquitto(peers.Mosquitto):
    """With its SQLite plugin. Its default does not sync each commit; sync = full does."""

    def __init__(self, cpus, sync):
        super().__init__(cpus)
        self.sync, self.name = sync, f"mosquitto, sqlite {sync}"

    @staticmethod
    def plugin():
        if peers.ROOT is None:
            return None
        for directory, _, files in os.walk(f"{peers.ROOT}/usr/lib"):
            if "mosquitto_persist_sqlite.so" in files:
                return f"{directory}/mosquitto_persist_sqlite.so"
        return None

    def command(self):
        command = super().command()
        with open(command[-1], "a", encoding="utf-8") as f:
            if os.geteuid() == 0:
                f.write("user root\n")  # else it gives up root, and with it its plugin and its directory
            f.write(f"plugin {self.plugin()}\n"
                    f"plugin_opt_db_file {self.dir.name}/mosquitto.sqlite3\nplugin_opt_sync {self.sync}\n")
        return command

    def __enter__(self):
        super().__enter__()
        session_keep(self.port)
        return self

    run = load_mqtt


class NatsClient:
    """One publisher of NATS: PUB with a reply subject, which JetStream answers when the message is stored. Knows only what this
    load needs."""

    def __init__(self, port, number, load):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = b""
        inbox = f"_INBOX.{number}"
        self.sock.sendall(b'CONNECT {"verbose":false,"pedantic":false,"no_responders":true,"headers":true}\r\nSUB '
                          + f"{inbox} 1\r\n".encode())
        self.publish = f"PUB {TOPICS}.{number} {inbox} {load.size}\r\n".encode() + b"x" * load.size + b"\r\n"
        self.sent, self.acked = [], 0
        self.load = load

    def send(self, now):
        self.sent.append(now)
        self.sock.sendall(self.publish)

    def answers(self):
        """How many acknowledgements came."""
        self.data += self.sock.recv(65536)
        count = 0
        while (end := self.data.find(b"\r\n")) >= 0:
            line = self.data[:end]
            if not line.startswith(b"MSG "):
                if line == b"PING":
                    self.sock.sendall(b"PONG\r\n")
                elif line.startswith(b"-ERR"):
                    raise peers.PeerError(line.decode())
                self.data = self.data[end + 2:]
                continue
            body = int(line.split()[-1])
            if len(self.data) < end + 2 + body + 2:
                break
            if b'"error"' in self.data[end + 2:end + 2 + body]:
                raise peers.PeerError(self.data[end + 2:end + 2 + body].decode())
            self.data = self.data[end + 2 + body + 2:]
            count += 1
        return count


class Nats(peers.Nats):
    """JetStream with a sync for each message; publishers wait for the stream's acknowledgement."""

    name = "nats, sync always"

    def command(self):
        command = super().command()
        self.nats_port = peers.free_port()
        with open(command[-1], "w", encoding="utf-8") as f:
            f.write(f'server_name: bench\nlisten: "127.0.0.1:{self.nats_port}"\n'
                    f'jetstream {{ store_dir: "{self.dir.name}/jetstream", sync_interval: always }}\n')
        self.port = self.nats_port
        return command

    def __enter__(self):
        super().__enter__()
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as s:
            body = f'{{"name":"bench","subjects":["{TOPICS}.>"],"storage":"file","retention":"limits"}}'
            s.sendall(b"CONNECT {\"verbose\":false}\r\nSUB _INBOX.make 1\r\n"
                      + f"PUB $JS.API.STREAM.CREATE.bench _INBOX.make {len(body)}\r\n{body}\r\n".encode())
            answer = b""
            while b"MSG _INBOX.make" not in answer or not answer.endswith(b"}\r\n"):
                answer += s.recv(65536)
            if b'"error"' in answer:
                raise peers.PeerError(answer.decode())
        return self

    def cpu_s(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def run(self, load):
        if load.pin is not None:
            os.sched_setaffinity(0, {load.pin})
        clients = [NatsClient(self.port, i, load) for i in range(load.pubs)]
        waiting = selectors.DefaultSelector()
        for c in clients:
            waiting.register(c.sock, selectors.EVENT_READ, c)
        latencies, acked = [], 0
        begin = time.monotonic() + load.warmup
        end = begin + load.seconds
        cpu = None
        for c in clients:
            for _ in range(load.inflight):
                c.send(time.monotonic())
        now = time.monotonic()
        while now < end:
            for key, _ in waiting.select(0.1):
                c = key.data
                for _ in range(c.answers()):
                    now = time.monotonic()
                    sent = c.sent.pop(0)
                    if begin <= sent:
                        latencies.append((now - sent) * 1e6)
                    acked += begin <= now < end
                    c.send(now)
            now = time.monotonic()
            if cpu is None and now >= begin:
                cpu = self.cpu_s()
        cpu = self.cpu_s() - cpu
        for c in clients:
            c.sock.close()
        os.sched_setaffinity(0, range(os.cpu_count()))
        if not latencies:
            raise peers.PeerError("nats acknowledged nothing")
        latencies.sort()

        def at(percent):
            return latencies[min(len(latencies) - 1, int(len(latencies) * percent / 100))]
        return {"rate": acked / load.seconds, "cpu_us": cpu * 1e6 / max(acked, 1), "errors": {}, "p50": at(50), "p99": at(99),
                "p99.9": at(99.9), "p99.99": at(99.99), "max": latencies[-1]}

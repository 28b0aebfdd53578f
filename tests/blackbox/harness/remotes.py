# SPDX-License-Identifier: Apache-2.0
"""What an uplink connects to: real Mosquitto and nats-server on ports that stay the same when they are restarted, a proxy that can
cut or stall a line, and a broker that accepts and never acknowledges."""
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

import pytest

from .link import end_listening
from .wait import GUARD_S, until


def needed(program):
    """The path of other people's program. Missing: a failure in the whole run, a skip for a person who runs one file."""
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")
    if path:
        return path
    if os.environ.get("CI"):
        pytest.fail(f"{program} is missing: build.sh provides it")
    pytest.skip(f"{program} is not installed")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def answers(port):
    with socket.socket() as s:
        s.settimeout(1)
        return s.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """A process with a directory and a port of its own; stop and start keep both."""

    program = None

    def __init__(self):
        self.path = needed(self.program)
        self.dir = tempfile.mkdtemp(prefix="sluice-remote-")
        self.port, self.process = free_port(), None

    def command(self):
        raise NotImplementedError

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def start(self):
        command = self.command()
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        until(self.is_ready, lambda: f"{self.program} is ready; it said {self.log()[-500:]}", GUARD_S * 2)
        return self

    def is_ready(self):
        assert self.process.poll() is None, f"{self.program} ended: {self.log()[-500:]}"
        return answers(self.port)

    def log(self):
        with open(os.path.join(self.dir, "log"), errors="replace") as f:
            return f.read()

    def stop(self, sig=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(sig)
            try:
                self.process.wait(GUARD_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def stop_at_once(self):
        self.stop(signal.SIGKILL)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop_at_once()
        shutil.rmtree(self.dir, ignore_errors=True)


class Mosquitto(Server):
    program = "mosquitto"

    def __init__(self, extra=""):
        super().__init__()
        self.extra = extra

    def command(self):
        os.chmod(self.dir, 0o777)  # it gives its rights up
        return [self.path, "-c", self.write("mosquitto.conf", f"""listener {self.port} 127.0.0.1
allow_anonymous true
persistence true
persistence_location {self.dir}/
max_queued_messages 0
max_inflight_messages 0
{self.extra}
""")]


class Nats(Server):
    """cluster: (name, own cluster port, all cluster ports)."""

    program = "nats-server"

    def __init__(self, cluster=None, extra=""):
        super().__init__()
        self.cluster, self.extra = cluster, extra

    def command(self):
        text = f"""server_name: "n{self.port}"
listen: "127.0.0.1:{self.port}"
jetstream {{ store_dir: "{self.dir}/js" }}
"""
        if self.cluster:
            name, own, ports = self.cluster
            routes = ", ".join(f'"nats://127.0.0.1:{p}"' for p in ports if p != own)
            text += f'cluster {{ name: "{name}", listen: "127.0.0.1:{own}", routes: [{routes}] }}\n'
        return [self.path, "-c", self.write("nats.conf", text + self.extra)]


class Collector:
    """mosquitto_sub with a session that is kept: what came under a filter, line by line."""

    def __init__(self, port, topic, *args, client="collector"):
        command = [needed("stdbuf"), "-oL", needed("mosquitto_sub"), "-h", "127.0.0.1", "-p", str(port), "-t", topic, "-q", "1",
                   "-c", "-i", client, "-V", "mqttv5", "-x", "3600", "-d", "-F", "got\t%t\t%p\t%P", *args]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.rows, self.subscribed = [], threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        assert self.subscribed.wait(GUARD_S), "mosquitto_sub has not subscribed"

    def _read(self):
        for line in self.process.stdout:
            if b"Subscribed" in line:
                self.subscribed.set()
            if line.startswith(b"got\t"):
                self.rows.append(line.decode(errors="replace").rstrip("\n").split("\t")[1:])

    def payloads(self):
        return [row[1] for row in list(self.rows)]

    def wait(self, expected, guard_s=None):
        """Until each of the payloads came at least once."""
        expected = set(expected)
        until(lambda: expected <= set(self.payloads()),
              lambda: f"{len(expected)} payloads; missing {sorted(expected - set(self.payloads()))[:5]}, "
                      f"{len(expected - set(self.payloads()))} in all", guard_s or GUARD_S * 4)
        return self.payloads()

    def end(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class Proxy:
    """Forwards connections to a port. stall(): bytes stop in both directions and nothing is closed. cut(): connections end, and new ones
    are refused until mend()."""

    def __init__(self, target):
        self.target, self.stalled, self.pairs = target, False, []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.ending, self.wake = False, os.pipe()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def stall(self):
        self.stalled = True
        os.write(self.wake[1], b"x")

    def mend(self):
        self.stalled = False
        os.write(self.wake[1], b"x")

    def drop(self):
        """Ends what is open."""
        for a, b in self.pairs:
            for s in (a, b):
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        self.ending = True
        os.write(self.wake[1], b"x")
        self.thread.join(GUARD_S)
        self.server.close()
        for fd in self.wake:
            os.close(fd)

    def _accept(self):
        inner, _ = self.server.accept()
        outer = socket.socket()
        if outer.connect_ex(("127.0.0.1", self.target)) != 0:
            inner.close()
            outer.close()
            return
        self.pairs.append((inner, outer))

    def _move(self, source):
        pair = next((p for p in self.pairs if source in p), None)
        if pair is None:
            return
        to = pair[1] if pair[0] is source else pair[0]
        try:
            data = source.recv(65536)
            if data:
                to.sendall(data)
                return
        except OSError:
            pass
        for s in pair:
            s.close()
        self.pairs.remove(pair)

    def _run(self):
        while not self.ending:
            watched = [self.wake[0]]
            if not self.stalled:
                watched += [self.server, *[s for p in self.pairs for s in p]]
            for source in select.select(watched, [], [])[0]:
                if source == self.wake[0]:
                    os.read(self.wake[0], 100)
                elif source is self.server:
                    self._accept()
                else:
                    self._move(source)
        for pair in self.pairs:
            for s in pair:
                s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Mute:
    """An MQTT broker that answers CONNECT, with pings=True PINGREQ, and nothing else."""

    def __init__(self, pings=False):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port, self.connections, self.bytes = self.server.getsockname()[1], 0, 0
        self.answers_pings, self.pings = pings, 0
        threading.Thread(target=self._run, daemon=True).start()

    def greet(self, _):
        pass

    def answer(self, conn, data, first):
        if first:
            conn.sendall(b"\x20\x03\x00\x00\x00")  # CONNACK of 5.0
        if data.endswith(b"\xc0\x00"):
            self.pings += 1
            if self.answers_pings:
                conn.sendall(b"\xd0\x00")

    def _serve(self, conn):
        with conn:
            first = True
            self.greet(conn)
            while True:
                try:
                    data = conn.recv(65536)
                    if not data:
                        return
                    self.bytes += len(data)
                    self.answer(conn, data, first)
                except OSError:
                    return
                first = False

    def _run(self):
        while True:
            try:
                conn, _ = self.server.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_listening(self.server)


class MuteNats(Mute):
    """A NATS server that greets, answers PING and takes what is published, and never sends a message."""

    def greet(self, conn):
        conn.sendall(b'INFO {"server_id":"mute","version":"2.9.0","proto":1,"headers":true,"jetstream":true,"max_payload":1048576}\r\n')

    def answer(self, conn, data, _):
        for _ in range(data.count(b"PING\r\n")):
            self.pings += 1
            conn.sendall(b"PONG\r\n")

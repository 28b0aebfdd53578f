# SPDX-License-Identifier: Apache-2.0
"""Brokers for a comparison: each is started alone on given CPUs, on a free loopback port, with its limits raised so
that nobody drops silently and TCP_NODELAY on, and ended by its process id. A broker that runs already is named by address."""
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import gateway as gw

START_S = 20


class PeerError(Exception):
    """A broker could not be started; the text says why."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# The directory of peers.sh, when the newest brokers are wanted instead of the installed ones.
ROOT = None


def program(name):
    """The command of a broker: the installed one, or that of ROOT with ROOT's own loader and C library."""
    if ROOT is None:
        return [name]
    libraries = glob.glob(f"{ROOT}/usr/lib/*-linux-gnu*")
    loaders = [path for library in libraries for path in glob.glob(f"{library}/ld-linux-*.so.*")]
    found = [path for path in (f"{ROOT}/usr/sbin/{name}", f"{ROOT}/usr/bin/{name}") if os.path.exists(path)]
    if not found or not loaders:
        raise PeerError(f"{ROOT} has no {name}")
    return [loaders[0], "--library-path", ":".join(libraries), found[0]]


def version_line(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0] if lines else "unknown version"


class Process:
    """A broker as a child: pinned, its directory removed at the end."""

    name = "?"

    def __init__(self, cpus):
        self.cpus = cpus
        self.dir = tempfile.TemporaryDirectory(prefix="sluice-peer-")
        self.process, self.port, self.pid = None, 0, 0

    def command(self):
        raise NotImplementedError

    def write(self, name, text):
        path = os.path.join(self.dir.name, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def environment(self):
        return dict(os.environ)

    def ready(self):
        with socket.socket() as s:
            s.settimeout(1)
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def __enter__(self):
        self.port = free_port()
        command = ["taskset", "-c", self.cpus, *self.command()]
        log = os.path.join(self.dir.name, "log")
        with open(log, "wb") as f:
            self.process = subprocess.Popen(command, stdout=f, stderr=subprocess.STDOUT, env=self.environment())
        self.pid = self.process.pid  # taskset replaces itself
        deadline = time.monotonic() + START_S
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                with open(log, encoding="utf-8", errors="replace") as f:
                    said = f.read().strip()[-600:]
                self.__exit__()
                raise PeerError(f"{self.name} did not start: {said or 'it said nothing'}")
            time.sleep(0.05)
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.dir.cleanup()


class Mosquitto(Process):
    name = "mosquitto"

    @staticmethod
    def version():
        return version_line([*program("mosquitto"), "-h"])

    def command(self):
        return [*program("mosquitto"), "-c", self.write("mosquitto.conf", f"""listener {self.port} 127.0.0.1
allow_anonymous true
max_queued_messages 0
max_inflight_messages 0
set_tcp_nodelay true
persistence false
log_type error
""")]


class Nats(Process):
    """MQTT on JetStream."""

    name = "nats-server"

    @staticmethod
    def version():
        return version_line([*program("nats-server"), "--version"])

    def command(self):
        return [*program("nats-server"), "-c", self.write("nats.conf", f"""server_name: bench
listen: "127.0.0.1:{free_port()}"
jetstream {{ store_dir: "{self.dir.name}/jetstream" }}
mqtt {{ listen: "127.0.0.1:{self.port}", max_ack_pending: 65535 }}
""")]

    def environment(self):
        return dict(os.environ, GOMAXPROCS=str(len(self.cpus.split(","))))


class Sluice(Process):
    name = "sluice"
    queue = "max_queued_messages = 1000000; max_queued_bytes = 256m;"

    def __init__(self, cpus, engine="auto", settings="", listener=""):
        super().__init__(cpus)
        self.engine, self.settings, self.listener = engine, settings, listener

    @staticmethod
    def version():
        return version_line([gw.SLUICE, "version"])

    def command(self):
        path = self.write("sluice.conf", f"""workers = {len(self.cpus.split(','))};
data_dir = "{self.dir.name}/data";
admin {{ enabled = false; }}
{self.settings}
listener mqtt {{
    protocol = mqtt; bind = "127.0.0.1:{self.port}"; anonymous = true;
    {self.queue} out_max = 64m; inflight_max = 32768; receive_max = 65535;
    {self.listener}
}}
""")
        return [gw.SLUICE, "run", "-c", path, "--engine", self.engine]


class Remote:
    """A broker that runs already: NAME=HOST:PORT[,PID]."""

    def __init__(self, text):
        self.name, _, rest = text.partition("=")
        address, _, pid = rest.partition(",")
        self.host, _, port = address.rpartition(":")
        if not self.name or not self.host or not port.isdigit() or (pid and not pid.isdigit()):
            raise ValueError(text)
        self.port, self.pid = int(port), int(pid or 0)

    def version(self):
        return f"{self.name} at {self.host}:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass


def installed():
    """The classes of the brokers that this machine has."""
    return [c for c in (Mosquitto, Nats) if ROOT is not None or shutil.which(c.name)]


def newest():
    """Fetches the newest brokers of the archive and uses them from now on."""
    global ROOT
    done = subprocess.run([os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers.sh")], stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        raise PeerError("the newest brokers could not be fetched")
    ROOT = done.stdout.strip().splitlines()[-1]


def run_load(peer, arguments, pin, seconds):
    """One `sluice bench mqtt`. Returns its document; raises when nothing was measured."""
    host = getattr(peer, "host", "127.0.0.1")
    command = [gw.SLUICE, "bench", "mqtt", *arguments, "--to", f"{host}:{peer.port}", "--json", "--duration", f"{seconds}s"]
    if peer.pid:
        command += ["--pid", str(peer.pid)]
    if pin is not None and os.cpu_count() > 1:
        command += ["--pin", str(pin)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        raise PeerError(f"{' '.join(command)}: {done.stderr.strip()[-400:]}") from None
    document["said"] = done.stderr.strip().splitlines()[-1:] if "--find-max" in arguments else []
    return document

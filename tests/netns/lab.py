# SPDX-License-Identifier: Apache-2.0
"""Two namespaces and what runs in them."""
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

GUARD_S = 30
LISTENER = 'listener a { protocol = frame; bind = "127.0.0.1:7000"; }\n'


def run(*args):
    subprocess.run(args, check=True, stdout=subprocess.DEVNULL)


def ip(*args):
    run("ip", *args)


def show(*args):
    return subprocess.run(["ip", *args], check=True, capture_output=True, text=True).stdout


def until(look, what, guard_s=GUARD_S):
    end = time.monotonic() + guard_s
    while True:
        got = look()
        if got:
            return got
        assert time.monotonic() < end, f"{what}: not within {guard_s} s"
        time.sleep(0.02)


def _end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Lab:
    def __init__(self, directory):
        self.directory = directory
        self.children = []
        self.client = None
        self.runs = 0
        self.log_path = None

    def __enter__(self):
        self.holder = self._start(["unshare", "-n", "sleep", "1000"])
        until(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != os.readlink("/proc/self/ns/net"), "a namespace")
        self.add_link("v0", "s0")
        self.server("ip", "link", "set", "lo", "up")
        with open(f"{self.directory}/state", "wb") as f:
            f.truncate(1 << 20)
        return self

    def __exit__(self, *_):
        self.stop_client()
        for child in self.children:
            child.kill()
            child.wait()
        for name in re.findall(r"^\d+: (v\d+)@", show("link"), re.M):
            subprocess.run(["ip", "link", "del", name], stderr=subprocess.DEVNULL)

    def _start(self, args, **more):
        child = subprocess.Popen(args, stdin=subprocess.DEVNULL, preexec_fn=_end_with_parent, **more)
        self.children.append(child)
        return child

    # --- the servers' side ---

    def add_link(self, ours, theirs, carrier=True):
        ip("link", "add", ours, "type", "veth", "peer", "name", theirs)
        ip("link", "set", theirs, "netns", str(self.holder.pid))
        if carrier:
            self.server("ip", "link", "set", theirs, "up")

    def server(self, *args):
        run("nsenter", "-t", str(self.holder.pid), "-n", *args)

    def start_server(self, name, *args):
        log = f"{self.directory}/{name}.log"
        with open(log, "ab") as out:
            child = self._start(["nsenter", "-t", str(self.holder.pid), "-n", *args], stdout=out, stderr=out)
        return child, log

    def dnsmasq(self, *options, interface="s0"):
        """A real server. Returns the process and its log's path."""
        return self.start_server("dnsmasq", "dnsmasq", "-d", "-C", "/dev/null", "-i", interface, "--bind-dynamic", "--port=0",
                                 "--no-ping", "--log-dhcp", f"--dhcp-leasefile={self.directory}/leases", "--user=root",
                                 *options)

    def in_server(self, function):
        """Runs function in a thread whose sockets are made in the servers' namespace; returns what it returns."""
        result = []

        def thread():
            with open(f"/proc/{self.holder.pid}/ns/net") as ns:
                assert ctypes.CDLL(None, use_errno=True).setns(ns.fileno(), 0x40000000) == 0
            result.append(function())
        t = threading.Thread(target=thread)
        t.start()
        t.join()
        return result[0]

    # --- the client ---

    def start_client(self, config="", *options):
        self.runs += 1
        self.log_path = f"{self.directory}/init.{self.runs}.log"
        path = f"{self.directory}/baked.conf"
        with open(path, "w") as f:
            f.write(LISTENER + config)
        with open(self.log_path, "wb") as out:
            self.client = subprocess.Popen(
                [os.environ["SLUICE"], "init", "--network-only", "--dir", self.directory, "-c", path, *options],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=_end_with_parent)
        self.wait_log(r"configuration: .* in force \(")
        return self

    def stop_client(self, signo=signal.SIGTERM):
        if self.client:
            self.client.send_signal(signo)
            assert self.client.wait(GUARD_S) in (0, -signo), self.log()
            self.client = None

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def wait_log(self, pattern, guard_s=GUARD_S):
        try:
            return until(lambda: re.search(pattern, self.log(), re.M), pattern, guard_s)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.log()}") from None

    def ask(self, request):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(GUARD_S)
            s.connect(f"{self.directory}/init.sock")
            s.sendall(json.dumps({"request": request}).encode() + b"\n")
            answer = json.loads(s.makefile("rb").readline())
        assert answer["ok"], answer
        return answer["result"]

    def interface(self, name="v0"):
        for row in self.ask("net")["interfaces"]:
            if row["name"] == name:
                return row
        return None

    def has_address(self, address, name="v0"):
        return re.search(rf"inet6? {re.escape(address)}\b", show("addr", "show", "dev", name)) is not None

    def resolv(self):
        try:
            with open(f"{self.directory}/resolv.conf") as f:
                return f.read()
        except FileNotFoundError:
            return ""

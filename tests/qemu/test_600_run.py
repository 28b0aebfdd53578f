# SPDX-License-Identifier: Apache-2.0
"""What `./build.sh run` starts (image/run_vm.py), as a person uses it: ports on loopback, Ctrl-C once for an ordered end and
twice to pull the plug, and a disk that stays."""
import os
import random
import signal
import socket
import subprocess
import sys
import time

import pytest

from blackbox import http
from blackbox.client import Device, frame
from blackbox.wait import until
from harness import image
from harness.vm import BOOT_GUARD_S, SHORT_GUARD_S

PROGRAM = os.path.join(image.REPO, "image", "run_vm.py")
GUEST_PORTS = (1883, 7000, 9600)


def free_ports(count):
    """Below those that the kernel gives to whoever connects: on a busy machine such a one is taken again at once."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        below = int(f.read().split()[0])
    found = []
    while len(found) < count:
        port = random.randrange(max(10000, below - 20000), below)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


class Run:
    """One call of the program, in a session of its own, its output in a file."""

    def __init__(self, arch, disk_image, directory, *options):
        self.ports = dict(zip(GUEST_PORTS, free_ports(len(GUEST_PORTS))))
        self.log = os.path.join(directory, "log")
        forwards = [word for guest, host in self.ports.items() for word in ("--forward", f"{host}:{guest}")]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, PROGRAM, "--arch", arch, "--image", disk_image, "--dir", os.path.join(directory, "run"),
                 "--disk-size", "64", *forwards, *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(SHORT_GUARD_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def wait_ready(self):
        begin = time.monotonic()

        def ready():
            assert self.process.poll() is None, self.said()
            try:
                session = http.Session(("127.0.0.1", self.ports[9600]), 5 + (time.monotonic() - begin) / 10)
                try:
                    return session.request("/healthz").status == 200
                finally:
                    session.close()
            except (OSError, http.HttpError, ValueError):
                return False
        until(ready, lambda: f"the gateway is ready: {self.said()[-3000:]}", BOOT_GUARD_S, poll_s=0.1)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def wait(self):
        try:
            return self.process.wait(BOOT_GUARD_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end: {self.said()[-3000:]}") from None


def build_image(arch, directory):
    """As `./build.sh run` makes it: without the words that other tests add for an emulated clock."""
    path = str(directory / "sluice.img")
    image.run(os.path.join(image.REPO, "build.sh"), "image", "--arch", arch, "--output", path,
              "--efi", os.path.join(os.environ["OUT"], arch, "sluice.efi"))
    return path


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_run(tmp_path, arch):
    disk_image = build_image(arch, tmp_path)
    with Run(arch, disk_image, str(tmp_path)) as run:
        run.wait_ready()
        with Device(("127.0.0.1", run.ports[7000]), guard_s=SHORT_GUARD_S) as device:
            device.send(frame(b"through run"))
            device.expect(frame(b"through run"))
        run.interrupt()
        assert run.wait() == 0, run.said()[-3000:]
        assert "shutting down" in run.said() and "stopped in order" in run.said(), run.said()[-3000:]
    with Run(arch, disk_image, str(tmp_path)) as run:
        run.wait_ready()
        assert "as it was left" in run.said() and "boot 2, the last one ended: " in run.said(), run.said()
        run.interrupt()
        until(lambda: "shutting down" in run.said(), "the first Ctrl-C is answered", SHORT_GUARD_S)
        run.interrupt()
        # The second one may come when the machine is off already.
        assert run.wait() in (0, 1)


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run([sys.executable, PROGRAM, "--arch", "x86_64", "--image", "/dev/null", "--dir", str(tmp_path / "run"),
                               "--forward", f"{port}:7000"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and f"port {port} on 127.0.0.1 is taken" in done.stderr, done.stderr
    assert not (tmp_path / "run").exists()

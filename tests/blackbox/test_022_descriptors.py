# SPDX-License-Identifier: Apache-2.0
"""Descriptors run out (EMFILE). The limit is lowered while the gateway runs, so that no computed bound stands
before it. Nothing spins, what is connected is served, what comes is shed by name or waits, and
all is well again when descriptors return."""
import resource
import time

import pytest

from harness import proc
from harness.client import Device, Ended, frame
from harness.wait import until

PLACES = 8  # connections that fit below the lowered limit


def lower_limit(gateway, places):
    """Sets the descriptor limit so that about so many more descriptors fit. Returns the old limit."""
    used = max(int(fd) for fd in __import__("os").listdir(f"/proc/{gateway.pid}/fd")) + 1
    try:
        return resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (used + places, resource.prlimit(
            gateway.pid, resource.RLIMIT_NOFILE)[1]))
    except PermissionError as e:
        pytest.skip(f"prlimit: {e}")


def echo_once(device, guard_s=None):
    if guard_s:
        device.sock.settimeout(guard_s)
    device.send(frame(b"descriptor"))
    device.expect(frame(b"descriptor"))


def sort_out(devices):
    """Which of the connections are served, ended, or still wait in the kernel's queue."""
    served, ended, waiting = [], [], []
    for device in devices:
        try:
            echo_once(device, 0.15)
            served.append(device)
        except (Ended, OSError):
            ended.append(device)
        except AssertionError:
            waiting.append(device)
    return served, ended, waiting


@pytest.mark.parametrize("workers", [1, 2])
def test_descriptors_run_out_and_return(engine, run_gateway, workers):
    gateway = run_gateway(engine, workers=workers, listeners={"echo": {"mode": "echo"}})
    early = Device(gateway.address("echo"))
    echo_once(early)
    old = lower_limit(gateway, PLACES)
    devices = [Device(gateway.address("echo"), guard_s=5) for _ in range(4 * PLACES)]
    until(lambda: _accept_errors(gateway) or _shed(gateway), "the limit is met")
    served, ended, waiting = sort_out(devices)
    assert 1 <= len(served) <= PLACES + 1, (len(served), len(ended), len(waiting))
    assert ended or waiting

    # No spin: at the limit, with connections waiting, the process is nearly idle.
    before, start = proc.cpu_s(gateway.pid), time.monotonic()
    time.sleep(1.0)
    load = (proc.cpu_s(gateway.pid) - before) / (time.monotonic() - start)
    assert load < 0.3, f"{load:.0%} of a CPU is used at the limit"
    # Who is connected is served; the admin interface answers or is refused, but it must come back.
    for device in [early] + served:
        echo_once(device, 5)

    for device in served[1:] + ended + waiting:
        device.close()
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, old)

    def serves_again():
        try:
            with Device(gateway.address("echo"), guard_s=2) as device:
                echo_once(device)
            return True
        except (AssertionError, OSError):
            return False
    until(serves_again, "new connections are served again")
    assert _accept_errors(gateway) >= 1, "accept errors are not counted"
    for device in [early] + served[:1]:
        echo_once(device, 5)
        device.close()


def _accept_errors(gateway):
    try:
        return gateway.metric("sluice_accept_errors_total")
    except (AssertionError, OSError):
        return 0


def _shed(gateway):
    try:
        return gateway.closes("no_descriptors")
    except (AssertionError, OSError):
        return 0


def test_recovers_when_only_clients_leave(engine, run_gateway):
    """The limit stays; places come back because connections end."""
    gateway = run_gateway(engine, workers=1, listeners={"echo": {"mode": "echo"}})
    gateway.address("echo")
    lower_limit(gateway, PLACES)
    for _ in range(3):
        devices = [Device(gateway.address("echo"), guard_s=5) for _ in range(2 * PLACES)]
        served, ended, waiting = sort_out(devices)
        assert served, "nobody is served at the limit"
        for device in devices:
            device.close()

        def fresh():
            try:
                with Device(gateway.address("echo"), guard_s=2) as device:
                    echo_once(device)
                return True
            except (AssertionError, OSError):
                return False
        until(fresh, "a new connection is served")
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE,
                     resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE)[1:] * 2)


def test_few_descriptors_from_the_start(engine, run_gateway):
    """A limit of 64: the gateway bounds itself below it, refuses by name, and never meets EMFILE."""
    gateway = run_gateway(engine, workers=1, nofile=64, listeners={"echo": {"mode": "echo"}})
    watch = gateway.watch_closes()
    devices = [Device(gateway.address("echo"), guard_s=5) for _ in range(80)]
    served, ended, waiting = sort_out(devices)
    assert len(served) >= 8 and not waiting, (len(served), len(ended), len(waiting))
    refused = until(lambda: sum(watch.deltas().values()) >= len(ended) and watch.deltas(),
                    watch.deltas)
    assert set(refused) <= {"conn_limit", "no_descriptors"}, refused
    assert gateway.request("/healthz").status == 200
    for device in devices:
        device.close()

# SPDX-License-Identifier: Apache-2.0
"""Descriptors run out (EMFILE). The limit is lowered while the gateway runs, so that no computed bound stands
before it. Nothing spins, what is connected is served, what comes is shed by name or waits, and
all is well again when descriptors return."""
import os
import re
import resource
import signal
import time

import pytest

from harness import proc
from harness.client import Device, Ended, frame
from harness.gateway import Exited
from harness.wait import GUARD_S, until

PLACES = 8  # connections that fit below the lowered limit


def lower_limit(gateway, places):
    """Sets the descriptor limit so that about so many more descriptors fit. Returns the old limit."""
    used = max(int(fd) for fd in os.listdir(f"/proc/{gateway.pid}/fd")) + 1
    try:
        hard = resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE)[1]
        return resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (used + places, hard))
    except PermissionError as e:
        pytest.skip(f"prlimit: {e}")


def reserves(gateway):
    """The descriptors on /dev/null that the workers keep to shed peers with."""
    found = set()
    for fd in os.listdir(f"/proc/{gateway.pid}/fd"):
        try:
            if int(fd) > 2 and os.readlink(f"/proc/{gateway.pid}/fd/{fd}") == "/dev/null":
                found.add(int(fd))
        except FileNotFoundError:  # closed meanwhile
            pass
    return found


def address(gateway):
    return gateway.address(next(iter(gateway.listeners)))


def renew_listener(gateway):
    """Has the listener opened anew: io_uring takes the limit at the time an accept is armed."""
    before = gateway.metric("sluice_reloads_total")
    gateway.listeners["late"] = gateway.listeners.pop("echo")
    gateway.write_config()
    gateway.signal(signal.SIGHUP)
    until(lambda: gateway.metric("sluice_reloads_total") > before, "the listener is opened")
    gateway.forget_addresses()


def arrive(gateway, count):
    """Connections, some of which may be reset before connect() has returned: those are None."""
    devices = []
    for _ in range(count):
        try:
            devices.append(Device(address(gateway), guard_s=5))
        except ConnectionError:
            devices.append(None)
    return devices


def leave(devices):
    for device in devices:
        if device:
            device.close()


def echo_once(device, guard_s=GUARD_S):
    device.sock.settimeout(guard_s)
    device.send(frame(b"descriptor"))
    device.expect(frame(b"descriptor"))


def sort_out(devices, guard_s=0.15):
    """Which of the connections are served, ended, or still wait in the kernel's queue. Who is not served within guard_s is
    taken for one that waits."""
    served, ended, waiting = [], [], []
    for device in devices:
        try:
            if device is None:
                raise Ended("reset on arrival")
            echo_once(device, guard_s)
            served.append(device)
        except (Ended, OSError):
            ended.append(device)
        except AssertionError:
            waiting.append(device)
    return served, ended, waiting


def is_served(gateway):
    try:
        with Device(address(gateway), guard_s=2) as device:
            echo_once(device, 2)
        return True
    except (AssertionError, OSError):
        return False


@pytest.mark.parametrize("workers", [1, 2])
def test_descriptors_run_out_and_return(engine, run_gateway, workers):
    gateway = run_gateway(engine, workers=workers, listeners={"echo": {"mode": "echo"}})
    early = arrive(gateway, 1)
    echo_once(early[0])
    gateway.hold_session()
    watch = gateway.watch_closes()
    old = lower_limit(gateway, PLACES + workers)
    renew_listener(gateway)
    devices = arrive(gateway, 4 * PLACES)
    until(lambda: gateway.metric("sluice_accept_errors_total") >= 1, "the limit is met")
    served, ended, waiting = sort_out(devices)
    counts = (len(served), len(ended), len(waiting))
    assert 1 <= len(served) <= PLACES + 2 * workers, counts
    assert len(ended) > 0, counts
    until(lambda: watch.delta("no_descriptors") >= len(ended), watch.deltas)

    # No spin: at the limit the process is nearly idle.
    before, start = proc.cpu_s(gateway.pid), time.monotonic()
    time.sleep(1.0)
    load = (proc.cpu_s(gateway.pid) - before) / (time.monotonic() - start)
    assert load < 0.3, f"{load:.0%} of a CPU is used at the limit"
    for device in early + served:
        echo_once(device)

    leave(served[1:] + ended + waiting)
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, old)
    until(lambda: is_served(gateway), "new connections are served again")
    for device in early + served[:1]:
        echo_once(device)
        device.close()


def test_recovers_when_only_clients_leave(engine, run_gateway):
    """The limit stays; places come back because connections end."""
    gateway = run_gateway(engine, workers=1, listeners={"echo": {"mode": "echo"}})
    gateway.hold_session()
    old = lower_limit(gateway, PLACES + 1)
    renew_listener(gateway)
    for _ in range(3):
        devices = arrive(gateway, 2 * PLACES)
        served, _, _ = sort_out(devices)
        assert served, "nobody is served at the limit"
        leave(devices)
        until(lambda: is_served(gateway), "a new connection is served")
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, old)


def test_reserve_is_won_back(engine, run_gateway):
    """To shed a peer the gateway gives up its reserve for a moment, and may not get it back: another of its
    threads opened something. The next descriptor that comes free
    must become the reserve, not a connection, or nobody would be shed any more."""
    gateway = run_gateway(engine, workers=1, listeners={"echo": {"mode": "echo"}})
    gateway.hold_session()
    kept = len(reserves(gateway))  # before anybody is shed: it may be lost, by chance, at any time from then on
    old = lower_limit(gateway, PLACES + 1)
    renew_listener(gateway)
    devices = arrive(gateway, 4 * PLACES)
    served, _, _ = sort_out(devices)
    full, hard = resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE)

    def lost():
        """Lowers the limit to the reserve itself. It may have moved to a lower place, one that another thread had used for a
        moment; other such places are filled by who arrives."""
        there = reserves(gateway)
        if len(there) < kept:
            return True
        resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (min(there), hard))
        devices.extend(arrive(gateway, 2))
        return False

    until(lost, "the reserve is lost", poll_s=0.1)
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (full, hard))
    late = arrive(gateway, 4)
    until(lambda: sort_out(late)[1], "a peer that comes late is shed")
    for device in served:
        echo_once(device)
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, old)
    leave(devices + late)
    until(lambda: is_served(gateway), "new connections are served again")


def test_limit_changes_all_the_time(engine, run_gateway):
    """poll(2) refuses to look at more descriptors than the limit allows, and the limit may be another one when the gateway
    asks for it a moment later. It may be 0: then poll can not look at any, and what has come waits."""
    gateway = run_gateway(engine, workers=1, listeners={"echo": {"mode": "echo"}})
    devices = arrive(gateway, 2 * PLACES)
    full, hard = resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE)
    for device in devices:
        echo_once(device)
        for _ in range(100):
            device.send(frame(b"descriptor"))
            for _ in range(20):
                resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (PLACES, hard))
                resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (full, hard))
        for _ in range(100):
            device.expect(frame(b"descriptor"))
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (0, hard))
    for device in devices:
        device.send(frame(b"descriptor"))
        time.sleep(0.005)
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (full, hard))
    for device in devices:
        device.expect(frame(b"descriptor"))
        echo_once(device)


def test_few_descriptors_from_the_start(engine, run_gateway):
    """A small limit: the gateway bounds itself below it and refuses by name."""
    gateway = run_gateway(engine, workers=1, nofile=256, listeners={"echo": {"mode": "echo"}})
    watch = gateway.watch_closes()
    devices = arrive(gateway, 140)
    served, ended, waiting = sort_out(devices, GUARD_S)
    assert len(served) >= 8 and not waiting, (len(served), len(ended), len(waiting))
    until(lambda: sum(watch.deltas().values()) >= len(ended), watch.deltas)
    assert set(watch.deltas()) <= {"conn_limit", "no_descriptors"}, watch.deltas()
    assert gateway.request("/healthz").status == 200
    leave(devices)


def test_too_few_descriptors_to_start(make_gateway):
    gateway = make_gateway("epoll-et", nofile=24)
    with pytest.raises(Exited) as caught:
        gateway.start()
    assert caught.value.code > 0
    assert re.search(r"RLIMIT_NOFILE|EMFILE", caught.value.stderr), caught.value

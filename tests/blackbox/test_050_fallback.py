# SPDX-License-Identifier: Apache-2.0
"""Where io_uring is refused: `auto` falls back to epoll-et and says why in its log, its status and `probe`; an
explicit `uring` fails with the cause. Refusal comes from a seccomp filter, as in containers, and from
kernel.io_uring_disabled."""
import os
import re
import shutil
import subprocess

import pytest

from conftest import needed
from harness import engines, scenarios
from harness.client import Device, ack, frame
from harness.gateway import Exited
from harness.wait import GUARD_S

HERE = os.path.dirname(__file__)
SYSCTL = "/proc/sys/kernel/io_uring_disabled"
CASES = [("setup", "EPERM"), ("setup", "ENOSYS"), ("setup", "EACCES"),
         ("enter", "EPERM"), ("enter", "ENOSYS"), ("register", "EPERM"), ("register", "EINVAL")]


@pytest.fixture(scope="module")
def deny(tmp_path_factory):
    """Builds the program that runs another one under a filter."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        needed("no C compiler for the seccomp wrapper")
    path = str(tmp_path_factory.mktemp("deny") / "deny_uring")
    subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-o", path, f"{HERE}/helpers/deny_uring.c"],
                   check=True)
    works = subprocess.run([path, "setup", "EPERM", "true"], capture_output=True, text=True)
    if works.returncode:
        pytest.skip(f"seccomp filters are refused: {works.stderr.strip()}")
    return path


def serves(gateway):
    with Device(gateway.address("echo")) as device:
        device.send(frame(b"fallen back"))
        device.expect(frame(b"fallen back"))


@pytest.mark.parametrize("call, error", CASES)
def test_auto_falls_back_and_says_why(sluice, deny, run_gateway, call, error):
    gateway = run_gateway("auto", command=[deny, call, error, sluice], workers=2,
                          listeners=scenarios.LISTENERS)
    status = gateway.status()
    assert status["engine"] == "epoll-et"
    assert error in status["engine_why"], status["engine_why"]
    gateway.wait_log(rf"epoll-et.*{error}|{error}.*epoll-et")
    serves(gateway)
    scenarios.coalesced(gateway)


@pytest.mark.parametrize("call, error", CASES)
def test_explicit_uring_fails_with_the_cause(sluice, deny, make_gateway, call, error):
    gateway = make_gateway("uring", command=[deny, call, error, sluice])
    with pytest.raises(Exited) as caught:
        gateway.start()
    assert caught.value.code > 0, caught.value
    assert error in caught.value.stderr and "uring" in caught.value.stderr, caught.value


@pytest.mark.parametrize("call, error", CASES)
def test_probe_names_cause_and_fix(sluice, deny, call, error):
    result = subprocess.run([deny, call, error, sluice, "probe"], capture_output=True, text=True,
                            timeout=GUARD_S)
    assert result.returncode == 1, result  # documented: auto falls back
    assert "epoll-et" in result.stdout and error in result.stdout, result.stdout
    assert re.search(r"seccomp|fix", result.stdout), result.stdout


def test_probe_where_nothing_is_refused(sluice):
    why = engines.uring_refusal()
    result = subprocess.run([sluice, "probe"], capture_output=True, text=True, timeout=GUARD_S)
    assert result.returncode == (1 if why else 0), result
    if why:
        assert "epoll-et" in result.stdout, result.stdout
    else:
        assert re.search(r"\buring\b", result.stdout), result.stdout


def test_auto_takes_uring_where_it_works(run_gateway):
    why = engines.uring_refusal()
    if why:
        pytest.skip(why)
    gateway = run_gateway("auto", workers=2, listeners=scenarios.LISTENERS)
    assert gateway.status()["engine"] == "uring"
    assert gateway.status()["engine_why"]
    serves(gateway)


def test_no_ring_is_made_for_other_engines(sluice, deny, run_gateway):
    """epoll by name runs where even the attempt to make a ring would kill the process."""
    for engine in engines.ALL[1:]:
        gateway = run_gateway(engine, command=[deny, "all", "KILL", sluice],
                              listeners=scenarios.LISTENERS)
        serves(gateway)
        gateway.stop()


def test_sysctl_refuses(sluice, run_gateway, make_gateway):
    """kernel.io_uring_disabled = 2. It is system-wide, so it is set for the shortest possible time."""
    if os.environ.get("BLACKBOX_SYSCTL", "1") == "0":
        pytest.skip("BLACKBOX_SYSCTL=0: others use io_uring on this machine")
    if engines.uring_refusal():
        pytest.skip(f"io_uring is refused already: {engines.uring_refusal()}")
    try:
        with open(SYSCTL) as f:
            before = f.read()
        setting = open(SYSCTL, "w")
    except OSError as e:
        pytest.skip(f"kernel.io_uring_disabled: {e.strerror}")
    explicit = make_gateway("uring")
    try:
        setting.write("2")
        setting.flush()
        gateway = run_gateway("auto", listeners=scenarios.LISTENERS)
        with pytest.raises(Exited) as caught:
            explicit.start()
        probe = subprocess.run([sluice, "probe"], capture_output=True, text=True, timeout=GUARD_S)
    finally:
        setting.close()
        with open(SYSCTL, "w") as f:
            f.write(before)
    assert gateway.status()["engine"] == "epoll-et"
    assert "EPERM" in gateway.status()["engine_why"]
    assert "EPERM" in caught.value.stderr
    assert "io_uring_disabled" in probe.stdout, probe.stdout
    serves(gateway)


@pytest.mark.parametrize("steer", ["hash", "cpu"])
def test_both_workers_accept(engine, run_gateway, steer):
    """With hash both workers get connections by chance; with cpu, those on whose CPU the client runs."""
    gateway = run_gateway(engine, workers=2, listeners={"ack": {"mode": "ack", "steer": steer}})
    cpus = sorted(os.sched_getaffinity(0))
    devices = []
    try:
        for number in range(64):
            if steer == "cpu":
                os.sched_setaffinity(0, {cpus[number % len(cpus)]})
            device = Device(gateway.address("ack"))
            device.send(frame(b"x"))
            device.expect(ack(1))
            devices.append(device)
    finally:
        os.sched_setaffinity(0, set(cpus))
    by_worker = {}
    for entry in gateway.conns("?limit=1000"):
        by_worker[entry["worker"]] = by_worker.get(entry["worker"], 0) + 1
    for device in devices:
        device.close()
    if len(cpus) < 2 and steer == "cpu":
        pytest.skip("one CPU only")
    assert len(by_worker) == 2 and min(by_worker.values()) >= 4, by_worker

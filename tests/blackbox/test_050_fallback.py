# SPDX-License-Identifier: Apache-2.0
"""Where io_uring is refused: `auto` falls back to epoll-et and says why in its log, its status and `probe`; an
explicit `uring` fails with the cause. Refusal comes from a seccomp filter, as in containers, or from
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


def built(path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        needed("no C compiler for the seccomp wrapper")
    subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-o", path, f"{HERE}/helpers/deny_uring.c"],
                   check=True)
    return path


@pytest.fixture(scope="module")
def deny(tmp_path_factory):
    """The program that runs another one under a filter: DENY_URING (in a guest without a compiler), else built here."""
    path = os.environ.get("DENY_URING") or built(str(tmp_path_factory.mktemp("deny") / "deny_uring"))
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


def test_sysctl_refuses(sluice, deny, run_gateway, make_gateway, tmp_path):
    """kernel.io_uring_disabled = 2, as the gateway sees it: io_uring_setup fails with EPERM, and the sysctl says why.
    The sysctl itself is the whole machine's and would take io_uring from whatever else runs on it; so a file that says
    2 lies over it, in a mount namespace."""
    disabled = tmp_path / "io_uring_disabled"
    disabled.write_text("2\n")
    command = ["unshare", "--mount", "sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"', "sh", str(disabled),
               SYSCTL, deny, "setup", "EPERM", sluice]
    mounts = subprocess.run([*command[:-4], "true"], capture_output=True, text=True)
    if mounts.returncode:
        pytest.skip(f"no mount namespace: {mounts.stderr.strip()}")
    gateway = run_gateway("auto", command=command, listeners=scenarios.LISTENERS)
    explicit = make_gateway("uring", command=command)
    with pytest.raises(Exited) as caught:
        explicit.start()
    probe = subprocess.run([*command, "probe"], capture_output=True, text=True, timeout=GUARD_S)
    assert gateway.status()["engine"] == "epoll-et"
    for said in (gateway.status()["engine_why"], caught.value.stderr, probe.stdout):
        assert "EPERM" in said and "io_uring_disabled is 2" in said, said
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

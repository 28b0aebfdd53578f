# SPDX-License-Identifier: Apache-2.0
"""The kernel with everything inside is started directly, without firmware or disk, on each machine it is meant for; a
real framed client is served through it, on io_uring, by a worker for each core."""
import pytest

from blackbox.client import Device, frame
from harness.vm import SHORT_GUARD_S, Vm, out

MACHINES = {
    "microvm": dict(arch="x86_64", machine="microvm"),
    "q35": dict(arch="x86_64", machine="q35"),
    "bzImage": dict(arch="x86_64", machine="q35", boot="bzImage"),
    "virt": dict(arch="aarch64", machine="virt"),
}


@pytest.fixture(scope="module", params=list(MACHINES))
def vm(request):
    settings = dict(MACHINES[request.param])
    if "boot" in settings:
        settings["boot"] = out(settings["arch"], settings["boot"])
    with Vm(**settings) as vm:
        vm.wait_ready()
        yield vm


def test_frames_come_back(vm):
    with Device(vm.address(7000), guard_s=SHORT_GUARD_S) as device:
        for size in (1, 100, 1400, 9000):
            device.send(frame(b"x" * size))
            device.expect(frame(b"x" * size))


def test_engine_is_uring(vm):
    """The probe tries io_uring end to end at start; the log says what it found."""
    vm.wait_console(r"engine uring")
    status = vm.get("/api/status").json()
    assert status["engine"] == "uring", status


def test_one_worker_for_each_core(vm):
    vm.wait_console(r"worker 1 started on CPU 1")


def test_console_shows_no_errors_of_the_kernel(vm):
    """The kernel's messages of level error and worse go to the console; a healthy boot has none."""
    # Said by the kernel wherever there is no PCI bus, also when told so.
    expected = "PCI: Fatal: No config space access function found"
    lines = [line for line in vm.console().splitlines() if line.startswith("[") and expected not in line]
    assert not lines, "\n".join(lines)

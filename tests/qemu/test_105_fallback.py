# SPDX-License-Identifier: Apache-2.0
"""An operator's word on the kernel's command line stands: with io_uring switched off there the gateway serves by epoll, and
says why. PID 1's own table of settings leaves the setting alone."""
import pytest

from blackbox.client import Device, frame
from harness.vm import SHORT_GUARD_S, Vm


@pytest.mark.parametrize("arch, machine", [("x86_64", "microvm"), ("aarch64", "virt")])
def test_without_io_uring(arch, machine):
    with Vm(arch, machine, append="sysctl.kernel.io_uring_disabled=2") as vm:
        vm.wait_console(r"engine epoll-et: io_uring: .* kernel\.io_uring_disabled is 2")
        vm.wait_ready()
        assert vm.get("/api/status").json()["engine"] == "epoll-et"
        with Device(vm.address(7000), guard_s=SHORT_GUARD_S) as device:
            for size in (1, 1400, 9000):
                device.send(frame(b"x" * size))
                device.expect(frame(b"x" * size))
        rows = {row["name"]: row["result"] for row in vm.get("/api/appliance/net").json()["sysctls"]}
        assert rows["kernel/io_uring_disabled"] == "command line", rows
        assert set(rows.values()) <= {"set", "absent", "command line"}, rows

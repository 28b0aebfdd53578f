# SPDX-License-Identifier: Apache-2.0
"""Small machines: 64 MiB serve a thousand connections, and all of user space stays under 8 MiB while idle."""
import re

import pytest

from blackbox.client import Device, frame
from harness.helper import helper
from harness.overlay import overlay
from harness.vm import Vm

CONNS = 1000
USER_KB_MAX = 8 * 1024


@pytest.fixture(scope="module", params=["x86_64", "aarch64"])
def vm(request, tmp_path_factory):
    archive = overlay(str(tmp_path_factory.mktemp("memory") / "over.cpio"), {"beside": helper("beside", request.param)})
    with Vm(request.param, memory=64, initrd=archive,
            append="rdinit=/beside beside=accept:7000+sleep:3+user") as vm:
        vm.wait_ready()
        yield vm


def test_user_space_is_small(vm):
    vm.wait_console(r"^beside: done$")
    (total,) = re.findall(r"^beside: user all (\d+) kB$", vm.console(), re.M)
    assert 500 < int(total) < USER_KB_MAX, vm.console()


def test_a_thousand_connections(vm):
    devices = [Device(vm.address(7000), guard_s=60) for _ in range(CONNS)]
    for number, device in enumerate(devices):
        device.send(frame(b"%08d" % number))
    for number, device in enumerate(devices):
        device.expect(frame(b"%08d" % number))
    open_conns = vm.get("/api/status").json()
    assert f"{CONNS}" in str(open_conns), open_conns
    for device in devices:
        device.close()
    # Nobody had to be killed for it.
    assert "Out of memory" not in vm.console()

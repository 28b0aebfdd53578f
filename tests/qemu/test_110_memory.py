# SPDX-License-Identifier: Apache-2.0
"""Small machines: 64 MiB serve a thousand connections, and all of user space stays under 8 MiB while idle. The thousand are
made inside, which is harder: the machine holds both ends of each."""
import re

import pytest

from blackbox.client import Device, frame
from harness.helper import helper
from harness.overlay import overlay
from harness.vm import SHORT_GUARD_S, Vm

CONNS = 1000
USER_KB_MAX = 8 * 1024


@pytest.fixture(scope="module", params=["x86_64", "aarch64"])
def vm(request, tmp_path_factory):
    archive = overlay(str(tmp_path_factory.mktemp("memory") / "over.cpio"), {"beside": helper("beside", request.param)})
    with Vm(request.param, memory=64, initrd=archive,
            append=f"rdinit=/beside beside=accept:7000+sleep:3+user+idle:7000:{CONNS}") as vm:
        vm.wait_ready()
        yield vm


def test_user_space_is_small(vm):
    vm.wait_console(r"^beside: user all")
    (total,) = re.findall(r"^beside: user all (\d+) kB$", vm.console(), re.M)
    assert 500 < int(total) < USER_KB_MAX, vm.console()


def test_a_thousand_connections(vm):
    done = vm.wait_console(r"^beside: idle (\d+) connected (\d+) echoed (\d+) failures$")
    assert (int(done[1]), int(done[2])) == (CONNS, CONNS), vm.explain("not all were served")
    # One from outside has its place beside them.
    with Device(vm.address(7000), guard_s=SHORT_GUARD_S) as device:
        device.send(frame(b"from outside"))
        device.expect(frame(b"from outside"))
    assert vm.get("/api/status").json()["conns_open"] >= CONNS
    # Nobody had to be killed for it.
    assert "Out of memory" not in vm.console()

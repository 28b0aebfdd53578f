# SPDX-License-Identifier: Apache-2.0
"""Fifty thousand idle framed connections in one guest. The load is made inside, because the host's limit of descriptors
is not the guest's; so the guest's kernel holds both ends of each connection."""
import re

import pytest

from harness.helper import helper
from harness.overlay import overlay
from harness.vm import Vm

CONNS = 50000
CONFIG = b"""
listener devices { protocol = frame; bind = "0.0.0.0:7000"; mode = echo; rcvbuf = 32k; idle_timeout = 1h; }
admin { bind = "0.0.0.0:9600"; }
"""
# Both ends: two sockets, two descriptors and files, and what the gateway's ring needs for one. A bound
# from the sizes of the kernel's slabs (docs/kernel.md), not yet held against a run.
KERNEL_BYTES_MAX = 10 * 1024


@pytest.mark.guard(400)
def test_fifty_thousand_idle_connections(tmp_path):
    archive = overlay(str(tmp_path / "over.cpio"), {"beside": helper("beside", "x86_64"),
                                                    "etc/sluice/sluice.conf": CONFIG})
    with Vm("x86_64", memory=1536, initrd=archive,
            append=f"rdinit=/beside beside=accept:7000+sleep:1+idle:7000:{CONNS}") as vm:
        vm.wait_ready()
        done = vm.wait_console(r"^beside: idle (\d+) connected (\d+) echoed (\d+) failures$", 350)
        assert (int(done[1]), int(done[2])) == (CONNS, CONNS), vm.explain("not all were served")
        workers = vm.get("/api/status").json()["workers"]
        assert sum(w["conns_open"] for w in workers) >= CONNS
        memory = {when: int(free) for when, free in
                  re.findall(r"^beside: memory (\w+) free (\d+) ", vm.console(), re.M)}
        per_conn = (memory["before"] - memory["after"]) * 1024 / CONNS
        print("\n".join(line for line in vm.console().splitlines() if line.startswith("beside: ")))
        print(f"{per_conn:.0f} bytes of the guest's memory for each connection, both ends and the gateway's part")
        assert per_conn < KERNEL_BYTES_MAX + 1024

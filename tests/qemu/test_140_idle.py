# SPDX-License-Identifier: Apache-2.0
"""Fifty thousand idle framed connections in one guest. The load is made inside, because the host's limit of descriptors
is not the guest's; so the guest's kernel holds both ends of each connection."""
import collections
import re

import pytest

from harness.helper import helper
from harness.overlay import overlay
from harness.vm import Vm

CONNS = 50000
CONFIG = b"""
listener devices { protocol = frame; bind = "0.0.0.0:7000"; mode = echo; rcvbuf = 32k; idle_timeout = 1h; }
admin { bind = "0.0.0.0:9600"; anonymous = yes; }
"""
# Both ends: two sockets, two descriptors and files, and what the gateway's ring needs for one (docs/kernel.md).
KERNEL_BYTES_MAX = 10 * 1024
GATEWAY_BYTES_MAX = 1024


def slab_growth(console):
    """Objects and bytes that each connection added, by slab cache, the largest first."""
    seen = collections.defaultdict(dict)
    for when, name, count, size in re.findall(r"^beside: slab (\w+) (\S+) (\d+) x (\d+)$", console, re.M):
        seen[name][when] = (int(count), int(size))
    rows = []
    for name, at in seen.items():
        count, size = at.get("after", (0, 0))
        grown = (count - at.get("before", (0, 0))[0]) / CONNS
        if grown > 0.05:
            rows.append((grown * size, grown, size, name))
    return sorted(rows, reverse=True)


@pytest.mark.nightly
@pytest.mark.guard(1800)
@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_fifty_thousand_idle_connections(tmp_path, arch):
    archive = overlay(str(tmp_path / "over.cpio"), {"beside": helper("beside", arch),
                                                    "etc/sluice/sluice.conf": CONFIG})
    with Vm(arch, memory=1536, initrd=archive,
            append=f"rdinit=/beside beside=accept:7000+sleep:1+idle:7000:{CONNS}") as vm:
        vm.wait_ready()
        done = vm.wait_progress(r"^beside: idle (\d+) connected (\d+) echoed (\d+) failures$", r"^beside: idle at \d+ of")
        assert (int(done[1]), int(done[2])) == (CONNS, CONNS), vm.explain("not all were served")
        workers = vm.get("/api/status").json()["workers"]
        assert sum(w["conns_open"] for w in workers) >= CONNS
        memory = {when: (int(free), int(slab)) for when, free, slab in
                  re.findall(r"^beside: memory (\w+) free (\d+) available \d+ slab (\d+) ", vm.console(), re.M)}
        total = (memory["before"][0] - memory["after"][0]) * 1024 / CONNS
        slab = (memory["after"][1] - memory["before"][1]) * 1024 / CONNS
        print(f"{arch}: {total:.0f} bytes of the guest's memory for each connection (both ends, and the gateway), "
              f"{slab:.0f} of them in the kernel's slabs:")
        for size_all, grown, size, name in slab_growth(vm.console()):
            print(f"  {name:24} {grown:5.2f} objects of {size:5} bytes  {size_all:7.0f} bytes")
        assert slab < KERNEL_BYTES_MAX
        assert total < KERNEL_BYTES_MAX + GATEWAY_BYTES_MAX

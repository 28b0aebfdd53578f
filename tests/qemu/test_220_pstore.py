# SPDX-License-Identifier: Apache-2.0
"""A panic leaves its last words with the firmware; the next boot tells of them, keeps them on the data partition, and empties
the store for the next one."""
import shutil

import pytest

from harness import image
from harness.disk import MIB, make_disk
from harness.helper import helper
from harness.overlay import overlay
from harness.vm import BOOT_GUARD_S, Vm, out
from test_200_init import ask

ARCH = "x86_64"


@pytest.mark.nightly
def test_panic_is_told_by_the_next_boot(tmp_path):
    disk, variables = str(tmp_path / "disk"), str(tmp_path / "variables")
    make_disk(disk, 32 * MIB)
    shutil.copyfile(image.VARIABLES[ARCH, "uefi"], variables)
    firmware = ["-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={image.FIRMWARE_FILES[ARCH, 'uefi']}",
                "-drive", f"if=pflash,format=raw,unit=1,file={variables}"]
    machine = dict(boot=out(ARCH, "bzImage"), memory=256, disks=[disk], extra=firmware)
    meddle = overlay(str(tmp_path / "meddle.cpio"), {"meddle": helper("meddle", ARCH)})
    with Vm(ARCH, "q35", initrd=meddle, append="rdinit=/meddle meddle=panic panic=-1", reboot=False, **machine) as vm:
        vm.wait_exit(BOOT_GUARD_S)
        assert "Attempted to kill init" in vm.console(), vm.console()[-2000:]
    with Vm(ARCH, "q35", **machine) as vm:
        vm.wait_console(r"the kernel left \d+ crash records")
        vm.wait_console(r"pstore: (\d+) of \1 crash records kept on the data partition")
        vm.wait_ready()
        records = ask(vm, "pstore")["records"]
        assert any("Attempted to kill init" in row["text"] for row in records), [row["name"] for row in records]
    with Vm(ARCH, "q35", **machine) as vm:
        vm.wait_ready()
        assert "the kernel left" not in vm.console()

# SPDX-License-Identifier: Apache-2.0
"""A machine with a data partition whose power goes, and what its clients need to find it again."""
import os
import shutil
import time

from blackbox.wait import until

from .disk import MIB, make_disk
from .overlay import overlay
from .vm import BOOT_GUARD_S, Vm

DISK_MIB = 96
MACHINES = {"x86_64": "q35", "aarch64": "virt"}
QUEUE = {"max_queued_messages": 10000000, "max_queued_bytes": "1g", "inflight_max": 20, "receive_max": 1000}
CONF = """
stream all { topics = ["load/#"]; }
listener mqtt {
    protocol = mqtt; bind = "0.0.0.0:1883"; anonymous = yes; inflight_max = 20; receive_max = 1000;
    max_queued_messages = 10000000; max_queued_bytes = 1g;
}
admin { bind = "0.0.0.0:9600"; anonymous = yes; }
"""
AWAY = ["away0", "away1"]


class Site:
    """A machine whose power goes, and its clients, who find it again."""

    def __init__(self, arch, directory):
        self.arch, self.directory, self.vm, self.ask_at = arch, directory, None, 0
        self.disk = os.path.join(directory, "disk")
        self.data_at = make_disk(self.disk, DISK_MIB * MIB)
        self.initrd = overlay(os.path.join(directory, "initrd"), {"etc/sluice/sluice.conf": CONF.encode()})

    def start(self, **more):
        more.setdefault("disks", [{"file": self.disk, "cache": "writeback"}])
        vm = Vm(self.arch, MACHINES[self.arch], memory=192, initrd=self.initrd, ports=(1883, 9600), **more)
        vm.start()
        try:
            vm.wait_console(r"gateway ready")
            until(lambda: vm.get("/readyz").status == 200, "the gateway serves", BOOT_GUARD_S)
            assert "nothing is durable" not in vm.console(), vm.explain("no data partition")
        except BaseException:
            vm.stop()
            raise
        self.vm = vm

    def cut(self):
        vm, self.vm = self.vm, None
        vm.cut_power()
        shutil.rmtree(vm.directory, ignore_errors=True)

    def switch_off(self):
        """In order."""
        vm, self.vm = self.vm, None
        vm.press_power()
        vm.wait_exit(BOOT_GUARD_S)
        vm.stop()

    def address(self):
        vm = self.vm
        if vm is None:
            raise OSError("the machine is off")
        return vm.address(1883)

    def request(self, path):
        return self.vm.get(path, BOOT_GUARD_S)

    def metric(self, name):
        text = self.vm.get("/metrics").text()
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name)

    def nothing_waits(self):
        """Asked once a second at most: under emulation an answer takes as long as hundreds of messages. In this order: what
        waits no more is in flight."""
        if time.monotonic() < self.ask_at:
            return False
        nothing = self.metric("sluice_mqtt_queued") == 0 and self.metric("sluice_mqtt_in_flight") == 0
        self.ask_at = time.monotonic() + 1
        return nothing

    def stop(self):
        if self.vm:
            self.vm.stop()

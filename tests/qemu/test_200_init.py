# SPDX-License-Identifier: Apache-2.0
"""PID 1 on a machine: one disk's life over several boots, in this order. Each boot looks at several things, since booting
is what takes the time."""
import calendar
import http.client
import json
import os
import re
import time

import pytest

from blackbox.wait import until
from harness.disk import MIB, damage, debugfs, make_disk, put_state, state_values
from harness.helper import helper
from harness.overlay import overlay
from harness.timeserver import TimeServer
from harness.vm import BOOT_GUARD_S, SHORT_GUARD_S, Vm, out

ARCH, MACHINE = "x86_64", "q35"
DISK_BYTES = 64 * MIB
NO_CLOCK = ("-rtc", "base=2020-01-01T00:00:00")


def ask(vm, name, body=None):
    """A request to init through the gateway's admin port."""
    host, port = vm.address(9600)
    conn = http.client.HTTPConnection(host, port, timeout=SHORT_GUARD_S)
    conn.request("POST" if body else "GET", f"/api/appliance/{name}", body, {"Host": "127.0.0.1", "X-Sluice-Admin": "1"})
    answer = conn.getresponse()
    data = json.loads(answer.read())
    assert answer.status == 200, data
    return data


class Life:
    """The disk, and what is known of the machine that boots from it."""

    def __init__(self, directory):
        self.directory, self.disk = directory, os.path.join(directory, "disk")
        self.data_at = make_disk(self.disk, DISK_BYTES)
        self.machine_id = None

    def boot(self, meddle=None, files=(), append="", **more):
        files = dict(files)
        if meddle:
            files["meddle"] = helper("meddle", ARCH)
            append += f" rdinit=/meddle meddle={meddle}"
        initrd = overlay(os.path.join(self.directory, "initrd"), files) if files else None
        return Vm(ARCH, MACHINE, memory=192, disks=[self.disk], initrd=initrd, append=append,
                  **{"reboot": False, **more})


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    return Life(str(tmp_path_factory.mktemp("disk")))


def test_first_boot_grows_the_disk_restarts_a_crashed_gateway_and_ends_by_the_power_button(life):
    second = os.path.join(life.directory, "second")
    with life.boot(meddle="crash:1", append="console=hvc0 console=ttyS0",
                   extra=(*NO_CLOCK, "-chardev", f"file,id=second,path={second}", "-device", "virtio-serial-pci",
                          "-device", "virtconsole,chardev=second")) as vm:
        vm.wait_console(r"gateway ended after .* signal 11", what="the gateway is killed")
        vm.wait_start(r"state record: empty", r"clock 20\d\d-.* from: build", r"power button: ",
                      r"data partition: grown to 61 MiB", end=r"gateway ended after [\s\S]*init: gateway ready")
        state = ask(vm, "appliance")
        assert state["gateway"]["restarts"] == 1 and state["gateway"]["state"] == "serving", state
        assert state["data"]["outcome"] == "mounted" and state["data"]["bytes"] > 40 * MIB, state
        assert state["state"]["health"] == "empty" and state["watchdog"]["held_back"] is False, state
        assert re.fullmatch(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}", state["machine_id"]), state
        assert state["hostname"] == "sluice-" + state["machine_id"][:8]
        life.machine_id = state["machine_id"]
        vm.press_power()
        assert vm.wait_exit(BOOT_GUARD_S) == 0
        assert "power off: Power Button" in vm.console(), vm.console()[-2000:]
        assert "stopped in order" in vm.console()
        built = calendar.timegm(time.strptime(re.search(r"\) built (\S+)Z$", vm.console(), re.M)[1], "%Y-%m-%dT%H:%M:%S"))
    # PID 1 writes to each console that the kernel has.
    with open(second, encoding="utf-8", errors="replace") as f:
        said = f.read()
    assert "gateway ready" in said and "power off: Power Button" in said, said[-2000:]
    values, _ = state_values(life.disk)
    assert values["boot.end"] == b"Power Button" and values["machine_id"].hex() == life.machine_id
    assert len(values["seed"]) == 32, values
    # It began at the time of the build, and may have lasted less than a second.
    assert int(values["saved_time"]) > built, (values["saved_time"], built)
    life.seed, life.saved = values["seed"], int(values["saved_time"])


def test_second_boot_knows_itself_sets_its_clock_and_restarts_when_asked(life):
    """Two of three servers agree; the third is a year off. The file system has damage that can be repaired."""
    debugfs(life.disk, life.data_at, "clri lost+found", "set_super_value state 2")
    right = life.saved + 86400 * 30
    servers = [TimeServer(t) for t in (right, right + 86400 * 365, right)]
    text = "".join(f" 10.0.2.2:{s.port}" for s in servers).strip()
    with open(os.path.join(os.environ["REPO"], "rootfs", "sluice.conf")) as f:
        conf = f.read() + f'\nnetwork default {{ ntp = "{text}"; }}\n'
    with life.boot(files={"etc/sluice/sluice.conf": conf.encode()}, extra=NO_CLOCK) as vm:
        vm.wait_start(r"clock 20\d\d-.* from: saved time", rf"machine id {life.machine_id} \(kept\)",
                      r"boot 2, the last one ended: Power Button", r"data partition: the kernel noted errors in the file system",
                      r"data partition: (repaired; what could not be put back|the file system was repaired)")
        vm.wait_console(r"clock stepped by .* to 20\d\d")
        vm.wait_console(r"clock synchronised by 10\.0\.2\.2")
        assert "grown" not in vm.console()
        assert ask(vm, "appliance")["data"]["outcome"] == "repaired"
        clock = ask(vm, "clock")
        assert clock["synced"] and clock["steps"] == 1 and clock["hardware_clock"], clock
        assert abs(clock["offset_ms"] / 1000 - 86400 * 30) < 3600, clock
        assert ask(vm, "restart", '{"confirm":true}') == {"shutting_down": True}
        assert vm.wait_exit(BOOT_GUARD_S) == 0
        assert "restart: restart asked for by the admin" in vm.console(), vm.console()[-2000:]
    for server in servers:
        assert server.asked >= 1
        server.close()
    values, _ = state_values(life.disk)
    assert abs(int(values["saved_time"]) - right) < 3600, values
    assert values["seed"] != life.seed


def test_third_boot_leaves_a_damaged_file_system_whose_check_was_killed(life):
    """A check that did not end says nothing about the data: it is not made anew, and the gateway serves without it."""
    damage(life.disk, life.data_at, 12 * MIB)
    with open(life.disk, "rb") as f:
        f.seek(life.data_at)
        before = f.read(12 * MIB)
    with life.boot(files={"sbin/e2fsck": helper("killed", ARCH)}) as vm:
        vm.wait_console(r"data partition: the check did not come to its end")
        vm.wait_console(r"data partition: left as it is: running without one")
        vm.wait_console(r"gateway ready")
        state = ask(vm, "appliance")
        assert state["data"]["outcome"] == "failed" and state["gateway"]["volatile_data"], state
    with open(life.disk, "rb") as f:
        f.seek(life.data_at)
        assert f.read(12 * MIB) == before


def test_fourth_boot_starts_empty_after_damage_and_is_reset_by_the_watchdog(life):
    """The file system is beyond repair. A stopped gateway is not restarted in time for this short watchdog."""
    with life.boot(meddle="stop:1000000", append="sluice.watchdog=8",
                   extra=("-device", "i6300esb", "-action", "watchdog=poweroff")) as vm:
        vm.wait_console(r"watchdog /dev/watchdog\d \(i6300ESB.*\): resets the machine after 8 s")
        vm.wait_console(r"BEYOND REPAIR")
        vm.wait_console(r"data partition: .* is made anew on")
        vm.wait_console(r"gateway ready")
        vm.wait_console(r"watchdog: not fed")
        vm.wait_exit(BOOT_GUARD_S)
        assert "power off:" not in vm.console(), vm.console()[-2000:]


def test_crash_loop_restarts_the_machine_and_then_stays_up(life):
    """The record says that two boots ended in a crash loop already."""
    values, _ = state_values(life.disk)
    put_state(life.disk, {**values, "boot.crash_reboots": b"2"})
    with life.boot(meddle="crash:100000", reboot=True) as vm:
        vm.wait_console(r"crash loop \(.*restarting the machine, 3 of 3")
        vm.wait_console(r"the last one ended: crash loop")
        vm.wait_console(r"STATUS MODE")
        assert vm.running()


def test_both_slots_damaged_and_no_data_partition(life):
    damage(life.disk, MIB, 1 * MIB)
    with life.boot(append="sluice.data=none") as vm:
        vm.wait_console(r"state record: lost")
        vm.wait_console(r"machine id [0-9a-f]{32} \(made now")
        vm.wait_console(r"data partition: none")
        vm.wait_console(r"gateway ready")
        state = ask(vm, "appliance")
        assert state["machine_id"] != life.machine_id and state["gateway"]["volatile_data"], state


def test_a_hung_gateway_is_ended_and_switching_off_has_a_deadline(tmp_path):
    """The first gateway that stands still is ended and replaced; the second is there when the power button is pressed, here
    a GPIO of the device tree, and can not be drained."""
    initrd = overlay(str(tmp_path / "initrd"), {"meddle": helper("meddle", "aarch64")})
    with Vm("aarch64", memory=192, initrd=initrd, append="rdinit=/meddle meddle=stop:2", reboot=False) as vm:
        vm.wait_console(r"gateway: .* stands still for \d+ ms: ending it")
        vm.set_mark()
        vm.wait_console(r"gateway ready")

        def stands_still():
            try:
                return vm.get("/healthz", guard_s=3) is None
            except OSError:
                return True
        until(stands_still, "the second gateway is stopped", BOOT_GUARD_S)
        vm.press_power()
        assert vm.wait_exit(BOOT_GUARD_S) == 0
        said = vm.console()[vm.mark:]
        assert "power off: gpio" in said and "stopped in order" not in said, said
        assert "still there: killing it" in said or "ending it" in said, said


def test_the_kernels_own_request_for_an_end(tmp_path):
    """Hyper-V, Xen and an overheated board end the machine by the program that the kernel calls for it."""
    initrd = overlay(str(tmp_path / "initrd"), {"beside": helper("beside", ARCH), "sbin/poweroff": ("link", "/sluice")})
    with Vm(ARCH, MACHINE, memory=192, initrd=initrd, append="rdinit=/beside beside=accept:9600+exec:/sbin/poweroff",
            reboot=False) as vm:
        assert vm.wait_exit(BOOT_GUARD_S) == 0
        assert "power off: power off asked for" in vm.console() and "stopped in order" in vm.console(), vm.console()[-2000:]


def test_ctrl_alt_del():
    with open(out(ARCH, "kernel.config")) as f:
        if "CONFIG_KEYBOARD_ATKBD=y" not in f.read():
            pytest.skip("this kernel has no driver for the keyboard")
    with Vm(ARCH, MACHINE, memory=192, reboot=False) as vm:
        vm.wait_console(r"gateway ready")
        vm.qmp("send-key", keys=[{"type": "qcode", "data": key} for key in ("ctrl", "alt", "delete")])
        assert vm.wait_exit(BOOT_GUARD_S) == 0
        assert "restart: Ctrl-Alt-Del" in vm.console(), vm.console()[-2000:]


def test_files_of_the_build_are_there():
    for name in ("vmlinux", "e2fsck", "mke2fs"):
        assert os.path.exists(out(ARCH, name)), name

# SPDX-License-Identifier: Apache-2.0
"""The configuration on the boot partition, and the last good one: a good file, then one with a mistake, then a partition that
is no file system any more. One disk, a machine after the other."""
import subprocess

import pytest

from blackbox.wait import until
from harness.vm import BOOT_GUARD_S, SHORT_GUARD_S, Vm
from test_300_network import Api

ESP_AT = 1 << 20
TABLE = 'label: gpt\nstart=2048, size=32768, name="sluice-esp"\nstart=34816, size=2048, name="sluice-state"\n'
GOOD = "drain_timeout = 4s\nlistener devices { protocol = frame; bind = \"0.0.0.0:7000\"; mode = ack }\n"


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("esp") / "disk.img")
    with open(path, "wb") as f:
        f.truncate(20 << 20)
    subprocess.run(["sfdisk", "-q", path], input=TABLE, text=True, check=True)
    subprocess.run(["mformat", "-i", f"{path}@@{ESP_AT}", "-v", "SLUICE", "-T", "32768", "-h", "64", "-s", "32", "::"], check=True)
    return path


def put(disk, text):
    subprocess.run(["mcopy", "-o", "-i", f"{disk}@@{ESP_AT}", "-", "::sluice.conf"], input=text.encode(), check=True)


def boot(disk):
    return Vm("x86_64", "q35", disks=[disk], append="sluice.slot=a")


def test_a_good_file_is_in_force_and_kept(disk):
    put(disk, GOOD)
    with boot(disk) as vm:
        vm.wait_ready()
        api = Api(vm.address(9600))
        row = api.settings()["drain_timeout"]
        assert (row["value"], row["source"], row["line"]) == ("4s", "esp /sluice.conf", 1)
        until(lambda: api.get("config")["accepted"], "the gateway has confirmed it", SHORT_GUARD_S)
        vm.qmp("system_powerdown")
        vm.wait_exit(BOOT_GUARD_S)


def test_a_mistake_keeps_the_last_good_one(disk):
    put(disk, GOOD.replace("mode = ack", "mode = akc"))
    with boot(disk) as vm:
        vm.wait_ready()
        api = Api(vm.address(9600))
        answer = api.get("config")
        assert answer["in_force"] == "last good"
        assert any("esp /sluice.conf:2: listener devices: mode: 'akc'" in p for p in answer["problems"])
        assert api.settings()["drain_timeout"]["value"] == "4s"
        vm.cut_power()


def test_a_damaged_partition_keeps_it_too(disk):
    with open(disk, "r+b") as f:
        f.seek(ESP_AT)
        f.write(b"\xa5" * 65536)
    with boot(disk) as vm:
        vm.wait_ready()
        api = Api(vm.address(9600))
        assert "damaged: no FAT file system" in api.source("esp")["problem"]
        assert api.get("config")["in_force"] == "last good"
        assert api.settings()["drain_timeout"]["value"] == "4s"

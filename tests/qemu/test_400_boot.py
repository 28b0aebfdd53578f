# SPDX-License-Identifier: Apache-2.0
"""The disk image starts from each firmware, serves, grows its data partition, writes nothing to its ESP meanwhile, and goes
down in order when its power button is pressed."""
import hashlib
import os
import re

import pytest

from blackbox import http
from blackbox.client import Device, frame
from harness import image
from harness.vm import BOOT_GUARD_S, SHORT_GUARD_S, Vm

WAYS = [("x86_64", "q35", "bios"), ("x86_64", "q35", "uefi"), ("aarch64", "virt", "uefi"), ("aarch64", "virt", "uboot")]


@pytest.fixture(scope="module", name="images")
def _images(tmp_path_factory):
    directory = tmp_path_factory.mktemp("images")
    return {arch: image.build(arch, str(directory / f"{arch}.img"), append="loglevel=7") for arch in ("x86_64", "aarch64")}


def esp_hash(path):
    with open(path, "rb") as file:
        file.seek(2 << 20)
        return hashlib.sha256(file.read(18 << 20)).hexdigest()


@pytest.mark.parametrize("arch,machine,kind", WAYS, ids=lambda v: v)
def test_boots(images, tmp_path, arch, machine, kind):
    lacking = image.missing(arch, kind)
    assert not lacking, f"{lacking} is not there"
    disk = image.copy(images[arch], str(tmp_path / "disk"), size_mib=64)
    before = esp_hash(disk)
    # U-Boot leaves no entropy and little memory layout to choose from; UEFI itself wants some 100 MiB.
    with Vm(arch, machine, boot=None, disks=[disk], memory=256, extra=image.firmware(arch, kind),
            machine_options=image.machine_options(kind)) as vm:
        vm.wait_ready()
        status, text = image.ctl(vm, "update")
        assert status == 0, text
        assert "slot      a" in text and "state     idle" in text, text
        use_and_switch_off(vm)
        (words,) = re.findall(r"(?:Kernel c|C)ommand line: (.*sluice\.loader=grub.*)", vm.console())[:1]
    # The loader knows what it runs on, and an operator's words come last.
    assert ("no_timer_check" in words) == (arch == "x86_64") and words.endswith("loglevel=7"), words
    assert esp_hash(disk) == before


def use_and_switch_off(vm):
    with Device(vm.address(7000), guard_s=SHORT_GUARD_S) as device:
        device.send(frame(b"from a client"))
        device.expect(frame(b"from a client"))
    assert vm.get("/api/status").json()["engine"] == "uring"
    assert "data partition: grown to" in vm.console(), vm.explain("the data partition was not grown")
    vm.press_power()
    assert vm.wait_exit(BOOT_GUARD_S) == 0
    assert "stopped in order" in vm.console(), vm.console()[-2000:]


@pytest.mark.nightly
def test_extlinux(tmp_path):
    """U-Boot's own menu, as on a board whose U-Boot has no EFI: it takes the plain kernel, and there are no slots."""
    disk = image.build("aarch64", str(tmp_path / "disk"), "--extlinux", kernel="Image")
    os.truncate(disk, 64 << 20)
    with Vm("aarch64", "virt", boot=None, disks=[disk], memory=256, extra=image.firmware("aarch64", "uboot"),
            machine_options=image.machine_options("uboot")) as vm:
        vm.wait_ready()
        status, text = image.ctl(vm, "update")
        assert status == 0 and "state     off" in text, text
        use_and_switch_off(vm)


def test_other_slot_when_one_is_unreadable(images, tmp_path):
    """A slot that can not be loaded gives way to the other one, without an update being involved."""
    disk = image.copy(images["x86_64"], str(tmp_path / "disk"))
    image.write_file(disk, "/sluice/a.efi", b"\0" * (1 << 20))
    with Vm("x86_64", "q35", boot=None, disks=[disk], memory=128) as vm:
        vm.wait_ready()
        status, text = image.ctl(vm, "update")
        assert status == 0 and "slot      b" in text and "fallback" in text, text


@pytest.mark.nightly
def test_secure_boot(tmp_path):
    """With the owner's keys the image starts under Secure Boot; without them the firmware refuses it."""
    key = str(tmp_path / "key.pem")
    image.run("openssl", "rsa", "-in", image.SNAKEOIL + ".key", "-passin", "pass:snakeoil", "-out", key)
    signed = image.build("x86_64", str(tmp_path / "signed"), "--sb-key", key, "--sb-cert", image.SNAKEOIL + ".pem",
                         append="sluice.unsigned=1")
    # One slot holds a system that nobody signed: the firmware refuses it, the other one is started.
    with open(os.path.join(os.environ["OUT"], "x86_64", "sluice.efi"), "rb") as file:
        image.write_file(signed, "/sluice/a.efi", file.read())
    options = {"boot": None, "memory": 256, "machine_options": "smm=on", "extra": image.firmware("x86_64", "secure")}
    with Vm("x86_64", "q35", disks=[signed], **options) as vm:
        vm.wait_ready()
        status, text = image.ctl(vm, "update")
        assert status == 0 and "slot      b" in text and "fallback" in text, text
    plain = image.build("x86_64", str(tmp_path / "plain"))
    with Vm("x86_64", "q35", disks=[plain], **options) as vm:
        vm.wait_console(r"(Access Denied|Security Violation)")
        with pytest.raises((OSError, http.HttpError, ValueError)):
            vm.get("/healthz", guard_s=1)

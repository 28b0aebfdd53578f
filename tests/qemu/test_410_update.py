# SPDX-License-Identifier: Apache-2.0
"""Updates of a running appliance: good ones, refused ones, ones whose system is no good, and power cuts on the way.
What the writer does at each single write is in tests/unit/test_init_update.c; here it is the whole machine."""
import http.server
import os
import random
import subprocess
import threading
import time

import pytest

from blackbox.link import Link
from blackbox.wait import until
from harness import image, misbehave
from harness.vm import BOOT_GUARD_S, Vm

CONFIG = """
listener devices {{ protocol = frame; bind = "0.0.0.0:7000"; mode = echo; }}
admin {{ bind = "0.0.0.0:9600"; anonymous = yes; }}
update {{ keys = "{keys}"; after = {after}; within = {within}; reach = "{reach}"; }}
"""


def config(owner, after="1s", within="600s", reach=""):
    return CONFIG.format(keys=owner.public(), after=after, within=within, reach=reach).encode()


@pytest.fixture(scope="module", name="owner")
def _owner(tmp_path_factory):
    return image.Owner(str(tmp_path_factory.mktemp("owner")))


@pytest.fixture(scope="module", name="images")
def _images(tmp_path_factory, owner):
    directory = tmp_path_factory.mktemp("images")
    (directory / "sluice.conf").write_bytes(config(owner))
    return {arch: image.build(arch, str(directory / f"{arch}.img"), "--config", str(directory / "sluice.conf"))
            for arch in ("x86_64", "aarch64")}


@pytest.fixture(scope="module", name="updates")
def _updates(tmp_path_factory, owner):
    """A good update for each architecture, of the system itself with another version."""
    directory = tmp_path_factory.mktemp("updates")
    return {arch: owner.update(str(directory / arch), os.path.join(os.environ["OUT"], arch, "sluice.efi"), arch)
            for arch in ("x86_64", "aarch64")}


def need_firmware(arch, kind):
    lacking = image.missing(arch, kind)
    assert not lacking, f"{lacking} is not there"


def state(vm):
    status, text = image.ctl(vm, "update")
    return dict(line.split(None, 1) for line in text.splitlines() if " " in line) if status == 0 else {}


def wait_state(vm, wanted, slot):
    def look():
        now = state(vm)
        return now if now.get("state") == wanted and now.get("slot") == slot else None
    return until(look, f"update state {wanted} in slot {slot}", BOOT_GUARD_S, poll_s=0.3)


def changed(path, out, edit):
    with open(path, "rb") as file:
        content = bytearray(file.read())
    content = edit(content) or content
    with open(out, "wb") as file:
        file.write(content)
    return str(out)


def flipped(at):
    def edit(content):
        content[at] ^= 1
    return edit


def test_refused_then_taken(images, updates, owner, tmp_path):
    """One machine: everything that has to be refused is, and is no harm to the update that follows."""
    disk = image.copy(images["x86_64"], str(tmp_path / "disk"))
    good, stranger = updates["x86_64"], image.Owner(str(tmp_path), "stranger")
    small = tmp_path / "small"
    small.write_bytes(b"MZ" + bytes(100000))
    refused = [
        (changed(good, tmp_path / "signature", flipped(500)), "signature is wrong"),
        (changed(good, tmp_path / "content", flipped(300000)), "hash is wrong"),
        (changed(good, tmp_path / "short", lambda c: c[:-70000]), "ended early"),
        (changed(good, tmp_path / "long", lambda c: c + b"x"), "longer than its header"),
        (str(small), "no update file"),
        (updates["aarch64"], "another architecture"),
        (owner.update(str(tmp_path / "old"), str(small), version="0.0.1"), "older than the running system"),
        (stranger.update(str(tmp_path / "strange"), str(small)), "a key that this system does not have"),
        ("https://10.0.2.2/x", "https is not supported"),
        ("http://10.0.2.2:1/x", "ECONNREFUSED"),
    ]
    with Vm("x86_64", "q35", boot=None, disks=[disk], memory=128) as vm:
        vm.wait_ready()
        for path, message in refused:
            status, text = image.ctl(vm, "update", path)
            assert status != 0 and message in text, (path, text)
            assert state(vm)["state"] == "idle"
        assert image.ctl(vm, "update", "confirm")[0] != 0
        # Over a link that breaks.
        link = Link(vm.address(9600))
        link.cuts = [20000, 300000, 5000000]
        status, text = image.ctl(vm, "update", good, address=link.address)
        link.close()
        assert status == 0 and "going on from there" in text and "version 9.9.9 is in slot b" in text, text
        assert not link.cuts
        # The trial, and its confirmation by the check of its own.
        now = wait_state(vm, "idle", "b")
        assert now["last"] == "slot b has proved itself", now
        # An older one when that is asked for; it is left for a later start.
        older = owner.update(str(tmp_path / "older"), os.path.join(os.environ["OUT"], "x86_64", "sluice.efi"), version="0.0.1")
        status, text = image.ctl(vm, "update", "--allow-downgrade", "--no-restart", older)
        assert status == 0, text
        until(lambda: state(vm).get("state") == "written", "the older one is written", BOOT_GUARD_S, poll_s=0.3)
    env = image.environment(disk)
    assert (env["slot"], env["try"]) == ("b", "a"), env


@pytest.mark.nightly
def test_from_url_and_failed_check(images, updates, owner, tmp_path):
    """An update from a URL, with a redirect, over connections that break; its system can not reach what the configuration names,
    and goes back."""
    disk = image.copy(images["x86_64"], str(tmp_path / "disk"))
    image.write_file(disk, "/sluice.conf", config(owner, within="15s", reach="10.0.2.2:1"))
    with open(updates["x86_64"], "rb") as file:
        content = file.read()
    asked = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", f"http://10.0.2.2:{self.server.server_port}/update?x=1")
                self.end_headers()
                return
            begin = int(self.headers.get("Range", "bytes=0-")[6:-1])
            asked.append(begin)
            self.send_response(206 if begin else 200)
            self.send_header("ETag", '"one"')
            self.send_header("Content-Length", str(len(content) - begin))
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
            self.end_headers()
            self.wfile.write(content[begin:begin + 3000000])
            self.close_connection = True

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Vm("x86_64", "q35", boot=None, disks=[disk], memory=128) as vm:
            vm.wait_ready()
            status, text = image.ctl(vm, "update", f"http://10.0.2.2:{server.server_port}/moved")
            assert status == 0 and "is in slot b" in text, text
            assert len(asked) > 2 and asked[0] == 0 and max(asked) > 3000000, asked
            vm.wait_console(r"first start of slot b, on trial")
            vm.wait_console(r"the check of the new system fails: 10.0.2.2:1")
            vm.wait_console(r"slot b did not prove itself")
            now = wait_state(vm, "idle", "a")
            assert "slot b did not prove itself" in now["last"], now
        server.shutdown()
    assert image.environment(disk)["slot"] == "a"


WAYS = [pytest.param("x86_64", "q35", "uefi", marks=pytest.mark.nightly),
        pytest.param("aarch64", "virt", "uefi", marks=pytest.mark.nightly), ("aarch64", "virt", "uboot")]


@pytest.mark.parametrize("arch,machine,kind", WAYS)
def test_taken_on_each_firmware(images, updates, tmp_path, arch, machine, kind):
    """x86-64 from its BIOS is test_refused_then_taken."""
    need_firmware(arch, kind)
    disk = image.copy(images[arch], str(tmp_path / "disk"))
    with Vm(arch, machine, boot=None, disks=[disk], memory=256, extra=image.firmware(arch, kind),
            machine_options=image.machine_options(kind)) as vm:
        vm.wait_ready()
        status, text = image.ctl(vm, "update", updates[arch])
        assert status == 0, text
        now = wait_state(vm, "idle", "b")
        assert now["last"] == "slot b has proved itself", now
    env = image.environment(disk)
    assert (env["slot"], env["try"]) == ("b", ""), env


def bad_system(how, owner, directory, arch, kind, disk):
    """The file of a system, and what its console says when it goes wrong."""
    if kind == "bios":
        text = f"a system that {how}"
        return misbehave.bios_system(os.path.join(directory, "bad"), text, how == "restarts"), text
    if how == "hangs":
        return misbehave.efi_hang(directory, arch), "a system that stands still"
    if how == "panics":
        return misbehave.efi_panic(directory, arch), "Kernel panic"
    if how == "crashes":
        return misbehave.efi_meddled(directory, arch, disk, "crash:100000"), "crash loop"
    assert how == "watchdog"
    # It stands still some seconds after its start.
    image.write_file(disk, "/sluice.conf", config(owner, after="300s"))
    return misbehave.efi_meddled(directory, arch, disk, "stop:1000000", "sluice.watchdog=8"), "watchdog: not fed"


@pytest.mark.parametrize("arch,machine,kind,how", [
    ("x86_64", "q35", "bios", "hangs"),
    ("x86_64", "q35", "uefi", "crashes"),
    ("aarch64", "virt", "uboot", "panics"),
    pytest.param("x86_64", "q35", "bios", "restarts", marks=pytest.mark.nightly),
    pytest.param("x86_64", "q35", "uefi", "panics", marks=pytest.mark.nightly),
    pytest.param("x86_64", "q35", "uefi", "hangs", marks=pytest.mark.nightly),
    pytest.param("x86_64", "q35", "uefi", "watchdog", marks=pytest.mark.nightly),
    pytest.param("aarch64", "virt", "uefi", "panics", marks=pytest.mark.nightly),
    pytest.param("aarch64", "virt", "uboot", "hangs", marks=pytest.mark.nightly),
])
def test_bad_system(images, owner, tmp_path, arch, machine, kind, how):
    """A new system that restarts at once, whose kernel panics, whose gateway is in a crash loop, that is bitten by the
    watchdog, or stands still until somebody resets the machine: the old one comes back by itself."""
    need_firmware(arch, kind)
    disk = image.copy(images[arch], str(tmp_path / "disk"))
    system, said = bad_system(how, owner, str(tmp_path), arch, kind, disk)
    bad = owner.update(str(tmp_path / "update"), system, arch)
    extra = [*image.firmware(arch, kind), *(["-device", "i6300esb"] if how == "watchdog" else [])]
    with Vm(arch, machine, boot=None, disks=[disk], memory=256, extra=extra,
            machine_options=image.machine_options(kind)) as vm:
        vm.wait_ready()
        status, text = image.ctl(vm, "update", bad)
        assert status == 0, text
        vm.wait_console(said)
        if how == "hangs":
            vm.reset()
        vm.wait_console(r"slot b did not prove itself")
        wait_state(vm, "idle", "a")
    # The loader has noted that it was tried, and does not try it again.
    env = image.environment(disk)
    assert (env["slot"], env["try"], env["tried"]) == ("a", "b", "1"), env


# What the console says when an update has come so far; the power goes within half a second of it.
STAGES = (r"update: idle -> writing", r"update: writing -> written", r"first start of slot [ab], on trial",
          r"update: trial -> blessing", r"update: blessing -> idle")


@pytest.mark.nightly
def test_power_cuts(images, updates, tmp_path):
    """The power goes at each stage of an update, also during its trial: what starts afterwards is one of the two systems, and
    it takes an update."""
    disk = image.copy(images["x86_64"], str(tmp_path / "disk"))
    chance = random.Random(410)

    def settled(vm):
        vm.wait_ready()
        slot = until(lambda: (now := state(vm)).get("state") == "idle" and now["slot"], "the state settles", BOOT_GUARD_S, poll_s=0.3)
        assert slot in ("a", "b")
        return slot

    for stage in STAGES:
        with Vm("x86_64", "q35", boot=None, disks=[{"file": disk, "cache": "writeback"}], memory=128) as vm:
            settled(vm)
            vm.set_mark()
            sender = subprocess.Popen(image.ctl_command(vm, "update", updates["x86_64"]), stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
            try:
                vm.wait_console(stage)
                time.sleep(chance.uniform(0, 0.5))
                vm.cut_power()
            finally:
                sender.kill()  # it would try to go on
                sender.wait()
    with Vm("x86_64", "q35", boot=None, disks=[disk], memory=128) as vm:
        other = "b" if settled(vm) == "a" else "a"
        status, text = image.ctl(vm, "update", updates["x86_64"])
        assert status == 0, text
        wait_state(vm, "idle", other)

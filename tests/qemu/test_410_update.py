# SPDX-License-Identifier: Apache-2.0
"""Updates of a running appliance: good ones, refused ones, ones whose system is no good, and power cuts on the way.
What the writer does at each single write is in tests/unit/test_init_update.c; here it is the whole machine."""
import http.server
import os
import random
import threading

import pytest

from blackbox.wait import until
from harness import image
from harness.vm import Vm

CONFIG = """
listener devices {{ protocol = frame; bind = "0.0.0.0:7000"; mode = echo; }}
admin {{ bind = "0.0.0.0:9600"; anonymous = yes; }}
update {{ keys = "{keys}"; after = 1s; within = {within}; reach = "{reach}"; }}
"""
GUARD_S = 120


def config(owner, within="60s", reach=""):
    return CONFIG.format(keys=owner.public(), within=within, reach=reach).encode()


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


def state(vm):
    status, text = image.ctl(vm, "update")
    return dict(line.split(None, 1) for line in text.splitlines() if " " in line) if status == 0 else {}


def wait_state(vm, wanted, slot):
    def look():
        now = state(vm)
        return now if now.get("state") == wanted and now.get("slot") == slot else None
    return until(look, f"update state {wanted} in slot {slot}", GUARD_S, poll_s=0.3)


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
        status, text = image.ctl(vm, "update", good)
        assert status == 0 and "version 9.9.9 is in slot b" in text, text
        # The trial, and its confirmation by the check of its own.
        now = wait_state(vm, "idle", "b")
        assert now["last"] == "slot b has proved itself", now
    env = image.environment(disk)
    assert (env["slot"], env["try"]) == ("b", ""), env


@pytest.mark.nightly
def test_from_url_and_failed_check(images, updates, owner, tmp_path):
    """An update from a URL, with a redirect; its system can not reach what the configuration names, and goes back."""
    disk = image.copy(images["x86_64"], str(tmp_path / "disk"))
    image.write_file(disk, "/sluice.conf", config(owner, within="15s", reach="10.0.2.2:1"))
    with open(updates["x86_64"], "rb") as file:
        content = file.read()

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", f"http://10.0.2.2:{self.server.server_port}/update?x=1")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Vm("x86_64", "q35", boot=None, disks=[disk], memory=128) as vm:
            vm.wait_ready()
            status, text = image.ctl(vm, "update", f"http://10.0.2.2:{server.server_port}/moved")
            assert status == 0 and "is in slot b" in text, text
            vm.wait_console(r"first start of slot b, on trial")
            vm.wait_console(r"the check of the new system fails: 10.0.2.2:1")
            vm.wait_console(r"slot b did not prove itself")
            now = wait_state(vm, "idle", "a")
            assert "slot b did not prove itself" in now["last"], now
        server.shutdown()
    assert image.environment(disk)["slot"] == "a"


PANICS, HANGS = "echo it panics\nsleep 1\nreboot", "echo it hangs\nsleep 100000"


@pytest.mark.guard(300)
@pytest.mark.parametrize("arch,machine,kind,script", [
    ("x86_64", "q35", "uefi", HANGS), pytest.param("aarch64", "virt", "uboot", PANICS, marks=pytest.mark.nightly)],
                         ids=["uefi-hangs", "uboot-panics"])
def test_bad_system(images, owner, tmp_path, arch, machine, kind, script):
    """A system that restarts at once (as a panic does), or stands still until the machine is reset: the old one comes
    back by itself."""
    lacking = image.missing(arch, kind)
    if lacking:
        pytest.skip(f"{lacking} is not there")
    disk = image.copy(images[arch], str(tmp_path / "disk"))
    bad = owner.update(str(tmp_path / "bad"), image.efi_program(str(tmp_path), arch, script), arch)
    with Vm(arch, machine, boot=None, disks=[disk], memory=256, extra=image.firmware(arch, kind)) as vm:
        vm.wait_ready()
        status, text = image.ctl(vm, "update", bad)
        assert status == 0, text
        vm.wait_console(r"it (panics|hangs)")
        if script == HANGS:
            vm.reset()
        vm.wait_console(r"slot b did not prove itself")
        wait_state(vm, "idle", "a")


@pytest.mark.nightly
@pytest.mark.guard(300)
def test_power_cuts(images, updates, tmp_path):
    """The power goes at random instants of an update, also during its trial: what starts afterwards is one of the two."""
    disk = image.copy(images["x86_64"], str(tmp_path / "disk"))
    chance = random.Random(410)
    for cut in range(4):
        with Vm("x86_64", "q35", boot=None, disks=[{"file": disk, "cache": "writeback"}], memory=128) as vm:
            vm.wait_ready()
            slot = until(lambda: state(vm).get("slot"), "a state", GUARD_S)
            assert slot in "ab"
            sender = threading.Thread(target=image.ctl, args=(vm, "update", updates["x86_64"]))
            sender.start()
            sender.join(chance.uniform(0.05, 2.5 if cut < 3 else 6))
            vm.cut_power()
            sender.join()
    with Vm("x86_64", "q35", boot=None, disks=[disk], memory=128) as vm:
        vm.wait_ready()
        until(lambda: state(vm).get("state") == "idle", "the state settles", GUARD_S, poll_s=0.3)
        other = "b" if state(vm)["slot"] == "a" else "a"
        status, text = image.ctl(vm, "update", updates["x86_64"])
        assert status == 0, text
        wait_state(vm, "idle", other)

# SPDX-License-Identifier: Apache-2.0
"""Disk images for the tests: made by the build's own `image` command from the system in $OUT, changed through mtools, and
update files made by the build's own tool. Firmware as arguments of Vm."""
import os
import shutil
import subprocess
import sys
import tempfile

from .vm import BOOT_GUARD_S, emulation_append

REPO = os.environ.get("REPO", os.path.join(os.path.dirname(__file__), "..", "..", ".."))
ESP = "@@2M"  # where the ESP begins (toolchain/lib/image.sh)
HEADER_BYTES = 512

FIRMWARE_FILES = {
    ("x86_64", "uefi"): "/usr/share/OVMF/OVMF_CODE_4M.fd",
    ("x86_64", "secure"): "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd",
    ("aarch64", "uefi"): "/usr/share/AAVMF/AAVMF_CODE.fd",
    ("aarch64", "uboot"): "/usr/lib/u-boot/qemu_arm64/u-boot.bin",
}
VARIABLES = {
    ("x86_64", "uefi"): "/usr/share/OVMF/OVMF_VARS_4M.fd",
    ("x86_64", "secure"): "/usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd",
    ("aarch64", "uefi"): "/usr/share/AAVMF/AAVMF_VARS.fd",
}
SNAKEOIL = "/usr/share/ovmf/PkKek-1-snakeoil"


def firmware(arch, kind):
    """Arguments for QEMU. Variables are not kept: the boot loader is found on the removable path."""
    if kind == "bios":
        return []
    code, variables = FIRMWARE_FILES[arch, kind], VARIABLES.get((arch, kind))
    if variables is None:
        return ["-bios", code]
    secure = ["-global", "driver=cfi.pflash01,property=secure,value=on"] if kind == "secure" else []
    return [*secure, "-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={code}",
            "-drive", f"if=pflash,format=raw,unit=1,snapshot=on,file={variables}"]


def machine_options(kind):
    """For Vm. QEMU gives a virt machine with a firmware an ACPI power button, or, without ACPI, one in its device tree."""
    return "acpi=off" if kind == "uboot" else ""


def missing(arch, kind):
    """The firmware's file when this machine lacks it, else None."""
    if kind == "bios":
        return None
    path = FIRMWARE_FILES[arch, kind]
    return None if os.path.exists(path) else path


def run(*args, **options):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)
    assert done.returncode == 0, f"{' '.join(args)}: {done.stdout.decode(errors='replace')[-2000:]}"
    return done.stdout


def _mtools(name, image, *args, **options):
    return run(name, "-i", image + ESP, *args, env={**os.environ, "MTOOLS_SKIP_CHECK": "1"}, **options)


def build(arch, path, *options, kernel="sluice.efi", append=""):
    """An image of the system in $OUT, by `./build.sh image`, with the words that a kernel needs under emulation."""
    words = " ".join(filter(None, (emulation_append(arch, loader=True), append)))
    if words:
        options += ("--append", words)
    system = os.path.join(os.environ["OUT"], arch, kernel)
    run(os.path.join(REPO, "build.sh"), "image", "--arch", arch, "--efi", system, "--output", path, *options)
    return path


def copy(image, path, size_mib=None):
    shutil.copyfile(image, path)
    if size_mib:
        os.truncate(path, size_mib << 20)
    return path


def write_file(image, name, content):
    """A file of the ESP, anew."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        _mtools("mcopy", image, "-n", "-o", file.name, "::" + name)


def environment(image):
    """The loader's environment as a dict."""
    lines = _mtools("mtype", image, "::/sluice/bootenv").decode().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


class Owner:
    """Somebody who signs updates."""

    def __init__(self, directory, name="owner"):
        self.key = os.path.join(directory, name + ".pem")
        run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.key)

    def public(self):
        return run(sys.executable, os.path.join(REPO, "image", "update_file.py"), "key", self.key).decode().strip()

    def update(self, path, image, arch="x86_64", version="9.9.9", build=4000000000):
        run(sys.executable, os.path.join(REPO, "image", "update_file.py"), "make", "--key", self.key, "--arch", arch,
            "--version", version, "--build", str(build), "--image", image, "--output", path)
        return path


def ctl_command(vm, *args, address=None):
    """`sluice ctl` of this machine against the appliance, or what forwards to it."""
    host, port = address or vm.address(9600)
    return [os.path.join(os.environ["OUT"], os.uname().machine, "sluice"), "ctl", "--addr", f"{host}:{port}", *args]


def ctl(vm, *args, address=None):
    """Runs it: exit status and what it printed."""
    done = subprocess.run(ctl_command(vm, *args, address=address), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=BOOT_GUARD_S)
    return done.returncode, done.stdout.decode(errors="replace")


def efi_program(directory, arch, script):
    """An EFI program that is no Sluice: GRUB with a script of ours, a system that misbehaves in a way we choose."""
    platform = {"x86_64": "x86_64-efi", "aarch64": "arm64-efi"}[arch]
    script_path = os.path.join(directory, "misbehave.sh")
    with open(script_path, "w", encoding="utf-8") as file:
        file.write("set -euo pipefail\n"
                   f'for part in log host fetch debs cache variants loader; do . "{REPO}/toolchain/lib/$part.sh"; done\n'
                   f'loader_program {platform} "$1" "$2"\n')
    path = os.path.join(directory, "misbehaving.efi")
    out = os.environ["OUT"]
    run("bash", script_path, script, path, env={
        **os.environ, "REPO": REPO, "LOGS": os.path.join(out, "logs"), "LC_ALL": "C",
        "CACHE": os.environ.get("CACHE") or os.path.expanduser("~/.cache/sluice")})
    return path

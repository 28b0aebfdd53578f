#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Boots the appliance's disk image in QEMU, for `./build.sh run`: ports forwarded to loopback, the console shown here.

The first Ctrl-C presses the machine's power button and waits for the ordered end; the second one pulls the plug. The
disk is kept between runs: it begins as a copy of the image, and a newer image replaces its loader and both of its slots
while state and data stay.

KVM is used only after a short probe: in some virtual machines it is offered and does not start a guest. Everything else
runs under TCG.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20
# The loader's second stage and the ESP, as toolchain/lib/image.sh lays them out.
SYSTEM_BEGIN, SYSTEM_END = MIB, 20 * MIB
BOOT_CODE_BYTES = 440
PROBE_S = 6
# The appliance itself takes at most some 20 s; an emulator on a busy machine several times that.
SHUTDOWN_S = 90
QEMU = {"x86_64": "qemu-system-x86_64", "aarch64": "qemu-system-aarch64"}
FIRMWARE = {
    ("x86_64", "bios"): None,
    ("x86_64", "uefi"): ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
    ("aarch64", "uefi"): ("/usr/share/AAVMF/AAVMF_CODE.fd", "/usr/share/AAVMF/AAVMF_VARS.fd"),
    ("aarch64", "uboot"): "/usr/lib/u-boot/qemu_arm64/u-boot.bin",
}


def fail(text):
    sys.exit(f"build.sh: error: {text}")


def port_is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def prepare_disk(image, disk, size):
    """The disk of this machine: new, refreshed from a newer image, or as it was left."""
    if not os.path.exists(disk):
        partial = disk + ".new"
        subprocess.run(["cp", "--sparse=always", image, partial], check=True)
        os.truncate(partial, max(size, os.path.getsize(image)))
        os.rename(partial, disk)
        return "new"
    if os.path.getmtime(image) <= os.path.getmtime(disk + ".image"):
        return "as it was left"
    with open(image, "rb") as source, open(disk, "r+b") as target:
        target.write(source.read(BOOT_CODE_BYTES))
        source.seek(SYSTEM_BEGIN)
        target.seek(SYSTEM_BEGIN)
        target.write(source.read(SYSTEM_END - SYSTEM_BEGIN))
    return "with the new system, state and data kept"


def kvm_works(arch, kernel):
    """Whether a guest of ours says something within PROBE_S under KVM."""
    if arch != os.uname().machine or not os.access("/dev/kvm", os.R_OK | os.W_OK) or not os.path.exists(kernel):
        return False
    machine = "q35" if arch == "x86_64" else "virt"
    console = "ttyS0" if arch == "x86_64" else "ttyAMA0"
    probe = subprocess.Popen([QEMU[arch], "-nodefaults", "-display", "none", "-M", machine, "-accel", "kvm", "-cpu", "host",
                              "-m", "128", "-kernel", kernel, "-append", f"console={console} panic=-1", "-no-reboot",
                              "-serial", "stdio"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, start_new_session=True)
    said = threading.Event()

    def listen():
        for line in probe.stdout:
            if b"sluice" in line or b"Linux version" in line:
                said.set()
                return
    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    works = said.wait(PROBE_S)
    probe.kill()
    probe.wait()
    return works


def arguments(args, disk, monitor, variables, kvm):
    arch = args.arch
    # With a firmware QEMU gives a virt machine an ACPI power button only, which U-Boot's world without ACPI does not see.
    machine = "q35" if arch == "x86_64" else "virt,acpi=off" if args.firmware == "uboot" else "virt"
    cpu = "host" if kvm else ("max" if arch == "x86_64" else "cortex-a72")
    out = [QEMU[arch], "-nodefaults", "-no-user-config", "-display", "none", "-name", "sluice", "-M", machine, "-cpu", cpu,
           "-accel", "kvm" if kvm else "tcg,thread=multi", "-m", str(args.memory), "-smp", str(args.cpus),
           "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
           "-qmp", f"unix:{monitor},server=on,wait=off", "-device", "virtio-rng-pci",
           "-drive", f"file={disk},format=raw,if=none,id=disk,cache=writeback,discard=unmap",
           "-device", "virtio-blk-pci,drive=disk"]
    firmware = FIRMWARE[arch, args.firmware]
    if isinstance(firmware, tuple):
        out += ["-drive", f"if=pflash,format=raw,readonly=on,file={firmware[0]}",
                "-drive", f"if=pflash,format=raw,file={variables}"]
    elif firmware:
        out += ["-bios", firmware]
    forwards = "".join(f",hostfwd=tcp:127.0.0.1:{host}-:{guest}" for host, guest in args.forwards)
    out += ["-netdev", f"user,id=net{forwards}", "-device", "virtio-net-pci,netdev=net,romfile="]
    # i6300esb is the watchdog that both architectures' kernels know.
    return out + ["-device", "i6300esb"]


class Monitor:
    """QMP, as far as it is needed here: one command, then its answer."""

    def __init__(self, path, qemu):
        end = time.monotonic() + 20
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(path)
                break
            except OSError:
                self.socket.close()
                if qemu.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.05)
        self.stream = self.socket.makefile("rwb")
        self.stream.readline()
        self.command("qmp_capabilities")

    def command(self, name):
        self.stream.write(json.dumps({"execute": name}).encode() + b"\n")
        self.stream.flush()
        while True:
            line = self.stream.readline()
            if not line or b'"return"' in line or b'"error"' in line:
                return


class Run:
    def __init__(self, qemu, monitor):
        self.qemu, self.monitor, self.asked = qemu, monitor, 0

    def interrupt(self, *_):
        self.asked += 1
        if self.asked == 1:
            self.deadline = time.monotonic() + SHUTDOWN_S
            print("\n-- shutting down; Ctrl-C again pulls the plug", flush=True)
            threading.Thread(target=self.monitor.command, args=("system_powerdown",), daemon=True).start()
        else:
            self.qemu.kill()

    def wait(self):
        while True:
            try:
                status = self.qemu.wait(0.5)
                break
            except subprocess.TimeoutExpired:
                if self.asked and time.monotonic() > self.deadline:
                    print(f"-- not off after {SHUTDOWN_S} s, the plug is pulled", flush=True)
                    self.qemu.kill()
        # Off in order, or by the second Ctrl-C.
        return 0 if status == 0 else 1


def parse():
    parser = argparse.ArgumentParser(prog="build.sh run", description="boots the appliance in QEMU")
    parser.add_argument("--arch", choices=QEMU, default=os.uname().machine)
    parser.add_argument("--firmware", choices=("bios", "uefi", "uboot"))
    parser.add_argument("--image", required=True)
    parser.add_argument("--kernel", default="")
    parser.add_argument("--dir", required=True, help="where the disk is kept")
    parser.add_argument("--fresh", action="store_true", help="begin with a new disk")
    parser.add_argument("--memory", type=int, default=256, help="MiB")
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--disk-size", type=int, default=1024, help="MiB, of a new disk")
    parser.add_argument("--forward", action="append", default=[], metavar="HOST:GUEST",
                        help="a port of the machine on this loopback; default 1883, 7000 and 9600")
    args = parser.parse_args()
    if args.firmware is None:
        args.firmware = "bios" if args.arch == "x86_64" else "uefi"
    if (args.arch, args.firmware) not in FIRMWARE:
        fail(f"{args.arch} has no firmware '{args.firmware}' here")
    try:
        args.forwards = [tuple(map(int, f.split(":"))) for f in args.forward] or [(p, p) for p in (1883, 7000, 9600)]
        if any(len(f) != 2 for f in args.forwards):
            raise ValueError
    except ValueError:
        fail("--forward takes HOST:GUEST, two port numbers")
    return args


def check_ports(args):
    for host, guest in args.forwards:
        if not port_is_free(host):
            rest = " ".join(f"--forward {h + (10000 if h == host else 0)}:{g}" for h, g in args.forwards)
            fail(f"port {host} on 127.0.0.1 is taken, the appliance's port {guest} can not be forwarded to it\n"
                 f"  End what listens there, or choose others:  ./build.sh run {rest}")


def main():
    args = parse()
    check_ports(args)
    os.makedirs(args.dir, exist_ok=True)
    disk = os.path.join(args.dir, "disk.img")
    if args.fresh and os.path.exists(disk):
        os.unlink(disk)
    state = prepare_disk(args.image, disk, args.disk_size * MIB)
    with open(disk + ".image", "w", encoding="utf-8") as stamp:
        stamp.write(args.image + "\n")
    firmware = FIRMWARE[args.arch, args.firmware]
    variables = os.path.join(args.dir, "variables.fd")
    if isinstance(firmware, tuple) and not os.path.exists(variables):
        subprocess.run(["cp", firmware[1], variables], check=True)
    kvm = kvm_works(args.arch, args.kernel)
    ports = ", ".join(f"127.0.0.1:{host}" + ("" if host == guest else f" (its port {guest})") for host, guest in args.forwards)
    print(f"-- {args.arch}, {args.firmware}, {'KVM' if kvm else 'TCG'}; disk {disk}: {state}")
    print(f"-- forwarded: {ports}; Ctrl-C shuts the appliance down", flush=True)
    with tempfile.TemporaryDirectory(prefix="sluice-run-") as scratch:
        monitor_path = os.path.join(scratch, "qmp")
        # Its own session: Ctrl-C is ours to turn into the power button.
        qemu = subprocess.Popen(arguments(args, disk, monitor_path, variables, kvm), stdin=subprocess.DEVNULL,
                                start_new_session=True)
        try:
            run = Run(qemu, Monitor(monitor_path, qemu))
        except OSError:
            fail(f"QEMU ended with status {qemu.wait()}")
        signal.signal(signal.SIGINT, run.interrupt)
        signal.signal(signal.SIGTERM, run.interrupt)
        try:
            sys.exit(run.wait())
        finally:
            if qemu.poll() is None:
                qemu.kill()
                qemu.wait()


main()

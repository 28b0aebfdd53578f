# SPDX-License-Identifier: Apache-2.0
"""How long a boot takes, by the guest's own clock: from the kernel's start to the first accepted connection, for the
appliance and, in the same run and taking turns, for Debian's cloud kernel with a minimal initramfs and the same server.

usage: boot.py [--arch A] [--clock host|instructions] [--runs N] [--initcalls USEC]
Environment: OUT, DEBIAN_KERNEL_x86_64 and DEBIAN_KERNEL_aarch64 (directories of an unpacked linux-image package; without
them there is no comparison). The clock is CLOCK_BOOTTIME, which starts with the kernel's time keeping; what comes before it
(firmware, the loader, decompression) is not in it, and is told apart as the host's time.

Two clocks, both of TCG. `host`: the guest's clock runs as the host's does. Most of what it shows is the emulator's translation of
code that runs once, which no processor does, and it depends on what else the host has to do. `instructions`: the guest's
clock counts executed instructions as one nanosecond each and jumps over idle time to the next timer (-icount): the work and the waiting
of the boot itself, the same on each run and on each host.
"""
import argparse
import glob
import os
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "qemu"))
from harness.helper import helper  # noqa: E402
from harness.overlay import overlay  # noqa: E402
from harness.vm import Vm, out  # noqa: E402

RATIO_MIN = 4.0
TARGET_S = {"x86_64": 0.8, "aarch64": 0.7}
MACHINE = {"x86_64": "microvm", "aarch64": "virt"}
# A microvm's timers stand still in Debian's kernel while instructions are counted. q35 has its own; it also has a SATA
# controller without disks, whose ports every kernel waits for.
COUNTED_MACHINE = {"x86_64": "q35", "aarch64": "virt"}
CONSOLE = {"x86_64": "ttyS0", "aarch64": "ttyAMA0"}
# TCG has no TSC deadline timer, which hypervisors and processors of the last ten years have: the kernel calibrates the local APIC's
# timer instead, 0.25 s of waiting for ticks. This word leaves that out. Debian's kernel does not get through on a microvm with it,
# so there it is a measurement of its own.
UNCALIBRATED = {"x86_64": " nolapic_timer", "aarch64": ""}
# What Debian's kernel needs for a network card of virtio, in the order of their dependencies.
MODULES = ("failover", "net_failover", "virtio_mmio", "virtio_net")


def debian(arch, directory, work):
    """The kernel of an unpacked package, and its minimal initramfs: the modules, the static server, nothing else."""
    files = {"beside": helper("beside", arch), "sluice": out(arch, "sluice"), "tmp/.keep": b"", "var/lib/.keep": b"",
             "etc/sluice/sluice.conf": os.path.join(os.environ["REPO"], "rootfs", "sluice.conf")}
    for number, name in enumerate(MODULES):
        (packed,) = glob.glob(f"{directory}/usr/lib/modules/*/kernel/**/{name}.ko.xz", recursive=True)
        files[f"modules/{number}"] = subprocess.run(["xz", "-dc", packed], capture_output=True, check=True).stdout
    (kernel,) = glob.glob(f"{directory}/boot/vmlinuz-*")
    return dict(boot=kernel, initrd=overlay(f"{work}/debian-{arch}.cpio", files),
                append=f"rdinit=/beside beside=minimal:/etc/sluice/sluice.conf+accept:7000 console={CONSOLE[arch]} quiet")


def appliance(arch, work, then=""):
    return dict(initrd=overlay(f"{work}/product-{arch}.cpio", {"beside": helper("beside", arch)}),
                append=f"rdinit=/beside beside=accept:7000{then}")


def one_boot(arch, settings, counted):
    """Seconds of the guest's clock, and of the host's, to the first accepted connection."""
    import time
    machine = (COUNTED_MACHINE if counted else MACHINE)[arch]
    if counted:
        settings = {**settings, "append": settings["append"] + UNCALIBRATED[arch]}
    if "boot" in settings and machine == "microvm":
        settings["machine_options"] = "acpi=on"  # Debian's kernel takes a microvm's devices and interrupts from ACPI only
    with Vm(arch, machine=machine, memory=256, ports=[7000], counted=counted, **settings) as vm:
        accepted = vm.wait_console(r"^beside: accepted ([0-9.]+)$")
        host = time.monotonic() - vm.started
        return float(accepted[1]), host


def initcalls(arch, work, usec):
    settings = appliance(arch, work, then=f"+initcalls:{usec}")
    settings["append"] += " initcall_debug log_buf_len=1M"
    with Vm(arch, machine=MACHINE[arch], memory=256, ports=[7000], **settings) as vm:
        vm.wait_console(r"^beside: initcalls end$")
        calls = re.findall(r"^beside: initcall (\S+?)\+\S+ returned -?\d+ after (\d+) usecs", vm.console(), re.M)
        return sorted(((int(us), name) for name, us in calls), reverse=True)


def show(name, times):
    guest, host = zip(*times)
    print(f"  {name:34} median {statistics.median(guest):.3f} s, {min(guest):.3f} to {max(guest):.3f} s "
          f"(host's clock with QEMU's start: {statistics.median(host):.2f} s)")
    return statistics.median(guest)


def measure(arch, counted, runs, usec, work):
    """Returns whether both targets are met."""
    clock = "its clock counts instructions" if counted else "its clock is the host's"
    machine = (COUNTED_MACHINE if counted else MACHINE)[arch]
    print(f"\n{arch}, -M {machine}, 2 CPUs, TCG, {clock}, {runs} boots each, taking turns", flush=True)
    directory = os.environ.get(f"DEBIAN_KERNEL_{arch}")
    ours, theirs = appliance(arch, work), debian(arch, directory, work) if directory else None
    uncalibrated = {**ours, "append": ours["append"] + UNCALIBRATED[arch]} if UNCALIBRATED[arch] and not counted else None
    ours_times, their_times, uncalibrated_times = [], [], []
    for _ in range(runs):
        ours_times.append(one_boot(arch, ours, counted))
        if uncalibrated:
            uncalibrated_times.append(one_boot(arch, uncalibrated, counted))
        if theirs:
            their_times.append(one_boot(arch, theirs, counted))
    median = show("Sluice", ours_times)
    good = median <= TARGET_S[arch]
    print(f"  target {TARGET_S[arch]} s: {'met' if good else 'MISSED'}")
    if uncalibrated:
        show(f"Sluice with{UNCALIBRATED[arch]}", uncalibrated_times)
    if theirs:
        ratio = show("Debian cloud kernel, minimal", their_times) / median
        print(f"  Debian's takes {ratio:.1f} times as long; at least {RATIO_MIN} is asked for: "
              f"{'met' if ratio >= RATIO_MIN else 'MISSED'}")
        good = good and ratio >= RATIO_MIN
    else:
        print("  no Debian kernel to compare with")
    if counted:
        return good
    print("  where the time goes (initcalls, with the slower messages of initcall_debug):")
    for us, name in initcalls(arch, work, usec)[:20]:
        print(f"    {us / 1000:8.1f} ms  {name}")
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", choices=list(MACHINE), action="append")
    parser.add_argument("--clock", choices=("host", "instructions"), action="append")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--initcalls", type=int, default=1000, metavar="USEC")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-boot-") as work:
        results = [measure(arch, clock == "instructions", options.runs, options.initcalls, work)
                   for clock in options.clock or ("host", "instructions") for arch in options.arch or list(MACHINE)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

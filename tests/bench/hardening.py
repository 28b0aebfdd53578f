# SPDX-License-Identifier: Apache-2.0
"""What hardening costs: instructions for an exchange of a frame and its echo in the guest, with one of the kernel's
protections switched by its word on the command line, beside the kernel as it is shipped.

usage: hardening.py [--arch A] [--size BYTES]... [--rounds N] [--seconds S] [--kernel FILE]...
Both ends are in the guest, whose clock counts instructions (-icount), and more is sent than it can answer: the rate of
answers tells the instructions for each, within a few per cent the same on each host (how many frames come at once varies).
What a protection does to a real processor's caches and branch prediction is not in it: run the gateway with the same words on
the hardware for that. --kernel: another build of the same kernel, for what no word switches.
"""
import argparse
import json
import os
import re
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "qemu"))
from harness.helper import helper  # noqa: E402
from harness.overlay import overlay  # noqa: E402
from harness.vm import DIRECT, Vm  # noqa: E402

SHIPPED = "as shipped"
SIZES = (64, 8192)
WORDS = {
    "both": ("hardened_usercopy=off", "init_on_alloc=0", "init_on_free=1", "slab_merge", "page_alloc.shuffle=1",
             "randomize_kstack_offset=off", "mitigations=off"),
    "x86_64": ("nopti", "ibt=off"),
    "aarch64": ("kpti=0", "rodata=on"),
}
MACHINE = {"x86_64": "q35", "aarch64": "virt"}


def load(size, seconds):
    return ",".join(("bench", "frame", "--to", "127.0.0.1:7000", "--conns", "64", "--rate", "100000", "--tick", "5ms",
                     "--size", str(size), "--duration", f"{seconds}s", "--warmup", "100ms", "--drain", "100ms",
                     "--wait", "sleep", "--engine", "epoll", "--syscalls", "0", "--json"))


def one_boot(arch, boot, initrd, word, size, seconds):
    """Instructions for an exchange, the generator's among them: the CPU is busy all the time."""
    append = f"rdinit=/beside beside=accept:7000+exec:/sluice:{load(size, seconds)} {word}"
    with Vm(arch, machine=MACHINE[arch], memory=256, cpus=1, boot=boot, initrd=initrd, append=append, counted=True) as vm:
        vm.wait_console(r"^beside: exec /sluice: status (-?\d+)", 300)
        report = re.search(r"^\{.*^\}", vm.console(), re.M | re.S)
        assert report, vm.console()[-3000:]
        result = json.loads(report[0])
    return 1e9 / result["long"]["rate_answered"]


def measure(arch, kernels, sizes, rounds, seconds, work):
    initrd = overlay(f"{work}/{arch}.cpio", {"beside": helper("beside", arch)})
    variants = [(SHIPPED, DIRECT, "")] + [(w, DIRECT, w) for w in WORDS["both"] + WORDS[arch]]
    variants += [(os.path.basename(k), k, "") for k in kernels]
    for size in sizes:
        print(f"\n{arch}, -M {MACHINE[arch]}, 1 CPU, TCG with -icount: instructions for an exchange of {size} bytes, "
              f"medians of {rounds} boots, taking turns", flush=True)
        counts = {name: [] for name, _, _ in variants}
        for _ in range(rounds):
            for name, boot, word in variants:
                counts[name].append(one_boot(arch, boot, initrd, word, size, seconds))
        base = statistics.median(counts[SHIPPED])
        for name, each in counts.items():
            n = statistics.median(each)
            print(f"  {name:28} {n:9.0f}  {100 * (n / base - 1):+6.1f} %  ({min(each):.0f} to {max(each):.0f})",
                  flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", choices=list(MACHINE), action="append")
    parser.add_argument("--seconds", type=int, default=1, help="of the guest's clock")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, action="append")
    parser.add_argument("--kernel", action="append", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-hardening-") as work:
        for arch in options.arch or list(MACHINE):
            measure(arch, options.kernel, options.size or SIZES, options.rounds, options.seconds, work)
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""What hardening costs: instructions for an exchange of a frame and its echo in the guest, with one of the kernel's
protections switched by its word on the command line, beside the kernel as it is shipped.

usage: hardening.py [--arch A] [--size BYTES]... [--rounds N] [--minutes N] [--word WORDS]... [--kernel FILE]... [--fresh]
Both ends are in the guest, whose clock counts instructions (-icount), and more is sent than it can answer: the rate of
answers tells the instructions for each, within a per cent or two the same on each host (how many frames come at once varies).
What a protection does to a real processor's caches and branch prediction is not in it: run the gateway with the same words on
the hardware for that. --kernel: another build of the same kernel, for what no word switches.

A boot takes half a minute on an idle machine: all sizes are measured in one. Each value is printed when it is there, and kept in
$OUT/bench/hardening-ARCH.jsonl, so that a run which was ended goes on where it was. Another kernel counts anew.
"""
import argparse
import hashlib
import json
import os
import re
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "qemu"))
from harness.helper import helper  # noqa: E402
from harness.overlay import overlay  # noqa: E402
from harness.vm import BOOT_GUARD_S, FILES, Vm, out  # noqa: E402

SHIPPED = "as shipped"
# Frames a second for each size: more than a guest of one instruction a nanosecond answers.
RATES = {64: 100000, 8192: 40000}
OFF = "init_on_alloc=0 hardened_usercopy=off slab_merge randomize_kstack_offset=off mitigations=off"
WORDS = {
    "both": ("init_on_alloc=0", "init_on_free=1", "hardened_usercopy=off", "slab_merge", "page_alloc.shuffle=1",
             "randomize_kstack_offset=off", "mitigations=off", "slub_debug=FZ"),
    "x86_64": ("pti=on", "ibt=off", OFF),
    "aarch64": ("kpti=0", "rodata=on", OFF),
}
MACHINE = {"x86_64": "q35", "aarch64": "virt"}
# The emulator counts each round of `rep movsb`, and a processor that has it fast copies by bytes: then a copy counts for eight
# times as much as in the words that are used without.
CPU = {"x86_64": "max,erms=off,fsrm=off", "aarch64": "cortex-a72"}
# What the kernel says of its protections at boot, so that it is seen which were in force on the emulated processor.
SAYS = re.compile(r"^beside: log \S+ (.*(?:Mitigation|mitigation|isolation|auto-init|Spectre|CET|KASLR).*)$", re.M)


def load(size, seconds):
    rate = RATES.get(size, max(RATES.values()))
    return ",".join(("bench", "frame", "--to", "127.0.0.1:7000", "--conns", "64", "--rate", str(rate), "--tick", "5ms",
                     "--size", str(size), "--duration", f"{seconds}s", "--warmup", "100ms", "--drain", "100ms",
                     "--wait", "sleep", "--engine", "epoll", "--syscalls", "0", "--json"))


def boot_once(arch, kernel, initrd, word, sizes, seconds):
    """(size, instructions for an exchange) as they come, the generator's among them: the CPU is busy all the time. Then the
    lines in which the kernel tells of its protections."""
    loads = "+".join(f"exec:/sluice:{load(size, seconds)}" for size in sizes)
    append = f"rdinit=/beside beside=accept:7000+{loads}+log {word}"
    with Vm(arch, machine=MACHINE[arch], memory=256, cpus=1, boot=kernel, initrd=initrd, append=append, counted=True,
            cpu=CPU[arch]) as vm:
        vm.wait_console(r"^beside: accepted", BOOT_GUARD_S)
        for i, size in enumerate(sizes):
            vm.wait_console(r"^beside: exec /sluice: status", BOOT_GUARD_S, skip=i)
            reports = re.findall(r"^\{$.*?^\}$", vm.console(), re.M | re.S)
            assert len(reports) == i + 1, vm.explain("the load generator has told nothing")
            yield size, 1e9 / json.loads(reports[i])["long"]["rate_answered"]
        vm.wait_console(r"^beside: log end", BOOT_GUARD_S)
        yield None, SAYS.findall(vm.console())


class Results:
    """The values so far, on disk; a value's key says all that it depends on."""

    def __init__(self, path, fresh):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if fresh and os.path.exists(path):
            os.unlink(path)
        self.path, self.values = path, {}
        if os.path.exists(path):
            with open(path) as f:
                for line in f:
                    entry = json.loads(line)
                    self.values.setdefault(tuple(entry["key"]), []).append(entry["value"])

    def add(self, key, value):
        self.values.setdefault(key, []).append(value)
        with open(self.path, "a") as f:
            f.write(json.dumps({"key": key, "value": value}) + "\n")

    def get(self, key):
        return self.values.get(key, [])


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()[:16]


class Bench:
    def __init__(self, arch, options, work):
        self.arch, self.options = arch, options
        self.initrd = overlay(f"{work}/{arch}.cpio", {"beside": helper("beside", arch)})
        self.results = Results(os.path.join(os.environ["OUT"], "bench", f"hardening-{arch}.jsonl"), options.fresh)
        shipped = out(arch, FILES[arch, MACHINE[arch]])
        words = options.word or WORDS["both"] + WORDS[arch]
        self.variants = [(SHIPPED, shipped, "")]
        self.variants += [(w, shipped, w) for w in words if not options.kernel]
        self.variants += [(f"{os.path.basename(k)} {w}".strip(), k, w) for k in options.kernel for w in [""] + options.word]
        self.digests = {k: digest(k) for k in {kernel for _, kernel, _ in self.variants}}

    def key(self, kernel, word, size):
        return (self.digests[kernel], CPU[self.arch], word, size, self.options.seconds)

    def one_round(self, number, until):
        """Every variant that has not been measured so often yet. False: the time is over."""
        for name, kernel, word in self.variants:
            sizes = [s for s in self.options.size if len(self.results.get(self.key(kernel, word, s))) < number]
            if not sizes:
                continue
            if time.monotonic() > until:
                return False
            begin = time.monotonic()
            for size, value in boot_once(self.arch, kernel, self.initrd, word, sizes, self.options.seconds):
                if size is None:
                    self.tell_kernel(name, number, value)
                    continue
                self.results.add(self.key(kernel, word, size), value)
                print(f"  round {number}: {size:5} bytes {value:9.0f}  {name}  (after {time.monotonic() - begin:.0f} s)", flush=True)
        return True

    @staticmethod
    def tell_kernel(name, number, lines):
        if number == 1:
            for line in lines:
                print(f"      kernel, {name}: {line}", flush=True)

    def table(self):
        for size in self.options.size:
            _, shipped, _ = self.variants[0]
            base = self.results.get(self.key(shipped, "", size))
            if not base:
                continue
            print(f"\n{self.arch}, -M {MACHINE[self.arch]} -cpu {CPU[self.arch]}, 1 CPU, TCG with -icount: instructions for an exchange "
                  f"of {size} bytes, medians (least to most)")
            for name, kernel, word in self.variants:
                each = self.results.get(self.key(kernel, word, size))
                if each:
                    n = statistics.median(each)
                    print(f"  {n:9.0f}  {100 * (n / statistics.median(base) - 1):+6.1f} %  ({min(each):.0f} to {max(each):.0f}, "
                          f"{len(each)} boots)  {name}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", choices=list(MACHINE), action="append")
    parser.add_argument("--seconds", type=float, default=0.3, help="of the guest's clock")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60, help="no boot begins after it")
    parser.add_argument("--size", type=int, action="append")
    parser.add_argument("--word", action="append", default=[], help="words of the command line, instead of the list")
    parser.add_argument("--kernel", action="append", default=[], help="instead of the list; with each --word too")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    options = parser.parse_args()
    options.size = options.size or list(RATES)
    until, whole = time.monotonic() + 60 * options.minutes, True
    with tempfile.TemporaryDirectory(prefix="sluice-hardening-") as work:
        benches = [Bench(arch, options, work) for arch in options.arch or list(MACHINE)]
        try:
            whole = all([bench.one_round(number, until) for bench in benches for number in range(1, options.rounds + 1)])
        except KeyboardInterrupt:
            whole = False
        for bench in benches:
            bench.table()
    if not whole:
        print("\nnot all was measured; the same command goes on from here")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""A virtual machine: started by QEMU under TCG, seen through its serial console, its forwarded ports and its monitor.

    with Vm("x86_64", "microvm", memory=64, ports=[7000, 9600]) as vm:
        vm.wait_console(r"listening")
        Device(vm.address(7000))

Without `boot` the kernel of $OUT is started directly. With boot=None the machine starts from its firmware and disks. Each
wait is bounded, and is told at once when the machine has ended. Only the process that was started here is ever ended.
"""
import ctypes
import itertools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from blackbox import http
from blackbox.wait import NotReached, until

from .qmp import Qmp


def _slower():
    """By how much the hang guards are longer than on an idle machine: QEMU_SLOWER, else what others make it do now."""
    given = os.environ.get("QEMU_SLOWER")
    return float(given) if given else min(5.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


# Hang guards: nothing waits for their end but what has failed. TCG on a machine that is busy with other work takes many
# times what it takes on an idle one.
SLOWER = _slower()
BOOT_GUARD_S = 240 * SLOWER
SHORT_GUARD_S = 60 * SLOWER

SYSTEM = {"x86_64": "qemu-system-x86_64", "aarch64": "qemu-system-aarch64"}
MACHINES = {"x86_64": ("microvm", "q35", "pc"), "aarch64": ("virt",)}
# A microvm has no PCI bus; its devices sit on virtio's own.
BUS = {"microvm": "device"}
# A microvm stands for monitors like Firecracker: no PCI, no ACPI, devices named on the command line, CPUs in an MP table.
# ACPI is q35's.
OPTIONS = {"microvm": "acpi=off"}
APPEND = {"microvm": "acpi=off pci=off"}
CPU = {"x86_64": "max", "aarch64": "cortex-a72"}
# A thread for each CPU: round robin in one thread would make an interrupt between CPUs wait for the other's time slice.
ACCEL = "tcg,thread=multi"
# The guest's clock counts its instructions, one a nanosecond, and jumps over what it waits for: nothing that the host does
# meanwhile is in it. One thread for all CPUs, since their order has to be kept.
ACCEL_COUNTED = "tcg,thread=single"
COUNTED = ("-icount", "shift=0,sleep=off")
COUNTED_MHZ = 1000
FILES = {("x86_64", "microvm"): "vmlinux", ("x86_64", "q35"): "vmlinux", ("x86_64", "pc"): "bzImage",
         ("aarch64", "virt"): "Image"}

DIRECT = object()


def emulation_append(arch, counted=False, loader=False):
    """What a kernel has to be told under TCG and not under a real hypervisor. The guest reads the host's TSC, but nobody
    tells its rate, and a busy host spoils the calibration, the check of the timer's wiring, and the clock's watchdog.
    With loader, the product's loader says what concerns the timer (image/grub.cfg)."""
    if arch != "x86_64":
        return ""
    words = "tsc=reliable" if loader else "no_timer_check tsc=reliable"
    mhz = re.search(r"^cpu MHz\s*: ([0-9.]+)", open("/proc/cpuinfo").read(), re.M)
    if not mhz and not counted:
        return words
    khz = (COUNTED_MHZ if counted else float(mhz[1])) * 1000
    # lpj: a kernel under KVM has its delay loop's count from the hypervisor's clock, one under TCG calibrates it for each
    # further CPU. Counts of the TSC in a tick; both kernels that are compared tick at 250 Hz.
    return f"{words} tsc_early_khz={khz:.0f} lpj={khz * 1000 / 250:.0f}"


def out(arch, name):
    """The path of a file that the build made."""
    return os.path.join(os.environ["OUT"], arch, name)


def end_with_parent():
    """In the child: QEMU must not outlive a test process that was killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Vm:
    """boot: a kernel's path, DIRECT for the product's kernel of this machine, or None for firmware and disks.
    disks: paths, or dicts with `file` and what else -drive takes. ports: guest ports that are forwarded, or None for a
    machine without the user network. extra: more arguments for QEMU. reboot: False ends QEMU when the guest restarts.
    counted: the guest's clock counts instructions (see COUNTED)."""

    def __init__(self, arch, machine=None, memory=128, cpus=2, boot=DIRECT, initrd=None, append="", disks=(),
                 ports=(7000, 9600), extra=(), reboot=True, cpu=None, machine_options="", net_options="", counted=False):
        self.arch = arch
        self.machine = machine or MACHINES[arch][0]
        assert self.machine in MACHINES[arch], f"{arch} has no machine {self.machine}"
        self.boot = out(arch, FILES[arch, self.machine]) if boot is DIRECT else boot
        self.memory, self.cpus, self.initrd, self.append = memory, cpus, initrd, append
        self.disks, self.ports, self.extra, self.reboot = list(disks), ports, list(extra), reboot
        self.cpu, self.net_options = cpu or CPU[arch], net_options
        self.machine_options = machine_options or OPTIONS.get(self.machine, "")
        self.machine_append = "" if machine_options else APPEND.get(self.machine, "")
        self.directory = tempfile.mkdtemp(prefix="sluice-vm-")
        self.counted = counted
        self.console_path = os.path.join(self.directory, "console")
        self.process = self.monitor = None
        self.forwarded = {}
        self.mark = 0

    # --- life ---

    def arguments(self):
        bus = BUS.get(self.machine, "pci")
        machine = self.machine + ("," + self.machine_options if self.machine_options else "")
        args = [SYSTEM[self.arch], "-nodefaults", "-no-user-config", "-display", "none", "-M", machine,
                "-accel", ACCEL_COUNTED if self.counted else ACCEL, "-cpu", self.cpu, "-m", str(self.memory), "-smp", str(self.cpus),
                "-chardev", f"file,id=console,path={self.console_path},append=on", "-serial", "chardev:console",
                "-qmp", f"unix:{self.directory}/qmp,server=on,wait=off",
                "-device", f"virtio-rng-{bus}"]
        if self.boot:
            args += ["-kernel", self.boot]
            args += ["-append", " ".join((self.append, self.machine_append, emulation_append(self.arch, self.counted)))]
        if self.initrd:
            args += ["-initrd", self.initrd]
        if not self.reboot:
            args += ["-no-reboot"]
        for i, disk in enumerate(self.disks):
            disk = disk if isinstance(disk, dict) else {"file": disk}
            drive = {"format": "raw", "cache": "unsafe", **disk, "if": "none", "id": f"disk{i}"}
            args += ["-drive", ",".join(f"{k}={v}" for k, v in drive.items()),
                     "-device", f"virtio-blk-{bus},drive=disk{i}"]
        if self.ports is not None:
            forward = "".join(f",hostfwd=tcp:127.0.0.1:0-:{port}" for port in self.ports)
            # No boot ROM: its package may be missing, and no test boots from a network.
            options = (",romfile=" if bus == "pci" else "") + ("," + self.net_options if self.net_options else "")
            args += ["-netdev", f"user,id=net0{forward}", "-device", f"virtio-net-{bus},netdev=net0{options}"]
        return args + (list(COUNTED) if self.counted else []) + self.extra

    def start(self):
        with open(os.path.join(self.directory, "qemu"), "ab") as log:
            self.process = subprocess.Popen(self.arguments(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=end_with_parent)
        self.started = time.monotonic()
        try:
            self.monitor = Qmp(os.path.join(self.directory, "qmp"), SHORT_GUARD_S)
        except AssertionError as e:
            raise AssertionError(self.explain(str(e))) from None
        if self.ports:
            self._read_forwards()
        return self

    def _read_forwards(self):
        """QEMU picked free ports of the host; its monitor tells which."""
        for host, guest in re.findall(r"TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+(\d+)",
                                      self.monitor.human("info usernet")):
            self.forwarded[int(guest)] = int(host)
        missing = set(self.ports) - set(self.forwarded)
        assert not missing, f"QEMU forwards no port for {missing}"

    def running(self):
        return self.process is not None and self.process.poll() is None

    def wait_exit(self, guard_s=SHORT_GUARD_S):
        """The machine ends by itself: it was switched off, or restarts with reboot=False."""
        try:
            return self.process.wait(guard_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.explain(f"did not end within {guard_s:.0f} s")) from None

    def cut_power(self):
        """Ends the machine between two of its instructions. What it wrote is with the host's kernel, as a disk's cache."""
        if self.running():
            self.process.kill()
        self.process.wait()
        self.monitor.close()

    def stop(self):
        if self.running():
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.monitor:
            self.monitor.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()

    # --- monitor ---

    def qmp(self, name, **arguments):
        return self.monitor.command(name, **arguments)

    def press_power(self):
        self.qmp("system_powerdown")

    def reset(self):
        self.qmp("system_reset")

    # --- console ---

    def console(self):
        try:
            with open(self.console_path, "rb") as f:
                return f.read().decode(errors="replace").replace("\r", "")
        except FileNotFoundError:
            return ""

    def explain(self, what):
        with open(os.path.join(self.directory, "qemu"), "rb") as f:
            said = f.read().decode(errors="replace")[-1000:]
        state = "running" if self.running() else f"ended with status {self.process.poll()}"
        return f"{self.arch} {self.machine}, {state}: {what}\n--- QEMU\n{said}\n--- console\n{self.console()[-3000:]}"

    def set_mark(self):
        """From now on wait_console looks only at what comes after this moment."""
        self.mark = len(self.console())

    def wait_progress(self, pattern, step, guard_s=BOOT_GUARD_S):
        """Like wait_console; each match of step, a sign of progress, starts the guard anew: how long it takes in all depends
        on the machine."""
        steps = 0
        while True:
            found = self.wait_console(f"{pattern}|(?:{step})", guard_s, pattern, skip=steps)
            end = re.search(pattern, found[0], re.M)
            if end:
                return end
            steps += 1

    def wait_start(self, *patterns, end=r"init: gateway ready"):
        """What PID 1 says by the end of its start, in any order: a pattern that is missing then will never come."""
        self.wait_console(end)
        said = self.console()[self.mark:]
        missing = [p for p in patterns if not re.search(p, said, re.M)]
        assert not missing, self.explain(f"{missing} not on the console by {end!r}\n--- the start\n{said[:6000]}")

    def wait_console(self, pattern, guard_s=None, what=None, skip=0):
        """The first match of pattern on the console after the mark; or the one after as many others as are skipped. Without
        a guard of its own it is BOOT_GUARD_S, or what says nothing for SHORT_GUARD_S."""
        seen = re.compile(pattern, re.M)
        said_bytes, said_at = -1, 0.0

        def find():
            return next(itertools.islice(seen.finditer(self.console(), self.mark), skip, None), None)

        def is_silent():
            nonlocal said_bytes, said_at
            now_bytes = os.path.getsize(self.console_path) if os.path.exists(self.console_path) else 0
            if now_bytes != said_bytes:
                said_bytes, said_at = now_bytes, time.monotonic()
            return guard_s is None and time.monotonic() - said_at > SHORT_GUARD_S

        def look():
            match, ended = find(), not self.running()
            if not match and (ended or is_silent()):
                match = find()
                if not match:
                    why = "ended" if ended else f"said nothing for {SHORT_GUARD_S:.0f} s"
                    raise AssertionError(self.explain(f"{why} before {what or pattern!r} was on the console"))
            return match
        try:
            return until(look, what or pattern, guard_s or BOOT_GUARD_S, poll_s=0.02)
        except NotReached as e:
            raise AssertionError(self.explain(str(e))) from None

    # --- network ---

    def address(self, port):
        return ("127.0.0.1", self.forwarded[port])

    def get(self, path, guard_s=SHORT_GUARD_S):
        """One GET to the admin port."""
        session = http.Session(self.address(9600), guard_s)
        try:
            return session.request(path)
        finally:
            session.close()

    def wait_ready(self, guard_s=BOOT_GUARD_S):
        """Until the gateway answers its health check. QEMU accepts for the guest before it runs, so that only a whole
        answer counts."""
        begin = time.monotonic()

        def ready():
            if not self.running():
                raise AssertionError(self.explain("ended before the gateway was ready"))
            try:
                # Short at first: a connection from before the guest's network was up may never be answered.
                return self.get("/healthz", guard_s=2 + (time.monotonic() - begin) / 10).status == 200
            except (OSError, http.HttpError, ValueError):
                return False
        try:
            return until(ready, "the gateway is ready", guard_s, poll_s=0.05)
        except NotReached as e:
            raise AssertionError(self.explain(str(e))) from None

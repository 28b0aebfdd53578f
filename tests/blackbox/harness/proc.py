# SPDX-License-Identifier: Apache-2.0
"""What /proc tells about a process, and processes that end with the test that started them."""
import ctypes
import os
import resource
import signal

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_TICK = os.sysconf("SC_CLK_TCK")


def child_setup(nofile=None):
    """preexec_fn: the child is killed when its parent goes; soft and hard descriptor limits are set."""
    parent = os.getpid()

    def setup():
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)
        if nofile is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))
    return setup


def cpu_s(pid):
    """User and system time of all threads, ring workers of the kernel included."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def rss_bytes(pid):
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def fd_count(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def thread_count(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def cpus():
    return sorted(os.sched_getaffinity(0))

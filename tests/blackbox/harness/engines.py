# SPDX-License-Identifier: Apache-2.0
"""The I/O engines, and what this kernel refuses. A refusal is asked of the kernel itself, never of the
gateway: a gateway that falls back where the kernel would have served is a failure, not a skip."""
import ctypes
import errno
import os
import platform
import re

import pytest

ALL = ["uring", "epoll-et", "epoll-lt", "poll", "select"]
SYS_IO_URING_SETUP = 425  # the same number on x86-64 and arm64


def selected():
    wanted = os.environ.get("BLACKBOX_ENGINES", "")
    return [e for e in ALL if not wanted or e in re.split(r"[,\s]+", wanted)]


def uring_refusal():
    """None when the kernel gives rings to this process, else why not."""
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    if found and (int(found[1]), int(found[2])) < (6, 1):
        return f"kernel {platform.release()} is older than 6.1"
    libc = ctypes.CDLL(None, use_errno=True)
    params = ctypes.create_string_buffer(120)
    fd = libc.syscall(SYS_IO_URING_SETUP, 4, params)
    if fd < 0:
        return f"io_uring_setup: {errno.errorcode.get(ctypes.get_errno(), ctypes.get_errno())}"
    os.close(fd)
    return None


def refusal(engine):
    return uring_refusal() if engine == "uring" else None


def need(engine):
    """Skips the test where this kernel refuses the engine."""
    why = refusal(engine)
    if why:
        pytest.skip(f"engine {engine}: {why}")

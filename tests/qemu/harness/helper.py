# SPDX-License-Identifier: Apache-2.0
"""Programs of tests/qemu/helpers, compiled for the guest: static, so that they need nothing there."""
import os
import subprocess
import tempfile

from . import ROOT

_built = {}
_directory = tempfile.TemporaryDirectory(prefix="sluice-helper-")


def helper(name, arch):
    """The path of the compiled helper."""
    if (name, arch) not in _built:
        compiler = "gcc" if os.uname().machine == arch else f"{arch}-linux-gnu-gcc"
        path = os.path.join(_directory.name, f"{name}-{arch}")
        subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-static",
                        os.path.join(ROOT, "helpers", f"{name}.c"), "-o", path], check=True)
        _built[name, arch] = path
    return _built[name, arch]

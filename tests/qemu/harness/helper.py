# SPDX-License-Identifier: Apache-2.0
"""Programs of tests/qemu/helpers, compiled for the guest with the product's own C library: static, so that they need nothing
there."""
import glob
import os
import subprocess
import tempfile

from . import ROOT

_built = {}
_directory = tempfile.TemporaryDirectory(prefix="sluice-helper-")


def compiler(arch):
    """The driver that the build made for the product (toolchain/lib/deps.sh); the newest where there are several."""
    cache = os.environ.get("CACHE") or os.path.expanduser("~/.cache/sluice")
    found = glob.glob(f"{cache}/built/sysroot-{arch}-*/bin/{arch}-sluice-cc")
    assert found, f"{cache} has no compiler for {arch}: ./build.sh gateway --arch {arch} makes it"
    return max(found, key=os.path.getmtime)


def helper(name, arch, directory=os.path.join(ROOT, "helpers")):
    """The path of the compiled helper; of another suite with its directory."""
    if (name, arch) not in _built:
        path = os.path.join(_directory.name, f"{name}-{arch}")
        subprocess.run([compiler(arch), "-O2", "-Wall", "-Wextra", "-Werror", "-static",
                        os.path.join(directory, f"{name}.c"), "-o", path], check=True)
        _built[name, arch] = path
    return _built[name, arch]

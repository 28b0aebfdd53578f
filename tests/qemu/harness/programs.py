# SPDX-License-Identifier: Apache-2.0
"""A Python with pytest, and the programs that the black-box tests of the core call, as files to lay over the guest's initramfs.
What is Python is this machine's own, compiled where Debian has done so, since compiling is slow under emulation; for another
architecture the interpreter, its extension modules, the programs and their libraries are taken from Debian's packages, pinned in
toolchain/pins for the same version of Python."""
import glob
import os
import re
import shutil
import subprocess
import sys
import sysconfig

from .image import REPO, run

INTERPRETER = os.path.realpath("/usr/bin/python3")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
LEFT_OUT = re.compile(r"/(test|tests|idlelib|tkinter|lib2to3|ensurepip|distutils|pydoc_data|config-[^/]*|turtledemo)/")
PACKAGES = ("_pytest", "pytest", "pluggy", "iniconfig", "packaging", "attr", "attrs", "py")
PROGRAMS = ("mosquitto_pub", "mosquitto_sub", "stdbuf", "true")
PRELOADED = "usr/libexec/coreutils/libstdbuf.so"
DEBS = (f"python{VERSION}-minimal", f"libpython{VERSION}-minimal", f"libpython{VERSION}-stdlib", "libc6", "zlib1g", "libexpat1",
        "libssl3", "libffi8", "mosquitto-clients", "libmosquitto1", "libcjson1", "coreutils")
DEBIAN_ARCH = {"aarch64": "arm64"}


def _compiled(source, at):
    cached = os.path.join(os.path.dirname(source), "__pycache__",
                          os.path.basename(source)[:-3] + f".{sys.implementation.cache_tag}.pyc")
    return (at + "c", cached) if os.path.exists(cached) else (at, source)


def _modules():
    """{path in the guest: file}: the standard library and pytest."""
    standard = sysconfig.get_path("stdlib", vars={"base": "/usr"})
    roots = [(standard, standard)] + [(f"/usr/lib/python3/dist-packages/{name}", f"{standard}/{name}") for name in PACKAGES]
    files = {}
    for root, target in roots:
        for path in glob.glob(f"{root}/**/*", recursive=True):
            if LEFT_OUT.search(path + "/") or "__pycache__" in path or not os.path.isfile(path):
                continue
            at = target + path[len(root):]
            if path.endswith(".py"):
                at, path = _compiled(path, at)
            files[at.lstrip("/")] = os.path.realpath(path)
    return files


def _found(name):
    path = shutil.which(name)
    assert path, f"{name} is missing: ./build.sh test installs it"
    return os.path.realpath(path)


def _own(files):
    programs = {f"usr/bin/{name}": _found(name) for name in PROGRAMS}
    objects = [INTERPRETER, *programs.values(), *(path for path in files.values() if path.endswith(".so"))]
    said = subprocess.run(["ldd", *objects], capture_output=True, text=True, check=True).stdout
    for library in set(re.findall(r"(/\S+\.so\S*) \(0x", said)):
        files[library.lstrip("/")] = os.path.realpath(library)
    return {**files, **programs, "usr/bin/python3": INTERPRETER, PRELOADED: "/" + PRELOADED}


def _unpacked(files, arch, directory):
    files = {at: path for at, path in files.items() if ".so" not in os.path.basename(at)}
    script = ("set -euo pipefail\n"
              f'for part in log host fetch debs cache variants; do . "{REPO}/toolchain/lib/$part.sh"; done\n'
              'debs_unpack "$@"\n')
    run("bash", "-c", script, "bash", directory, DEBIAN_ARCH[arch], *DEBS, env={
        **os.environ, "REPO": REPO, "LOGS": os.path.join(os.environ["OUT"], "logs"), "LC_ALL": "C",
        "CACHE": os.environ.get("CACHE") or os.path.expanduser("~/.cache/sluice")})
    for path in glob.glob(f"{directory}/**/*.so*", recursive=True):
        if os.path.isfile(path) and "/gconv/" not in path:
            files[path[len(directory):].lstrip("/")] = os.path.realpath(path)
    names = {"python3": f"usr/bin/python{VERSION}", "true": "bin/true"}
    return {**files, **{f"usr/bin/{n}": os.path.join(directory, names.get(n, f"usr/bin/{n}")) for n in ("python3", *PROGRAMS)}}


def guest_programs(arch, directory):
    """{path in the guest: file of this machine}. directory: an empty one, for what is unpacked."""
    files = _modules()
    return _own(files) if arch == os.uname().machine else _unpacked(files, arch, directory)

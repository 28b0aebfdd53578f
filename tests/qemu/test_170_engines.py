# SPDX-License-Identifier: Apache-2.0
"""What the appliance's own kernel gives the engines: the probe on both architectures, and the black-box tests of the core, run
inside against the product's own binary, on every engine. The guest gets a Python for it, as archive over the initramfs; PID 1
and its gateway run beside."""
import glob
import os
import re
import subprocess
import sys
import sysconfig

import pytest

from harness.helper import helper
from harness.overlay import overlay
from harness.vm import Vm

PYTHON = os.path.realpath("/usr/bin/python3")
BLACKBOX = os.path.join(os.environ["REPO"], "tests", "blackbox")
LEFT_OUT = re.compile(r"/(test|tests|idlelib|tkinter|lib2to3|ensurepip|distutils|pydoc_data|config-[^/]*|turtledemo)/")
PACKAGES = ("_pytest", "pytest", "pluggy", "iniconfig", "packaging", "attr", "attrs", "py")
FILES = ("test_010_frame.py", "test_011_timeouts.py", "test_012_publish.py", "test_013_addresses.py", "test_014_stalls.py",
         "test_020_backpressure.py", "test_021_limits.py", "test_022_descriptors.py", "test_030_stop.py", "test_031_reload.py",
         "test_050_fallback.py", "test_100_mqtt_clients.py", "test_320_websocket.py")
MAIN = """
import os, sys, sysconfig
sys.path[:0] = ["/suite"]
os.environ.update(PATH="/usr/bin:/sbin", SLUICE="/sluice", OUT="/tmp", REPO="/suite", BLACKBOX_RESULT="/tmp/result",
                  BLACKBOX_GUARD_S="60", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", LC_ALL="C.UTF-8")
os.chdir("/suite")
import pytest
sys.exit(pytest.main(["-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", "/suite", *{files!r}]))
"""


def compiled(source, at):
    """A module as the guest gets it: compiled where Debian has done so, since compiling is slow under emulation."""
    cached = os.path.join(os.path.dirname(source), "__pycache__",
                          os.path.basename(source)[:-3] + f".{sys.implementation.cache_tag}.pyc")
    return (at + "c", cached) if os.path.exists(cached) else (at, source)


def python_files():
    files = {"usr/bin/python3": PYTHON}
    standard = sysconfig.get_path("stdlib", vars={"base": "/usr"})
    objects = [PYTHON]
    roots = [(standard, standard)] + [(f"/usr/lib/python3/dist-packages/{name}", f"{standard}/{name}") for name in PACKAGES]
    for root, target in roots:
        for path in glob.glob(f"{root}/**/*", recursive=True):
            if LEFT_OUT.search(path + "/") or "__pycache__" in path or not os.path.isfile(path):
                continue
            at = target + path[len(root):]
            if path.endswith(".py"):
                at, path = compiled(path, at)
            elif path.endswith(".so"):
                objects.append(path)
            files[at.lstrip("/")] = os.path.realpath(path)
    said = subprocess.run(["ldd", *objects], capture_output=True, text=True, check=True).stdout
    for library in set(re.findall(r"(/\S+\.so\S*) \(0x", said)):
        files[library.lstrip("/")] = os.path.realpath(library)
    return files


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_probe(tmp_path, arch):
    archive = overlay(str(tmp_path / "probe.cpio"), {"beside": helper("beside", arch)})
    with Vm(arch, initrd=archive, append="rdinit=/beside beside=accept:7000+exec:/sluice:probe") as vm:
        done = vm.wait_console(r"^beside: exec /sluice: status (-?\d+) signal (\d+)$")
        assert done[1] == "0", vm.console()[-3000:]
        assert re.search(r"^engine +uring$", vm.console(), re.M), vm.console()[-3000:]


@pytest.mark.nightly
@pytest.mark.guard(7200)
def test_black_box_tests_pass_in_the_guest(tmp_path):
    files = {"beside": helper("beside", "x86_64"), "tmp/.keep": b"", **python_files()}
    for path in glob.glob(f"{BLACKBOX}/**/*.py", recursive=True):
        files["suite" + path[len(BLACKBOX):]] = path
    files["suite/main.py"] = MAIN.replace("{files!r}", repr(list(FILES))).encode()
    archive = overlay(str(tmp_path / "python.cpio"), files)
    with Vm("x86_64", "q35", memory=1024, initrd=archive,
            append="rdinit=/beside beside=accept:7000+exec:/usr/bin/python3:/suite/main.py") as vm:
        vm.wait_ready()
        done = vm.wait_progress(r"^beside: exec /usr/bin/python3: status (-?\d+) signal (\d+)$", r"^(?:ok|SKIP|FAIL) +\S+")
        said = vm.console()
        passed = re.findall(r"^ok   (\S+)", said, re.M)
        print(f"{len(passed)} passed in the guest")
        assert done[1] == "0", said[-6000:]
        for engine in ("uring", "epoll-et", "epoll-lt", "poll", "select"):
            assert any(f"[{engine}" in name for name in passed), f"nothing ran on {engine}: {passed[:20]}"

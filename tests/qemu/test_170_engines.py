# SPDX-License-Identifier: Apache-2.0
"""What the appliance's own kernel gives the engines: the probe on both architectures, and the black-box tests of the core, run
inside against the product's own binary, on every engine. The guest gets a Python for it, as archive over the initramfs; PID 1
and its gateway run beside. What has been seen to pass, and where: docs/kernel.md."""
import glob
import os
import re

import pytest

from harness.helper import helper
from harness.overlay import overlay
from harness.programs import guest_programs
from harness.vm import Vm

BLACKBOX = os.path.join(os.environ["REPO"], "tests", "blackbox")
FILES = ("test_010_frame.py", "test_011_timeouts.py", "test_012_publish.py", "test_013_addresses.py", "test_014_stalls.py",
         "test_020_backpressure.py", "test_021_limits.py", "test_022_descriptors.py", "test_030_stop.py", "test_031_reload.py",
         "test_050_fallback.py", "test_100_mqtt_clients.py", "test_320_websocket.py")
# It lays a file over a sysctl's with a shell and mount, which the guest does not have.
LEFT_OUT = ["--deselect", "test_050_fallback.py::test_sysctl_refuses"]
MAIN = """
import os, sys, sysconfig
sys.path[:0] = ["/suite"]
os.environ.update(PATH="/usr/bin:/sbin", SLUICE="/sluice", OUT="/tmp", REPO="/suite", BLACKBOX_RESULT="/tmp/result",
                  BLACKBOX_GUARD_S="60", CI="1", DENY_URING="/usr/bin/deny_uring", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", LC_ALL="C.UTF-8")
os.chdir("/suite")
import pytest
sys.exit(pytest.main(["-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", "/suite", *{files!r}, *{left_out!r}]))
"""


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_probe(tmp_path, arch):
    archive = overlay(str(tmp_path / "probe.cpio"), {"beside": helper("beside", arch)})
    with Vm(arch, initrd=archive, append="rdinit=/beside beside=accept:7000+exec:/sluice:probe") as vm:
        done = vm.wait_console(r"^beside: exec /sluice: status (-?\d+) signal (\d+)$")
        assert done[1] == "0", vm.console()[-3000:]
        assert re.search(r"^engine +uring$", vm.console(), re.M), vm.console()[-3000:]


@pytest.mark.nightly
@pytest.mark.guard(7200)
@pytest.mark.parametrize("arch, machine", [("x86_64", "q35"), ("aarch64", "virt")])
def test_black_box_tests_pass_in_the_guest(tmp_path, arch, machine):
    files = {"beside": helper("beside", arch), "tmp/.keep": b"", **guest_programs(arch, str(tmp_path / "debs")),
             "usr/bin/deny_uring": helper("deny_uring", arch, f"{BLACKBOX}/helpers")}
    for path in glob.glob(f"{BLACKBOX}/**/*.py", recursive=True):
        files["suite" + path[len(BLACKBOX):]] = path
    files["suite/main.py"] = MAIN.replace("{files!r}", repr(os.environ.get("GUEST_FILES", "").split() or list(FILES))).replace("{left_out!r}", repr(LEFT_OUT)).encode()
    archive = overlay(str(tmp_path / "python.cpio"), files)
    with Vm(arch, machine, memory=1024, initrd=archive,
            append="rdinit=/beside beside=accept:7000+exec:/usr/bin/python3:/suite/main.py") as vm:
        vm.wait_ready()
        done = vm.wait_progress(r"^beside: exec /usr/bin/python3: status (-?\d+) signal (\d+)$", r"^(?:ok|SKIP|FAIL) +\S+")
        said = vm.console()
        passed, skipped = (re.findall(rf"^{word} +(\S+)", said, re.M) for word in ("ok", "SKIP"))
        print(f"{len(passed)} passed in the guest, {len(skipped)} skipped: {skipped}")
        failed = re.findall(r"^FAIL .*", said, re.M)
        assert done[1] == "0" and not failed, "\n".join(failed) + "\n" + said[-6000:]
        assert not skipped, skipped
        for engine in ("uring", "epoll-et", "epoll-lt", "poll", "select"):
            assert any(f"[{engine}" in name for name in passed), f"nothing ran on {engine}: {passed[:20]}"

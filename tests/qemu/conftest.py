# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the appliance's tests, the reporter of suite.sh, and a hang guard for each test.

Environment: OUT (the build's results), REPO; QEMU_RESULT names the file the result is written to, QEMU_SHARD=I/N runs one
part of the tests, QEMU_SLOWER multiplies every hang guard (else the machine's load when the tests start does). A machine that several tests can share is a fixture here:
booting is what these tests spend their time on.
"""
import os
import signal
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from harness import vm as machines  # noqa: E402
from blackbox import reporter  # noqa: E402
from blackbox.client import Device  # noqa: E402

TEST_GUARD_S = 600 * machines.SLOWER


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.addinivalue_line("markers", "guard(seconds): hang guard of one test")
    config.addinivalue_line("markers", "nightly: too long for each change; run by nightly.sh")
    if os.environ.get("QEMU_RESULT"):
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(reporter.Reporter(os.environ["QEMU_RESULT"]))


# About how long a file takes in seconds, booting included, to give the parts equal work; others count as 4.
WEIGHTS_S = {"test_410": 220, "test_200": 85, "test_600": 35, "test_400": 30, "test_100": 30, "test_620": 25, "test_300": 20,
             "test_310": 20, "test_630": 15, "test_110": 10}


def pytest_collection_modifyitems(items):
    shard = os.environ.get("QEMU_SHARD")
    if not shard:
        return
    index, count = (int(x) for x in shard.split("/"))
    load, part = [0] * count, {}
    names = {i.fspath.basename for i in items}
    for name in sorted(names, key=lambda n: (-WEIGHTS_S.get(n[:8], 4), n)):
        part[name] = load.index(min(load))
        load[part[name]] += WEIGHTS_S.get(name[:8], 4)
    items[:] = [i for i in items if part[i.fspath.basename] == index]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    marker = item.get_closest_marker("guard")
    seconds = int(marker.args[0] * machines.SLOWER if marker else TEST_GUARD_S)

    def on_alarm(*_):
        raise TimeoutError(f"the test did not end within {seconds} s")
    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown():
    Device.end_all()


def shared_vm(arch, **settings):
    """A fixture: one booted machine for all tests of a file, checked to be alive before each."""
    @pytest.fixture(scope="module", name="vm_process")
    def process():
        with machines.Vm(arch, **settings) as vm:
            vm.wait_ready()
            yield vm

    @pytest.fixture(name="vm")
    def checked(vm_process):
        assert vm_process.running(), vm_process.explain("has ended")
        return vm_process
    return process, checked

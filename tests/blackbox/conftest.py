# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the black-box suite, the reporter of suite.sh, and a hang guard for each test.

Environment: SLUICE (the binary under test), SLUICE_ASAN, SLUICE_TSAN, ARCH_SLUICE_aarch64, OUT, REPO;
BLACKBOX_ENGINES narrows the engines, BLACKBOX_GUARD_S moves the hang guard, BLACKBOX_SHARD=I/N runs one
part of the tests, BLACKBOX_RESULT names the file the result is written to.
"""
import os
import signal
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from harness import config, engines, proc, reporter  # noqa: E402
from harness.client import Device  # noqa: E402
from harness.gateway import Gateway  # noqa: E402

TEST_GUARD_S = 150


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.addinivalue_line("markers", "guard(seconds): hang guard of one test")
    if os.environ.get("BLACKBOX_RESULT"):
        # Left out by its removal and not by "-p no:terminal": assertions ask for its options.
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(reporter.Reporter(os.environ["BLACKBOX_RESULT"]))


# About how long a file takes in seconds, to give the parts equal work; others take a few.
WEIGHTS_S = {"test_020": 24, "test_060": 60, "test_080": 60, "test_023": 30, "test_011": 25, "test_024": 23,
             "test_021": 22, "test_033": 22, "test_022": 18, "test_030": 16, "test_091": 25, "test_035": 27,
             "test_320": 40, "test_321": 30, "test_322": 20,
             "test_203": 25, "test_205": 30, "test_210": 70, "test_220": 70, "test_221": 25, "test_223": 60, "test_224": 30}


def shard_of_files(names, count):
    """The longest file first, each to the part that has least: the same in every process."""
    load, part = [0] * count, {}
    for name in sorted(names, key=lambda n: (-WEIGHTS_S.get(n[:8], 5), n)):
        part[name] = load.index(min(load))
        load[part[name]] += WEIGHTS_S.get(name[:8], 5)
    return part


def pytest_collection_modifyitems(items):
    shard = os.environ.get("BLACKBOX_SHARD")
    if not shard:
        return
    index, count = (int(x) for x in shard.split("/"))
    # Files stay whole: their gateways are shared by the tests in them.
    part = shard_of_files({i.fspath.basename for i in items}, count)
    items[:] = [i for i in items if part[i.fspath.basename] == index]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    marker = item.get_closest_marker("guard")
    seconds = marker.args[0] if marker else TEST_GUARD_S

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


def needed(what):
    """A part that the whole test run always provides is missing: a failure there, a skip for a person who
    runs one file."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}: build.sh provides it")
    pytest.skip(what)


def binary(name):
    """The path of a binary under test. Without SLUICE nothing can be judged; other variants may be absent."""
    path = os.environ.get(name)
    if not path and name == "SLUICE":
        pytest.fail("SLUICE is not set: it names the binary under test")
    if not path:
        needed(f"{name} is not set")
    if not os.access(path, os.X_OK):
        pytest.fail(f"{name}={path} is not an executable")
    return path


@pytest.fixture(scope="session")
def sluice():
    return binary("SLUICE")


@pytest.fixture(scope="module", params=engines.selected())
def engine(request):
    why = engines.refusal(request.param)
    if why:
        pytest.skip(f"engine {request.param}: {why}")
    return request.param


@pytest.fixture
def make_gateway(sluice):
    """Makes gateways that end, checked, with the test. Settings are those of Gateway."""
    made = []

    def make(engine=None, **settings):
        gateway = Gateway(settings.pop("command", sluice), engine, **settings)
        made.append(gateway)
        return gateway
    yield make
    problems = []
    for gateway in made:
        try:
            if gateway.process and gateway.process.poll() is None:
                gateway.stop()
            elif gateway.process:
                gateway.check_stderr()
        except AssertionError as e:
            problems.append(str(e))
        finally:
            gateway.kill()
            gateway.remove()
    assert not problems, "\n".join(problems)


@pytest.fixture
def run_gateway(make_gateway):
    """The same, started."""
    return lambda *args, **settings: make_gateway(*args, **settings).start()


def shared_gateway(**settings):
    """Two fixtures, gateway_process and gateway: one gateway per engine for all tests of a file, checked after
    each test to be alive and without connections."""
    @pytest.fixture(scope="module", name="gateway_process")
    def process(sluice, engine):
        with Gateway(sluice, engine, **settings) as gateway:
            yield gateway

    @pytest.fixture(name="gateway")
    def checked(gateway_process):
        yield from gateway_process.for_one_test()
    return process, checked


__all__ = ["config", "proc", "shared_gateway"]

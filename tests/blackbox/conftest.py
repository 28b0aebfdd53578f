# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the black-box suite, the reporter of suite.sh, and a hang guard for each test.

Environment: SLUICE (the binary under test), SLUICE_ASAN, SLUICE_TSAN, ARCH_SLUICE_aarch64, OUT, REPO;
BLACKBOX_ENGINES narrows the engines, BLACKBOX_GUARD_S moves the hang guard, BLACKBOX_SHARD=I/N runs one
part of the tests, BLACKBOX_RESULT names the file the result is written to.
"""
import collections
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


# About how long a file takes in seconds on all engines together, to give the parts equal work; others count as 5.
WEIGHTS_S = {"test_200": 300, "test_201": 190, "test_205": 180, "test_210": 90, "test_310": 160, "test_302": 80, "test_060": 70,
             "test_080": 65, "test_220": 50, "test_204": 50, "test_100": 50, "test_031": 45, "test_224": 45, "test_012": 45,
             "test_092": 40, "test_023": 40, "test_014": 35, "test_033": 35, "test_303": 35, "test_021": 30, "test_207": 30,
             "test_320": 30, "test_321": 30, "test_306": 30, "test_070": 30, "test_011": 30, "test_091": 25, "test_222": 25,
             "test_024": 25, "test_020": 25, "test_030": 20, "test_032": 20, "test_035": 20, "test_305": 20, "test_322": 20,
             "test_221": 20, "test_223": 20, "test_202": 20, "test_013": 15, "test_022": 15, "test_040": 15, "test_203": 15,
             "test_300": 15, "test_050": 10, "test_042": 10, "test_041": 10}


def unit_of(item):
    """What one process has to run: a file's tests on one engine share a gateway, and those on none stay together. The engine
    is a parameter, or part of one: ("asan", "uring")."""
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    parts = [part for p in params for part in (p if isinstance(p, tuple) else (p,))]
    return item.fspath.basename, next((e for e in engines.ALL if e in parts), "")


def shard_of_units(units, count):
    """units: one for each test. The longest first, each to the part that has least: the same in every process."""
    tests, files = collections.Counter(units), collections.Counter(file for file, _ in units)
    weight = {u: WEIGHTS_S.get(u[0][:8], 5) * tests[u] / files[u[0]] for u in tests}
    load, part = [0] * count, {}
    for unit in sorted(tests, key=lambda u: (-weight[u], u)):
        part[unit] = load.index(min(load))
        load[part[unit]] += weight[unit]
    return part


def pytest_collection_modifyitems(items):
    shard = os.environ.get("BLACKBOX_SHARD")
    if not shard:
        return
    index, count = (int(x) for x in shard.split("/"))
    units = [unit_of(i) for i in items]
    part = shard_of_units(units, count)
    items[:] = [i for i, unit in zip(items, units) if part[unit] == index]


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

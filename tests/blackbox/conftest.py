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


# About how long a file takes in seconds on all engines together (the sum of what its tests say in a run of all
# suites), to give the parts equal work; others count as 2.
WEIGHTS_S = {"test_201_crash_load": 191, "test_200_durable": 135, "test_310_limits": 130, "test_205_acknowledged": 102,
             "test_310_accounts": 68, "test_210_streams": 56, "test_209_shared_exchange": 56, "test_080_bench": 53,
             "test_303_tls_admission": 37, "test_014_stalls": 36, "test_224_nats_login": 34, "test_220_uplinks": 33,
             "test_012_publish": 29, "test_091_bench_mqtt": 28, "test_222_uplink_faults": 26, "test_011_timeouts": 25,
             "test_100_mqtt_clients": 25, "test_302_tls_reload": 23, "test_204_full_disk": 23,
             "test_229_stream_full": 22, "test_020_backpressure": 20, "test_021_limits": 20, "test_024_no_spin": 20,
             "test_060_sanitizers": 20, "test_310_rights": 20, "test_092_bench_log": 19, "test_033_log": 19,
             "test_221_cluster": 18, "test_306_tls_state": 18, "test_330_update_link": 17, "test_035_supervise": 17,
             "test_023_scale": 15, "test_320_websocket": 15, "test_022_descriptors": 14, "test_223_uplink_limits": 13,
             "test_225_uplink_retention": 12, "test_031_reload": 12, "test_208_reject": 11,
             "test_207_durable_sanitizers": 11, "test_227_stream_discard": 9, "test_070_arm64": 7, "test_203_kills": 7,
             "test_202_backlog": 7, "test_030_stop": 7, "test_090_clients": 6}


def unit_of(item):
    """What one process has to run: a file's tests on one engine share a gateway, and those on none stay together. The engine
    is a parameter, or part of one: ("asan", "uring")."""
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    parts = [part for p in params for part in (p if isinstance(p, tuple) else (p,))]
    return item.fspath.basename, next((e for e in engines.ALL if e in parts), "")


def shard_of_units(units, count):
    """units: one for each test. The longest first, each to the part that has least: the same in every process."""
    tests, files = collections.Counter(units), collections.Counter(file for file, _ in units)
    weight = {u: WEIGHTS_S.get(u[0].removesuffix(".py"), 2) * tests[u] / files[u[0]] for u in tests}
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

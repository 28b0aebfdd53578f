# SPDX-License-Identifier: Apache-2.0
"""Fixtures and options of the suites that speak MQTT. `broker` is what a test speaks to; a test that takes it
runs on the setups of broker.py: on two of them usually, on all when it is marked `core`.

Options and environment: --broker HOST:PORT runs the tests against any other broker; SLUICE, SLUICE_ASAN,
SLUICE_TSAN, BLACKBOX_SHARD, BLACKBOX_RESULT and BLACKBOX_ENGINES as in the black-box suite, whose harness is used.
"""
import os
import signal

import pytest
from harness import engines, reporter

from . import broker as brokers
from .client import Client

TEST_GUARD_S = 60


def pytest_addoption(parser):
    parser.addoption("--broker", metavar="HOST:PORT", help="test the broker there instead of the gateway")


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.addinivalue_line("markers", "core: runs on every engine")
    config.addinivalue_line("markers", "guard(seconds): hang guard of one test")
    if os.environ.get("BLACKBOX_RESULT"):
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(reporter.Reporter(os.environ["BLACKBOX_RESULT"]))


def setups(core, external):
    if external:
        return ["external"]
    names = list(brokers.SETUPS if core else brokers.USUAL)
    if core:
        names += [s for s, variable in brokers.SANITIZED.items() if os.environ.get(variable)]
    return [s for s in names if brokers.parts(s)[0] in engines.selected()]


def pytest_generate_tests(metafunc):
    if "setup" in metafunc.fixturenames:
        core = any(metafunc.definition.iter_markers("core"))
        metafunc.parametrize("setup", setups(core, metafunc.config.getoption("broker")), indirect=True, scope="session")


def pytest_collection_modifyitems(items):
    shard = os.environ.get("BLACKBOX_SHARD")
    if shard:
        # Single tests are dealt out, whatever file they are in: waiting is spread evenly. The order of the setups
        # is kept, so that each gateway is started once.
        index, count = (int(x) for x in shard.split("/"))
        names = sorted({i.originalname + i.fspath.basename for i in items})
        mine = set(names[index::count])
        items[:] = [i for i in items if i.originalname + i.fspath.basename in mine]


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


@pytest.fixture(scope="session")
def sluice():
    path = os.environ.get("SLUICE")
    if not path:
        pytest.fail("SLUICE is not set: it names the binary under test")
    return path


@pytest.fixture(scope="session")
def setup(request):
    """(name, gateway or None): one gateway for all tests of a setup, judged when it is stopped."""
    if request.param == "external":
        yield request.param, None
        return
    with brokers.start(request.param, request.getfixturevalue("sluice")) as gateway:
        before = brokers.held(gateway)
        yield request.param, gateway
        brokers.expect_nothing_left(gateway, before)


@pytest.fixture
def broker(setup, request):
    name, gateway = setup
    address = None
    if not gateway:
        host, port = request.config.getoption("broker").rsplit(":", 1)
        address = host, int(port)
    elif gateway.process.poll() is not None:
        pytest.fail(gateway.explain("the gateway has ended"))
    yield brokers.Broker(name, gateway, address)
    Client.end_all()
    if gateway:
        assert gateway.process.poll() is None, gateway.explain("the gateway has ended")

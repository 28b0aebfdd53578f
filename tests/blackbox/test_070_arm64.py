# SPDX-License-Identifier: Apache-2.0
"""The arm64 binary under qemu's user mode: the same selection of scenarios. The emulation has no io_uring, so
`auto` must fall back and say so; the readiness engines are asked for by name."""
import platform
import shutil
import signal
import subprocess

import pytest

from conftest import binary, needed
from harness import engines, scenarios
from harness.client import Device, frame
from harness.gateway import Exited, Gateway
from harness.wait import GUARD_S, until

SLOWER = 4.0
READINESS = [e for e in engines.selected() if e != "uring"]


def command():
    path = binary("ARCH_SLUICE_aarch64")
    if platform.machine() == "aarch64":
        return [path]
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if not emulator:
        needed("no qemu-aarch64 and no arm64 machine")
    return [emulator, path]


def start(engine, **settings):
    return Gateway(command(), engine, workers=2, listeners=scenarios.LISTENERS, slower=SLOWER,
                   settings={"drain_timeout": "10s"}, **settings)


@pytest.fixture(scope="module", params=["auto"] + READINESS)
def gateway(request):
    with start(request.param) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_left(request):
    yield
    if "gateway" in request.fixturenames:
        request.getfixturevalue("gateway").expect_no_conns()


def test_auto_falls_back_under_emulation():
    if platform.machine() == "aarch64":
        pytest.skip("no emulation here")
    with start("auto") as gateway:
        status = gateway.status()
        assert status["engine"] == "epoll-et" and status["engine_why"], status


def test_explicit_uring_fails_with_the_cause_under_emulation():
    if platform.machine() == "aarch64":
        pytest.skip("no emulation here")
    gateway = start("uring")
    try:
        with pytest.raises(Exited) as caught:
            gateway.start()
        assert caught.value.code > 0 and "uring" in caught.value.stderr, caught.value
    finally:
        gateway.kill()
        gateway.remove()


def test_commands():
    for arguments, codes in ((["version"], {0}), (["help"], {0}), (["probe"], {0, 1})):
        result = subprocess.run([*command(), *arguments], capture_output=True, text=True,
                                timeout=GUARD_S * SLOWER)
        assert result.returncode in codes, result


@pytest.mark.parametrize("scenario", [
    scenarios.split_everywhere, scenarios.byte_by_byte, scenarios.coalesced, scenarios.oversize,
    scenarios.bad_hellos, scenarios.takeover, scenarios.resets,
], ids=lambda s: s.__name__)
def test_scenario(gateway, scenario):
    scenario(gateway)


def test_large_frames(gateway):
    scenarios.large_frames(gateway, size=1 << 20, count=2)


def test_publish_across_workers(gateway):
    scenarios.publish_in_order(gateway, count=100)


def test_timeouts(gateway):
    watch = gateway.watch_closes()
    devices = [Device(gateway.address(name)) for name in ("impatient", "impatient", "curt")]
    devices[1].send(b"\0\0")
    for device in devices:
        device.expect_end()
        device.close()
    until(lambda: sum(watch.deltas().values()) == 3, watch.deltas)


def test_metrics_parse(gateway):
    gateway.metrics()


def test_reload(gateway):
    with Device(gateway.address("echo")) as device:
        before = gateway.status()["reloads"]
        gateway.write_config()
        gateway.signal(signal.SIGHUP)
        until(lambda: gateway.status()["reloads"] != before, "the reload is applied")
        device.send(frame(b"survived"))
        device.expect(frame(b"survived"))

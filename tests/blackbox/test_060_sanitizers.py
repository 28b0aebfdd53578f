# SPDX-License-Identifier: Apache-2.0
"""A selection under the address and thread sanitizers, with two workers, so that hand-over, routes between
workers, reload and drain run where a sanitizer sees them. Any report fails the gateway's end."""
import signal
import time

import pytest

from conftest import binary
from harness import engines, scenarios
from harness.client import Device, ack, frame
from harness.gateway import Gateway
from harness.herd import Herd
from harness.wait import GUARD_S, until

SLOWER = 4.0
RUNS = [(kind, e) for kind in ("asan", "tsan") for e in engines.selected()]


@pytest.fixture(scope="module", params=RUNS, ids=lambda p: f"{p[0]}-{p[1]}")
def gateway(request):
    kind, engine = request.param
    path = binary(f"SLUICE_{kind.upper()}")
    engines.need(engine)
    with Gateway(path, engine, workers=2, listeners=scenarios.LISTENERS, slower=SLOWER,
                 settings={"drain_timeout": "10s"}) as running:
        yield running


@pytest.fixture(autouse=True)
def healthy(gateway):
    assert gateway.process.poll() is None, gateway.explain("it has ended")
    yield
    gateway.expect_no_conns()
    gateway.check_stderr()


@pytest.mark.parametrize("scenario", [
    scenarios.split_everywhere, scenarios.byte_by_byte, scenarios.coalesced, scenarios.oversize,
    scenarios.large_frames, scenarios.bad_hellos, scenarios.takeover, scenarios.resets,
], ids=lambda s: s.__name__)
def test_scenario(gateway, scenario):
    scenario(gateway)


def test_publish_across_workers(gateway):
    scenarios.publish_in_order(gateway, count=300)


def test_timeouts(gateway):
    watch = gateway.watch_closes()
    devices = [Device(gateway.address(name)) for name in ("impatient", "impatient", "curt")]
    devices[1].send(b"\0\0")
    for device in devices:
        device.expect_end()
        device.close()
    until(lambda: sum(watch.deltas().values()) == 3, watch.deltas)


def test_slow_reader(gateway):
    device = Device(gateway.address("echo"), rcvbuf=4096)
    for _ in range(500):
        if device.send_some(frame(b"s" * 8000)) == 0 and device.is_quiet(0) is False:
            break
    device.reset()


def test_admin_while_loaded(gateway):
    """Questions to all workers while they work and connections come and go."""
    load = scenarios.Load(gateway)
    try:
        for _ in range(15):
            for path in ("/metrics", "/api/status", "/api/conns?limit=50", "/api/trace", "/api/config"):
                gateway.patient(path)
            for entry in gateway.conns()[:2]:
                gateway.request(f"/api/conns/{entry['id']}")
            Device(gateway.address("ack")).close()
        load.wait_progress(100)
    finally:
        assert load.stop() == 0


def test_crowd(gateway):
    with Herd() as herd:
        assert herd.open(gateway.address("echo"), 400)["failed"] == {}
        assert herd.echo()["ok"] == 400
        herd.close(200)
        herd.close(reset=False)


def test_kicks_under_load(gateway):
    load = scenarios.Load(gateway, devices=4)
    load.wait_progress(20)
    for entry in gateway.conns():
        gateway.request(f"/api/conns/{entry['id']}", "DELETE")
    until(lambda: load.ended == 4, "all are kicked")
    load.stop()


def test_reload_under_load(gateway):
    load = scenarios.Load(gateway)
    try:
        for number in range(6):
            before = gateway.status()["reloads"]
            if number % 2:
                gateway.listeners.pop("extra", None)
            else:
                gateway.listeners["extra"] = {"mode": "ack"}
            gateway.write_config()
            gateway.signal(signal.SIGHUP)
            start = time.monotonic()
            until(lambda: gateway.status()["reloads"] != before, "the reload is applied", 60)
            if time.monotonic() - start > GUARD_S:
                gateway.expect_stall("a reload")
            load.wait_progress(20)
    finally:
        gateway.listeners.pop("extra", None)
        assert load.stop() == 0


def test_drain_under_load(gateway):
    """A gateway of its own ends while devices publish and echo at full speed."""
    own = Gateway(gateway.command, gateway.engine, workers=2, listeners=scenarios.LISTENERS,
                  slower=SLOWER)
    try:
        own.start()
        monitor = Device(own.address("monitor")).say_hello("watch")
        device = Device(own.address("devices")).say_hello("busy")
        load = scenarios.Load(own)
        load.wait_progress(50)
        for number in range(200):
            device.send_some(frame(b"p" * 200) * 5)
        own.signal(signal.SIGTERM)
        code = own.wait_exit()
        load.stop()
        monitor.close()
        device.close()
        assert code == 0, own.explain(f"exit status {code}")
        own.check_stderr()
    finally:
        own.kill()
        own.remove()


__all__ = ["ack"]

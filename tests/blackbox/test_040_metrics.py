# SPDX-License-Identifier: Apache-2.0
"""The metrics are well-formed and add up with what was sent, byte by byte and connection by connection."""
import re

import pytest

from conftest import shared_gateway
from harness import http, scenarios
from harness.client import HEARTBEAT, Device, ack, frame
from harness.gateway import M_CLOSES, M_OPEN, M_OPENED
from harness.wait import until

gateway_process, gateway = shared_gateway(listeners=scenarios.LISTENERS, workers=2)

BYTES_IN, BYTES_OUT = "sluice_received_bytes_total", "sluice_sent_bytes_total"
FRAMES_IN, FRAMES_OUT = "sluice_frames_received_total", "sluice_frames_sent_total"
HEARTBEATS, COPIED_IN = "sluice_heartbeats_total", "sluice_copied_in_bytes_total"
PUBLISHED, DELIVERED = "sluice_published_total", "sluice_delivered_total"
COUNTED = [BYTES_IN, BYTES_OUT, FRAMES_IN, FRAMES_OUT, HEARTBEATS, COPIED_IN, M_OPENED, PUBLISHED,
           DELIVERED]


class Counters:
    """Growth of the counters since it was made."""

    def __init__(self, gateway):
        self.gateway, self.before = gateway, self.read(gateway)

    @staticmethod
    def read(gateway):
        metrics = gateway.metrics()
        return {name: metrics.sum(name) for name in COUNTED}

    def growth(self):
        now = self.read(self.gateway)
        return {name: int(now[name] - self.before[name]) for name in COUNTED}

    def settled(self, name, value):
        until(lambda: self.growth()[name] == value, lambda: f"{name} grew by {value}: {self.growth()}")
        return self.growth()


def test_format_and_content_type(gateway):
    response = gateway.request("/metrics")
    assert response.status == 200
    assert re.match(r"text/plain; version=0\.0\.4", response.headers["content-type"])
    metrics = gateway.metrics()  # parsed strictly
    assert all(name.startswith("sluice_") for name in metrics.families), metrics.families


def test_the_same_over_tcp(gateway):
    response = http.request(gateway.address("admin"), "/metrics")
    assert response.status == 200 and b"sluice_" in response.body


def test_every_worker_is_there(gateway):
    metrics = gateway.metrics()
    workers = {labels.get("worker") for _, labels, _ in metrics.families[BYTES_IN][2]}
    assert {"0", "1"} <= workers, workers


def test_histograms_are_there(gateway):
    histograms = [n for n, (kind, _, _) in gateway.metrics().families.items() if kind == "histogram"]
    assert any("lag" in n for n in histograms) and any("reply" in n for n in histograms), histograms
    # Prometheus wants base units.
    assert all(n.endswith(("_seconds", "_bytes")) or "batch" in n for n in histograms), histograms


def test_whole_frames_are_counted_and_not_copied(gateway):
    count, size = 200, 100
    counters = Counters(gateway)
    with Device(gateway.address("echo")) as device:
        for i in range(count):
            device.send(frame(b"w" * size))
            device.expect(frame(b"w" * size))
    gateway.expect_no_conns()
    grown = counters.settled(BYTES_OUT, count * (4 + size))
    assert grown[BYTES_IN] == count * (4 + size)
    assert grown[FRAMES_IN] == count and grown[FRAMES_OUT] == count
    assert grown[COPIED_IN] == 0, "a whole frame was copied"
    assert grown[M_OPENED] == 1


def test_split_frames_are_copied_at_most_once(gateway):
    counters = Counters(gateway)
    total = 0
    with Device(gateway.address("echo")) as device:
        for cut in range(1, 104):
            data = frame(b"s" * 100)
            device.send(data[:cut])
            assert device.is_quiet(0.002)
            device.send(data[cut:])
            device.expect(data)
            total += len(data)
    gateway.expect_no_conns()
    grown = counters.settled(BYTES_IN, total)
    assert 0 < grown[COPIED_IN] <= total, grown


def test_large_frames_are_copied_at_most_once(gateway):
    counters = Counters(gateway)
    scenarios.large_frames(gateway, size=1 << 20, count=4)
    gateway.expect_no_conns()
    grown = counters.settled(BYTES_IN, 4 * (4 + (1 << 20)))
    assert grown[COPIED_IN] <= grown[BYTES_IN], grown


def test_coalesced_small_frames_are_hardly_copied(gateway):
    """Of a long stream of small frames only those that lie across two buffers may be copied."""
    count, size = 5000, 60
    counters = Counters(gateway)
    with Device(gateway.address("ack")) as device:
        import threading
        sender = threading.Thread(target=device.send, args=(frame(b"c" * size) * count,))
        sender.start()
        device.expect(b"".join(ack(i + 1) for i in range(count)))
        sender.join()
    gateway.expect_no_conns()
    grown = counters.settled(BYTES_IN, count * (4 + size))
    assert grown[COPIED_IN] <= grown[BYTES_IN] * 0.1, grown
    assert grown[FRAMES_IN] == count


def test_heartbeats_are_counted(gateway):
    counters = Counters(gateway)
    with Device(gateway.address("ack")) as device:
        device.send(HEARTBEAT * 7 + frame(b"x"))
        device.expect(HEARTBEAT * 7 + ack(1))
    gateway.expect_no_conns()
    assert counters.settled(HEARTBEATS, 7)[BYTES_IN] == 7 * 4 + 5


def test_published_and_delivered_add_up(gateway):
    counters = Counters(gateway)
    with Device(gateway.address("monitor")) as monitor, Device(gateway.address("devices")) as device:
        monitor.say_hello("count-monitor")
        device.say_hello("count-device")
        scenarios.wait_route(monitor, device)
        probes = device.next_ack - 1
        before = counters.growth()
        for i in range(50):
            device.send(frame(b"counted"))
        for i in range(50):
            assert monitor.recv_frame() == b"counted"
        grown = counters.settled(DELIVERED, before[DELIVERED] + 50)
        assert grown[PUBLISHED] == 50 + probes


def test_opens_and_closes_balance(gateway):
    """At rest every connection ever opened is closed for one reason."""
    scenarios.resets(gateway)
    for _ in range(10):
        Device(gateway.address("echo")).close()
    gateway.expect_no_conns()

    def balanced():
        metrics = gateway.metrics()
        closes = metrics.by(M_CLOSES, "reason")
        begun = metrics.sum(M_OPENED) + metrics.sum("sluice_conns_refused_total")
        return metrics.sum(M_OPEN) == 0 and begun == sum(closes.values())
    until(balanced, lambda: f"{gateway.metrics().families[M_CLOSES]}")


def test_open_gauge_follows(gateway):
    devices = [Device(gateway.address("echo")) for _ in range(25)]
    until(lambda: gateway.open_conns() == 25, "all are counted")
    for device in devices[:10]:
        device.close()
    until(lambda: gateway.open_conns() == 15, "those that left are not")
    for device in devices[10:]:
        device.close()


def test_counters_never_fall_and_no_scrape_is_torn(gateway):
    load = scenarios.Load(gateway, devices=3)
    try:
        before = {}
        for _ in range(20):
            metrics = gateway.metrics()
            for name, (kind, _, samples) in metrics.families.items():
                if kind != "counter":
                    continue
                for sample, labels, value in samples:
                    key = (sample, tuple(sorted(labels.items())))
                    assert value >= before.get(key, 0), key
                    before[key] = value
    finally:
        load.stop()


def test_engine_counters(engine, gateway):
    with Device(gateway.address("echo")) as device:
        for _ in range(20):
            device.send(frame(b"x"))
            device.expect(frame(b"x"))
    metrics = gateway.metrics()
    for name in ("waits", "syscalls", "completions", "accepts", "recvs", "sends"):
        assert metrics.sum(f"sluice_io_{name}_total") > 0, name
    for name in ("enobufs", "rearms", "cq_overflows", "sq_full", "stale"):
        metrics.sum(f"sluice_io_{name}_total")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health(gateway, path):
    assert gateway.request(path).status == 200
    assert gateway.request(path, "HEAD").status == 200
    assert http.request(gateway.address("admin"), path).status == 200

# SPDX-License-Identifier: Apache-2.0
"""Eighteen thousand connections at once on each engine that is meant for it; a few thousand on poll, and as many
as its set holds on select. Everybody is served twice, and what they needed is given back."""
import resource

import pytest

from harness import engines, proc
from harness.client import Device, frame
from harness.herd import Herd
from harness.wait import until

WANTED = {"uring": 18000, "epoll-et": 18000, "epoll-lt": 18000, "poll": 4000, "select": 900}
SPARE_FDS = 300


@pytest.mark.guard(300)
def test_many_connections(engine, run_gateway):
    count = WANTED[engine]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < count + SPARE_FDS:
        pytest.skip(f"RLIMIT_NOFILE is {hard}, {count} connections need {count + SPARE_FDS}")
    gateway = run_gateway(engine, workers=2, nofile=hard,
                          listeners={"echo": {"mode": "echo", "idle_timeout": "10m"}})
    peaks, rests = [], []
    with Herd() as herd:
        for _ in range(2):
            opened = herd.open(gateway.address("echo"), count)
            assert opened == {"open": count, "failed": {}}, opened
            for _ in range(2):
                assert herd.echo() == {"ok": count, "ended": 0, "wrong": 0, "waiting": 0}
            assert gateway.open_conns() == count
            peaks.append(proc.rss_bytes(gateway.pid))
            herd.close(count // 2)
            until(lambda: gateway.open_conns() == count - count // 2, "half is gone")
            assert herd.echo()["ok"] == count - count // 2
            herd.close()
            until(lambda: gateway.open_conns() == 0, "all are gone", 30)
            rests.append(proc.rss_bytes(gateway.pid))
        # The second round needs no more memory than the first: nothing leaks, everything is reused.
        assert peaks[1] <= peaks[0] * 1.1 + (1 << 20), peaks
        assert rests[1] <= rests[0] * 1.1 + (1 << 20), rests
        assert proc.fd_count(gateway.pid) < SPARE_FDS
    with Device(gateway.address("echo")) as device:
        device.send(frame(b"after the crowd"))
        device.expect(frame(b"after the crowd"))


def test_select_refuses_what_its_set_can_not_hold(run_gateway):
    """Beyond the set's size a connection is refused by name, not written beside the set."""
    if "select" not in engines.selected():
        pytest.skip("select is not selected")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < 2500:
        pytest.skip(f"RLIMIT_NOFILE is {hard}")
    gateway = run_gateway("select", workers=1, nofile=hard, listeners={"echo": {"mode": "echo"}})
    with Herd() as herd:
        herd.open(gateway.address("echo"), 2200)
        result = herd.echo()
        assert result["wrong"] == 0 and result["waiting"] == 0 and result["ok"] >= 900, result
        if result["ok"] < 2200:
            refused = gateway.metrics().by("sluice_closes_total", "reason")
            assert refused.get("conn_limit", 0) + refused.get("no_descriptors", 0) >= \
                2200 - result["ok"], refused
        herd.close()


@pytest.mark.guard(240)
def test_storm(engine, run_gateway):
    """Connections come and go in waves, half of them vanishing with a reset; every one is accounted for."""
    gateway = run_gateway(engine, workers=2, listeners={"echo": {"mode": "echo"}})
    wave = 400
    with Herd() as herd:
        for number in range(10):
            assert herd.open(gateway.address("echo"), wave)["failed"] == {}
            if number % 2:
                assert herd.echo()["ok"] == wave
            herd.close(reset=number % 3 != 0)
    until(lambda: gateway.open_conns() == 0, "all are gone")
    metrics = gateway.metrics()
    assert metrics.sum("sluice_conns_opened_total") == 10 * wave
    assert sum(metrics.by("sluice_closes_total", "reason").values()) == 10 * wave

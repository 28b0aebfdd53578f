# SPDX-License-Identifier: Apache-2.0
"""The load generator and `tune`, briefly: their reports are well-formed and agree with what the gateway
counted. Nothing here judges how fast anything is."""
import json
import re
import socket
import subprocess

import pytest

from harness.gateway import Gateway

# The machine may be busy: a late generator must not make these runs invalid.
COMMON = ["--json", "--wait", "sleep", "--lag-limit", "20s", "--warmup", "200ms", "--duration", "1s",
          "--drain", "10s", "--syscalls", "0"]
LISTENERS = {
    "echo": {"mode": "echo"},
    "ack": {"mode": "ack"},
    "publish": {"mode": "publish"},
    "small": {"mode": "echo", "sndbuf": "16k", "out_max": "128k", "out_high": "32k"},
}


@pytest.fixture(scope="module")
def gateway(sluice):
    with Gateway(sluice, "auto", workers=1, listeners=LISTENERS) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_left(gateway):
    yield
    gateway.expect_no_conns()


def bench(gateway, kind, listener, *arguments, code=0, common=None):
    host, port = gateway.address(listener)
    result = subprocess.run(
        [*gateway.command, "bench", kind, "--to", f"{host}:{port}", *(common or COMMON), *arguments],
        capture_output=True, text=True, timeout=60)
    assert result.returncode == code, result
    return json.loads(result.stdout)


def without(*names):
    """COMMON less some options, for modes that do not know them."""
    out, skip = [], False
    for word in COMMON:
        if skip:
            skip = False
        elif word in names:
            skip = True
        else:
            out.append(word)
    return out


def check(report, kind):
    assert report["kind"] == kind and report["measured"] and report["valid"], report
    assert report["errors_total"] == 0, report
    server = report["server"]
    assert server["observed"], server
    assert server["rss_bytes"] > 0


def check_flow(flow, rate, tolerance=0.35):
    assert flow["due"] == flow["answered"] > 0, flow
    assert rate * (1 - tolerance) <= flow["rate_due"] <= rate * (1 + tolerance), flow
    latency = flow["latency_us"]
    order = [latency[k] for k in ("min", "p50", "p90", "p99", "p99.9", "p99.99", "max")]
    assert order == sorted(order) and order[0] > 0, latency
    assert latency["count"] == flow["answered"], flow


@pytest.mark.parametrize("mode", ["echo", "ack", "publish"])
def test_frame(gateway, mode):
    before = gateway.metric("sluice_frames_received_total")
    report = bench(gateway, "frame", mode, "--mode", mode, "--conns", "50", "--rate", "800")
    check(report, "frame")
    check_flow(report["long"], 800)
    assert report["long"]["alive"] == 50
    # The gateway saw the window's frames and those of the warm-up.
    assert gateway.metric("sluice_frames_received_total") - before >= report["long"]["due"]


def test_frame_with_idle_and_short_connections(gateway):
    report = bench(gateway, "frame", "echo", "--conns", "60", "--active", "20", "--rate", "400",
                   "--short", "100", "--heartbeat", "500ms", "--arrival", "uniform")
    check(report, "frame")
    check_flow(report["long"], 400, 0.1)
    check_flow(report["short"], 100)
    assert report["long"]["active"] == 20
    assert report["long"]["heartbeats_sent"] == report["long"]["heartbeats_answered"] > 0


@pytest.mark.parametrize("close", ["fin", "rst"])
def test_conn(gateway, close):
    before = gateway.metric("sluice_conns_opened_total")
    report = bench(gateway, "conn", "ack", "--mode", "ack", "--rate", "300", "--close", close)
    check(report, "conn")
    check_flow(report["short"], 300)
    assert gateway.metric("sluice_conns_opened_total") - before >= report["short"]["due"]


def test_storm(gateway):
    report = bench(gateway, "storm", "echo", "--conns", "500", "--steady-conns", "20",
                   "--steady-rate", "200", common=without("--syscalls"))
    assert report["measured"] and report["errors_total"] == 0, report
    assert report["storm"]["conns"] == 500, report
    assert report["storm"]["all_served_s"] > 0


def test_slow(gateway):
    report = bench(gateway, "slow", "small", "--conns", "20", "--rate", "200", "--slow", "3")
    assert report["measured"] and report["errors_total"] == 0, report
    assert report["slow"]["count"] == 3 and report["slow"]["back_pressure"] == 3, report["slow"]
    check_flow(report["long"], 200)


def test_idle(gateway):
    report = bench(gateway, "idle", "echo", "--conns", "1000", common=without("--syscalls"))
    assert report["measured"] and report["errors_total"] == 0, report
    assert report["long"]["alive"] == 1000, report
    assert -1000 < report["idle"]["private_per_conn"] < 100000, report["idle"]


def test_table(gateway):
    host, port = gateway.address("echo")
    common = [word for word in COMMON if word != "--json"]
    result = subprocess.run([*gateway.command, "bench", "frame", "--to", f"{host}:{port}", *common,
                             "--conns", "10", "--rate", "100"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result
    for word in ("p50", "p99", "max"):
        assert word in result.stdout, result.stdout


def test_nobody_listens(gateway):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        result = subprocess.run(
            [*gateway.command, "bench", "frame", "--to", f"127.0.0.1:{port}", "--conns", "5", "--rate", "10",
             "--duration", "100ms", "--warmup", "0"], capture_output=True, text=True, timeout=60)
    assert result.returncode > 0
    assert re.search(r"refused", result.stderr + result.stdout), result


def test_gateway_that_closes_everybody(gateway):
    """Frames above the listener's bound: every connection is lost, and the report says so."""
    host, port = gateway.address("echo")
    result = subprocess.run(
        [*gateway.command, "bench", "frame", "--to", f"{host}:{port}", *COMMON, "--conns", "5", "--rate",
         "50", "--size", "65541"], capture_output=True, text=True, timeout=60)
    assert result.returncode > 0, result
    if result.stdout.strip():
        report = json.loads(result.stdout)
        assert not report["measured"] or report["errors_total"] > 0, report


@pytest.mark.parametrize("arguments", [
    [], ["nonsense"], ["frame", "--rate"], ["frame", "--rate", "fast"], ["frame", "--no-such"],
    ["frame", "--size", "2"], ["conn", "--active", "5"], ["frame", "--to", "nowhere"],
])
def test_wrong_arguments(gateway, arguments):
    result = subprocess.run([*gateway.command, "bench", *arguments], capture_output=True, text=True,
                            timeout=20)
    assert result.returncode > 0 and (result.stderr + result.stdout).strip(), result


@pytest.mark.guard(240)
def test_tune(gateway):
    """A short profile on three engines: a table and a recommendation with its reasons."""
    result = subprocess.run([*gateway.command, "tune", "--conns", "50", "--rate", "500", "--size", "64",
                             "--duration", "500ms", "--warmup", "200ms", "--engines", "epoll-et,poll,select"],
                            capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result
    for engine in ("epoll-et", "poll", "select"):
        assert engine in result.stdout, result.stdout
    assert "recommend" in result.stdout.lower(), result.stdout

# SPDX-License-Identifier: Apache-2.0
"""`sluice bench log`, `bench mqtt ingest` and the comparisons of tests/bench that need a disk, briefly: they run, their reports
are well-formed and agree with what the gateway counted. Nothing here judges how fast anything is."""
import json
import os
import subprocess
import sys

import pytest

PATHS, FILES = ("call", "thread", "thread-direct", "ring", "ring-direct"), ("written", "reserved", "growing")
INGEST = ["--json", "--wait", "sleep", "--pubs", "10", "--warmup", "100ms", "--duration", "500ms", "--drain", "20s", "--lag-limit", "20s"]


def bench_log(sluice, *arguments, code=0):
    done = subprocess.run([sluice, "bench", "log", *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done
    return done


def test_every_way_to_write(sluice, tmp_path):
    done = subprocess.run([sluice, "bench", "log", "--dir", str(tmp_path), "--sizes", "4k,64k", "--time", "20ms", "--file-size", "1m",
                           "--rounds", "2", "--json"], capture_output=True, text=True, timeout=120)
    points = json.loads(done.stdout)["points"]
    assert {(p["path"], p["file"], p["batch_bytes"]) for p in points} == {(p, f, s) for p in PATHS for f in FILES for s in (4096, 65536)}
    for p in points:
        if "error" in p:  # no O_DIRECT here, or no io_uring: told by name
            assert p["path"] not in ("call", "thread") and done.returncode == 1, p
            continue
        assert p["commits"] > 0 and 0 < p["p50_us"] <= p["p99_us"] <= p["max_us"], p
    assert os.listdir(tmp_path) == []


def test_log_table_and_mistakes(sluice, tmp_path):
    out = bench_log(sluice, "--dir", str(tmp_path), "--sizes", "4k", "--time", "5ms", "--paths", "call,thread", "--files", "written",
                    "--file-size", "64k").stdout
    assert "p99 us" in out and "thread" in out and "growing" not in out, out
    for wrong in ([], ["--dir"], ["--dir", ".", "--sizes", "5000"], ["--dir", ".", "--paths", "no"], ["--dir", ".", "--nonsense", "1"],
                  ["--dir", ".", "--sizes", "64k", "--file-size", "4k"]):
        assert bench_log(sluice, *wrong, code=2).stderr.startswith("sluice bench log: "), wrong
    missing = bench_log(sluice, "--dir", str(tmp_path / "none"), "--time", "5ms", "--sizes", "4k", "--paths", "call", code=1)
    assert "ENOENT" in missing.stdout, missing


@pytest.mark.parametrize("inflight,extra", [("1", []), ("8", ["--qos", "2"]), ("8", ["--rate", "500"])])
def test_ingest(engine, run_gateway, sluice, inflight, extra):
    gateway = run_gateway(engine, workers=1, sections={"stream all": {"topics": ["ingest/#"]}},
                          listeners={"mqtt": {"protocol": "mqtt", "anonymous": True}})
    port = gateway.address("mqtt")[1]
    done = subprocess.run([sluice, "bench", "mqtt", "ingest", "--to", f"127.0.0.1:{port}", *INGEST, "--inflight", inflight, "--prefix",
                           "ingest/x", *extra], capture_output=True, text=True, timeout=120)
    report = json.loads(done.stdout)
    messages = report["messages"]
    assert done.returncode == 0 and report["errors_total"] == 0, report
    assert messages["published"] == messages["delivered"] > 0 and messages["ack_us"]["count"] > 0, report
    # Acknowledged means on disk: each is a record that a commit has covered.
    assert gateway.metric("sluice_store_records_total") >= messages["published"]
    assert gateway.metric("sluice_store_commits_total") > 0
    trace = gateway.request("/api/trace").text()
    assert "log_commit" in trace and "log_committed" in trace


@pytest.mark.parametrize("name,arguments,expect", [
    ("durable.py", ["--rounds", "1", "--seconds", "0.3", "--warmup", "0.1", "--disk-seconds", "0.1", "--sizes", "64", "--pubs", "10"],
     "| sluice, stream |"),
    ("log_isolation.py", ["sync", "--rounds", "1", "--seconds", "0.3", "--before", "0.1", "--load", "500", "--rate", "200"], "| sync |"),
    ("log.py", ["--sizes", "4k", "--time", "2ms", "--file-size", "64k", "--files", "written"], "p99 us"),
])
def test_comparisons(sluice, name, arguments, expect):
    """./build.sh bench durable, log and log-isolation; with the brokers that are installed here."""
    script = os.path.join(os.environ["REPO"], "tests", "bench", name)
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=240,
                          env={**os.environ, "SLUICE": sluice})
    assert done.returncode == 0 and expect in done.stdout, done

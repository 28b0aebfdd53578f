# SPDX-License-Identifier: Apache-2.0
"""The durable log from outside: one gateway at a time, a kill, a damaged file, the offline tools."""
import glob
import os
import signal
import subprocess

import pytest

from harness.gateway import Exited
from harness.wait import GUARD_S

MQTT = {"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0", "anonymous": True}}


def run(sluice, *arguments):
    return subprocess.run([sluice, *arguments], capture_output=True, text=True, timeout=GUARD_S, stdin=subprocess.DEVNULL)


def publish_retained(sluice, gateway, count):
    host, port = gateway.address("mqtt")
    for i in range(count):
        sent = run(sluice, "pub", "-h", host, "-p", str(port), "-t", f"kept/{i}", "-m", "x" * 100, "-q", "1", "-r")
        assert sent.returncode == 0, sent.stderr


def segments(gateway):
    return sorted(glob.glob(os.path.join(gateway.settings["data_dir"], "log", "*", "*.seg")))


def test_the_second_gateway_is_told_who_has_the_directory(sluice, make_gateway):
    first = make_gateway(None, listeners=MQTT).start()
    second = make_gateway(None, listeners=MQTT, settings={"data_dir": first.settings["data_dir"]})
    with pytest.raises(Exited) as refused:
        second.start()
    assert f"process {first.process.pid}" in str(refused.value)
    looked = run(sluice, "log", "verify", first.settings["data_dir"])
    assert looked.returncode == 3 and f"process {first.process.pid}" in looked.stderr


def test_starts_after_a_kill_and_with_a_damaged_file(sluice, make_gateway):
    gateway = make_gateway(None, workers=1, listeners=MQTT, settings={"log_max": "96m"}).start()
    publish_retained(sluice, gateway, 6)
    gateway.signal(signal.SIGKILL)
    gateway.process.wait()
    data_dir = gateway.settings["data_dir"]
    good = run(sluice, "log", "verify", data_dir)
    assert good.returncode == 0 and "retained 6" in good.stdout, good.stdout
    assert run(sluice, "log", "dump", data_dir).stdout.count(" retained ") >= 6
    with open(segments(gateway)[0], "r+b") as file:
        file.write(b"\xff" * 64)  # the head
        file.seek(4096 + 40)
        file.write(b"\xff" * 8)   # and the first record
    bad = run(sluice, "log", "verify", data_dir)
    assert bad.returncode == 1, bad.stdout
    gateway.forget_addresses()
    gateway.start()
    state = gateway.status()["workers"][0]["store"]
    assert state["state"] == "ok" and state["damaged"] >= 1
    publish_retained(sluice, gateway, 1)
    assert gateway.metric("sluice_store_damaged_total") >= 1


def test_nothing_is_durable_when_it_is_said_so(make_gateway):
    gateway = make_gateway(None, listeners=MQTT, settings={"durable": "no"}).start()
    assert "store" not in gateway.status()["workers"][0]
    assert segments(gateway) == []


def test_usage(sluice):
    assert run(sluice, "log").returncode == 2
    assert run(sluice, "log", "verify", "/nonexistent").returncode == 3

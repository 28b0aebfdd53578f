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


def test_verify_and_dump_need_no_right_to_write(sluice, make_gateway):
    gateway = make_gateway(None, workers=1, listeners=MQTT, settings={"log_max": "96m"}).start()
    publish_retained(sluice, gateway, 3)
    gateway.stop()
    data_dir = gateway.settings["data_dir"]
    os.mkdir(os.path.join(data_dir, "log", "0099"))  # of a conversion that was cut off
    script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
    who = [] if os.geteuid() == 0 else ["-U", "-r"]

    def reading(task):
        return subprocess.run(["unshare", *who, "-m", "sh", "-c", script, "sh", data_dir, sluice, "log", task, data_dir],
                              capture_output=True, text=True, timeout=60)
    looked = reading("verify")
    assert looked.returncode == 0 and "retained 3" in looked.stdout, (looked.stdout, looked.stderr)
    assert "layout: 1 workers, logs 0001 to 0001" in looked.stdout and "0099: not in the layout" in looked.stdout
    assert reading("dump").stdout.count(" retained ") >= 3
    refused = reading("repair")
    assert refused.returncode == 3 and "EROFS" in refused.stderr, (refused.stdout, refused.stderr)


def test_nothing_is_durable_when_it_is_said_so(make_gateway):
    gateway = make_gateway(None, listeners=MQTT, settings={"durable": "no"}).start()
    assert "store" not in gateway.status()["workers"][0]
    assert segments(gateway) == []


def test_usage(sluice):
    assert run(sluice, "log").returncode == 2
    assert "usage: sluice log verify" in run(sluice, "log", "verify", "--help").stdout
    assert run(sluice, "log", "verify", "/nonexistent").returncode == 3

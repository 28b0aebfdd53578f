# SPDX-License-Identifier: Apache-2.0
"""Uplinks under faults that come one after the other while messages keep coming: lines that are cut or swallow everything, remotes that
restart or are killed, remotes that take messages and never acknowledge one. Nothing acknowledged is lost, and nothing comes twice
beyond what was on its way."""
import contextlib
import subprocess
import threading
import time

import pytest

from harness.jetstream import Client
from harness.remotes import Collector, Mosquitto, Mute, MuteNats, Nats, Proxy, needed
from harness.uplink import all_up, drained, view
from harness.wait import GUARD_S

WORKERS, IN_FLIGHT = 2, 64
QUICK = {"backoff_min": "50ms", "backoff_max": "300ms", "keepalive": "1s", "ping_timeout": "1s", "ack_timeout": "3s",
         "connect_timeout": "3s"}
pytestmark = pytest.mark.guard(240)


def uplinked(run_gateway, urls, kind="mqtt", workers=WORKERS, **settings):
    return run_gateway(workers=workers, listeners={"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0"}},
                       sections={"stream telemetry": {"topics": ["t/#"]},
                                 "uplink cloud": {"kind": kind, "url": urls, "streams": ["telemetry"], "client_id": "gw-%n", **QUICK,
                                                  "inflight": IN_FLIGHT, **settings}})


def names(count):
    return [f"m{n}" for n in range(count)]


class Load:
    """Publishes m0, m1, ... until the end of `with`, which returns when all of them are acknowledged; then `count` were."""

    def __init__(self, gateway, per_s=400):
        self.process = subprocess.Popen([needed("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(gateway.address("mqtt")[1]), "-t", "t/a",
                                         "-q", "1", "-l", "-V", "mqttv5"], stdin=subprocess.PIPE, text=True)
        self.count, self.per_s, self.ending = 0, per_s, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.ending.wait(0.05):
            for _ in range(self.per_s // 20):
                self.process.stdin.write(f"m{self.count}\n")
                self.count += 1
            self.process.stdin.flush()
        self.process.stdin.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.thread.join(GUARD_S)
        assert self.process.wait(GUARD_S * 4) == 0


def go_through_faults(gateway, remote, line, kill):
    """Each of them under load, with messages that come before, during and after it. Returns how many connections broke."""
    def swallow():
        line.stall()
        gateway.wait_log(r"uplink cloud: .*: silent ")
        line.drop()
        line.mend()

    def restart():
        (remote.stop_at_once if kill else remote.stop)()
        time.sleep(0.3)
        remote.start()

    faults = [line.drop, restart, swallow, line.drop, restart, line.drop]
    for fault in faults:
        fault()
        all_up(gateway)
        time.sleep(0.4)  # with the load going on
    return len(faults) * gateway.workers


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_faults_in_a_row(run_gateway, version):
    with Mosquitto() as broker, Proxy(broker.port) as line:
        gateway = uplinked(run_gateway, [f"mqtt://127.0.0.1:{line.port}"], version=version)
        with Collector(broker.port, "t/#") as there:
            all_up(gateway)
            with Load(gateway) as load:
                breaks = go_through_faults(gateway, broker, line, kill=False)
            payloads = there.wait(names(load.count))
            seen = list(dict.fromkeys(payloads))
            assert seen == names(load.count), "order"
            # The broker may give the collector a message twice too, when its own restart comes between.
            assert len(payloads) - load.count <= breaks * IN_FLIGHT + 100, len(payloads) - load.count
            drained(gateway)
            assert all(sum(w["dropped"].values()) == 0 for w in view(gateway)["workers"])


def test_faults_in_a_row_to_jetstream(run_gateway):
    with Nats() as server, Proxy(server.port) as line:
        with Client(server.port) as js:
            js.stream_create("T", ["t.>"])
        gateway = uplinked(run_gateway, [f"nats://127.0.0.1:{line.port}"], kind="nats")
        all_up(gateway)
        with Load(gateway) as load:
            go_through_faults(gateway, server, line, kill=True)
        drained(gateway)
        with Client(server.port) as js:
            js.wait_count("T", load.count)
            assert js.stream_payloads("T") == names(load.count), "each once, in order"


@contextlib.contextmanager
def mqtt_far():
    with Mosquitto() as broker, Collector(broker.port, "t/#") as there:
        yield f"mqtt://127.0.0.1:{broker.port}", there.wait


@contextlib.contextmanager
def nats_far():
    with Nats() as server, Client(server.port) as js:
        js.stream_create("T", ["t.>"])

        def wait(expected):
            js.wait_count("T", len(expected))
            assert js.stream_payloads("T") == expected
        yield f"nats://127.0.0.1:{server.port}", wait


@pytest.mark.parametrize("kind,mute,far", [("mqtt", lambda: Mute(pings=True), mqtt_far), ("nats", MuteNats, nats_far)],
                         ids=["mqtt", "nats"])
def test_remote_that_answers_pings_and_never_acknowledges(run_gateway, kind, mute, far):
    """Only the deadline of the acknowledgement can tell: the next URL is taken, and nothing is lost."""
    with mute() as first, far() as (url, wait):
        gateway = uplinked(run_gateway, [f"{kind}://127.0.0.1:{first.port}", url], kind=kind, workers=1)
        subprocess.run([needed("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(gateway.address("mqtt")[1]), "-t", "t/a", "-q", "1", "-l"],
                       input="\n".join(names(100)) + "\n", text=True, check=True, timeout=GUARD_S)
        wait(names(100))
        gateway.wait_log(r"uplink cloud: .*: ack_timeout ")
        assert first.connections >= 1 and first.pings >= 1
        drained(gateway)

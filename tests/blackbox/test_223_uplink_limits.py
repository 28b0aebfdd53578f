# SPDX-License-Identifier: Apache-2.0
"""What an uplink's settings promise: rates, messages in flight, QoS 0, the status topic and its last will; and all of it under
the address and thread sanitizers."""
import signal
import subprocess
import time

import pytest

from conftest import binary
from harness.gateway import Gateway
from harness.jetstream import Client
from harness.remotes import Collector, Mosquitto, Mute, Nats, needed
from harness.wait import GUARD_S, until

LISTENERS = {"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0"}}
QUICK = {"backoff_min": "50ms", "backoff_max": "200ms", "connect_timeout": "3s"}
pytestmark = pytest.mark.guard(180)


@pytest.fixture
def mosquitto():
    with Mosquitto() as broker:
        yield broker


def sections(port, **settings):
    return {"stream telemetry": {"topics": ["t/#"]},
            "uplink cloud": {"kind": "mqtt", "url": [f"mqtt://127.0.0.1:{port}"], "streams": ["telemetry"], "client_id": "gw-%n",
                             **QUICK, **settings}}


def uplinked(run_gateway, port, **settings):
    return run_gateway(None, workers=1, listeners=LISTENERS, sections=sections(port, **settings))


def publish(gateway, payloads, qos=1):
    subprocess.run([needed("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(gateway.address("mqtt")[1]), "-t", "t/a", "-q", str(qos), "-l"],
                   input="\n".join(payloads) + "\n", text=True, check=True, timeout=GUARD_S * 4)


def numbered(first, count):
    return [f"m{n}" for n in range(first, first + count)]


def view(gateway):
    return gateway.api("/api/uplinks")["uplinks"][0]


def row(gateway):
    return view(gateway)["workers"][0]


def up(gateway, count=1):
    until(lambda: view(gateway)["workers_up"] == count, lambda: f"up: {view(gateway)}", GUARD_S * 4)


def drained(gateway):
    until(lambda: view(gateway)["lag_messages"] == 0, lambda: f"drained: {view(gateway)}", GUARD_S * 4)


def test_rate(run_gateway, mosquitto):
    """Measured between two looks while a backlog drains: no more than the rate, and the tenth of a second it may be ahead."""
    rate = 400
    gateway = uplinked(run_gateway, mosquitto.port, rate=rate)
    up(gateway)
    publish(gateway, numbered(0, 1200))
    before, sent = time.monotonic(), row(gateway)["sent"]
    until(lambda: row(gateway)["sent"] >= 1000, "most of it was sent", GUARD_S * 4)
    sent, elapsed = row(gateway)["sent"] - sent, time.monotonic() - before
    assert sent <= rate * (elapsed + 0.2), f"{sent} messages in {elapsed:.2f} s"
    drained(gateway)


def test_in_flight(run_gateway):
    with Mute() as mute:
        gateway = uplinked(run_gateway, mute.port, inflight=7, ack_timeout="1h", keepalive="1h")
        publish(gateway, numbered(0, 100))
        until(lambda: row(gateway)["in_flight"] == 7, lambda: f"in flight: {row(gateway)}")
        assert row(gateway)["sent"] == 7 and view(gateway)["lag_messages"] == 100
        del gateway.sections["uplink cloud"]
        gateway.write_config()
        gateway.api("/api/reload", "POST")


@pytest.mark.parametrize("buffered", [True, False])
def test_qos_0(run_gateway, mosquitto, buffered):
    gateway = uplinked(run_gateway, mosquitto.port, qos0_buffer=buffered)
    with Collector(mosquitto.port, "t/#") as there:
        up(gateway)
        publish(gateway, ["m0"], qos=0)
        there.wait(["m0"])
        mosquitto.stop()
        until(lambda: view(gateway)["workers_up"] == 0, "the uplink has noticed")
        publish(gateway, numbered(1, 50), qos=0)
        publish(gateway, ["m51"])
        mosquitto.start()
        there.wait(numbered(0, 52) if buffered else ["m0", "m51"])
        drained(gateway)
        assert buffered or len(there.payloads()) == 2
        assert row(gateway)["dropped"].get("qos0_backlog", 0) == (0 if buffered else 50)


def test_status_topic_and_will(make_gateway, mosquitto):
    gateway = make_gateway(None, workers=1, listeners=LISTENERS, sections=sections(mosquitto.port, status_topic="site/state"))
    with Collector(mosquitto.port, "site/state") as there:
        gateway.start()
        there.wait(["online"])
        gateway.kill()
        there.wait(["offline"])  # by the remote: its last will
        gateway.forget_addresses()
        gateway.start()
        until(lambda: there.payloads() == ["online", "offline", "online"], there.payloads)
        with Collector(gateway.address("mqtt")[1], "$SYS/broker/connection/cloud/state", client="local") as local:
            local.wait(["1"])
            mosquitto.stop()
            local.wait(["0"])
            mosquitto.start()
            until(lambda: local.payloads() == ["1", "0", "1"], local.payloads)
        gateway.signal(signal.SIGTERM)
        assert gateway.wait_exit() == 0
        until(lambda: there.payloads()[-1] == "offline", there.payloads)


@pytest.mark.parametrize("kind", ["asan", "tsan"])
def test_under_a_sanitizer(kind):
    """Both kinds of remote, outages, reload and stop, with two workers: any report fails the gateway's end."""
    with Mosquitto() as broker, Nats() as nats:
        with Client(nats.port) as js:
            js.stream_create("T", ["t.>"])
        both = sections(broker.port, down=["cmd/#"], status_topic="site/state")
        both["uplink lake"] = {**both["uplink cloud"], "kind": "nats", "url": [f"nats://localhost:{nats.port}"]}
        del both["uplink lake"]["status_topic"]
        with Gateway(binary(f"SLUICE_{kind.upper()}"), "uring", workers=2, listeners=LISTENERS, sections=both, slower=4.0) as gateway, \
                Collector(broker.port, "t/#") as there:
            up(gateway, 2)
            for n in range(2):
                publish(gateway, numbered(200 * n, 100))
                broker.stop()
                nats.stop()
                publish(gateway, numbered(200 * n + 100, 100))
                gateway.request("/metrics")
                broker.start()
                nats.start()
                gateway.sections["uplink lake"]["rate"] = 1000 + n
                gateway.write_config()
                gateway.api("/api/reload", "POST")
                there.wait(numbered(0, 200 * n + 200))
            until(lambda: all(u["lag_messages"] == 0 for u in gateway.api("/api/uplinks")["uplinks"]), "drained", GUARD_S * 8)
            with Client(nats.port) as js:
                js.wait_count("T", 400)
            gateway.sections = {"stream telemetry": gateway.sections["stream telemetry"]}
            gateway.write_config()
            gateway.api("/api/reload", "POST")

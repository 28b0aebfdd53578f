# SPDX-License-Identifier: Apache-2.0
"""An outage that lasts longer than a stream's bounds allow: when the remote, a real Mosquitto, comes back, it gets exactly what the
stream holds yet, and what is missing is counted, by name. The disk stays bounded meanwhile."""
import subprocess
from collections import Counter

import pytest

from harness.remotes import Collector, Mosquitto, needed
from harness.streams import client
from harness.uplink import all_up, drained, view
from harness.wait import GUARD_S, until

MIB = 1 << 20
pytestmark = pytest.mark.guard(240)


@pytest.fixture
def mosquitto():
    with Mosquitto("max_queued_bytes 0") as broker:
        yield broker


def start(run_gateway, port, workers=1, log_max="256m", order="oldest"):
    return run_gateway(workers=workers, listeners={"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0"}}, settings={"log_max": log_max},
                       sections={"stream telemetry": {"topics": ["t/#"], "max_bytes": "4m"},
                                 "uplink cloud": {"kind": "mqtt", "url": [f"mqtt://127.0.0.1:{port}"], "streams": ["telemetry"],
                                                  "client_id": "gw-%n", "backoff_min": "50ms", "backoff_max": "200ms", "order": order}})


def publish(gateway, first, count, client="dev", size=10000):
    """Every one of them is acknowledged: the program waits for that."""
    lines = "".join(f"{n} ".ljust(size, "x") + "\n" for n in range(first, first + count))
    done = subprocess.run([needed("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(gateway.address("mqtt")[1]), "-t", f"t/{client}",
                           "-i", client, "-q", "1", "-l", "-V", "mqttv5"], input=lines, text=True, capture_output=True, timeout=GUARD_S * 6)
    assert done.returncode == 0 and not done.stderr, done.stderr[:500]


def stream(gateway):
    return gateway.api("/api/streams/telemetry")


def trimmed(gateway):
    """The stream is within its bound; returns how many messages it holds."""
    until(lambda: stream(gateway)["bytes"] <= 4 * MIB, lambda: f"retention: {stream(gateway)}", GUARD_S * 2)
    return stream(gateway)["messages"]


def away(gateway, broker):
    broker.stop()
    until(lambda: view(gateway)["workers_up"] == 0, "the uplink has noticed")


def numbers(there):
    return [int(p.split()[0]) for p in there.payloads()]


def dropped(gateway):
    total = Counter()
    for row in view(gateway)["workers"]:
        total.update({k: v for k, v in row["dropped"].items() if v})
    return dict(total)


def settled(gateway, count):
    until(lambda: dropped(gateway).get("retention", 0) >= count and view(gateway)["lag_messages"] == 0,
          lambda: f"{count} are missing: {dropped(gateway)}, {view(gateway)}", GUARD_S * 4)


@pytest.mark.parametrize("order", ["oldest", "newest"])
@pytest.mark.parametrize("crash", [False, True], ids=["runs", "killed"])
def test_the_newest_are_kept_and_the_rest_is_counted(run_gateway, mosquitto, order, crash):
    gateway = start(run_gateway, mosquitto.port, order=order)
    with Collector(mosquitto.port, "t/#") as there:
        all_up(gateway)
        publish(gateway, 0, 20)
        until(lambda: len(there.payloads()) == 20, "sent while it was there")
        settled(gateway, 0)
        away(gateway, mosquitto)
        publish(gateway, 20, 900)
        held = trimmed(gateway)
        assert 300 < held < 600
        gateway.wait_log("stream telemetry: .* that an uplink has not sent")
        until(lambda: view(gateway)["lag_messages"] == held, "what is given up waits no more")
        if crash:
            gateway.process.kill()
            gateway.process.wait()
            gateway.forget_addresses()
            gateway.start()
            assert stream(gateway)["messages"] == held
        mosquitto.start()
        all_up(gateway)
        publish(gateway, 920, 1)
        until(lambda: 920 in numbers(there), "what came after the outage is there", GUARD_S * 4)
        settled(gateway, 900 - held)
        expected = [*range(20), *range(920 - held, 921)]
        until(lambda: len(set(numbers(there))) >= len(expected), "all has come")
        got = list(dict.fromkeys(numbers(there)))
        assert (got if order == "oldest" else sorted(got)) == expected
        assert dropped(gateway) == {"retention": 900 - held}


def test_several_workers(run_gateway, mosquitto):
    """The stream's bound is for all partitions together, also where one holds next to nothing and that is the oldest. The sum of what
    came and what was counted is what was published."""
    gateway = start(run_gateway, mosquitto.port, workers=3)
    few, many = 8, 900
    with Collector(mosquitto.port, "t/#") as there:
        all_up(gateway)
        away(gateway, mosquitto)
        for n in range(few):  # on all workers, as their ids are spread
            publish(gateway, n, 1, f"one{n}")
        publish(gateway, few, many, "bulk")
        held = trimmed(gateway)
        mosquitto.start()
        all_up(gateway)
        settled(gateway, few + many - held)
        until(lambda: len(set(numbers(there))) >= held, "all has come")
        # The partition with the oldest message gives all of an excess: which messages stay is exact for each partition only.
        assert len(set(numbers(there))) == held and few + many - 1 in numbers(there)
        assert dropped(gateway) == {"retention": few + many - held}


def test_the_disk_stays_bounded(run_gateway, mosquitto):
    """More than the log may hold is published while nobody takes it: what retention has given up makes room, and at most a publisher has to
    wait for it. Records that are gone altogether are counted as well."""
    gateway = start(run_gateway, mosquitto.port, log_max="24m")
    count = 4000
    with Collector(mosquitto.port, "t/#") as there:
        all_up(gateway)
        away(gateway, mosquitto)
        with client(gateway, "dev") as p:
            for n in range(count):
                payload = b"%d " % n + b"x" * 10000
                if p.publish("t/dev", payload, 1) >= 0x80:
                    until(lambda: p.publish("t/dev", payload, 1) < 0x80, "there is room again", GUARD_S * 4, 0.05)
        held = trimmed(gateway)
        assert gateway.metric("sluice_store_disk_bytes") <= 24 * MIB
        mosquitto.start()
        all_up(gateway)
        settled(gateway, count - held)
        until(lambda: len(set(numbers(there))) >= held, "all has come")
        assert list(dict.fromkeys(numbers(there))) == list(range(count - held, count))
        assert dropped(gateway) == {"retention": count - held}


def test_the_lag_is_told_after_a_restart_with_the_remote_away(run_gateway, mosquitto):
    gateway = start(run_gateway, mosquitto.port)
    all_up(gateway)
    publish(gateway, 0, 10, size=100)
    drained(gateway)
    away(gateway, mosquitto)
    publish(gateway, 10, 10, size=100)
    until(lambda: view(gateway)["lag_seconds"] >= 2, "they have waited for two seconds")
    gateway.crash()
    gateway.start()
    row = until(lambda: (lambda r: r if r["lag_messages"] == 10 else None)(view(gateway)), lambda: f"lag: {view(gateway)}")
    assert row["lag_seconds"] >= 2

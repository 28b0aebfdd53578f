# SPDX-License-Identifier: Apache-2.0
"""docs/clustering.md: two gateways feed one JetStream cluster of three nats-servers, commands come back to devices on either
gateway; a gateway and a node are killed under load, and every acknowledged message is there once."""
import collections
import contextlib
import signal
import subprocess
import threading

import pytest

from harness.jetstream import Client
from harness.remotes import Collector, Nats, free_port, needed
from harness.wait import GUARD_S, until

pytestmark = pytest.mark.guard(300)
COUNT = 1500  # before things break


@pytest.fixture
def cluster():
    ports = [free_port() for _ in range(3)]
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Nats(cluster=("test", port, ports))) for port in ports]
        yield nodes


def with_leader(node, action):
    """JetStream's API answers when the cluster has chosen its leader."""
    def attempt():
        try:
            with Client(node.port, timeout_s=5) as js:
                return action(js) or True
        except (AssertionError, OSError):
            return None
    return until(attempt, "the cluster answers", GUARD_S * 4, poll_s=0.3)


def gateway_config(number, nodes):
    # Each begins with another node; all know all of them.
    urls = [f"nats://127.0.0.1:{n.port}" for n in nodes[number:] + nodes[:number]]
    return {"stream up": {"topics": ["devices/+/up"]},
            "uplink fleet": {"kind": "nats", "url": urls, "streams": ["up"], "client_id": f"gw{number}", "down": ["devices/+/down"],
                             "backoff_min": "100ms", "backoff_max": "500ms", "keepalive": "1s", "ping_timeout": "1s",
                             "ack_timeout": "5s"}}


class Load:
    """One mosquitto_pub that publishes line by line until it is told to finish; acknowledged: it ended well."""

    def __init__(self, gateway, device):
        self.device, self.lines, self.finish = device, [], threading.Event()
        self.process = subprocess.Popen(
            [needed("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(gateway.address("mqtt")[1]), "-t", f"devices/{device}/up", "-q", "1",
             "-l", "-V", "mqttv5", "-i", f"dev{device}", "-c", "-x", "600"], stdin=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self._feed, daemon=True)
        self.thread.start()

    def _feed(self):
        with contextlib.suppress(BrokenPipeError):
            while not self.finish.wait(0.1):
                lines = [f"d{self.device}-{n}" for n in range(len(self.lines), len(self.lines) + 20)]
                self.lines += lines
                self.process.stdin.write("\n".join(lines) + "\n")
                self.process.stdin.flush()
            self.process.stdin.close()

    def done(self):
        self.finish.set()
        self.thread.join(GUARD_S)
        assert self.process.wait(GUARD_S * 6) == 0
        return self.lines


def test_a_gateway_and_a_node_die_under_load(make_gateway, cluster, tmp_path):
    with_leader(cluster[0], lambda js: js.stream_create("UP", ["devices.*.up"], replicas=3))
    listeners = {"mqtt": {"protocol": "mqtt", "bind": f"127.0.0.1:{free_port()}"}}, \
                {"mqtt": {"protocol": "mqtt", "bind": f"127.0.0.1:{free_port()}"}}
    gateways = [make_gateway(None, workers=1, listeners=listeners[i], sections=gateway_config(i, cluster),
                             directory=str(tmp_path / f"gw{i}")) for i in range(2)]
    for i, g in enumerate(gateways):
        (tmp_path / f"gw{i}").mkdir()
        g.start()
    loads = [Load(gateways[i % 2], i) for i in range(4)]
    with Client(cluster[2].port) as js:
        js.wait_count("UP", COUNT)
    cluster[0].stop(signal.SIGKILL)
    before = with_leader(cluster[1], lambda js: js.stream_state("UP"))["messages"]
    with_leader(cluster[1], lambda js: js.stream_state("UP")["messages"] > before)  # it goes on without that node
    gateways[0].kill()  # its devices wait and come back
    gateways[0].start()
    before = with_leader(cluster[1], lambda js: js.stream_state("UP"))["messages"]
    with_leader(cluster[1], lambda js: js.stream_state("UP")["messages"] > before)  # and without that gateway's first life
    assert all(load.process.poll() is None for load in loads), "a publisher has ended under load"
    expected = {line for load in loads for line in load.done()}
    for g in gateways:
        until(lambda: g.api("/api/uplinks")["uplinks"][0]["lag_messages"] == 0,
              lambda: f"drained: {g.api('/api/uplinks')}", GUARD_S * 6)
    cluster[0].start()
    payloads = with_leader(cluster[1], lambda js: js.stream_payloads("UP"))
    assert set(payloads) == expected, f"{len(expected - set(payloads))} are missing"
    # A publisher whose gateway died sends again what it has no acknowledgement for; the log keeps both.
    twice = [p for p, times in collections.Counter(payloads).items() if times > 1]
    assert all(p.startswith(("d0-", "d2-")) for p in twice)
    for i, g in enumerate(gateways):  # commands reach devices on either gateway
        until(lambda: g.api("/api/uplinks")["uplinks"][0]["workers_up"] == 1, "connected", GUARD_S * 2)
        with Collector(g.address("mqtt")[1], f"devices/c{i}/down", client=f"c{i}") as device, Client(cluster[1].port) as nc:
            nc.publish(f"devices.c{i}.down", b"go")
            device.wait(["go"])

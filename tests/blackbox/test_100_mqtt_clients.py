# SPDX-License-Identifier: Apache-2.0
"""Real MQTT clients against the gateway: mosquitto_pub and mosquitto_sub in all versions and QoS, sessions that wait
for their client, wills, and framed devices on the same topics. The standard's statements one by one are in
tests/conformance."""
import json
import signal
import subprocess

import pytest

from harness import engines
from harness.client import Device, frame, hello
from harness.gateway import Gateway
from harness.remotes import needed
from harness.wait import until

ENGINES = [(e, w) for e in engines.selected() for w in (1, 2)]
LISTENERS = {
    "mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0"},
    "devices": {"protocol": "frame", "bind": "127.0.0.1:0", "mode": "publish"},
}
VERSIONS = ("mqttv31", "mqttv311", "mqttv5")


@pytest.fixture(scope="module", params=ENGINES, ids=lambda p: f"{p[0]}-{p[1]}w")
def gateway(request, sluice):
    engine, workers = request.param
    engines.need(engine)
    for name in ("mosquitto_pub", "mosquitto_sub", "stdbuf"):
        needed(name)
    with Gateway(sluice, engine, workers=workers, listeners=LISTENERS, settings={"events": True}) as running:
        yield running


def tool(gateway, name, *args, version="mqttv311"):
    port = gateway.address("mqtt")[1]
    return [name, "-h", "127.0.0.1", "-p", str(port), "-V", version, *args]


def publish(gateway, topic, payload, *args, version="mqttv311"):
    subprocess.run(tool(gateway, "mosquitto_pub", "-t", topic, "-s", *args, version=version), input=payload,
                   check=True, timeout=20)


class Subscriber:
    """mosquitto_sub in the background; its -d output shows when the subscription is there."""

    def __init__(self, gateway, topic, count, *args, version="mqttv311"):
        # Line by line, or nothing is seen before it ends.
        self.process = subprocess.Popen(
            ["stdbuf", "-oL"] + tool(gateway, "mosquitto_sub", "-t", topic, "-C", str(count), "-W", "20", "-v", "-d", *args, version=version),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.lines = []
        self.read_to(b"Subscribed")

    def read_to(self, word):
        while True:
            line = self.process.stdout.readline()
            assert line, f"ended before {word}: {self.lines}"
            self.lines.append(line)
            if line.startswith(word):
                return

    def messages(self):
        out = self.process.stdout.read()
        self.process.wait(25)
        lines = [line for line in out.splitlines() if not line.startswith((b"Client ", b"Subscribed"))]
        assert self.process.returncode == 0, (self.lines, out[-500:])
        return [line.split(b" ", 1) for line in lines]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_messages_of_all_sizes_arrive(gateway, version, qos):
    payloads = [b"x", b"y" * 511, b"z" * 512, b"a" * 5000, b"b" * 300000]
    subscriber = Subscriber(gateway, "size/+", len(payloads), "-q", qos, version=version)
    for i, payload in enumerate(payloads):
        publish(gateway, f"size/{i}", payload, "-q", qos, version=version)
    got = subscriber.messages()
    # Each publisher is a connection of its own: their order is not.
    assert sorted(got) == sorted([b"size/%d" % i, p] for i, p in enumerate(payloads))


@pytest.mark.parametrize("version", VERSIONS)
def test_one_message_reaches_many(gateway, version):
    subscribers = [Subscriber(gateway, "many/#", 1, "-q", "1", version=version) for _ in range(10)]
    publish(gateway, "many/x", b"w" * 4096, "-q", "1", version=version)
    assert all(s.messages() == [[b"many/x", b"w" * 4096]] for s in subscribers)


def test_a_session_waits_for_its_client(gateway):
    args = ("-i", "waiting-client", "-c", "-q", "2")
    first = Subscriber(gateway, "wait/t", 1, *args)
    publish(gateway, "wait/t", b"one", "-q", "1")
    assert first.messages() == [[b"wait/t", b"one"]]
    for word in (b"two", b"three"):
        publish(gateway, "wait/t", word, "-q", "2")

    def away():
        listed = gateway.api("/api/sessions?client=waiting&state=away")["sessions"]
        return listed if listed and listed[0]["queued"] == 2 else None
    session = until(away, "two messages in the queue")[0]
    assert session["conn"] is None and session["subscriptions"] == 1 and session["expires_in_seconds"] > 0
    back = subprocess.run(tool(gateway, "mosquitto_sub", "-t", "wait/t", "-C", "2", "-W", "20", *args),
                          stdout=subprocess.PIPE, check=True, timeout=25)
    assert back.stdout == b"two\nthree\n"
    # A clean session ends it.
    subprocess.run(tool(gateway, "mosquitto_pub", "-t", "wait/t", "-i", "waiting-client", "-m", "bye"), check=True,
                   timeout=20)
    assert gateway.api("/api/sessions?client=waiting")["total"] == 0


def test_a_killed_client_leaves_its_will(gateway):
    watcher = Subscriber(gateway, "will/t", 1, "-q", "1")
    victim = Subscriber(gateway, "nothing", 1, "--will-topic", "will/t", "--will-payload", "gone", "--will-qos", "1")
    victim.process.kill()
    victim.process.communicate()
    assert watcher.messages() == [[b"will/t", b"gone"]]


def test_retained_messages(gateway):
    for i in range(50):
        publish(gateway, f"keep/{i}", b"%d" % i, "-r", "-q", "1")
    got = Subscriber(gateway, "keep/+", 50, "-q", "1").messages()
    assert sorted(int(payload) for _, payload in got) == list(range(50))
    for i in range(50):
        subprocess.run(tool(gateway, "mosquitto_pub", "-t", f"keep/{i}", "-n", "-r", "-q", "1"), check=True, timeout=20)
    quiet = subprocess.run(tool(gateway, "mosquitto_sub", "-t", "keep/+", "-W", "1"), stdout=subprocess.PIPE, timeout=10)
    assert quiet.stdout == b""


def test_framed_devices_and_clients_share_topics(gateway):
    subscriber = Subscriber(gateway, "devices/+/up", 1, "-q", "1")
    with Device(gateway.address("devices")) as device:
        device.send(hello("framed-1"))
        assert device.recv_ack() == 0
        device.send(frame(b"measured"))
        assert device.recv_ack() == 1
        assert subscriber.messages() == [[b"devices/framed-1/up", b"measured"]]
        publish(gateway, "devices/framed-1/down", b"do it", "-q", "1")
        device.expect(frame(b"do it"))


def test_events_tell_of_clients(gateway):
    # In this order: no watcher sees another one.
    ends, begins = (Subscriber(gateway, f"$events/{name}", 1, version="mqttv5") for name in ("disconnect", "connect"))
    subscriber = Subscriber(gateway, "observed", 1, "-i", "observed-client", version="mqttv5")
    begun = json.loads(begins.messages()[0][1])
    assert (begun["client"], begun["version"], begun["listener"]) == ("observed-client", 5, "mqtt")
    ended = json.loads(ends.messages()[0][1])
    assert ended["client"] != "observed-client" and ended["reason"] == "client"
    subscriber.process.kill()
    subscriber.process.communicate()


def test_sys_topics(sluice, make_gateway):
    gateway = make_gateway(listeners=LISTENERS, settings={"sys_interval": "1s"}).start()
    got = subprocess.run(tool(gateway, "mosquitto_sub", "-t", "$SYS/broker/#", "-v", "-C", "20", "-W", "10"),
                         stdout=subprocess.PIPE, check=True, timeout=20).stdout
    topics = {line.split(b" ", 1)[0] for line in got.splitlines()}
    assert b"$SYS/broker/uptime" in topics and b"$SYS/broker/version" in topics
    # Not under a wildcard (MQTT 5.0 section 4.7.2).
    quiet = subprocess.run(tool(gateway, "mosquitto_sub", "-t", "#", "-W", "2"), stdout=subprocess.PIPE, timeout=10)
    assert quiet.stdout == b""


def test_a_stop_tells_clients(sluice, make_gateway):
    gateway = make_gateway(listeners=LISTENERS).start()
    subscriber = Subscriber(gateway, "t", 1, version="mqttv5")
    gateway.signal(signal.SIGTERM)
    assert gateway.wait_exit() == 0
    subscriber.read_to(b"Received DISCONNECT (139)")
    subscriber.process.kill()
    subscriber.process.communicate()

# SPDX-License-Identifier: Apache-2.0
"""paho-mqtt, the Python client most devices and tools use, in every version and QoS."""
import threading

import pytest
from harness.wait import GUARD_S, until

from programs import needed

try:
    import paho.mqtt.client as mqtt
except ImportError:
    needed("python3-paho-mqtt is not installed")
from paho.mqtt.packettypes import PacketTypes  # noqa: E402
from paho.mqtt.properties import Properties  # noqa: E402
from paho.mqtt.subscribeoptions import SubscribeOptions  # noqa: E402

VERSIONS = {"v3.1": mqtt.MQTTv31, "v3.1.1": mqtt.MQTTv311, "v5": mqtt.MQTTv5}
versions = pytest.mark.parametrize("v", list(VERSIONS.values()), ids=list(VERSIONS))
every_qos = pytest.mark.parametrize("qos", [0, 1, 2])


class Peer:
    """A paho client with its loop in a thread; what happened is in lists that tests wait on."""
    everyone = []

    def __init__(self, broker, v, client_id="", clean=True, expiry=0, will=None):
        args = {"client_id": client_id, "protocol": v}
        if v != mqtt.MQTTv5:
            args["clean_session"] = clean
        if hasattr(mqtt, "CallbackAPIVersion"):  # paho 2
            args["callback_api_version"] = mqtt.CallbackAPIVersion.VERSION1
        self.v, self.messages, self.acks, self.flags, self.down = v, [], [], [], threading.Event()
        self.client = mqtt.Client(**args)
        self.client.max_inflight_messages_set(8)
        self.client.on_message = lambda c, u, m: self.messages.append(m)
        self.client.on_subscribe = lambda c, u, mid, *rest: self.acks.append(mid)
        self.client.on_connect = lambda c, u, flags, rc, *rest: self.flags.append((flags["session present"], int(
            getattr(rc, "value", rc))))
        self.client.on_disconnect = lambda *a: self.down.set()
        if will:
            self.client.will_set(**will)
        more = {}
        if v == mqtt.MQTTv5:
            more["clean_start"] = clean
            more["properties"] = Properties(PacketTypes.CONNECT)
            more["properties"].SessionExpiryInterval = expiry
        self.client.connect(*broker.address(), keepalive=30, **more)
        self.client.loop_start()
        Peer.everyone.append(self)
        until(lambda: self.flags, "paho is connected")
        assert self.flags[0][1] == 0, self.flags

    def subscribe(self, topic, **more):
        result, mid = self.client.subscribe(topic, **more)
        assert result == 0
        until(lambda: mid in self.acks, "paho has its SUBACK")

    def publish(self, topic, payload, qos, **more):
        info = self.client.publish(topic, payload, qos, **more)
        info.wait_for_publish(GUARD_S)
        assert info.is_published()

    def wait_messages(self, count):
        until(lambda: len(self.messages) >= count, lambda: f"{count} messages; came {len(self.messages)}", GUARD_S * 2)
        assert len(self.messages) == count
        return [(m.topic, bytes(m.payload), m.qos, bool(m.retain)) for m in self.messages]

    def bye(self):
        self.client.disconnect()
        self.client.loop_stop()

    def cut(self):
        self.client.loop_stop()
        self.client._sock_close() if hasattr(self.client, "_sock_close") else self.client.socket().close()


@pytest.fixture(autouse=True)
def no_peer_is_left():
    yield
    for peer in Peer.everyone:
        peer.bye()
    Peer.everyone.clear()


@versions
@every_qos
def test_messages_in_order(broker, v, qos):
    sub, pub, topic, count = Peer(broker, v, broker.name("s")), Peer(broker, v, broker.name("p")), broker.name("t"), 300
    sub.subscribe(topic, qos=qos)
    infos = [pub.client.publish(topic, b"%d" % i, qos) for i in range(count)]
    for info in infos:
        info.wait_for_publish(GUARD_S)
    assert sub.wait_messages(count) == [(topic, b"%d" % i, qos, False) for i in range(count)]


@versions
def test_retained(broker, v):
    pub, topic = Peer(broker, v, broker.name("p")), broker.name("t")
    pub.publish(topic, b"kept", 1, retain=True)
    sub = Peer(broker, v, broker.name("s"))
    sub.subscribe(broker.name("#"), qos=1)
    assert sub.wait_messages(1) == [(topic, b"kept", 1, True)]
    pub.publish(topic, b"", 1, retain=True)
    assert sub.wait_messages(2)[1] == (topic, b"", 1, False)


@versions
@pytest.mark.parametrize("qos", [1, 2])
def test_a_session_that_is_kept(broker, v, qos):
    topic = broker.name("t")
    sub = Peer(broker, v, broker.name("s"), clean=False, expiry=60)
    assert not sub.flags[0][0]
    sub.subscribe(topic, qos=qos)
    sub.bye()
    pub = Peer(broker, v, broker.name("p"))
    for i in range(20):
        pub.publish(topic, b"%d" % i, qos)
    sub = Peer(broker, v, broker.name("s"), clean=False, expiry=60)
    # 3.1 has no session present flag.
    assert sub.flags[0][0] or v == mqtt.MQTTv31
    assert sub.wait_messages(20) == [(topic, b"%d" % i, qos, False) for i in range(20)]


@versions
@every_qos
def test_a_will(broker, v, qos):
    sub, topic = Peer(broker, v, broker.name("s")), broker.name("will")
    sub.subscribe(topic, qos=qos)
    gone = Peer(broker, v, broker.name("gone"), will={"topic": topic, "payload": b"gone", "qos": qos})
    gone.cut()
    assert sub.wait_messages(1) == [(topic, b"gone", qos, False)]


@versions
def test_a_take_over(broker, v):
    first = Peer(broker, v, broker.name("same"))
    first.client.reconnect_delay_set(60, 60)
    second = Peer(broker, v, broker.name("same"))
    assert first.down.wait(GUARD_S), "the first was not disconnected"
    first.client.loop_stop()
    second.subscribe(broker.name("t"), qos=1)
    second.publish(broker.name("t"), b"x", 1)
    second.wait_messages(1)


def test_properties(broker):
    sub, pub, topic = Peer(broker, mqtt.MQTTv5, broker.name("s")), Peer(broker, mqtt.MQTTv5, broker.name("p")), broker.name("t")
    wanted = Properties(PacketTypes.SUBSCRIBE)
    wanted.SubscriptionIdentifier = 77
    sub.subscribe(topic, options=SubscribeOptions(qos=2, retainAsPublished=True), properties=wanted)
    props = Properties(PacketTypes.PUBLISH)
    props.PayloadFormatIndicator = 1
    props.ContentType, props.ResponseTopic, props.CorrelationData = "a/b", "r", b"\0\1"
    props.UserProperty = [("a", "1"), ("a", "2")]
    pub.publish(topic, b"x", 2, retain=True, properties=props)
    sub.wait_messages(1)
    got = sub.messages[0].properties
    assert (got.PayloadFormatIndicator, got.ContentType, got.ResponseTopic, got.CorrelationData) == (1, "a/b", "r", b"\0\1")
    assert got.UserProperty == [("a", "1"), ("a", "2")] and got.SubscriptionIdentifier == [77]
    assert sub.messages[0].retain
    pub.publish(topic, b"", 1, retain=True)

# SPDX-License-Identifier: Apache-2.0
"""A real Mosquitto that bridges to the gateway with its default settings: it marks itself as a bridge, and says on a topic
under $SYS, by a retained message and by its will, whether it is connected."""
import signal

import pytest

from harness.mqtt_peer import V5, V311, Client, wire
from harness.remotes import Collector, Mosquitto
from harness.wait import until

STATE = "$SYS/broker/connection/site/state"
PROTOCOLS = ["mqttv31", "mqttv311", "mqttv50"]


@pytest.fixture
def gateway(run_gateway):
    yield run_gateway(listeners={"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0"}})
    Client.end_all()


def bridge(gateway, protocol):
    host, port = gateway.address("mqtt")
    # Without a limit in flight Mosquitto's own MQTT 5.0 bridge announces a receive maximum of 0, which is none.
    return Mosquitto(f"max_inflight_messages 20\nconnection site\naddress {host}:{port}\nbridge_protocol_version {protocol}\nremote_clientid site\n"
                     "restart_timeout 1\ntopic up/# out 1\ntopic down/# in 1\ntopic both/# both 1\n")


def here(gateway, *filters):
    c = Client(gateway.address("mqtt"), V5).hello()
    c.subscribe(*[(f, wire.options(1, retain_as_published=True)) for f in filters])
    return c


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_connects_as_it_is_and_says_so(gateway, protocol):
    watcher = here(gateway, STATE)
    with bridge(gateway, protocol) as site:
        said = watcher.message()
        assert (said.topic, said.payload) == (STATE, b"1")
        with here(gateway, STATE) as late:  # it is retained
            assert late.message().payload == b"1"
            late.bye()
        site.stop(signal.SIGKILL)
        assert watcher.message().payload == b"0"
        site.start()
        assert watcher.message().payload == b"1"


@pytest.mark.parametrize("protocol", PROTOCOLS[1:])
def test_messages_cross_once_and_stay_retained(gateway, protocol):
    watcher = here(gateway, STATE, "up/#", "both/#")
    with bridge(gateway, protocol) as site, Collector(site.port, "#") as there:
        assert watcher.message().payload == b"1"
        until(lambda: gateway.metric("sluice_broker_subscriptions") == 3 + 2, "the bridge has subscribed, which it does after it has said so")
        local = Client(gateway.address("mqtt"), V5).hello("local")
        remote = Client(("127.0.0.1", site.port), V311).hello("remote")
        assert local.publish("down/a", b"to the site", 1) == 0
        assert local.publish("both/a", b"from here", 1, retain=True) in (0, 0x10)
        assert watcher.message().payload == b"from here"
        remote.publish("up/a", b"to the gateway", 1)
        remote.publish("both/b", b"from there", 1, retain=True)
        got = [watcher.message() for _ in range(2)]
        assert {(m.topic, m.payload) for m in got} == {("up/a", b"to the gateway"), ("both/b", b"from there")}
        until(lambda: len(there.payloads()) >= 4, "all are there")
        remote.publish("up/a", b"last", 1)
        assert watcher.message().payload == b"last"  # nothing has come back before it
        until(lambda: len(there.payloads()) >= 5, "all are there")
        assert sorted(there.payloads()) == ["from here", "from there", "last", "to the gateway", "to the site"]
        with Client(("127.0.0.1", site.port), V311).hello("late") as late:
            late.subscribe("both/#", qos=1)
            kept = [late.message() for _ in range(2)]
            assert {m.topic for m in kept} == {"both/a", "both/b"} and all(m.retain for m in kept)
            late.bye()


def test_other_topics_under_sys_stay_the_gateways_own(gateway):
    with Client(gateway.address("mqtt"), V5).hello() as c:
        for topic in ("$SYS/broker/uptime", "$SYS/broker/connection/state", "$SYS/broker/connection/x/other"):
            assert c.publish(topic, b"x", 1) == 0x87, topic
        c.bye()

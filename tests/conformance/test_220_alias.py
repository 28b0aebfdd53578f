# SPDX-License-Identifier: Apache-2.0
"""Topic aliases, in both directions."""
import pytest
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5


def pub(topic, payload, alias, qos=0, ident=None):
    return wire.publish(V5, topic, payload, qos, ident, props={"topic_alias": alias})


@pytest.mark.core
@shows(v5="3.3.2-12")
def test_a_client_may_use_all_aliases_it_was_told_of(broker):
    subscriber, publisher = broker.connect(V5), broker.connect(V5)
    subscriber.subscribe(broker.name("#"), qos=2)
    top = publisher.connack.props["topic_alias_max"]
    assert top > 0
    for alias in range(1, top + 1):
        publisher.send(pub(broker.name(f"topic{alias}"), b"set", alias))
        # The alias itself goes to nobody: this subscriber allowed none.
        assert subscriber.message(topic=broker.name(f"topic{alias}"), payload=b"set").props == {}
    for alias in range(top, 0, -1):
        publisher.send(pub("", b"used", alias))
        subscriber.message(topic=broker.name(f"topic{alias}"), payload=b"used")
    # An alias may be given another topic, and be used with every QoS.
    publisher.send(pub(broker.name("other"), b"moved", 1), pub("", b"1", 1, 1, 5), pub("", b"2", 1, 2, 6))
    for payload in (b"moved", b"1", b"2"):
        subscriber.message(topic=broker.name("other"), payload=payload)
    publisher.expect(wire.PUBACK, ident=5)
    publisher.expect(wire.PUBREC, ident=6)


@shows(v5="3.3.2-8 3.3.2-12")
def test_aliases_out_of_range_end_the_connection(broker):
    top = broker.connect(V5).connack.props["topic_alias_max"]
    for alias in {0, top + 1, 65535}:
        client = broker.connect(V5)
        client.send(pub(broker.name("t"), b"x", alias))
        client.expect_end(0x94)


@shows(v5="4.13.1-1")
def test_an_alias_that_was_not_set_ends_the_connection(broker):
    client = broker.connect(V5)
    client.send(pub("", b"x", 1))
    client.expect_end((0x82, 0x94))


@shows(v5="3.3.2-7")
def test_aliases_end_with_the_connection(broker):
    client = broker.connect(V5, broker.name(), props={"session_expiry": 100})
    client.send(pub(broker.name("t"), b"x", 1))
    client.ping()
    client.drop()
    client = broker.connect(V5, broker.name(), clean=False)
    assert client.connack.session_present
    client.send(pub("", b"x", 1))
    client.expect_end((0x82, 0x94))


@shows(v5="3.1.2-27 3.3.2-11")
def test_without_a_maximum_no_alias_is_sent(broker):
    """Neither to a client that says nothing of it nor to one that says 0."""
    for props in (None, {"topic_alias_max": 0}):
        client = broker.connect(V5, props=props)
        client.subscribe(broker.name("#"))
        for _ in range(3):
            client.publish(broker.name("again"), b"x", props={"topic_alias": 1})
            assert "topic_alias" not in client.message(topic=broker.name("again")).props


@pytest.mark.parametrize("top", [1, 2, 10, 65535])
@shows(v5="3.1.2-26 3.3.2-11")
def test_aliases_to_a_client_stay_within_its_maximum(broker, top):
    """Whether the broker uses aliases is its own affair; what the topic is must always be clear."""
    client = broker.connect(V5, props={"topic_alias_max": top})
    client.subscribe(broker.name("#"))
    known = {}
    for i in range(40):
        topic = broker.name(f"topic{i % 7}")
        client.publish(topic, b"%d" % i)
        message = client.message(payload=b"%d" % i)
        alias = message.props.get("topic_alias")
        assert alias is None or 1 <= alias <= top, message
        if message.topic and alias:
            known[alias] = message.topic
        assert (message.topic or known.get(alias)) == topic, message


@shows(v5="3.3.2-7")
def test_aliases_to_a_client_are_new_in_each_connection(broker):
    for number in range(2):
        client = broker.connect(V5, broker.name(), clean=False, props={"session_expiry": 100, "topic_alias_max": 5})
        client.subscribe(broker.name("t"), qos=1)
        first = client
        first.publish(broker.name("t"), b"x")
        assert client.message().topic == broker.name("t"), "the first PUBLISH of a connection needs the topic"
        client.publish(broker.name("t"), b"y")
        client.message(payload=b"y")
        client.drop()

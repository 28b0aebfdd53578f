# SPDX-License-Identifier: Apache-2.0
"""Maximum packet size of both sides, and the properties that have to give way to it; request problem and
response information."""
import pytest
from mqtt import wire
from mqtt.broker import PACKET_MAX, QUEUE_MAX
from mqtt.statements import shows
from mqtt.wire import V5, V311


@shows(v5="4.13.1-1 4.13.2-1")
def test_the_brokers_maximum_packet_size(broker):
    """Exactly the maximum is served; one byte more ends the connection, before its body is there."""
    client = broker.connect(V5, listener="small")
    assert client.connack.props["packet_size_max"] == PACKET_MAX
    client.subscribe(broker.name("t"))
    empty = len(wire.publish(V5, broker.name("t"), b"x" * 200)) - 200
    client.send(wire.publish(V5, broker.name("t"), b"x" * (PACKET_MAX - empty)))
    assert len(client.message().raw) == PACKET_MAX
    client.send(wire.publish(V5, broker.name("t"), b"x" * (PACKET_MAX - empty + 1)))
    client.expect_end(0x95)
    client = broker.connect(V5, listener="small")
    client.send(b"\x30\xff\xff\xff\x7f")
    client.expect_end(0x95)


def test_the_brokers_maximum_packet_size_in_3(broker):
    client = broker.connect(V311, listener="small")
    client.send(wire.publish(V311, broker.name("t"), b"x" * PACKET_MAX))
    client.expect_end()


@pytest.mark.core
@pytest.mark.parametrize("qos", [0, 1, 2])
@shows(v5="3.1.2-24 3.1.2-25")
def test_a_message_too_large_for_the_client_counts_as_sent(broker, qos):
    """The message is left out for that client, later ones come, and it takes no place in the window."""
    limit = 100
    small, other, publisher = (broker.connect(V5, props={"packet_size_max": limit, "receive_max": 1}), broker.connect(V5),
                               broker.connect(V5))
    for client in (small, other):
        client.subscribe(broker.name("t"), qos=2)
    for _ in range(3):
        publisher.publish(broker.name("t"), b"x" * limit, qos)
        other.message(qos=qos)
    publisher.publish(broker.name("t"), b"fits", qos)
    small.message(payload=b"fits", qos=qos)
    small.ping()


@shows(v5="3.1.2-24 3.1.2-25")
def test_a_message_of_exactly_the_clients_maximum(broker):
    publisher = broker.connect(V5)
    topic = broker.name("t")
    size = len(wire.publish(V5, topic, b"y" * 30, 1, 1))
    for limit, comes in ((size, True), (size - 1, False)):
        client = broker.connect(V5, props={"packet_size_max": limit})
        client.subscribe(topic, qos=1)
        publisher.publish(topic, b"y" * 30, 1)
        publisher.publish(topic, b"end", 1)
        if comes:
            assert len(client.message(payload=b"y" * 30).raw) == size
        client.message(payload=b"end")
        client.bye()


@shows(v5="3.1.2-24 3.1.2-25")
def test_a_message_too_large_waiting_for_an_absent_client(broker):
    client = broker.connect(V5, broker.name(), props={"session_expiry": 100})
    client.subscribe(broker.name("t"), qos=1)
    client.bye()
    publisher = broker.connect(V5)
    for payload in (b"first", b"x" * 500, b"last"):
        publisher.publish(broker.name("t"), payload, 1)
    client = broker.connect(V5, broker.name(), clean=False, props={"packet_size_max": 100})
    for payload in (b"first", b"last"):
        client.message(payload=payload)
    client.ping()


def provoke(broker, client):
    """Packets of every kind from the broker, failures among them; yields each answer."""
    topic = broker.name("t")
    steps = [
        (wire.subscribe(V5, 1, [(topic, 2), (broker.name("never/#"), 0)]), wire.SUBACK),
        (wire.unsubscribe(V5, 2, [broker.name("none"), broker.name("never/#")]), wire.UNSUBACK),
        (wire.publish(V5, broker.name("nobody"), b"x", 1, 3), wire.PUBACK),
        (wire.publish(V5, broker.name("nobody"), b"x", 2, 4), wire.PUBREC),
        (wire.ack(V5, wire.PUBREL, 5), wire.PUBCOMP),
        (wire.ack(V5, wire.PUBREC, 6), wire.PUBREL),
        (wire.publish(V5, topic, b"x", 0), wire.PUBLISH),
    ]
    for packet, kind in steps:
        client.send(packet)
        yield client.expect(kind)


@shows(v5="3.2.2-19 3.2.2-20 3.4.2-2 3.4.2-3 3.5.2-2 3.5.2-3 3.6.2-2 3.6.2-3 3.7.2-2 3.7.2-3 3.9.2-1 3.9.2-2 3.11.2-1 "
          "3.11.2-2 3.14.2-3 3.14.2-4 3.1.2-24 3.2.2-8")
def test_no_packet_is_larger_than_the_client_takes(broker):
    """With a maximum that leaves a CONNACK and little more, answers come without the texts that would not fit."""
    for limit in (48, 64, 100):
        client = broker.connect(V5, props={"packet_size_max": limit, "request_problem_info": 1})
        assert len(client.connack.raw) <= limit
        for answer in provoke(broker, client):
            assert len(answer.raw) <= limit, answer
        client.send(wire.publish(V5, "a/#", b""))
        end = client.expect_end()
        assert end is None or len(end.raw) <= limit


@shows(v5="3.1.2-24 3.2.2-19 3.2.2-20 3.14.2-3")
def test_a_maximum_smaller_than_any_connack(broker):
    """Nothing fits, so nothing may be sent: the connection can only be closed."""
    for limit in (1, 2, 4):
        client = broker.raw(V5)
        client.send(wire.connect(V5, "", props={"packet_size_max": limit}))
        assert all(len(p.raw) <= limit for p in client.rest())


@shows(v5="3.1.2-29 3.14.2-2")
def test_without_request_problem_information(broker):
    """Reason strings and user properties only where they are always allowed."""
    client = broker.connect(V5, props={"request_problem_info": 0})
    for answer in provoke(broker, client):
        if answer.kind != wire.PUBLISH:
            assert not {"reason_string", "user_property"} & set(answer.props), answer


@shows(v5="3.1.2-29 3.3.2-17")
def test_a_messages_user_properties_are_not_problem_information(broker):
    client = broker.connect(V5, props={"request_problem_info": 0})
    client.subscribe(broker.name("t"))
    client.publish(broker.name("t"), props={"user_property": [("a", "b")]})
    assert client.message().props == {"user_property": [("a", "b")]}


@shows(v5="3.1.2-28")
def test_response_information_only_when_asked_for(broker):
    for props in (None, {"request_response_info": 0}):
        assert "response_info" not in broker.connect(V5, props=props).connack.props
    # Asked for it may come or not; it is a text.
    broker.connect(V5, props={"request_response_info": 1}).ping()


@shows(v5="3.3.2-15 3.3.2-16")
def test_request_and_response(broker):
    """The pattern the properties are for: a request with a response topic, a reply with its correlation data."""
    requester, responder = broker.connect(V5), broker.connect(V5)
    requester.subscribe(broker.name("reply"), qos=1)
    responder.subscribe(broker.name("request"), qos=1)
    for i in range(3):
        requester.publish(broker.name("request"), b"%d" % i, 1,
                          props={"response_topic": broker.name("reply"), "correlation_data": b"id%d" % i})
    for i in range(3):
        request = responder.message(payload=b"%d" % i)
        responder.publish(request.props["response_topic"], request.payload * 2, 1,
                          props={"correlation_data": request.props["correlation_data"]})
    for i in range(3):
        assert requester.message(payload=b"%d" % i * 2).props == {"correlation_data": b"id%d" % i}


def test_more_subscriptions_than_allowed(broker):
    client = broker.connect(V5, listener="few")
    assert client.subscribe(*[(broker.name(str(i)), 0) for i in range(4)]) == [0, 0, 0, 0x97]
    # Replacing one is no further one, and giving one up makes room.
    assert client.subscribe((broker.name("0"), 1)) == [1]
    assert client.unsubscribe(broker.name("1")) == [0]
    assert client.subscribe((broker.name("3"), 0), (broker.name("4"), 0)) == [0, 0x97]
    old = broker.connect(V311, listener="few")
    assert old.subscribe(*[(broker.name(str(i)), 0) for i in range(4)]) == [0, 0, 0, 0x80]


@shows(v3="3.8.3-2")
def test_filters_that_are_switched_off(broker):
    """Wildcards, shared subscriptions and identifiers are refused where the CONNACK says they are."""
    client = broker.connect(V5, listener="bare")
    props = client.connack.props
    assert props["wildcard_available"] == props["shared_available"] == props["subscription_id_available"] == 0
    assert client.subscribe(("a/+", 0), ("plain", 0), ("#", 0)) == [0xA2, 0, 0xA2]
    assert client.subscribe(("$share/g/plain", 0)) == [0x9E]
    client.send(wire.subscribe(V5, 9, [("plain", 0)], props={"subscription_id": 1}))
    answer = client.recv()
    assert (answer.kind, answer.reasons) == (wire.SUBACK, [0xA1]) or (answer.kind, answer.reason) == (wire.DISCONNECT, 0xA1)
    old = broker.connect(V311, listener="bare")
    assert old.subscribe(("a/+", 0), ("plain", 0), ("#", 1)) == [0x80, 0, 0x80]


def test_what_is_available_is_not_mentioned_or_1(broker):
    props = broker.connect(V5).connack.props
    for name in ("wildcard_available", "shared_available", "subscription_id_available", "retain_available"):
        assert props.get(name, 1) == 1


def fill_queue(broker, listener, version):
    """A subscriber that acknowledges nothing, one message in flight to it, and more published than its queue takes."""
    slow = broker.connect(version, listener=listener)
    slow.subscribe(broker.name("t"), qos=1)
    publisher = broker.connect(V5)
    for i in range(QUEUE_MAX + 4):
        publisher.publish(broker.name("t"), b"%d" % i, 1)
    return slow


def payloads_of(client, count):
    got = []
    for _ in range(count):
        got.append(int(client.message(qos=1).payload))
    client.ping()
    return got


@pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])
def test_a_full_queue_keeps_the_oldest_or_the_newest(broker, v):
    """The one in flight was sent before the queue was full: it is never what gives way."""
    last = QUEUE_MAX + 3
    slow = fill_queue(broker, "queue_newest", v)
    assert payloads_of(slow, 1 + QUEUE_MAX) == list(range(1 + QUEUE_MAX))
    slow = fill_queue(broker, "queue_oldest", v)
    assert payloads_of(slow, 1 + QUEUE_MAX) == [0, *range(last - QUEUE_MAX + 1, last + 1)]


@pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])
def test_a_full_queue_ends_the_connection_where_that_is_the_policy(broker, v):
    slow = fill_queue(broker, "queue_disconnect", v)
    assert int(slow.expect(wire.PUBLISH).payload) == 0
    slow.expect_end(0x97 if v == V5 else None)

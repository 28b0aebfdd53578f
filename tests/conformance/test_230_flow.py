# SPDX-License-Identifier: Apache-2.0
"""Flow control: the receive maximum of both sides."""
import pytest
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V311


@pytest.mark.core
@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("qos", [1, 2])
@shows(v5="3.3.4-9 3.3.4-10 4.9.0-1 4.9.0-2 4.9.0-3")
def test_the_clients_receive_maximum_is_kept(broker, qos, limit):
    subscriber, publisher = broker.connect(V5, props={"receive_max": limit}), broker.connect(V5)
    subscriber.subscribe(broker.name("t"), qos=2)
    subscriber.subscribe(broker.name("zero"), qos=0)
    total = limit + 4
    for i in range(total):
        publisher.publish(broker.name("t"), b"%d" % i, qos)
    first = [subscriber.message(answer=False, payload=b"%d" % i) for i in range(limit)]
    # The window is full: other packets go on, QoS 0 among them.
    subscriber.ping()
    publisher.publish(broker.name("zero"), b"passes")
    subscriber.message(payload=b"passes", qos=0)
    assert subscriber.subscribe(broker.name("another")) == [0]
    assert subscriber.publish(broker.name("up"), b"x", 1) in (0, 0x10)
    assert subscriber.is_quiet(0.3)
    # Each acknowledgement makes room for one.
    for i in range(total):
        message = first.pop(0)
        if qos == 1:
            subscriber.ack(wire.PUBACK, message.ident)
        else:
            subscriber.ack(wire.PUBREC, message.ident)
            subscriber.expect(wire.PUBREL, ident=message.ident)
            assert subscriber.is_quiet(0.05), "PUBREC alone makes no room"
            subscriber.ack(wire.PUBCOMP, message.ident)
        if i + limit < total:
            first.append(subscriber.message(answer=False, payload=b"%d" % (i + limit)))
    subscriber.ping()


@shows(v5="3.3.4-9 4.9.0-2")
def test_a_failed_pubrec_makes_room(broker):
    subscriber, publisher = broker.connect(V5, props={"receive_max": 1}), broker.connect(V5)
    subscriber.subscribe(broker.name("t"), qos=2)
    for i in range(3):
        publisher.publish(broker.name("t"), b"%d" % i, 2)
    for i in range(3):
        message = subscriber.message(answer=False, payload=b"%d" % i)
        subscriber.ack(wire.PUBREC, message.ident, 0x97)
    subscriber.ping()


@shows(v5="4.9.0-1 3.3.4-9")
def test_the_quota_is_full_again_in_each_connection(broker):
    publisher = broker.connect(V5)
    for number in range(3):
        client = broker.connect(V5, broker.name(), clean=False, props={"session_expiry": 100, "receive_max": 2})
        if not number:
            client.subscribe(broker.name("t"), qos=1)
            for i in range(3):
                publisher.publish(broker.name("t"), b"%d" % i, 1)
        # The same two, as nothing was acknowledged, and no third.
        for i in range(2):
            client.message(answer=False, payload=b"%d" % i, dup=number > 0)
        assert client.is_quiet(0.2)
        client.drop()


@pytest.mark.core
@shows(v5="3.3.4-7")
def test_the_brokers_receive_maximum_is_enforced(broker):
    client = broker.connect(V5)
    limit = client.connack.props.get("receive_max", 65535)
    if limit > 1000:
        pytest.skip(f"the receive maximum is {limit}")
    client.send(*[wire.publish(V5, broker.name("t"), b"x", 2, i + 1) for i in range(limit)])
    for i in range(limit):
        client.expect(wire.PUBREC, ident=i + 1)
    # As many as allowed are no error, nor is one of them again.
    client.send(wire.publish(V5, broker.name("t"), b"x", 2, 1, dup=True))
    client.expect(wire.PUBREC, ident=1)
    # A released one makes room.
    client.ack(wire.PUBREL, 1)
    client.expect(wire.PUBCOMP, ident=1)
    client.send(wire.publish(V5, broker.name("t"), b"x", 2, 1))
    client.expect(wire.PUBREC, ident=1)
    client.send(wire.publish(V5, broker.name("t"), b"x", 2, limit + 1))
    client.expect_end(0x93)


def test_the_receive_maximum_does_not_bind_qos_0(broker):
    client = broker.connect(V5)
    client.send(*[wire.publish(V5, broker.name("t"), b"x") for _ in range(300)])
    client.ping()


def test_3_has_no_receive_maximum(broker):
    """A 3.1.1 client was told of none; more exchanges at once than a 5.0 client may have."""
    client = broker.connect(V311)
    client.subscribe(broker.name("t"), qos=0)
    client.send(*[wire.publish(V311, broker.name("t"), b"%d" % i, 2, i) for i in range(1, 21)])
    acked, heard = [], []
    while len(acked) < 20 or len(heard) < 20:
        it = client.recv()
        if it.kind == wire.PUBREC:
            acked.append(it.ident)
        else:
            heard.append(int(it.payload))
    assert acked == heard == list(range(1, 21))

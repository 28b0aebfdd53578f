# SPDX-License-Identifier: Apache-2.0
"""DISCONNECT in both directions, and that nothing follows it."""
import pytest
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V311

both = pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])
CLIENT_REASONS = [0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99]


@both
def test_disconnect_ends_the_connection_without_an_answer(broker, v):
    client = broker.connect(v)
    client.send(wire.disconnect(v))
    assert client.rest() == []


def test_every_reason_of_a_client_is_accepted(broker):
    for reason in CLIENT_REASONS:
        client = broker.connect(V5)
        client.send(wire.disconnect(V5, reason, props={"reason_string": "why", "user_property": [("a", "b")]}))
        assert client.rest() == [], hex(reason)
    for body in (b"", b"\0", b"\0\0"):
        client = broker.connect(V5)
        client.send(wire.packet(wire.DISCONNECT, 0, body))
        assert client.rest() == []


@both
def test_nothing_after_disconnect_is_processed(broker, v):
    watcher = broker.connect(v).watch()
    watcher.subscribe(broker.name("t"))
    client = broker.connect(v)
    client.send(wire.publish(v, broker.name("t"), b"before"), wire.disconnect(v), wire.publish(v, broker.name("t"), b"after"))
    assert client.rest() == []
    assert [m.payload for m in watcher.messages_before(broker.connect(v))] == [b"before"]


@pytest.mark.core
@shows(v5="3.14.4-1 3.14.4-2 4.13.2-1")
def test_nothing_follows_the_brokers_disconnect(broker):
    """While messages are under way to the client that made an error."""
    subscriber, publisher = broker.connect(V5), broker.connect(V5)
    subscriber.subscribe(broker.name("t"), qos=1)
    publisher.send(*[wire.publish(V5, broker.name("t"), b"%d" % i, i % 2, i if i % 2 else None) for i in range(1, 200)])
    subscriber.send(wire.publish(V5, "a/#", b""))
    packets = subscriber.rest()
    kinds = [p.kind for p in packets]
    assert kinds and kinds[-1] == wire.DISCONNECT and kinds.count(wire.DISCONNECT) == 1, kinds
    assert set(kinds[:-1]) <= {wire.PUBLISH}


@both
@shows(v5="4.13.1-1", v3="4.8.0-1")
def test_what_came_before_an_error_is_processed(broker, v):
    """Packets in front of the one that ends the connection take effect, those behind it do not."""
    watcher = broker.connect(v).watch()
    watcher.subscribe(broker.name("t"), qos=1)
    client = broker.connect(v)
    client.send(wire.publish(v, broker.name("t"), b"before", 1, 5), b"\x36\x00", wire.publish(v, broker.name("t"), b"after"))
    kinds = [p.kind for p in client.rest()]
    # Not acknowledged when it was not on disk yet: the client will send it again.
    assert [k for k in kinds if k != wire.DISCONNECT] in ([wire.PUBACK], [])
    assert [m.payload for m in watcher.messages_before(broker.connect(v), 1)] == [b"before"]


@shows(v3="4.8.0-2")
def test_what_can_not_be_taken_ends_the_connection(broker):
    """A packet that the broker has no room for is the transient error a client may run into."""
    client = broker.connect(V311, listener="small")
    client.send(b"\x30\xff\xff\x7f")
    client.expect_end()


@both
def test_a_clients_end_without_disconnect(broker, v):
    """Half closed, closed and reset connections end, and the session does what it should."""
    client = broker.connect(v)
    client.sock.shutdown(1)
    client.rest()
    for how in ("drop", "reset"):
        getattr(broker.connect(v), how)()
    broker.connect(v).ping()

# SPDX-License-Identifier: Apache-2.0
"""Order: messages of one client on one topic arrive in the order they were sent, for each QoS, whatever else
goes on; and the roles of the gateway beyond a plain server."""
import threading

import pytest
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V311

both = pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])


def blast(client, topic, qos, count, problems, window=8):
    """Publishes numbers with several exchanges at a time."""
    try:
        sent = done = 0
        while done < count:
            while sent < count and sent - done < window:
                client.send(wire.publish(client.version, topic, b"%d" % sent, qos, sent % 60000 + 1 if qos else None))
                sent += 1
            if qos == 0:
                done = sent
                continue
            it = client.recv()
            if it.kind == wire.PUBREC:
                client.ack(wire.PUBREL, it.ident)
            else:
                assert it.ident == done % 60000 + 1 and it.reason in (0, 0x10), it
                done += 1
        client.ping()
    except Exception as e:  # noqa: BLE001 - reported by the test's own thread
        problems.append(repr(e))


@pytest.mark.core
@both
@pytest.mark.parametrize("qos", [0, 1, 2])
@shows(v5="4.6.0-5 4.6.0-6 4.5.0-1", v3="4.6.0-5 4.6.0-6 4.5.0-1")
def test_order_of_several_publishers_and_subscribers(broker, v, qos):
    """Connections are spread over the workers, so most messages cross between them."""
    count, problems = 300, []
    publishers = [broker.connect(v) for _ in range(4)]
    subscribers = [broker.connect(v) for _ in range(3)]
    for subscriber in subscribers:
        subscriber.subscribe(broker.name("+"), qos=2)
    threads = [threading.Thread(target=blast, args=(p, broker.name(str(i)), qos, count, problems))
               for i, p in enumerate(publishers)]
    for thread in threads:
        thread.start()
    for subscriber in subscribers:
        seen = {broker.name(str(i)): 0 for i in range(len(publishers))}
        for _ in range(count * len(publishers)):
            message = subscriber.message(qos=qos)
            assert int(message.payload) == seen[message.topic], message
            seen[message.topic] += 1
    for thread in threads:
        thread.join()
    assert not problems, problems


@both
@shows(v5="4.6.0-5", v3="4.6.0-6")
def test_order_with_a_slow_subscriber(broker, v):
    """One that acknowledges late, and in another order than it was sent."""
    problems, count = [], 120
    subscriber, publisher = broker.connect(v), broker.connect(v)
    subscriber.subscribe(broker.name("t"), qos=1)
    thread = threading.Thread(target=blast, args=(publisher, broker.name("t"), 1, count, problems))
    thread.start()
    for start in range(0, count, 10):
        group = [subscriber.message(answer=False, payload=b"%d" % i) for i in range(start, start + 10)]
        for message in reversed(group):
            subscriber.answer(message)
    thread.join()
    assert not problems, problems


@shows(v3="7.0.0-2 7.0.0-1 7.1.1-1", v5="4.2-1")
def test_clients_of_all_versions_together(broker):
    """No extension is asked for, and what goes out to a client is in its own version. That a server that connects
    to others is a conforming client is shown by the client's tests; this server connects to none."""
    clients = [broker.connect(v) for v in (3, V311, V5)]
    for client in clients:
        client.subscribe(broker.name("t"), qos=1)
    for client in clients:
        client.publish(broker.name("t"), b"from %d" % client.version, 1)
    for client in clients:
        got = [client.message(topic=broker.name("t"), qos=1) for _ in clients]
        assert sorted(m.payload for m in got) == [b"from 3", b"from 4", b"from 5"]

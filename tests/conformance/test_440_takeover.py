# SPDX-License-Identifier: Apache-2.0
"""Two connections with one client id: the later one has the session."""
import threading

import pytest
from harness.wait import until
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V311

both = pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])


def kept(v):
    return {"props": {"session_expiry": 100}} if v == V5 else {}


@pytest.mark.core
@both
@shows(v5="3.1.4-3 3.14.2-1 3.1.2-5", v3="3.1.4-2 3.1.2-4")
def test_the_second_connection_takes_over(broker, v):
    """Wherever it was accepted: eight in a row meet every worker."""
    publisher = broker.connect(v)
    client = broker.connect(v, broker.name(), clean=False, **kept(v))
    client.subscribe(broker.name("t"), qos=1)
    for i in range(8):
        later = broker.connect(v, broker.name(), clean=False, **kept(v))
        assert later.connack.session_present
        client.expect_end(0x8E)
        publisher.publish(broker.name("t"), b"%d" % i, 1)
        later.message(payload=b"%d" % i)
        later.ping()  # its PUBACK was taken: the next connection may be faster on another worker
        client = later


@both
@shows(v5="3.1.4-3 3.1.2-4 3.2.2-2", v3="3.1.4-2 3.1.2-6 3.2.2-1")
def test_a_take_over_with_clean_start(broker, v):
    publisher = broker.connect(v)
    client = broker.connect(v, broker.name(), clean=False, **kept(v))
    client.subscribe(broker.name("t"), qos=1)
    later = broker.connect(v, broker.name(), clean=True)
    assert not later.connack.session_present
    client.expect_end(0x8E)
    publisher.publish(broker.name("t"), b"x", 1)
    later.watch().nothing_before(publisher, 1)


@shows(v5="3.1.4-3", v3="3.1.4-2")
def test_a_take_over_by_the_other_version(broker):
    old = broker.connect(V311, broker.name(), clean=False)
    new = broker.connect(V5, broker.name(), clean=False, **kept(V5))
    old.expect_end()
    assert new.connack.session_present
    older = broker.connect(V311, broker.name(), clean=False)
    new.expect_end(0x8E)
    older.ping()


@both
@shows(v5="3.1.4-3 4.4.0-1", v3="3.1.4-2 4.4.0-1")
def test_what_is_in_flight_is_sent_to_the_later_connection(broker, v):
    publisher = broker.connect(v)
    client = broker.connect(v, broker.name(), clean=False, **kept(v))
    client.subscribe(broker.name("t"), qos=2)
    for i in range(3):
        publisher.publish(broker.name("t"), b"%d" % i, 2)
    idents = [client.message(answer=False).ident for _ in range(3)]
    later = broker.connect(v, broker.name(), clean=False, **kept(v))
    client.expect_end(0x8E)
    for i in range(3):
        later.message(payload=b"%d" % i, ident=idents[i], dup=True)
    later.ping()


@pytest.mark.core
@both
@shows(v5="3.1.4-3", v3="3.1.4-2")
def test_many_connections_of_one_id_at_the_same_time(broker, v):
    """One is left at the end, each of the others has ended, and none was left without an answer."""
    count, clients, problems = 16, [], []
    barrier = threading.Barrier(count)

    def run():
        client = broker.raw(v)
        clients.append(client)
        barrier.wait()
        try:
            client.send(wire.connect(v, broker.name(), clean=False, **kept(v)))
            client.expect(wire.CONNACK, reason=0)
        except AssertionError as e:
            problems.append(str(e))
    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A connection may be taken over before its CONNACK was written: then it just ends.
    assert all("end" in p or "reset" in p for p in problems), problems

    def answers(client):
        try:
            client.ping()
            return True
        except AssertionError:
            return False

    survivors = clients

    def one_is_left():  # what is taken over while it is asked shows only then
        nonlocal survivors
        survivors = [client for client in survivors if answers(client)]
        return len(survivors) == 1
    until(one_is_left, lambda: f"{len(survivors)} of {count} are served")
    survivors[0].subscribe(broker.name("t"))
    broker.connect(v).publish(broker.name("t"), b"x")
    survivors[0].message(payload=b"x")


@both
def test_a_client_that_goes_while_it_is_taken_over(broker, v):
    for i in range(20):
        client = broker.connect(v, broker.name(), clean=False, **kept(v))
        raw = broker.raw(v)
        raw.send(wire.connect(v, broker.name(), clean=False, **kept(v)))
        client.drop()
        raw.expect(wire.CONNACK, reason=0, session_present=True)
        raw.drop()

# SPDX-License-Identifier: Apache-2.0
"""Enhanced authentication: on a listener that offers no method, and on one that offers SCRAM-SHA-256. The exchange's own
messages are judged in tests/blackbox/test_310_scram.py; here is what MQTT makes of it."""
import pytest
from harness.accounts import Scram
from mqtt import wire
from mqtt.broker import ACCOUNT
from mqtt.client import Ended
from mqtt.statements import shows
from mqtt.wire import V5, Will

METHOD = "SCRAM-SHA-256"


@shows(v5="4.12.0-1 4.12.0-4 3.2.2-7 3.2.2-8 3.1.4-6")
def test_an_unknown_method_is_refused(broker):
    """With a CONNACK of 0x8C or 0x87 and never with an AUTH."""
    for props in ({"auth_method": METHOD, "auth_data": b"n,,n=user,r=nonce"}, {"auth_method": "x"},
                  {"auth_method": ""}):
        client = broker.raw(V5)
        client.send(wire.connect(V5, broker.name(), props=props))
        packets = client.rest()
        assert [p.kind for p in packets] == [wire.CONNACK], packets
        assert packets[0].reason in (0x8C, 0x87) and not packets[0].session_present


@shows(v5="4.12.0-1 3.1.4-6")
def test_auth_after_a_refused_method_is_not_processed(broker):
    client = broker.raw(V5)
    client.send(wire.connect(V5, broker.name(), props={"auth_method": "x"}), wire.auth(0x18, {"auth_method": "x"}))
    assert [p.kind for p in client.rest()] == [wire.CONNACK]


@shows(v5="4.12.0-6")
def test_without_a_method_no_auth_and_no_method(broker):
    client = broker.connect(V5, user="u", password=b"p")
    assert not {"auth_method", "auth_data"} & set(client.connack.props)
    client.ping()


@pytest.mark.parametrize("reason", [0x00, 0x18, 0x19])
@shows(v5="4.12.1-2 4.13.1-1 4.12.0-6")
def test_re_authentication_without_a_method_ends_the_connection(broker, reason):
    client = broker.connect(V5)
    client.send(wire.auth(reason, {"auth_method": "x", "auth_data": b"y"}))
    client.expect_end((0x82,))


def test_auth_before_connect_ends_the_connection(broker):
    for listener in ("mqtt", "scram"):
        client = broker.raw(V5, listener)
        client.send(wire.auth(0x18, {"auth_method": METHOD, "auth_data": b"n,,n=user,r=x"}))
        assert client.rest() == []


# --- an exchange ---

def begin(broker, scram, client_id=None, props=None, **more):
    client = broker.raw(V5, "scram")
    client.send(wire.connect(V5, client_id or broker.name(), props={"auth_method": METHOD, "auth_data": scram.first,
                                                                    **(props or {})}, **more))
    return client


def answer(client, scram, challenge, reason=0x18, method=METHOD):
    client.send(wire.auth(reason, {"auth_method": method, "auth_data": scram.final(challenge.props["auth_data"])}))


def login(broker, account=ACCOUNT, **more):
    scram = Scram(*account)
    client = begin(broker, scram, **more)
    answer(client, scram, client.expect(wire.AUTH, reason=0x18))
    return client, scram


@shows(v5="4.12.0-2 4.12.0-5 3.15.2-1")
def test_an_exchange(broker):
    scram = Scram(*ACCOUNT)
    client = begin(broker, scram)
    challenge = client.expect(wire.AUTH, reason=0x18)
    assert challenge.props["auth_method"] == METHOD
    answer(client, scram, challenge)
    connack = client.expect(wire.CONNACK, reason=0)
    assert connack.props["auth_method"] == METHOD and connack.props["auth_data"] == scram.expected
    client.ping()


@shows(v5="4.12.0-4 3.1.4-6 3.2.2-7")
def test_a_wrong_proof_is_refused_and_ends_the_connection(broker):
    """What came behind is not processed, and a session of that client id is left alone."""
    holder, _ = login(broker, client_id=broker.name("c"))
    holder.expect(wire.CONNACK, reason=0)
    holder.subscribe(broker.name("t"))
    client, _ = login(broker, ("user", "wrong"), client_id=broker.name("c"), will=Will(broker.name("t")))
    try:
        client.send(wire.publish(V5, broker.name("t"), b"x"))
    except OSError:
        pass
    packets = client.rest()
    assert [p.kind for p in packets] == [wire.CONNACK] and packets[0].reason in (0x86, 0x87)
    holder.ping()  # neither taken over nor told anything


@pytest.mark.parametrize("packet", [
    wire.PING, wire.connect(V5, "again"), wire.publish(V5, "t", b"x"), wire.subscribe(V5, 1, [("t", 0)]),
    wire.auth(0x00, {"auth_method": METHOD, "auth_data": b"x"}), wire.auth(0x19, {"auth_method": METHOD, "auth_data": b"x"}),
    wire.auth(0x18, {"auth_method": "OTHER", "auth_data": b"x"}), wire.auth(0x18, {"auth_data": b"x"}),
    wire.auth(0x18, {"auth_method": METHOD}), wire.auth(0x18), b"\xf1\x00", b"\xf0\x01\x18",
], ids=["ping", "connect", "publish", "subscribe", "success", "again", "method", "no-method", "no-data", "nothing", "flags",
        "short"])
@shows(v5="4.12.0-4")
def test_what_may_not_stand_in_an_exchange_ends_it(broker, packet):
    client = begin(broker, Scram(*ACCOUNT))
    client.expect(wire.AUTH, reason=0x18)
    client.send(packet)
    try:
        packets = client.rest()
    except Ended:
        packets = []
    assert all(p.kind == wire.CONNACK and p.reason >= 0x80 for p in packets), packets


def test_a_client_may_leave_an_exchange(broker):
    client = begin(broker, Scram(*ACCOUNT), will=Will(broker.name("t")))
    client.expect(wire.AUTH, reason=0x18)
    client.send(wire.disconnect(V5))
    assert client.rest() == []


@shows(v5="3.15.2-2 3.15.2-3")
def test_no_auth_is_larger_than_the_client_takes(broker):
    for most in (20, 60, 100, 4096):
        client = begin(broker, Scram(*ACCOUNT), props={"packet_size_max": most})
        packets = [client.expect(wire.AUTH)] if most == 4096 else client.rest()
        assert all(len(p.raw) <= most for p in packets)


# --- again ---

def again(client, scram):
    client.send(wire.auth(0x19, {"auth_method": METHOD, "auth_data": scram.first}))
    return client.expect(wire.AUTH, reason=0x18)


@shows(v5="4.12.0-5 3.15.2-1")
def test_re_authentication(broker):
    client, _ = login(broker)
    client.expect(wire.CONNACK, reason=0)
    scram = Scram(*ACCOUNT)
    challenge = again(client, scram)
    assert challenge.props["auth_method"] == METHOD
    client.ping()  # as before, meanwhile
    answer(client, scram, challenge)
    done = client.expect(wire.AUTH, reason=0)
    assert done.props["auth_method"] == METHOD and done.props["auth_data"] == scram.expected
    client.ping()


@shows(v5="4.12.1-2")
def test_a_failed_re_authentication_ends_the_connection(broker):
    client, _ = login(broker)
    client.expect(wire.CONNACK, reason=0)
    scram = Scram("user", "wrong")
    answer(client, scram, again(client, scram))
    client.expect_end((0x86, 0x87))


@pytest.mark.parametrize("packet", [
    wire.auth(0x18, {"auth_method": METHOD, "auth_data": b"x"}), wire.auth(0x00, {"auth_method": METHOD}),
    wire.auth(0x19, {"auth_method": "OTHER", "auth_data": b"x"})], ids=["continue", "success", "method"])
@shows(v5="4.12.1-2")
def test_re_authentication_out_of_turn_ends_the_connection(broker, packet):
    client, _ = login(broker)
    client.expect(wire.CONNACK, reason=0)
    client.send(packet)
    client.expect_end((0x82, 0x8C))

# SPDX-License-Identifier: Apache-2.0
"""CONNECT: what comes first, names and versions, flags, client ids, and the order of the payload."""
import pytest
from mqtt import wire
from mqtt.client import Ended
from mqtt.statements import shows
from mqtt.wire import V5, V31, V311, Will

both = pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])
every = pytest.mark.parametrize("v", [V31, V311, V5], ids=["v3.1", "v3.1.1", "v5"])


@pytest.mark.core
@every
@shows(v5="3.1.4-5 3.2.0-1 3.2.0-2 3.2.2-1 3.2.2-2 4.2-1 3.12.4-1 2.2.2-1",
       v3="3.1.4-4 3.2.0-1 3.2.2-1 7.1.1-1 7.0.0-2 3.12.4-1")
def test_a_good_connect_is_accepted(broker, v):
    client = broker.connect(v)
    assert not client.connack.session_present
    if v < V5:
        assert client.connack.raw == b"\x20\x02\0\0"
    # A second CONNACK, or anything else, would come before the answer to the ping.
    client.ping()
    client.bye()


@both
@shows(v5="3.1.0-1", v3="3.1.0-1")
def test_the_first_packet_must_be_connect(broker, v):
    for first in (wire.PING, wire.publish(v, broker.name("a"), b"x"), wire.subscribe(v, 1, [("a", 0)]),
                  wire.ack(v, wire.PUBACK, 1), wire.disconnect(v)):
        client = broker.raw(v)
        client.send(first)
        # No CONNACK was sent, so there may be no DISCONNECT either.
        assert client.rest() == []


@both
@shows(v5="3.1.0-2", v3="3.1.0-2")
def test_a_second_connect_ends_the_connection(broker, v):
    client = broker.connect(v)
    client.send(wire.connect(v, client.id))
    client.expect_end(0x82)


@shows(v3="3.1.2-1 3.1.4-1")
def test_another_protocol_name_is_refused_in_3(broker):
    for name, level in (("MQTS", 4), ("mqtt", 4), ("", 4), ("MQIsdp", 4)):
        client = broker.raw(V311)
        client.send(wire.connect(V311, broker.name(), name=name, level=level))
        packets = client.rest()
        # A refusal with "unacceptable protocol level" is allowed, being served is not.
        assert [(p.kind, p.reason) for p in packets] in ([], [(wire.CONNACK, 1)]), (name, packets)


@shows(v5="3.1.2-1")
def test_another_protocol_name_is_refused_in_5(broker):
    for name in ("MQTX", "mqtt", "MQTTT", "MQT", ""):
        client = broker.raw(V5)
        client.send(wire.connect(V5, broker.name(), name=name))
        try:
            raw = client.recv().raw
            assert raw[:2] == b"\x20\x02" or raw[3] == 0x84, raw
        except Ended:
            pass
        assert client.rest() == []


@shows(v5="3.1.2-2", v3="3.1.2-2 3.2.2-5")
def test_a_protocol_version_that_is_not_served_is_refused(broker):
    for level in (0, 2, 6, 0x7F, 0xFF):
        client = broker.raw(V5)
        client.send(wire.connect(V311, broker.name(), level=level))
        packets = client.rest()
        # In the form of 3.1.1 with code 1, or in the form of 5.0 with 0x84.
        assert len(packets) == 1 and packets[0].kind == wire.CONNACK, (level, packets)
        assert packets[0].raw == b"\x20\x02\0\x01" or packets[0].reason == 0x84, packets


def flags_of(will_qos=0, will=False, retain=False, user=False, password=False, clean=True, reserved=False):
    return (0x80 * user | 0x40 * password | 0x20 * retain | will_qos << 3 | 4 * will | 2 * clean | 1 * reserved)


def refused(broker, v, packet, reason):
    """Refused as malformed: 5.0 with that CONNACK or none, 3.x without one."""
    client = broker.raw(v)
    client.send(packet)
    packets = client.rest()
    if v < V5 or not packets:
        assert packets == []
        return
    assert len(packets) == 1 and packets[0].kind == wire.CONNACK, packets
    assert packets[0].reason == reason and not packets[0].session_present, packets


@both
@shows(v5="3.1.2-3 3.1.4-1 3.2.2-6 3.2.2-7 3.2.2-8 4.13.2-1 3.14.0-1", v3="3.1.2-3 3.1.4-1 3.2.2-6")
def test_the_reserved_connect_flag_must_be_0(broker, v):
    refused(broker, v, wire.connect(v, broker.name(), flags=flags_of(reserved=True)), 0x81)


@both
@shows(v5="3.1.2-11 3.1.2-12 3.1.2-13", v3="3.1.2-11 3.1.2-13 3.1.2-14 3.1.2-15")
def test_will_qos_and_will_retain_need_the_will_flag(broker, v):
    for qos in (1, 2, 3):
        refused(broker, v, wire.connect(v, broker.name(), flags=flags_of(will_qos=qos)), 0x81)
    refused(broker, v, wire.connect(v, broker.name(), flags=flags_of(retain=True)), 0x81)
    # And with the flag there is no QoS 3.
    fields = (wire.text(broker.name()) + wire.properties(v, None) + wire.text("t") + wire.binary(b"w"))
    refused(broker, v, wire.connect(v, "", flags=flags_of(will_qos=3, will=True), payload=fields), 0x81)


@both
@shows(v5="3.1.2-9 3.1.2-16 3.1.2-17 3.1.2-18 3.1.2-19", v3="3.1.2-9 3.1.2-18 3.1.2-19 3.1.2-20 3.1.2-21 3.1.2-11")
def test_the_payload_is_what_the_flags_say(broker, v):
    ident = wire.text(broker.name())
    will = wire.properties(v, None) + wire.text("t") + wire.binary(b"w")
    wrong = [
        ("a field more than flags", flags_of(), ident + wire.text("user")),
        ("a will without its flag", flags_of(), ident + will),
        ("no will", flags_of(will=True), ident),
        ("no will payload", flags_of(will=True), ident + wire.properties(v, None) + wire.text("t")),
        ("no user name", flags_of(user=True), ident),
        ("no password", flags_of(user=True, password=True), ident + wire.text("user")),
        ("a password without its flag", flags_of(user=True), ident + wire.text("user") + wire.binary(b"pw")),
        ("no client id", flags_of(), b""),
        ("half a length", flags_of(user=True), ident + b"\0"),
    ]
    for what, flags, payload in wrong:
        client = broker.raw(v)
        client.send(wire.connect(v, "", flags=flags, payload=payload))
        packets = client.rest()
        told = [(p.kind, p.reason) for p in packets]
        assert told in ([], [(wire.CONNACK, 0x81)] if v == V5 else []), (what, packets)


@both
@shows(v5="3.1.3-1 3.1.3-3", v3="3.1.3-1 3.1.3-3")
def test_all_fields_in_their_order(broker, v):
    """Any other order would make another client id, will topic or user of the same bytes."""
    watcher = broker.connect(v)
    watcher.subscribe(broker.name("#"))
    client = broker.connect(v, broker.name("all"), will=Will(broker.name("will"), b"payload", qos=1),
                            user="some user", password=b"\xff\0binary", keep_alive=60)
    client.drop()
    watcher.message(topic=broker.name("will"), payload=b"payload")


@shows(v3="3.1.2-22 3.1.4-1")
def test_a_password_without_a_user_name_is_refused_in_3(broker):
    refused(broker, V311, wire.connect(V311, broker.name(), password=b"pw"), 0)


def test_a_password_without_a_user_name_is_accepted_in_5(broker):
    broker.connect(V5, password=b"pw").ping()


LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@both
@shows(v5="3.1.3-5", v3="3.1.3-5")
def test_client_ids_of_letters_and_digits_are_allowed(broker, v):
    for client_id in ("Z", LETTERS[:23], LETTERS[23:46], LETTERS[46:], "0" * 23):
        broker.connect(v, client_id).bye()


@both
def test_other_client_ids_are_allowed_too(broker, v):
    for client_id in (broker.name("/+#"), broker.name("x" * 200), broker.name("ä€😀"), broker.name(" "), "$" + broker.name()):
        broker.connect(v, client_id).bye()


@shows(v5="3.1.3-6 3.1.3-7 3.2.2-16")
def test_an_empty_client_id_is_replaced_and_told(broker):
    clients = [broker.connect(V5, "", clean=clean, props={"session_expiry": 100})
               for clean in (True, False, True, False)]
    ids = [c.connack.props["assigned_client_id"] for c in clients]
    assert len(set(ids)) == len(ids) and all(ids), ids
    # They are ids like others: one of them used by a second client takes the session over.
    second = broker.connect(V5, ids[0], clean=False)
    assert second.connack.session_present and "assigned_client_id" not in second.connack.props
    clients[0].expect_end(0x8E)
    for client in clients[1:]:
        client.bye(props={"session_expiry": 0})
    second.bye(props={"session_expiry": 0})


@shows(v3="3.1.3-6")
def test_clients_with_an_empty_id_are_several_in_3(broker):
    clients = [broker.connect(V311, "") for _ in range(3)]
    for client in clients:
        assert not client.connack.session_present
        client.subscribe(broker.name("t"))
    clients[0].publish(broker.name("t"), b"to each")
    for client in clients:
        client.message(payload=b"to each")


@shows(v3="3.1.3-8 3.1.3-9 3.2.2-4 3.2.2-5")
def test_an_empty_client_id_needs_a_clean_session_in_3(broker):
    client = broker.raw(V311)
    client.hello("", clean=False, expect=2)
    assert client.connack.raw == b"\x20\x02\0\x02"
    assert client.rest() == []


def test_an_empty_client_id_is_refused_in_3_1(broker):
    client = broker.raw(V31)
    client.hello("", expect=2)
    assert client.rest() == []


@both
@shows(v5="3.1.4-6", v3="3.1.4-5")
def test_nothing_after_a_refused_connect_is_processed(broker, v):
    watcher = broker.connect(v).watch()
    watcher.subscribe(broker.name("t"))
    client = broker.raw(v)
    client.send(wire.connect(v, broker.name(), flags=flags_of(reserved=True)), wire.publish(v, broker.name("t"), b"x"))
    assert [p.kind for p in client.rest()] in ([], [wire.CONNACK])
    watcher.nothing_before(broker.connect(v))


@both
@shows(v5="3.1.2-2 3.1.4-6 3.14.0-1", v3="3.1.4-5")
def test_nothing_after_a_refused_version_is_processed(broker, v):
    watcher = broker.connect(v).watch()
    watcher.subscribe(broker.name("t"))
    client = broker.raw(V5)
    client.send(wire.connect(v, broker.name(), level=7), wire.publish(v, broker.name("t"), b"x"))
    assert [p.kind for p in client.rest()] in ([], [wire.CONNACK])
    watcher.nothing_before(broker.connect(v))


@both
def test_packets_may_follow_connect_at_once(broker, v):
    """A client need not wait for the CONNACK before it sends more; answers come in order."""
    client = broker.raw(v)
    topic = broker.name("t")
    client.send(wire.connect(v, broker.name()), wire.subscribe(v, 7, [(topic, 1)]), wire.publish(v, topic, b"x", 1, 8),
                wire.PING)
    client.expect(wire.CONNACK, reason=0)
    client.expect(wire.SUBACK, ident=7)
    kinds = sorted(client.recv().kind for _ in range(3))
    assert kinds == [wire.PUBLISH, wire.PUBACK, wire.PINGRESP]


@both
def test_a_connect_in_single_bytes_is_accepted(broker, v):
    client = broker.raw(v)
    for byte in wire.connect(v, broker.name(), user="u", password=b"p", will=Will(broker.name("w"))):
        client.send(bytes([byte]))
    client.expect(wire.CONNACK, reason=0)
    client.bye()


def test_a_connection_that_sends_no_connect_is_closed(broker):
    for start in (b"", wire.connect(V5, "x")[:9]):
        client = broker.raw(V5, listener="hasty")
        client.send(start)
        assert client.rest() == []


@both
@shows(v5="3.1.4-2 3.2.2-7 3.2.2-8 3.1.4-6", v3="3.1.4-5 3.2.2-5")
def test_a_wrong_password_is_refused(broker, v):
    codes = {V311: (4, 5), V5: (0x86, 0x87)}[v]
    for login in ({}, {"user": "u", "password": b"wrong"}, {"user": "u", "password": b""}, {"user": "u"},
                  {"user": "s3cret", "password": b"s3cret "}):
        client = broker.raw(v, listener="guarded")
        client.hello(broker.name(), expect=None, **login)
        assert client.connack.reason in codes, (login, client.connack)
        assert client.rest() == []
    broker.connect(v, listener="guarded", user="anybody", password=b"s3cret").bye()

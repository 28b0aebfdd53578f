# SPDX-License-Identifier: Apache-2.0
"""Enhanced authentication: the gateway offers no method, so every method is refused and no AUTH is ever sent."""
import pytest
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5


@shows(v5="4.12.0-1 4.12.0-4 3.2.2-7 3.2.2-8 3.15.2-1 3.15.2-2 3.15.2-3 4.12.0-2 4.12.0-5 3.1.4-6")
def test_an_unknown_method_is_refused(broker):
    """With a CONNACK of 0x8C or 0x87 and never with an AUTH, so that the rules for its contents are kept."""
    for props in ({"auth_method": "SCRAM-SHA-256", "auth_data": b"n,,n=user,r=nonce"}, {"auth_method": "x"},
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
    client = broker.raw(V5)
    client.send(wire.auth(0x18, {"auth_method": "x"}))
    assert client.rest() == []

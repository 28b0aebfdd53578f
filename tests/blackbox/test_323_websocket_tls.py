# SPDX-License-Identifier: Apache-2.0
"""WebSocket over TLS, and behind a proxy: the layers on top of each other, on every engine."""
import pytest

from harness import pki as pki_of
from harness.gateway import Gateway
from harness.tls import TlsDevice, context
from harness.websocket import (CLOSE, CONNACK, PING, PINGREQ, PINGRESP, PONG, WebSocket, frame, mqtt_connect, publish,
                               request, suback, subscribe)

LINE = b"PROXY TCP4 192.0.2.1 198.51.100.7 4711 8084\r\n"


class SecureWebSocket(WebSocket, TlsDevice):
    """The bytes of WebSocket through a TLS client."""


@pytest.fixture(scope="module", name="pki")
def made(tmp_path_factory):
    return pki_of.standard(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module", name="process")
def running(pki, sluice, engine):
    wss = {"protocol": "mqtt", "transport": "websocket", "anonymous": True,
           "tls": {"cert": [pki.cert("server")], "key": [pki.key("server")]}}
    listeners = {"wss": wss, "proxied": {**wss, "proxy_protocol": True, "proxy_from": ["127.0.0.1"]}}
    with Gateway(sluice, engine, workers=2, listeners=listeners) as gateway:
        yield gateway


@pytest.fixture(name="gateway")
def checked(process):
    yield from process.for_one_test()


def test_packets_both_ways(gateway, pki):
    for i in range(4):  # some belong to the other worker
        with SecureWebSocket(gateway.address("wss"), context(pki)) as device:
            device.open().connect_mqtt(f"secure-{i}")
            device.send(frame(subscribe(1, "secure")))
            device.expect_packet(suback(1))
            for size in (0, 1, 126, 4000, 20_000, 100_000):
                device.send(frame(publish("secure", b"s" * size)))
                device.expect_packet(publish("secure", b"s" * size))
            device.send(frame(b"p", PING))
            assert device.recv_ws() == (PONG, b"p")


def test_the_end(gateway, pki):
    with SecureWebSocket(gateway.address("wss"), context(pki)) as device:
        device.open().connect_mqtt("ends").send(frame(PINGREQ) + frame(b"\x03\xe8", CLOSE))
        device.expect_packet(PINGRESP)
        device.expect_close(1000)
    with SecureWebSocket(gateway.address("wss"), context(pki)) as device:
        device.open().connect_mqtt("wrong").send(frame(PINGREQ, mask=None))
        device.expect_close(1002)


def test_all_at_once(gateway, pki):
    with SecureWebSocket(gateway.address("wss"), context(pki)) as device:
        device.send(request() + frame(mqtt_connect("at-once")) + frame(PINGREQ))
        assert device.answer()[0] == 101
        device.stream = b""
        device.expect_packet(CONNACK + PINGRESP)


def test_behind_a_proxy(gateway, pki):
    """The PROXY header comes in the clear, before TLS."""
    with WebSocket(gateway.address("proxied")) as device:
        device.send(LINE)
        device.sock = context(pki).wrap_socket(device.sock, server_hostname="localhost")
        device.open().connect_mqtt("proxied")
        assert [c["peer"] for c in gateway.conns()] == ["192.0.2.1:4711"]

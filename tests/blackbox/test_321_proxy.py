# SPDX-License-Identifier: Apache-2.0
"""The PROXY protocol, on every engine: whose connection it is, who is believed, and what ends a connection. Client
addresses are 192.0.2.0/24 and 2001:db8::/32, which no machine has."""
import os
import socket
import struct

import pytest
from conftest import shared_gateway
from harness.client import Device, ack, frame
from harness.wait import until
from harness.websocket import CONNACK, PINGREQ, PINGRESP, WebSocket, mqtt_connect

PROXY = {"mode": "ack", "proxy_protocol": True, "proxy_from": ["127.0.0.1", "127.0.0.4/31"]}
LISTENERS = {
    "proxied": PROXY,
    "hasty": {**PROXY, "hello_timeout": "500ms"},
    "limited": {**PROXY, "max_conns_per_address": 2},
    "mqtt": {**PROXY, "protocol": "mqtt", "mode": None},
}
LISTENERS["ws"] = {**LISTENERS["mqtt"], "transport": "websocket"}
LISTENERS = {name: {k: v for k, v in members.items() if v is not None} for name, members in LISTENERS.items()}
gateway_process, gateway = shared_gateway(workers=2, listeners=LISTENERS)

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
LINE = b"PROXY TCP4 192.0.2.1 198.51.100.7 4711 7000\r\n"


def binary(source, port=4711, command=1, extra=b""):
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    address = socket.inet_pton(family, source)
    body = address + address + struct.pack(">HH", port, 7000) + extra
    return SIGNATURE + bytes([0x20 | command, 0x21 if family == socket.AF_INET6 else 0x11]) + struct.pack(">H", len(body)) + body


def peers(gateway):
    return [c["peer"] for c in gateway.conns()]


@pytest.mark.parametrize("header, peer", [
    (LINE, "192.0.2.1:4711"),
    (b"PROXY TCP6 2001:db8::9 ::1 4711 7000\r\n", "[2001:db8::9]:4711"),
    (binary("192.0.2.2"), "192.0.2.2:4711"),
    (binary("2001:db8::2"), "[2001:db8::2]:4711"),
    (binary("192.0.2.3", extra=b"\x01\x00\x04mqtt\x20\x00\x03abc" + b"\x04\x00\xff" + b"n" * 255), "192.0.2.3:4711"),
], ids=["line4", "line6", "inet", "inet6", "extensions"])
def test_whose_connection_it_is(gateway, header, peer):
    data = header + frame(b"one") + frame(b"two")
    for step in (len(data), len(header), 1):
        with Device(gateway.address("proxied")) as device:
            for at in range(0, len(data), step):
                device.send(data[at:at + step])
            device.expect(ack(1) + ack(2))
            assert peers(gateway) == [peer]
        gateway.expect_no_conns()
    gateway.wait_log(rf"{peer.replace('[', '.').replace(']', '.')} connected to listener proxied through 127\.0\.0\.1:\d+")


@pytest.mark.parametrize("header", [b"PROXY UNKNOWN\r\n", SIGNATURE + b"\x20\0\0\0", binary("192.0.2.1", command=0),
                                    SIGNATURE + b"\x21\0\0\0"], ids=["unknown", "local", "local-inet", "unspec"])
def test_the_proxy_speaks_for_itself(gateway, header):
    with Device(gateway.address("proxied")) as device:
        device.send(header + frame(b"check"))
        device.expect(ack(1))
        assert peers(gateway) == [device.peer_text]


@pytest.mark.parametrize("data", [
    frame(b"no header at all"), b"\0", b"PROXY TCP4 192.0.2.1 198.51.100.7 4711\r\n", b"PROXY TCP4 x y 1 2\r\n",
    b"PROXY " + b"x" * 110, SIGNATURE + b"\x11\x11\0\x0c", SIGNATURE + b"\x21\x11\0\x04", SIGNATURE + b"\x21\x12\0\x0c",
    SIGNATURE + b"\x2f\x11\0\x0c",
], ids=["frame", "zero", "few-words", "no-address", "long-line", "version", "length", "datagram", "command"])
def test_what_is_no_header(gateway, data):
    closes = gateway.watch_closes()
    with Device(gateway.address("proxied")) as device:
        device.send(data)
        assert device.expect_end()[1] == b""
        closes.expect("proxy_header")


def test_a_header_that_does_not_end(gateway):
    closes = gateway.watch_closes()
    with Device(gateway.address("hasty")) as device:
        device.send(LINE[:20])
        device.expect_end()
    with Device(gateway.address("hasty")) as device:
        device.expect_end()
        closes.expect("hello_timeout", 2)


def test_a_check_that_says_nothing(gateway):
    closes = gateway.watch_closes()
    Device(gateway.address("proxied")).close()
    closes.expect("peer_closed")
    with Device(gateway.address("proxied")) as device:
        device.send(LINE[:9])
        device.half_close()
        device.expect_end()
    closes.expect("peer_closed_in_frame")


def test_who_is_believed(gateway):
    closes = gateway.watch_closes()
    for source, believed in (("127.0.0.1", True), ("127.0.0.2", False), ("127.0.0.4", True), ("127.0.0.5", True),
                             ("127.0.0.6", False)):
        with Device(gateway.address("proxied"), source=source) as device:
            try:
                device.send(LINE + frame(b"x"))
            except OSError:
                assert not believed
            if believed:
                device.expect(ack(1))
            else:
                device.expect_end()
    closes.expect("proxy_source", 2)


def test_limits_count_the_client(gateway):
    closes = gateway.watch_closes()
    first = [Device(gateway.address("limited")) for _ in range(2)]
    for device in first:
        device.send(LINE + frame(b"x"))
        device.expect(ack(1))
    with Device(gateway.address("limited")) as device:
        device.send(LINE + frame(b"x"))
        device.expect_end()
        closes.expect("address_limit")
    with Device(gateway.address("limited")) as device:  # through the same proxy
        device.send(LINE.replace(b"192.0.2.1", b"192.0.2.9") + frame(b"x"))
        device.expect(ack(1))
    first.pop().close()
    until(lambda: len(gateway.conns()) == 1, "the place is free")
    with Device(gateway.address("limited")) as device:
        device.send(LINE + frame(b"x"))
        device.expect(ack(1))
    first.pop().close()


def test_mqtt_moves_with_its_address(gateway):
    devices = []
    for i in range(24):  # ids of both workers
        device = Device(gateway.address("mqtt"))
        device.send(binary(f"192.0.2.{i + 1}") + mqtt_connect(f"proxied-{i}") + PINGREQ)
        device.expect(CONNACK + PINGRESP)
        devices.append(device)
    seen = {c["client"]: (c["peer"], c["worker"]) for c in gateway.conns()}
    assert {k: v[0] for k, v in seen.items()} == {f"proxied-{i}": f"192.0.2.{i + 1}:4711" for i in range(24)}
    assert len({v[1] for v in seen.values()}) == 2
    for device in devices:
        device.close()


def test_before_websocket(gateway):
    with WebSocket(gateway.address("ws")) as device:
        device.send(LINE)
        device.open().connect_mqtt("ws-proxied")
        assert peers(gateway) == ["192.0.2.1:4711"]


def test_on_a_unix_socket_nobody_is_named(run_gateway, engine, tmp_path):
    path = str(tmp_path / "p.sock")
    gateway = run_gateway(engine, listeners={"unix": {"bind": f"unix:{path}", "mode": "ack", "proxy_protocol": True}})
    with Device(path) as device:
        device.send(LINE + frame(b"x"))
        device.expect(ack(1))
        assert peers(gateway) == ["192.0.2.1:4711"]
    assert os.path.exists(path)

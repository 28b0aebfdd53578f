# SPDX-License-Identifier: Apache-2.0
"""MQTT over WebSocket, byte by byte, on every engine: the handshake and what it refuses, frames cut anywhere, control
frames, each violation of RFC 6455 with its close code, and idle connections that own no buffer."""
import json
import os
import struct

import pytest
from conftest import shared_gateway
from harness.client import Device
from harness.wait import in_time, until
from harness.websocket import (BINARY, CLOSE, CONNACK, CONTINUATION, DISCONNECT, PING, PINGREQ, PINGRESP, PONG, TEXT, WebSocket,
                               frame, mqtt_connect, puback, publish, request, suback, subscribe)

WS = {"protocol": "mqtt", "transport": "websocket"}
LISTENERS = {
    "ws": WS,
    "hasty": {**WS, "hello_timeout": "600ms"},
    "tcp": {"protocol": "mqtt"},
    "listed": {**WS, "ws_path": "/other", "ws_origins": ["https://app.example"]},
    "small": {**WS, "ws_max_frame": "1k"},
}
gateway_process, gateway = shared_gateway(workers=2, listeners=LISTENERS)


def ws(gateway, listener="ws", **more):
    return WebSocket(gateway.address(listener), **more)


def ids(name, count=4):
    """Client ids of which some belong to the other worker, so that connections move."""
    return [f"{name}-{i}" for i in range(count)]


# --- the handshake ---

@pytest.mark.parametrize("fields, status", [
    ({"path": "/"}, 404), ({"path": "/mqtt/x"}, 404), ({"Upgrade": None}, 426), ({"Connection": None}, 426),
    ({"Sec_WebSocket_Version": "8"}, 426), ({"Sec_WebSocket_Version": None}, 426), ({"Sec_WebSocket_Key": None}, 400),
    ({"Sec_WebSocket_Key": "c2hvcnQ="}, 400), ({"Sec_WebSocket_Protocol": None}, 400), ({"protocol": "chat"}, 400),
    ({"Host": None}, 400), ({"Content_Length": "3"}, 400), ({"Origin": "https://evil.example"}, 403),
])
def test_requests_that_are_refused(gateway, fields, status):
    closes = gateway.watch_closes()
    reason = "websocket_origin" if status == 403 else "websocket_handshake"
    with ws(gateway) as device:
        device.send(request(**fields))
        got, answer = device.answer()
        assert got == status
        if status == 426:
            assert answer["Sec-WebSocket-Version"] == "13" and answer["Upgrade"] == "websocket"
        body = device.expect_end()[1]
        assert body and int(answer["Content-Length"]) == len(body)
        closes.expect(reason)


def test_a_request_in_single_bytes(gateway):
    with ws(gateway) as device:
        for byte in request(key="dGhlIHNhbXBsZSBub25jZQ=="):
            device.send(bytes([byte]))
        device.expect(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                      b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n")
        device.stream = b""
        device.connect_mqtt("slowly")


def test_frames_right_behind_the_request(gateway):
    with ws(gateway) as device:
        device.send(request() + frame(mqtt_connect("eager")) + frame(PINGREQ))
        assert device.answer()[0] == 101
        device.stream = b""
        device.expect_packet(CONNACK + PINGRESP)


def test_a_request_that_does_not_end(gateway):
    closes = gateway.watch_closes()
    with ws(gateway, "hasty") as device:
        device.send(b"GET /mqtt HTTP/1.1\r\nHost: a\r\n")
        device.expect_end()
        closes.expect("hello_timeout")


def test_an_upgrade_without_a_connect(gateway):
    def attempt(pace):
        closes = gateway.watch_closes()
        with ws(gateway, "hasty").open() as device:
            pace.end()  # the request was in time
            device.expect_close(1008)
            device.expect_end()
            closes.expect("hello_timeout")
    in_time(attempt, 0.5)


def test_header_fields_without_end(gateway):
    with ws(gateway) as device:
        device.send(b"GET /mqtt HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 9000)
        assert device.answer()[0] == 431


def test_plain_mqtt_is_refused(gateway):
    closes = gateway.watch_closes()
    with ws(gateway) as device:
        device.send(mqtt_connect("plain"))
        assert device.answer()[0] == 400
        closes.expect("websocket_handshake")


def test_origins(gateway):
    for fields in ({"Origin": "http://gateway"}, {}):
        with ws(gateway) as device:
            # The listener is on loopback: a page must have been loaded from this machine too.
            device.send(request(**fields))
            assert device.answer()[0] == (403 if fields else 101)
    for origin in ("http://127.0.0.1:3000", "http://localhost"):
        host = origin.split("//")[1].split(":")[0]
        ws(gateway).open(Origin=origin, Host=f"{host}:8083").close()
    ws(gateway, "listed").open(path="/other", Origin="https://app.example").close()
    with ws(gateway, "listed") as device:
        device.send(request("/other", Origin="http://gateway"))
        assert device.answer()[0] == 403


# --- frames and packets ---

def test_packets_and_frames_are_not_aligned(gateway):
    for ident in ids("unaligned"):
        packets = (mqtt_connect(ident) + subscribe(1, f"t/{ident}", 1) + publish(f"t/{ident}", b"payload" * 40, 1, 2) +
                   PINGREQ)
        with ws(gateway).open() as device:
            for i in range(0, len(packets), 7):  # packets over frames
                device.send(frame(packets[i:i + 7]))
            device.expect_packet(CONNACK + suback(1, 1))
            got = device.recv_stream(len(publish(f"t/{ident}", b"payload" * 40, 1, 1)) + 4 + 2)
            assert sorted(got) == sorted(publish(f"t/{ident}", b"payload" * 40, 1, 1) + puback(2) + PINGRESP)
        with ws(gateway).open() as device:
            device.send(frame(mqtt_connect(ident) + PINGREQ * 50))  # packets in a frame
            device.expect_packet(CONNACK + PINGRESP * 50)


def test_every_byte_by_itself(gateway):
    for ident in ids("bytewise"):
        data = (frame(mqtt_connect(ident)) + frame(b"", PING) + frame(b"pp", PING) + frame(PINGREQ[:1], final=False) +
                frame(b"mid", PING) + frame(PINGREQ[1:], CONTINUATION))
        with ws(gateway).open() as device:
            for byte in data:
                device.send(bytes([byte]))
            stream, pongs = b"", []  # a pong may overtake what waits to be flushed
            while len(stream) < len(CONNACK + PINGRESP) or len(pongs) < 3:
                opcode, payload = device.recv_ws()
                if opcode == PONG:
                    pongs.append(payload)
                else:
                    stream += payload
            assert (stream, pongs) == (CONNACK + PINGRESP, [b"", b"pp", b"mid"])


def test_a_header_over_two_reads(gateway):
    with ws(gateway).open() as device:
        device.connect_mqtt("header")
        payload = publish("x", b"y" * 300)
        data = frame(payload + PINGREQ)
        for cut in range(1, 9):
            device.send(data[:cut])
            until(lambda: gateway.conn_of(device)["bytes_in"] > 0, "bytes have come")
            device.send(data[cut:])
            device.expect_packet(PINGRESP)


def test_empty_messages(gateway):
    with ws(gateway).open() as device:
        device.send(frame(b"") + frame(mqtt_connect("empty")) + frame(b"") + frame(b"", final=False) +
                    frame(PINGREQ, CONTINUATION, final=False) + frame(b"", CONTINUATION))
        device.expect_packet(CONNACK + PINGRESP)


def test_large_messages_both_ways(gateway):
    payload = os.urandom(300_000)
    with ws(gateway).open() as sub, ws(gateway).open() as pub:
        sub.connect_mqtt("large-sub").send(frame(subscribe(1, "large")))
        sub.expect_packet(suback(1))
        pub.connect_mqtt("large-pub").send(frame(publish("large", payload)))
        sub.expect_packet(publish("large", payload))
        data = publish("large", payload)
        pub.send(b"".join(frame(data[i:i + 50_000], CONTINUATION if i else BINARY, i + 50_000 >= len(data))
                          for i in range(0, len(data), 50_000)))
        sub.expect_packet(publish("large", payload))


def test_between_websocket_and_tcp(gateway):
    with ws(gateway).open() as a, Device(gateway.address("tcp")) as b:
        a.connect_mqtt("over-ws").send(frame(subscribe(1, "to/ws")))
        a.expect_packet(suback(1))
        b.send(mqtt_connect("over-tcp") + subscribe(1, "to/tcp"))
        b.expect(CONNACK + suback(1))
        for size in (0, 1, 120, 126, 600, 5000, 70_000):
            b.send(publish("to/ws", b"x" * size))
            a.expect_packet(publish("to/ws", b"x" * size))
            a.send(frame(publish("to/tcp", b"y" * size)))
            b.expect(publish("to/tcp", b"y" * size))


def test_a_slow_reader_gets_everything(gateway):
    count, payload = 200, b"z" * 2000
    with ws(gateway, rcvbuf=4096).open() as sub, Device(gateway.address("tcp")) as pub:
        sub.connect_mqtt("slow-ws").send(frame(subscribe(1, "slow", 1)))
        sub.expect_packet(suback(1, 1))
        pub.send(mqtt_connect("slow-pub"))
        pub.expect(CONNACK)
        for i in range(count):
            pub.send(publish("slow", payload + struct.pack(">I", i), 1, i + 1))
            pub.expect(puback(i + 1))
        for i in range(count):
            sub.expect_packet(publish("slow", payload + struct.pack(">I", i), 1, i % 65535 + 1))
            sub.send(frame(puback(i % 65535 + 1)))


# --- control frames and the end ---

def test_pings(gateway):
    with ws(gateway).open() as device:
        device.connect_mqtt("ping")
        for payload in (b"", b"x", bytes(range(125))):
            device.send(frame(payload, PING) + frame(payload, PONG))
            assert device.recv_ws() == (PONG, payload)


@pytest.mark.parametrize("payload, code", [(b"", 1000), (b"\x03\xe8", 1000), (b"\x03\xe9going", 1001), (b"\x0f\xa0", 4000)])
def test_the_client_closes(gateway, payload, code):
    closes = gateway.watch_closes()
    with ws(gateway).open() as device:
        device.connect_mqtt("closes").send(frame(PINGREQ) + frame(payload, CLOSE) + frame(PINGREQ) + b"\xff\xff")
        device.expect_packet(PINGRESP)
        device.expect_close(code)
        device.expect_end()
        closes.expect("peer_closed")


def test_disconnect_is_answered_with_a_close(gateway):
    with ws(gateway).open() as device:
        device.connect_mqtt("goes").send(frame(DISCONNECT))
        device.expect_close(1000)
        device.expect_end()


@pytest.mark.parametrize("data, code", [
    (frame(PINGREQ, mask=None), 1002), (frame(PINGREQ, reserved=0x40), 1002), (frame(PINGREQ, reserved=0x20), 1002),
    (frame(PINGREQ, reserved=0x10), 1002), (frame(b"", 3), 1002), (frame(b"", 7), 1002), (frame(b"", 11), 1002),
    (frame(b"", 15), 1002), (frame(b"x" * 126, PING), 1002), (frame(b"x", PING, final=False), 1002),
    (frame(b"", CLOSE, final=False), 1002), (frame(PINGREQ, CONTINUATION), 1002),
    (frame(PINGREQ[:1], final=False) + frame(PINGREQ), 1002), (frame(PINGREQ, length_form=2), 1002),
    (frame(PINGREQ, length_form=8), 1002), (frame(b"hello", TEXT), 1003), (frame(b"\x03", CLOSE), 1002),
    (frame(b"\x03\xed", CLOSE), 1002), (frame(b"\x03\xe7", CLOSE), 1002), (frame(b"\x13\x88", CLOSE), 1002),
    (frame(b"\x03\xe8\xff\xfe", CLOSE), 1007), (b"\x82\xff\xff" + b"\0" * 7 + b"mask", 1002),
    (b"\x82\xff" + struct.pack(">Q", 1 << 30) + b"mask", 1009),
])
def test_violations(gateway, data, code):
    closes = gateway.watch_closes()
    with ws(gateway).open() as device:
        device.connect_mqtt("wrong").send(frame(PINGREQ) + data)
        device.expect_packet(PINGRESP)  # what was right before is answered
        device.expect_close(code)
        device.expect_end()
        closes.expect("websocket_protocol")


def test_the_largest_frame(gateway):
    with ws(gateway, "small").open() as device:
        device.connect_mqtt("small").send(frame(publish("x", b"y" * 1000) + PINGREQ))
        device.expect_packet(PINGRESP)
        device.send(frame(b"z" * 1025))
        device.expect_close(1009)


def test_malformed_mqtt_ends_with_its_code(gateway):
    closes = gateway.watch_closes()
    with ws(gateway).open() as device:
        device.connect_mqtt("malformed").send(frame(b"\xf0\0"))
        device.expect_close(1002)
        device.expect_end()
        closes.expect("protocol_error")


def test_an_end_within_a_packet(gateway):
    closes = gateway.watch_closes()
    with ws(gateway).open() as device:
        device.connect_mqtt("half").send(frame(publish("x", b"y" * 10)[:5]) + frame(b"", CLOSE))
        device.expect_close(1000)
        closes.expect("peer_closed_in_frame")


def test_a_reset(gateway):
    closes = gateway.watch_closes()
    device = ws(gateway).open().connect_mqtt("reset")
    device.reset()
    until(lambda: closes.deltas(), "the close is counted")
    assert set(closes.deltas()) <= {"peer_reset", "peer_closed"}


def test_pings_that_nobody_reads_are_bounded(gateway):
    closes = gateway.watch_closes()
    with ws(gateway, rcvbuf=4096).open() as device:
        device.connect_mqtt("flood")
        flood = frame(b"p" * 125, PING) * 4000
        try:
            for _ in range(64):
                device.send(flood)
        except OSError:
            pass
        closes.expect("slow_consumer")


# --- the process ---

def test_the_drain_says_going_away(run_gateway, engine):
    gateway = run_gateway(engine, workers=2, listeners=LISTENERS)
    with ws(gateway).open() as device:
        device.connect_mqtt("drained")
        gateway.signal(15)
        device.expect_close(1001)
        device.expect_end()
    assert gateway.wait_exit() == 0


def test_keep_alive_counts_packets(run_gateway, engine):
    """WebSocket pings are no sign of life of the MQTT client."""
    gateway = run_gateway(engine, listeners=LISTENERS)
    with ws(gateway).open() as device:
        device.send(frame(mqtt_connect("sleepy", keep_alive=1)))
        device.expect_packet(CONNACK)
        closes = gateway.watch_closes()

        def pinged():
            try:
                device.send(frame(b"", PING))
            except OSError:
                pass
            return closes.delta("idle_timeout")
        until(pinged, "the client is taken for dead")


def test_idle_connections_own_no_buffer(run_gateway, engine):
    gateway = run_gateway(engine, workers=1, listeners=LISTENERS)

    def used():
        return {s["name"]: s["used_bytes"] for s in gateway.status()["workers"][0]["slabs"]}
    before, count, devices = used(), 64, []
    for i in range(count):
        devices.append(ws(gateway).open().connect_mqtt(f"idle-{i}"))
    for device in devices:
        device.send(frame(PINGREQ) + frame(b"x", PING))
        assert sorted([device.recv_ws(), device.recv_ws()]) == [(BINARY, PINGRESP), (PONG, b"x")]
    # One block of 256 bytes each: the layer's state.
    until(lambda: used()["buf_256"] - before["buf_256"] <= 256 * count, lambda: f"{before} {used()}")
    assert all(used()[name] == before[name] for name in ("buf_1k", "buf_4k", "buf_16k")), (before, used())
    for device in devices:
        device.close()


def test_moved_connections_are_counted(gateway):
    opened, moved = gateway.metric("sluice_websocket_upgrades_total"), gateway.metric("sluice_conns_moved_in_total")
    devices = [ws(gateway).open().connect_mqtt(ident) for ident in ids("mover", 24)]
    assert gateway.metric("sluice_websocket_upgrades_total") - opened == 24
    assert gateway.metric("sluice_conns_moved_in_total") > moved
    names = {c["client"]: c["worker"] for c in gateway.conns()}
    assert len({names[f"mover-{i}"] for i in range(24)}) == 2, json.dumps(names)
    for device in devices:
        device.close()

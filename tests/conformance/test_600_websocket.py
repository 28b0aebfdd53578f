# SPDX-License-Identifier: Apache-2.0
"""MQTT over WebSocket (5.0 and 3.1.1, section 6): what the transport asks of the broker. The frames themselves are
tested in tests/blackbox/test_320_websocket.py."""
import pytest
from harness.websocket import BINARY, TEXT, WebSocket, frame, request
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V311

both = pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])
PINGREQ, PINGRESP = b"\xc0\0", b"\xd0\0"


def connected(broker, v, name):
    device = WebSocket(broker.address("ws")).open()
    device.send(frame(wire.connect(v, broker.name(name))))
    assert device.recv_stream(2)[0] >> 4 == wire.CONNACK
    return device


@shows(v5="6.0.0-1", v3="6.0.0-1")
@both
def test_packets_come_in_binary_frames_and_other_frames_end_the_connection(broker, v):
    with connected(broker, v, "binary") as device:
        device.stream = b""
        device.send(frame(PINGREQ))
        while True:  # the rest of the CONNACK may be in a frame of its own
            opcode, payload = device.recv_ws()
            assert opcode == BINARY
            if payload.endswith(PINGRESP):
                break
        device.send(frame(PINGREQ, TEXT))
        device.expect_close(1003)
        device.expect_end()


@shows(v5="6.0.0-2", v3="6.0.0-2")
@both
def test_packets_and_frames_are_not_aligned(broker, v):
    data = wire.connect(v, broker.name("cut")) + PINGREQ * 3
    for size in (1, 3, len(data) - 1, len(data)):
        with WebSocket(broker.address("ws")).open() as device:
            for at in range(0, len(data), size):
                device.send(frame(data[at:at + size]))
            stream = b""
            while not stream.endswith(PINGRESP * 3):
                stream += device.recv_ws()[1]
            assert stream[0] >> 4 == wire.CONNACK


@shows(v5="6.0.0-4", v3="6.0.0-4")
def test_the_subprotocol_mqtt_is_selected(broker):
    for offered in ("mqtt", "chat, mqtt", "mqttv3.1, mqtt"):
        with WebSocket(broker.address("ws")) as device:
            device.send(request(protocol=offered))
            status, fields = device.answer()
            assert (status, fields["Sec-WebSocket-Protocol"]) == (101, "mqtt")

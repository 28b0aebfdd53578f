# SPDX-License-Identifier: Apache-2.0
"""Peers that say too little: slow headers, frames never finished, silence, no hello. The gateway's clocks run
at the same time for all of them, so one wait serves."""
from conftest import shared_gateway
from harness.client import HEARTBEAT, Device, ack, frame, hello
from harness.wait import holds, in_time

LISTENERS = {
    # Bounds far apart, so that a wrong clock shows as a wrong reason.
    "packet": {"mode": "ack", "packet_timeout": "400ms", "idle_timeout": "60s"},
    "idle": {"mode": "ack", "idle_timeout": "500ms", "packet_timeout": "60s"},
    "hello": {"mode": "publish", "hello_timeout": "400ms", "idle_timeout": "60s"},
    "never": {"mode": "ack", "idle_timeout": "never", "packet_timeout": "never"},
}
gateway_process, gateway = shared_gateway(listeners=LISTENERS, workers=1)


def feed_until_end(device, data, pause=0.1):
    """Sends a byte now and then until the gateway ends the connection."""
    for i in range(len(data)):
        try:
            device.send(data[i:i + 1])
        except (BrokenPipeError, ConnectionResetError):
            return
        if not device.is_quiet(pause):
            device.expect_end()
            return
    raise AssertionError("the connection outlived its bytes")


def test_slow_header(gateway):
    """Each byte is activity, but the frame's own clock runs from its first byte."""
    watch = gateway.watch_closes()
    with Device(gateway.address("packet")) as device:
        feed_until_end(device, frame(b"x" * 500), pause=0.05)
    watch.expect("packet_timeout")


def test_frame_never_finished(gateway):
    watch = gateway.watch_closes()
    pieces = [b"\0", b"\0\0\0", b"\0\0\0\x09", b"\0\0\0\x09missing"]
    devices = [Device(gateway.address("packet")) for _ in pieces]
    for device, piece in zip(devices, pieces):
        device.send(frame(b"whole") + piece)
        device.expect(ack(1))
    for device in devices:
        device.expect_end()
        device.close()
    watch.expect("packet_timeout", len(pieces))


def test_packet_clock_stops_with_the_frame(gateway):
    """Frames that are finished in time, one after the other, for longer than packet_timeout."""
    def attempt(pace):
        with Device(gateway.address("packet")) as device:
            for number in range(1, 8):
                device.send(frame(b"slow but done")[:6])
                assert device.is_quiet(0.1)
                device.send(frame(b"slow but done")[6:])
                pace()
                assert device.recv_ack() == number
    in_time(attempt, 0.35)


def test_idle(gateway):
    """Who is silent goes, while one that sends heartbeats is served; it goes when it is silent too."""
    def attempt(pace):
        watch = gateway.watch_closes()
        with Device(gateway.address("idle")) as silent, Device(gateway.address("idle")) as talker:
            for _ in range(100):
                talker.send(HEARTBEAT)
                pace()
                talker.expect(HEARTBEAT)
                if not silent.is_quiet(0.12):
                    break
            silent.expect_end()
            talker.send(frame(b"alive"))
            pace.end()
            talker.expect(ack(1))
            talker.expect_end()
        watch.expect("idle_timeout", 2)
    in_time(attempt, 0.45)


def test_hello_timeout(gateway):
    watch = gateway.watch_closes()
    silent, beating, partial = (Device(gateway.address("hello")) for _ in range(3))
    with silent, beating, partial:
        partial.send(b"\0\0\0\x10{")
        while True:  # heartbeats are no hello
            try:
                beating.send(HEARTBEAT)
                beating.expect(HEARTBEAT)
            except (AssertionError, OSError):
                break
        silent.expect_end()
        partial.expect_end()
    watch.expect("hello_timeout", 3)


def test_hello_clock_stops_with_the_hello(gateway):
    def attempt(pace):
        with Device(gateway.address("hello")) as device:
            device.send(hello("patient"))
            pace.end()
            device.expect(ack(0))
            assert device.is_quiet(0.7)
            device.send(frame(b"after"))
            assert device.recv_ack() == 1
    in_time(attempt, 0.35)


def test_zero_means_never(gateway):
    with Device(gateway.address("never")) as device:
        device.send(b"\0\0")
        assert device.is_quiet(0.8)
        device.send(frame(b"late")[2:])
        device.expect(ack(1))


def test_timeouts_are_kept_under_many_connections(gateway):
    """Two hundred idle connections all go, each once."""
    watch = gateway.watch_closes()
    devices = [Device(gateway.address("idle")) for _ in range(200)]
    for device in devices:
        device.expect_end()
        device.close()
    watch.expect("idle_timeout", 200)
    holds(lambda: watch.delta("idle_timeout") == 200, "no connection is closed twice", 0.1)

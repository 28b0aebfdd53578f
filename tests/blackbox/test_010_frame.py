# SPDX-License-Identifier: Apache-2.0
"""The frame protocol on a connection that behaves: framing at every byte boundary, sizes, numbers, heartbeats,
and how a connection ends."""
import threading

import pytest

from conftest import shared_gateway
from harness import scenarios
from harness.client import HEARTBEAT, Device, ack, frame

gateway_process, gateway = shared_gateway(listeners=scenarios.LISTENERS, workers=1)


def test_split_at_every_byte(gateway):
    scenarios.split_everywhere(gateway)


def test_byte_by_byte(gateway):
    scenarios.byte_by_byte(gateway)


def test_coalesced(gateway):
    scenarios.coalesced(gateway)


def test_coalesced_echo_keeps_order_and_bytes(gateway):
    with Device(gateway.address("echo")) as device:
        stream = b"".join(frame(bytes([i & 0xFF]) * (i % 700)) for i in range(1, 1500))
        sender = threading.Thread(target=device.send, args=(stream,))
        sender.start()
        device.expect(stream)
        sender.join()


def test_zero_length_is_a_heartbeat(gateway):
    for listener in ("echo", "ack", "devices"):
        with Device(gateway.address(listener)) as device:
            if listener == "devices":
                device.say_hello("heart")
            device.send(HEARTBEAT * 3)
            device.expect(HEARTBEAT * 3)


def test_heartbeat_before_hello(gateway):
    """A heartbeat is answered in any state; it is no hello."""
    with Device(gateway.address("devices")) as device:
        device.send(HEARTBEAT)
        device.expect(HEARTBEAT)
        device.say_hello("late")


def test_heartbeats_between_frames(gateway):
    with Device(gateway.address("ack")) as device:
        device.send((frame(b"a") + HEARTBEAT) * 20)
        device.expect(b"".join(ack(i + 1) + HEARTBEAT for i in range(20)))


def test_heartbeat_header_in_pieces(gateway):
    with Device(gateway.address("ack")) as device:
        for piece in (b"\0", b"\0\0", b"\0\0", b"\0\0\0"):
            device.send(piece)
        device.expect(HEARTBEAT * 2)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 251, 252, 253, 1023, 1024])
def test_sizes_up_to_max_frame(gateway, size):
    with Device(gateway.address("ack")) as device:
        device.send(frame(b"s" * size) * 3)
        device.expect(ack(1) + ack(2) + ack(3))


def test_sizes_around_receive_buffers(gateway):
    """Payloads whose frame ends just before, at, and just behind a buffer of 4 KiB, 16 KiB, 64 KiB."""
    with Device(gateway.address("echo")) as device:
        for size in (4096, 8192, 16384, 32768, 65536):
            for delta in (-9, -8, -5, -4, -3, -1, 0):
                data = frame(bytes([delta & 0xFF]) * (size + delta))
                sender = threading.Thread(target=device.send, args=(data,))
                sender.start()
                device.expect(data)
                sender.join()


def test_ack_numbers_count_from_one_per_connection(gateway):
    with Device(gateway.address("ack")) as one, Device(gateway.address("ack")) as two:
        for number in range(1, 301):
            one.send(frame(b"one"))
            assert one.recv_ack() == number
            if number % 3 == 0:
                two.send(frame(b"two"))
                assert two.recv_ack() == number // 3


def test_oversize_closes_before_the_payload(gateway):
    scenarios.oversize(gateway)


def test_oversize_header_in_pieces(gateway):
    watch = gateway.watch_closes()
    with Device(gateway.address("ack")) as device:
        device.send(b"\x00\x00\x04")
        assert device.is_quiet(0.05)
        device.send(b"\x01")
        device.expect_end()
    watch.expect("frame_too_large")


def test_frames_before_an_oversize_one_are_answered(gateway):
    """What came in order before the mistake was accepted, so its acks go out before the end."""
    with Device(gateway.address("ack")) as device:
        device.send(frame(b"good") * 2 + b"\xff\xff\xff\xff" + b"never read")
        device.expect(ack(1) + ack(2))
        device.expect_end()


def test_large_frames(gateway):
    scenarios.large_frames(gateway)


def test_large_frame_in_many_pieces(gateway):
    payload = bytes(range(256)) * 4096
    with Device(gateway.address("big")) as device:
        data = frame(payload)

        def trickle():
            step = 7919
            for at in range(0, len(data), step):
                device.send(data[at:at + step])
        sender = threading.Thread(target=trickle)
        sender.start()
        assert device.recv_frame() == payload
        sender.join()


def test_half_close_still_gets_replies(gateway):
    """shutdown(WR) ends what the peer says, not what it hears."""
    watch = gateway.watch_closes()
    for count, size in ((1, 1), (50, 200), (400, 1000)):
        with Device(gateway.address("echo")) as device:
            data = b"".join(frame(bytes([i & 0xFF]) * size) for i in range(count))
            sender = threading.Thread(target=lambda d=device, b=data: (d.send(b), d.half_close()))
            sender.start()
            device.expect(data)
            sender.join()
            how, rest = device.expect_end()
            assert (how, rest) == ("eof", b"")
    watch.expect("peer_closed", 3)


def test_half_close_with_slow_reading(gateway):
    """The end of the peer's stream comes while replies still wait for room in its socket."""
    with Device(gateway.address("echo"), rcvbuf=4096) as device:
        data = frame(b"w" * 1000) * 250
        sender = threading.Thread(target=lambda: (device.send(data), device.half_close()))
        sender.start()
        got = b""
        while len(got) < len(data):
            got += device.recv_exact(min(5000, len(data) - len(got)))
        sender.join()
        assert got == data
        assert device.expect_end() == ("eof", b"")


def test_half_close_at_once(gateway):
    watch = gateway.watch_closes()
    with Device(gateway.address("echo")) as device:
        device.half_close()
        assert device.expect_end() == ("eof", b"")
    watch.expect("peer_closed")


@pytest.mark.parametrize("part", [b"\0", b"\0\0\0", b"\0\0\0\x05", b"\0\0\0\x05half"])
def test_end_within_a_frame(gateway, part):
    watch = gateway.watch_closes()
    with Device(gateway.address("echo")) as device:
        device.send(frame(b"whole") + part)
        device.half_close()
        device.expect(frame(b"whole"))
        device.expect_end()
    watch.expect("peer_closed_in_frame")


def test_resets(gateway):
    scenarios.resets(gateway)


def test_reset_in_the_middle_of_a_large_write(gateway):
    """The peer resets while its unread replies fill both sockets."""
    watch = gateway.watch_closes()
    for _ in range(5):
        device = Device(gateway.address("big"), rcvbuf=4096)
        data = frame(b"r" * 100_000) * 10
        sent = 0
        while True:
            more = device.send_some(data[sent:])
            if more == 0 and device.is_quiet(0) is False:
                break
            sent += more
            if sent == len(data):
                break
        device.reset()
    watch.expect("peer_reset", 5)


def test_many_connections_interleaved(gateway):
    devices = [Device(gateway.address("ack")) for _ in range(100)]
    try:
        for number in range(1, 11):
            for device in devices:
                device.send(frame(b"interleaved")[:7])
            for device in reversed(devices):
                device.send(frame(b"interleaved")[7:])
            for device in devices:
                assert device.recv_ack() == number
    finally:
        for device in devices:
            device.close()

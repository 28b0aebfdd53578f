# SPDX-License-Identifier: Apache-2.0
"""Peers that do not read. Their bytes wait in bounded memory, reading from them pauses, nobody else
notices, and after send_timeout they go as slow_consumer."""
import threading

from conftest import shared_gateway
from harness import proc, scenarios
from harness.client import Device, Ended, ack, frame
from harness.wait import in_time, until

OUT_MAX, OUT_HIGH = 128 << 10, 32 << 10
BUDGET = {"out_max": "128k", "out_high": "32k", "sndbuf": "32k"}
LISTENERS = {
    "stuck": {"mode": "echo", "send_timeout": "1s", **BUDGET},
    "patient": {"mode": "echo", "send_timeout": "60s", **BUDGET},
    "ack": {"mode": "ack", "send_timeout": "60s", **BUDGET},
    "echo": {"mode": "echo"},
    "devices": {"mode": "publish", "send_timeout": "60s", **BUDGET},
    "monitor": {"mode": "publish", "down_topic": "devices/+/up", "send_timeout": "60s", **BUDGET},
}
gateway_process, gateway = shared_gateway(listeners=LISTENERS, workers=1)
FLOOD = frame(b"f" * 4092)


def top_up(device):
    """Sends what fits now, from where it stopped before. Returns how much that was."""
    device.sent = getattr(device, "sent", 0)
    more = device.send_some(FLOOD[device.sent % len(FLOOD):] + FLOOD * 7)
    device.sent += more
    return more


def fill(gateway, *devices):
    """Sends until reading of all of them is paused, or they were ended for it. (A gateway that gets no CPU for a
    while has not paused yet, so a socket that takes nothing proves nothing.)"""
    peers = {device.peer_text for device in devices}

    def all_are_paused():
        for device in devices:
            try:
                top_up(device)
            except OSError:
                pass
        return all(c["state"] == "paused" for c in gateway.conns() if c["peer"] in peers)
    until(all_are_paused, lambda: f"all are paused: {[c['state'] for c in gateway.conns()]}")


def test_reader_that_never_reads_is_paused_and_bounded(gateway):
    """Twenty floods at once: each may hold its output budget and no more."""
    count = 20
    rss_before = proc.rss_bytes(gateway.pid)
    pauses_before = gateway.metric("sluice_recv_pauses_total")
    devices = [Device(gateway.address("patient"), rcvbuf=4096, sndbuf=16384) for _ in range(count)]
    try:
        fill(gateway, *devices)
        assert gateway.metric("sluice_recv_pauses_total") >= pauses_before + count
        grown = proc.rss_bytes(gateway.pid) - rss_before
        # Output budget, and as much again for input kept, per connection; 2 MiB for all the rest.
        assert grown <= count * 2 * OUT_MAX + (2 << 20), f"grew by {grown} bytes"
        for entry in gateway.conns():
            assert entry["out_bytes"] <= OUT_MAX, entry
        with Device(gateway.address("echo")) as other:
            for i in range(200):
                other.send(frame(b"other %d" % i))
                other.expect(frame(b"other %d" % i))
    finally:
        for device in devices:
            device.reset()


def test_paused_peer_resumes_without_loss(gateway):
    for _ in range(3):
        with Device(gateway.address("patient"), rcvbuf=4096) as device:
            fill(gateway, device)
            whole = -(-device.sent // len(FLOOD))
            rest = FLOOD[device.sent % len(FLOOD):] if device.sent % len(FLOOD) else b""
            sender = threading.Thread(target=device.send, args=(rest + FLOOD,))
            sender.start()
            for _ in range(whole + 1):
                device.expect(FLOOD)
            sender.join()


def test_paused_at_every_place(gateway):
    """Frames of many sizes, a reader of odd pieces: the pause falls at any byte, the order holds."""
    stream = b"".join(frame(bytes([i % 256]) * ((i * 7919) % 3000 + 1)) for i in range(1200))
    with Device(gateway.address("patient"), rcvbuf=4096) as device:
        sender = threading.Thread(target=device.send, args=(stream,))
        sender.start()
        at, step = 0, 1
        while at < len(stream):
            piece = device.recv_exact(min(step, len(stream) - at))
            assert piece == stream[at:at + len(piece)], f"differs near byte {at}"
            at += len(piece)
            step = step * 3 % 10007 + 1
        sender.join()


def test_acks_of_a_reader_that_never_reads(gateway):
    """Tiny replies to tiny frames pause as well, and all numbers come in the end."""
    with Device(gateway.address("ack"), rcvbuf=4096, sndbuf=16384) as device:
        block = frame(b"t") * 1000
        taken = 0

        def is_paused():
            nonlocal taken
            taken += device.send_some(block[taken % 5:])
            return gateway.conn_of(device)["state"] == "paused"
        until(is_paused, lambda: f"reading is paused; {taken} bytes were taken")
        sender = threading.Thread(
            target=lambda: (device.send(block[taken % 5:5] if taken % 5 else b""), device.half_close()))
        sender.start()
        total = -(-taken // 5)
        for start in range(1, total + 1, 1000):
            stop = min(start + 1000, total + 1)
            device.expect(b"".join(ack(i) for i in range(start, stop)))
        sender.join()
        assert device.expect_end() == ("eof", b"")


def test_slow_consumer_is_closed(gateway):
    watch = gateway.watch_closes()
    devices = [Device(gateway.address("stuck"), rcvbuf=4096) for _ in range(3)]
    fill(gateway, *devices)
    watch.expect("slow_consumer", 3)
    for device in devices:
        try:
            device.expect_end()
        finally:
            device.close()


def test_slow_but_steady_consumer_is_kept(gateway):
    """send_timeout counts from the last byte taken, not from the first one queued."""
    def attempt(pace):
        with Device(gateway.address("stuck"), rcvbuf=4096) as device:
            fill(gateway, device)
            for _ in range(12):
                got = 0
                while got < 30_000:
                    top_up(device)
                    got += len(device.recv_exact(3000))
                    pace()
                threading.Event().wait(0.2)
            device.reset()
    in_time(attempt, 0.9)


def test_slow_subscriber_does_not_stop_publishers(gateway):
    """A monitor that reads nothing loses messages, counted, or is closed; the publisher's acks go on."""
    dropped = gateway.metric("sluice_delivery_dropped_total")
    watch = gateway.watch_closes()
    with Device(gateway.address("monitor"), rcvbuf=4096) as monitor, \
            Device(gateway.address("devices")) as device:
        monitor.say_hello("stalled")
        device.say_hello("fast")
        for start in range(0, 3000, 100):
            device.send(frame(b"m" * 1000) * 100)
            for number in range(start + 1, start + 101):
                assert device.recv_ack() == number
        lost = until(lambda: gateway.metric("sluice_delivery_dropped_total") - dropped
                     or watch.delta("slow_consumer"), "drops are counted")
        assert lost
        assert proc.rss_bytes(gateway.pid) < 512 << 20
        # What did arrive is whole and in order of whole frames.
        monitor.sock.settimeout(0.5)
        heard = 0
        try:
            while True:
                assert monitor.recv_frame() == b"m" * 1000
                heard += 1
        except (AssertionError, Ended, OSError):
            assert heard > 0


def test_sender_of_half_frames_holds_bounded_memory(gateway):
    """Many peers that each leave a large frame unfinished hold what they sent, and give it back."""
    rss_before = proc.rss_bytes(gateway.pid)
    devices = [Device(gateway.address("echo")) for _ in range(50)]
    for device in devices:
        device.send(frame(b"h" * 65536)[:40000])
    until(lambda: all(c["bytes_in"] >= 40000 for c in gateway.conns()), "all is read")
    grown = proc.rss_bytes(gateway.pid) - rss_before
    assert grown <= 50 * (68 << 10) + (4 << 20), f"grew by {grown} bytes"
    for device in devices:
        device.close()


__all__ = ["scenarios", "OUT_HIGH"]

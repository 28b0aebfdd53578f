# SPDX-License-Identifier: Apache-2.0
"""Scenarios that are run on more than one kind of binary: on every engine by the numbered tests, and once
more under the sanitizers and on arm64. Each takes a running gateway with the listeners of LISTENERS."""
import json
import threading

from .client import HEARTBEAT, Device, Ended, ack, frame, hello
from .wait import GUARD_S, until

# Who only reads for a while does so as fast as the machine lets it: over a minute in a guest.
SILENT = {"idle_timeout": "never"}
LISTENERS = {
    "echo": {"mode": "echo", "max_frame": "64k"},
    "ack": {"mode": "ack", "max_frame": "1k"},
    "big": {"mode": "echo", "max_frame": "2m", "out_max": "8m", "out_high": "4m"},
    "devices": {"mode": "publish", "max_frame": "64k", **SILENT},
    "monitor": {"mode": "publish", "down_topic": "devices/+/up", "up_topic": "monitors/%i/up", **SILENT},
    "peers": {"mode": "publish", "up_topic": "room/%i", "down_topic": "room/#", **SILENT},
    "guarded": {"mode": "publish", "token": "s3cret", "anonymous": False},
    "impatient": {"mode": "ack", "idle_timeout": "600ms", "packet_timeout": "300ms"},
    "curt": {"mode": "publish", "hello_timeout": "300ms"},
}

THREE = [b"first frame", b"second, a longer frame " * 5, b"3"]


def split_everywhere(gateway):
    """A stream of three frames, cut in two at every byte position."""
    stream = b"".join(frame(p) for p in THREE)
    with Device(gateway.address("echo")) as device:
        for cut in range(1, len(stream)):
            device.send(stream[:cut])
            # What is whole must be answered before the rest comes.
            whole = 0
            for payload in THREE:
                if whole + 4 + len(payload) > cut:
                    break
                whole += 4 + len(payload)
            device.expect(stream[:whole])
            device.send(stream[cut:])
            device.expect(stream[whole:])


def byte_by_byte(gateway):
    stream = b"".join(frame(p) for p in THREE) + HEARTBEAT
    with Device(gateway.address("ack")) as device:
        for i in range(len(stream)):
            device.send(stream[i:i + 1])
        device.expect(ack(1) + ack(2) + ack(3) + HEARTBEAT)


def coalesced(gateway, count=2000):
    """Many frames in one piece; larger than any receive buffer."""
    with Device(gateway.address("ack")) as device:
        payloads = [bytes([i % 251]) * (i % 97 + 1) for i in range(count)]
        sender = threading.Thread(target=device.send, args=(b"".join(map(frame, payloads)),))
        sender.start()
        device.expect(b"".join(ack(i + 1) for i in range(count)))
        sender.join()


def oversize(gateway):
    """The header alone ends the connection: no byte of the payload is waited for."""
    watch = gateway.watch_closes()
    for length in (1025, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
        with Device(gateway.address("ack")) as device:
            device.send(frame(b"ok"))
            device.expect(ack(1))
            device.send(length.to_bytes(4, "big"))
            device.expect_end()
    watch.expect("frame_too_large", 5)


def large_frames(gateway, size=1 << 20, count=3):
    """Frames far beyond a receive buffer, sent while their replies are read."""
    with Device(gateway.address("big")) as device:
        payloads = [bytes((i + j * 7) & 0xFF for i in range(256)) * (size // 256)
                    for j in range(count)]
        sender = threading.Thread(target=lambda: [device.send(frame(p)) for p in payloads])
        sender.start()
        for payload in payloads:
            got = device.recv_frame()
            assert len(got) == len(payload) and got == payload, "payload changed on its way"
        sender.join()


def publish_in_order(gateway, count=1000, senders=("a1", "b2", "c3", "d4", "e5", "f6", "g7", "h8")):
    """Each of several devices publishes numbered messages; a wildcard monitor sees each one's in order."""
    with Device(gateway.address("monitor")) as monitor:
        monitor.say_hello("watcher")
        devices = [Device(gateway.address("devices")).say_hello(name) for name in senders]
        try:
            wait_route(monitor, devices[0])

            def run(device, name):
                device.send(b"".join(frame(f"{name}:{i}".encode()) for i in range(count)))
            threads = [threading.Thread(target=run, args=pair) for pair in zip(devices, senders)]
            for thread in threads:
                thread.start()
            heard = {name: 0 for name in senders}
            while any(n < count for n in heard.values()):
                name, number = monitor.recv_frame().decode().split(":")
                assert int(number) == heard[name], f"{name}: {number} after {heard[name] - 1}"
                heard[name] += 1
            for thread in threads:
                thread.join()
            for device, first in zip(devices, [device_acks(d) for d in devices]):
                for number in range(first, first + count):
                    assert device.recv_ack() == number
        finally:
            for device in devices:
                device.close()


def device_acks(device):
    """The number the next ack must have."""
    return getattr(device, "next_ack", 1)


def wait_route(monitor, device):
    """Publishes probes until the monitor hears one, and reads those that follow it: from then on it hears all."""
    device.next_ack = 1

    def heard():
        device.send(frame(b"probe %d" % device.next_ack))
        assert device.recv_ack() == device.next_ack
        device.next_ack += 1
        return not monitor.is_quiet(0.05)
    until(heard, "a publish reaches the monitor")
    last = b"probe %d" % (device.next_ack - 1)
    while monitor.recv_frame() != last:
        pass


def takeover(gateway):
    """A second connection with the same id ends the first, wherever it was accepted."""
    watch = gateway.watch_closes()
    first = Device(gateway.address("devices")).say_hello("twin")
    for number in range(4):
        second = Device(gateway.address("devices")).say_hello("twin")
        first.expect_end()
        first.close()
        second.send(frame(b"still here"))
        assert second.recv_ack() == 1
        first = second
        watch.expect("taken_over", number + 1)
    first.close()


def bad_hellos(gateway):
    watch, taken = gateway.watch_closes(), []
    for body in BAD_HELLOS:
        with Device(gateway.address("devices")) as device:
            device.send(frame(body))
            try:
                taken.append((body[:60], device.recv_frame()))
            except Ended:
                pass
    assert not taken, f"taken for a hello: {taken}"
    watch.expect("bad_hello", len(BAD_HELLOS))


def _json(value):
    return json.dumps(value).encode()


BAD_HELLOS = [
    b" ", b"x", b"{", b"{}", b"[]", b"null", b"true", b"1", b'"id"', b'{"id"}', b'{"id":}',
    b'{"id":"a"', b'{"id":"a"}x', b'{"id":"a"}{"id":"b"}', b'{"id":"a",}', b"{'id':'a'}",
    b'{"ID":"a"}', b'{"id":1}', b'{"id":null}', b'{"id":["a"]}', b'{"id":{"id":"a"}}',
    b'{"id":""}', _json({"id": "x" * 257}), _json({"id": "a/b"}), _json({"id": "a+b"}),
    _json({"id": "#"}), b'{"id":"a\\u0000b"}', b'{"id":"a\0b"}', b'{"id":"\xff\xfe"}',
    b'{"id":"\xc0\xaf"}', b'{"id":"\\ud800"}', b'{"id":"a","token":1}', b'{"id":"a","token":null}',
    _json({"id": "a", "token": "t" * 1025}), b'\xef\xbb\xbf{"id":"a"}', b"\0" * 64,
    b"[" * 2000, b'{"a":' * 800, _json({"id": "a", "pad": "p" * 4096}),
]


def resets(gateway, count=30):
    """Peers vanish with a reset at every stage: silent, in a header, in a frame, with replies under way."""
    stages = [b"", b"\0\0", frame(b"x" * 100)[:50], frame(b"y" * 1000) * 50]
    before = gateway.metrics().by("sluice_closes_total", "reason")
    for i in range(count):
        device = Device(gateway.address("echo"))
        device.send_some(stages[i % len(stages)])
        device.reset()
    gateway.expect_no_conns()
    after = gateway.metrics().by("sluice_closes_total", "reason")
    changed = {k for k in after if after[k] != before.get(k, 0)}
    # A connection reset while it still waits in the accept queue may be seen as either.
    assert changed <= {"peer_reset", "peer_closed", "peer_closed_in_frame"}, changed


class Load:
    """Devices that echo without a pause in threads until stop(); counts what came back."""

    def __init__(self, gateway, listener="echo", devices=4):
        self.running, self.echoed, self.problems = True, 0, []
        self.ended = 0
        self.threads = [threading.Thread(target=self._run, args=(gateway.address(listener),))
                        for _ in range(devices)]
        for thread in self.threads:
            thread.start()

    def _run(self, address):
        try:
            with Device(address) as device:
                number = 0
                while self.running:
                    payload = b"load %d" % number
                    device.send(frame(payload))
                    device.expect(frame(payload))
                    number += 1
                    self.echoed += 1
        except (Ended, OSError):
            self.ended += 1
        except AssertionError as e:
            self.problems.append(str(e))

    def wait_progress(self, more=200):
        target = self.echoed + more
        until(lambda: self.echoed >= target or self.problems or self.ended,
              lambda: f"load makes progress ({self.echoed} of {target})", GUARD_S * 4)

    def stop(self):
        self.running = False
        for thread in self.threads:
            thread.join()
        assert not self.problems, self.problems
        return self.ended


__all__ = ["hello"]

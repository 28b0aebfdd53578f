# SPDX-License-Identifier: Apache-2.0
"""uring, sends that cost no completion: the loop slept although the end of such a send was what the rest of the
queue, a close after the last reply, or a paused reader waited for; each step then took until the next tick of
the watchdog, a second. Seen as echoes of 1 MiB that took four seconds and half-closed connections that
lingered. Cause: the engine tells of an eager send at its next turn, and nothing made it take one.
"""
import threading
import time

import pytest

from harness import engines
from harness.client import Device, frame

BIG = {"mode": "echo", "max_frame": "2m", "out_max": "8m", "out_high": "4m"}
# The pause of the gateway's loop that a lost outcome cost, seconds.
TICK_S = 1.0


def send_and_expect(device, data, half_close=False):
    def run():
        device.send(data)
        if half_close:
            device.half_close()
    sender = threading.Thread(target=run)
    sender.start()
    device.expect(data)
    sender.join()


def large_frames(gateway):
    """More output than one gathered send holds."""
    with Device(gateway.address("big")) as device:
        for _ in range(6):
            send_and_expect(device, frame(b"l" * (1 << 20)))


def last_replies(gateway):
    """The close waits for the replies, nothing else happens on the connection."""
    for _ in range(6):
        with Device(gateway.address("big")) as device:
            send_and_expect(device, frame(b"h" * 1000) * 100, half_close=True)
            assert device.expect_end() == ("eof", b"")


def pipelined(gateway):
    """Frames in two receive buffers of one turn: the second reply waits for the first one's end."""
    with Device(gateway.address("big")) as device:
        for _ in range(6):
            send_and_expect(device, frame(b"p" * 700) * 12)


@pytest.mark.parametrize("step", [large_frames, last_replies, pipelined], ids=lambda f: f.__name__)
def test_no_engine_waits_for_the_tick(run_gateway, step):
    """Six rounds that each lost a tick would take six seconds; a machine that is merely slow is slow on every
    engine, so the fastest one is the yardstick."""
    took = {}
    for engine in engines.selected():
        if engines.refusal(engine):
            continue
        gateway = run_gateway(engine, workers=1, listeners={"big": BIG})
        gateway.address("big")
        start = time.monotonic()
        step(gateway)
        took[engine] = time.monotonic() - start
        gateway.stop()
    assert max(took.values()) <= min(took.values()) * 10 + 2 * TICK_S, took

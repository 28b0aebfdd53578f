# SPDX-License-Identifier: Apache-2.0
"""A worker without work gives its receive buffers' memory back, and uses them again when there is work."""
from harness import proc
from harness.client import Device, frame
from harness.wait import until

CONNS = 40
ROUNDS = 20


def talk(devices):
    for i in range(ROUNDS):
        for d in devices:
            d.send(frame(b"%06d" % i * 600))  # most of a receive buffer
        for d in devices:
            assert d.recv_frame() == b"%06d" % i * 600


def test_receive_buffers_go_when_nothing_comes(run_gateway):
    gateway = run_gateway("uring", workers=1, listeners={"echo": {"mode": "echo"}})
    devices = [Device(gateway.address("echo")) for _ in range(CONNS)]
    talk(devices)
    busy = proc.rss_bytes(gateway.pid)
    until(lambda: proc.rss_bytes(gateway.pid) < busy - 500_000, "half a megabyte has gone")
    talk(devices)
    for d in devices:
        d.close()

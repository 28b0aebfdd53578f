# SPDX-License-Identifier: Apache-2.0
"""The gateway stands still for a while, as when a virtual machine is paused or migrated. All its clocks have
run out meanwhile, yet whoever spoke in time is served; whoever did not ends for the usual reason."""
import signal
import time

from conftest import shared_gateway
from harness.client import HEARTBEAT, Device, ack, frame
from harness.wait import in_time, until

LISTENERS = {
    "idle": {"mode": "ack", "idle_timeout": "1s"},
    "packet": {"mode": "ack", "packet_timeout": "1s"},
}
COUNT = 40
STILL_S = 2.5
gateway_process, gateway = shared_gateway(listeners=LISTENERS, workers=2)


def test_paused_and_continued(gateway):
    """On a machine that can not have so many speak in time, fewer do: an emulated one takes more than a second for 40."""
    counts = iter((COUNT, COUNT // 2, COUNT // 4, COUNT // 8))
    in_time(lambda pace: pause_and_continue(gateway, pace, next(counts)), 0.9)


def pause_and_continue(gateway, pace, count):
    """What a client has sent is no older than its timeout when the gateway is stopped."""
    gateway.expect_no_conns()
    watch = gateway.watch_closes()
    stalls = gateway.metric("sluice_worker_stalls_total")
    bytes_in = gateway.metric("sluice_received_bytes_total")
    pace.start()
    idle = [Device(gateway.address("idle")) for _ in range(count)]
    started = [Device(gateway.address("packet")) for _ in range(count)]
    silent = Device(gateway.address("idle"))
    for device in idle + [silent]:
        device.send(HEARTBEAT)
        device.expect(HEARTBEAT)
    for device in started:
        device.send(frame(b"whole")[:6])
    until(lambda: gateway.metric("sluice_received_bytes_total") - bytes_in == 4 * len(idle + [silent]) +
          6 * len(started), "all bytes are read")
    gateway.signal(signal.SIGSTOP)
    pace.end()
    try:
        for device in idle:
            device.send(HEARTBEAT)
        for device in started:
            device.send(frame(b"whole")[6:])
        time.sleep(STILL_S)
    finally:
        gateway.signal(signal.SIGCONT)
    for device in idle:
        device.expect(HEARTBEAT)
    for device in started:
        device.expect(ack(1))
    silent.expect_end()
    until(lambda: watch.delta("idle_timeout") >= 1, watch.deltas)
    assert set(watch.deltas()) == {"idle_timeout"}, watch.deltas()
    assert gateway.metric("sluice_worker_stalls_total") >= stalls + 2
    assert "stood still for" in gateway.stderr()
    for device in idle + started + [silent]:
        device.close()


def test_admin_is_not_told_of_silence(gateway):
    """A question under way when the machine stops is answered when it goes on."""
    gateway.hold_session()
    for _ in range(3):
        gateway.signal(signal.SIGSTOP)
        time.sleep(1.2)
        gateway.signal(signal.SIGCONT)
        assert gateway.api("/api/conns?limit=1")["total"] == 0

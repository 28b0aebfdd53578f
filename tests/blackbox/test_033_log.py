# SPDX-License-Identifier: Apache-2.0
"""The log may not hold up a connection, whatever its sinks do: a pipe nobody reads, a full disk, a file that
rotates or is taken away."""
import fcntl
import os
import re
import signal
import subprocess
import tempfile
import threading
import time

import pytest

from harness.client import Device, ack, frame
from harness.wait import until

F_SETPIPE_SZ = 1031
LISTENERS = {"echo": {"mode": "echo"}, "ack": {"mode": "ack"}}


def visit(gateway, count, payload=b"visit"):
    """Connections that come, say something and go: with log.connections each is two lines."""
    for _ in range(count):
        with Device(gateway.address("echo")) as device:
            device.send(frame(payload))
            device.expect(frame(payload))


def log_metric(gateway, name):
    return gateway.metric(f"sluice_log_{name}_total")


def test_lines_of_a_connection_name_it(engine, run_gateway):
    gateway = run_gateway(engine, listeners=LISTENERS)
    with Device(gateway.address("echo")) as device:
        device.send(frame(b"x"))
        device.expect(frame(b"x"))
        peer = device.peer_text
    with Device(gateway.address("ack")) as device:
        device.send(b"\xff\xff\xff\xff")
        device.expect_end()
    for pattern in (re.escape(peer), r"\bpeer_closed\b", r"frame_too_large", r"\becho\b", r"\back\b"):
        gateway.wait_log(pattern)
    lines = [line for line in gateway.stderr().splitlines() if peer in line]
    assert len(lines) >= 2, gateway.stderr()
    assert all("echo" in line for line in lines), lines


def test_peers_can_not_forge_lines(run_gateway):
    """Bytes a peer chose (its id) never begin a line."""
    gateway = run_gateway("epoll-et", listeners={"devices": {"mode": "publish"}},
                          sections={"log": {"level": "debug"}})
    for ident in ("a\nFORGED line", "a\r\nFORGED", "\u001b[31mFORGED", "a\u0085FORGED"):
        with Device(gateway.address("devices")) as device:
            from harness.client import hello
            device.send(hello(ident))
            try:
                device.recv_ack()
            except AssertionError:
                pass
    gateway.expect_no_conns()
    gateway.api("/api/publish?topic=a%0AFORGED", "POST", b"x", status=gateway.request(
        "/api/publish?topic=a%0AFORGED", "POST", b"x").status)
    assert "\x1b" not in gateway.stderr()
    assert not re.search(r"^FORGED", gateway.stderr(), re.M)


def p99_ms(gateway, count=3000):
    """Of round trips one after the other on one connection."""
    times = []
    with Device(gateway.address("echo")) as device:
        data = frame(b"p" * 64)
        for _ in range(count):
            start = time.perf_counter()
            device.send(data)
            device.expect(data)
            times.append(time.perf_counter() - start)
    times.sort()
    return times[int(count * 0.99)] * 1e3


def test_stalled_stderr_changes_nothing(engine, make_gateway):
    """stderr is a small full pipe that nobody reads. Echo goes on at its pace, dropped lines are counted,
    and the process still ends on SIGTERM."""
    noise = {"log": {"level": "debug", "connections": True, "ring": "64k"}}
    free = make_gateway(engine, listeners=LISTENERS, sections=noise).start()
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, F_SETPIPE_SZ, 4096)
    stalled = make_gateway(engine, listeners=LISTENERS, sections=noise, stderr=write_end).start()
    os.close(write_end)
    try:
        until(lambda: visit(stalled, 100) or log_metric(stalled, "dropped") > 0,
              "the ring is full and lines are dropped")
        stop = threading.Event()

        def chatter(gateway):
            while not stop.is_set():
                visit(gateway, 1)
        results = {}
        # The best of each, in turn, so that a busy machine hits both alike; a log that holds up connections does so each time.
        for turn in range(10):
            for name, gateway in (("free", free), ("stalled", stalled)):
                stop.clear()
                thread = threading.Thread(target=chatter, args=(gateway,))
                thread.start()
                results[name] = min(results.get(name, 1e9), p99_ms(gateway, 1500))
                stop.set()
                thread.join()
            if turn >= 2 and results["stalled"] <= results["free"] * 4 + 2:
                break
        assert results["stalled"] <= results["free"] * 4 + 2, results
        dropped = log_metric(stalled, "dropped")
        visit(stalled, 50)
        assert log_metric(stalled, "dropped") > dropped
        stalled.expect_no_conns()
        stalled.signal(signal.SIGTERM)
        assert stalled.wait_exit() == 0
    finally:
        os.close(read_end)


def test_drops_are_told_when_there_is_room(make_gateway):
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, F_SETPIPE_SZ, 4096)
    gateway = make_gateway("epoll-et", listeners=LISTENERS, stderr=write_end,
                           sections={"log": {"level": "debug", "ring": "64k"}}).start()
    os.close(write_end)
    collected = []

    def read():
        while True:
            piece = os.read(read_end, 65536)
            if not piece:
                return
            collected.append(piece)
    try:
        until(lambda: visit(gateway, 100) or log_metric(gateway, "dropped") > 0, "lines are dropped")
        reader = threading.Thread(target=read)
        reader.start()
        until(lambda: visit(gateway, 1) or re.search(rb"\b(\d+) .*(dropped|lost)", b"".join(collected)),
              "the log says how many lines were lost")
        gateway.expect_no_conns()
        gateway.signal(signal.SIGTERM)
        assert gateway.wait_exit() == 0
        reader.join()
        for line in b"".join(collected).decode().splitlines():
            assert re.match(r"\S", line), f"a line is torn: {line!r}"
    finally:
        os.close(read_end)


def test_stderr_that_is_closed(make_gateway):
    """The reader of the pipe goes: neither SIGPIPE nor a spin."""
    read_end, write_end = os.pipe()
    gateway = make_gateway("epoll-et", listeners=LISTENERS, stderr=write_end).start()
    os.close(write_end)
    os.close(read_end)
    visit(gateway, 50)
    until(lambda: log_metric(gateway, "sink_errors") > 0, "the failing sink is counted")
    from harness import proc
    before, start = proc.cpu_s(gateway.pid), time.monotonic()
    time.sleep(0.5)
    assert (proc.cpu_s(gateway.pid) - before) / (time.monotonic() - start) < 0.3
    gateway.expect_no_conns()
    gateway.signal(signal.SIGTERM)
    assert gateway.wait_exit() == 0


def test_file_rotates(make_gateway):
    gateway = make_gateway("epoll-et", listeners=LISTENERS)
    path = f"{gateway.directory}/log"
    gateway.sections["log"].update(file=path, file_max="64k", file_keep=2, level="debug")
    gateway.start()
    until(lambda: visit(gateway, 100) or os.path.exists(f"{path}.2"), "two files are rotated away")
    until(lambda: visit(gateway, 200) or os.path.getsize(path) > 1000, "it goes on")
    visit(gateway, 600)
    gateway.expect_no_conns()
    # The writer may be in the middle of a rotation: judge when nothing is written any more.
    names = [path, f"{path}.1", f"{path}.2"]
    sizes = []

    def at_rest():
        sizes.append([os.path.getsize(n) if os.path.exists(n) else -1 for n in names])
        return len(sizes) > 4 and sizes[-1] == sizes[-4] and min(sizes[-1]) >= 0
    until(at_rest, lambda: f"the files come to rest: {sizes[-1]}", poll_s=0.05)
    assert not os.path.exists(f"{path}.3"), "more are kept than asked for"
    assert max(sizes[-1]) <= (64 << 10) + 2048, sizes[-1]
    with open(f"{path}.1") as f:
        lines = f.read().splitlines()
    assert len(lines) > 10 and len({line.split()[0][:4] for line in lines}) == 1, lines[:3]


@pytest.mark.parametrize("told", [signal.SIGHUP, signal.SIGUSR1], ids=lambda told: told.name)
def test_file_taken_away_is_opened_again_when_told(make_gateway, told):
    gateway = make_gateway("epoll-et", listeners=LISTENERS)
    path = f"{gateway.directory}/log"
    gateway.sections["log"].update(file=path)
    gateway.start()
    visit(gateway, 3)
    until(lambda: os.path.exists(path) and os.path.getsize(path), "the file is written")
    os.rename(path, path + ".moved")
    gateway.signal(told)
    until(lambda: visit(gateway, 1) or os.path.exists(path) and os.path.getsize(path), "a new file is written")


def test_file_that_can_not_be_opened(make_gateway):
    from harness.gateway import Exited
    gateway = make_gateway("epoll-et", sections={"log": {"file": "/proc/no/such/place/log"}})
    with pytest.raises(Exited) as caught:
        gateway.start()
    assert caught.value.code > 0 and "/proc/no/such/place/log" in caught.value.stderr


@pytest.fixture
def small_disk():
    """A file system of 256 KiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    place = tempfile.mkdtemp(prefix="sluice-bb-disk-")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place],
                          capture_output=True, text=True)
    if done.returncode:
        os.rmdir(place)
        pytest.skip(f"mounting a small tmpfs: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)
    os.rmdir(place)


def test_full_disk(make_gateway, small_disk):
    """The log's disk is full: connections are served, the failures counted; room brings the log back."""
    ballast = f"{small_disk}/ballast"
    with open(ballast, "wb") as f:
        f.write(b"b" * (200 << 10))
    path = f"{small_disk}/log"
    gateway = make_gateway("epoll-et", listeners=LISTENERS,
                           sections={"log": {"file": path, "file_max": "never", "level": "debug"}})
    gateway.start()
    until(lambda: visit(gateway, 100) or log_metric(gateway, "sink_errors") > 0, "the disk is full")
    with Device(gateway.address("ack")) as device:
        for number in range(1, 201):
            device.send(frame(b"served"))
            device.expect(ack(number))
    os.unlink(ballast)
    size = os.path.getsize(path)
    until(lambda: visit(gateway, 10) or os.path.getsize(path) > size + 1000, "the log goes on")
    gateway.stop()

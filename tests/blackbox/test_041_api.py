# SPDX-License-Identifier: Apache-2.0
"""The admin API over its unix socket and its port, and `sluice ctl` on top of it."""
import json
import re
import socket
import subprocess

import pytest

from conftest import shared_gateway
from harness import http, scenarios
from harness.client import Device, ack, frame
from harness.wait import GUARD_S, until

gateway_process, gateway = shared_gateway(listeners=scenarios.LISTENERS, workers=2)


def ctl(gateway, *arguments, code=0, text=None):
    result = subprocess.run([*gateway.command, "ctl", "--socket", gateway.settings["ctl_socket"], *arguments],
                            capture_output=True, text=True, timeout=GUARD_S, input=text)
    assert result.returncode == code, (arguments, result)
    return result.stdout


def test_status(gateway, engine):
    status = gateway.status()
    assert status["engine"] == engine
    assert len(status["workers"]) == 2
    assert status["pid"] == gateway.pid
    assert {e["name"] for e in status["listeners"]} >= set(scenarios.LISTENERS)
    for name in scenarios.LISTENERS:
        assert gateway.address(name)[1] > 0


def test_conns_lists_filters_and_sorts(gateway):
    devices = [Device(gateway.address("echo"), source=f"127.0.0.{31 + i % 2}") for i in range(6)]
    other = Device(gateway.address("ack"))
    try:
        for index, device in enumerate(devices):
            device.send(frame(b"x" * 10) * (index + 1))
            device.expect(frame(b"x" * 10) * (index + 1))
        until(lambda: len(gateway.conns()) == 7, "all are listed")
        assert {c["listener"] for c in gateway.conns()} == {"echo", "ack"}
        assert len(gateway.conns("?listener=echo")) == 6
        assert len(gateway.conns("?peer=127.0.0.31")) == 3
        assert len(gateway.conns("?limit=2")) == 2
        received = [c["bytes_in"] for c in gateway.conns("?listener=echo&sort=bytes_in")]
        assert received in (sorted(received), sorted(received, reverse=True)) and len(set(received)) == 6
        assert {c["peer"] for c in gateway.conns("?listener=echo")} == {d.peer_text for d in devices}
    finally:
        for device in devices + [other]:
            device.close()


def test_conn_detail(gateway):
    with Device(gateway.address("echo")) as device:
        device.send(frame(b"detail"))
        device.expect(frame(b"detail"))
        entry = gateway.conn_of(device)
        detail = gateway.api(f"/api/conns/{entry['id']}")
        assert detail["peer"] == device.peer_text and detail["listener"] == "echo"
        assert detail["bytes_in"] == 10 and detail["bytes_out"] == 10
        assert "recv" in json.dumps(detail["armed"]), detail
        assert {e["event"] for e in detail["events"]} >= {"recv", "send"}, detail["events"]


def test_conn_that_is_not_there(gateway):
    for ident in ("1", "999999999", "18446744073709551615"):
        assert gateway.request(f"/api/conns/{ident}").status == 404
    for ident in ("x", "-1", "99999999999999999999999", "1%00"):
        assert gateway.request(f"/api/conns/{ident}").status in (400, 404)


def test_kick(gateway):
    watch = gateway.watch_closes()
    with Device(gateway.address("echo")) as device, Device(gateway.address("echo")) as other:
        for d in (device, other):
            d.send(frame(b"x"))
            d.expect(frame(b"x"))
        entry = gateway.conn_of(device)
        assert gateway.request(f"/api/conns/{entry['id']}", "DELETE").status in (200, 202, 204)
        device.expect_end()
        other.send(frame(b"stays"))
        other.expect(frame(b"stays"))
        watch.expect("kicked")
        until(lambda: gateway.request(f"/api/conns/{entry['id']}").status == 404, "it is gone")


def test_effective_config_is_a_config(gateway, sluice, tmp_path):
    """What /api/config prints is accepted by `check`, and does not tell the token."""
    response = gateway.request("/api/config")
    assert response.status == 200 and "s3cret" not in response.text()
    path = tmp_path / "printed.conf"
    path.write_text(response.text())
    result = subprocess.run([sluice, "check", "-c", str(path)], capture_output=True, text=True)
    problems = [line for line in (result.stdout + result.stderr).splitlines() if "token" not in line]
    assert result.returncode == 0 or all("token" in p or not p for p in problems), result


@pytest.mark.parametrize("request_text, status", [
    (b"GET /nope HTTP/1.1\r\nHost: a\r\n\r\n", 404),
    (b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 405),
    (b"GET /api/reload HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    (b"GET / metrics HTTP/1.1\r\n\r\n", 400),
    (b"garbage\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n", 400),
])
def test_requests_that_are_wrong(gateway, request_text, status):
    with http.connect(gateway.settings["ctl_socket"]) as sock:
        sock.sendall(request_text)
        with sock.makefile("rb") as stream:
            assert http.read_response(stream).status == status


def test_header_bomb_is_bounded(gateway):
    with http.connect(gateway.settings["ctl_socket"]) as sock:
        try:
            sock.sendall(b"GET /healthz HTTP/1.1\r\n")
            for i in range(20000):
                sock.sendall(b"X-%d: %s\r\n" % (i, b"y" * 60))
        except OSError:
            pass
        sock.settimeout(GUARD_S)
        try:
            data = sock.recv(4096)
        except ConnectionResetError:
            data = b""
        assert data == b"" or b" 431 " in data.split(b"\r\n")[0] or b" 400 " in data.split(b"\r\n")[0], data


def test_keep_alive_and_pipelining(gateway):
    with http.connect(gateway.settings["ctl_socket"]) as sock, sock.makefile("rb") as stream:
        for _ in range(3):
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert http.read_response(stream).status == 200
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 5)
        for _ in range(5):
            assert http.read_response(stream).status == 200


def test_request_split_at_every_byte(gateway):
    text = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: y\r\n\r\n"
    with http.connect(gateway.settings["ctl_socket"]) as sock, sock.makefile("rb") as stream:
        for cut in range(1, len(text)):
            sock.sendall(text[:cut])
            sock.sendall(text[cut:])
            assert http.read_response(stream).status == 200


def test_foreign_host_name_is_refused_on_the_port(gateway):
    """A page of another site can not make a browser talk to the API (DNS rebinding)."""
    address = gateway.address("admin")
    with http.connect(address) as sock, sock.makefile("rb") as stream:
        sock.sendall(b"GET /api/conns HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert http.read_response(stream).status == 403


def test_a_stalled_admin_client_disturbs_nobody(gateway):
    stalled = [http.connect(gateway.address("admin")) for _ in range(8)]
    try:
        for sock in stalled:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
        with Device(gateway.address("echo")) as device:
            for _ in range(100):
                device.send(frame(b"x"))
                device.expect(frame(b"x"))
        assert gateway.request("/healthz").status == 200
    finally:
        for sock in stalled:
            sock.close()


# --- sluice ctl ---

def test_ctl_status(gateway, engine):
    text = ctl(gateway, "status")
    assert engine in text and "echo" in text
    assert json.loads(ctl(gateway, "status", "--json"))["engine"] == engine


def test_ctl_conns_conn_kick(gateway):
    with Device(gateway.address("echo")) as device:
        device.send(frame(b"x"))
        device.expect(frame(b"x"))
        assert device.peer_text in ctl(gateway, "conns")
        ident = str(gateway.conn_of(device)["id"])
        detail = ctl(gateway, "conn", ident)
        assert device.peer_text in detail and "echo" in detail
        ctl(gateway, "kick", ident)
        device.expect_end()
    gateway.expect_no_conns()
    result = subprocess.run([*gateway.command, "ctl", "--socket", gateway.settings["ctl_socket"], "conn", ident],
                            capture_output=True, text=True, timeout=GUARD_S)
    assert result.returncode != 0 and result.stderr.strip()


def test_ctl_publish(gateway):
    with Device(gateway.address("devices")) as device:
        device.say_hello("ctl-target")
        ctl(gateway, "publish", "devices/ctl-target/down", "by argument")
        assert device.recv_frame() == b"by argument"


def test_ctl_reload_and_config(gateway):
    ctl(gateway, "reload")
    assert re.search(r"listener\W+echo", ctl(gateway, "config"))


def test_ctl_log(gateway):
    with Device(gateway.address("echo")) as device:
        device.send(frame(b"x"))
        device.expect(frame(b"x"))
        peer = device.peer_text
    until(lambda: peer in ctl(gateway, "log"), "the log shows the connection")


def test_ctl_log_follow(gateway):
    process = subprocess.Popen(
        [*gateway.command, "ctl", "--socket", gateway.settings["ctl_socket"], "log", "--follow"],
        stdout=subprocess.PIPE)
    try:
        import os
        os.set_blocking(process.stdout.fileno(), False)
        seen = []

        def shows():
            with Device(gateway.address("echo")) as device:
                device.send(frame(b"follow"))
                device.expect(frame(b"follow"))
                seen.append(device.peer_text)
            text = (process.stdout.read() or b"").decode()
            return any(peer in text for peer in seen)
        until(shows, "following shows new lines")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_ctl_without_a_gateway(sluice, tmp_path):
    result = subprocess.run([sluice, "ctl", "--socket", str(tmp_path / "none.sock"), "status"],
                            capture_output=True, text=True, timeout=GUARD_S)
    assert result.returncode != 0 and "none.sock" in result.stderr, result


__all__ = ["ack"]

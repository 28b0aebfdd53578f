# SPDX-License-Identifier: Apache-2.0
"""Who may use the admin API: users of the unix socket as the kernel names them, the token over TCP, and that nothing of
it is open to the network unless somebody wants it so."""
import json
import os
import re
import socket
import subprocess
from http.client import HTTPConnection

import pytest
from harness.gateway import Gateway
from harness.wait import GUARD_S

USER, OTHER, FRIEND, GROUP = 54321, 54322, 54323, 54400
REQUEST = b"GET /api/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def speak(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(GUARD_S)
        try:
            sock.connect(path)
        except PermissionError:
            return b"PermissionError"
        sock.sendall(REQUEST)
        return b"".join(iter(lambda: sock.recv(65536), b""))


def ask(path, uid, gid=None, groups=()):
    """What a user is answered: (status, text); None: the kernel does not let it connect."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups(groups)
            os.setgid(gid or uid)
            os.setuid(uid)
            with os.fdopen(writing, "wb") as out:
                out.write(speak(path))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        text = answer.read().decode()
    os.waitpid(child, 0)
    if text == "PermissionError":
        return None
    return int(text.split()[1]), text


@pytest.fixture
def start(sluice):
    if os.geteuid() != 0:
        pytest.skip("only root can become other users")
    running = []

    def make(**settings):
        gateway = Gateway(sluice, "epoll-et", workers=1, settings={"user": str(USER), **settings})
        running.append(gateway)
        os.chmod(gateway.directory, 0o755)
        gateway.settings["ctl_socket"] = gateway.settings["data_dir"] + "/ctl.sock"
        gateway.start()
        os.chmod(gateway.settings["data_dir"], 0o755)
        return gateway, gateway.settings["ctl_socket"]
    yield make
    for gateway in running:
        try:
            gateway.stop()
        finally:
            gateway.kill()
            gateway.remove()


def test_root_and_its_own_user(start):
    gateway, path = start()
    assert os.stat(path).st_mode & 0o777 == 0o660
    assert ask(path, 0)[0] == 200
    assert ask(path, USER)[0] == 200
    assert ask(path, OTHER) is None  # the file's permissions
    # And whoever gets past them is refused by name: of the user, not of what it says it is.
    os.chmod(path, 0o666)
    status, text = ask(path, OTHER)
    assert status == 403 and f"user {OTHER} may not use this socket" in text
    assert ask(path, OTHER, gid=USER)[0] == 403
    assert ask(path, OTHER, groups=(0, USER))[0] == 403
    gateway.wait_log(rf"admin: unix: /api/status by user {OTHER}, who may not")
    assert gateway.metric("sluice_admin_refused_total", reason="peer") == 3


def test_those_that_are_allowed(start):
    _, path = start(ctl_allow=[f"uid:{FRIEND}", f"gid:{GROUP}"])
    assert os.stat(path).st_mode & 0o777 == 0o666
    assert ask(path, FRIEND)[0] == 200
    assert ask(path, OTHER, gid=GROUP)[0] == 200
    assert ask(path, OTHER, groups=(1, GROUP))[0] == 200
    assert ask(path, GROUP, gid=FRIEND)[0] == 403
    assert ask(path, OTHER)[0] == 403
    assert ask(path, 0)[0] == 200 and ask(path, USER)[0] == 200


def test_wrong_entries_are_mistakes(sluice, tmp_path):
    conf = tmp_path / "conf"
    for entry in ("1000", "uid:", "uid:-1", "uid:4294967295", "user:x", "gid:1x"):
        conf.write_text(f'ctl_allow = ["{entry}"]\nlistener a {{ protocol = mqtt; bind = "127.0.0.1:0" }}\n')
        done = subprocess.run([sluice, "check", "-c", str(conf)], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "uid:NUMBER or gid:NUMBER is expected" in done.stdout + done.stderr, entry


def test_what_is_refused_over_tcp_is_counted(sluice, tmp_path):
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    with Gateway(sluice, workers=1, sections={"admin": {"token_file": str(token)}}) as gateway:
        host, port = gateway.address("admin")

        def status(headers):
            connection = HTTPConnection(host, port, timeout=GUARD_S)
            connection.request("GET", "/api/status", headers=headers)
            return connection.getresponse().status
        assert status({"Authorization": "Bearer 0123456789abcdef"}) == 200
        for wrong in ({}, {"Authorization": "Bearer 0123456789abcdeF"}, {"Authorization": "Bearer 0123456789abcdef0"},
                      {"Authorization": "Basic 0123456789abcdef"}):
            assert status(wrong) == 401
        assert status({"Authorization": "Bearer 0123456789abcdef", "Host": "attacker.example"}) == 403
        assert gateway.metric("sluice_admin_refused_total", reason="token") == 4
        assert gateway.metric("sluice_admin_refused_total", reason="origin") == 1


def test_it_is_not_open_to_the_network_by_default(sluice, tmp_path):
    conf = tmp_path / "conf"
    conf.write_text('listener a { protocol = mqtt; bind = "127.0.0.1:0" }\n')
    done = subprocess.run([sluice, "check", "-c", str(conf), "--print"], capture_output=True, text=True, check=True)
    assert re.search(r'admin \{[^}]*bind = "127\.0\.0\.1:9600"', done.stdout), done.stdout
    for bind in ("0.0.0.0:0", "[::]:0", "192.0.2.1:9600"):
        conf.write_text(f'admin {{ bind = "{bind}" }}\nlistener a {{ protocol = mqtt; bind = "127.0.0.1:0" }}\n')
        done = subprocess.run([sluice, "check", "-c", str(conf)], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "anybody could steer the gateway" in done.stdout + done.stderr
    with Gateway(sluice, workers=1) as gateway:
        assert gateway.address("admin")[0] == "127.0.0.1"
        assert json.loads(gateway.request("/api/status").text())

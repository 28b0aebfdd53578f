# SPDX-License-Identifier: Apache-2.0
"""`sluice passwd`, the admin listener's token, and what `sluice check` says about files that are missing or wrong."""
import importlib
import os
import pty
import subprocess

import pytest

from harness import http
from harness.accounts import SECRET
from harness.mqtt_peer import V311, Client
from harness.remotes import needed


def run(sluice, *args, stdin=b""):
    return subprocess.run([sluice, "passwd", *args], input=stdin, capture_output=True, timeout=60)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "passwords")


def test_create_change_delete(sluice, path):
    assert run(sluice, path, "a", "--stdin", stdin=b"x\n").returncode == 1  # not there, and no -c
    assert run(sluice, "-c", path, "a", "--stdin", stdin=b"one\n").returncode == 0
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert run(sluice, "-c", path, "b", "--stdin", stdin=b"one\n").returncode == 1  # exists
    assert run(sluice, path, "b", "--stdin", "--both", stdin=b"two\n").returncode == 0
    os.chmod(path, 0o640)
    text = open(path).read()
    assert text.count("\n") == 3 and "$7$5000$" in text and "SCRAM-SHA-256$4096:" in text
    assert run(sluice, path, "b", "--stdin", "-I", "9", stdin=b"three\n").returncode == 0
    changed = open(path).read()
    assert changed.splitlines()[0] == text.splitlines()[0]
    assert "b:$7$9$" in changed and "b:SCRAM-SHA-256$9:" in changed and changed.count("\n") == 3
    assert os.stat(path).st_mode & 0o777 == 0o640
    assert run(sluice, "-D", path, "b").returncode == 0
    assert open(path).read() == text.splitlines(True)[0]
    assert run(sluice, "-D", path, "b").returncode == 1
    assert sorted(os.listdir(os.path.dirname(path))) == ["passwords"]


def test_batch_and_mistakes(sluice, path):
    assert run(sluice, "-c", "--batch", path, stdin=b"a:1\nb:2:3\n").returncode == 0
    before = open(path).read()
    assert [line.split(":")[0] for line in before.splitlines()] == ["a", "b"]
    for stdin in (b"c\n", b"c:\n", b":x\n", b"c:" + b"x" * 2000 + b"\n"):
        assert run(sluice, "--batch", path, stdin=stdin).returncode == 1
    for args in ((path,), ("--batch", path, "u"), (path, "a:b"), (path, "u", "--what"), (path, "u", "-I", "0"),
                 ("-D", "--stdin", path, "a")):
        assert run(sluice, *args).returncode == 2, args
    assert run(sluice, path, "a", "--stdin", stdin=b"").returncode == 1
    assert open(path).read() == before


def test_the_password_is_asked_for_without_echo(sluice, path):
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sluice, [sluice, "passwd", "-c", path, "tty"])
    said = b""
    for prompt in (b"Password: ", b"Once more: "):
        while prompt not in said:
            said += os.read(terminal, 1024)
        os.write(terminal, b"s3same\n")
    try:
        while piece := os.read(terminal, 1024):
            said += piece
    except OSError:
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(terminal)
    assert b"s3same" not in said and open(path).read().startswith("tty:$7$")


def test_its_file_and_mosquittos_are_the_same(sluice, path, run_gateway):
    mosquitto_passwd = needed("mosquitto_passwd")
    assert run(sluice, "-c", path, "ours", "--stdin", stdin=b"one two\n").returncode == 0
    subprocess.run([mosquitto_passwd, "-b", path, "theirs", "three four"], check=True, timeout=60)
    gateway = run_gateway(listeners={"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0", "password_file": path}})
    for user, password in (("ours", b"one two"), ("theirs", b"three four")):
        with Client(gateway.address("mqtt"), V311).hello(user=user, password=password) as client:
            client.ping()
    port = str(gateway.address("mqtt")[1])
    for password, status in (("one two", 0), ("wrong", 5)):
        pub = subprocess.run(["mosquitto_pub", "-p", port, "-u", "ours", "-P", password, "-t", "t", "-m", "m"],
                             capture_output=True, timeout=60)
        assert (pub.returncode == 0) == (status == 0), pub


def test_paho_with_an_account(sluice, path, run_gateway):
    mqtt = importlib.import_module("paho.mqtt.client")
    assert run(sluice, "-c", path, "u", "--stdin", stdin=b"p\n").returncode == 0
    gateway = run_gateway(listeners={"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0", "password_file": path}})
    more = {"callback_api_version": mqtt.CallbackAPIVersion.VERSION1} if hasattr(mqtt, "CallbackAPIVersion") else {}
    for password, code in (("p", 0), ("q", 4)):
        codes = []
        client = mqtt.Client(client_id="paho", protocol=mqtt.MQTTv311, **more)
        client.username_pw_set("u", password)
        client.on_connect = lambda c, u, flags, rc, seen=codes: seen.append(int(rc))
        client.connect(*gateway.address("mqtt"))
        while not codes:
            client.loop(1)
        client.disconnect()
        assert codes == [code]


def ask(address, path, authorization=None):
    with http.connect(address) as sock:
        field = f"Authorization: {authorization}\r\n" if authorization else ""
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{field}\r\n".encode())
        with sock.makefile("rb") as stream:
            return http.read_response(stream).status


def test_the_admin_token(sluice, tmp_path, run_gateway):
    secret = tmp_path / "admin"
    secret.write_text("a-secret-of-some-length\n")
    gateway = run_gateway(sections={"admin": {"bind": "127.0.0.1:0", "token_file": str(secret)}})
    address = gateway.address("admin")
    for path in ("/api/status", "/metrics"):
        for wrong in (None, "Bearer a-secret-of-some-lengtH", "Bearer ", "Bearer a-secret-of-some-length2", "Basic YTpi"):
            assert ask(address, path, wrong) == 401, wrong
        assert ask(address, path, "bearer a-secret-of-some-length") == 200
    assert ask(address, "/healthz") == ask(address, "/readyz") == 200
    assert gateway.request("/api/status").status == 200  # the unix socket
    command = [sluice, "ctl", "--addr", "{}:{}".format(*address)]
    assert subprocess.run(command + ["status"], capture_output=True, timeout=60).returncode == 1
    assert subprocess.run(command + ["--token-file", str(secret), "status"], capture_output=True,
                          timeout=60).returncode == 0


@pytest.mark.parametrize("text, said", [
    ("admin { bind = \"0.0.0.0:9600\"; }\nlistener l { protocol = frame; bind = \"127.0.0.1:0\"; }\n",
     "admin: bind: 0.0.0.0:9600 can be reached from other machines"),
    ("listener l { protocol = mqtt; bind = \"0.0.0.0:1\"; }\n", "can be reached from other machines"),
    ("listener l { protocol = mqtt; bind = \"127.0.0.1:1\"; password_file = \"/does/not/exist\"; }\n",
     "/does/not/exist: ENOENT"),
    ("listener l { protocol = mqtt; bind = \"127.0.0.1:1\"; acl_file = \"%(bad)s\"; }\n", "bad:1: unknown word"),
    ("listener l { protocol = mqtt; bind = \"127.0.0.1:1\"; password_file = \"%(bad)s\"; }\n", "bad:1: not of the form"),
    ("listener l { protocol = mqtt; bind = \"127.0.0.1:1\"; jwt_key_file = \"%(bad)s\"; }\n", "bad: a secret has at least"),
    ("listener l { protocol = mqtt; bind = \"127.0.0.1:1\"; jwt_issuer = \"x\"; }\n", "is of no use without jwt_key_file"),
    ("listener l { protocol = frame; mode = ack; bind = \"127.0.0.1:1\"; acl_file = \"x\"; }\n", "mode = publish only"),
])
def test_check_names_what_is_wrong(sluice, tmp_path, text, said):
    bad = tmp_path / "bad"
    bad.write_text("nonsense\n")
    (tmp_path / "good").write_text(SECRET)
    conf = tmp_path / "conf"
    conf.write_text(text.replace("%(bad)s", str(bad)))
    result = subprocess.run([sluice, "check", "-c", str(conf)], capture_output=True, timeout=60)
    assert result.returncode == 2 and said in result.stderr.decode(), result.stderr

# SPDX-License-Identifier: Apache-2.0
"""Who may come in: password files, tokens, anonymous clients, and what each of them is told; on one worker and on
two, where a client is judged by the worker that owns its id."""
import signal
import tempfile
import time

import pytest

from harness import engines
from harness.accounts import SECRET, Files, crypt_line, scram_line, token
from harness.client import Device, ack, frame, hello
from harness.gateway import Gateway
from harness.mqtt_peer import V5, V311, Client, wire
from harness.wait import in_time, until

ENGINES = [(e, w) for e in engines.selected() for w in (1, 2)]
PASSWORDS = (crypt_line("alice", "wonder") + crypt_line("slow", "secret", 20000) + scram_line("scram", "pencil")
             + crypt_line("dev-1", "t0ken"))


@pytest.fixture(scope="module", params=ENGINES, ids=lambda p: f"{p[0]}-{p[1]}w")
def gateway(request, sluice):
    engine, workers = request.param
    engines.need(engine)
    with tempfile.TemporaryDirectory() as directory:
        files = Files(directory)
        passwords, secret = files.write("passwords", PASSWORDS), files.write("secret", SECRET + "\n")
        mqtt = {"protocol": "mqtt", "bind": "127.0.0.1:0", "auth_delay": "50ms", "auth_failures": "unlimited"}
        listeners = {
            "closed": {**mqtt, "password_file": passwords, "jwt_key_file": secret, "jwt_audience": "here"},
            "mixed": {**mqtt, "password_file": passwords, "anonymous": True},
            "few": {**mqtt, "password_file": passwords, "auth_failures": 3},
            "fewer": {**mqtt, "token": "the-listener", "auth_failures": 3},
            "devices": {"protocol": "frame", "bind": "127.0.0.1:0", "mode": "publish", "password_file": passwords,
                        "jwt_key_file": secret, "token": "the-listener", "auth_delay": "50ms",
                        "auth_failures": "unlimited"},
        }
        with Gateway(sluice, engine, workers=workers, listeners=listeners) as running:
            running.files = files
            yield running


@pytest.fixture(autouse=True)
def nothing_left(gateway):
    yield
    Client.end_all()
    gateway.expect_no_conns()


def client(gateway, version=V5, listener="closed", expect=0, client_id=None, **more):
    return Client(gateway.address(listener), version).hello(client_id, expect=expect, **more)


@pytest.mark.parametrize("version", [V311, V5])
def test_the_right_password(gateway, version):
    for user, password in (("alice", b"wonder"), ("slow", b"secret"), ("scram", b"pencil")):
        client(gateway, version, user=user, password=password).ping()


@pytest.mark.parametrize("version, refused, none", [(V311, 4, 5), (V5, 0x86, 0x87)])
def test_a_wrong_one_is_told_after_a_while_and_not_which_part(gateway, version, refused, none):
    answers = set()
    for user, password in (("alice", b"Wonder"), ("alice", b""), ("nobody", b"wonder"), ("scram", b"pencils"),
                           ("u" * 300, b"x"), ("", b"x")):
        began = time.monotonic()
        it = client(gateway, version, expect=refused, user=user, password=password)
        assert time.monotonic() - began >= 0.05
        answers.add(it.connack.raw)
        it.expect_end()
    assert len(answers) == 1, answers
    client(gateway, version, expect=none).expect_end()
    client(gateway, version, expect=none, user="alice").expect_end()


def test_the_log_and_the_metrics_say_why(gateway):
    time.sleep(1.1)  # ten lines a second and worker: those refused before this test may have used them up
    before = gateway.metrics().by("sluice_auth_total", "result")
    client(gateway, expect=0x86, user="alice", password=b"no").expect_end()
    client(gateway, expect=0x86, user="no\nbody", password=b"hush-hush").expect_end()
    client(gateway, user="alice", password=b"wonder")
    after = gateway.metrics().by("sluice_auth_total", "result")
    gained = {k: v - before.get(k, 0) for k, v in after.items() if v != before.get(k, 0)}
    assert gained == {"wrong_password": 1, "unknown_user": 1, "password": 1}
    gateway.wait_log(r'client "[^"]*", user "alice" refused: wrong_password')
    gateway.wait_log(r'user "no\\nbody" refused: unknown_user|user "no\\x0abody" refused: unknown_user')
    assert "hush" not in gateway.stderr()


def test_packets_behind_the_connect_wait(gateway):
    it = Client(gateway.address("closed"))
    it.send(wire.connect(V5, "eager", user="slow", password=b"secret"), wire.PING,
            wire.subscribe(V5, 1, [("a", 0)]), wire.publish(V5, "a", b"x"))
    assert it.expect(wire.CONNACK).reason == 0
    it.expect(wire.PINGRESP)
    it.wait_for(wire.SUBACK)
    assert it.message().payload == b"x"
    wrong = Client(gateway.address("closed"))
    wrong.send(wire.connect(V5, "eager2", user="slow", password=b"wrong"), wire.subscribe(V5, 1, [("#", 0)]))
    assert [p.kind for p in wrong.rest()] == [wire.CONNACK]


def test_a_client_that_leaves_while_it_is_judged(gateway):
    for _ in range(20):
        it = Client(gateway.address("closed"))
        it.send(wire.connect(V5, "", user="slow", password=b"secret"))
        it.reset()
    client(gateway, user="alice", password=b"wonder").ping()


def test_many_at_once_are_judged_in_turn_and_others_are_served(gateway):
    """Nothing waits for the slow hashes but their own clients."""
    calm = client(gateway, user="alice", password=b"wonder")
    crowd = []
    for n in range(30):
        it = Client(gateway.address("closed"))
        it.send(wire.connect(V5, f"crowd-{n}", user="slow", password=b"secret" if n % 3 else b"wrong"))
        crowd.append(it)
    for _ in range(50):
        calm.ping()
    assert [it.expect(wire.CONNACK).reason for it in crowd] == [0 if n % 3 else 0x86 for n in range(30)]


def test_json_web_tokens(gateway):
    good = token(sub="t", aud="here")
    it = client(gateway, user="any", password=good.encode())
    it.ping()
    # 5.0 allows a password without a user name.
    client(gateway, password=good.encode()).ping()
    for bad in (token(aud="there"), token(lasts=-100, aud="here"), token("x" * 32, aud="here"),
                token(header={"alg": "none"}, aud="here"), token(aud="here", nbf=4000000000), good[:-1]):
        client(gateway, expect=0x86, password=bad.encode()).expect_end()


def test_a_tokens_lists_are_its_rights(gateway):
    it = client(gateway, client_id="jwt-c", password=token(
        aud="here", sub="s", publish=["up/%c"], subscribe=["down/%u/#"]).encode())
    assert it.publish("up/jwt-c", b"x", qos=1) in (0, 0x10)
    assert it.publish("up/other", b"x", qos=1) == 0x87
    assert list(it.subscribe("down/s/#", "down/t/#", "up/jwt-c", "#")) == [0, 0x87, 0x87, 0]


def test_a_token_that_expires_ends_its_connection(gateway):
    def attempt(_):
        return client(gateway, password=token(lasts=-28, aud="here").encode())  # 30 s of leeway: a second or two are left
    in_time(attempt, 0.9).expect_end(0xA0)
    until(lambda: gateway.closes("token_expired") >= 1, "the reason is counted")


def test_anonymous_beside_accounts(gateway):
    client(gateway, listener="mixed").ping()
    client(gateway, listener="mixed", user="alice", password=b"wonder").ping()
    client(gateway, listener="mixed", expect=0x86, user="alice", password=b"x").expect_end()
    client(gateway, listener="mixed", expect=0x87, user="alice").expect_end()


def test_an_address_that_fails_too_often(gateway):
    """Last of the file's failures: from then on the address is refused without a look; a listener without the limit does not
    care."""
    client(gateway, listener="fewer", password=b"the-listener").ping()
    for _ in range(2):
        client(gateway, listener="few", expect=0x86, user="alice", password=b"x").expect_end()
    client(gateway, listener="fewer", expect=0x86, password=b"x").expect_end()
    time.sleep(0.7)  # 20 s at 3 a minute
    client(gateway, listener="few", expect=0x9F, user="alice", password=b"wonder").expect_end()
    client(gateway, listener="few", version=V311, expect=3, user="alice", password=b"wonder").expect_end()
    for secret in (b"the-listener", b"x"):  # nor does it learn which token is right
        client(gateway, listener="fewer", expect=0x9F, password=secret).expect_end()
    client(gateway, user="alice", password=b"wonder").ping()
    assert gateway.metric("sluice_auth_total", result="rate") >= 2


def test_framed_devices(gateway):
    for ident, secret in (("dev-1", "t0ken"), ("any", "the-listener"), ("j", token(sub="j")), ("k", token())):
        with Device(gateway.address("devices")) as device:
            device.send(hello(ident, token=secret) + frame(b"x"))
            device.expect(ack(0) + ack(1))
    for ident, secret in (("dev-1", "wrong"), ("dev-2", "t0ken"), ("j", token(sub="i")), ("dev-1", None)):
        with Device(gateway.address("devices")) as device:
            device.send(hello(ident, token=secret) if secret else hello(ident))
            assert device.expect_end() == ("eof", b"")
    assert gateway.closes("auth_failed") >= 4


def reload(gateway):
    before = gateway.status()["reloads"]
    gateway.signal(signal.SIGHUP)
    until(lambda: gateway.status()["reloads"] != before, "the reload is applied")


def test_reload_ends_who_is_gone_and_keeps_the_others(gateway):
    stays = client(gateway, user="alice", password=b"wonder")
    gone = client(gateway, user="scram", password=b"pencil")
    changed = client(gateway, user="slow", password=b"secret")
    device = Device(gateway.address("devices"))
    device.send(hello("dev-1", token="t0ken"))
    device.expect(ack(0))
    try:
        gateway.files.write("passwords", crypt_line("alice", "wonder") + crypt_line("slow", "secret", 20001))
        reload(gateway)
        gone.expect_end(0x87)
        changed.expect_end(0x87)
        device.expect_end()
        stays.ping()
        client(gateway, expect=0x86, user="scram", password=b"pencil").expect_end()
        gateway.files.write("passwords", "broken\n")
        gateway.signal(signal.SIGHUP)
        gateway.wait_log(r"passwords:1: not of the form user:hash")
        client(gateway, user="alice", password=b"wonder").ping()
    finally:
        gateway.files.write("passwords", PASSWORDS)
        reload(gateway)
    client(gateway, user="scram", password=b"pencil").ping()


def test_guesses_made_at_once_are_counted_too(sluice, tmp_path):
    """None of them has failed yet when the last one comes."""
    passwords = Files(str(tmp_path)).write("passwords", crypt_line("slow", "secret", 2000))
    listener = {"protocol": "mqtt", "bind": "127.0.0.1:0", "password_file": passwords, "auth_failures": 5,
                "auth_delay": "10ms"}
    with Gateway(sluice, workers=2, listeners={"a": listener}) as gateway:
        crowd = []
        for n in range(40):
            it = Client(gateway.address("a"))
            it.send(wire.connect(V5, f"g{n}", user="slow", password=b"guess %d" % n))
            crowd.append(it)
        answers = [it.expect(wire.CONNACK).reason for it in crowd]
        assert answers.count(0x86) <= 7 and answers.count(0x9F) >= 33, answers  # workers may judge one at the same moment
        Client.end_all()

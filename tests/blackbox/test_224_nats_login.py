# SPDX-License-Identifier: Apache-2.0
"""How an uplink shows a real nats-server who it is: user, token, nkey, credentials file; and TLS with certificates on both sides.
What is wrong is named, and mended by new files."""
import os
import ssl
import subprocess
import time

import pytest

from harness.jetstream import Client
from harness.nats_auth import Nkey, Operator, credentials, login
from harness.pki import Pki
from harness.remotes import Mosquitto, Nats, free_port, needed
from harness.wait import GUARD_S, until

LISTENERS = {"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0"}}
QUICK = {"backoff_min": "50ms", "backoff_max": "200ms", "connect_timeout": "3s"}
pytestmark = pytest.mark.guard(120)


def uplinked(run_gateway, url, kind="nats", engine=None, workers=1, **settings):
    sections = {"stream telemetry": {"topics": ["t/#"]},
                "uplink cloud": {"kind": kind, "url": [url], "streams": ["telemetry"], "client_id": "gw-%n", **QUICK, **settings}}
    return run_gateway(engine, workers=workers, listeners=LISTENERS, sections=sections)


def publish(gateway, *payloads):
    subprocess.run([needed("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(gateway.address("mqtt")[1]), "-t", "t/a", "-q", "1", "-l"],
                   input="\n".join(payloads) + "\n", text=True, check=True, timeout=GUARD_S * 4)


def row(gateway):
    return gateway.api("/api/uplinks")["uplinks"][0]["workers"][0]


def fails(gateway, error, detail=""):
    until(lambda: row(gateway)["error"] == error and detail in row(gateway)["detail"], lambda: f"{error} {detail}: {row(gateway)}",
          GUARD_S * 2)


def up(gateway):
    until(lambda: gateway.api("/api/uplinks")["uplinks"][0]["workers_up"] == gateway.workers, lambda: f"up: {row(gateway)}", GUARD_S * 2)


def write(path, text):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o644)
    return str(path)


def stored(server, count, **client):
    with Client(server.port, **client) as js:
        js.wait_count("T", count)


def stream(server, **client):
    with Client(server.port, **client) as js:
        js.stream_create("T", ["t.>"])


@pytest.mark.parametrize("server,settings,wrong", [
    ("user: sluice, password: pass", {"user": "sluice", "password": "pass"}, {"password": "other"}),
    ("token: t0ken", {"token": "t0ken"}, {"token": "other"}),
])
def test_user_and_token(run_gateway, server, settings, wrong):
    keys = {"user": {"user": "sluice", "pass": "pass"}, "token": {"auth_token": "t0ken"}}["user" if "user" in settings else "token"]
    with Nats(extra=f"authorization {{ {server} }}\n") as nats:
        stream(nats, login=lambda info: keys)
        gateway = uplinked(run_gateway, f"nats://127.0.0.1:{nats.port}", **{**settings, **wrong})
        fails(gateway, "bad_credentials", "Authorization Violation")
        publish(gateway, "m1")
        gateway.sections["uplink cloud"].update(settings)
        gateway.write_config()
        gateway.api("/api/reload", "POST")
        stored(nats, 1, login=lambda info: keys)


def said(gateway, *texts):
    until(lambda: all(text in gateway.stderr() for text in texts), lambda: f"{texts} in the log: {row(gateway)}", GUARD_S)


def test_a_subject_that_is_not_permitted_stops_nothing_else(run_gateway):
    users = ("{user: all, password: p}, {user: up, password: p, permissions: {publish: {deny: [\"t.no.>\"]}, "
             "subscribe: {allow: [\"_INBOX.>\", \"cmd.>\"]}}}")
    with Nats(extra=f"authorization {{ users: [ {users} ] }}\n") as nats:
        with Client(nats.port, login=lambda info: {"user": "all", "pass": "p"}) as js:
            js.stream_create("T", ["t.>"])
            gateway = uplinked(run_gateway, f"nats://127.0.0.1:{nats.port}", user="up", password="p", down=["other/#", "cmd/#"])
            up(gateway)
            mosquitto = [needed("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(gateway.address("mqtt")[1]), "-q", "1", "-m", "m", "-t"]
            for topic in ("t/no/1", "t/1", 't/no/a"\\b \u00e9\u200b', "t/2"):
                subprocess.run([*mosquitto, topic], check=True, timeout=GUARD_S * 4)
            js.wait_count("T", 2)
            until(lambda: row(gateway)["lag_messages"] == 0, lambda: f"drained: {row(gateway)}", GUARD_S)
            assert row(gateway)["dropped"] == {"refused": 2} and row(gateway)["retries"] == 0, row(gateway)
            assert [js.stream_message("T", n)[0] for n in (1, 2)] == ["t.1", "t.2"]
            said(gateway, "down: the remote refuses other.>", 'Permissions Violation for Publish to "t.no.1"); 1 so far')
            table = subprocess.run([gateway.command[0], "ctl", "--socket", gateway.settings["ctl_socket"], "uplinks"], text=True,
                                   capture_output=True, timeout=GUARD_S, check=True).stdout
            assert "DROPPED" in table and "refused 2" in table, table
            with Client(nats.port, login=lambda info: {"user": "all", "pass": "p"}) as other:  # the other filter is in force
                other.publish("cmd.go", b"now")
            until(lambda: row(gateway)["received"] == 1, lambda: f"received: {row(gateway)}", GUARD_S)


def test_nkey(run_gateway, tmp_path):
    key, other = Nkey("user"), Nkey("user")
    path = write(tmp_path / "user.nk", other.seed + "\n")
    with Nats(extra=f"authorization {{ users: [ {{ nkey: {key.public} }} ] }}\n") as nats:
        stream(nats, login=login(key))
        gateway = uplinked(run_gateway, f"nats://127.0.0.1:{nats.port}", nkey=path)
        fails(gateway, "bad_credentials")
        publish(gateway, "m1")
        write(path, "SUAN0TASEED\n")
        gateway.api("/api/reload", "POST")
        fails(gateway, "credentials_file", "there is no seed in it")
        write(path, key.seed + "\n")  # a file that is no good is read again without being told to
        stored(nats, 1, login=login(key))
        assert key.seed not in gateway.stderr()


@pytest.mark.parametrize("engine", ["uring", "epoll-et"])
def test_credentials_file(run_gateway, tmp_path, engine):
    operator = Operator()
    admin = operator.user("admin")
    key, text = operator.user("gateway")
    stranger, strange = Operator().user("stranger")
    path = write(tmp_path / "user.creds", credentials(stranger, strange))
    with Nats(extra=operator.server()) as nats:
        stream(nats, login=login(*admin))
        gateway = uplinked(run_gateway, f"nats://127.0.0.1:{nats.port}", engine=engine, workers=2, credentials=path)
        fails(gateway, "bad_credentials")
        publish(gateway, "m1", "m2")
        write(path, credentials(key, text))
        gateway.api("/api/reload", "POST")
        up(gateway)
        stored(nats, 2, login=login(*admin))


def test_credentials_that_end(run_gateway, tmp_path):
    """The server ends the connection when the JWT does; a newer file is taken at the next attempt after a reload."""
    operator = Operator()
    admin = operator.user("admin")
    with Nats(extra=operator.server()) as nats:
        stream(nats, login=login(*admin))
        path = write(tmp_path / "user.creds", credentials(*operator.user("short", exp=int(time.time()) + 5)))
        gateway = uplinked(run_gateway, f"nats://127.0.0.1:{nats.port}", credentials=path)
        up(gateway)
        fails(gateway, "bad_credentials")
        write(path, credentials(*operator.user("long")))
        gateway.api("/api/reload", "POST")
        publish(gateway, "m1")
        stored(nats, 1, login=login(*admin))


def certificates(directory):
    pki = Pki(directory)
    pki.authority("ca")
    pki.authority("other")
    pki.issue("server", "ca", san="DNS:localhost")
    pki.issue("client", "ca")
    pki.issue("stranger", "other")
    for name in ("ca", "other", "server", "client", "stranger"):
        os.chmod(pki.cert(name), 0o644)
        os.chmod(pki.key(name), 0o644)
    return pki


def context(pki):
    made = ssl.create_default_context(cafile=pki.cert("ca"))
    made.load_cert_chain(pki.cert("client"), pki.key("client"))
    return made


@pytest.mark.parametrize("engine", ["uring", "epoll-et"])
def test_tls_with_certificates_on_both_sides(run_gateway, tmp_path, engine):
    pki = certificates(tmp_path)
    tls = f'tls {{ cert_file: "{pki.cert("server")}", key_file: "{pki.key("server")}", ca_file: "{pki.cert("ca")}", verify: true }}\n'
    own = {"tls_ca": pki.cert("ca"), "tls_cert": pki.cert("client"), "tls_key": pki.key("client")}
    with Nats(extra=tls) as nats:
        stream(nats, tls=context(pki))
        gateway = uplinked(run_gateway, f"tls://localhost:{nats.port}", engine=engine, workers=2, down=["cmd/#"], **own)
        up(gateway)
        publish(gateway, *[f"m{i}" for i in range(300)])
        stored(nats, 300, tls=context(pki))
        conf = gateway.sections["uplink cloud"]
        for change, error, detail in (({"url": [f"tls://127.0.0.1:{nats.port}"]}, "tls_failed", "tls: "),
                                      ({"tls_ca": pki.cert("other")}, "tls_failed", "tls: "),
                                      ({"tls_cert": pki.cert("stranger"), "tls_key": pki.key("stranger")}, "tls_failed", ""),
                                      ({"url": [f"nats://localhost:{nats.port}"]}, "tls_needed", "tls://")):
            before = dict(conf)
            conf.update(change)
            gateway.write_config()
            gateway.api("/api/reload", "POST")
            fails(gateway, error, detail)
            conf.clear()
            conf.update(before)
        gateway.write_config()
        gateway.api("/api/reload", "POST")
        publish(gateway, "last")
        stored(nats, 301, tls=context(pki))


def test_server_without_tls_is_not_spoken_to(run_gateway, tmp_path):
    pki = certificates(tmp_path)
    with Nats() as nats:
        gateway = uplinked(run_gateway, f"tls://localhost:{nats.port}", tls_ca=pki.cert("ca"), user="u", password="secret")
        fails(gateway, "tls_failed", "offers no TLS")


@pytest.mark.parametrize("engine", ["uring", "epoll-et"])
def test_mosquitto_that_asks_for_a_certificate(run_gateway, tmp_path, engine):
    """MQTT: the own certificate, a wrong one, none, another authority; and renewed files after a reload."""
    broker, port = Mosquitto(), free_port()
    pki = certificates(broker.dir)  # it gives its rights up and still has to reach them
    broker.extra = (f"listener {port} 127.0.0.1\nkeyfile {pki.key('server')}\ncertfile {pki.cert('server')}\n"
                    f"cafile {pki.cert('ca')}\nrequire_certificate true\nuse_identity_as_username true")
    own = {"tls_ca": pki.cert("ca"), "tls_cert": str(tmp_path / "own.pem"), "tls_key": str(tmp_path / "own.key")}

    def renew(name):
        for kind, to in ((pki.cert, "own.pem"), (pki.key, "own.key")):
            with open(kind(name)) as f:
                write(tmp_path / to, f.read())
    renew("client")
    with broker:
        gateway = uplinked(run_gateway, f"mqtts://localhost:{port}", kind="mqtt", engine=engine, **own)
        up(gateway)
        renew("stranger")
        gateway.api("/api/reload", "POST")
        broker.stop()
        broker.start()  # the next connection uses what was read anew
        until(lambda: row(gateway)["error"] in ("tls_failed", "closed_by_remote", "connection_lost") and row(gateway)["state"] != "up",
              lambda: f"refused: {row(gateway)}", GUARD_S * 2)
        renew("client")
        gateway.api("/api/reload", "POST")
        up(gateway)
        gateway.sections["uplink cloud"]["tls_ca"] = pki.cert("other")
        gateway.write_config()
        gateway.api("/api/reload", "POST")
        fails(gateway, "tls_failed", "tls: ")

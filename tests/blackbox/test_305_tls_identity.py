# SPDX-License-Identifier: Apache-2.0
"""The name in a client's certificate is its user: for ACL files' `user` lines and %u, whatever user name it sends, as
with Mosquitto's use_identity_as_username; together with passwords; and over a reload."""
import signal
import ssl

import pytest

from harness import engines, pki as pki_of
from harness.accounts import Files, crypt_line
from harness.gateway import Gateway
from harness.mqtt_peer import V5, V311, Client, Ended
from harness.tls import context
from harness.wait import until

ENGINES = [(e, w) for e in engines.selected() for w in (1, 2)]
ACL = """topic read public/#
user device-7
topic readwrite seven/#
user admin
topic readwrite #
pattern readwrite own/%u/#
"""


@pytest.fixture(scope="module", name="pki")
def certificates(tmp_path_factory):
    pki = pki_of.standard(str(tmp_path_factory.mktemp("pki")))
    pki.issue("wild", "ca", cn="#")
    pki.issue("admin-of-others", "server", cn="admin")  # by no authority
    return pki


@pytest.fixture(scope="module", params=ENGINES, ids=lambda p: f"{p[0]}-{p[1]}w", name="process")
def running(request, pki, sluice, tmp_path_factory):
    engine, workers = request.param
    engines.need(engine)
    files = Files(str(tmp_path_factory.mktemp("files")))
    acl, passwords = files.write("acl", ACL), files.write("passwords", crypt_line("admin", "p"))

    def listener(more=None, **tls):
        return {"protocol": "mqtt", "bind": "127.0.0.1:0", "auth_delay": "20ms", "auth_failures": "unlimited",
                "tls": {"cert": pki.cert("server"), "key": pki.key("server"), "client_ca": pki.cert("ca"), **tls},
                **(more or {"acl_file": acl})}
    listeners = {"required": listener(), "dns": listener(identity="san_dns"),
                 "optional": listener({"acl_file": acl, "password_file": passwords}, client_auth="optional"),
                 "bare": listener({"max_subscriptions": 10})}
    with Gateway(sluice, engine, workers=workers, listeners=listeners) as gateway:
        gateway.acl = acl
        yield gateway


@pytest.fixture(name="gateway")
def nothing_left(process):
    yield process
    Client.end_all()
    process.expect_no_conns()


def client(gateway, pki, cert, listener="required", expect=0, client_id=None, version=V5, **more):
    it = Client(gateway.address(listener), version)
    it.sock = context(pki, cert=cert).wrap_socket(it.sock, server_hostname="localhost")
    return it.hello(client_id, expect=expect, **more)


def may(it, topic):
    return it.publish(topic, b"x", qos=1) in (0, 0x10)


@pytest.mark.parametrize("more", [{}, {"user": "admin"}, {"user": "admin", "password": b"p"}])
def test_the_certificates_name_counts(gateway, pki, more):
    it = client(gateway, pki, "device", **more)
    assert [may(it, t) for t in ("seven/x", "own/device-7/x", "own/admin/x", "x")] == [True, True, False, False]
    assert list(it.subscribe("seven/#", "public/x", "own/+/x", "admin/#")) == [0, 0x87, 0, 0x87]
    assert gateway.metric("sluice_auth_total", result="certificate") >= 1


def test_3_1_1(gateway, pki):
    it = client(gateway, pki, "device", version=V311)
    it.subscribe("seven/#", qos=1)
    it.publish("x", b"goes nowhere", qos=1)
    it.publish("seven/x", b"comes", qos=1)
    assert it.message().payload == b"comes"


def test_another_kind_of_name(gateway, pki):
    it = client(gateway, pki, "device", listener="dns")
    assert [may(it, t) for t in ("own/device-7.fleet/x", "own/device-7/x", "seven/x")] == [True, False, False]


def test_a_name_that_is_a_wildcard_fits_no_pattern(gateway, pki):
    it = client(gateway, pki, "wild")
    assert not may(it, "own/device-7/x") and not may(it, "own/x/x")
    assert list(it.subscribe("own/#", "own/+/x")) == [0x87, 0x87]


def test_no_certificate_no_entrance(gateway, pki):
    for cert in (None, "admin-of-others"):
        with pytest.raises((ssl.SSLError, OSError, Ended)):
            client(gateway, pki, cert).ping()


def test_beside_passwords(gateway, pki):
    assert may(client(gateway, pki, "device", listener="optional"), "seven/x")
    assert may(client(gateway, pki, None, listener="optional", user="admin", password=b"p"), "anything")
    # A password that is brought is judged, and its user counts; a wrong one is not made good by a certificate.
    assert may(client(gateway, pki, "device", listener="optional", user="admin", password=b"p"), "anything")
    client(gateway, pki, "device", listener="optional", expect=0x86, user="admin", password=b"no").expect_end()
    client(gateway, pki, None, listener="optional", expect=0x87).expect_end()


def test_a_resumed_session_has_the_same_name(gateway, pki):
    tls = context(pki, cert="device")
    session = None
    for _ in range(2):
        it = Client(gateway.address("required"))
        it.sock = tls.wrap_socket(it.sock, server_hostname="localhost", session=session)
        it.hello()
        assert may(it, "own/device-7/x") and not may(it, "x")
        session = it.sock.session
        resumed = it.sock.session_reused
        it.bye()
    assert resumed


def test_over_a_reload(gateway, pki):
    """A client of a listener that had no files keeps its name when it gets some, and is not dropped by any reload."""
    it = client(gateway, pki, "device", listener="bare")
    assert may(it, "x")

    def reload():
        before = gateway.status()["reloads"]
        gateway.write_config()
        gateway.signal(signal.SIGHUP)
        until(lambda: gateway.status()["reloads"] != before, "the reload is applied")
    reload()
    it.ping()
    gateway.listeners["bare"]["acl_file"] = gateway.acl
    try:
        reload()
        until(lambda: not may(it, "x"), "the new rights hold")
        assert may(it, "seven/x") and may(it, "own/device-7/x") and not may(it, "own/admin/x")
    finally:
        del gateway.listeners["bare"]["acl_file"]
        reload()
    until(lambda: may(it, "x"), "the old rights hold again")

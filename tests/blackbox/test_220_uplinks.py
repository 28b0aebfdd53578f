# SPDX-License-Identifier: Apache-2.0
"""Uplinks to real Mosquitto and nats-server: everything that was acknowledged arrives, whatever breaks on the way."""
import pathlib
import subprocess
import time

import pytest

from harness.jetstream import Client
from harness.remotes import Collector, Mosquitto, Mute, Nats, Proxy, free_port, needed
from harness.uplink import all_up, drained, view
from harness.wait import GUARD_S, until

LISTENERS = {"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0"}}
QUICK = {"backoff_min": "50ms", "backoff_max": "300ms", "keepalive": "1s", "ping_timeout": "1s", "ack_timeout": "3s",
         "connect_timeout": "3s"}
pytestmark = pytest.mark.guard(240)


@pytest.fixture
def mosquitto():
    with Mosquitto() as broker:
        yield broker


@pytest.fixture
def nats():
    with Nats() as server:
        yield server


def uplinked(run_gateway, url, kind="mqtt", engine=None, workers=2, directory=None, **settings):
    urls = url if isinstance(url, list) else [url]
    sections = {"stream telemetry": {"topics": ["t/#"]},
                "uplink cloud": {"kind": kind, "url": urls, "streams": ["telemetry"], "client_id": "gw-%n", **QUICK, **settings}}
    return run_gateway(engine, workers=workers, listeners=LISTENERS, sections=sections, directory=directory)


def publish(gateway, payloads, topic="t/a", qos=1):
    """Returns when the gateway has acknowledged all of them."""
    subprocess.run([needed("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(gateway.address("mqtt")[1]), "-t", topic, "-q", str(qos),
                    "-l", "-V", "mqttv5"], input="\n".join(payloads) + "\n", text=True, check=True, timeout=GUARD_S * 4)


def numbered(first, count):
    return [f"m{n}" for n in range(first, first + count)]


def in_order_at_first_sight(payloads):
    """First occurrences come in the order they were published."""
    seen = list(dict.fromkeys(payloads))
    assert seen == sorted(seen, key=lambda p: int(p[1:]))


def test_messages_go_up_and_commands_come_down(run_gateway, mosquitto):
    gateway = uplinked(run_gateway, f"mqtt://localhost:{mosquitto.port}", prefix="site7/", down=["site7/cmd/# -> devices/#"],
                       remap=["t/raw/+ -> cooked/+/x"], status_topic="site7/state")
    with Collector(mosquitto.port, "site7/#") as there:
        all_up(gateway)
        publish(gateway, ["one"], topic="t/a")
        publish(gateway, ["two"], topic="t/raw/9")
        there.wait(["one", "two", "online"])
        rows = {payload: topic for topic, payload, *_ in there.rows}
        assert rows["one"] == "site7/t/a" and rows["two"] == "site7/cooked/9/x" and rows["online"] == "site7/state"
        with Collector(gateway.address("mqtt")[1], "devices/#", client="device") as device:
            subprocess.run([needed("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(mosquitto.port), "-t", "site7/cmd/7/down", "-m", "go",
                            "-q", "1", "-V", "mqttv5"], check=True, timeout=GUARD_S)
            device.wait(["go"])
            topic, payload, properties = (*device.rows[0], "")[:3]
            assert (topic, payload) == ("devices/7/down", "go") and "sluice-via" in properties
        drained(gateway)
    assert "cloud" in subprocess.run([gateway.command[0], "ctl", "--socket", gateway.settings["ctl_socket"], "uplinks"],
                                     capture_output=True, text=True, check=True).stdout


def test_what_comes_down_does_not_go_up_again(run_gateway, mosquitto):
    gateway = uplinked(run_gateway, f"mqtt://127.0.0.1:{mosquitto.port}", down=["t/#"])
    with Collector(mosquitto.port, "t/#") as there:
        all_up(gateway)
        subprocess.run([needed("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(mosquitto.port), "-t", "t/x", "-m", "from there", "-q", "1"],
                       check=True, timeout=GUARD_S)
        publish(gateway, ["from here"])
        there.wait(["from there", "from here"])
        def loops():
            return sum(w["dropped"].get("loop", 0) for w in view(gateway)["workers"])
        until(lambda: loops() == 1, lambda: f"it is kept from going up: {view(gateway)}")
        drained(gateway)
        time.sleep(0.5)  # a loop would have gone round many times
        assert sorted(there.payloads()) == ["from here", "from there"]
        assert loops() == 1, view(gateway)


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_outage_of_the_broker(run_gateway, mosquitto, version):
    gateway = uplinked(run_gateway, f"mqtt://127.0.0.1:{mosquitto.port}", version=version)
    with Collector(mosquitto.port, "t/#") as there:
        all_up(gateway)
        publish(gateway, numbered(0, 200))
        there.wait(numbered(0, 200))
        mosquitto.stop()
        until(lambda: view(gateway)["workers_up"] == 0, "the uplink has noticed")
        publish(gateway, numbered(200, 1000))
        until(lambda: view(gateway)["lag_messages"] == 1000, lambda: f"the backlog is told: {view(gateway)}")
        assert view(gateway)["workers"][0]["error"] in ("closed_by_remote", "connection_lost", "connect_refused")
        mosquitto.start()
        in_order_at_first_sight(there.wait(numbered(0, 1200)))
        drained(gateway)


def test_line_that_swallows_everything(run_gateway, mosquitto):
    with Proxy(mosquitto.port) as line:
        gateway = uplinked(run_gateway, f"mqtt://127.0.0.1:{line.port}", workers=1)
        with Collector(mosquitto.port, "t/#") as there:
            all_up(gateway)
            publish(gateway, numbered(0, 50))
            there.wait(numbered(0, 50))
            line.stall()
            gateway.wait_log(r"uplink cloud: .*: silent ")
            publish(gateway, numbered(50, 300))
            line.drop()
            line.mend()
            in_order_at_first_sight(there.wait(numbered(0, 350)))
            drained(gateway)


def test_broker_that_never_acknowledges_is_left_for_the_next(run_gateway, mosquitto):
    with Mute() as mute, Collector(mosquitto.port, "t/#") as there:
        # It answers pings no more than publications: keepalive must not be what saves us.
        gateway = uplinked(run_gateway, [f"mqtt://127.0.0.1:{mute.port}", f"mqtt://127.0.0.1:{mosquitto.port}"], workers=1,
                           keepalive="1h", ack_timeout="500ms")
        publish(gateway, numbered(0, 20))
        there.wait(numbered(0, 20))
        gateway.wait_log(r"uplink cloud: .*: ack_timeout ")
        assert mute.connections >= 1
        drained(gateway)


def test_next_url_when_the_first_refuses(run_gateway, mosquitto):
    gateway = uplinked(run_gateway, [f"mqtt://127.0.0.1:{free_port()}", f"mqtt://name.invalid:{mosquitto.port}",
                                     f"mqtt://127.0.0.1:{mosquitto.port}"], workers=1)
    with Collector(mosquitto.port, "t/#") as there:
        publish(gateway, ["m1"])
        there.wait(["m1"])
    assert view(gateway)["workers"][0]["remote"].endswith(str(mosquitto.port))


def test_kill_during_the_drain(make_gateway, mosquitto, tmp_path):
    count = 3000
    gateway = uplinked(lambda *a, **k: make_gateway(*a, **k).start(), f"mqtt://127.0.0.1:{mosquitto.port}", rate=1500, workers=2,
                       directory=str(tmp_path))
    with Collector(mosquitto.port, "t/#") as there:
        all_up(gateway)
        mosquitto.stop()
        publish(gateway, numbered(0, count))
        mosquitto.start()
        until(lambda: len(there.payloads()) > count // 10, "the drain has begun", GUARD_S * 4)
        gateway.kill()
        gateway.start()
        gateway.forget_addresses()
        in_order_at_first_sight(there.wait(numbered(0, count)))
        drained(gateway)


def test_another_number_of_workers(make_gateway, mosquitto, tmp_path):
    """What was not acknowledged goes out whatever the number of logs becomes, and so does what comes later."""
    gateway = uplinked(lambda *a, **k: make_gateway(*a, **k).start(), f"mqtt://127.0.0.1:{mosquitto.port}", workers=3,
                       directory=str(tmp_path), down=["cmd/#"])
    first = 0
    with Collector(mosquitto.port, "t/#") as there:
        all_up(gateway)
        for n in range(3):  # from publishers on different workers
            publish(gateway, numbered(first + 100 * n, 100))
        first = 300
        there.wait(numbered(0, first))
        for workers in (1, 2, 4):
            mosquitto.stop()
            until(lambda: view(gateway)["workers_up"] == 0, "the uplink has noticed")
            for n in range(4):
                publish(gateway, numbered(first + 50 * n, 50))
            gateway.kill()  # offsets of a fifth of a second and 200 messages are open
            gateway.workers = workers
            gateway.forget_addresses()
            gateway.start()
            publish(gateway, numbered(first + 200, 10))
            mosquitto.start()
            first += 210
            there.wait(numbered(0, first))
            all_up(gateway)
            drained(gateway)


@pytest.mark.parametrize("engine", ["uring", "epoll-et"])
def test_jetstream(run_gateway, nats, engine):
    with Client(nats.port) as js:
        js.stream_create("T", ["site.>"])
        gateway = uplinked(run_gateway, f"nats://127.0.0.1:{nats.port}", kind="nats", engine=engine, prefix="site/", down=["cmd/+/#"])
        all_up(gateway)
        publish(gateway, numbered(0, 500), topic="t/$a b/c.d")
        js.wait_count("T", 500)
        drained(gateway)
        subject, headers, payload = js.stream_message("T", 1)
        assert (subject, payload) == ("site.t.$a%20b.c%2Ed", "m0")
        assert "Nats-Msg-Id: gw-cloud." in headers and "sluice-via: gw-cloud" in headers
        with Collector(gateway.address("mqtt")[1], "cmd/#", client="device") as device:
            js.publish("cmd.7.go", b"now")
            device.wait(["now"])
            assert device.rows[0][0] == "cmd/7/go"


def test_jetstream_takes_each_message_once_over_kills_and_restarts(make_gateway, nats, tmp_path):
    count = 3000
    with Client(nats.port) as js:
        js.stream_create("T", ["t.>"])
    gateway = uplinked(lambda *a, **k: make_gateway(*a, **k).start(), f"nats://127.0.0.1:{nats.port}", kind="nats", rate=2000,
                       directory=str(tmp_path))
    all_up(gateway)
    nats.stop()
    publish(gateway, numbered(0, count))
    nats.start()
    with Client(nats.port) as js:
        js.wait_count("T", count // 10)
        gateway.kill()
        gateway.start()
        gateway.forget_addresses()
        js.wait_count("T", count // 2)
    nats.stop()  # and the server in the middle of it, once more
    nats.start()
    drained(gateway)
    with Client(nats.port) as js:
        js.wait_count("T", count)
        payloads = js.stream_payloads("T")
    assert len(payloads) == count and set(payloads) == set(numbered(0, count))
    assert payloads == sorted(payloads, key=lambda p: int(p[1:]))


def test_no_jetstream_stream_is_said_and_waited_for(run_gateway, nats):
    gateway = uplinked(run_gateway, f"nats://127.0.0.1:{nats.port}", kind="nats", workers=1)
    publish(gateway, ["m1"])
    until(lambda: view(gateway)["workers"][0]["error"] == "no_stream", lambda: f"no_stream: {view(gateway)}")
    with Client(nats.port) as js:
        js.stream_create("T", ["t.>"])
        js.wait_count("T", 1)
    drained(gateway)


def test_wrong_password_is_named(run_gateway):
    with Mosquitto(extra="password_file /dev/null\nallow_anonymous false") as broker:
        gateway = uplinked(run_gateway, f"mqtt://127.0.0.1:{broker.port}", workers=1, user="u", password="p")
        until(lambda: view(gateway)["workers"][0]["error"] in ("bad_credentials", "not_authorized"),
              lambda: f"refused: {view(gateway)}")


def certificates(directory):
    """An authority and a server's certificate for localhost."""
    def run(*args):
        subprocess.run([needed("openssl"), *args], cwd=directory, check=True, capture_output=True)
    run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
        "-subj", "/CN=authority", "-days", "30")
    run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "server.key", "-out", "server.csr",
        "-subj", "/CN=localhost")
    (directory / "names").write_text("subjectAltName=DNS:localhost\n")
    run("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "server.pem", "-days", "30",
        "-extfile", "names")
    for name in ("server.key", "server.pem", "ca.pem"):
        (directory / name).chmod(0o644)


@pytest.mark.parametrize("engine", ["uring", "epoll-et"])
def test_mqtt_over_tls(run_gateway, engine):
    broker, port = Mosquitto(), free_port()
    directory = pathlib.Path(broker.dir)
    certificates(directory)
    broker.extra = f"listener {port} 127.0.0.1\nkeyfile {directory}/server.key\ncertfile {directory}/server.pem"
    with broker:
        gateway = uplinked(run_gateway, f"mqtts://localhost:{port}", engine=engine, tls_ca=f"{directory}/ca.pem")
        with Collector(broker.port, "t/#") as there:
            all_up(gateway)
            publish(gateway, numbered(0, 300))
            there.wait(numbered(0, 300))
            drained(gateway)
            # Another name than the certificate's is refused, and nothing is sent there.
            gateway.sections["uplink cloud"]["url"] = [f"mqtts://127.0.0.1:{port}"]
            gateway.write_config()
            gateway.api("/api/reload", "POST")
            publish(gateway, ["m300"])
            until(lambda: view(gateway)["workers"][0]["error"] == "tls_failed", lambda: f"refused: {view(gateway)}")
            assert "m300" not in there.payloads()


def test_newest_first(run_gateway, mosquitto):
    """A message that comes while a backlog drains overtakes it. The line stands still while it is published, so that there is a backlog
    however long that takes: what was sent before, and what may be on its way, comes first, and no more."""
    in_flight = 20
    with Proxy(mosquitto.port) as line:
        gateway = uplinked(run_gateway, f"mqtt://127.0.0.1:{line.port}", workers=1, order="newest", rate=200, inflight=in_flight,
                           keepalive="1h", ack_timeout="1h")
        with Collector(mosquitto.port, "t/#") as there:
            all_up(gateway)
            mosquitto.stop()
            until(lambda: view(gateway)["workers_up"] == 0, "the uplink has noticed")
            publish(gateway, numbered(0, 600))
            mosquitto.start()
            all_up(gateway)
            line.stall()
            publish(gateway, ["m9999"])
            sent = view(gateway)["workers"][0]["sent"]
            line.mend()
            payloads = there.wait(numbered(0, 600) + ["m9999"])
            assert payloads.index("m9999") <= sent + in_flight, "what was new had to wait for the backlog"
            drained(gateway)


def test_reload_changes_and_removes(run_gateway, mosquitto):
    gateway = uplinked(run_gateway, f"mqtt://127.0.0.1:{mosquitto.port}")
    with Collector(mosquitto.port, "#") as there:
        all_up(gateway)
        publish(gateway, ["m1"])
        there.wait(["m1"])
        gateway.sections["uplink cloud"]["prefix"] = "new/"
        gateway.write_config()
        gateway.api("/api/reload", "POST")
        all_up(gateway)
        publish(gateway, ["m2"])
        there.wait(["m1", "m2"])
        assert [row[0] for row in there.rows if row[1] == "m2"] == ["new/t/a"]
        assert there.payloads().count("m1") == 1
        del gateway.sections["uplink cloud"]
        gateway.write_config()
        gateway.api("/api/reload", "POST")
        until(lambda: gateway.api("/api/uplinks")["uplinks"] == [], "the uplink is gone")
        gateway.expect_no_conns()


def test_memory_does_not_grow_with_the_backlog(run_gateway):
    gateway = uplinked(run_gateway, f"mqtt://127.0.0.1:{free_port()}", workers=1)
    payload = "x" * 1000
    publish(gateway, [payload] * 500)
    before = gateway.metric("sluice_process_resident_memory_bytes")
    publish(gateway, [payload] * 20000)
    until(lambda: view(gateway)["lag_messages"] == 20500, lambda: f"lag: {view(gateway)}")
    assert gateway.metric("sluice_process_resident_memory_bytes") - before < 8 << 20

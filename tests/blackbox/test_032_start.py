# SPDX-License-Identifier: Apache-2.0
"""Starting: after a kill, beside another instance, without a place for its data, with a wrong command line or
file. What can not start says why and leaves nothing half-started."""
import os
import re
import signal
import subprocess

import pytest

from harness.client import Device, ack, frame
from harness.gateway import Exited, Gateway
from harness.wait import GUARD_S


def run(sluice, *arguments, **options):
    return subprocess.run([sluice, *arguments], capture_output=True, text=True, timeout=GUARD_S,
                          stdin=subprocess.DEVNULL, **options)


def test_killed_and_restarted_on_the_same_port(engine, sluice, make_gateway):
    """Connections were open, the control socket is left behind: the next start has to cope at once."""
    first = make_gateway(engine, workers=2, listeners={"ack": {"mode": "ack"}}).start()
    port = first.address("ack")[1]
    devices = [Device(first.address("ack")) for _ in range(20)]
    for device in devices:
        device.send(frame(b"x"))
        device.expect(ack(1))
    first.listeners["ack"]["bind"] = f"127.0.0.1:{port}"
    for _ in range(3):
        first.signal(signal.SIGKILL)
        first.process.wait()
        for device in devices:
            device.expect_end()
            device.close()
        first.forget_addresses()
        first.start()
        devices = [Device(first.address("ack")) for _ in range(20)]
        for device in devices:
            device.send(frame(b"x"))
            device.expect(ack(1))
    for device in devices:
        device.close()


def test_restarted_after_an_orderly_stop(engine, make_gateway):
    """The gateway closed first, so its port is full of TIME_WAIT."""
    gateway = make_gateway(engine, workers=2, listeners={"ack": {"mode": "ack"}},
                           settings={"drain_timeout": "5s"}).start()
    gateway.listeners["ack"]["bind"] = "127.0.0.1:%d" % gateway.address("ack")[1]
    for _ in range(3):
        devices = [Device(gateway.address("ack")) for _ in range(20)]
        for device in devices:
            device.send(frame(b"x"))
            device.expect(ack(1))
        gateway.signal(signal.SIGTERM)
        for device in devices:
            device.expect_end()
            device.close()
        assert gateway.wait_exit() == 0
        gateway.forget_addresses()
        gateway.start()


def fails_to_start(gateway, pattern):
    with pytest.raises(Exited) as caught:
        gateway.start()
    assert caught.value.code not in (0, None) and caught.value.code > 0, caught.value
    assert re.search(pattern, caught.value.stderr, re.I), caught.value
    return caught.value


def test_second_instance_on_the_same_port(run_gateway, make_gateway):
    """SO_REUSEPORT must not let two gateways share a port in silence."""
    first = run_gateway("epoll-et", workers=2, listeners={"ack": {"mode": "ack"}})
    port = first.address("ack")[1]
    second = make_gateway("epoll-et", workers=2,
                          listeners={"ack": {"mode": "ack", "bind": f"127.0.0.1:{port}"}})
    fails_to_start(second, rf"{port}.*(EADDRINUSE|in use)|(EADDRINUSE|in use).*{port}")
    for _ in range(10):
        with Device(first.address("ack")) as device:
            device.send(frame(b"mine"))
            device.expect(ack(1))


def test_second_instance_on_the_same_data(run_gateway, make_gateway):
    first = run_gateway("epoll-et")
    second = make_gateway("epoll-et", settings={"data_dir": first.settings["data_dir"],
                                                "ctl_socket": first.settings["ctl_socket"]})
    second.spawn()
    code, text = second.wait_exit(), second.stderr()
    assert code > 0, text
    assert re.search(r"another|in use|EADDRINUSE|locked", text, re.I), text
    assert first.request("/healthz").status == 200


def test_port_of_another_program(make_gateway):
    import socket
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        gateway = make_gateway("epoll-et", listeners={"a": {"mode": "ack", "bind": f"127.0.0.1:{port}"}})
        fails_to_start(gateway, rf"{port}.*EADDRINUSE|EADDRINUSE.*{port}")


def test_address_that_is_not_ours(make_gateway):
    gateway = make_gateway("epoll-et", listeners={"a": {"mode": "ack", "bind": "192.0.2.1:7000"}})
    fails_to_start(gateway, r"192\.0\.2\.1:7000.*EADDRNOTAVAIL|EADDRNOTAVAIL.*192\.0\.2\.1:7000")


@pytest.mark.parametrize("kind", ["is a file", "below a file", "read-only"])
def test_data_dir_that_can_not_be_used(make_gateway, kind):
    gateway = make_gateway("epoll-et")
    place = f"{gateway.directory}/place"
    if kind == "read-only":
        place = "/proc/sys/sluice-data"
    else:
        with open(place, "w") as f:
            f.write("not a directory")
        if kind == "below a file":
            place += "/data"
    gateway.settings["data_dir"] = place
    del gateway.settings["ctl_socket"]
    gateway.spawn()
    code = gateway.wait_exit()
    text = gateway.stderr()
    assert code > 0 and place in text, (code, text)
    assert re.search(r"ENOTDIR|EEXIST|EACCES|EROFS|ENOENT|EPERM|not a directory", text), text


@pytest.mark.parametrize("text, pattern", [
    ("listener a {", r"sluice\.conf:\d+"),
    ("no_such_key = 1;", r"sluice\.conf:1: .*no_such_key"),
    ('listener a {\n  protocol = frame;\n  mode = shout;\n}\n', r"sluice\.conf:3: .*mode.*echo"),
    ('listener a {\n  protocol = frame;\n  bind = "nowhere";\n}\n', r"sluice\.conf:3: .*bind"),
    ('listener a {\n  protocol = frame;\n  max_frame = 999g;\n}\n', r"sluice\.conf:3: .*max_frame"),
    ('engine = "kqueue";', r"sluice\.conf:1: .*engine.*uring"),
    ('log {\n  level = "chatty";\n}\n', r"sluice\.conf:2: .*level.*(error|info)"),
])
def test_mistakes_in_the_file_are_named(sluice, tmp_path, text, pattern):
    path = tmp_path / "sluice.conf"
    path.write_text(text)
    for command in ("check", "run"):
        result = run(sluice, command, "-c", str(path))
        assert result.returncode > 0, (command, result)
        assert re.search(pattern, result.stderr + result.stdout), (command, result)


def test_missing_file_is_named(sluice, tmp_path):
    for command in ("check", "run"):
        result = run(sluice, command, "-c", str(tmp_path / "none.conf"))
        assert result.returncode > 0 and "none.conf" in result.stderr + result.stdout, result


def test_check_accepts_what_run_accepts(sluice, make_gateway):
    gateway = make_gateway("epoll-et")
    gateway.write_config()
    result = run(sluice, "check", "-c", gateway.config_path)
    assert result.returncode == 0, result


@pytest.mark.parametrize("arguments", [
    ["no-such-command"], ["run", "--no-such-option"], ["run", "--engine", "kqueue"],
    ["run", "--workers", "0x"], ["run", "--workers", "1000"], ["run", "-c"], ["run", "stray"],
])
def test_wrong_command_lines_are_refused(sluice, tmp_path, arguments):
    result = run(sluice, *arguments, cwd=tmp_path)
    assert result.returncode > 0, result
    assert result.stderr.strip(), "nothing is said"
    assert not os.listdir(tmp_path), "something was left behind"


def test_version_and_help(sluice):
    version = run(sluice, "version")
    assert version.returncode == 0 and re.search(r"\d+\.\d+", version.stdout), version
    usage = run(sluice, "help")
    assert usage.returncode == 0, usage
    for command in ("run", "check", "probe", "tune", "bench", "ctl", "version"):
        assert re.search(rf"\b{command}\b", usage.stdout), f"help does not name {command}"


def test_starts_on_its_defaults(sluice, tmp_path):
    """No file: loopback listeners and ./sluice-data. The default ports must be free for this."""
    import socket
    for port in (7000, 9600):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                pytest.skip(f"port {port} is in use by another program")
    from harness import http, proc
    from harness.wait import until
    process = subprocess.Popen([sluice, "run"], cwd=tmp_path, stdin=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, preexec_fn=proc.child_setup())
    try:
        def ready():
            assert process.poll() is None, process.stderr.read()
            try:
                return http.request(("127.0.0.1", 9600), "/readyz").status == 200
            except OSError:
                return False
        until(ready, "it is ready")
        assert os.path.isdir(tmp_path / "sluice-data")
        with Device(("127.0.0.1", 7000)) as device:
            device.send(frame(b"hello"))
            device.expect(ack(1))
        process.terminate()
        assert process.wait(GUARD_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_workers_are_pinned(engine, run_gateway):
    from harness import proc
    gateway = run_gateway(engine, workers=2)
    masks = []
    for task in os.listdir(f"/proc/{gateway.pid}/task"):
        masks.append(tuple(sorted(os.sched_getaffinity(int(task)))))
    single = {m for m in masks if len(m) == 1}
    if len(proc.cpus()) < 2:
        pytest.skip("one CPU only")
    assert len(single) >= 2, f"affinities {masks}"


__all__ = ["Gateway"]

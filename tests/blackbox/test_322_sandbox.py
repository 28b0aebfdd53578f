# SPDX-License-Identifier: Apache-2.0
"""What the process has given up, seen from outside: /proc, its status, its ports; and that everything goes on under it:
serving, reload, log rotation, crash report. tests/unit/test_sandbox.c shows what the lists refuse."""
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest
from conftest import needed
from harness import proc
from harness.client import Device, ack, frame
from harness.wait import GUARD_S, until

ACK = {"echo": {"mode": "ack"}}


def threads(pid):
    """Name: value of /proc/PID/task/*/status, a dictionary for each thread."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/status") as f:
            yield dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def serves(gateway, listener="echo"):
    with Device(gateway.address(listener)) as device:
        device.send(frame(b"x"))
        device.expect(ack(1))


def as_user(make_gateway, user, **more):
    """A gateway that root starts and that becomes a user, with its files where that user reaches them."""
    gateway = make_gateway(**more)
    os.chmod(gateway.directory, 0o755)
    gateway.settings.update({"user": user, "ctl_socket": gateway.settings["data_dir"] + "/ctl.sock"})
    return gateway.start()


def kernel_has_filters():
    with open("/proc/self/status") as f:
        return "Seccomp:" in f.read()


def test_every_thread_has_given_it_up(run_gateway, engine):
    gateway = run_gateway(engine, workers=2, listeners=ACK)
    serves(gateway)
    state = gateway.status()["sandbox"]
    assert state["mode"] == "on" and state["capabilities"] == "none", state
    seen = list(threads(gateway.pid))
    assert len(seen) >= 4
    for thread in seen:
        for field in ("CapPrm", "CapEff", "CapAmb", "CapInh"):
            if field != "CapInh":
                assert int(thread[field], 16) == 0, (thread["Name"], field, thread[field])
        assert thread["NoNewPrivs"] == "1", thread["Name"]
        if kernel_has_filters() and not state["seccomp"].startswith("not available"):
            assert thread["Seccomp"] == "2", thread["Name"]
    gateway.wait_log(r"sandbox on: user .*; capabilities: none; landlock: .*; seccomp: \d+ rules")


def test_it_is_not_dumpable(run_gateway, make_gateway):
    gateway = run_gateway(listeners=ACK)
    # What is not dumpable belongs to root in /proc, and other processes of the same user can not look into it.
    assert os.stat(f"/proc/{gateway.pid}/environ").st_uid == 0
    user = 54321
    if os.geteuid() == 0:
        gateway = as_user(make_gateway, str(user), listeners=ACK)
        assert os.stat(f"/proc/{gateway.pid}/mem").st_uid == 0
        look = subprocess.run(["/usr/bin/python3", "-c", f"open('/proc/{gateway.pid}/mem', 'rb')"], capture_output=True,
                              preexec_fn=lambda: os.setuid(user), check=False)
        assert b"PermissionError" in look.stderr, look.stderr


def test_another_user(make_gateway):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    gateway = as_user(make_gateway, "54321:54322", workers=2, listeners=ACK)
    serves(gateway)
    for thread in threads(gateway.pid):
        assert thread["Uid"].split() == ["54321"] * 4 and thread["Gid"].split() == ["54322"] * 4, thread["Name"]
        assert thread.get("Groups", "").strip() == ""
    assert gateway.status()["sandbox"]["user"] == "54321:54322"
    assert os.stat(gateway.settings["data_dir"]).st_uid == 54321
    assert "runs as root" not in gateway.stderr()


@pytest.mark.parametrize("case", ["root", "user", "refused"])
def test_the_writer_of_the_log_comes_first(make_gateway, case):
    """The least real-time priority, as root, as a user that root became, and a start without it where it is refused."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pytest.skip("needs CAP_SYS_NICE")
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    if os.geteuid() != 0:
        pytest.skip("needs root")
    gateway = make_gateway(workers=1, listeners=ACK)
    if case == "refused":
        gateway.command = ["setpriv", "--bounding-set=-sys_nice", *gateway.command]
    gateway = as_user(lambda: gateway, "54321") if case == "user" else gateway.start()
    serves(gateway)
    policies = {}
    for tid in map(int, os.listdir(f"/proc/{gateway.pid}/task")):
        with open(f"/proc/{gateway.pid}/task/{tid}/comm") as f:
            policies[f.read().strip()] = (os.sched_getscheduler(tid), os.sched_getparam(tid).sched_priority)
    writer = policies.pop("sluice-log0")
    assert writer == ((os.SCHED_OTHER, 0) if case == "refused" else (os.SCHED_FIFO, 1)), writer
    assert set(policies.values()) == {(os.SCHED_OTHER, 0)}, policies


def test_a_user_that_is_not_there(make_gateway):
    gateway = make_gateway(listeners=ACK, settings={"user": "nobody-has-this-name"})
    gateway.spawn()
    assert gateway.wait_exit() == 1
    assert re.search(r"user nobody-has-this-name: there is none", gateway.stderr())


def test_a_low_port_at_start_and_at_reload(make_gateway):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    ports = []
    for port in range(700, 1024):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            ports.append(port)
        if len(ports) == 2:
            break
    gateway = as_user(make_gateway, "54321",
                      listeners={**ACK, "low": {"bind": f"127.0.0.1:{ports[0]}", "mode": "ack"}})
    serves(gateway, "low")
    gateway.listeners["lower"] = {"bind": f"127.0.0.1:{ports[1]}", "mode": "ack"}
    gateway.write_config()
    os.chmod(gateway.config_path, 0o644)
    gateway.signal(signal.SIGHUP)
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start") as f:
        refused = ports[1] < int(f.read())
    gateway.wait_log(r"refused.*EACCES.*CAP_NET_BIND_SERVICE" if refused else "reload: applied")
    serves(gateway)


def test_reload_and_log_rotation_go_on(run_gateway, engine):
    gateway = run_gateway(engine, listeners=ACK)
    directory = f"{gateway.directory}/logs"
    os.mkdir(directory)
    gateway.stop()
    gateway.sections["log"].update({"file": f"{directory}/log", "file_max": "64k", "file_keep": 2})
    gateway.start()
    for number in range(3):  # the file of the configuration is a new one each time
        gateway.listeners[f"more{number}"] = {"mode": "ack"}
        gateway.write_config()
        gateway.signal(signal.SIGHUP)
        until(lambda: gateway.status()["reloads"] == number + 1, gateway.stderr)
        gateway.forget_addresses()
        serves(gateway, f"more{number}")
    with Device(gateway.address("echo")):
        pass

    def rotated():
        for _ in range(50):
            Device(gateway.address("echo")).close()
        return os.path.exists(f"{directory}/log.1")
    until(rotated, "the log is rotated")
    assert gateway.status()["log"]["sink_errors"] == 0


def test_files_outside_are_refused_at_reload(run_gateway, tmp_path):
    gateway = run_gateway(listeners=ACK)
    if not gateway.status()["sandbox"]["landlock"].startswith("ABI"):
        pytest.skip(f"landlock: {gateway.status()['sandbox']['landlock']}")
    gateway.sections["log"]["file"] = str(tmp_path / "elsewhere.log")
    gateway.write_config()
    gateway.signal(signal.SIGHUP)
    gateway.wait_log(r"reload: log file .*elsewhere.log: EACCES")
    assert not (tmp_path / "elsewhere.log").exists()
    serves(gateway)


def test_a_crash_is_reported(make_gateway):
    gateway = make_gateway(workers=2, listeners=ACK).start()
    serves(gateway)
    gateway.signal(signal.SIGABRT)
    assert gateway.wait_exit() == -signal.SIGABRT
    report = f"{gateway.settings['data_dir']}/crash-{gateway.pid}.txt"
    with open(report) as f:
        assert "SIGABRT" in f.read()


def test_off_and_debug(run_gateway, engine):
    gateway = run_gateway(engine, listeners=ACK, settings={"sandbox": "off"})
    serves(gateway)
    assert gateway.status()["sandbox"]["mode"] == "off"
    assert all(t["NoNewPrivs"] == "0" for t in threads(gateway.pid))
    gateway.wait_log("sandbox off")
    gateway = run_gateway(engine, workers=2, listeners=ACK, settings={"sandbox": "debug"})
    serves(gateway)
    gateway.signal(signal.SIGHUP)
    until(lambda: gateway.status()["reloads"] == 1, gateway.stderr)
    gateway.stop()
    # Nothing that the gateway does in these tests is missing in the list.
    assert "is not in the list" not in gateway.stderr(), gateway.stderr()


def test_status_for_people(run_gateway, sluice):
    gateway = run_gateway(listeners=ACK)
    out = subprocess.run([sluice, "ctl", "--socket", gateway.settings["ctl_socket"], "status"], capture_output=True,
                         text=True, timeout=GUARD_S, check=False)
    assert re.search(r"^sandbox +on: user .*capabilities: none", out.stdout, re.M), out.stdout + out.stderr


def listening_ports(pid):
    """TCP ports (and UDP sockets) that belong to a process, from the kernel's tables."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            link = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if link.startswith("socket:["):
            inodes.add(link[8:-1])
    found = set()
    for table, state in (("tcp", "0A"), ("tcp6", "0A"), ("udp", None), ("udp6", None), ("raw", None), ("packet", None)):
        path = f"/proc/{pid}/net/{table}"
        if not os.path.exists(path):
            continue
        with open(path) as f:
            for line in f.readlines()[1:]:
                fields = line.split()
                inode = fields[8] if table == "packet" else fields[9]
                if inode in inodes and (state is None or fields[3] == state):
                    found.add((table, int(fields[1].rsplit(":", 1)[-1], 16) if table != "packet" else 0))
    return found


def test_no_port_is_open_beyond_those_configured(run_gateway, engine):
    gateway = run_gateway(engine, workers=2, listeners={
        **ACK, "six": {"bind": "[::1]:0", "mode": "ack"}, "mqtt": {"protocol": "mqtt"},
        "ws": {"protocol": "mqtt", "transport": "websocket"}})
    serves(gateway)
    wanted = set()
    for name, bind in gateway._binds(gateway.status()):
        if not bind.startswith("unix:"):
            wanted.add(("tcp6" if "[" in bind else "tcp", int(bind.rsplit(":", 1)[1])))
    assert listening_ports(gateway.pid) == wanted
    # And what the address itself answers.
    open_ports = set()
    for port in range(1, 65536, 1) if os.environ.get("SCAN_ALL") else {p for _, p in wanted} | set(range(1880, 1890)):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                open_ports.add(port)
    assert {p for t, p in wanted if t == "tcp"} <= open_ports


def test_under_a_policy_that_refuses_it(sluice, run_gateway, tmp_path):
    """A container run-time that refuses seccomp and Landlock: the gateway says so and serves."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        needed("no C compiler for the seccomp wrapper")
    wrapper = str(tmp_path / "deny_calls")
    subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-o", wrapper,
                    os.path.join(os.path.dirname(__file__), "helpers", "deny_calls.c")], check=True)
    gateway = run_gateway(command=[wrapper, sluice], listeners=ACK)
    state = gateway.status()["sandbox"]
    assert state["mode"] == "on" and state["capabilities"] == "none"
    assert re.match(r"not available: EPERM", state["landlock"]) and re.match(r"not available: EPERM", state["seccomp"]), state
    serves(gateway)
    gateway.wait_log(r"sandbox on: .*not available: EPERM.*not available: EPERM")


def test_a_process_that_is_not_told(run_gateway):
    """Descriptors of the gateway are not handed on, and it has no children."""
    gateway = run_gateway(listeners=ACK)
    with open(f"/proc/{gateway.pid}/task/{gateway.pid}/children") as f:
        assert f.read().strip() == ""
    assert proc.thread_count(gateway.pid) >= 3

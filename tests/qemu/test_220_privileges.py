# SPDX-License-Identifier: Apache-2.0
"""On the appliance PID 1 is the only privileged process: the gateway is a user of its own, without capabilities, under
seccomp and Landlock, and everything that it needs of PID 1 still works."""
import os
import select
import socket

import pytest

from harness.vm import SHORT_GUARD_S, Vm


@pytest.fixture(scope="module")
def vm():
    with Vm(arch="x86_64", machine="q35") as vm:
        vm.wait_ready()
        yield vm


def test_the_gateway_is_not_root(vm):
    state = vm.get("/api/status").json()["sandbox"]
    assert state["mode"] == "on" and state["user"] == "991:991" and state["capabilities"] == "none", state
    assert state["landlock"].startswith("ABI 6") and "rules" in state["seccomp"], state
    vm.wait_console(r"sandbox on: user 991:991; capabilities: none; landlock: ABI \d+")
    assert "runs as root" not in vm.console()


def test_it_asks_pid_1(vm):
    answer = vm.get("/api/appliance/appliance").json()
    assert answer["gateway"]["state"] == "serving", answer


def open_ports(vm, ports, batch=96):
    """Those that a connection from outside stays open to. QEMU's network accepts on the host before it asks the guest, and
    closes when the guest refuses: what was not closed when a second without any answer has passed is open."""
    found = set()
    ports = sorted(ports)
    for at in range(0, len(ports), batch):
        waiting = {}
        for port in ports[at:at + batch]:
            with socket.create_server(("127.0.0.1", 0)) as place:
                host = place.getsockname()[1]
            said = vm.monitor.human(f"hostfwd_add net0 tcp:127.0.0.1:{host}-:{port}")
            assert not said.strip(), said
            waiting[socket.create_connection(("127.0.0.1", host), timeout=SHORT_GUARD_S)] = (port, host)
        rules = list(waiting.values())
        while waiting:
            ready, _, _ = select.select(list(waiting), [], [], 1.0)
            if not ready:
                break
            for sock in ready:
                waiting.pop(sock)
                sock.close()
        for sock, (port, _) in waiting.items():
            found.add(port)
            sock.close()
        for _, host in rules:
            vm.monitor.human(f"hostfwd_remove net0 tcp:127.0.0.1:{host}")
    return found


def test_no_port_is_open_beyond_those_configured(vm):
    """Seen from the network. Loopback and unix sockets of the guest can not be reached from there."""
    binds = {entry["name"]: entry["bind"] for entry in vm.get("/api/status").json()["listeners"]}
    wanted = {int(bind.rsplit(":", 1)[1]) for bind in binds.values()
              if not bind.startswith(("unix:", "127.", "[::1]"))}
    assert wanted, binds
    ports = set(range(1, 1025)) | set(range(1880, 1890)) | {1025, 2222, 2375, 3306, 4222, 5353, 5432, 6379, 7000, 7001, 8000,
                                                            8080, 8083, 8443, 8883, 8888, 9001, 9090, 9100, 9600, 9601, 27017}
    if os.environ.get("SCAN_ALL"):
        ports = set(range(1, 65536))
    assert open_ports(vm, ports | wanted) == wanted, binds

# SPDX-License-Identifier: Apache-2.0
"""On the appliance PID 1 is the only privileged process: the gateway is a user of its own, without capabilities, under
seccomp and Landlock, and everything that it needs of PID 1 still works."""
import pytest

from harness.vm import Vm


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

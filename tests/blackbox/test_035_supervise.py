# SPDX-License-Identifier: Apache-2.0
"""`sluice init --container`: the appliance's supervisor in a container. It restarts the gateway, ends what is stuck, reaps
orphans, gives up on a crash loop, and stops in order. Run as PID 1 of a namespace of its own where that is allowed, else
as an ordinary process."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest

from harness import config, http
from harness.wait import until

SETTINGS = {"drain_timeout": "2s"}


def namespace():
    """unshare, when this machine lets us make a PID namespace."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if shutil.which("unshare") and subprocess.run(command + ["true"], capture_output=True).returncode == 0:
        return command
    return []


class Init:
    def __init__(self, binary, directory, prefix, extra=""):
        self.directory, self.log_path = directory, f"{directory}/log"
        self.conf, self.socket_path = f"{directory}/sluice.conf", f"{directory}/init.sock"
        self.write_config(extra)
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                prefix + [binary, "init", "--container", "-c", self.conf, "--socket", self.socket_path],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def write_config(self, extra=""):
        text = config.render({"data_dir": f"{self.directory}/data", "ctl_socket": f"{self.directory}/ctl.sock", **SETTINGS},
                             {"admin": {"bind": "127.0.0.1:0"}}, {"echo": config.ECHO})
        with open(self.conf + ".new", "w") as f:
            f.write(text + extra)
        os.replace(self.conf + ".new", self.conf)

    def log(self):
        with open(self.log_path) as f:
            return f.read()

    def wait_log(self, pattern, count=1, guard_s=None):
        return until(lambda: len(re.findall(pattern, self.log())) >= count, lambda: f"{pattern} x {count} in\n{self.log()}", guard_s)

    def ask(self, request, **args):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(15)
            sock.connect(self.socket_path)
            sock.sendall(json.dumps({"request": request, **({"args": args} if args else {})}).encode() + b"\n")
            line = sock.makefile().readline()
        return json.loads(line)

    def gateway(self):
        return self.ask("appliance")["result"]["gateway"]

    def _children(self, pid):
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(p) for p in f.read().split()]

    def init_pid(self):
        """As seen from here: below unshare, when there is one."""
        pid = self.process.pid
        while b"init" not in open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")[1:2]:
            pid = self._children(pid)[0]
        return pid

    def gateway_pid(self):
        return self._children(self.init_pid())[0]

    def stop(self):
        if self.process.poll() is None:
            try:
                os.kill(self.init_pid(), signal.SIGTERM)
                self.process.wait(15)
            except (OSError, IndexError, subprocess.TimeoutExpired):
                self.process.kill()
        self.process.wait()


@pytest.fixture(params=["namespace", "process"])
def run_init(request, sluice, tmp_path):
    prefix = namespace() if request.param == "namespace" else []
    if request.param == "namespace" and not prefix:
        pytest.skip("this machine does not allow a PID namespace")
    started = []

    def run(**more):
        init = Init(sluice, str(tmp_path), prefix, **more)
        started.append(init)
        return init
    yield run
    for init in started:
        init.stop()


def test_restarts_a_gateway_that_crashed(run_init):
    init = run_init()
    init.wait_log(r"gateway ready")
    before = init.gateway()
    os.kill(init.gateway_pid(), signal.SIGKILL)
    init.wait_log(r"gateway ready", 2)
    after = init.gateway()
    assert after["pid"] != before["pid"] and after["restarts"] == 1, after
    assert "signal 9" in after["last_end"], after


def test_stops_in_order(run_init):
    init = run_init()
    init.wait_log(r"gateway ready")
    os.kill(init.init_pid(), signal.SIGTERM)
    assert init.process.wait(15) == 0, init.log()
    assert "exit 0 (stopped in order)" in init.log()
    assert not os.path.exists(init.socket_path)


def test_second_signal_does_not_wait(run_init):
    init = run_init()
    init.wait_log(r"gateway ready")
    os.kill(init.gateway_pid(), signal.SIGSTOP)  # it will not drain
    os.kill(init.init_pid(), signal.SIGTERM)
    init.wait_log(r"power off: SIGTERM")
    os.kill(init.init_pid(), signal.SIGTERM)
    assert init.process.wait(15) == 0, init.log()


def test_reload_reaches_the_gateway(run_init):
    init = run_init()
    init.wait_log(r"gateway ready")
    init.write_config('listener more { protocol = frame; bind = "127.0.0.1:0"; mode = echo; }\n')
    os.kill(init.init_pid(), signal.SIGHUP)
    init.wait_log(r"listener more on 127.0.0.1")


def test_wrong_configuration_is_tried_again_when_it_changes(run_init):
    init = run_init(extra="no_such_key = 1;\n")
    init.wait_log(r"exit 2 \(wrong configuration\)")
    assert init.gateway()["state"] == "pausing"
    init.write_config()
    os.kill(init.init_pid(), signal.SIGHUP)
    init.wait_log(r"gateway ready")


def test_crash_loop_gives_up(run_init):
    init = run_init()
    for i in range(6):
        init.wait_log(r"gateway ready", i + 1, 25)
        os.kill(init.gateway_pid(), signal.SIGKILL)
        init.wait_log(r"gateway ended", i + 1)
    assert init.process.wait(15) == 1, init.log()
    assert "crash loop" in init.log()


def test_the_admin_port_passes_requests_on(run_init):
    init = run_init()
    init.wait_log(r"gateway ready")

    def ask(path, method="GET", body=None):
        return http.request(f"{init.directory}/ctl.sock", path, method, body)
    answer = ask("/api/appliance/appliance")
    assert answer.status == 200 and answer.json()["gateway"]["state"] == "serving", answer.text()
    assert ask("/api/appliance/no-such-thing").status == 404
    assert ask("/api/appliance/poweroff").status == 409  # asking is not acting
    assert ask("/api/appliance/clock", "POST", b"[]").status == 400
    assert ask("/api/appliance/poweroff", "POST", b'{"confirm":true}').status == 200
    assert init.process.wait(15) == 0, init.log()


def test_requests(run_init):
    init = run_init()
    init.wait_log(r"gateway ready")
    assert init.ask("clock")["ok"] is True
    assert init.ask("nothing-like-it") == {"ok": False, "error": "no request 'nothing-like-it'"}
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(15)
        sock.connect(init.socket_path)
        sock.sendall(b'{}\nnot json\n{"request":"clock","args":[]}\n{"request":"clock"}\n')
        lines = sock.makefile()
        assert [json.loads(lines.readline())["ok"] for _ in range(4)] == [False, False, False, True]
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(15)
        sock.connect(init.socket_path)
        with pytest.raises(OSError):  # longer than any request: the connection ends
            sock.sendall(b"x" * (4 << 20))
            if not sock.recv(1):
                raise ConnectionError("ended")


def test_refuses_to_be_what_it_is_not(sluice):
    """Without --container it is PID 1 of a machine or nothing."""
    result = subprocess.run([sluice, "init"], capture_output=True, text=True, timeout=30)
    assert result.returncode == 2 and "--container" in result.stderr

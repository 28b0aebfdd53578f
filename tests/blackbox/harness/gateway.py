# SPDX-License-Identifier: Apache-2.0
"""The gateway as a process: started on free ports, watched from outside, and judged at its end.

stop() is part of every test: the process must end by itself on SIGTERM within its drain deadline with
status 0, say nothing a sanitizer would say, have closed every connection for a named reason, and have seen
no stale completion. A test that expects another end uses wait_exit().
"""
import os
import re
import shutil
import signal
import subprocess
import tempfile

from . import config, http, prom, proc
from .wait import GUARD_S, until

SANITIZER = re.compile(r"(ERROR|WARNING): \w*Sanitizer|runtime error:|SUMMARY: \w*Sanitizer")

# Names of metrics, in one place.
M_OPENED = "sluice_conns_opened_total"
M_OPEN = "sluice_conns_open"
M_CLOSES = "sluice_closes_total"
M_STALE = "sluice_io_stale_total"


class Exited(AssertionError):
    """The gateway ended by itself during start-up."""

    def __init__(self, code, stderr):
        super().__init__(f"exit status {code}: {stderr[-2000:]}")
        self.code, self.stderr = code, stderr


class Gateway:
    """command: list that starts the binary (an emulator or a seccomp wrapper may stand before it)."""

    def __init__(self, command, engine=None, workers=1, listeners=None, settings=None, sections=None,
                 nofile=None, env=None, stderr=None, slower=1.0, directory=None, args=()):
        self.command = [command] if isinstance(command, str) else list(command)
        self.engine, self.workers, self.slower = engine, workers, slower
        self.owns_directory = directory is None
        self.directory = directory or tempfile.mkdtemp(prefix="sluice-bb-")
        self.settings = {"data_dir": f"{self.directory}/data",
                         "ctl_socket": f"{self.directory}/ctl.sock",
                         "drain_timeout": "2s", **(settings or {})}
        self.sections = {"admin": {"bind": "127.0.0.1:0"},
                         "log": {"connections": True}}
        for name, members in (sections or {}).items():
            self.sections[name] = {**self.sections.get(name, {}), **members}
        self.listeners = {k: dict(v) for k, v in (listeners or {"echo": config.ECHO}).items()}
        self.nofile, self.env, self.args = nofile, env or {}, list(args)
        self.stderr_to, self.process, self.session, self._addresses = stderr, None, None, {}
        self.config_path = f"{self.directory}/sluice.conf"
        self.stderr_path = f"{self.directory}/stderr"

    # --- life ---

    def write_config(self, extra=""):
        """Replaces the file as a whole: a reload that is still under way reads the old or the new one."""
        new = self.config_path + ".new"
        with open(new, "w") as f:
            f.write(config.render(self.settings, self.sections, self.listeners) + extra)
        os.replace(new, self.config_path)

    def spawn(self):
        self.write_config()
        command = self.command + ["run", "-c", self.config_path]
        if self.engine:
            command += ["--engine", self.engine]
        if self.workers:
            command += ["--workers", str(self.workers)]
        log = self.stderr_to if self.stderr_to is not None else open(self.stderr_path, "ab")
        # A sanitizer's report must be an exit status too, not only text.
        env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:exitcode=99",
               "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1:exitcode=99",
               "TSAN_OPTIONS": "halt_on_error=0:exitcode=98", **self.env}
        self.process = subprocess.Popen(command + self.args, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=log, env=env,
                                        preexec_fn=proc.child_setup(self.nofile))
        if self.stderr_to is None:
            log.close()
        return self

    def start(self):
        self.spawn()
        try:
            until(self._is_ready, "the gateway is ready", GUARD_S * self.slower)
        except BaseException:
            self.kill()
            raise
        return self

    def _is_ready(self):
        code = self.process.poll()
        if code is not None:
            raise Exited(code, self.stderr())
        try:
            return self.request("/readyz").status == 200
        except (OSError, http.HttpError):
            return False

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.stop()
        finally:
            self.kill()
            self.remove()

    @property
    def pid(self):
        return self.process.pid

    def signal(self, number):
        self.process.send_signal(number)

    def wait_exit(self, guard_s=None):
        return self.process.wait(guard_s or GUARD_S * self.slower)

    def kill(self):
        self.end_session()
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def remove(self):
        if self.owns_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def stop(self):
        """Ends the gateway as an operator would, and checks all that must hold at the end."""
        try:
            assert self.process.poll() is None, self.explain("ended before it was stopped")
            self.expect_no_conns()
            self.check_invariants()
            self.signal(signal.SIGTERM)
            try:
                code = self.wait_exit()
            except subprocess.TimeoutExpired:
                raise AssertionError(self.explain("did not end on SIGTERM")) from None
            assert code == 0, self.explain(f"exit status {code}")
        finally:
            self.kill()
        self.check_stderr()

    def check_stderr(self):
        found = SANITIZER.search(self.stderr())
        assert not found, self.explain(f"sanitizer report ({found[0]})")

    def check_invariants(self):
        metrics = self.metrics()
        assert metrics.sum(M_STALE) == 0, "completions of a reused slot"
        closes = metrics.by(M_CLOSES, "reason")
        assert closes.get("none", 0) == 0, f"connections closed without a reason: {closes}"

    def explain(self, what):
        return f"{what}\n--- last lines of stderr ---\n{self.stderr()[-4000:]}"

    def stderr(self):
        if self.stderr_to is not None or not os.path.exists(self.stderr_path):
            return ""
        with open(self.stderr_path, errors="replace") as f:
            return f.read()

    def wait_log(self, pattern, guard_s=None):
        found = until(lambda: re.search(pattern, self.stderr(), re.M),
                      lambda: self.explain(f"log line {pattern!r}"), guard_s)
        return found

    # --- the admin API ---

    def request(self, path, method="GET", body=None, headers=None):
        if self.session and body is None and headers is None:
            return self.session.request(path, method)
        return http.request(self.settings["ctl_socket"], path, method, body, headers,
                            GUARD_S * self.slower)

    def hold_session(self):
        """From now on asks over one admin connection that stays open."""
        self.session = http.Session(self.settings["ctl_socket"], GUARD_S * self.slower)

    def end_session(self):
        if self.session:
            self.session.close()
            self.session = None

    def api(self, path, method="GET", body=None, status=200):
        response = self.request(path, method, body)
        assert response.status == status, f"{method} {path}: {response.status} {response.body!r}"
        return response.json()

    def status(self):
        return self.api("/api/status")

    def metrics(self):
        response = self.request("/metrics")
        assert response.status == 200
        return prom.Metrics(response.text())

    def metric(self, name, **labels):
        return self.metrics().sum(name, **labels)

    def closes(self, reason):
        return self.metric(M_CLOSES, reason=reason)

    def address(self, listener):
        """(host, port) a listener really has; "admin" names the admin listener."""
        if listener not in self._addresses:
            self._addresses = {name: _parse_bind(text)
                               for name, text in self._binds(self.status())}
        return self._addresses[listener]

    @staticmethod
    def _binds(status):
        for entry in status["listeners"]:
            yield entry["name"], entry["bind"]

    def crash(self):
        """kill -9; start() begins again on the same data."""
        self.process.kill()
        self.process.wait()
        self.forget_addresses()

    def forget_addresses(self):
        self._addresses = {}

    def conns(self, query=""):
        """Device connections as /api/conns lists them."""
        return self.patient("/api/conns" + query).json()["conns"]

    def patient(self, path):
        """Asks again while a worker does not answer (503): no fault of the gateway on a machine whose CPUs
        are taken away for seconds, but then the worker must have noticed and said so."""
        refusals = []

        def answered():
            response = self.request(path)
            if response.status == 503:
                refusals.append(response.body)
            return response if response.status != 503 else None
        response = until(answered, f"{path} is answered", GUARD_S * self.slower)
        assert response.status == 200, f"{path}: {response.status} {response.body!r}"
        if refusals:
            self.expect_stall(refusals[0])
        return response

    def expect_stall(self, what):
        """What has just been waited for is excused only by a stall that the gateway has seen itself."""
        assert "stood still for" in self.stderr(), self.explain(f"silent without a stall: {what!r}")

    def conn_of(self, device):
        return next((c for c in self.conns() if c["peer"] == device.peer_text), None)

    def open_conns(self):
        return self.metric(M_OPEN)

    def expect_no_conns(self, guard_s=None):
        until(lambda: not self.conns(), lambda: f"no connection is left, but {self.conns()[:5]}",
              guard_s or GUARD_S * self.slower)

    def for_one_test(self):
        """For a fixture over a gateway that many tests share: alive before the test, without connections after it."""
        assert self.process.poll() is None, self.explain("has ended")
        yield self
        self.expect_no_conns()

    # --- counting over a step ---

    def watch_closes(self):
        return Watch(lambda: self.metrics().by(M_CLOSES, "reason"))


class Watch:
    """Differences of labelled counters since it was made."""

    def __init__(self, read):
        self.read, self.before = read, read()

    def delta(self, key):
        return self.read().get(key, 0) - self.before.get(key, 0)

    def deltas(self):
        now = self.read()
        return {k: v - self.before.get(k, 0) for k, v in now.items() if v != self.before.get(k, 0)}

    def expect(self, key, count=1, guard_s=None):
        until(lambda: self.delta(key) >= count, lambda: f"{count} x {key}; came {self.deltas()}",
              guard_s)
        assert self.delta(key) == count, f"{self.delta(key)} x {key}, expected {count}"


def _parse_bind(text):
    if text.startswith("unix:"):
        return text[5:]
    host, port = text.rsplit(":", 1)
    host = host.strip("[]")
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), int(port)

# SPDX-License-Identifier: Apache-2.0
"""One gateway (or another server) for a measurement, and one run of the load generator against it."""
import json
import os
import signal
import subprocess
import tempfile
import time

SLUICE = os.environ.get("SLUICE") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "../../out", os.uname().machine, "sluice")


class BenchError(Exception):
    """A measurement could not be made; the text says why."""


class Gateway:
    """`sluice run` with one framed listener on an ephemeral port; stopped at the end of `with`."""

    def __init__(self, engine, workers=1, mode="echo", settings="", binary=None, stderr=None, listener=""):
        self.binary = binary or SLUICE
        self.dir = tempfile.TemporaryDirectory(prefix="sluice-bench-")
        self.conf = os.path.join(self.dir.name, "sluice.conf")
        with open(self.conf, "w", encoding="utf-8") as f:
            f.write(f"workers = {workers};\ndata_dir = \"{self.dir.name}/data\";\n{settings}\n"
                    f"admin {{ enabled = false; }}\n"
                    f"listener devices {{ protocol = frame; bind = \"127.0.0.1:0\"; mode = {mode}; "
                    f"anonymous = true; {listener} }}\n")
        self.engine = engine
        self.stderr = stderr if stderr is not None else subprocess.DEVNULL
        self.process = None
        self.port = 0

    def __enter__(self):
        self.process = subprocess.Popen(
            [self.binary, "run", "-c", self.conf, "--engine", self.engine],
            stdout=subprocess.DEVNULL, stderr=self.stderr)
        deadline = time.monotonic() + 20
        while self.port == 0:
            if self.process.poll() is not None:
                raise BenchError(f"the gateway ended with status {self.process.returncode} ({self.engine})")
            if time.monotonic() > deadline:
                raise BenchError("the gateway did not become ready")
            time.sleep(0.05)
            status = self.ctl("status")
            if status and status.get("ready"):
                for row in status.get("listeners", []):
                    if row.get("name") == "devices":
                        self.port = int(row["bind"].rsplit(":", 1)[1])
        return self

    def ctl(self, *words):
        """`sluice ctl ... --json`, parsed; None when the gateway does not answer."""
        done = subprocess.run([self.binary, "ctl", "--socket", f"{self.dir.name}/data/ctl.sock", *words, "--json"],
                              capture_output=True, text=True, timeout=20, check=False)
        try:
            return json.loads(done.stdout) if done.returncode == 0 else None
        except ValueError:
            return None

    def metrics(self):
        """All samples as {name{labels}: value}."""
        done = subprocess.run([self.binary, "ctl", "--socket", f"{self.dir.name}/data/ctl.sock", "metrics"],
                              capture_output=True, text=True, timeout=20, check=True)
        samples = {}
        for line in done.stdout.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        return samples

    def metric_sum(self, prefix):
        return sum(v for k, v in self.metrics().items() if k == prefix or k.startswith(prefix + "{"))

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.dir.cleanup()


def bench(mode, port, pid, *options, pin="1", binary=None, host="127.0.0.1"):
    """`sluice bench MODE ... --json`. Returns its document; raises when nothing was measured."""
    command = [binary or SLUICE, "bench", mode, "--to", f"{host}:{port}", "--pid", str(pid), "--json", *options]
    if pin is not None and os.cpu_count() > 1:
        command += ["--pin", pin]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise BenchError(f"{' '.join(command)}: {done.stderr.strip()[-400:]}") from None


def pick(document, path):
    """pick(doc, 'server/cpu_us_per_exchange'); None when it is not there."""
    for key in path.split("/"):
        if not isinstance(document, dict) or key not in document:
            return None
        document = document[key]
    return document

# SPDX-License-Identifier: Apache-2.0
"""Other people's MQTT programs as child processes: started, fed, waited for with a bound, and ended."""
import os
import queue
import subprocess
import threading

import pytest
from harness.wait import GUARD_S

running = []


class Program:
    """Output is read by a thread, line by line, so that a test can wait for a line."""

    def __init__(self, command, text=None):
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        running.append(self)
        self.lines, self.seen = queue.Queue(), []
        threading.Thread(target=self._read, daemon=True).start()
        if text is not None:
            self.process.stdin.write(text)
            self.process.stdin.close()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip(b"\n"))
        self.lines.put(None)

    def line(self):
        """The next line of output; None at its end."""
        try:
            line = self.lines.get(timeout=GUARD_S)
        except queue.Empty:
            raise AssertionError(f"{self.command}: no further line; seen {self.seen[-20:]}") from None
        self.seen.append(line)
        return line

    def wait_line(self, text):
        while True:
            line = self.line()
            assert line is not None, f"{self.command}: ended without {text!r}; said {self.seen}"
            if text in line:
                return line

    def wait(self, status=0):
        """Its end, with this status; returns all lines."""
        while self.line() is not None:
            pass
        code = self.process.wait(GUARD_S)
        assert code == status, f"{self.command}: exit status {code}; said {self.seen}"
        return self.seen[:-1]

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def end_all():
    while running:
        running.pop().end()


def needed(what):
    """What the whole test run always provides is missing: a failure there, a skip for a person who runs one file."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}: build.sh provides it")
    pytest.skip(what, allow_module_level=True)

# SPDX-License-Identifier: Apache-2.0
"""One line per test while it runs, failures in full at once, and a result file for suite.sh."""
import sys
import time


class Reporter:
    def __init__(self, result_path):
        self.path = result_path
        self.passed_ids, self.failed_ids = set(), set()
        self.failed, self.skipped = [], []
        self.started = time.monotonic()

    @staticmethod
    def _say(text):
        sys.__stdout__.write(text + "\n")
        sys.__stdout__.flush()

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.rsplit("/", 1)[-1]
        if report.skipped and report.when in ("setup", "call"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            reason = reason.removeprefix("Skipped: ").replace("\n", " ")
            self.skipped.append(name)
            self._say(f"SKIP {name}: {reason}")
        elif report.failed:
            # A failing teardown counts once, also when the test itself had failed.
            if report.nodeid not in self.failed_ids:
                self.failed_ids.add(report.nodeid)
                self.failed.append(name)
            crash = getattr(report.longrepr, "reprcrash", None)
            what = crash.message.split("\n")[0] if crash else report.when
            self._say(f"FAIL {name}: {what}\n--- {report.when}, {report.duration:.1f} s ---\n"
                      f"{report.longreprtext}")
            for title, text in report.sections:
                self._say(f"--- {title} ---\n{text[-3000:]}")
        if report.when == "call" and report.passed:
            self.passed_ids.add(report.nodeid)
            self._say(f"ok   {name} ({report.duration:.1f} s)")

    def pytest_collectreport(self, report):
        if report.failed:
            self.failed.append(report.nodeid)
            self._say(f"FAIL {report.nodeid}: can not be collected\n{report.longreprtext}")

    def pytest_sessionfinish(self):
        # A test whose teardown failed was reported as passed before.
        passed = len(self.passed_ids - self.failed_ids)
        with open(self.path, "w") as f:
            for name in self.failed:
                f.write(f"failed: {name}\n")
            f.write(f"counts {passed} {len(self.failed)} {len(self.skipped)}\n")

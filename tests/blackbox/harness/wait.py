# SPDX-License-Identifier: Apache-2.0
"""Waiting: tests poll for a condition and never sleep for a guessed time.

GUARD_S is a hang guard, not a measurement: a condition that holds after it is a failure whatever the
machine. SLOWER multiplies it for sanitizer and emulated binaries.
"""
import os
import time

GUARD_S = float(os.environ.get("BLACKBOX_GUARD_S", "15"))


class NotReached(AssertionError):
    pass


def until(condition, what, guard_s=None, poll_s=0.005):
    """Calls condition() until it returns something true, and returns that."""
    guard_s = GUARD_S if guard_s is None else guard_s
    end = time.monotonic() + guard_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            value = condition()
            if value:
                return value
            text = what() if callable(what) else what
            raise NotReached(f"not reached within {guard_s:.0f} s: {text}")
        time.sleep(poll_s)
        poll_s = min(poll_s * 1.3, 0.05)


class Pace:
    """The longest time between two things a client does: called after each of them, the first at start()."""

    def __init__(self):
        self.start()

    def start(self):
        self.last, self.longest_s, self.over = time.monotonic(), 0.0, False

    def __call__(self):
        if not self.over:
            now = time.monotonic()
            self.longest_s, self.last = max(self.longest_s, now - self.last), now

    def end(self):
        """What follows has not to be in time."""
        self()
        self.over = True


def in_time(attempt, limit_s, tries=4):
    """Runs attempt(pace), in which a client keeps itself from being timed out, and returns its value. limit_s is what the
    gateway allows between two of its acts. Where the client itself was later than that, because the machine did not let it
    run, a failure says nothing of the gateway and the attempt is made again; otherwise a failure is one."""
    for left in reversed(range(tries)):
        pace = Pace()
        try:
            return attempt(pace)
        except (AssertionError, OSError):
            pace()
            if pace.longest_s < limit_s or not left:
                raise


def holds(condition, what, seconds, poll_s=0.02):
    """Asserts that condition() stays true for the given time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), f"did not hold: {what}"
        time.sleep(poll_s)

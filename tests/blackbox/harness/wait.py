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


def holds(condition, what, seconds, poll_s=0.02):
    """Asserts that condition() stays true for the given time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), f"did not hold: {what}"
        time.sleep(poll_s)

# SPDX-License-Identifier: Apache-2.0
"""The interop suite: the fixtures of the conformance suite, and a guard for the programs that are run."""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "conformance"), os.path.join(HERE, "..", "blackbox")]

from mqtt.plugin import *  # noqa: E402,F401,F403
import programs  # noqa: E402


@pytest.fixture(autouse=True)
def no_program_is_left():
    yield
    programs.end_all()

# SPDX-License-Identifier: Apache-2.0
"""The conformance suite: see mqtt/plugin.py for its fixtures and options."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "blackbox")]

from mqtt.plugin import *  # noqa: E402,F401,F403

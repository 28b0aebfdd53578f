# SPDX-License-Identifier: Apache-2.0
"""The conformance suite's MQTT client, for tests of this suite that script packets."""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "conformance"))

from mqtt import wire  # noqa: E402
from mqtt.client import Client, Ended  # noqa: E402
from mqtt.wire import V5, V311, Will  # noqa: E402

__all__ = ["Client", "Ended", "V5", "V311", "Will", "wire"]

# SPDX-License-Identifier: Apache-2.0
"""The appliance's network part (`sluice init --network-only`) against real and scripted servers, in network namespaces.

pytest itself runs in a namespace of its own (suite.sh starts it so): the client's. Servers live in a second one, reached
through a pair of virtual Ethernet devices: v0 here, s0 there.
"""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from lab import Lab  # noqa: E402

BLACKBOX = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "blackbox")
sys.path.insert(0, BLACKBOX)
from harness import reporter  # noqa: E402


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    if os.environ.get("NETNS_RESULT"):
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(reporter.Reporter(os.environ["NETNS_RESULT"]))


@pytest.fixture
def lab(tmp_path):
    with Lab(str(tmp_path)) as lab:
        yield lab

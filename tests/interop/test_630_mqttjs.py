# SPDX-License-Identifier: Apache-2.0
"""MQTT.js, the JavaScript client, in every version and QoS. The scenarios are in mqttjs/scenarios.js; each ends
with a line of JSON that says what was seen."""
import json
import os
import shutil

import pytest
from programs import Program, needed

HERE = os.path.dirname(os.path.abspath(__file__))
VERSIONS = {"v3.1": 3, "v3.1.1": 4, "v5": 5}
versions = pytest.mark.parametrize("v", list(VERSIONS.values()), ids=list(VERSIONS))


def run(broker, scenario, v, **more):
    modules = os.environ.get("NPM_MODULES")
    if not modules or not os.path.isdir(modules):
        needed("NPM_MODULES does not name the directory of the npm packages")
    if not shutil.which("node"):
        needed("node is not installed")
    host, port = broker.address()
    arguments = {"host": host, "port": port, "version": v, "prefix": broker.name("js"), **more}
    lines = Program(["node", os.path.join(HERE, "mqttjs", "scenarios.js"), modules, scenario, json.dumps(arguments)]).wait()
    return json.loads(lines[-1])


@versions
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_in_order(broker, v, qos):
    assert run(broker, "order", v, qos=qos, count=200) == {"numbers": list(range(200)), "qos": [qos]}


@versions
def test_retained(broker, v):
    assert run(broker, "retained", v) == {"first": ["kept", True], "removed": ["", False], "left": []}


@versions
@pytest.mark.parametrize("qos", [1, 2])
def test_a_session_that_is_kept(broker, v, qos):
    seen = run(broker, "session", v, qos=qos, count=20)
    assert seen["numbers"] == list(range(20))
    assert seen["present"] == [False, v > 3]


@versions
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_will(broker, v, qos):
    assert run(broker, "will", v, qos=qos) == {"payload": "gone", "qos": qos, "retain": False}


@versions
def test_a_take_over(broker, v):
    assert run(broker, "takeover", v) == {"closed": True, "reason": 0x8E if v == 5 else None, "echo": "still here"}


def test_properties(broker):
    seen = run(broker, "properties", 5)
    assert seen == {"contentType": "a/b", "responseTopic": "r", "correlationData": "0001ff", "payloadFormatIndicator": True,
                    "userProperties": {"a": ["1", "2"], "b": "3"}, "subscriptionIdentifier": 77}


def test_topic_aliases(broker):
    """MQTT.js sets and uses aliases by itself, in both directions."""
    assert run(broker, "aliases", 5, count=50) == {"topics": True, "numbers": list(range(50))}

# SPDX-License-Identifier: Apache-2.0
"""The broker under test: a gateway on one engine with one or two workers and listeners of several settings,
or any other broker by its address (--broker HOST:PORT), where tests that need special settings are skipped."""
import itertools
import os

import pytest
from harness import engines
from harness.accounts import Files, scram_line
from harness.gateway import Gateway
from harness.wait import until

from .client import Client, V5

# Engine and workers. Most tests run on the first two; those marked core on all, and under the sanitizers where
# their binaries are given.
SETUPS = ["uring-2", "epoll-et-1", "epoll-lt-2", "poll-1", "select-2"]
USUAL = SETUPS[:2]
SANITIZED = {"asan-uring-2": "SLUICE_ASAN", "asan-epoll-et-2": "SLUICE_ASAN", "tsan-uring-2": "SLUICE_TSAN",
             "tsan-epoll-et-2": "SLUICE_TSAN"}
SLOWER = 4.0
ACCOUNT = ("user", "pencil")
RECEIVE_MAX, ALIAS_MAX, PACKET_MAX, QUEUE_MAX, TOKEN = 8, 4, 1024, 5, "s3cret"

LISTENERS = {
    "mqtt": {"receive_max": RECEIVE_MAX, "topic_alias_max": ALIAS_MAX, "max_packet": "256k"},
    "small": {"max_packet": PACKET_MAX},
    **{f"queue_{policy}": {"queue_policy": policy, "inflight_max": 1, "max_queued_messages": QUEUE_MAX}
       for policy in ("newest", "oldest", "disconnect")},
    "qos0": {"max_qos": 0},
    "bare": {"max_qos": 1, "retain_available": False, "wildcard_available": False, "shared_available": False,
             "subscription_ids_available": False},
    "keeping": {"server_keepalive": "1s"},
    "capped": {"session_expiry_max": "2s", "max_keepalive": "30s"},
    "guarded": {"token": TOKEN, "anonymous": False},
    "denying": {"deny_subscribe": ["secret/#"], "deny_publish": ["readonly/#"]},
    "few": {"max_subscriptions": 3},
    "queue": {"max_queued_messages": 5, "inflight_max": 2},
    "judging": {"check_payload_format": True},
    "hasty": {"hello_timeout": "300ms"},
    "ws": {"transport": "websocket"},
    "scram": {"auth_delay": "10ms", "auth_failures": "unlimited"},
}


class Broker:
    """One for a test: its topics and client ids begin with a name no other test has."""
    numbers = itertools.count(1)

    def __init__(self, setup, gateway=None, address=None):
        self.setup, self.gateway, self.external = setup, gateway, address
        self.prefix = f"t{next(self.numbers)}"

    def address(self, listener="mqtt"):
        if self.external:
            if listener != "mqtt":
                pytest.skip(f"needs the gateway's listener {listener!r}")
            return self.external
        return self.gateway.address(listener)

    def name(self, suffix=""):
        """A topic or client id of this test."""
        return f"{self.prefix}/{suffix}" if suffix else self.prefix

    def raw(self, version=V5, listener="mqtt", **more):
        """A connection on which nothing was sent."""
        return Client(self.address(listener), version, **more)

    def connect(self, version=V5, client_id=None, listener="mqtt", rcvbuf=None, **more):
        """A client that has its CONNACK; see Client.hello."""
        return Client(self.address(listener), version, rcvbuf).hello(client_id, **more)


# What is back at where it was, when all clients and retained messages are gone.
HELD = ["sluice_mqtt_clients", "sluice_mqtt_sessions", "sluice_mqtt_in_flight", "sluice_mqtt_queued",
        "sluice_mqtt_queued_bytes", "sluice_broker_subscriptions", "sluice_broker_remote_filters", "sluice_broker_in_transit"]
# The retained values of $SYS are there from its first interval on, and tables that grew keep their size.
GROWTH_BYTES = 65536


def held(gateway):
    metrics = gateway.metrics()
    return {name: metrics.sum(name) for name in HELD}, metrics.sum("sluice_broker_memory_bytes")


def expect_nothing_left(gateway, before):
    """Ends all sessions and removes all retained messages: then nothing is held that was not there at the start."""
    address = gateway.address("mqtt")
    for session in gateway.api("/api/sessions?limit=10000")["sessions"]:
        with Client(address) as client:
            client.hello(session["client"], clean=True).bye()
    with Client(address) as client:
        client.hello().subscribe("#", qos=0, no_local=True)
        while not client.is_quiet(0.5):
            client.publish(client.recv().topic, b"", retain=True)

    def left():
        now, memory = held(gateway)
        return {k: v for k, v in now.items() if v != before[0][k]}, memory - before[1]
    until(lambda: not left()[0] and left()[1] <= GROWTH_BYTES, lambda: f"nothing is left, but {left()}")


def parts(setup):
    """(engine, number of workers)"""
    engine, workers = setup.rsplit("-", 1)
    return engine.removeprefix("asan-").removeprefix("tsan-"), int(workers)


def start(setup, sluice):
    """The gateway of a setup."""
    engine, workers = parts(setup)
    why = engines.refusal(engine)
    if why:
        pytest.skip(f"engine {engine}: {why}")
    listeners = {name: {"protocol": "mqtt", **members} for name, members in LISTENERS.items()}
    slow = setup in SANITIZED
    gateway = Gateway(os.environ[SANITIZED[setup]] if slow else sluice, engine, workers=workers, listeners=listeners,
                      slower=SLOWER if slow else 1.0)
    gateway.listeners["scram"]["password_file"] = Files(gateway.directory).write("passwords", scram_line(*ACCOUNT))
    return gateway

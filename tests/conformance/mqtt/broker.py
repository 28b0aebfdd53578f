# SPDX-License-Identifier: Apache-2.0
"""The broker under test: a gateway on one engine with one or two workers and listeners of several settings,
or any other broker by its address (--broker HOST:PORT), where tests that need special settings are skipped."""
import itertools

import pytest
from harness import engines
from harness.gateway import Gateway

from .client import Client, V5

# Engine and workers. Most tests run on the first two; those marked core on all.
SETUPS = ["uring-2", "epoll-et-1", "epoll-lt-2", "poll-1", "select-2"]
USUAL = SETUPS[:2]
RECEIVE_MAX, ALIAS_MAX, PACKET_MAX, TOKEN = 8, 4, 1024, "s3cret"

LISTENERS = {
    "mqtt": {"receive_max": RECEIVE_MAX, "topic_alias_max": ALIAS_MAX, "max_packet": "256k"},
    "small": {"max_packet": PACKET_MAX},
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


def start(setup, sluice):
    """The gateway of a setup."""
    engine, workers = setup.rsplit("-", 1)
    why = engines.refusal(engine)
    if why:
        pytest.skip(f"engine {engine}: {why}")
    listeners = {name: {"protocol": "mqtt", **members} for name, members in LISTENERS.items()}
    return Gateway(sluice, engine, workers=int(workers), listeners=listeners)

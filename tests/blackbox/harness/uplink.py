# SPDX-License-Identifier: Apache-2.0
"""A gateway's one uplink, as its API tells of it."""
from .wait import GUARD_S, until


def view(gateway):
    return gateway.api("/api/uplinks")["uplinks"][0]


def all_up(gateway):
    until(lambda: view(gateway)["workers_up"] == gateway.workers, lambda: f"up: {view(gateway)}", GUARD_S * 2)


def drained(gateway):
    until(lambda: view(gateway)["lag_messages"] == 0, lambda: f"drained: {view(gateway)}", GUARD_S * 4)

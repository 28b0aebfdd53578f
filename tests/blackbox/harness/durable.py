# SPDX-License-Identifier: Apache-2.0
"""Sessions that outlive a kill -9, and gateways that are killed and started again on their data."""
import pytest

from . import engines
from .gateway import Gateway
from .mqtt_peer import V5, Client

FOREVER = {"session_expiry": 0xFFFFFFFF}


def gateways(listeners, workers, **settings):
    """A fixture: a gateway of its own for each test, on every engine with each of these numbers of workers."""
    setups = [(engine, count) for engine in engines.selected() for count in workers]

    @pytest.fixture(name="gateway", params=setups, ids=lambda p: f"{p[0]}-{p[1]}w")
    def started(request, sluice):
        engine, count = request.param
        engines.need(engine)
        with Gateway(sluice, engine, workers=count, listeners=listeners, settings=settings) as running:
            yield running
            Client.end_all()
    return started


def crash(gateway):
    """kill -9, and the same again on the same data. No client is told."""
    gateway.crash()
    Client.end_all()
    gateway.start()


def client(gateway, listener="mqtt", version=V5):
    return Client(gateway.address(listener), version)


def durable(gateway, name, clean=False, listener="mqtt", version=V5, **props):
    """A client with a session that never ends; props: more of its CONNECT's properties."""
    more = {"props": {**FOREVER, **props}} if version == V5 else {}
    return client(gateway, listener, version).hello(name, clean, **more)

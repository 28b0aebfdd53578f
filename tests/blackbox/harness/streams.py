# SPDX-License-Identifier: Apache-2.0
"""Publishing into streams and reading them back: over HTTP and over MQTT 5.0."""
import json
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "conformance"))

from mqtt import wire  # noqa: E402
from mqtt.client import V5, Client  # noqa: E402

from .gateway import Gateway  # noqa: E402
from .wait import until  # noqa: E402

LISTENERS = {"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0"}}
QUOTA = 0x97


def stream_gateway(sluice, engine, workers, streams=None, **more):
    """streams: name -> settings."""
    streams = streams or {"all": {"topics": ["s/#"]}}
    return Gateway(sluice, engine, workers=workers, listeners=more.pop("listeners", LISTENERS),
                   sections={f"stream {name}": dict(s) for name, s in streams.items()}, **more)


def client(gateway, client_id=None, listener="mqtt", version=V5, **more):
    return Client(gateway.address(listener), version).hello(client_id, **more)


def publish_all(gateway, topic, payloads, qos=1, clients=1):
    """Spreads them over so many clients, whose ids fall on the workers by chance; all are acknowledged."""
    senders = [client(gateway, f"pub-{topic}-{i}") for i in range(clients)]
    for i, payload in enumerate(payloads):
        reason = senders[i % clients].publish(topic, payload, qos)
        assert reason < 0x80, hex(reason)
    for sender in senders:
        sender.bye()


class Answer:
    """The lines of /api/streams/NAME/messages: the messages, and the last one, which tells where to go on."""

    def __init__(self, body):
        lines = [json.loads(line) for line in body.decode().splitlines()]
        self.messages, self.last = lines[:-1], lines[-1]
        assert set(self.last) == {"next", "end", "missed"}, self.last

    def payloads(self):
        return [m["payload"] for m in self.messages]


def read(gateway, name, **query):
    path = f"/api/streams/{name}/messages?{urllib.parse.urlencode(query)}"
    response = gateway.request(path)
    assert response.status == 200, (path, response.status, response.body)
    assert response.headers["content-type"] == "application/x-ndjson"
    return Answer(response.body)


def read_to_end(gateway, name, start="earliest", limit=1000):
    """All messages from there on, in as many answers as it takes."""
    messages, where = [], start
    while True:
        answer = read(gateway, name, **{"from": where, "limit": limit})
        messages += answer.messages
        where = answer.last["next"]
        if answer.last["end"]:
            return messages


def expect_count(gateway, name, count):
    """What is acknowledged can be read; what was published with QoS 0 as soon as it is on disk."""
    return until(lambda: (lambda m: m if len(m) >= count else None)(read_to_end(gateway, name)),
                 lambda: f"{count} messages; came {len(read_to_end(gateway, name))}")


def user_properties(packet):
    """Of a PUBLISH from a stream: name -> value."""
    return dict(packet.props["user_property"])


def subscribe(c, name, start=None, consumer=None, share=None, qos=1):
    """Returns the code of the SUBACK."""
    pairs = [("sluice-from", start)] if start is not None else []
    pairs += [("sluice-consumer", consumer)] if consumer is not None else []
    text = f"$share/{share}/$stream/{name}" if share else f"$stream/{name}"
    return c.subscribe((text, wire.options(qos)), props={"user_property": pairs})[0]


def take(c, count, answer=True):
    """So many messages of streams, acknowledged or not: (payload, user properties, packet) of each."""
    out = []
    while len(out) < count:
        packet = c.wait_for(wire.PUBLISH)
        if answer:
            c.answer(packet)
        out.append((packet.payload.decode(errors="replace"), user_properties(packet), packet))
    return out


def payloads_of(taken):
    return [payload for payload, _, _ in taken]

# SPDX-License-Identifier: Apache-2.0
"""MQTT.js over WebSocket: from Node, and from a page in a real browser (Chromium without a display). The page is served
from this machine, loads the library's own browser bundle and tells what it saw."""
import http.server
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading

import pytest
from harness.wait import GUARD_S
from programs import Program, needed
from test_630_mqttjs import HERE, versions

BROWSER_GUARD_S = 60
PAGE = """<!doctype html><meta charset="utf-8"><title>MQTT over WebSocket</title>
<script src="/mqtt.js"></script><script>
const args = %s
const tell = seen => fetch('/seen', { method: 'POST', body: JSON.stringify(seen) })
const fail = error => tell({ error: String(error && error.message ? error.message : error) })
window.onerror = fail
const client = mqtt.connect(args.url, { protocolVersion: args.version, clientId: args.prefix + '-page', reconnectPeriod: 0,
                                        connectTimeout: 10000 })
const numbers = []
client.on('error', fail)
client.on('close', () => { if (numbers.length < args.count) fail('closed') })
client.on('connect', () => {
  client.subscribe(args.prefix + '/t', { qos: args.qos }, error => {
    if (error) return fail(error)
    for (let i = 0; i < args.count; i++) {
      client.publish(args.prefix + '/t', String(i).padEnd(i === 7 ? args.large : 1), { qos: args.qos })
    }
  })
})
client.on('message', (topic, payload) => {
  numbers.push(Number(payload.toString()))
  if (numbers.length === args.count) client.end(false, () => tell({ numbers, origin: location.origin }))
})
</script>"""


def modules():
    path = os.environ.get("NPM_MODULES")
    if not path or not os.path.isdir(path):
        needed("NPM_MODULES does not name the directory of the npm packages")
    return path


def run(broker, scenario, v, **more):
    if not shutil.which("node"):
        needed("node is not installed")
    host, port = broker.address("ws")
    arguments = {"host": host, "port": port, "protocol": "ws", "path": "/mqtt", "version": v, "prefix": broker.name("ws"), **more}
    lines = Program(["node", os.path.join(HERE, "mqttjs", "scenarios.js"), modules(), scenario, json.dumps(arguments)]).wait()
    return json.loads(lines[-1])


@versions
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_in_order(broker, v, qos):
    assert run(broker, "order", v, qos=qos, count=200) == {"numbers": list(range(200)), "qos": [qos]}


@versions
def test_a_session_that_is_kept(broker, v):
    seen = run(broker, "session", v, qos=1, count=20)
    assert seen["numbers"] == list(range(20))
    assert seen["present"] == [False, v > 3]


@versions
def test_a_will(broker, v):
    assert run(broker, "will", v, qos=1) == {"payload": "gone", "qos": 1, "retain": False}


@versions
def test_a_take_over(broker, v):
    assert run(broker, "takeover", v) == {"closed": True, "reason": 0x8E if v == 5 else None, "echo": "still here"}


def test_properties(broker):
    assert run(broker, "properties", 5)["userProperties"] == {"a": ["1", "2"], "b": "3"}


class Page:
    """A web server with one page; what the page tells comes out of `seen`."""

    def __init__(self, text):
        script = os.path.join(modules(), "mqtt", "dist", "mqtt.min.js")
        with open(script, "rb") as f:
            files = {"/": ("text/html", text.encode()), "/mqtt.js": ("text/javascript", f.read())}
        seen = self.seen = queue.Queue()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                kind, body = files.get(self.path, (None, b""))
                self.send_response(200 if kind else 404)
                self.send_header("Content-Type", kind or "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                seen.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, host):
        return f"http://{host}:{self.server.server_address[1]}/"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def browse(url, page):
    """Opens the page in a browser of its own and returns what it told."""
    if not shutil.which("chromium"):
        needed("chromium is not installed")
    directory = tempfile.mkdtemp(prefix="sluice-browser-")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync",
             "--disable-background-networking", "--disable-component-update", "--no-proxy-server", f"--user-data-dir={directory}"]
    browser = subprocess.Popen(["chromium", *flags, url], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, start_new_session=True)
    try:
        return page.seen.get(timeout=BROWSER_GUARD_S)
    except queue.Empty:
        browser.kill()
        raise AssertionError(f"the page told nothing; the browser: {browser.stderr.read()[-2000:]!r}") from None
    finally:
        browser.terminate()
        try:
            browser.wait(GUARD_S)
        except subprocess.TimeoutExpired:
            browser.kill()
            browser.wait()
        browser.stderr.close()
        shutil.rmtree(directory, ignore_errors=True)


def page_of(broker, v, qos):
    host, port = broker.address("ws")
    return Page(PAGE % json.dumps({"url": f"ws://{host}:{port}/mqtt", "version": v, "qos": qos, "count": 50, "large": 100000,
                                   "prefix": broker.name("page").replace("/", "-")}))


@pytest.mark.guard(120)
@pytest.mark.parametrize("v, qos", [(4, 1), (5, 2)], ids=["v3.1.1", "v5"])
def test_a_page_in_chromium(broker, v, qos):
    page = page_of(broker, v, qos)
    try:
        seen = browse(page.url("127.0.0.1"), page)
    finally:
        page.close()
    assert seen.get("numbers") == list(range(50)), seen
    assert seen["origin"] == page.url("127.0.0.1").rstrip("/")


@pytest.mark.guard(120)
def test_a_page_of_another_host_is_kept_out(broker):
    """The page comes from this machine under another name: its origin is not the listener's host."""
    page = page_of(broker, 4, 0)
    try:
        seen = browse(page.url("localhost"), page)
    finally:
        page.close()
    assert "error" in seen, seen

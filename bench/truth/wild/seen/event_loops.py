"""Event loops that are blocked: by a call, by a synced log, by a slow subscriber."""
from services import nginx
from system import ITEMS, LOCKS, SLEEPS, WRK, System, wrk

STOREFRONT = """#!/usr/bin/python3
import sys, urllib.request
import aiohttp
from aiohttp import web

URL, blocking = f"http://127.0.0.1:{sys.argv[2]}/", sys.argv[3] == "blocking"

async def price(request):
    if blocking:
        text = urllib.request.urlopen(URL).read()
    else:
        async with request.app["session"].get(URL) as answer:
            text = await answer.read()
    return web.Response(body=text)

async def session(app):
    app["session"] = aiohttp.ClientSession()
    yield
    await app["session"].close()

app = web.Application()
app.router.add_get("/", price)
app.cleanup_ctx.append(session)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
"""

TARIFF = """
package main

import ("net/http"; "os"; "time")

func main() {
	pause, _ := time.ParseDuration(os.Args[2])
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(pause)
		w.Write([]byte("4.20\\n"))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

AUDIT = """
const http = require('http'), fs = require('fs');
const log = fs.openSync('audit.log', 'a');
const synced = process.argv[3] === 'synced';
let lines = [];
if (!synced) setInterval(() => { fs.write(log, lines.splice(0).join(''), () => fs.fdatasync(log, () => {})); }, 1000);
http.createServer((request, response) => {
  const line = `${Date.now()} ${request.url} ${'x'.repeat(200)}\\n`;
  if (synced) {
    fs.writeSync(log, line);
    fs.fsyncSync(log);
  } else {
    lines.push(line);
  }
  response.end('noted\\n');
}).listen(process.argv[2], '127.0.0.1');
"""

# The buffers are small, because with the kernel's default a slow subscriber has an effect only
# after megabytes.
FEED = """#!/usr/bin/python3
import asyncio, socket, sys
import websockets

subscribers = set()

async def client(connection):
    first = await connection.recv()
    if first == "subscribe":
        subscribers.add(connection)
        if len(subscribers) == 4:
            open("feed.complete", "w").close()
        await connection.wait_closed()
        subscribers.discard(connection)
    else:
        async for tick in connection:
            for subscriber in list(subscribers):
                await subscriber.send(tick)
            await connection.send("sent")

async def main():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32768)
    listener.bind(("127.0.0.1", int(sys.argv[1])))
    async with websockets.serve(client, sock=listener, compression=None, write_limit=8192, ping_interval=None):
        await asyncio.Future()

asyncio.run(main())
"""

SUBSCRIBER = """#!/usr/bin/python3
import asyncio, socket, sys
import websockets

async def main():
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
    plain.connect(("127.0.0.1", int(sys.argv[1])))
    async with websockets.connect(f"ws://127.0.0.1:{sys.argv[1]}", sock=plain, compression=None, max_queue=1, read_limit=8192, ping_interval=None) as connection:
        await connection.send("subscribe")
        async for tick in connection:
            if float(sys.argv[2]):
                await asyncio.sleep(float(sys.argv[2]))

asyncio.run(main())
"""

EXCHANGE = """#!/usr/bin/python3
import asyncio, sys, time
import websockets

async def main():
    async with websockets.connect(f"ws://127.0.0.1:{sys.argv[1]}", compression=None, ping_interval=None) as connection:
        await connection.send("publish")
        begin, items = time.monotonic(), 0
        while time.monotonic() < begin + float(sys.argv[2]):
            await connection.send(b"t" * 16384)
            await connection.recv()
            items += 1
        print(f"items {items} seconds {time.monotonic() - begin:.3f}")

asyncio.run(main())
"""


def blocking_call(place):
    tariff, port = place.port(), place.port()
    place.start(place.go("tariff", TARIFF), tariff, f"{12 * place.scale}ms", port=tariff)
    place.start(place.write("storefront", STOREFRONT), port, tariff, "async" if place.fixed else "blocking", port=port)
    front = nginx(place, 'location / { proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream behind {{ server 127.0.0.1:{port}; keepalive 16; }}")
    return wrk(f"http://127.0.0.1:{front}/", 8, place.seconds)


def synced_log(place):
    port, front = place.port(), place.port()
    place.start("node", place.write("auditor.js", AUDIT), port, "lazy" if place.fixed else "synced", port=port)
    config = place.write("haproxy.cfg", f"""
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen front
  bind 127.0.0.1:{front}
  server auditor 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return wrk(f"http://127.0.0.1:{front}/", 8, place.seconds)


def slow_subscriber(place):
    port = place.port()
    place.start(place.write("feed", FEED), port, port=port)
    for name in "chart_a", "chart_b", "chart_c":
        place.start(place.write(name, SUBSCRIBER), port, 0)
    place.start(place.write("ledger", SUBSCRIBER), port, 0.012 * place.fault, path=place.folder / "feed.complete")
    return [str(place.write("exchange", EXCHANGE)), str(port), str(place.seconds)]


SYSTEMS = [
    System(
        name="aiohttp_blocking_call",
        kind="blocking-call-in-event-loop",
        truth="the event loop of storefront waits in a blocking call for tariff, which sleeps 12 ms for each request, so that one request is served at a time",
        load=blocking_call,
        rate=WRK,
        component=(r"storefront", r"tariff"),
        mechanism=(*SLEEPS, *LOCKS, r"event loop", r"one after the other", r"in sequence", r"block(s|ed|ing) (call|in|on)"),
        never=(r"wrk (sleep|comput)", r"nginx (sleep|comput)", r"storefront comput"),
        change="x0.125",
        halves=True,
        running=True,
        needs=("nginx", "wrk", "go"),
    ),
    System(
        name="node_synced_log",
        kind="sync-in-event-loop",
        truth="the event loop of node (auditor.js) behind haproxy syncs its log to the disk for each request",
        load=synced_log,
        rate=WRK,
        component=(r"\bnode\b", r"auditor", r"\bdisk\b", r"block device"),
        mechanism=(r"f(data)?sync", r"\bsync", r"\bdisk\b", r"block device", r"ext4", r"jbd2", r"flush", r"storage"),
        never=(r"haproxy (sleep|comput)", r"node comput"),
        needs=("node", "haproxy", "wrk"),
    ),
    System(
        name="websocket_slow_subscriber",
        kind="slow-subscriber",
        truth="the subscriber ledger sleeps 12 ms for each message of the feed, which sends to all subscribers in turn and waits until ledger takes it",
        load=slow_subscriber,
        rate=ITEMS,
        component=(r"ledger",),
        mechanism=(*SLEEPS, r"slow to (read|receive)", r"buffer (is )?full"),
        never=(r"(chart_\w|exchange|feed) (sleep|comput)",),
        change="x0",
        halves=True,
        running=True,
    ),
]

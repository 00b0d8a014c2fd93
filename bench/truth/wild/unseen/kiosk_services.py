"""Kiosks at a station: caches, certificates, boards, names and films between several services."""
from services import nginx, redis
from system import COMPUTES, ITEMS, PYTHON, SLEEPS, WRK, System, number, wrk

AB = number(r"Requests per second:\s+([\d.]+)")

ANNEX = """#!/usr/bin/python3
# usage: annex HTTP ICP ANSWERS: a sibling cache that has nothing. It replies to queries if ANSWERS is 1.
import socket, struct, sys

# Squid looks once whether it can connect, and asks for no page.
door = socket.create_server(("127.0.0.2", int(sys.argv[1])), backlog=50)

line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.bind(("127.0.0.2", int(sys.argv[2])))
open("annex-ready", "w").close()
while True:
    query, asker = line.recvfrom(16384)
    if sys.argv[3] == "1":
        page = query[24:]
        line.sendto(struct.pack("!BBHIIII", 3, 2, 20 + len(page), struct.unpack("!I", query[4:8])[0], 0, 0, 0) + page, asker)
"""

READERS = """
local page = 0
function request()
  page = page + 1
  return wrk.format("GET", "http://127.0.0.1:%d/news/" .. page)
end
"""


def silent_sibling(place):
    """Squid asks its sibling by ICP whether it has a page, and goes to the press only then."""
    port, icp, shop, annex, folder = place.port(), place.port(), place.port(), place.port(), place.folder
    press = nginx(place, 'location / { default_type text/plain; return 200 "delays on line 4, and rain\\n"; }')
    place.start(place.write("annex", ANNEX), shop, annex, int(place.fixed), path=folder / "annex-ready")
    config = place.write("squid.conf", f"""
http_port 127.0.0.1:{port}
icp_port {icp}
udp_incoming_address 127.0.0.1
cache_peer 127.0.0.2 sibling {shop} {annex} no-digest no-netdb-exchange
icp_query_timeout {round(36 * place.scale)}
dead_peer_timeout 1 hour
minimum_direct_rtt 0
minimum_direct_hops 0
http_access allow all
icp_access allow all
pid_filename none
access_log none
cache_log /dev/null
cache_store_log none
pinger_enable off
shutdown_lifetime 0 seconds
coredump_dir /tmp
visible_hostname kiosk
""")
    place.start("squid", "-N", "-f", config, port=port)
    script = place.write("readers.lua", READERS % press)
    return [*wrk(f"http://127.0.0.1:{port}/", 6, place.seconds), "-s", str(script)]


REVOCATION = """
package main

import ("net/http"; "os"; "time")

func main() {
	answer, _ := os.ReadFile(os.Args[3])
	pause, _ := time.ParseDuration(os.Args[2])
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(pause)
		w.Header().Set("Content-Type", "application/ocsp-response")
		w.Write(answer)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

CERTIFICATES = """
set -e
key() { openssl ecparam -name prime256v1 -genkey -noout -out $1.key; }
key ca; key door; key till
openssl req -x509 -new -key ca.key -subj /CN=station -days 30 -out ca.pem
for name in door till; do
  openssl req -new -key $name.key -subj /CN=$name -out $name.csr
  openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -set_serial 0x10$(test $name = door && echo 01 || echo 02) -days 30 -out $name.pem
done
cat till.pem till.key > till-both.pem
printf 'V\\t391231235959Z\\t\\t1001\\tunknown\\t/CN=door\\nV\\t391231235959Z\\t\\t1002\\tunknown\\t/CN=till\\n' > index.txt
openssl ocsp -issuer ca.pem -cert till.pem -no_nonce -reqout query.der
openssl ocsp -index index.txt -CA ca.pem -rsigner ca.pem -rkey ca.key -reqin query.der -respout answer.der -ndays 20
"""


def revocation_check(place):
    """Tills connect to nginx with a certificate, which nginx has checked by OCSP."""
    place.run("bash", "-c", CERTIFICATES)
    port, door, folder = place.port(), place.port(), place.folder
    place.start(place.go("revocation", REVOCATION), port, f"{0.036 * place.scale}s", folder / "answer.der", port=port)
    nginx(place, f"""
listen 127.0.0.1:{door} ssl;
ssl_certificate {folder}/door.pem; ssl_certificate_key {folder}/door.key;
ssl_client_certificate {folder}/ca.pem; ssl_verify_client on; ssl_session_tickets off;
ssl_ocsp leaf; ssl_ocsp_responder http://127.0.0.1:{port}/; ssl_ocsp_cache {"shared:answers:1m" if place.fixed else "off"};
location / {{ default_type text/plain; return 200 "receipt\\n"; }}
""")
    return ["ab", "-q", "-t", str(place.seconds), "-n", "1000000", "-c", "8", "-E", str(folder / "till-both.pem"), f"https://127.0.0.1:{door}/receipt"]


DEPARTURES = """
// usage: departures.js PORT REDIS PAUSE SHARED: pages of departures, which redis has, and news of them.
const http = require("http"), net = require("net"), crypto = require("crypto");
const [port, store, pause, shared] = process.argv.slice(2);

class Line {
  constructor() {
    this.socket = net.connect(store, "127.0.0.1").setNoDelay();
    this.waiting = [];
    let rest = "";
    this.socket.on("data", (data) => {
      rest += data.toString();
      for (;;) {
        const end = rest.indexOf("\\r\\n");
        if (end < 0) return;
        let size = end + 2, value = rest.slice(1, end);
        if (rest[0] === "$" && value !== "-1") {
          if (rest.length < size + Number(value) + 2) return;
          const begin = size;
          size += Number(value) + 2;
          value = rest.slice(begin, size - 2);
        }
        rest = rest.slice(size);
        this.waiting.shift()(value);
      }
    });
  }
  ask(command) {
    return new Promise((done) => { this.waiting.push(done); this.socket.write(command + "\\r\\n"); });
  }
}

const line = new Line(), news = shared === "1" ? line : new Line();

async function listen() {
  for (;;) await news.ask("BLPOP changes " + pause);
}

http.createServer(async (request, response) => {
  let board = await line.ask("GET board");
  for (let round = 0; round < 300; round++) board = crypto.createHash("sha256").update(board).digest("hex");
  response.end("platform " + board + "\\n");
}).listen(port, "127.0.0.1");
listen();
"""


def blocking_pop(place):
    store, port = redis(place, "--hz", 100), place.port()
    place.run("redis-cli", "-p", store, "set", "board", "Basel 8:04, Ulm 8:12, Lindau 8:20")
    place.start("node", place.write("departures.js", DEPARTURES), port, store, 0.036 * place.scale, int(not place.fixed), port=port)
    return wrk(f"http://127.0.0.1:{port}/board", 8, place.seconds)


RATES = """
package main

import ("fmt"; "net/http"; "os")

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "chf 0.9312 gbp 0.8534") })
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

EXCHANGE = """<?php
$rates = file_get_contents("http://rates.station.internal:%d/today");
echo "today: ", $rates;
"""


def long_hosts_file(place):
    """The exchange in PHP calls a service by a name that the C library finds in /etc/hosts."""
    rates, port = place.port(), place.port()
    place.start(place.go("rates", RATES), rates, port=rates)
    page = place.write("exchange.php", EXCHANGE % rates)
    blocked = "".join(f"0.0.0.0 ads{number}.tracker.example banner{number}.tracker.example\n" for number in range(round(60000 * place.fault)))
    hosts = place.write("hosts", f"127.0.0.1 localhost\n{blocked}127.0.0.1 rates.station.internal\n", 0o644)
    place.start("unshare", "-m", "sh", "-c", f"mount --bind {hosts} /etc/hosts && exec php -S 127.0.0.1:{port} {page}", port=port)
    front = nginx(place, f"location / {{ proxy_pass http://127.0.0.1:{port}; }}")
    return wrk(f"http://127.0.0.1:{front}/exchange", 4, place.seconds)


def small_send_buffer(place):
    port, folder = place.port(), place.folder
    (folder / "films").mkdir()
    place.write("films/arrivals.mp4", "film " * 200000)
    size = "" if place.fixed else "sndbuf=2k"
    nginx(place, f"listen 127.0.0.1:{port} {size}; root {folder}/films;")
    return wrk(f"http://127.0.0.1:{port}/arrivals.mp4", 2, place.seconds)


BOARD = """
// usage: board.js PORT: long polling; an answer comes with the next piece of news.
const http = require("http");
let waiting = [];
http.createServer((request, response) => {
  if (request.method === "GET") return waiting.push(response);
  let text = "";
  request.on("data", (data) => { text += data; });
  request.on("end", () => {
    for (const one of waiting) one.end(text);
    waiting = [];
    response.end();
  });
}).listen(process.argv[2], "127.0.0.1");
"""

TOWER = """#!/usr/bin/ruby
# usage: tower PORT: nine pieces of news in a second; there are no more.
require "net/http"

Net::HTTP.start("127.0.0.1", ARGV[0].to_i) do |board|
  (1..).each do |number|
    sleep 0.11
    board.post("/news", "train #{number} is on time\\n")
  end
end
"""

WATCHERS = """#!/usr/bin/python3
# usage: watchers PORT SECONDS: three of them wait for news.
import http.client, sys, threading, time

begin, seen = time.monotonic(), []

def watch():
    board = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
    while time.monotonic() < begin + float(sys.argv[2]):
        board.request("GET", "/news")
        seen.append(board.getresponse().read())

threads = [threading.Thread(target=watch) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"items {len(seen)} seconds {time.monotonic() - begin:.3f}")
"""


def long_polling(place):
    port = place.port()
    place.start("node", place.write("board.js", BOARD), port, port=port)
    place.start(place.write("tower", TOWER), port)
    return [str(place.write("watchers", WATCHERS)), str(port), str(place.seconds)]


SERVICE = """
// usage: hotels.js PORT: computes an offer.
const http = require("http"), crypto = require("crypto");
http.createServer((request, response) => {
  let offer = request.url;
  for (let round = 0; round < 500; round++) offer = crypto.createHash("sha256").update(offer).digest("hex");
  response.end(offer);
}).listen(process.argv[2], "127.0.0.1");
"""

TOURDESK = """#!/usr/bin/python3
# usage: tourdesk PORT SERVICE...: asks all services at once for each page.
import asyncio, sys
from aiohttp import ClientSession, TCPConnector, web

async def page(request):
    async def offer(port):
        async with request.app["client"].get(f"http://127.0.0.1:{port}/offer") as answer:
            return await answer.text()
    return web.Response(text="\\n".join(await asyncio.gather(*map(offer, sys.argv[2:]))))

async def client(app):
    app["client"] = ClientSession(connector=TCPConnector(limit=0))
    yield
    await app["client"].close()

app = web.Application()
app.cleanup_ctx.append(client)
app.router.add_get("/", page)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
"""


def parallel_fan_out(place):
    services = []
    for name in ("hotels", "trains", "museums"):
        port = place.port()
        place.start("node", place.write(f"{name}.js", SERVICE), port, port=port)
        services.append(port)
    front = place.port()
    place.start(place.write("tourdesk", TOURDESK), front, *services, port=front)
    return wrk(f"http://127.0.0.1:{front}/", 8, place.seconds)


SYSTEMS = [
    System(
        name="squid_silent_sibling",
        kind="sibling-query-timeout",
        truth="squid asks the sibling annex by ICP for each page, which never answers, and waits icp_query_timeout (36 ms) before it asks nginx",
        load=silent_sibling,
        rate=WRK,
        component=(r"squid", r"annex"),
        mechanism=(*SLEEPS, r"time-?out", r"(never|does not|no) answer"),
        never=(r"\bdisk\b", r"\block\b", r"nginx[^.;]* (sleep|comput)"),
        change="x0",
        halves=True,
        needs=("squid", "nginx", "wrk", PYTHON),
    ),
    System(
        name="nginx_revocation_check",
        kind="revocation-check-per-connection",
        truth="nginx asks revocation, an OCSP responder that sleeps 36 ms, about the client's certificate for each connection of ab",
        load=revocation_check,
        rate=AB,
        component=(r"revocation",),
        mechanism=SLEEPS,
        never=(r"\bdisk\b", r"\block\b", r"(nginx|\bab\b)[^.;]* comput"),
        change="x0",
        halves=True,
        needs=("nginx", "ab", "openssl", "go"),
    ),
    System(
        name="redis_blocking_pop_on_shared_line",
        kind="blocking-command-on-shared-connection",
        truth="node (departures.js) has one connection to redis, on which it also waits for news: redis answers no GET on it until the timeout of BLPOP, about 40 ms, is over",
        load=blocking_pop,
        rate=WRK,
        component=(r"redis", r"\bnode\b", r"departures"),
        mechanism=(*SLEEPS, r"time-?out", r"BLPOP", r"blocking (command|pop)"),
        never=(r"\bdisk\b", r"comput"),
        change="x0",
        halves=True,
        needs=("redis-server", "redis-cli", "node", "wrk"),
    ),
    System(
        name="php_long_hosts_file",
        kind="hosts-file-scan",
        truth="php computes, because the C library reads and parses 60,000 lines of /etc/hosts for each call of the service rates by its name, in one process",
        load=long_hosts_file,
        rate=WRK,
        component=(r"\bphp\b",),
        mechanism=(*COMPUTES, r"/etc/hosts", r"getaddrinfo"),
        never=(r"sleep", r"timer", r"\bdisk\b", r"\block\b", r"rates[^.;]* comput"),
        change="x0.02",
        halves=True,
        needs=("php", "nginx", "wrk", "go", "unshare"),
    ),
    System(
        name="nginx_small_send_buffer",
        kind="small-send-buffer",
        truth="the sockets of nginx have a send buffer of some KiB (listen … sndbuf=2k), so that nginx waits after each small piece of the film until it is acknowledged",
        load=small_send_buffer,
        rate=WRK,
        component=(r"nginx", r"\bwrk\b"),
        mechanism=(r"buffer", r"window", r"room", r"acknowledge", r"\backs?\b", r"(small|tiny|short) (pieces|writes|sends)"),
        never=(r"\bdisk\b", r"sleep", r"\block\b"),
        needs=("nginx", "wrk"),
    ),
    System(
        name="control_kiosk_long_polling",
        kind="control",
        truth="three watchers wait at node for news, of which tower has nine in a second by intention, and all are idle most of the time",
        load=long_polling,
        rate=ITEMS,
        acceptable=(r"(tower|ruby)[^.;]* (sleeps?|timer|pace|waits?( in \w+)? (until|for a time))", r"\bidle\b", r"nothing (to do|holds)"),
        running=True,
        needs=("node", "ruby", PYTHON),
    ),
    System(
        name="control_kiosk_parallel_offers",
        kind="control",
        truth="tourdesk, a gateway in aiohttp, asks three services in node at once for each page, and all together fill both CPUs",
        load=parallel_fan_out,
        rate=WRK,
        acceptable=(r"(node|tourdesk|hotels|trains|museums)[^.;]* (comput|runs its own code|CPU)", r"CPUs? (is|are)( \w+)? (full|busy)", r"(all|both|two) CPUs"),
        needs=("node", "wrk", PYTHON),
    ),
]

"""Web servers, proxies and applications: lighttpd, apache, gunicorn, uvicorn, nginx, haproxy, Node."""
from services import nginx
from system import COMPUTES, PYTHON, SLEEPS, WRK, System, number, wrk

SERVICE = """
package main

import ("math"; "net/http"; "os"; "strconv"; "sync/atomic"; "time")

func main() {
	pause, _ := strconv.ParseFloat(os.Args[2], 64)
	var count atomic.Int64
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		// An idle Go program waits whole milliseconds; their mean is the pause.
		n := float64(count.Add(1))
		if pause > 0 { time.Sleep(time.Duration(math.Floor(n * pause) - math.Floor((n - 1) * pause)) * time.Millisecond) }
		w.Write([]byte("done\\n"))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

GEO = """
import http.client, os

def app(environment, start_response):
    client = http.client.HTTPConnection("127.0.0.1", int(os.environ["GEOCODER"]))
    client.request("GET", "/")
    body = client.getresponse().read()
    client.close()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""

OFFER = """
import asyncio, os

# A connection is kept for the next call.
free = {}

async def ask(port):
    reader, writer = free[port].pop() if free.get(port) else await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\\r\\nHost: service\\r\\n\\r\\n")
    head = await reader.readuntil(b"\\r\\n\\r\\n")
    length = int(head.lower().split(b"content-length:")[1].split()[0])
    body = await reader.readexactly(length)
    free.setdefault(port, []).append((reader, writer))
    return body

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    parts = [await ask(int(port)) for port in os.environ["SERVICES"].split()]
    body = b"".join(parts)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})
"""

GATEWAY = """#!/usr/bin/node
const http = require('http');
const { Worker, isMainThread, parentPort } = require('worker_threads');

// All prices of a month, in some 40 ms.
function report() {
  let sum = 0;
  for (let i = 0; i < 4e6; i++) sum += Math.sin(i) * Math.sqrt(i);
  return String(sum);
}

if (isMainThread) {
  const apart = process.argv[3] === 'apart' ? new Worker(__filename) : null;
  http.createServer((request, response) => {
    if (request.url !== '/report') response.end('42');
    else if (apart) { apart.once('message', (text) => response.end(text)); apart.postMessage(''); }
    else response.end(report());
  }).listen(+process.argv[2], '127.0.0.1');
} else {
  parentPort.on('message', () => parentPort.postMessage(report()));
}
"""

ACCOUNTANT = """#!/usr/bin/python3
import http.client, sys, time

client = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
while True:
    client.request("GET", "/report")
    client.getresponse().read()
    time.sleep(0.005)
"""

# The server listens and never accepts. Its backlog is full, so a connection is neither made nor
# refused.
STALLED = """#!/usr/bin/python3
import socket, sys, time

server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", int(sys.argv[1])))
server.listen(0)
waiting = []
for _ in range(4):
    waiting.append(socket.socket())
    waiting[-1].setblocking(False)
    waiting[-1].connect_ex(server.getsockname())
time.sleep(0.3)
open("stalled.ready", "w").close()
time.sleep(1000)
"""

PHP = """<?php
echo json_encode(["now" => time(), "numbers" => array_map(fn($i) => $i * $i, range(1, 20))]);
"""


def php_as_cgi(place):
    port, folder = place.port(), place.folder
    place.write("index.php", PHP)
    fast = f"""fastcgi.server = (".php" => (("bin-path" => "/usr/bin/php-cgi", "socket" => "{folder}/php.sock", "max-procs" => 1,
        "bin-environment" => ("PHP_FCGI_CHILDREN" => "2", "PHP_FCGI_MAX_REQUESTS" => "1000000"))))"""
    config = place.write("lighttpd.conf", f"""
server.document-root = "{folder}"
server.bind = "127.0.0.1"
server.port = {port}
server.modules = ("{'mod_fastcgi' if place.fixed else 'mod_cgi'}")
server.upload-dirs = ("{folder}")
{fast if place.fixed else 'cgi.assign = (".php" => "/usr/bin/php-cgi")'}
""")
    place.start("lighttpd", "-D", "-f", config, port=port)
    return wrk(f"http://127.0.0.1:{port}/index.php", 2, place.seconds)


def handshakes(place):
    port, folder = place.port(), place.folder
    place.run("openssl", "req", "-x509", "-newkey", "rsa:3072", "-nodes", "-subj", "/CN=localhost", "-days", "2", "-keyout", "key.pem", "-out", "cert.pem")
    place.write("index.html", "x" * 600)
    modules = "\n".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in ("mpm_event", "authz_core", "ssl"))
    config = place.write("apache.conf", f"""
{modules}
ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/apache.log
ServerName localhost
Listen 127.0.0.1:{port}
User www-data
Group www-data
DocumentRoot {folder}
<Directory />
Require all granted
</Directory>
SSLEngine on
SSLCertificateFile {folder}/cert.pem
SSLCertificateKeyFile {folder}/key.pem
SSLSessionCache none
SSLSessionTickets off
MaxKeepAliveRequests 0
""")
    place.start("apache2", "-f", config, "-DFOREGROUND", port=port)
    return ["ab", "-q", *(["-k"] if place.fixed else []), "-c", "4", "-t", str(place.seconds), "-n", "1000000", f"https://127.0.0.1:{port}/index.html"]


def one_worker(place):
    geocoder, port = place.port(), place.port()
    place.start(place.go("geocoder", SERVICE), geocoder, 12 * place.scale, port=geocoder)
    place.write("geo.py", GEO)
    environment = {"PATH": "/usr/bin:/bin", "GEOCODER": str(geocoder)}
    place.start("/usr/bin/gunicorn", "-w", "8" if place.fixed else "1", "-b", f"127.0.0.1:{port}", "--chdir", place.folder, "geo:app", port=port, env=environment)
    return wrk(f"http://127.0.0.1:{port}/", 8, place.seconds)


def slow_pricing(place):
    ports, port = [], place.port()
    for name, pause in ("accounts", 0), ("stock", 0), ("pricing", 20 * place.fault):
        ports.append(str(place.port()))
        place.start(place.go(name, SERVICE), ports[-1], pause, port=int(ports[-1]))
    place.write("offer.py", OFFER)
    environment = {"PATH": "/usr/bin:/bin", "SERVICES": " ".join(ports)}
    place.start("/usr/bin/uvicorn", "--app-dir", place.folder, "--host", "127.0.0.1", "--port", port, "--log-level", "warning", "offer:app", port=port, env=environment)
    return wrk(f"http://127.0.0.1:{port}/", 2, place.seconds)


def event_loop(place):
    port = place.port()
    place.start(place.write("gateway", GATEWAY), port, "apart" if place.fixed else "inline", port=port)
    place.start(place.write("accountant", ACCOUNTANT), port)
    return wrk(f"http://127.0.0.1:{port}/quote", 4, place.seconds)


def dead_upstream(place):
    live, dead = place.port(), place.port()
    place.start(place.go("catalogue", SERVICE), live, 0, port=live)
    place.start(place.write("stalled", STALLED), dead, path=place.folder / "stalled.ready")
    second = "" if place.fixed else f"server 127.0.0.1:{dead} max_fails=0;"
    port = nginx(place, 'location / { proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                 f"upstream behind {{ server 127.0.0.1:{live} max_fails=0; {second} keepalive 16; }} proxy_connect_timeout {round(200 * place.scale)}ms;")
    return wrk(f"http://127.0.0.1:{port}/", 4, place.seconds)


def maxconn(place):
    quotes, port = place.port(), place.port()
    place.start(place.go("quotes", SERVICE), quotes, 5 * place.scale, port=quotes)
    config = place.write("haproxy.cfg", f"""
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  timeout queue 30s
listen front
  bind 127.0.0.1:{port}
  server one 127.0.0.1:{quotes} {'' if place.fixed else 'maxconn 1'}
""")
    place.start("haproxy", "-db", "-f", config, port=port)
    return wrk(f"http://127.0.0.1:{port}/", 8, place.seconds)


ONE_AT_A_TIME = (r"one (\w+ )?at a time", r"one after (the other|another)", r"\bqueue", r"one (worker|connection|process|thread)\b", r"wait for one another", r"serial", r"concurren",
                 r"limit", r"backlog", r"accept")

SYSTEMS = [
    System(
        name="lighttpd_php_as_cgi",
        kind="process-per-request",
        truth="lighttpd starts a php-cgi for each request",
        load=php_as_cgi,
        rate=WRK,
        component=(r"php", r"lighttpd"),
        mechanism=(r"exec", r"\bv?fork", r"clone", r"start(s|ed|ing)?\b.*(process|php)", r"start-?up", r"process(es)? per", r"new process", r"short-lived", r"per request", r"page fault", r"ld\.so",
                   r"dynamic link"),
        never=(r"\bdisk\b",),
        needs=("lighttpd", "php-cgi", "wrk"),
    ),
    System(
        name="apache_tls_handshakes",
        kind="handshake-per-request",
        truth="each request makes a TLS handshake of its own, which apache2 computes for some milliseconds",
        load=handshakes,
        rate=number(r"Requests per second:\s+([\d.]+)"),
        component=(r"apache2",),
        mechanism=(r"handshake", r"\btls\b", r"\bssl\b", r"libcrypto", r"libssl", r"\brsa", r"bn_", r"crypt"),
        needs=("apache2", "ab", "openssl"),
    ),
    System(
        name="gunicorn_one_worker",
        kind="too-few-workers",
        truth="gunicorn has one synchronous worker, which waits 12 ms for the geocoder in each request",
        load=one_worker,
        rate=WRK,
        component=(r"gunicorn", r"geocoder"),
        mechanism=ONE_AT_A_TIME,
        never=(r"\bdisk\b", r"comput"),
        change="x0.125",
        halves=True,
        needs=("/usr/bin/gunicorn", "wrk", "go"),
    ),
    System(
        name="uvicorn_slow_pricing",
        kind="slow-service-of-three",
        truth="of three services that uvicorn asks for a request, pricing waits 20 ms for a timer",
        load=slow_pricing,
        rate=WRK,
        component=(r"pricing",),
        mechanism=SLEEPS,
        never=(r"accounts", r"\bstock\b"),
        change="x0",
        halves=True,
        running=True,
        needs=("/usr/bin/uvicorn", "wrk", "go"),
    ),
    System(
        name="node_event_loop",
        kind="event-loop-blocked",
        truth="reports that Node's gateway computes in its event loop delay all quotes",
        load=event_loop,
        rate=WRK,
        component=(r"gateway", r"node"),
        mechanism=COMPUTES,
        never=(r"\bsleeps", r"\bdisk\b"),
        running=True,
        needs=("node", "wrk", PYTHON),
    ),
    System(
        name="nginx_dead_upstream",
        kind="connect-timeout",
        truth="nginx waits 200 ms for a connection to an upstream that does not answer, for every second request",
        load=dead_upstream,
        rate=WRK,
        component=(r"nginx", r"stalled"),
        mechanism=(r"connect", r"time-?out", r"timer", r"\bSYN", r"until a time", r"accept", r"backlog", r"retransmi"),
        never=(r"\bdisk\b", r"comput"),
        change="x0",
        halves=True,
        needs=("nginx", "wrk", "go", PYTHON),
    ),
    System(
        name="haproxy_maxconn",
        kind="concurrency-limit",
        truth="haproxy lets one request at a time to the server quotes, which takes 5 ms for each",
        load=maxconn,
        rate=WRK,
        component=(r"haproxy", r"quotes"),
        mechanism=ONE_AT_A_TIME,
        never=(r"\bdisk\b", r"comput"),
        change="x0.125",
        halves=True,
        needs=("haproxy", "wrk", "go"),
    ),
]

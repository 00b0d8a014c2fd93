"""Gateways: haproxy that fills the first of three servers, squid with one slow helper."""
from services import nginx
from system import SLEEPS, WRK, System, wrk

# Answers one connection after the other, each after a delay.
STOCK = """#!/usr/bin/python3
import sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer

class Stock(HTTPServer):
    request_queue_size = 128

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(float(sys.argv[2]))
        self.wfile.write(b"HTTP/1.0 200 OK\\r\\nContent-Length: 3\\r\\n\\r\\n17\\n")

Stock(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

# Each line from squid is a question. squid waits for its answer before it sends the next one.
SESSIONS = """#!/usr/bin/python3
import sys, time
for line in sys.stdin:
    time.sleep(PAUSE)
    print("OK", flush=True)
"""


def first_of_three(place):
    servers, front = [], place.port()
    for name in "stock_a", "stock_b", "stock_c":
        port = place.port()
        place.start(place.write(name, STOCK), port, 0.008 * place.scale, port=port)
        servers.append(f"  server {name} 127.0.0.1:{port}\n")
    config = place.write("haproxy.cfg", f"""
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen shop
  bind 127.0.0.1:{front}
  balance {"roundrobin" if place.fixed else "first"}
{"".join(servers)}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return wrk(f"http://127.0.0.1:{front}/", 12, place.seconds)


def slow_helper(place):
    origin, port = nginx(place, 'location / { return 200 "page\\n"; }'), place.port()
    helper = place.write("sessioncheck", SESSIONS.replace("PAUSE", str(0.012 * place.fault)))
    config = place.write("squid.conf", f"""
http_port 127.0.0.1:{port} accel defaultsite=pages.test no-vhost
cache_peer 127.0.0.1 parent {origin} 0 no-query no-digest originserver name=origin
external_acl_type sessions ttl=0 negative_ttl=0 children-max=1 children-startup=1 concurrency=0 queue-size=100 %SRC %SRCPORT {helper}
acl known external sessions
http_access allow known
cache deny all
cache_mem 8 MB
access_log none
cache_log /dev/null
cache_store_log none
pid_filename none
netdb_filename none
shutdown_lifetime 0 seconds
""")
    place.start("squid", "-N", "-f", config, port=port)
    return wrk(f"http://127.0.0.1:{port}/", 6, place.seconds)


SYSTEMS = [
    System(
        name="haproxy_first_of_three",
        kind="unbalanced-load",
        truth="haproxy sends all requests to stock_a, which sleeps 8 ms for each, one at a time, while stock_b and stock_c are idle",
        load=first_of_three,
        rate=WRK,
        component=(r"stock_a",),
        mechanism=(*SLEEPS, r"balanc"),
        never=(r"stock_[bc] (sleep|comput)", r"wrk (sleep|comput)"),
        change="x0.33",
        halves=True,
        needs=("haproxy", "wrk"),
    ),
    System(
        name="squid_slow_helper",
        kind="slow-helper",
        truth="squid asks its only helper sessioncheck before each request, and that sleeps 12 ms for each question",
        load=slow_helper,
        rate=WRK,
        component=(r"sessioncheck",),
        mechanism=SLEEPS,
        never=(r"(nginx|squid|wrk) (sleep|comput)",),
        change="x0",
        halves=True,
        running=True,
        needs=("squid", "nginx", "wrk"),
    ),
]

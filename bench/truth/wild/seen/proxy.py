"""A proxy in front of a server that sleeps for each request; wrk asks for a fixed time."""
from functools import partial

from services import nginx
from system import PYTHON, SLEEPS, WRK, System, wrk

SERVER = """
import sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if PAUSE:
            time.sleep(PAUSE)
        body = b"done\\n"
        self.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body))

PAUSE = float(sys.argv[2])
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

GO = """
package main

import ("net/http"; "os"; "time")

func main() {
	pause, _ := time.ParseDuration(os.Args[2])
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(pause)
		w.Write([]byte("done\\n"))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

UPSTREAM = "upstream behind {{ server 127.0.0.1:{port}; keepalive 32; }}"
PASS = 'location / { proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ""; }'


def behind_nginx(pause, place):
    port = place.port()
    place.start(PYTHON, place.write("appserver.py", SERVER), port, pause * place.fault, port=port)
    front = nginx(place, PASS, UPSTREAM.format(port=port))
    return wrk(f"http://127.0.0.1:{front}/", 4, place.seconds)


def behind_haproxy(pause, place):
    port, front = place.port(), place.port()
    place.start(place.go("inventory", GO), port, f"{pause * place.fault}s", port=port)
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
  server one 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return wrk(f"http://127.0.0.1:{front}/", 8, place.seconds)


SYSTEMS = [
    System(
        name="nginx_python_4ms",
        kind="slow-upstream",
        truth="the Python server behind nginx sleeps 4 ms for each request",
        load=partial(behind_nginx, 0.004),
        rate=WRK,
        component=(r"python", r"appserver"),
        mechanism=SLEEPS,
        change="x0",
        halves=True,
        needs=("nginx", "wrk", PYTHON),
    ),
    System(
        name="haproxy_go_50ms",
        kind="slow-upstream",
        truth="the Go server behind haproxy waits 50 ms for a timer in each request",
        load=partial(behind_haproxy, 0.05),
        rate=WRK,
        component=(r"inventory",),
        mechanism=SLEEPS,
        change="x0",
        halves=True,
        needs=("haproxy", "wrk", "go"),
    ),
]

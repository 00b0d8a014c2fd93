"""Systems that already run when the recording begins."""
from services import nginx
from system import PYTHON, SLEEPS, WRK, System, wrk

# A forking server with one process per connection.
REPLICA = """
import socketserver, sys, time

class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while self.rfile.readline():
            while self.rfile.readline() not in (b"\\r\\n", b""):
                pass
            time.sleep(float(sys.argv[2]))
            self.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 3\\r\\n\\r\\nok\\n")

class Server(socketserver.ForkingTCPServer):
    allow_reuse_address = True
    request_queue_size = 64

Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def load(place):
    fast, slow = place.port(), place.port()
    script = place.write("replica.py", REPLICA)
    place.start(PYTHON, script, fast, 0.0005, port=fast)
    place.start(PYTHON, script, slow, 0.0005 if place.fixed else 0.025 * place.fault, port=slow)
    front = nginx(place, 'location / { proxy_pass http://replicas; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream replicas {{ server 127.0.0.1:{fast}; server 127.0.0.1:{slow}; keepalive 32; }}", name="balancer")
    return wrk(f"http://127.0.0.1:{front}/", 6, place.seconds)


SYSTEMS = [
    System(
        name="running_slow_replica",
        kind="slow-upstream",
        truth="one of two Python replicas behind nginx sleeps 25 ms for each request, the other 0.5 ms",
        load=load,
        rate=WRK,
        component=(r"python", r"replica"),
        mechanism=SLEEPS,
        change="x0.02",
        halves=True,
        running=True,
        needs=("nginx", "wrk", PYTHON),
    ),
]

"""Systems in which one part computes while the others wait: a compressor, an event loop, KEYS."""
from services import redis
from system import COMPUTES, PYTHON, WRK, System, number, wrk

NODE = """
const crypto = require("crypto"), http = require("http");
const rounds = Number(process.argv[3]);
http.createServer((request, response) => {
  const key = rounds ? crypto.pbkdf2Sync("secret", "salt", rounds, 32, "sha512").toString("hex") : "cached";
  response.end(key + "\\n");
}).listen(Number(process.argv[2]), "127.0.0.1");
"""

KEYS = """
import socket, sys, time

store = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
while True:
    if sys.argv[2] == "keys":
        store.sendall(b"*2\\r\\n$4\\r\\nKEYS\\r\\n$7\\r\\nnobody*\\r\\n")
    else:
        store.sendall(b"*2\\r\\n$4\\r\\nSCAN\\r\\n$1\\r\\n0\\r\\n")
    store.recv(65536)
    time.sleep(0.003)
"""


def pipe(place):
    text = place.folder / "log"
    place.run("sh", "-c", f"seq 1 2200000 | awk '{{print $1 * 7919 % 1100009, \"request\", $1 % 17, \"served\"}}' > {text}")
    return ["sh", "-c", f"cat {text} | gzip -{1 if place.fixed else 7} | wc -c"]


def node(place):
    port = place.port()
    place.start("node", place.write("login.js", NODE), port, round(4000 * place.fault), port=port)
    return wrk(f"http://127.0.0.1:{port}/", 8, place.seconds)


def keys(place):
    port = redis(place, "--enable-debug-command", "yes")
    place.run("redis-cli", "-p", port, "debug", "populate", "150000", "session")
    place.start(PYTHON, place.write("monitor.py", KEYS), port, "scan" if place.fixed else "keys")
    count = "250000" if place.fixed else "30000"
    return ["redis-benchmark", "-p", str(port), "-t", "get", "-c", "4", "-n", count, "-q", "--precision", "3"]


SYSTEMS = [
    System(
        name="gzip_pipe_work",
        kind="compressor-in-a-pipe",
        truth="gzip -7 computes while cat waits for room in its pipe and wc for data",
        load=pipe,
        component=(r"gzip",),
        mechanism=(*COMPUTES, r"deflate"),
        change="x0.3",
        needs=("gzip",),
    ),
    System(
        name="node_hashing",
        kind="head-of-line-blocking-event-loop",
        truth="node computes pbkdf2 in its event loop, so that one request at a time is served",
        load=node,
        rate=WRK,
        component=(r"node",),
        mechanism=(*COMPUTES, r"pbkdf2|sha512", r"event loop"),
        change="x0.05",
        halves=True,
        needs=("node", "wrk"),
    ),
    System(
        name="redis_keys_work",
        kind="head-of-line-blocking-event-loop",
        truth="redis walks through all its keys for a monitor's KEYS, and all other clients wait",
        load=keys,
        rate=number(r"GET: ([\d.]+) requests"),
        component=(r"redis-server",),
        mechanism=(*COMPUTES, r"\bkeys", r"stringmatch|dict"),
        change="x0.1",
        needs=("redis-server", "redis-benchmark", "redis-cli", PYTHON),
    ),
]

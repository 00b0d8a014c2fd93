"""Fast stores whose Python client is the limit."""
from services import redis
from system import COMPUTES, ITEMS, PYTHON, System

REDIS = """
import socket, sys, time

port, slow, seconds = int(sys.argv[1]), sys.argv[2] == "slow", float(sys.argv[3])
begin, items = time.monotonic(), 0
if slow:
    import redis
    store = redis.Redis(port=port)
    store.hset("offer", mapping={f"field{i}": i * 7 for i in range(80)})
    while time.monotonic() < begin + seconds:
        {name.decode(): float(value) for name, value in store.hgetall("offer").items()}
        items += 1
else:
    store = socket.create_connection(("127.0.0.1", port))
    words = [b"%s%d" % (kind, i * part) for i in range(80) for kind, part in ((b"field", 1), (b"", 7))]
    store.sendall(b"*162\\r\\n$4\\r\\nHSET\\r\\n$5\\r\\noffer\\r\\n" + b"".join(b"$%d\\r\\n%s\\r\\n" % (len(word), word) for word in words))
    store.recv(4096)
    while time.monotonic() < begin + seconds:
        store.sendall(b"*2\\r\\n$7\\r\\nHGETALL\\r\\n$5\\r\\noffer\\r\\n")
        store.recv(16384)
        items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""

# Values from the cache are parsed each time.
MEMCACHED = """
import json, socket, sys, time

port, slow, items = int(sys.argv[1]), sys.argv[2] == "slow", int(sys.argv[3])
store = socket.create_connection(("127.0.0.1", port))
file = store.makefile("rb")
value = json.dumps({f"key{i}": [i, str(i), i / 3] for i in range(600)}).encode()
store.sendall(b"set catalogue 0 0 %d\\r\\n%s\\r\\n" % (len(value), value))
file.readline()
begin, total = time.monotonic(), 0
for _ in range(items):
    store.sendall(b"get catalogue\\r\\n")
    length = int(file.readline().split()[3])
    data = file.read(length + 2)
    file.readline()
    total += len(json.loads(data)) if slow else len(data)
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def with_redis(place):
    return [PYTHON, str(place.write("offers.py", REDIS)), str(redis(place)), "fast" if place.fixed else "slow", str(place.seconds)]


def with_memcached(place):
    port = place.port()
    place.start("memcached", "-l", "127.0.0.1", "-p", port, "-t", "1", "-u", "nobody", port=port)
    return [PYTHON, str(place.write("catalogue.py", MEMCACHED)), str(port), *(["fast", "60000"] if place.fixed else ["slow", "12000"])]


MECHANISM = (*COMPUTES, r"\bclient\b", r"load generator")
SYSTEMS = [
    System(
        name="redis_python_client",
        kind="client-is-the-limit",
        truth="the Python client computes most of the time of each HGETALL; redis is idle",
        load=with_redis,
        rate=ITEMS,
        component=(r"python", r"offers\.py"),
        mechanism=MECHANISM,
        never=(r"redis-server( is|::)",),
        needs=(PYTHON, "redis-server"),
    ),
    System(
        name="memcached_parser_work",
        kind="client-is-the-limit",
        truth="the Python client parses what memcached returns at once",
        load=with_memcached,
        rate=ITEMS,
        component=(r"python", r"catalogue\.py"),
        mechanism=MECHANISM,
        never=(r"memcached( is|::)",),
        needs=(PYTHON, "memcached"),
    ),
]

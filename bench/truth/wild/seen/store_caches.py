"""Stores in memory: a hash that is kept as a list, and values too large for the cache."""
from services import redis
from system import COMPUTES, ITEMS, PYTHON, System

BASKETS = """#!/usr/bin/python3
# usage: baskets PORT SECONDS: four tills ask for the prices of twenty articles each.
import random, sys, threading, time
import redis

items, begin = [0] * 4, time.monotonic()

def ask(till):
    store, chance = redis.Redis(port=int(sys.argv[1])), random.Random(till)
    while time.monotonic() < begin + float(sys.argv[2]):
        store.hmget("prices", [f"article:{chance.randrange(8000)}" for _ in range(20)])
        items[till] += 1

threads = [threading.Thread(target=ask, args=(till,)) for till in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"items {sum(items)} seconds {time.monotonic() - begin:.3f}")
"""


def compact_hash(place):
    port = redis(place, "--hash-max-listpack-entries", 128 if place.fixed else 100000)
    place.write("prices", "".join(f"HSET prices article:{number} {number * 37 % 1000}\n" for number in range(8000)))
    place.run("sh", "-c", f"redis-cli -p {port} --pipe <prices")
    return [str(place.write("baskets", BASKETS)), str(port), str(place.seconds)]


RENDERER = """#!/usr/bin/python3
# usage: renderer PORT CACHE: makes the yearbook of a town, or takes it from memcached.
import hashlib, socket, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

cache = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
answers = cache.makefile("rb")

def cached(key):
    cache.sendall(b"get %b\\r\\n" % key)
    words = answers.readline().split()
    if words == [b"END"]:
        return None
    value = answers.read(int(words[3]))
    answers.readline(), answers.readline()
    return value

def keep(key, value):
    cache.sendall(b"set %b 0 0 %d\\r\\n%b\\r\\n" % (key, len(value), value))
    answers.readline()

def rendered(key):
    return "".join(f"<tr><td>{number}<td>{hashlib.sha256((key + b'%d' % number) * 60).hexdigest()}\\n" for number in range(16000)).encode()

class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        key = self.path[1:].encode()
        page = cached(key)
        if page is None:
            page = rendered(key)
            keep(key, page)
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *words):
        pass

HTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
"""

READER = """#!/bin/bash
# usage: readers URL COUNT: one town after the other.
set -e
for number in $(seq "$2"); do
    curl -s -S -o /dev/null "$1/town$((number % 5))"
done
"""


def refused_by_cache(place):
    cache, port = place.port(), place.port()
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", cache, "-m", 256, "-I", "4m" if place.fixed else "1m", port=cache)
    place.start(place.write("renderer", RENDERER), port, cache, port=port)
    return [str(place.write("readers", READER)), f"http://127.0.0.1:{port}", "60"]


SYSTEMS = [
    System(
        name="redis_compact_hash",
        kind="compact-encoding",
        truth="redis computes, because it keeps a hash of 8000 fields as a list, which it walks through for each field that baskets ask for",
        load=compact_hash,
        rate=ITEMS,
        component=(r"redis", r"port \d+"),
        mechanism=(*COMPUTES, r"\bcpu", r"\bruns\b"),
        never=(r"baskets (comput|runs)", r"\bdisk\b", r"\bsleeps"),
        needs=("redis-server", "redis-cli", PYTHON),
    ),
    System(
        name="memcached_refuses_pages",
        kind="refused-by-cache",
        truth="renderer computes each page anew, because memcached refuses values of more than 1 MB",
        load=refused_by_cache,
        component=(r"renderer", r"port \d+"),
        mechanism=(*COMPUTES, r"\bcpu", r"\bruns\b"),
        never=(r"memcached (comput|sleeps|runs)", r"curl (comput|sleeps|runs)", r"\bdisk\b", r"\bsleeps"),
        needs=("memcached", "curl", "bash", PYTHON),
    ),
]

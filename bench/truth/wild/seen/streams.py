"""A stream between a Node program and a Python program, with TCP's backpressure."""
from system import COMPUTES, ITEMS, PYTHON, System

FEED = """#!/usr/bin/node
const { Readable, pipeline } = require('stream');
const net = require('net');

const end = Date.now() + 1000 * +process.argv[3];
function* rows() {
  for (let i = 0; Date.now() < end; i++)
    yield `2024-03-${String(i % 28 + 1).padStart(2, '0')} 12:30:${String(i % 60).padStart(2, '0')};sensor${i % 100};${i}\\n`.repeat(50);
}
pipeline(Readable.from(rows()), net.connect(+process.argv[2], '127.0.0.1'), () => {});
"""

LOADER = """#!/usr/bin/python3
import datetime, socket, subprocess, sys, time

def parsed(text):
    return datetime.datetime.strptime(text, "%Y-%m-%d %H:%M:%S").hour

def cut(text):
    return int(text[11:13])

hour = cut if sys.argv[2] == "cut" else parsed
server = socket.create_server(("127.0.0.1", 0))
feed = subprocess.Popen([sys.argv[1], str(server.getsockname()[1]), sys.argv[3]])
connection, _ = server.accept()
hours, begin, items = [0] * 24, time.monotonic(), 0
with connection, connection.makefile("r") as rows:
    for row in rows:
        when, _, value = row.split(";")
        hours[hour(when)] += int(value)
        items += 1
feed.wait()
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def slow_loader(place):
    feed = place.write("feed", FEED)
    return [str(place.write("loader", LOADER)), str(feed), "cut" if place.fixed else "parsed", str(place.seconds)]


SYSTEMS = [
    System(
        name="node_stream_slow_loader",
        kind="slow-consumer",
        truth="loader parses a date for each row, which Node's feed could send much faster",
        load=slow_loader,
        rate=ITEMS,
        component=(r"loader",),
        mechanism=COMPUTES,
        never=(r"\bdisk\b", r"\bsleeps"),
        needs=("node", PYTHON),
    ),
]

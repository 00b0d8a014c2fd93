"""The services of a dairy: sensors of tanks, lots of milk, delivery notes; five faults, and two
healthy parts of the same dairy.
"""
from services import nginx, redis
from system import COMPUTES, ITEMS, PYTHON, SLEEPS, WRK, System, wrk

DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Grades the lots of one subject of NATS: fits a curve to the fat of each sample.
GRADER = """
const net = require("net");
const fs = require("fs");
const [port, part] = process.argv.slice(2).map(Number);
const broker = net.connect({ port, host: "127.0.0.1", noDelay: true });

function grade(lot) {
  let best = Infinity, slope = 0;
  for (let step = 0; step < 1500; step++) {
    const tried = step / 1500;
    let error = 0;
    for (let i = 0; i < lot.fat.length; i++) error += Math.abs(lot.fat[i] - 3.5 - tried * Math.sin(i / 40)) ** 1.5;
    if (error < best) { best = error; slope = tried; }
  }
  return { farm: lot.farm, slope, best };
}

let rest = "", body = false;
broker.setEncoding("latin1");
broker.on("data", text => {
  const lines = (rest + text).split("\\r\\n");
  rest = lines.pop();
  for (const line of lines) {
    if (body) {
      const result = JSON.stringify(grade(JSON.parse(line)));
      broker.write(`PUB graded ${result.length}\\r\\n${result}\\r\\n`);
    }
    else if (line === "PING") broker.write("PONG\\r\\n");
    else if (line === "PONG") fs.writeFileSync("grader-" + part, "");
    body = !body && line.startsWith("MSG ");
  }
});
broker.write(`CONNECT {"verbose":false,"name":"grader"}\\r\\nSUB lots.${part} 1\\r\\nPING\\r\\n`);
"""
# Sends the lots of the morning to the graders, and collects the grades. The number of each farm
# ends with 0.
LOTS = """#!/usr/bin/python3
import json, socket, sys, time

port, divisor, count = map(int, sys.argv[1:])
broker = socket.create_connection(("127.0.0.1", port))
lines = broker.makefile("rb")
broker.sendall(b'CONNECT {"verbose":false,"name":"lots"}\\r\\nSUB graded 1\\r\\nPING\\r\\n')
while lines.readline() != b"PONG\\r\\n":
    pass
begin, grades = time.monotonic(), []
for lot in range(count):
    farm = 1000 + 10 * lot
    text = json.dumps({"farm": farm, "fat": [3.4 + (lot * 7 + i * i) % 50 / 100 for i in range(160)]}).encode()
    broker.sendall(b"PUB lots.%d %d\\r\\n%s\\r\\n" % (farm // divisor % 2, len(text), text))
while len(grades) < count:
    line = lines.readline()
    if line.startswith(b"MSG"):
        grades.append(json.loads(lines.readline()))
    elif line == b"PING\\r\\n":
        broker.sendall(b"PONG\\r\\n")
    elif not line:
        sys.exit("the broker has gone")
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""


def lots(place):
    port = place.port()
    place.start("nats-server", "-a", "127.0.0.1", "-p", port, port=port)
    grader = place.write("grader.js", GRADER)
    for part in range(2):
        place.start("node", grader, port, part, path=place.folder / f"grader-{part}")
    return [PYTHON, str(place.write("lots.py", LOTS)), str(port), "10" if place.fixed else "1", "300"]


# Shows the last reading of each tank on the board in the hall.
BOARD = """#!/usr/bin/python3
import pathlib, sys
import paho.mqtt.client as mqtt

readings = {}

def joined(client, *_):
    client.subscribe("tank/#", qos=0)

def subscribed(*_):
    pathlib.Path("board-ready").touch()

def shown(client, _, message):
    readings[message.topic] = float(message.payload.split(b";")[0])

board = mqtt.Client("board")
board.on_connect, board.on_subscribe, board.on_message = joined, subscribed, shown
board.connect("127.0.0.1", int(sys.argv[1]))
board.loop_forever()
"""
# Four gateways publish the temperatures of tanks; each waits until the broker has its reading.
SENSORS = """#!/usr/bin/python3
import sys, threading, time
import paho.mqtt.client as mqtt

port, seconds = int(sys.argv[1]), float(sys.argv[2])
counts = [0] * 4

def gateway(number):
    client = mqtt.Client(f"gateway-{number}")
    client.connect("127.0.0.1", port)
    client.loop_start()
    while time.monotonic() < end:
        tank = number * 10 + counts[number] % 10
        reading = f"{3.9 + counts[number] % 17 / 20:.2f};C;probe {tank}"
        client.publish(f"tank/{tank}/temperature", reading, qos=1, retain=True).wait_for_publish()
        counts[number] += 1
    client.disconnect()
    client.loop_stop()

begin = time.monotonic()
end = begin + seconds
threads = [threading.Thread(target=gateway, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"items {sum(counts)} seconds {time.monotonic() - begin:.3f}")
"""
# The recipes of cheese, which the broker retains.
RECIPES = """#!/usr/bin/python3
import sys
import paho.mqtt.client as mqtt

client = mqtt.Client("recipes")
client.connect("127.0.0.1", int(sys.argv[1]))
client.loop_start()
steps = "; ".join(f"heat to {30 + i} C, stir, rest for {5 + i} min" for i in range(9))
sent = [client.publish(f"recipe/{number}", f"recipe {number}: {steps}", qos=0, retain=True) for number in range(400)]
client.publish("recipe/end", "all", qos=1, retain=True).wait_for_publish()
client.disconnect()
client.loop_stop()
"""


def tanks(place):
    port = place.port()
    changes, interval = ("false", 1800) if place.fixed else ("true", 1)
    lines = (f"listener {port} 127.0.0.1", "allow_anonymous true", "user root", "log_dest none", "persistence true",
             f"persistence_location {place.folder}/", f"autosave_on_changes {changes}", f"autosave_interval {interval}")
    place.start("mosquitto", "-c", place.write("mosquitto.conf", "\n".join(lines) + "\n"), port=port)
    place.run(PYTHON, place.write("recipes.py", RECIPES), port)
    place.start(PYTHON, place.write("board.py", BOARD), port, path=place.folder / "board-ready")
    return [PYTHON, str(place.write("sensors.py", SENSORS)), str(port), str(place.seconds)]


# Receives the scans of delivery notes, and files them by their digest.
NOTES = """#!/usr/bin/python3
import hashlib, pathlib, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Notes(BaseHTTPRequestHandler):
    protocol_version = "PROTOCOL"

    def do_POST(self):
        scan = self.rfile.read(int(self.headers["Content-Length"]))
        digest = hashlib.sha256(scan).hexdigest()
        pathlib.Path("filed", digest + ".tif").write_bytes(scan)
        text = digest.encode() + b"\\n"
        self.send_response(201)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Notes).serve_forever()
"""
# The job of the hour: sends the scans of the trucks, two at a time.
SENDNOTES = """#!/bin/bash
set -e
printf '%s\\n' scans/*.tif |
    xargs -P 2 -I FILE curl -sf -o /dev/null --expect100-timeout "$2" --data-binary @FILE "http://127.0.0.1:$1/notes"
"""


def notes(place):
    port = place.port()
    for name in ("scans", "filed"):
        (place.folder / name).mkdir()
    for truck in range(10):
        rows = b"".join(bytes((truck + row * column) % 251 for column in range(0, 1280, 5)) for row in range(200))
        (place.folder / f"scans/truck{truck:02}.tif").write_bytes(b"II*\0" + rows * 24)
    service = NOTES.replace("PROTOCOL", "HTTP/1.1" if place.fixed else "HTTP/1.0")
    place.start(PYTHON, place.write("notes.py", service), port, port=port)
    return [str(place.write("sendnotes", SENDNOTES)), str(port), f"{place.scale:.2f}"]


# The controllers of the tanks measure for 40 ms when they are asked, each connection by itself.
CONTROLLERS = """
const net = require("net");
let asked = 0;
net.createServer({ noDelay: true }, line => {
  line.on("data", () => setTimeout(() => line.write(`level ${asked++ % 100}; agitator on; 4.1 C\\n`), 40));
  line.on("error", () => {});
}).listen(Number(process.argv[2]), "127.0.0.1");
"""
# The library of the controllers blocks, so the service calls it in threads.
LEVELS = """#!/usr/bin/python3
import asyncio, socket, sys, threading
from concurrent.futures import ThreadPoolExecutor
from aiohttp import web

port, controllers, size = map(int, sys.argv[1:])
local = threading.local()

def measured(tank):
    if not hasattr(local, "line"):
        local.line = socket.create_connection(("127.0.0.1", controllers))
    local.line.sendall(b"MEASURE %d\\n" % tank)
    return local.line.recv(200).decode()

async def level(request):
    text = await asyncio.get_running_loop().run_in_executor(library, measured, int(request.match_info["tank"]))
    return web.Response(text=text)

library = ThreadPoolExecutor(size)
app = web.Application()
app.add_routes([web.get(r"/level/{tank:\\d+}", level)])
web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)
"""


def levels(place):
    controllers, port = place.port(), place.port()
    place.start("node", place.write("controllers.js", CONTROLLERS), controllers, port=controllers)
    size = 24 if place.fixed else 3
    place.start(PYTHON, place.write("levels.py", LEVELS), port, controllers, size, port=port)
    return wrk(f"http://127.0.0.1:{port}/level/7", 24, place.seconds)


# The job takes over the milk tickets that the trucks have left in the spool, the oldest first.
TICKETS = """#!/usr/bin/python3
import os, sqlite3, sys, time

def age(path):
    return os.stat(path).st_mtime_ns

def oldest():
    paths = [os.path.join("spool", name) for name in os.listdir("spool")]
    return min(paths, key=age, default=None)

def one_after_another():
    while path := oldest():
        yield path

def in_order():
    yield from sorted((os.path.join("spool", name) for name in os.listdir("spool")), key=age)

store = sqlite3.connect("tickets.db")
store.execute("pragma synchronous = off")
store.execute("create table ticket (farm int, litres real, degrees real)")
begin, count = time.monotonic(), 0
for path in in_order() if sys.argv[1] == "list" else one_after_another():
    with open(path) as file:
        farm, litres, degrees = file.read().split(";")
    store.execute("insert into ticket values (?, ?, ?)", (int(farm), float(litres), float(degrees)))
    os.unlink(path)
    count += 1
store.commit()
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""


def tickets(place):
    (place.folder / "spool").mkdir()
    for ticket in range(2100):
        text = f"{1000 + ticket % 230};{200 + ticket * 37 % 900};{4 + ticket % 7 / 10:.1f}\n"
        place.write(f"spool/truck{ticket % 12:02}-{ticket:05}.ticket", text, mode=0o644)
    return [PYTHON, str(place.write("tickets.py", TICKETS)), "list" if place.fixed else "next"]


# Each truck reports a stop, and drives on for a while before it reports the next one.
TRUCKS = """
const http = require("http");
const [port, seconds] = process.argv.slice(2).map(Number);
const agent = new http.Agent({ keepAlive: true });
const begin = Date.now();
let stops = 0, running = 24;

function drive(truck, round) {
  if (Date.now() - begin > seconds * 1000) {
    if (--running === 0) {
      console.log(`items ${stops} seconds ${(Date.now() - begin) / 1000}`);
      agent.destroy();
    }
    return;
  }
  setTimeout(() => {
    http.get({ host: "127.0.0.1", port, path: `/stop/${truck}/${round % 40}`, agent }, answer => {
      answer.resume();
      answer.on("end", () => { stops++; drive(truck, round + 1); });
    });
  }, 150 + (truck * 37 + round * 53) % 200);
}
for (let truck = 0; truck < 24; truck++) drive(truck, truck);
"""
ROUNDS = """#!/usr/bin/python3
import sys
from aiohttp import web
import redis.asyncio as redis

port, store_port = map(int, sys.argv[1:])
store = redis.Redis(host="127.0.0.1", port=store_port)

async def stop(request):
    truck, farm = request.match_info["truck"], request.match_info["farm"]
    await store.hset("stops", truck, farm)
    litres = await store.hincrby("litres", farm, 310)
    return web.json_response({"truck": truck, "litres": litres})

app = web.Application()
app.add_routes([web.get(r"/stop/{truck:\\d+}/{farm:\\d+}", stop)])
web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)
"""
# Twice a second, the sums are written down for the office.
SCHEDULE = """#!/bin/bash
touch schedule-ready
while sleep 0.5; do
    redis-cli -p "$1" hvals litres > litres.new && mv litres.new litres.txt
done
"""


def rounds(place):
    store, port = redis(place), place.port()
    place.start(PYTHON, place.write("rounds.py", ROUNDS), port, store, port=port)
    front = nginx(place, "location / { proxy_pass http://rounds; proxy_http_version 1.1; proxy_set_header Connection ''; }",
                  http=f"upstream rounds {{ server 127.0.0.1:{port}; keepalive 32; }}")
    place.start(place.write("schedule", SCHEDULE), store, path=place.folder / "schedule-ready")
    return ["node", str(place.write("trucks.js", TRUCKS)), str(front), str(place.seconds)]


# The payment of the month: a process for each CPU takes the next farm and computes its statement.
PAYMENT = """#!/usr/bin/python3
import csv, multiprocessing, os, time

def statement(farm):
    with open(f"deliveries/{farm}.csv") as file:
        rows = [(float(litres), float(fat), float(protein)) for litres, fat, protein in csv.reader(file)]
    total = 0.0
    for bonus in range(12):
        for litres, fat, protein in rows:
            price = 0.31 + (fat - 4.0) * 0.024 + (protein - 3.4) * 0.041 + bonus / 1000
            total += round(litres * price, 2)
    with open(f"statements/{farm}.txt", "w") as file:
        file.write(f"farm {farm}: {len(rows)} deliveries, {total / 12:.2f}\\n")
    return total

if __name__ == "__main__":
    begin = time.monotonic()
    with multiprocessing.Pool(os.cpu_count()) as pool:
        totals = list(pool.imap_unordered(statement, [farm % 40 for farm in range(COUNT)], chunksize=1))
    print(f"items {len(totals)} seconds {time.monotonic() - begin:.3f}")
"""


def payment(place):
    for name in ("deliveries", "statements"):
        (place.folder / name).mkdir()
    for farm in range(40):
        rows = [f"{900 + (farm * 31 + i * 17) % 700},{3.6 + (i + farm) % 12 / 10:.1f},{3.1 + i % 7 / 10:.1f}"
                for i in range(3000)]
        place.write(f"deliveries/{farm}.csv", "\n".join(rows) + "\n", mode=0o644)
    return [PYTHON, str(place.write("payment.py", PAYMENT.replace("COUNT", "450")))]


NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="dairy_lots_of_round_farms",
        kind="skewed-partition",
        truth="lots.py chooses the subject of NATS by the parity of the farm's number, and all "
              "numbers are even; so one of the two graders in node computes all the time and the "
              "other one gets nothing",
        load=lots,
        rate=ITEMS,
        component=(r"grader",),
        mechanism=(*COMPUTES, r"100 %", r"\bone (of|process|worker|grader)\b", r"only one", r"other (grader|node|worker)",
                   r"\bskew", r"uneven", r"imbalance", r"single[- ]thread", r"\bCPU-bound"),
        never=(*DISK, r"grader\S* (\([^)]*\) )?sleeps", r"(nats-server|lots\.py) (\([^)]*\) )?(computes|sleeps)",
               r"[Bb]oth CPUs"),
        needs=("nats-server", "node", PYTHON),
    ),
    System(
        name="dairy_tanks_saved_at_each_reading",
        kind="state-saved-per-item",
        truth="mosquitto writes its whole database into a new file and waits for the disk after "
              "each reading, because autosave_on_changes has an interval of one change",
        load=tanks,
        rate=ITEMS,
        component=(r"mosquitto",),
        mechanism=(r"f(data)?sync", r"\bsync", r"\bdisks?\b", r"writeback", r"\bjbd2?\b", r"journal", r"flush",
                   r"renam(e|es|ing)\b", r"persist", r"autosave", r"\bwrit(e|es|ing)\b", r"\bsav(e|es|ing)\b", r"\bfiles?\b",
                   r"block device", r"\bI/O\b"),
        never=(r"mosquitto (\([^)]*\) )?sleeps", r"(sensors|board)\.py (\([^)]*\) )?(computes|sleeps)", r"delayed ACK"),
        needs=("mosquitto", PYTHON),
    ),
    System(
        name="dairy_notes_without_continue",
        kind="expect-continue-timeout",
        truth="curl waits one second for the status 100 (Continue) before it sends a scan, and "
              "notes.py never sends it, because Python's server speaks HTTP/1.0 by default",
        load=notes,
        component=(r"\bcurl\b", r"notes\.py"),
        mechanism=(*SLEEPS, r"time-?outs?", r"times out", r"[Ee]xpect", r"100[- ][Cc]ontinue", r"\bpoll\b",
                   r"(never|not|no|without) (a )?(repl|answer|respon)"),
        never=(*DISK, r"notes\.py (\([^)]*\) )?(sleeps|computes|runs its own code)", r"delayed ACK",
               r"xargs (\([^)]*\) )?sleeps"),
        halves=True,
        change="x0",
        needs=("curl", "xargs", PYTHON),
    ),
    System(
        name="dairy_levels_in_three_threads",
        kind="executor-too-small",
        truth="the executor of levels.py has three threads, which block for 40 ms in each question "
              "to the controllers, while 24 clients wait for a thread",
        load=levels,
        rate=WRK,
        component=(r"levels\.py",),
        mechanism=(r"\bpool\b", r"\bthreads\b", r"executor", r"at once", r"at a time", r"concurren", r"in parallel",
                   r"\bworkers\b", r"\b(3|three) (of|requests|calls|connections)\b", r"\bqueues?\b"),
        never=(*DISK, r"levels\.py (\([^)]*\) )?(computes|runs its own code)", r"delayed ACK", r"interpreter lock", r"\bGIL\b"),
        needs=("node", "wrk", PYTHON),
    ),
    System(
        name="dairy_tickets_by_age",
        kind="directory-scanned-per-item",
        truth="tickets.py lists the spool and asks for the age of each file before it takes one "
              "ticket, so 2100 tickets cost 2.2 million calls of stat; it runs all the time, partly "
              "in the kernel",
        load=tickets,
        rate=ITEMS,
        component=(r"tickets\.py",),
        mechanism=(*COMPUTES, r"\bl?stat", r"newfstatat", r"getdents", r"system calls?\b", r"syscalls?\b", r"kernel",
                   r"director(y|ies)", r"\boldest\b", r"\bage\b", r"listdir"),
        never=(*DISK, r"tickets\.py (\([^)]*\) )?sleeps", r"\block"),
        code=(r"\boldest\b", r"\bage\b", r"listdir", r"\bstat\b", r"newfstatat", r"os_stat"),
        needs=(PYTHON,),
    ),
    System(
        name="control_dairy_collection_rounds",
        kind="control",
        truth="each of 24 trucks drives for 150 to 350 ms between two reports; nginx, rounds.py and "
              "redis reply within few milliseconds, and a job in bash copies sums twice a second; "
              "all are idle most of the time",
        load=rounds,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by (node )?trucks", r"\btrucks\b.*(sleep|timer|until a time|clock|paced|think)",
                    r"\bidle\b", r"load generator"),
        needs=("nginx", "redis-server", "redis-cli", "node", PYTHON),
    ),
    System(
        name="control_dairy_payment",
        kind="control",
        truth="payment.py computes the statements of farms in a process for each CPU, and each "
              "takes the next farm as soon as it is free; all CPUs are busy",
        load=payment,
        rate=ITEMS,
        acceptable=(*NOTHING, rf"payment.*({'|'.join(COMPUTES)})", r"([Bb]oth|[Aa]ll|[Tt]he) (\d )?CPUs"),
        needs=(PYTHON,),
    ),
]

"""The services of a museum of natural history: five frequent faults of its picture library, visitor
counters, audio guides, catalogue and ticket shop, and two healthy parts of the same museum.
"""
from services import PHP_FPM, mariadb, nginx, php, redis
from system import ITEMS, LOCKS, PYTHON, WRK, System, number, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")
AB = number(r"Requests per second:\s+([\d.]+)")

# Makes a small picture from the scan of a specimen.
PICTURES = """
package main

import ("fmt"; "image"; "image/color"; "image/jpeg"; "log"; "net/http"; "os"; "strconv")

const width, small = 1200, 4

// Makes the scan of a specimen, for the start of the library.
func scan(number, height int) {
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := 0; y < height; y++ {
		for x := 0; x < width; x++ {
			value := uint8((x * (number + 3) + y * y / 9) >> 3)
			picture.SetRGBA(x, y, color.RGBA{value, uint8(x + y), uint8(y * number), 255})
		}
	}
	file, err := os.Create(fmt.Sprintf("scan-%d.jpg", number))
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	jpeg.Encode(file, picture, nil)
}

// Returns the picture with a quarter of the width; each point is the mean of 16.
func reduced(from *image.YCbCr) image.Image {
	size := from.Bounds().Size().Div(small)
	to := image.NewRGBA(image.Rectangle{Max: size})
	for y := 0; y < size.Y; y++ {
		for x := 0; x < size.X; x++ {
			var red, green, blue int
			for i := 0; i < small * small; i++ {
				point := from.YCbCrAt(x * small + i % small, y * small + i / small)
				r, g, b := color.YCbCrToRGB(point.Y, point.Cb, point.Cr)
				red, green, blue = red + int(r), green + int(g), blue + int(b)
			}
			to.SetRGBA(x, y, color.RGBA{uint8(red / 16), uint8(green / 16), uint8(blue / 16), 255})
		}
	}
	return to
}

func main() {
	scans, _ := strconv.Atoi(os.Args[2])
	height, _ := strconv.Atoi(os.Args[3])
	for i := 0; i < scans; i++ {
		scan(i, height)
	}
	visits := 0
	http.HandleFunc("/picture/", func(w http.ResponseWriter, r *http.Request) {
		file, err := os.Open("scan-" + r.URL.Path[len("/picture/"):] + ".jpg")
		if err != nil {
			http.NotFound(w, r)
			return
		}
		defer file.Close()
		picture, err := jpeg.Decode(file)
		if err != nil {
			http.Error(w, "no picture", 500)
			return
		}
		w.Header().Set("Content-Type", "image/jpeg")
		w.Header().Set("Cache-Control", "public, max-age=3600")
		if os.Args[4] == "visits" {
			visits++
			http.SetCookie(w, &http.Cookie{Name: "visit", Value: strconv.Itoa(visits)})
		}
		jpeg.Encode(w, reduced(picture.(*image.YCbCr)), nil)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:" + os.Args[1], nil))
}
"""
# The visitors look at the pictures of one drawer.
DRAWER = """
local count = 0
request = function()
  count = count + 1
  return wrk.format("GET", "/picture/" .. count % 12)
end
"""


def pictures(place):
    library, front, folder = place.port(), place.port(), place.folder
    place.start(place.go("pictures", PICTURES), library, 12, round(800 * place.scale), "plain" if place.fixed else "visits", port=library)
    rules = place.write("library.vcl", f'vcl 4.1; backend library {{ .host = "127.0.0.1"; .port = "{library}"; }}', mode=0o644)
    place.start("varnishd", "-F", "-j", "none", "-n", folder / "varnish", "-a", f"127.0.0.1:{front}", "-f", rules,
                "-s", "malloc,64m", "-T", "none", port=front)
    load = wrk(f"http://127.0.0.1:{front}/", 6, place.seconds)
    return [*load[:-1], "-s", str(place.write("drawer.lua", DRAWER)), load[-1]]


# Reports what the turnstiles of a day have counted, and waits until all of it is in the database.
TURNSTILES = """#!/usr/bin/python3
import sys, threading, time
import paho.mqtt.client as mqtt

port, count = int(sys.argv[1]), int(sys.argv[2])
done = threading.Event()
client = mqtt.Client()
client.max_queued_messages_set(0)
client.max_inflight_messages_set(100)
client.on_message = lambda *_: done.set()
client.connect("127.0.0.1", port)
client.subscribe("closed", qos=1)
client.loop_start()
begin = time.monotonic()
for i in range(count):
    client.publish(f"hall/{i % 9}/turnstile/{i % 4}", f"{1 + i % 3}", qos=1)
client.publish("hall/close", "", qos=1)
done.wait()
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
client.disconnect()
client.loop_stop()
"""
TALLY = """#!/usr/bin/python3
import sqlite3, sys, time
import paho.mqtt.client as mqtt

port, together = int(sys.argv[1]), int(sys.argv[2])
base = sqlite3.connect("visitors.db", isolation_level=None, check_same_thread=False)
base.execute("create table passages (id integer primary key, hall int, turnstile int, people int, at real)")
base.execute("create table halls (hall int primary key, people int)")
base.execute("create index by_hall on passages (hall, at)")
open_passages = 0

def commit():
    global open_passages
    if open_passages:
        base.execute("commit")
    open_passages = 0

def passage(client, _, message):
    global open_passages
    if message.topic == "hall/close":
        commit()
        client.publish("closed", "", qos=1)
        return
    _, hall, _, turnstile = message.topic.split("/")
    people = int(message.payload)
    if not open_passages:
        base.execute("begin")
    base.execute("insert into passages (hall, turnstile, people, at) values (?, ?, ?, ?)", (hall, turnstile, people, time.time()))
    base.execute("insert into halls values (?, ?) on conflict (hall) do update set people = people + ?", (hall, people, people))
    open_passages += 1
    if open_passages == together:
        commit()

client = mqtt.Client()
client.on_message = passage
client.on_subscribe = lambda *_: open("tally-ready", "w").close()
client.connect("127.0.0.1", port)
client.subscribe("hall/#", qos=1)
client.loop_forever()
"""


def counters(place):
    port = place.port()
    config = place.write("mosquitto.conf", f"""
listener {port} 127.0.0.1
allow_anonymous true
user root
persistence false
set_tcp_nodelay true
max_queued_messages 0
max_inflight_messages 100
log_dest none
""")
    place.start("mosquitto", "-c", config, port=port)
    place.start(place.write("tally", TALLY), port, 200 if place.fixed else 1, path=place.folder / "tally-ready")
    return [str(place.write("turnstiles", TURNSTILES)), str(port), "1200"]


# Has the narrations of all stops in memory, and composes from them the tour of a visitor.
GUIDES = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

public class Main {
    record Part(int second, String text) {}

    static final Map<Integer, List<Part>> stops = new HashMap<>();
    static final AtomicInteger visitors = new AtomicInteger();

    static String tour(int visitor) {
        Map<Integer, List<String>> spoken = new TreeMap<>();
        for (int stop = 0; stop < 60; stop++) {
            for (Part part : stops.get((visitor * 7 + stop * 31) % stops.size()))
                spoken.computeIfAbsent(stop * 600 + part.second(), second -> new ArrayList<>()).add(part.text().toUpperCase(Locale.ROOT));
        }
        StringBuilder text = new StringBuilder();
        spoken.forEach((second, parts) -> text.append(second).append(' ').append(String.join(" ", parts)).append('\\n'));
        return text.toString();
    }

    public static void main(String[] words) throws Exception {
        int count = Integer.parseInt(words[1]);
        for (int stop = 0; stop < count; stop++) {
            List<Part> parts = new ArrayList<>();
            for (int second = 0; second < 24; second++)
                parts.add(new Part(second * 5, "In the case before you is specimen " + stop + ", part " + second));
            stops.put(stop, parts);
        }
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 100);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/tour", exchange -> {
            byte[] tour = tour(visitors.incrementAndGet()).getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, 40);
            exchange.getResponseBody().write(String.format("%-40s", "tour of " + tour.length + " letters").getBytes());
            exchange.close();
        });
        server.start();
    }
}
"""


def guides(place):
    port = place.port()
    heap = 256 if place.fixed else 40
    place.start("java", "-Dsun.net.httpserver.nodelay=true", f"-Xmx{heap}m", "-cp", place.java(GUIDES), "Main", port, 10500, port=port)
    front = nginx(place, 'location / { proxy_pass http://guides; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream guides {{ server 127.0.0.1:{port}; keepalive 16; }}")
    # The first visitors come before the run, until java has compiled what it calls often.
    place.run("ab", "-q", "-k", "-n", "1500", "-c", "4", f"http://127.0.0.1:{front}/tour")
    return ["ab", "-q", "-k", "-n", "3000", "-c", "4", f"http://127.0.0.1:{front}/tour"]


# The page of a drawer lists its specimens, with the species and the collector of each.
CATALOGUE = """
import os, sys
import pymysql
from flask import Flask, render_template_string

app = Flask(__name__)
base = None
PAGE = '''<h1>Drawer {{ drawer }}</h1><ul>{% for item in items %}
<li>{{ item.label }}: {{ item.species }} ({{ item.family }}), collected by {{ item.collector }}</li>{% endfor %}</ul>'''
TOGETHER = '''select label, species.name as species, family, collectors.name as collector from specimens
    join species on species.id = species join collectors on collectors.id = collector where drawer = %s'''

def asked(text, *values):
    with base.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(text, values)
        return cursor.fetchall()

class Specimen:
    def __init__(self, row):
        self.label, self.of, self.by = row["label"], row["species"], row["collector"]

    def of_species(self, what):
        return asked("select name, family from species where id = %s", self.of)[0][what]

    species = property(lambda self: self.of_species("name"))
    family = property(lambda self: self.of_species("family"))
    collector = property(lambda self: asked("select name from collectors where id = %s", self.by)[0]["name"])

@app.get("/drawer/<int:drawer>")
def show(drawer):
    global base
    base = base or pymysql.connect(host="127.0.0.1", port=PORT, user="root", database="test", autocommit=True)
    if JOIN:
        items = asked(TOGETHER, drawer)
    else:
        items = [Specimen(row) for row in asked("select * from specimens where drawer = %s", drawer)]
    return render_template_string(PAGE, drawer=drawer, items=items)
"""
# Prints the inventory of the museum: it gets the page of one drawer after the other.
INVENTORY = """#!/usr/bin/ruby
require "net/http"
require "digest"
port, drawers = ARGV.map(&:to_i)
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
lines = 0
Net::HTTP.start("127.0.0.1", port) do |http|
  File.open("inventory.txt", "w") do |paper|
    drawers.times do |drawer|
      page = http.get("/drawer/#{drawer}")
      raise page.body unless page.code == "200"
      page.body.scan(/<li>(.*?)<.li>/) do |(line)|
        paper.puts(Digest::MD5.hexdigest(line)[0, 8] + " " + line)
        lines += 1
      end
    end
  end
end
raise "#{lines} specimens" unless lines == drawers * 40
puts "items #{drawers} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""


def catalogue(place):
    base = mariadb(place, """
        create table species (id int primary key, name varchar(60), family varchar(60));
        create table collectors (id int primary key, name varchar(60));
        create table specimens (id int primary key, drawer int, label varchar(40), species int, collector int, index (drawer));
        insert into species select seq, concat('Carabus ', seq), concat('Family ', seq % 90) from seq_0_to_2999;
        insert into collectors select seq, concat('Collector ', seq) from seq_0_to_399;
        insert into specimens select seq, seq div 40, concat('NHM.', seq), seq * 17 % 3000, seq * 7 % 400 from seq_0_to_15999""")
    port, front, drawers = place.port(), place.port(), 220
    place.write("catalogue.py", CATALOGUE.replace("PORT", str(base)).replace("JOIN", str(place.fixed)))
    place.start("/usr/bin/gunicorn", "-w", "2", "-k", "gthread", "--threads", "1", "-b", f"127.0.0.1:{port}", "--chdir", place.folder,
                "catalogue:app", port=port)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend museum
    bind 127.0.0.1:{front}
    default_backend catalogue
backend catalogue
    server catalogue 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return [str(place.write("inventory", INVENTORY)), str(front), str(drawers)]


# Sells a ticket: it asks the bank for the money, and gives the ticket a number.
TICKETS = """
import asyncio, http.client, json, sys
import aiohttp
import redis.asyncio
from aiohttp import web

port, bank, store, mode = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
routes = web.RouteTableDef()
counter = redis.asyncio.Redis(port=store)

class Bank:
    def __init__(self):
        self.link = http.client.HTTPConnection("127.0.0.1", bank)

    async def paid(self, cents):
        self.link.request("GET", f"/pay?cents={cents}")
        return json.loads(self.link.getresponse().read())

class AsyncBank:
    def __init__(self):
        self.session = aiohttp.ClientSession()

    async def paid(self, cents):
        async with self.session.get(f"http://127.0.0.1:{bank}/pay?cents={cents}") as answer:
            return await answer.json()

@routes.get("/buy")
async def buy(request):
    receipt = await request.app["bank"].paid(1450)
    number = await counter.incr("tickets")
    return web.json_response({"ticket": number, "receipt": receipt["receipt"]})

async def started(app):
    app["bank"] = AsyncBank() if mode == "async" else Bank()

app = web.Application()
app.add_routes(routes)
app.on_startup.append(started)
web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)
"""
BANK = """
const http = require("http");
const [port, pause] = process.argv.slice(2).map(Number);
let receipts = 0;
http.createServer((request, response) => {
  setTimeout(() => {
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify({ receipt: ++receipts, url: request.url }));
  }, pause);
}).listen(port, "127.0.0.1");
"""


def tickets(place):
    shop, bank, store = place.port(), place.port(), redis(place)
    place.start("node", place.write("bank.js", BANK), bank, round(8 * place.scale), port=bank)
    mode = "async" if place.fixed else "plain"
    place.start(PYTHON, place.write("tickets.py", TICKETS), shop, bank, store, mode, port=shop)
    front = nginx(place, 'location / { proxy_pass http://shop; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream shop {{ server 127.0.0.1:{shop}; keepalive 32; }}")
    return wrk(f"http://127.0.0.1:{front}/buy", 16, place.seconds)


# Control: a proxy that keeps its connections, in front of a server that has all files in memory.
def narrations(place):
    for stop in range(10):
        text = b"".join((stop * 7919 + i * 104729).to_bytes(5, "little") for i in range(12000))
        (place.folder / f"stop-{stop}.ogg").write_bytes(text)
    files, front = nginx(place, f"root {place.folder}; sendfile on; tcp_nopush on;"), place.port()
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    http-reuse always
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend museum
    bind 127.0.0.1:{front}
    default_backend narrations
backend narrations
    server files 127.0.0.1:{files}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    load = wrk(f"http://127.0.0.1:{front}/", 8, place.seconds)
    script = place.write("stops.lua", """
local count = 0
request = function()
  count = count + 1
  return wrk.format("GET", "/stop-" .. count % 10 .. ".ogg")
end
""")
    return [*load[:-1], "-s", str(script), load[-1]]


# Control: the screens at the doors ask for the number of free places, 60 times a second in all;
# four workers of php-fpm could answer many more.
PLACES = """<?php
$cache = stream_socket_client("tcp://127.0.0.1:PORT");
$hall = $_GET["hall"] ?? 0;
fwrite($cache, "incr seen-$hall 1\\r\\nget people-$hall\\r\\n");
$seen = fgets($cache);
$head = fgets($cache);
$people = (int) fgets($cache);
header("Content-Type: application/json");
echo json_encode(["hall" => $hall, "free" => 120 - $people]);
"""
SCREENS = """#!/usr/bin/node
const http = require("http");
const [port, seconds] = process.argv.slice(2).map(Number);
const agent = new http.Agent({ keepAlive: true });
const begin = process.hrtime.bigint();
let shown = 0, turn = 0;

// Each screen asks again at its own time, whether the others have their answers or not.
function show(hall) {
  http.get({ host: "127.0.0.1", port, agent, path: `/places.php?hall=${hall}` }, answer => {
    let text = "";
    answer.on("data", piece => text += piece);
    answer.on("end", () => shown += JSON.parse(text).free > 0 ? 1 : 0);
  });
}

const clock = setInterval(() => show(turn++ % 9), 1000 / 60);
setTimeout(() => {
  clearInterval(clock);
  const passed = Number(process.hrtime.bigint() - begin) / 1e9;
  console.log(`items ${shown} seconds ${passed.toFixed(3)}`);
  agent.destroy();
}, seconds * 1000);
"""


def screens(place):
    cache = place.port()
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", cache, "-m", "16", "-t", "1", port=cache)
    place.run(PYTHON, "-c", f"""
import socket
cache = socket.create_connection(("127.0.0.1", {cache}))
for hall in range(9):
    for name, value in ("seen", 0), ("people", 20 + hall):
        cache.sendall(f"set {{name}}-{{hall}} 0 0 {{len(str(value))}}\\r\\n{{value}}\\r\\n".encode())
        assert cache.recv(100) == b"STORED\\r\\n"
""")
    front = php(place, PLACES.replace("PORT", str(cache)), 4)
    return [str(place.write("screens", SCREENS)), str(front), str(place.seconds)]


NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="museum_pictures_never_cached",
        kind="cookie-prevents-cache",
        truth="pictures, in Go, computes: it decodes and reduces the scan of a specimen for each "
              "request, because varnish keeps no answer with the cookie that pictures sets",
        load=pictures,
        rate=WRK,
        component=(r"\bpictures\b", r"varnish[^;]*(cach|miss|cookie|forward|backend|passes)"),
        mechanism=(*RUNS, r"decod", r"jpeg", r"reduced", r"cach", r"cookie", r"requests? to"),
        never=(*DISK, r"pictures (\([^)]*\) )?sleeps", r"varnishd? (\([^)]*\) )?(sleeps|computes)"),
        code=(r"jpeg", r"reduced", r"YCbCr"),
        halves=True,
        running=True,
        needs=("varnishd", "go", "wrk"),
    ),
    System(
        name="museum_counter_commits",
        kind="commit-per-event",
        truth="tally waits for the disk: it commits each message of mosquitto in a transaction of "
              "its own, and sqlite syncs its journal and its database for each",
        load=counters,
        rate=ITEMS,
        component=(r"\btally\b", r"\b(disk|vda)\b[^;]*tally"),
        mechanism=(r"\bdisk", r"sync", r"journal", r"writeback", r"commit", r"flush"),
        never=(r"(tally|mosquitto) (\([^)]*\) )?sleeps", r"(mosquitto|turnstiles) (\([^)]*\) )?computes"),
        needs=("mosquitto", PYTHON),
    ),
    System(
        name="museum_guide_heap",
        kind="heap-too-small",
        truth="java collects garbage most of the time, because its heap of 40 MB is almost full "
              "with the narrations of all stops",
        load=guides,
        rate=AB,
        component=(r"\bjava\b", r"\bGC\b", r"\bG1\b", r"VM Thread", r"garbage"),
        mechanism=(r"\bGC\b", r"\bG1", r"garbage", r"\bcollect(s|or|ion|ions)\b", r"\bheap\b", r"VM Thread"),
        never=(*DISK, r"java (\([^)]*\) )?sleeps"),
        needs=("java", "javac", "nginx", "ab"),
    ),
    System(
        name="museum_catalogue_drawers",
        kind="n-plus-one-queries",
        truth="gunicorn asks mariadbd 121 times for each page, one query after the other, where "
              "one join would do",
        load=catalogue,
        rate=ITEMS,
        component=(r"gunicorn", r"catalogue", r"maria"),
        mechanism=(r"quer(y|ies)", r"pymysql", r"round ?trips?", r"(calls?|messages?|replies|repl(y|ies)) (to|of|from|for)\b",
                   r"requests? (to|of|from|for) (maria|mysql)", r"gunicorn[^;]*waits? for[^;]*maria",
                   r"one (\w+ )?at a time", r"one after (the other|another)"),
        never=(*DISK, r"(gunicorn|mariadbd) (\([^)]*\) )?sleeps", r"(haproxy|inventory|ruby) (\([^)]*\) )?computes"),
        needs=("mariadbd", "haproxy", "/usr/bin/gunicorn", "ruby", PYTHON),
    ),
    System(
        name="museum_tickets_one_by_one",
        kind="blocking-call-in-event-loop",
        truth="tickets.py waits for one payment at a time: a handler of its event loop calls the "
              "bank (bank.js, a timer of 8 ms) with a blocking client, so that all others wait",
        load=tickets,
        rate=WRK,
        # The pause of the bank is true, but only its being served one at a time is the fault.
        component=(r"python", r"tickets", r"\bnode\b", r"\bbank"),
        mechanism=(*LOCKS, r"one thread", r"single thread", r"event loop", r"\bblock(s|ed|ing)\b",
                   r"one after (the other|another)", r"in (a row|sequence)", r"serial", r"concurren",
                   r"(python3?|tickets)[^;]*waits? for[^;]*(node|bank|repl(y|ies)|answer|request)"),
        never=(*DISK, r"(node|bank\S*|redis-server|nginx) (\([^)]*\) )?computes"),
        halves=True,
        needs=("nginx", "node", "redis-server", "wrk", PYTHON),
    ),
    System(
        name="museum_control_narrations",
        kind="control",
        truth="haproxy keeps its connections to nginx, which sends files from memory; the CPUs are "
              "full with haproxy, nginx and wrk",
        load=narrations,
        rate=WRK,
        acceptable=(*NOTHING, r"(haproxy|nginx|wrk).*(comput|\bruns?\b|\buser\b|kernel|own code|\bCPU)", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs",
                    r"\bwrk\b", r"load generator"),
        needs=("haproxy", "nginx", "wrk"),
    ),
    System(
        name="museum_control_screens",
        kind="control",
        truth="screens, in node, asks for free places 60 times a second by intention, whether the "
              "last answer has come or not; nginx, php-fpm and memcached are idle most of the time",
        load=screens,
        rate=ITEMS,
        acceptable=(*NOTHING, r"\bpaced\b", r"(screens|node).*(sleep|timer|until a time|interval)", r"\bidle\b", r"load generator"),
        needs=("node", f"/usr/sbin/{PHP_FPM}", "nginx", "memcached", PYTHON),
    ),
]

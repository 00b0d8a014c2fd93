"""Web applications of a clinic with their databases, queues and caches: a slow archive behind a pool
of threads, a shared connection under a lock, an index that a function hides, a cache that evicts
what it needs next, a queue with one consumer.
"""
from services import PHP_FPM, mariadb, nginx, php, postgres, redis
from system import COMPUTES, ITEMS, LOCKS, PYTHON, SLEEPS, WRK, System, wrk

# The sentence must name the lock, or that others wait for one another.
QUEUED = (*LOCKS, r"wait\w* for each other", r"one after (the other|another)", r"\bserial")


def does(who, what):
    """Returns a pattern for `who` doing `what`, but not for `who` waiting for another that does."""
    return rf"(?:{who})(?:(?!\bwait|\band\b|[,;]).){{0,30}}(?:{what})"


UPSTREAM = "upstream behind {{ server 127.0.0.1:{port}; keepalive 32; }}"
PASS = 'location / { proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ""; }'

# A patient's page: the record is in mariadb, the list of images comes from another server.
PORTAL = """
import http.client, os, threading
import pymysql
from flask import Flask

app, mine = Flask("portal"), threading.local()

@app.route("/patient/<int:number>")
def patient(number):
    if not hasattr(mine, "cursor"):
        database = pymysql.connect(host="127.0.0.1", port=int(os.environ["RECORDS"]), user="root", database="test", autocommit=True)
        mine.cursor, mine.archive = database.cursor(), http.client.HTTPConnection("127.0.0.1", int(os.environ["ARCHIVE"]))
    mine.cursor.execute("select name, ward from patient where id = %s", (number,))
    name, ward = mine.cursor.fetchone()
    mine.archive.request("GET", "/images?patient=%d" % number)
    return "%s, ward %d: %s" % (name, ward, mine.archive.getresponse().read().decode())
"""

ARCHIVE = """
package main

import ("fmt"; "net/http"; "os"; "time")

func main() {
	pause, _ := time.ParseDuration(os.Args[2])
	http.HandleFunc("/images", func(w http.ResponseWriter, r *http.Request) {
		if pause > 0 {
			time.Sleep(pause)  // the tape library
		}
		fmt.Fprintf(w, "thorax-%s.dcm knee-%s.dcm\\n", r.FormValue("patient"), r.FormValue("patient"))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

THREADS = 8  # gunicorn has these threads, wrk as many connections


def slow_archive(place):
    records = mariadb(place, "create table patient (id int primary key, name text, ward int) engine=innodb; insert into patient select seq, concat('patient ', seq), seq % 7 from seq_1_to_5000")
    archive, port = place.port(), place.port()
    place.start(place.go("xrayarchive", ARCHIVE), archive, f"{0.06 * place.fault:.4f}s", port=archive)
    place.write("portal.py", PORTAL)
    place.start("gunicorn", "--worker-class", "gthread", "--workers", 1, "--threads", THREADS, "--keep-alive", 60, "--bind", f"127.0.0.1:{port}", "portal:app", port=port,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "RECORDS": str(records), "ARCHIVE": str(archive)})
    front = nginx(place, PASS, UPSTREAM.format(port=port))
    return wrk(f"http://127.0.0.1:{front}/patient/4711", THREADS, place.seconds)


# A prescription gets a number from redis and a signature from the card reader. `cards` connections
# to the reader are shared by all threads.
PRESCRIPTIONS = """
import com.sun.net.httpserver.HttpServer;
import java.io.*;
import java.net.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;

public class Main {
    static class Line {
        final OutputStream out;
        final BufferedReader in;
        Line(int port) throws IOException {
            Socket socket = new Socket("127.0.0.1", port);
            socket.setTcpNoDelay(true);
            out = socket.getOutputStream();
            in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
        }
        String ask(String question) throws IOException {
            out.write(question.getBytes());
            return in.readLine();
        }
    }

    static class Card {
        final Line line;
        Card(int port) throws IOException { line = new Line(port); }
        synchronized String sign(String text) throws IOException { return line.ask(text + "\\n"); }
    }

    static Line numbers(int port) {
        try {
            return new Line(port);
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }

    public static void main(String[] words) throws Exception {
        int redis = Integer.parseInt(words[1]), reader = Integer.parseInt(words[2]), threads = Integer.parseInt(words[4]);
        Card[] cards = new Card[Integer.parseInt(words[3])];
        for (int i = 0; i < cards.length; i++)
            cards[i] = new Card(reader);
        AtomicInteger next = new AtomicInteger();
        ThreadLocal<Card> card = ThreadLocal.withInitial(() -> cards[next.getAndIncrement() % cards.length]);
        ThreadLocal<Line> counter = ThreadLocal.withInitial(() -> numbers(redis));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 64);
        server.setExecutor(Executors.newFixedThreadPool(threads));
        server.createContext("/", exchange -> {
            String number = counter.get().ask("INCR prescription\\r\\n");
            byte[] body = (number + " " + card.get().sign("prescription " + number) + "\\n").getBytes();
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
"""

# A thread for each connection; the chip of a card needs its time for a signature.
CARDREADER = """
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long pause_us;

static void *serve(void *argument) {
	int socket = (int)(long)argument;
	char text[512], answer[64];
	long size;
	while ((size = read(socket, text, sizeof text)) > 0) {
		struct timespec chip = {0, pause_us * 1000};
		nanosleep(&chip, 0);
		unsigned hash = 5381;
		for (long i = 0; i < size; i++)
			hash = hash * 33 + text[i];
		if (write(socket, answer, sprintf(answer, "%08x\\n", hash)) < 0)
			break;
	}
	close(socket);
	return 0;
}

int main(int count, char **words) {
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	pause_us = atol(words[2]);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64))
		return 1;
	for (;;) {
		long client = accept(listener, 0, 0);
		pthread_t thread;
		if (client < 0)
			continue;
		setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		pthread_create(&thread, 0, serve, (void *)client);
		pthread_detach(thread);
	}
}
"""

DOCTORS = 10


def shared_card(place):
    counter, reader, port = redis(place), place.port(), place.port()
    place.start(place.c("cardreader", CARDREADER), reader, round(9000 * place.scale), port=reader)
    place.start("java", "-Xmx128m", "-XX:+UseSerialGC", "-Dsun.net.httpserver.nodelay=true", "-cp", place.java(PRESCRIPTIONS), "Main", port, counter, reader,
                DOCTORS if place.fixed else 1, DOCTORS, port=port)
    front = nginx(place, PASS, UPSTREAM.format(port=port))
    return wrk(f"http://127.0.0.1:{front}/sign", DOCTORS, place.seconds)


# Looks patients up by name, in whatever letters it is written. The pool has three connections,
# which speak the protocol of postgres.
REGISTRY = """
package main

import ("bufio"; "encoding/binary"; "fmt"; "io"; "net"; "net/http"; "os"; "strings")

type database struct { out net.Conn; in *bufio.Reader }

func message(kind string, body string) []byte {
	text := []byte(kind)
	text = binary.BigEndian.AppendUint32(text, uint32(len(body)+4))
	return append(text, body...)
}

// rows returns the columns of all rows, up to "ready for query".
func (d *database) rows() (found []string) {
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(d.in, head); err != nil {
			os.Exit(1)
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		io.ReadFull(d.in, body)
		switch head[0] {
		case 'D':
			for i, at := 0, 2; i < int(binary.BigEndian.Uint16(body)); i++ {
				size := int(binary.BigEndian.Uint32(body[at:]))
				found = append(found, string(body[at+4:at+4+size]))
				at += 4 + size
			}
		case 'E':
			fmt.Fprintf(os.Stderr, "%q\\n", body)
		case 'Z':
			return
		}
	}
}

func main() {
	pool := make(chan *database, 3)
	for i := 0; i < cap(pool); i++ {
		out, err := net.Dial("tcp", "127.0.0.1:"+os.Args[2])
		if err != nil {
			os.Exit(1)
		}
		one := &database{out, bufio.NewReader(out)}
		out.Write(message("", "\\x00\\x03\\x00\\x00user\\x00postgres\\x00database\\x00postgres\\x00\\x00"))
		one.rows()
		pool <- one
	}
	http.HandleFunc("/patient", func(w http.ResponseWriter, r *http.Request) {
		name := strings.ReplaceAll(strings.ToLower(r.FormValue("name")), "'", "''")
		one := <-pool
		one.out.Write(message("Q", "select id, name, born from patient where lower(name) = '" + name + "'\\x00"))
		found := one.rows()
		pool <- one
		if len(found) == 0 {
			w.WriteHeader(404)
		}
		fmt.Fprintln(w, strings.Join(found, ";"))
	})
	http.ListenAndServe("127.0.0.1:"+os.Args[1], nil)
}
"""

HAPROXY = """
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
"""

# Only as many names as half of the table has.
NAMES = """
request = function() return wrk.format("GET", "/patient?name=MILLER-" .. math.random(1, 10000)) end
"""

PATIENTS = 24000


def hidden_index(place):
    rows = round(PATIENTS * place.scale)
    base = postgres(place, "create table patient (id int primary key, name text, born date); "
                    f"insert into patient select i, 'Miller-' || i, date '1940-01-01' + i % 25000 from generate_series(1, {rows}) i; create index on patient (name); "
                    + ("create index on patient (lower(name)); " if place.fixed else "") + "analyze patient",
                    max_parallel_workers_per_gather=0, jit="off")
    port, front = place.port(), place.port()
    place.start(place.go("registry", REGISTRY), port, base, port=port)
    place.start("haproxy", "-db", "-f", place.write("haproxy.cfg", HAPROXY.format(front=front, port=port)), port=front)
    command = wrk(f"http://127.0.0.1:{front}", 6, place.seconds)
    return [*command[:-1], "-s", str(place.write("names.lua", NAMES)), command[-1]]


# The page of a patient's growth curve, which java draws when it is not in redis.
CURVES = """<?php
$patient = (int) $_GET["patient"];
$redis = pfsockopen("127.0.0.1", REDIS);
fwrite($redis, "GET curve:$patient\\r\\n");
$size = (int) substr(fgets($redis), 1);
if ($size >= 0) {
    $curve = stream_get_contents($redis, $size);
    fgets($redis);
} else {
    $curve = file_get_contents("http://127.0.0.1:CURVES/?patient=$patient");
    fwrite($redis, "*3\\r\\n$3\\r\\nSET\\r\\n$" . strlen("curve:$patient") . "\\r\\ncurve:$patient\\r\\n$" . strlen($curve) . "\\r\\n$curve\\r\\n");
    fgets($redis);
}
header("Content-Type: image/x-portable-graymap");
echo $curve;
"""

CURVE = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

public class Main {
    static final int WIDTH = 256, HEIGHT = 160;

    static byte[] draw(int patient, int passes) {
        byte[] image = new byte[WIDTH * HEIGHT];
        for (int pass = 0; pass < passes; pass++)
            for (int x = 0; x < WIDTH; x++) {
                double height = 80 + 40 * Math.sin((x + patient) * 0.03) + 20 * Math.log(1 + x + pass % 3);
                for (int y = 0; y < HEIGHT; y++)
                    image[y * WIDTH + x] = (byte) (image[y * WIDTH + x] / 2 + 127 / (1 + Math.abs(height - y)));
            }
        return image;
    }

    public static void main(String[] words) throws Exception {
        int passes = Integer.parseInt(words[1]);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 64);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            byte[] body = draw(Integer.parseInt(exchange.getRequestURI().getQuery().split("=")[1]), passes);
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
"""

# The round goes from one patient to the next, and begins anew after the last one.
ROUND = """
local patient = 0
request = function()
	patient = (patient + 1) % CHILDREN
	return wrk.format("GET", "/?patient=" .. patient)
end
"""

CHILDREN, PASSES = 250, 60


def evicting_cache(place):
    cache = redis(place, "--maxmemory", 0 if place.fixed else "4mb", "--maxmemory-policy", "allkeys-lru")
    port = place.port()
    place.start("java", "-Xmx128m", "-XX:+UseSerialGC", "-Dsun.net.httpserver.nodelay=true", "-cp", place.java(CURVE), "Main", port, round(PASSES * place.scale), port=port)
    front = php(place, CURVES.replace("REDIS", str(cache)).replace("CURVES", str(port)), 4)
    # The cache is warm when the load begins, as far as there is room in it.
    place.run("curl", "-s", "-S", "-f", "-o", "/dev/null", f"http://127.0.0.1:{front}/?patient=[0-{CHILDREN - 1}]")
    command = wrk(f"http://127.0.0.1:{front}", 6, place.seconds)
    return [*command[:-1], "-s", str(place.write("round.lua", ROUND.replace("CHILDREN", str(CHILDREN)))), command[-1]]


# A prescription goes into a list of redis; its answer comes in a list of its own.
PHARMACY = """
import itertools, sys
from aiohttp import web
import redis.asyncio

numbers = itertools.count(1)

async def prescribe(request):
    number = next(numbers)
    await server.lpush("prescriptions", number)
    _, packet = await server.brpop("packet:%d" % number, 0)
    return web.Response(body=packet)

async def connect(app):
    global server
    server = redis.asyncio.Redis(port=int(sys.argv[2]))

app = web.Application()
app.router.add_get("/prescribe", prescribe)
app.on_startup.append(connect)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
"""

DISPENSER = """
require "socket"
port, pause = ARGV[0].to_i, ARGV[1].to_f
redis = TCPSocket.new("127.0.0.1", port)
redis.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
loop do
  redis.write("BRPOP prescriptions 0\\r\\n")
  5.times { @line = redis.gets.chomp }  # *2, $13, the list, the size, the number
  sleep(pause)  # the drawer opens
  redis.write("LPUSH packet:#{@line} packet-#{@line}\\r\\n")
  redis.gets
end
"""

COUNTERS, DRAWERS = 8, 4


def one_dispenser(place):
    queue, port = redis(place), place.port()
    dispenser = place.write("dispenser.rb", DISPENSER)
    for _ in range(DRAWERS if place.fixed else 1):
        place.start("ruby", dispenser, queue, 0.012 * place.scale)
    place.start(PYTHON, place.write("pharmacy.py", PHARMACY), port, queue, port=port)
    return wrk(f"http://127.0.0.1:{port}/prescribe", COUNTERS, place.seconds)


# A patient comes each 65 ms by intention, is written down, and sees who is before him.
RECEPTION = """
import http.client, sys, time
import pymysql

records = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", database="test", autocommit=True)
cursor, board = records.cursor(), http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]))
begin, done = time.monotonic(), 0
while time.monotonic() < begin + float(sys.argv[3]):
    cursor.execute("insert into visit (patient, room) values (%s, %s)", (done * 37 % 5000, done % 6))
    board.request("GET", "/arrived?room=%d" % (done % 6))
    board.getresponse().read()
    done += 1
    time.sleep(max(0, begin + done * 0.065 - time.monotonic()))
print("items %d seconds %.3f" % (done, time.monotonic() - begin))
"""

# The board counts who is in each room in memcached.
BOARD = """
const http = require("http"), net = require("net");
const cache = net.connect(+process.argv[3], "127.0.0.1").setNoDelay(true), waiting = [];
let rest = "";
cache.on("data", data => {
  const lines = (rest + data).split("\\r\\n");
  rest = lines.pop();
  for (const line of lines)
    waiting.shift()(line);
});
const ask = text => new Promise(resolve => { waiting.push(resolve); cache.write(text); });
http.createServer(async (request, response) => {
  const key = "room" + new URL(request.url, "http://board").searchParams.get("room");
  await ask(`add ${key} 0 0 1\\r\\n0\\r\\n`);
  response.end(`${key}: ${await ask(`incr ${key} 1\\r\\n`)} patients\\n`);
}).listen(+process.argv[2], "127.0.0.1");
"""


def paced_reception(place):
    records = mariadb(place, "create table visit (id int auto_increment primary key, patient int, room int) engine=innodb", "--innodb-flush-log-at-trx-commit=0")
    cache, port = place.port(), place.port()
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", cache, "-U", "0", "-t", "1", port=cache)
    place.start("node", place.write("board.js", BOARD), port, cache, port=port)
    return [PYTHON, str(place.write("reception.py", RECEPTION)), str(records), str(port), str(place.seconds)]


# Two processes take one request after the other, and compute an answer from what they have.
TRIAGE = """
require "erb"
require "socket"
listener = TCPServer.new("127.0.0.1", ARGV[0].to_i)
listener.listen(64)
PAGE = ERB.new("<% rows.each do |row| %><tr><td><%= row[0] %></td><td><%= '%.2f' % row[1] %></td></tr>\\n<% end %>")
Process.fork
loop do
  client = listener.accept
  while (line = client.gets) && line != "\\r\\n"
  end
  rows = (1..1500).map { |number| ["patient #{number}", Math.sqrt(number * 7919 % 1013)] }.sort_by { |row| -row[1] }
  body = PAGE.result_with_hash(rows: rows)
  client.write("HTTP/1.1 200 OK\\r\\nContent-Length: #{body.size}\\r\\nConnection: close\\r\\n\\r\\n#{body}")
  client.close
end
"""

# Beside them a pump reports to redis each 20 ms by intention, which concerns nobody else.
PUMP = """
import sys, time
import redis

server, drop = redis.Redis(port=int(sys.argv[1])), 0
while True:
    server.set("infusion", drop)
    drop += 1
    time.sleep(0.02)
"""


def busy_triage(place):
    port, store = place.port(), redis(place)
    place.start(PYTHON, place.write("infusionpump.py", PUMP), store)
    place.start("ruby", place.write("triage.rb", TRIAGE), port, port=port)
    front = nginx(place, f"location / {{ proxy_pass http://127.0.0.1:{port}; }}")
    return wrk(f"http://127.0.0.1:{front}/", 6, place.seconds)


SYSTEMS = [
    System(
        name="clinic_xray_archive",
        kind="slow-dependency-behind-threads",
        truth="the eight threads of gunicorn wait for the Go server xrayarchive, which waits 60 ms for a timer in each request",
        load=slow_archive,
        rate=WRK,
        component=(r"xrayarchive",),
        mechanism=SLEEPS,
        never=(r"disk", r"fsync", does("mariadb", "sleep|comput|lock"), r"\block\b", r"mutex"),
        change="x0",
        halves=True,
        needs=("mariadbd", "mariadb", "gunicorn", "nginx", "wrk", "go", PYTHON),
    ),
    System(
        name="clinic_one_signature_card",
        kind="lock-around-shared-connection",
        truth="the ten threads of java share one connection to cardreader, and one of them at a time holds its lock (synchronized) while cardreader sleeps 9 ms for the signature",
        load=shared_card,
        rate=WRK,
        component=(r"java", r"cardreader", r"\bMain\b"),
        mechanism=QUEUED,
        never=(r"disk", r"network", r"garbage", does("redis|nginx", "sleep|comput|lock")),
        change="x0.1",
        halves=True,
        needs=("redis-server", "java", "javac", "gcc", "nginx", "wrk"),
    ),
    System(
        name="clinic_names_in_any_case",
        kind="function-hides-index",
        truth="postgres computes lower(name) of all patients for each request of registry, because the index is of the name itself",
        load=hidden_index,
        rate=WRK,
        component=(r"postgres",),
        mechanism=(*COMPUTES, r"\bscan", r"reads the whole", r"index"),
        never=(r"disk", r"fsync", r"\bwal\b", r"\block\b", r"mutex", does("postgres", "sleep")),
        halves=True,
        needs=("psql", "haproxy", "wrk", "go"),
    ),
    System(
        name="clinic_curves_evicted",
        kind="evicting-cache",
        truth="java draws nearly each growth curve anew, and computes, because redis has room for a quarter of them (maxmemory) and evicts each before the round comes to it again",
        load=evicting_cache,
        rate=WRK,
        component=(r"java", r"\bMain\b", r"redis.{0,40}(evict|miss|maxmemory)"),
        mechanism=(*COMPUTES, r"evict", r"miss(es)?\b", r"maxmemory"),
        never=(does("redis|php", "comput"), r"disk", r"\block\b", r"mutex", r"\bsleeps\b", r"garbage"),
        halves=True,
        needs=("redis-server", "java", "javac", "nginx", "wrk", "curl", PHP_FPM),
    ),
    System(
        name="clinic_one_dispenser",
        kind="one-consumer",
        truth="one process of ruby (dispenser.rb) takes the prescriptions of all eight counters from the list of redis, and sleeps 12 ms for one after the other",
        load=one_dispenser,
        rate=WRK,
        component=(r"dispenser", r"ruby"),
        mechanism=(*SLEEPS, r"one (\w+ )?at a time", r"one after (the other|another)", r"\bserial", r"one consumer"),
        never=(r"disk", r"network", does("redis|pharmacy|python", "comput|sleep"), r"\block\b", r"mutex"),
        change="x0.25",
        halves=True,
        needs=("redis-server", "ruby", "wrk", PYTHON),
    ),
    System(
        name="control_clinic_reception",
        kind="control",
        truth="reception has a patient each 65 ms by intention, whom mariadbd, node (board.js) and memcached are done with at once; all are idle most of the time",
        load=paced_reception,
        rate=ITEMS,
        acceptable=(r"(reception|python).{0,60}(sleep|timer|until a time|pause)", r"\bidle\b", r"no bottleneck", r"nothing (is|to)"),
        needs=("mariadbd", "mariadb", "memcached", "node", PYTHON),
    ),
    System(
        name="control_clinic_triage",
        kind="control",
        truth="two processes of ruby compute the pages that wrk asks nginx for, and both CPUs are full; a pump, which concerns nobody else, tells redis a number each 20 ms by intention",
        load=busy_triage,
        rate=WRK,
        # A verdict that names a sleep or a lock is wrong.
        acceptable=(r"^(?!.*(\block|one another|at a time|sleep|timer|pump|redis)).*(triage|ruby).*(comput|\buser\b|runs its own code|\bcpu)",),
        needs=("redis-server", "ruby", "nginx", "wrk", PYTHON),
    ),
]

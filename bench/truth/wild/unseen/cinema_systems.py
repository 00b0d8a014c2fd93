"""The booking site of a chain of cinemas: five frequent faults of caches, stores and proxies whose
time is seen in another service of the chain, and two healthy parts of the same site.
"""
import os
import pwd
import signal
from pathlib import Path

from services import PHP_FPM, at, nginx, postgres, redis
from system import ITEMS, LOCKS, PYTHON, WRK, System, number, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
PAUSES = (r"sleep", r"\btimer", r"until a time", r"time-?out", r"\bdelay")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")
AB = number(r"Requests per second:\s+([\d.]+)")

# The map of the free seats of a showing, with the prices of this moment.
SEATS = """
import json, sys
import aiohttp
import redis.asyncio
from aiohttp import web

async def start(app):
    app["prices"] = aiohttp.ClientSession()
    app["sold"] = redis.asyncio.Redis(port=int(sys.argv[2]))

async def seats(request):
    showing = request.query["showing"]
    sold = await app["sold"].getrange(f"sold:{showing}", 0, 219)
    async with app["prices"].get(f"http://127.0.0.1:{sys.argv[3]}/price?showing={showing}") as answer:
        price = await answer.json()
    rows = [{"row": row, "seats": [{"seat": seat, "free": sold[row * 20 + seat] != ord("x"), "cents": price["cents"] - 20 * row}
                                   for seat in range(20)]} for row in range(11)]
    return web.json_response({"showing": showing, "rows": rows})

app = web.Application()
app.on_startup.append(start)
app.router.add_get("/seats", seats)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
"""
# The price depends on the licence of the film, for which the distributor is asked.
PRICING = """
package main

import ("fmt"; "net/http"; "os"; "time")

func distributor() {
	pause, _ := time.ParseDuration(os.Args[2])
	time.Sleep(pause)
}

func main() {
	http.HandleFunc("/price", func(w http.ResponseWriter, r *http.Request) {
		distributor()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, "{\\"showing\\": %q, \\"cents\\": 1190}", r.URL.Query().Get("showing"))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def seat_maps(place):
    """varnish lets one request at a time fetch an object that it takes for cacheable. An object
    that is already too old when it arrives does not serve those that wait for it.
    """
    store, prices, app, cache = redis(place), place.port(), place.port(), place.port()
    place.run("redis-cli", "-p", store, "set", "sold:7", "x.xx....xxx." * 20)
    place.start(place.go("pricing", PRICING), prices, f"{12 * place.scale}ms", port=prices)
    place.start(PYTHON, place.write("seats.py", SEATS), app, store, prices, port=app)
    fresh = "set beresp.uncacheable = true; set beresp.ttl = 120s;" if place.fixed else "set beresp.ttl = 0s;"
    rules = place.write("cinema.vcl", f"""
vcl 4.1;
backend seats {{ .host = "127.0.0.1"; .port = "{app}"; }}
sub vcl_backend_response {{
    # The map of the seats changes with each sale.
    if (bereq.url ~ "^/seats") {{
        {fresh}
        set beresp.grace = 0s;
        set beresp.keep = 0s;
        return (deliver);
    }}
}}
""")
    place.start("varnishd", "-F", "-n", place.folder / "varnish", "-f", rules, "-a", f"127.0.0.1:{cache}", "-s", "malloc,32m",
                "-T", "none", port=cache)
    return wrk(f"http://127.0.0.1:{cache}/seats?showing=7", 16, place.seconds)


# Sells a ticket of tonight: a process of gunicorn keeps its connection to the database.
BOOKINGS = """
import random
from flask import Flask
import psycopg2

app, held = Flask(__name__), []

def base():
    if not held:
        held.append(psycopg2.connect(host="127.0.0.1", port=PORT, user="postgres"))
    return held[0]

@app.get("/book")
def book():
    showing = random.randrange(400)
    with base() as transaction, transaction.cursor() as cursor:
        cursor.execute("update showings set free = free - 1 where id = %s returning free", (showing,))
        seat = cursor.fetchone()[0]
        cursor.execute("insert into tickets (showing, seat) values (%s, %s) returning id", (showing, seat))
        ticket = cursor.fetchone()[0]
    return {"ticket": ticket, "showing": showing, "seat": seat}
"""


def standby(place):
    """The standby that applies everything later, so that one can go back after a mistake, is also
    the one for which each commit waits.
    """
    base = postgres(place, """
        create table showings (id int primary key, free int) with (fillfactor = 50);
        create table tickets (id serial primary key, showing int, seat int, sold timestamptz default now());
        insert into showings select i, 200 from generate_series(0, 399) i; analyze""", shared_buffers="32MB")
    user = pwd.getpwnam("postgres")
    as_user = {"user": user.pw_uid, "group": user.pw_gid, "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}}
    second, home, programs = place.port(), place.folder / "standby", max(Path("/usr/lib/postgresql").glob("*/bin"))
    home.mkdir(mode=0o700)
    os.chown(home, user.pw_uid, user.pw_gid)
    place.run("pg_basebackup", *at(base), "-D", home, "-R", "--checkpoint=fast", "--no-sync", **as_user)
    settings = (f"primary_conninfo=host=127.0.0.1 port={base} user=postgres application_name=standby", f"port={second}",
                f"recovery_min_apply_delay={round(40 * place.fault)}ms", "shared_buffers=32MB", "listen_addresses=127.0.0.1",
                "unix_socket_directories=")
    words = [word for setting in settings for word in ("-c", setting)]
    place.start(programs / "postgres", "-D", home, *words, port=second, stop=signal.SIGINT, **as_user)
    state = f"psql {' '.join(at(base))} -Atc 'select state from pg_stat_replication'"
    place.run("sh", "-c", f"for i in $(seq 200); do {state} | grep -q streaming && exit; sleep 0.05; done; exit 1")
    changes = ("alter system set synchronous_standby_names = 'standby'", "alter system set synchronous_commit = 'remote_apply'",
               "select pg_reload_conf()")
    place.run("psql", *at(base), "-q", *(part for change in changes for part in ("-c", change)))
    app, front = place.port(), place.port()
    place.write("bookings.py", BOOKINGS.replace("PORT", str(base)))
    place.start("/usr/bin/gunicorn", "-w", "6", "-b", f"127.0.0.1:{app}", "--chdir", place.folder, "bookings:app", port=app)
    balancer(place, front, app)
    return ["ab", "-q", "-k", "-l", "-n", "500", "-c", "6", f"http://127.0.0.1:{front}/book"]


def balancer(place, front, *services):
    servers = "\n".join(f"    server app{i} 127.0.0.1:{port}" for i, port in enumerate(services))
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend cinema
    bind 127.0.0.1:{front}
    default_backend services
backend services
{servers}
""")
    place.start("haproxy", "-db", "-f", config, port=front)


# The page of a film comes from one of two nodes of the cache, else from the catalogue.
FILMS = """<?php
const NODES = [NODE0, NODE1];

// Returns the value, "" if the node does not have it, or null if the node does not answer.
function cached($node, $key) {
    $link = @stream_socket_client("tcp://127.0.0.1:$node", $code, $text, PATIENCE / 1e6);
    if (!$link) {
        return null;
    }
    stream_set_timeout($link, 0, PATIENCE);
    fwrite($link, "get $key\\r\\n");
    $head = fgets($link);
    if ($head === false) {
        return null;
    }
    return sscanf($head, "VALUE %s %d %d", $name, $flags, $length) === 3 ? stream_get_contents($link, $length) : "";
}

$film = mt_rand(1, 200);
$key = "film:$film";
$node = NODES[crc32($key) % 2];
$page = cached($node, $key);
if (!$page) {
    $miss = $page === "";
    $page = file_get_contents("http://127.0.0.1:CATALOGUE/film?number=$film");
    if ($miss) {
        $link = stream_socket_client("tcp://127.0.0.1:$node");
        fwrite($link, "set $key 0 600 " . strlen($page) . "\\r\\n$page\\r\\n");
        fgets($link);
    }
}
echo $page;
"""
CATALOGUE = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

public class Main {
    static String film(String number) {
        StringBuilder page = new StringBuilder("<h1>Film ").append(number).append("</h1><ul>");
        for (int showing = 0; showing < 120; showing++)
            page.append(String.format("<li>Hall %d, %02d:%02d", showing % 12 + 1, 11 + showing % 12, showing % 4 * 15));
        return page.append("</ul>").toString();
    }

    public static void main(String[] words) throws Exception {
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
        HttpServer server = HttpServer.create(address, 100);
        server.setExecutor(Executors.newFixedThreadPool(6));
        server.createContext("/film", exchange -> {
            byte[] page = film(exchange.getRequestURI().getQuery().substring(7)).getBytes();
            exchange.sendResponseHeaders(200, page.length);
            exchange.getResponseBody().write(page);
            exchange.close();
        });
        server.start();
    }
}
"""


def dead_node(place):
    """One of two nodes of the cache has stopped: its kernel still takes connections, but nobody
    answers.
    """
    catalogue, pool, folder, nodes = place.port(), place.port(), place.folder, []
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Xmx128m", "-cp", place.java(CATALOGUE), "Main", catalogue, port=catalogue)
    for _ in range(2):
        nodes.append(place.port())
        node = place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", nodes[-1], "-U", "0", "-t", "2", "-b", "4096", "-m", "32",
                           port=nodes[-1], stop=signal.SIGKILL)
    if not place.fixed:
        os.kill(node.pid, signal.SIGSTOP)
    page = FILMS.replace("CATALOGUE", str(catalogue)).replace("PATIENCE", str(round(50000 * place.scale)))
    page = place.write("films.php", page.replace("NODE0", str(nodes[0])).replace("NODE1", str(nodes[1])))
    config = place.write("fpm.conf", f"""
[global]
daemonize = no
error_log = {folder}/fpm.log
[films]
user = root
group = root
listen = 127.0.0.1:{pool}
pm = static
pm.max_children = 5
""")
    place.start(PHP_FPM, "-n", "-R", "-F", "-y", config, port=pool)
    front = nginx(place, f"location / {{ include /etc/nginx/fastcgi_params; fastcgi_pass 127.0.0.1:{pool}; "
                         f"fastcgi_param SCRIPT_FILENAME {page}; }}")
    return wrk(f"http://127.0.0.1:{front}/film", 5, place.seconds)


# Checks tickets at the doors, and takes photographs of student cards from telephones.
HALLS = """
import hashlib
from flask import Flask, request
import redis

app, store = Flask(__name__), redis.Redis(port=PORT)

@app.get("/check")
def check():
    ticket = store.incr("checked")
    return {"ticket": ticket, "code": hashlib.sha256(b"%d" % ticket).hexdigest()}

@app.post("/card")
def card():
    photograph = request.get_data()
    store.set(f"card:{request.args['number']}", hashlib.sha256(photograph).digest())
    return {"bytes": len(photograph)}
"""
# Telephones on a slow network: each sends a photograph in 40 pieces, and later the next one.
TELEPHONES = """#!/usr/bin/ruby
require "socket"
port, count, pause = ARGV[0].to_i, ARGV[1].to_i, ARGV[2].to_f
piece = "jpeg" * 1000

threads = count.times.map do |number|
  Thread.new do
    chance = Random.new(number)
    loop do
      link = TCPSocket.new("127.0.0.1", port)
      link.write("POST /card?number=#{number} HTTP/1.1\\r\\nHost: cinema\\r\\nContent-Type: image/jpeg\\r\\n" \\
                 "Content-Length: #{40 * piece.size}\\r\\nConnection: close\\r\\n\\r\\n")
      40.times do
        sleep pause
        link.write(piece)
      end
      answer = link.read
      raise answer unless answer.start_with?("HTTP/1.1 200")
      link.close
      sleep 0.4 * chance.rand
    end
  end
end
File.write("telephones-ready", "")
threads.each(&:join)
"""


def photographs(place):
    """Without its buffer, nginx passes each piece of a photograph on as it comes, so that a worker
    of gunicorn is busy with it for as long as the telephone.
    """
    store, app = redis(place), place.port()
    place.write("halls.py", HALLS.replace("PORT", str(store)))
    place.start("/usr/bin/gunicorn", "-w", "3", "-b", f"127.0.0.1:{app}", "--chdir", place.folder, "halls:app", port=app)
    buffering = "on" if place.fixed else "off"
    front = nginx(place, f"location / {{ proxy_pass http://127.0.0.1:{app}; proxy_http_version 1.1; proxy_request_buffering {buffering}; "
                         "client_body_buffer_size 256k; }")
    place.start(place.write("telephones", TELEPHONES), front, 8, 0.01, path=place.folder / "telephones-ready")
    return wrk(f"http://127.0.0.1:{front}/check", 3, place.seconds)


# A door of a hall: it lets one visitor after the other in.
TURNSTILE = """#!/usr/bin/perl
use strict;
use warnings;
use HTTP::Tiny;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($port, $count) = @ARGV;
my $http = HTTP::Tiny->new(keep_alive => 1);
my $start = clock_gettime(CLOCK_MONOTONIC);
for my $ticket (1 .. $count) {
    my $answer = $http->get("http://127.0.0.1:$port/enter?ticket=$ticket");
    die $answer->{content} unless $answer->{success};
}
printf "items %d seconds %.3f\\n", $count, clock_gettime(CLOCK_MONOTONIC) - $start;
"""
TICKETS = """
package main

import ("bufio"; "crypto/sha256"; "fmt"; "io"; "net"; "net/http"; "os"; "strconv"; "strings")

type store struct {
	link net.Conn
	replies *bufio.Reader
}

// Sends a command, and returns its reply, which is one line or one text after its length.
func (s *store) ask(command string) (string, error) {
	if _, err := io.WriteString(s.link, command + "\\r\\n"); err != nil {
		return "", err
	}
	line, err := s.replies.ReadString('\\n')
	line = strings.TrimSpace(line)
	if err != nil || !strings.HasPrefix(line, "$") || line == "$-1" {
		return line, err
	}
	length, _ := strconv.Atoi(line[1:])
	text := make([]byte, length + 2)
	_, err = io.ReadFull(s.replies, text)
	return string(text[:length]), err
}

// The number that is printed on the ticket beside its code.
func seal(ticket string) (sum [32]byte) {
	sum = sha256.Sum256([]byte(ticket))
	for i := 0; i < 4000; i++ {
		sum = sha256.Sum256(sum[:])
	}
	return
}

func main() {
	free := make(chan *store, 8)
	for i := 0; i < 8; i++ {
		link, err := net.Dial("tcp", "127.0.0.1:" + os.Args[2])
		if err != nil {
			panic(err)
		}
		free <- &store{link, bufio.NewReader(link)}
	}
	http.HandleFunc("/enter", func(w http.ResponseWriter, r *http.Request) {
		s := <-free
		defer func() { free <- s }()
		ticket := r.URL.Query().Get("ticket")
		showing, err := s.ask("GET ticket:" + ticket)
		hall, second := s.ask("GET hall:" + showing)
		_, third := s.ask("SET entered:" + ticket + " yes")
		if err != nil || second != nil || third != nil {
			http.Error(w, "no store", 500)
			return
		}
		fmt.Fprintf(w, "ticket %s: hall %s, seal %x\\n", ticket, hall, seal(ticket))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""
# The screens above the counters show what runs now; each thread draws those of a city in turn.
SIGNAGE = """#!/usr/bin/ruby
require "socket"
port, cities, way = ARGV[0].to_i, ARGV[1].to_i, ARGV[2]

def reply(link)
  line = link.gets
  case line[0]
  when "*" then Array.new(line[1..].to_i) { reply(link) }
  when "$" then line == "$-1\\r\\n" ? nil : link.read(line[1..].to_i + 2).chomp
  else line[1..].chomp
  end
end

def ask(link, command)
  link.write(command + "\\r\\n")
  reply(link)
end

threads = cities.times.map do |city|
  Thread.new do
    link = TCPSocket.new("127.0.0.1", port)
    (0..).each do |number|
      names = way == "list" ? ask(link, "SMEMBERS now") : ask(link, "KEYS showing:*:now")
      films = ask(link, "MGET " + names.sort.join(" "))
      File.write("screen-#{city}-#{number % 20}.txt", films.join("\\n"))
      sleep 0.012
    end
  end
end
threads.each(&:join)
"""


def screens(place):
    store, app, front = redis(place), place.port(), place.port()
    place.run("redis-cli", "-p", store, "eval", """
        for i = 1, tonumber(ARGV[1]) do redis.call('set', 'ticket:' .. i, i % 60) end
        for i = 0, 59 do redis.call('set', 'hall:' .. i, i % 12 + 1) end
        for i = 0, 11 do
            redis.call('set', 'showing:' .. i .. ':now', 'Hall ' .. i + 1 .. ': film ' .. i * 7)
            redis.call('sadd', 'now', 'showing:' .. i .. ':now')
        end""", 0, 300000)
    place.start(place.go("tickets", TICKETS), app, store, port=app)
    balancer(place, front, app)
    place.start(place.write("signage", SIGNAGE), store, 3, "list" if place.fixed else "search", path=place.folder / "screen-2-0.txt")
    return [str(place.write("turnstile", TURNSTILE)), str(front), "1000"]


# Control: the programme of a day, by a pool of connections that has one for each worker.
PROGRAMME = """
import random
from flask import Flask
import psycopg2

app, held = Flask(__name__), []

@app.get("/programme")
def programme():
    if not held:
        held.append(psycopg2.connect(host="127.0.0.1", port=PORT, user="postgres", dbname="cinema"))
        held[0].autocommit = True
    with held[0].cursor() as cursor:
        cursor.execute("select hall, begins, film from showings where day = %s order by begins, hall", (random.randrange(300),))
        rows = cursor.fetchall()
    return "".join(f"<li>{begins // 60:02}:{begins % 60:02} hall {hall}: {film}" for hall, begins, film in rows)
"""


def programme(place):
    base = postgres(place, """
        create table showings (day int, hall int, begins int, film text);
        insert into showings select i / 60, i % 12, 660 + i % 5 * 140, 'film ' || i * 31 % 97 from generate_series(0, 17999) i;
        create index on showings (day); analyze; checkpoint""")
    pooler, app, front, user = place.port(), place.port(), place.port(), pwd.getpwnam("postgres")
    config = place.write("pgbouncer.ini", f"""
[databases]
cinema = host=127.0.0.1 port={base} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {pooler}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 8
""")
    place.start("pgbouncer", config, port=pooler, user=user.pw_uid, group=user.pw_gid)
    place.write("programme.py", PROGRAMME.replace("PORT", str(pooler)))
    place.start("/usr/bin/gunicorn", "-w", "4", "-b", f"127.0.0.1:{app}", "--chdir", place.folder, "programme:app", port=app)
    balancer(place, front, app)
    return ["ab", "-q", "-k", "-l", "-n", "9000", "-c", "4", f"http://127.0.0.1:{front}/programme"]


# Control: ushers ask for a seat 70 times a second, which is far less than the site can do.
USHERS = """
package main

import ("fmt"; "io"; "net/http"; "os"; "strconv"; "time")

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	start, count := time.Now(), 0
	for range time.Tick(14 * time.Millisecond) {
		answer, err := http.Get("http://127.0.0.1:" + os.Args[1] + "/seat?hall=" + strconv.Itoa(count % 12))
		if err != nil || answer.StatusCode != 200 {
			panic("no answer")
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		count++
		if time.Since(start).Seconds() > seconds {
			break
		}
	}
	fmt.Printf("items %d seconds %.3f\\n", count, time.Since(start).Seconds())
}
"""
SEATING = """
const http = require("http"), net = require("net");
const [port, store] = process.argv.slice(2).map(Number);
const cache = net.connect(store, "127.0.0.1"), waiting = [];
cache.setNoDelay(true);
let text = "";
cache.on("data", piece => {
  const lines = (text + piece).split("\\r\\n");
  text = lines.pop();
  for (const line of lines) waiting.shift()(line);
});
const ask = command => new Promise(done => { waiting.push(done); cache.write(command); });

http.createServer(async (request, response) => {
  const hall = new URL(request.url, "http://cinema").searchParams.get("hall");
  let seat = await ask(`incr hall:${hall} 1\\r\\n`);
  if (seat === "NOT_FOUND") {
    await ask(`set hall:${hall} 0 0 1\\r\\n0\\r\\n`);
    seat = 0;
  }
  response.end(JSON.stringify({ hall, row: Math.floor(seat / 20) % 11, seat: seat % 20 }));
}).listen(port, "127.0.0.1");
"""


def ushers(place):
    cache, services = place.port(), [place.port(), place.port()]
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", cache, "-U", "0", "-t", "2", port=cache)
    script = place.write("seating.js", SEATING)
    for port in services:
        place.start("node", script, port, cache, port=port)
    servers = " ".join(f"server 127.0.0.1:{port};" for port in services)
    front = nginx(place, 'location / { proxy_pass http://seating; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream seating {{ {servers} keepalive 16; }}")
    return [str(place.go("ushers", USHERS)), str(front), str(place.seconds)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|own code|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="cinema_seat_maps_in_turn",
        kind="cache-serializes-fetches",
        truth="varnishd fetches the seat map for one request at a time, because its rules give the "
              "map a life of 0 s in place of marking it as uncacheable; all other requests wait "
              "for the fetch, which takes the 12 ms that pricing, in Go, sleeps",
        load=seat_maps,
        rate=WRK,
        component=(r"varnish", r"\bcache-(worker|main)"),
        mechanism=(*LOCKS, r"\bseriali", r"in turn", r"one after (the other|another)", r"for one another", r"coalesc", r"waiting list",
                   r"one (\w+ )?(request|fetch|worker|connection)", r"\bconcurren", r"\bin parallel"),
        never=(*DISK, r"varnish\S* (\([^)]*\) )?computes", r"redis\S* (\([^)]*\) )?(computes|sleeps)"),
        halves=True,
        needs=("varnishd", "redis-server", "redis-cli", "go", "wrk", PYTHON),
    ),
    System(
        name="cinema_delayed_standby",
        kind="delayed-synchronous-replica",
        truth="each commit in postgres waits until the standby has applied it, and the startup "
              "process of the standby sleeps 40 ms before that (recovery_min_apply_delay)",
        load=standby,
        rate=AB,
        component=(r"postgres", r"standby", r"\bstartup\b", r"\bwalreceiver"),
        mechanism=(*PAUSES, r"standby", r"replica", r"recovery", r"\bappl(y|ies)"),
        never=(*DISK, r"(gunicorn|haproxy|postgres) (\([^)]*\) )?computes", r"gunicorn (\([^)]*\) )?sleeps"),
        change="x0",
        halves=True,
        needs=("psql", "pg_basebackup", "haproxy", "/usr/bin/gunicorn", "ab"),
    ),
    System(
        name="cinema_dead_cache_node",
        kind="timeout-of-dead-node",
        truth="php-fpm (films) waits for one of two nodes of memcached, which is stopped, until "
              "its time-out of 50 ms, for every second film, and then asks the catalogue",
        load=dead_node,
        rate=WRK,
        component=(r"php", r"\bfilms\b", r"memcached"),
        mechanism=(*PAUSES, r"\bstopped\b", r"\b(hangs?|hung)\b", r"no (answer|reply)", r"not (answer|reply|respond)",
                   r"\bpoll\b", r"wait\w* (for|on) [^;]*memcached"),
        never=(*DISK, r"(php\S*|java|memcached) (\([^)]*\) )?computes", r"\b(nginx|java) (\([^)]*\) )?sleeps"),
        halves=True,
        running=True,
        needs=("nginx", f"/usr/sbin/{PHP_FPM}", "memcached", "java", "javac", "wrk"),
    ),
    System(
        name="cinema_photographs_without_buffer",
        kind="slow-clients-hold-workers",
        truth="the three workers of gunicorn wait for the pieces of photographs, which telephones "
              "(ruby) send slowly and nginx passes on without a buffer "
              "(proxy_request_buffering off), so that checks of tickets wait for a worker",
        load=photographs,
        rate=WRK,
        component=(r"gunicorn", r"\bhalls\b", r"nginx"),
        mechanism=(r"telephone", r"\bruby\b", r"\bslow", r"\bbody\b", r"\bupload", r"one (\w+ )?at a time", r"for one another", r"\bbuffer",
                   r"\b(all|only|3|three) (\w+ )?(3 |three )?(workers|processes|threads)", r"\bpool\b", r"too few", r"\bbusy\b",
                   r"wait\w* [^;]*(nginx|\brecv|socket|for data|\bpieces?\b)"),
        never=(*DISK, r"(gunicorn|nginx|redis-server) (\([^)]*\) )?(computes|sleeps)"),
        needs=("nginx", "redis-server", "/usr/bin/gunicorn", "ruby", "wrk"),
    ),
    System(
        name="cinema_screens_search_keys",
        kind="neighbour-blocks-store",
        truth="redis-server computes: it searches all 300000 keys each time that a thread of "
              "signage, in ruby, asks with KEYS what runs now, and tickets, in Go, waits for its "
              "small commands meanwhile",
        load=screens,
        rate=ITEMS,
        component=(r"redis", r"(signage|ruby)[^;]*(KEYS|search|scan)"),
        mechanism=(*RUNS, r"\bkeys", r"stringmatch", r"\bdict", r"signage", r"\bsearch", r"\bscan", r"commands?\b",
                   r"one (\w+ )?at a time"),
        never=(*DISK, r"(redis-server|signage|ruby) (\([^)]*\) )?sleeps",
               r"(tickets|turnstile|perl|haproxy|signage) (\([^)]*\) )?computes"),
        needs=("redis-server", "redis-cli", "haproxy", "go", "ruby", "perl"),
    ),
    System(
        name="cinema_control_programme",
        kind="control",
        truth="the pool of pgbouncer has a connection for each worker of gunicorn, postgres uses an "
              "index, all connections are kept, and the CPUs compute",
        load=programme,
        rate=AB,
        acceptable=(*NOTHING, rf"(gunicorn|postgres|haproxy|pgbouncer|\bab\b).*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) (\w+ )?CPUs",
                    r"load generator"),
        needs=("psql", "pgbouncer", "haproxy", "/usr/bin/gunicorn", "ab"),
    ),
    System(
        name="cinema_control_ushers",
        kind="control",
        truth="ushers, in Go, asks for a seat each 14 ms by intention; nginx, two services of node "
              "and memcached are done long before the next one",
        load=ushers,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by ushers", r"ushers.*(sleep|timer|until a time|\bpaced\b|\bclock)", r"\bidle\b"),
        needs=("nginx", "node", "memcached", "go"),
    ),
]

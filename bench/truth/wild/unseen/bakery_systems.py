"""The web shop of a bakery: faults of applications, databases and caches that are frequent in
production, and two healthy parts of the same shop.
"""
import pwd

from services import mariadb, nginx, postgres, redis
from system import ITEMS, PYTHON, SLEEPS, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")

# Orders one cake after the other. Each order needs a token of authd; a token is valid for an hour.
PREORDERS = """#!/usr/bin/ruby
require "json"
require "net/http"
require "digest"
auth_port, slot_port, count = ARGV[0].to_i, ARGV[1].to_i, ARGV[2].to_i
keep = ARGV[3] == "keep"

def label(order, slot)
  text = "cake #{order} at #{slot}"
  2600.times { text = Digest::SHA256.hexdigest(text) }
  text
end

auth = Net::HTTP.start("127.0.0.1", auth_port)
slots = Net::HTTP.start("127.0.0.1", slot_port)
token = nil
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
count.times do |order|
  unless token && keep
    answer = auth.post("/token", "client=preorders&secret=rye", {})
    token = JSON.parse(answer.body)["token"]
  end
  slot = slots.get("/free?order=#{order}", { "Authorization" => "Bearer #{token}" })
  raise slot.body unless slot.code == "200"
  label(order, slot.body)
end
puts "items #{count} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""

# Checks the secret of a client as it would check a password, and signs a token.
AUTHD = """
const http = require("http"), crypto = require("crypto");
const [port, rounds] = process.argv.slice(2).map(Number);
http.createServer((request, response) => {
  let body = "";
  request.on("data", part => body += part);
  request.on("end", () => {
    const form = new URLSearchParams(body);
    crypto.pbkdf2(form.get("secret"), "flour", rounds, 32, "sha256", () => {
      const claims = form.get("client") + "." + (Date.now() + 3600000);
      const seal = crypto.createHmac("sha256", "yeast").update(claims).digest("hex");
      response.end(JSON.stringify({ token: claims + "." + seal }));
    });
  });
}).listen(port, "127.0.0.1");
"""

OVENSLOTS = """
package main

import ("crypto/hmac"; "crypto/sha256"; "encoding/hex"; "fmt"; "net/http"; "os"; "strings")

// Looks for the quarter of an hour in which the oven is least full.
func free(order string) int {
	best, least := 0, byte(255)
	for slot := 0; slot < 4000; slot++ {
		sum := sha256.Sum256([]byte(fmt.Sprintf("%s/%d", order, slot)))
		if sum[0] < least { best, least = slot, sum[0] }
	}
	return best
}

func main() {
	http.HandleFunc("/free", func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		cut := strings.LastIndex(token, ".")
		mac := hmac.New(sha256.New, []byte("yeast"))
		if cut > 0 { mac.Write([]byte(token[:cut])) }
		if cut < 0 || hex.EncodeToString(mac.Sum(nil)) != token[cut + 1:] {
			http.Error(w, "no valid token", 401)
			return
		}
		fmt.Fprintf(w, "slot %d", free(r.URL.Query().Get("order")))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def tokens(place):
    auth_port, slot_port = place.port(), place.port()
    rounds = round(18000 * place.scale)
    place.start("node", place.write("authd.js", AUTHD), auth_port, rounds, port=auth_port)
    place.start(place.go("ovenslots", OVENSLOTS), slot_port, port=slot_port)
    mode = "keep" if place.fixed else "ask"
    return [str(place.write("preorders", PREORDERS)), str(auth_port), str(slot_port), "640", mode]


# The page of the best sellers reads a materialized view, which salesboard keeps fresh.
SHOPFRONT = """
import psycopg2
from flask import Flask, jsonify

app = Flask(__name__)
base = None

@app.get("/bestsellers/<int:branch>")
def bestsellers(branch):
    global base
    if base is None:
        base = psycopg2.connect(host="127.0.0.1", port=PORT, user="postgres", dbname="postgres")
        base.autocommit = True
    with base.cursor() as cursor:
        cursor.execute("select article, pieces from bestsellers where branch = %s "
                       "order by pieces desc limit 10", (branch,))
        return jsonify(cursor.fetchall())
"""
SALESBOARD = """#!/usr/bin/python3
import sys, time
import psycopg2

base = psycopg2.connect(host="127.0.0.1", port=sys.argv[1], user="postgres", dbname="postgres")
base.autocommit = True
cursor = base.cursor()
while True:
    cursor.execute("refresh materialized view " + " ".join(sys.argv[2:]) + " bestsellers")
    time.sleep(0.04)
"""


def bestsellers(place):
    base = postgres(place, """
        create table sales (branch int, article int, pieces int, customer int);
        insert into sales select i % 20, i % 997 % 60, i % 5, i % 4001 * 79 % 30011
            from generate_series(1, 400000) i;
        create materialized view bestsellers as
            select branch, article, sum(pieces) as pieces, count(distinct customer) as customers
            from sales group by branch, article;
        create unique index on bestsellers (branch, article); analyze""",
                    fsync="off", synchronous_commit="off", max_parallel_workers_per_gather=0, work_mem="64MB")
    port = place.port()
    place.write("shopfront.py", SHOPFRONT.replace("PORT", str(base)))
    place.start("/usr/bin/gunicorn", "-w", "4", "-b", f"127.0.0.1:{port}", "--chdir", place.folder,
                "shopfront:app", port=port)
    how = ["concurrently"] if place.fixed else []
    place.start(place.write("salesboard", SALESBOARD), base, *how)
    return wrk(f"http://127.0.0.1:{port}/bestsellers/7", 4, place.seconds)


# Prints receipts by a template, which is either a text of the program or a file.
RECEIPTS = """
from flask import Flask, render_template, render_template_string

app = Flask(__name__, template_folder="pages")
lines = [{"name": f"bread no. {i}", "pieces": i % 4 + 1, "cents": 120 + i * 7} for i in range(40)]

@app.get("/receipt/<int:number>")
def receipt(number):
    return RENDER(lines=lines, number=number, paid=number % 2, branch="Mill Lane")
"""
RECEIPT = """<html><body><h1>Receipt {{ "%06d"|format(number) }} of {{ branch|upper }}</h1>
<table>{% for line in lines %}<tr class="{{ loop.cycle('odd', 'even') }}">
<td>{{ line.name|capitalize }}</td><td>{{ line.pieces }}</td>
<td>{{ "%.2f"|format(line.cents * line.pieces / 100) }}</td>
<td>{% if line.pieces > 3 %}basket{% elif line.pieces > 1 %}bag{% else %}-{% endif %}</td></tr>
{% else %}<tr><td>nothing bought</td></tr>{% endfor %}</table>
{% set total = lines|sum(attribute="cents") %}<p>{% if paid %}Paid{% else %}To be paid{% endif %}:
{{ "%.2f"|format(total / 100) }} with {{ "%.2f"|format(total * 0.07 / 107) }} of tax</p>
</body></html>"""


def receipts(place):
    (place.folder / "pages").mkdir()
    place.write("pages/receipt.html", RECEIPT, mode=0o644)
    render = 'render_template("receipt.html", ' if place.fixed else f"render_template_string({RECEIPT!r}, "
    place.write("receipts.py", RECEIPTS.replace("RENDER(", render))
    port = place.port()
    place.start("/usr/bin/gunicorn", "-w", "2", "-b", f"127.0.0.1:{port}", "--chdir", place.folder,
                "receipts:app", port=port)
    front = nginx(place, f"location / {{ proxy_pass http://127.0.0.1:{port}; }}")
    return wrk(f"http://127.0.0.1:{front}/receipt/4711", 4, place.seconds)


# Changes one decoration of a cake after the other, and draws the cake.
DESIGNER = """#!/usr/bin/python3
import sys, time, zlib
import psycopg2

port, seconds, whole = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "whole"
base = psycopg2.connect(host="127.0.0.1", port=port, user="postgres", dbname="cakes")
base.autocommit = True
cursor = base.cursor()

def preview(step):
    picture = bytes((step * x ^ x >> 3) & 63 for x in range(24000))
    return len(zlib.compress(picture, 6))

begin, steps = time.monotonic(), 0
while time.monotonic() < begin + seconds:
    part = steps * 37 % 500
    if whole:
        cursor.execute("update cakes set design = jsonb_set(design, %s, %s) where id = 7",
                       ([f"part{part}", "colour"], f'"colour {steps}"'))
    else:
        cursor.execute("update parts set colour = %s where cake = 7 and part = %s",
                       (f"colour {steps}", part))
    assert cursor.rowcount == 1
    preview(steps)
    steps += 1
print(f"items {steps} seconds {time.monotonic() - begin:.3f}")
"""


def designs(place):
    parts = round(2000 * place.scale)
    base = postgres(place, f"""
        create table cakes (id int primary key, design jsonb);
        insert into cakes select 7, jsonb_object_agg('part' || i, jsonb_build_object(
            'colour', 'colour ' || i, 'shape', md5(i::text), 'text', repeat('happy birthday ', 6)))
            from generate_series(0, {parts - 1}) i;
        create table parts (cake int, part int, colour text, shape text, primary key (cake, part));
        insert into parts select 7, i, 'colour ' || i, md5(i::text) from generate_series(0, 1999) i;
        analyze""", fsync="off", synchronous_commit="off", max_wal_size="8GB", wal_recycle="off")
    port = place.port()
    config = place.write("pgbouncer.ini", f"""
[databases]
cakes = host=127.0.0.1 port={base} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
""")
    user = pwd.getpwnam("postgres")
    place.start("pgbouncer", config, port=port, user=user.pw_uid, group=user.pw_gid)
    designer = place.write("cakedesigner", DESIGNER)
    return [str(designer), str(port), str(place.seconds), "parts" if place.fixed else "whole"]


# Eight workers look up the round of a parcel, and tell the courier.
DISPATCH = """#!/usr/bin/python3
import http.client, os, sys, time
import pymysql

port, courier, seconds, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), 0.2

def connection():
    while True:
        try:
            return pymysql.connect(host="127.0.0.1", port=port, user="shop", database="test")
        except pymysql.err.OperationalError as error:
            if error.args[0] != 1040:
                raise
            time.sleep(pause)

def work():
    call, jobs = http.client.HTTPConnection("127.0.0.1", courier), 0
    while time.monotonic() < begin + seconds:
        base = connection()
        with base.cursor() as cursor:
            cursor.execute("select sum(grams), count(*) from parcels where tour = %s",
                           (jobs % 20,))
            grams, count = cursor.fetchone()
        base.close()
        call.request("GET", f"/pick-up?grams={grams}&count={count}")
        call.getresponse().read()
        jobs += 1
    return jobs

begin = time.monotonic()
pipes = []
for _ in range(8):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, b"%d" % work())
        os._exit(0)
    pipes.append(read)
jobs = sum(int(os.read(pipe, 20)) for pipe in pipes)
print(f"items {jobs} seconds {time.monotonic() - begin:.3f}")
"""

# The office opened a pool of connections in the morning.
BACKOFFICE = """#!/usr/bin/python3
import signal, sys
import pymysql

pool = [pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="shop", database="test")
        for _ in range(9)]
open("pool-ready", "w").close()
signal.pause()
"""
COURIER = """
const http = require("http");
http.createServer((request, response) => {
  setTimeout(() => response.end("at noon"), 12);
}).listen(Number(process.argv[2]), "127.0.0.1");
"""


def limit(place):
    base = mariadb(place, """
        create table parcels (id int primary key, tour int, grams int, key (tour, grams)) engine=innodb;
        insert into parcels select seq, seq % 20, seq % 3000 from seq_1_to_100000;
        create user shop@'127.0.0.1'; grant all on test.* to shop@'127.0.0.1'""",
                   f"--max-connections={60 if place.fixed else 10}")
    courier = place.port()
    place.start("node", place.write("courier.js", COURIER), courier, port=courier)
    place.start(place.write("backoffice", BACKOFFICE), base, path=place.folder / "pool-ready")
    return [str(place.write("dispatch", DISPATCH)), str(base), str(courier), str(place.seconds)]


# Control: each page needs an article from memcached and some work. The threads share a counter of
# visitors under a short lock, and a timer writes it to memcached.
COUNTER = """
import com.sun.net.httpserver.*;
import java.io.*;
import java.net.*;
import java.security.*;
import java.util.concurrent.*;

public class Main {
    static int cache;
    static long visitors;
    static synchronized long visitor() { return ++visitors; }

    static class Link {
        final Socket socket;
        final BufferedReader in;
        Link() throws IOException {
            socket = new Socket("127.0.0.1", cache);
            socket.setTcpNoDelay(true);
            in = new BufferedReader(new InputStreamReader(socket.getInputStream(), "ISO-8859-1"));
        }
        void send(String text) throws IOException {
            socket.getOutputStream().write(text.getBytes("ISO-8859-1"));
        }
        void set(String key, String value) throws IOException {
            send("set " + key + " 0 0 " + value.length() + "\\r\\n" + value + "\\r\\n");
            in.readLine();
        }
        String get(String key) throws IOException {
            send("get " + key + "\\r\\n");
            if (in.readLine().equals("END")) return "";
            String value = in.readLine();
            in.readLine();
            return value;
        }
    }

    static final ThreadLocal<Link> LINKS = ThreadLocal.withInitial(() -> {
        try { return new Link(); } catch (IOException error) { throw new UncheckedIOException(error); }
    });

    public static void main(String[] words) throws Exception {
        cache = Integer.parseInt(words[1]);
        for (int i = 0; i < 100; i++) LINKS.get().set("article" + i, "crust ".repeat(100));
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
        HttpServer server = HttpServer.create(address, 100);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", exchange -> {
            try {
                long visitor = visitor();
                MessageDigest digest = MessageDigest.getInstance("SHA-256");
                byte[] page = LINKS.get().get("article" + visitor % 100).getBytes();
                for (int i = 0; i < 900; i++) page = digest.digest(page);
                exchange.sendResponseHeaders(200, page.length);
                exchange.getResponseBody().write(page);
            } catch (NoSuchAlgorithmException error) {
                throw new RuntimeException(error);
            } finally {
                exchange.close();
            }
        });
        server.start();
        Executors.newScheduledThreadPool(1).scheduleAtFixedRate(() -> {
            try {
                LINKS.get().set("visitors", Long.toString(visitors));
            } catch (IOException error) { throw new UncheckedIOException(error); }
        }, 50, 50, TimeUnit.MILLISECONDS);
    }
}
"""


def counter(place):
    cache, port, front = place.port(), place.port(), place.port()
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", cache, "-t", "2", port=cache)
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Xmx256m", "-cp", place.java(COUNTER),
                "Main", port, cache, port=port)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 2s
    timeout client 10s
    timeout server 10s
frontend shop
    bind 127.0.0.1:{front}
    default_backend counter
backend counter
    server counter 127.0.0.1:{port}
""")
    place.start("haproxy", "-f", config, "-db", port=front)
    return wrk(f"http://127.0.0.1:{front}/", 8, place.seconds)


# Control: a guest orders each 60 ms by intention, and all others are done long before the next.
GUESTS = """#!/usr/bin/ruby
require "net/http"
port, seconds = ARGV[0].to_i, ARGV[1].to_f
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
start, orders = now.call, 0
Net::HTTP.start("127.0.0.1", port) do |shop|
  while now.call < start + seconds
    raise "no order" unless shop.get("/order?rolls=#{orders % 12}").code == "200"
    orders += 1
    sleep [0, start + orders * 0.06 - now.call].max
  end
end
puts "items #{orders} seconds #{(now.call - start).round(3)}"
"""
ORDERS = """
const http = require("http"), net = require("net");
const [port, store] = process.argv.slice(2).map(Number);
const queue = net.connect(store, "127.0.0.1");
const waiting = [];
queue.setNoDelay(true);
queue.on("data", () => waiting.shift()("ordered"));
http.createServer((request, response) => {
  const text = JSON.stringify({ order: request.url, time: Date.now() });
  waiting.push(answer => response.end(answer));
  queue.write(`*3\\r\\n$5\\r\\nLPUSH\\r\\n$6\\r\\norders\\r\\n$${text.length}\\r\\n${text}\\r\\n`);
}).listen(port, "127.0.0.1");
"""
KITCHEN = """#!/usr/bin/python3
import json, sqlite3, sys
import redis

queue = redis.Redis(port=int(sys.argv[1]))
base = sqlite3.connect("kitchen.db")
base.execute("create table orders (id integer primary key, what text, time int)")
while True:
    order = json.loads(queue.brpop("orders")[1])
    base.execute("insert into orders (what, time) values (?, ?)", (order["order"], order["time"]))
    base.commit()
"""


def morning(place):
    store, port = redis(place), place.port()
    place.start("node", place.write("orders.js", ORDERS), port, store, port=port)
    place.start(place.write("kitchen", KITCHEN), store, path=place.folder / "kitchen.db")
    return [str(place.write("guests", GUESTS)), str(port), str(place.seconds)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
SYSTEMS = [
    System(
        name="bakery_token_for_each_order",
        kind="token-per-request",
        truth="node (authd.js) computes 18000 rounds of a hash for a new token for each order, "
              "because preorders, in ruby, does not keep the last one, which is valid for an hour",
        load=tokens,
        rate=ITEMS,
        component=(r"authd", r"\bnode\b", r"libuv"),
        mechanism=(*RUNS, r"token", r"hash", r"pbkdf2", r"\bkey\b"),
        never=(r"\bdisk\b", r"\bsync", r"(node|authd\S*|libuv\S*) (\([^)]*\) )?sleeps"),
        halves=True,
        needs=("node", "ruby", "go"),
    ),
    System(
        name="bakery_bestsellers_refreshed",
        kind="refresh-locks-readers",
        truth="salesboard has postgres refresh a materialized view without CONCURRENTLY, which "
              "holds its exclusive lock while it computes the view, and the queries of gunicorn "
              "wait for that lock",
        load=bestsellers,
        rate=WRK,
        component=(r"postgres", r"salesboard"),
        mechanism=(r"\block", r"one (\w+ )?at a time", r"wait for one another", r"exclusive",
                   r"refresh", r"\bheld\b", r"\bholds\b"),
        never=(r"\bdisk\b", r"\bsync", r"salesboard (\([^)]*\) )?sleeps"),
        running=True,
        needs=("psql", "/usr/bin/gunicorn", "wrk"),
    ),
    System(
        name="bakery_receipts_of_a_text",
        kind="template-compiled-per-request",
        truth="gunicorn computes, because it compiles the template of the receipt anew for each "
              "request (render_template_string)",
        load=receipts,
        rate=WRK,
        component=(r"gunicorn", r"python", r"receipts"),
        mechanism=(*RUNS, r"templat", r"compil", r"jinja", r"pars(es|ing)"),
        never=(r"\bdisk\b", r"\bsync", r"gunicorn[^,;]*\bsleeps"),
        needs=("/usr/bin/gunicorn", "nginx", "wrk"),
    ),
    System(
        name="bakery_designs_rewritten",
        kind="whole-document-rewritten",
        truth="postgres unpacks, copies and packs the whole design of a cake, a JSON document of "
              "2000 parts, for each colour that cakedesigner changes by pgbouncer",
        load=designs,
        rate=ITEMS,
        component=(r"postgres",),
        mechanism=(*RUNS, r"json", r"compress", r"pack", r"pglz", r"toast", r"document"),
        never=(r"\bdisk\b", r"\bsync", r"postgres[^,;]*\bsleeps"),
        halves=True,
        needs=("psql", "pgbouncer"),
    ),
    System(
        name="bakery_parcels_of_the_morning",
        kind="connection-limit",
        truth="mariadbd has one connection left (max_connections), because backoffice keeps nine, "
              "so that the eight processes of dispatch are refused and sleep 200 ms each time "
              "before they try again",
        load=limit,
        rate=ITEMS,
        component=(r"dispatch", r"python", r"(maria|mysql)[^;]*(connections|refus|limit)"),
        mechanism=(*SLEEPS, r"refus", r"connections", r"connection limit", r"retr(y|ies)",
                   r"tries again", r"back.?off"),
        never=(r"\bdisk\b", r"\bsync", r"courier (\([^)]*\) )?sleeps", r"backoffice (\([^)]*\) )?sleeps"),
        needs=("mariadbd", "mariadb-install-db", "node"),
    ),
    System(
        name="control_bakery_counter",
        kind="control",
        truth="eight threads of java compute the pages that wrk asks haproxy for, each with an "
              "article from memcached, and both CPUs are full",
        load=counter,
        rate=WRK,
        acceptable=(rf"(java|HTTP|pool|haproxy|wrk|memcached).*{COMPUTES}", r"both CPUs|all CPUs"),
        running=True,
        needs=("java", "javac", "haproxy", "memcached", "wrk"),
    ),
    System(
        name="control_bakery_morning",
        kind="control",
        truth="guests, in ruby, order each 60 ms by intention; node, redis and kitchen, which "
              "commits each order to SQLite, are done long before the next one, and all are idle "
              "most of the time",
        load=morning,
        rate=ITEMS,
        acceptable=(r"paced by (guests|ruby)", r"(guests|ruby).*(sleep|timer|until a time)",
                    r"\bidle\b"),
        needs=(PYTHON, "node", "ruby", "redis-server"),
    ),
]

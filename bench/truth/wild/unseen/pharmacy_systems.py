"""The databases and stores of a wholesaler of medicines: five frequent faults of their queries,
transactions, locks, connections and settings, and two healthy parts of the same wholesaler.
"""
import pwd

from services import at, mariadb, nginx, postgres, redis
from system import ITEMS, LOCKS, PGBENCH, PYTHON, SLEEPS, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Puts the orders of the pharmacies into a list. At most twelve of them are not picked yet.
DISPATCH = """#!/usr/bin/ruby
require "socket"

port, seconds = ARGV[0].to_i, ARGV[1].to_f
orders, picked = [1, 2].map do
  TCPSocket.new("127.0.0.1", port).tap { |store| store.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) }
end
chance = Random.new(5)
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
number = count = 0
start = now.call
while (rest = start + seconds - now.call) > 0
  while number - count < 12
    # Each order has some of the 120 articles that everybody needs in winter.
    articles = (1..120).to_a.sample(6, random: chance)
    orders.write("RPUSH orders #{[number, *articles].join(",")}\\r\\n")
    orders.gets
    number += 1
  end
  picked.write("BLPOP picked 0\\r\\n")
  break unless picked.wait_readable(rest)
  5.times { picked.gets }
  count += 1
end
puts "items #{count} seconds #{(now.call - start).round(3)}"
"""
# Takes the articles of an order from the stock, in one transaction. `way` tells in which order.
PICKER = """#!/usr/bin/python3
import sys
import psycopg2, redis

way, number = sys.argv[3:]
base = psycopg2.connect(host="127.0.0.1", port=sys.argv[1], user="postgres", dbname="postgres")
cursor = base.cursor()
store = redis.Redis(port=int(sys.argv[2]))
open(f"picker-{number}", "w").close()

def pick(order, articles):
    for article in articles:
        cursor.execute("update stock set amount = amount - 1 where article = %s returning shelf", (article,))
        shelf = cursor.fetchone()[0]
        cursor.execute("insert into lines values (%s, %s, %s)", (order, article, shelf))
    base.commit()

while True:
    order, *articles = map(int, store.blpop("orders")[1].split(b","))
    if way == "sorted":
        articles.sort()
    while True:
        try:
            pick(order, articles)
            break
        except psycopg2.errors.DeadlockDetected:
            base.rollback()
    store.rpush("picked", order)
"""


def deadlocks(place):
    base = postgres(place, """
        create table stock (article int primary key, amount int, shelf text) with (fillfactor = 50);
        create table lines (order_number int, article int, shelf text);
        insert into stock select i, 10000, 'shelf ' || i % 400 from generate_series(1, 5000) i;
        analyze; checkpoint""")
    store = redis(place)
    picker = place.write("picker", PICKER)
    for number in range(6):
        place.start(picker, base, store, "sorted" if place.fixed else "listed", number, path=place.folder / f"picker-{number}")
    return [str(place.write("dispatch", DISPATCH)), str(store), str(place.seconds)]


# Tells the price of an article.
PRICEDESK = """
import random
import pymysql
from flask import Flask

app = Flask(__name__)
base = pymysql.connect(host="127.0.0.1", port=PORT, user="root", database="test", autocommit=True)

@app.get("/price")
def price():
    article = random.randrange(1, 3000)
    with base.cursor() as cursor:
        cursor.execute("select name, cents from prices where article = %s", (article,))
        name, cents = cursor.fetchone()
    return {"article": article, "name": name, "cents": cents}
"""
# Replaces the table of prices by a new one whenever the makers have other prices.
PRICELOADER = """#!/usr/bin/python3
import sys, time
import pymysql

base = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", database="test", autocommit=True)
cursor = base.cursor()
while True:
    cursor.execute("create table prices_new like prices")
    cursor.execute("insert into prices_new select article, name, cents + 1 from prices")
    cursor.execute("rename table prices to prices_old, prices_new to prices")
    cursor.execute("drop table prices_old")
    time.sleep(0.1)
"""
# Makes an offer of all articles, and sends it by a slow line to a hospital.
QUOTATION = """#!/usr/bin/python3
import sys, time
import pymysql

base = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", database="test", autocommit=sys.argv[2] == "alone")
cursor = base.cursor()
while True:
    cursor.execute("select article, name, cents from prices where cents < 9000")
    offer = "".join(f"{article} {name} {cents / 100:.2f}\\n" for article, name, cents in cursor.fetchall())
    for page in range(5):
        time.sleep(0.08)
    base.commit()
"""


def renamed_table(place):
    base = mariadb(place, """
        create table prices (article int primary key, name varchar(60), cents int) engine=InnoDB;
        insert into prices select seq, concat('tablets ', seq), 100 + seq * 7 % 9900 from seq_1_to_3000""",
                   "--innodb-flush-log-at-trx-commit=2", "--skip-log-bin")
    port, front = place.port(), place.port()
    place.write("pricedesk.py", PRICEDESK.replace("PORT", str(base)))
    place.start("/usr/bin/gunicorn", "-w", "4", "-b", f"127.0.0.1:{port}", "--chdir", place.folder, "pricedesk:app", port=port)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend pharmacies
    bind 127.0.0.1:{front}
    default_backend pricedesk
backend pricedesk
    server pricedesk 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    place.start(place.write("quotation", QUOTATION), base, "alone" if place.fixed else "kept")
    place.start(place.write("priceloader", PRICELOADER), base)
    return wrk(f"http://127.0.0.1:{front}/price", 6, place.seconds)


# Four tills write down what they sell, each sale by a connection of its own.
TILL = """#!/usr/bin/python3
import multiprocessing, sys, time
import pymysql

port, count = int(sys.argv[1]), int(sys.argv[2])

def sell(till):
    for sale in range(count // 4):
        base = pymysql.connect(host="127.0.0.1", port=port, user="till", password="", database="test")
        with base.cursor() as cursor:
            cursor.execute("select cents from articles where article = %s", (sale * 37 % 2000 + 1,))
            cursor.execute("insert into sales (till, cents) values (%s, %s)", (till, cursor.fetchone()[0]))
        base.commit()
        base.close()

begin = time.monotonic()
with multiprocessing.Pool(4) as pool:
    pool.map(sell, range(4), chunksize=1)
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""
# The name server of the head office has no names for addresses. It answers that after its PAUSE.
HEADOFFICE = """
const server = require("dgram").createSocket("udp4"), fs = require("fs");
const [port, pause] = process.argv.slice(2).map(Number);

server.on("message", (query, peer) => setTimeout(() => {
  const reply = Buffer.from(query);
  // A response, recursion is available, status SERVFAIL.
  reply[2] |= 0x80;
  reply[3] = 0x82;
  server.send(reply, peer.port, peer.address);
}, pause));
server.bind(port, "127.0.0.1", () => fs.writeFileSync("headoffice-ready", ""));
"""


def reverse_names(place):
    office, base, port, front, folder = place.port(), place.port(), place.port(), place.port(), place.folder
    place.start("node", place.write("headoffice.js", HEADOFFICE), office, 20 * place.scale, path=folder / "headoffice-ready")
    # A name server has port 53, so the port of the database only makes its address unique.
    server = f"127.{base >> 8}.{base & 255}.53"
    place.start("dnsmasq", "-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--user=root", f"--pid-file={folder}/dnsmasq.pid",
                f"--server=127.0.0.1#{office}", f"--listen-address={server}", "--bind-interfaces", path=folder / "dnsmasq.pid")
    # Only mariadbd sees this configuration of the resolver.
    resolver = place.write("resolv.conf", f"nameserver {server}\n", mode=0o644)
    home, socket = folder / "mariadb", folder / "mariadb.sock"
    place.run("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={home}", "--auth-root-authentication-method=normal",
              "--skip-name-resolve")
    names = "--skip-name-resolve" if place.fixed else "--skip-name-resolve=off"
    place.start("unshare", "-m", "sh", "-c", f'mount --bind {resolver} /etc/resolv.conf && exec "$@"', "sh",
                "mariadbd", "--no-defaults", "--user=root", f"--datadir={home}", f"--socket={socket}", f"--port={base}",
                "--bind-address=127.0.0.1", "--innodb-flush-log-at-trx-commit=2", "--skip-log-bin", names, port=base)
    place.run("mariadb", "--no-defaults", "-S", socket, "-u", "root", "-e", """
        create database if not exists test; use test;
        create table articles (article int primary key, cents int);
        create table sales (sale int auto_increment primary key, till int, cents int);
        insert into articles select seq, 100 + seq from seq_1_to_2000;
        delete from mysql.global_priv where user = ''; flush privileges;
        create user till@'127.0.0.%'; grant all on test.* to till@'127.0.0.%'""")
    # The proxy has an address of its own in the network of the database.
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode tcp
    timeout connect 5s
    timeout client 30s
    timeout server 30s
listen sales
    bind 127.0.0.1:{front}
    source 127.0.0.3
    server mariadb 127.0.0.1:{base}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return [str(place.write("till", TILL)), str(front), "180"]


def partitions(place):
    days = 365
    base = postgres(place, f"""
        create table movements (day int not null, batch int not null, pharmacy int, packs int) partition by range (day);
        do $$ begin
            for day in 0 .. {days - 1} loop
                execute format('create table movements_%s partition of movements for values from (%s) to (%s)', day, day, day + 1);
            end loop;
        end $$;
        insert into movements select i / 200, i / 200 * 4 + i % 4, i % 700, 1 + i % 12 from generate_series(0, {days * 200 - 1}) i;
        create index on movements (batch);
        create table batches (batch int primary key, day int);
        insert into batches select i, i / 4 from generate_series(0, {days * 4 - 1}) i;
        analyze""", fsync="off", max_locks_per_transaction=256)
    port = place.port()
    config = place.write("pgbouncer.ini", f"""
[databases]
recalls = host=127.0.0.1 port={base} dbname=postgres user=postgres
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
    narrow = " and day = :day" if place.fixed else ""
    script = place.write("recall.sql", f"""
\\set batch random(0, {days * 4 - 1})
select day from batches where batch = :batch \\gset
select pharmacy, sum(packs) from movements where batch = :batch{narrow} group by pharmacy order by pharmacy;
""", mode=0o644)
    return ["pgbench", *at(port), "-n", "-f", str(script), "-c", "3", "-t", "180", "recalls"]


# Puts the boxes of six tours into a list, and waits until all are loaded.
TOURPLANNER = """#!/usr/bin/node
const store = require("net").connect(Number(process.argv[2]), "127.0.0.1");
const count = Number(process.argv[3]), start = performance.now();
store.setNoDelay(true);
store.setEncoding("utf8");

let loaded = 0;
store.on("data", text => {
  loaded += text.split("there\\r\\n").length - 1;
  if (loaded < count) return;
  console.log(`items ${count} seconds ${((performance.now() - start) / 1000).toFixed(3)}`);
  process.exit();
});
for (let box = 0; box < count; box++) store.write(`RPUSH boxes ${box}\\r\\n`);
for (let box = 0; box < count; box++) store.write("BLPOP loaded 0\\r\\n");
"""
# Finds room for a box in the car of its tour, whose plan only one loader at a time may change. A
# lock that nobody releases ends after its time.
LOADER = """#!/usr/bin/php -n
<?php
[, $port, $life, $release, $number] = $argv;
$store = stream_socket_client("tcp://127.0.0.1:$port");

function ask($command) {
    global $store;
    fwrite($store, "$command\\r\\n");
    $line = fgets($store);
    if ($line[0] == "$") {
        return $line[1] == "-" ? null : trim(fgets($store));
    }
    return $line[0] == "*" ? array_map(fn() => [fgets($store), trim(fgets($store))][1], range(1, (int) substr($line, 1))) : trim($line);
}

touch("loader-$number");
while (true) {
    $box = (int) ask("BLPOP boxes 0")[1];
    $tour = $box % 6;
    while (ask("SET lock:tour$tour $number NX PX $life") !== "+OK") {
        usleep(5000);
    }
    // The lightest of many sequences of the stops.
    $best = ask("GET plan:tour$tour") ?? "9";
    for ($try = 0; $try < 3000; $try++) {
        $best = min($best, md5("$box $tour $try"));
    }
    ask("SET plan:tour$tour $best");
    if ($release == "released") {
        ask("DEL lock:tour$tour");
    }
    ask("RPUSH loaded there");
}
"""


def left_lock(place):
    store = redis(place)
    loader = place.write("loader", LOADER)
    release = "released" if place.fixed else "left"
    for number in range(6):
        place.start(loader, store, round(90 * place.scale), release, number, path=place.folder / f"loader-{number}")
    return [str(place.write("tourplanner", TOURPLANNER)), str(store), "240"]


# Control: a page with the articles of one active substance, which an index of SQLite finds.
FORMULARY = """
import random, sqlite3, threading
from flask import Flask

app = Flask(__name__)
own = threading.local()

@app.get("/substance")
def substance():
    if not hasattr(own, "base"):
        own.base = sqlite3.connect("file:formulary.db?mode=ro", uri=True)
    query = "select name, maker, cents from articles where substance = ? order by cents"
    found = own.base.execute(query, (random.randrange(400),)).fetchall()
    cheapest = found[0][2]
    return [{"name": name, "maker": maker, "price": f"{cents / 100:.2f}", "more": cents - cheapest} for name, maker, cents in found]
"""


def formulary(place):
    place.run("sqlite3", "formulary.db", """
        create table articles (article integer primary key, name text, maker text, substance int, cents int);
        insert into articles select value, 'tablets ' || value, 'maker ' || value % 90, value % 400, 200 + value * 7 % 9000
            from generate_series(1, 20000);
        create index by_substance on articles (substance)""")
    port = place.port()
    place.write("formulary.py", FORMULARY)
    place.start("/usr/bin/gunicorn", "-w", "3", "-k", "gthread", "--threads", "2", "-b", f"127.0.0.1:{port}", "--chdir", place.folder,
                "formulary:app", port=port)
    front = nginx(place, 'location / { proxy_pass http://formulary; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream formulary {{ server 127.0.0.1:{port}; keepalive 16; }}")
    return wrk(f"http://127.0.0.1:{front}/substance", 6, place.seconds)


# Control: the cold store is measured each 65 ms by intention, and the value is written down long
# before the next one.
COLDCHAIN = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
use Time::HiRes qw(clock_gettime sleep CLOCK_MONOTONIC);

my ($port, $seconds) = @ARGV;
my $store = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port) or die "no store: $!";
my ($start, $count) = (clock_gettime(CLOCK_MONOTONIC), 0);
while (clock_gettime(CLOCK_MONOTONIC) < $start + $seconds) {
    my $celsius = sprintf "%.2f", 4 + sin($count / 20);
    print $store "XADD coldstore * celsius $celsius\\r\\n";
    <$store> for 1 .. 2;
    print $store "BLPOP written 0\\r\\n";
    <$store> for 1 .. 5;
    $count++;
    my $rest = $start + $count * 0.065 - clock_gettime(CLOCK_MONOTONIC);
    sleep $rest if $rest > 0;
}
printf "items %d seconds %.3f\\n", $count, clock_gettime(CLOCK_MONOTONIC) - $start;
"""
RECORDER = """#!/usr/bin/python3
import sys
import psycopg2, redis

base = psycopg2.connect(host="127.0.0.1", port=sys.argv[1], user="postgres", dbname="postgres")
cursor = base.cursor()
store = redis.Redis(port=int(sys.argv[2]))
store.xgroup_create("coldstore", "recorders", mkstream=True)
open("recorder-ready", "w").close()
while True:
    for stream, entries in store.xreadgroup("recorders", "recorder", {"coldstore": ">"}, count=10, block=0):
        for number, fields in entries:
            cursor.execute("insert into temperatures (celsius) values (%s)", (float(fields[b"celsius"]),))
            base.commit()
            store.xack("coldstore", "recorders", number)
            store.rpush("written", number)
"""


def cold_chain(place):
    base = postgres(place, "create table temperatures (measured timestamptz default now(), celsius numeric(5, 2)); checkpoint")
    store = redis(place)
    place.start(place.write("recorder", RECORDER), base, store, path=place.folder / "recorder-ready")
    return [str(place.write("coldchain", COLDCHAIN)), str(store), str(place.seconds)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="pharmacy_articles_in_any_order",
        kind="deadlock",
        truth="processes of postgres wait in a circle for one another's locks of rows, until the "
              "timer of 1 s (deadlock_timeout) of one of them ends, because the transactions of "
              "picker, in python, take the articles in the order of each list and not sorted",
        load=deadlocks,
        rate=ITEMS,
        component=(r"postgres", r"\bpicker"),
        mechanism=(*LOCKS, *SLEEPS, r"dead_?lock", r"for one another", r"each other", r"row", r"transaction",
                   r"\bholds?\b", r"\bheld\b", r"time-?out"),
        never=(*DISK, r"(postgres|picker) (\([^)]*\) )?computes", r"(ruby|dispatch|redis\S*) (\([^)]*\) )?(sleeps|computes)"),
        needs=("psql", "redis-server", "ruby", PYTHON),
    ),
    System(
        name="pharmacy_prices_renamed",
        kind="queue-behind-metadata-lock",
        truth="threads of mariadbd wait for the metadata lock of the table of prices: priceloader, "
              "which renames it, waits for the open transaction of quotation, which sleeps 400 ms "
              "in it, and all queries of gunicorn wait behind that",
        load=renamed_table,
        rate=WRK,
        component=(r"mariadb", r"mysql", r"quotation"),
        mechanism=(*LOCKS, *SLEEPS, r"metadata", r"\bMDL", r"transaction", r"for one another", r"each other",
                   r"rename", r"\bholds?\b", r"\bheld\b"),
        never=(*DISK, r"mariadbd (\([^)]*\) )?(sleeps|computes)", r"(gunicorn|haproxy) (\([^)]*\) )?(sleeps|computes)"),
        running=True,
        needs=("mariadbd", "mariadb-install-db", "haproxy", "/usr/bin/gunicorn", "wrk", PYTHON),
    ),
    System(
        name="pharmacy_names_of_clients",
        kind="reverse-lookup-per-connection",
        truth="mariadbd looks up the name of the client's address for each new connection (it was "
              "started without skip-name-resolve), and dnsmasq asks headoffice.js, in node, each "
              "time, which waits 20 ms for a timer and then has no name",
        load=reverse_names,
        rate=ITEMS,
        component=(r"mariadb", r"mysql", r"dnsmasq", r"headoffice", r"\bnode\b", r"\bDNS\b", r"name server"),
        mechanism=(*SLEEPS, r"\bDNS\b", r"look(s|ed)?[ -]?up", r"resol(v|ution)", r"name server", r"(host|client) ?names?",
                   r"\bport 53\b", r":53\b", r"getnameinfo", r"gethostbyaddr", r"dnsmasq"),
        never=(*DISK, r"mariadbd (\([^)]*\) )?computes", r"\block"),
        change="x0",
        halves=True,
        needs=("mariadbd", "mariadb-install-db", "mariadb", "haproxy", "dnsmasq", "node", "unshare", PYTHON),
    ),
    System(
        name="pharmacy_batches_of_all_days",
        kind="no-partition-pruning",
        truth="postgres computes: it plans and searches all 365 partitions of the table of "
              "movements for each batch, because the query does not name the batch's day",
        load=partitions,
        rate=PGBENCH,
        component=(r"postgres",),
        mechanism=(*RUNS, r"partition", r"\bplan(s|ned|ning|ner)?\b", r"\bscan", r"requests? to", r"quer(y|ies)"),
        never=(*DISK, r"postgres (\([^)]*\) )?sleeps", r"pgbouncer (\([^)]*\) )?computes"),
        needs=("psql", "pgbouncer", "pgbench"),
    ),
    System(
        name="pharmacy_locks_of_tours",
        kind="lock-left-to-expire",
        truth="each loader, in php, sleeps 5 ms again and again before it tries once more to get "
              "the lock of a tour in redis, which the last one did not release, so that it ends "
              "only after its life of 90 ms",
        load=left_lock,
        rate=ITEMS,
        component=(r"\bloader", r"\bphp\b"),
        mechanism=(*SLEEPS, *LOCKS, r"expir", r"tries again", r"retr(y|ies)", r"poll"),
        never=(*DISK, r"(loader|php\S*) (\([^)]*\) )?computes", r"redis(-server)? (\([^)]*\) )?(sleeps|computes)"),
        halves=True,
        needs=("redis-server", "php", "node"),
    ),
    System(
        name="control_pharmacy_formulary",
        kind="control",
        truth="three processes of gunicorn compute the pages that wrk asks nginx for, from what an "
              "index of SQLite finds at once; all connections are kept, and both CPUs are full",
        load=formulary,
        rate=WRK,
        acceptable=(*NOTHING, rf"(gunicorn|formulary|python|nginx|wrk).*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs", r"load generator"),
        needs=("nginx", "/usr/bin/gunicorn", "sqlite3", "wrk", PYTHON),
    ),
    System(
        name="control_pharmacy_cold_store",
        kind="control",
        truth="coldchain, in perl, measures each 65 ms by intention; redis, recorder, in python, and "
              "postgres are done with it long before the next one, and all are idle most of the time",
        load=cold_chain,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by (coldchain|perl)", r"(coldchain|perl).*(sleep|timer|until a time)", r"\bidle\b"),
        needs=("psql", "redis-server", "perl", PYTHON),
    ),
]

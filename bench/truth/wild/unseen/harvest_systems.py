"""The data services of an agricultural cooperative: five frequent faults of applications and batch
jobs in front of sqlite, mariadb, pgbouncer, leveldb and postgres, and two healthy parts.
"""
import pwd

from services import at, mariadb, postgres
from system import ITEMS, LOCKS, PGBENCH, PYTHON, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Turns the records of the weighbridge into rows, without its test weighings.
WEIGHLOG = """#!/usr/bin/perl
use strict;
use warnings;

open my $file, "<", $ARGV[0] or die "no log: $!";
while (my $line = <$file>) {
    my ($ticket, $farm, $crop, $gross, $tare, $mark) = unpack "A8 A6 A10 A7 A7 A1", $line;
    next if $mark eq "T";
    printf "%d;%d;%s;%d\\n", $ticket, substr($farm, 1), lc $crop, $gross - $tare;
}
"""
# Puts the rows into the season's book, and adds them to the total of the farm.
SEASONBOOK = r"""
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check(sqlite3 *book, int code)
{
    if (code == SQLITE_OK || code == SQLITE_DONE)
        return;
    fprintf(stderr, "book: %s\n", sqlite3_errmsg(book));
    exit(1);
}

static void run(sqlite3 *book, const char *text)
{
    check(book, sqlite3_exec(book, text, 0, 0, 0));
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words)
{
    int each = atoi(words[2]), rows = 0, ticket, farm, weight;
    char crop[32];
    sqlite3 *book;
    sqlite3_stmt *insert, *add;
    check(book, sqlite3_open(words[1], &book));
    run(book, "create table tickets (ticket integer primary key, farm int, crop text, weight int);"
              "create index tickets_farm on tickets (farm);"
              "create table totals (farm int, crop text, weight int, primary key (farm, crop))");
    check(book, sqlite3_prepare_v2(book, "insert into tickets values (?, ?, ?, ?)", -1, &insert, 0));
    check(book, sqlite3_prepare_v2(book, "insert into totals values (?, ?, ?) on conflict do update set "
                                         "weight = weight + excluded.weight", -1, &add, 0));
    double start = now();
    while (scanf("%d;%d;%31[^;];%d", &ticket, &farm, crop, &weight) == 4) {
        if (rows % each == 0)
            run(book, "begin");
        sqlite3_bind_int(insert, 1, ticket);
        sqlite3_bind_int(insert, 2, farm);
        sqlite3_bind_text(insert, 3, crop, -1, SQLITE_TRANSIENT);
        sqlite3_bind_int(insert, 4, weight);
        check(book, sqlite3_step(insert));
        sqlite3_reset(insert);
        sqlite3_bind_int(add, 1, farm);
        sqlite3_bind_text(add, 2, crop, -1, SQLITE_TRANSIENT);
        sqlite3_bind_int(add, 3, weight);
        check(book, sqlite3_step(add));
        sqlite3_reset(add);
        if (++rows % each == 0)
            run(book, "commit");
    }
    if (!sqlite3_get_autocommit(book))
        run(book, "commit");
    printf("items %d seconds %.3f\n", rows, now() - start);
}
"""


def commits(place):
    crops = ("WHEAT", "BARLEY", "RAPESEED", "MAIZE")
    lines = [f"{i:08d}F{i * 37 % 240:05d}{crops[i % 4]:<10}{21000 + i * 71 % 9000:07d}{9000 + i * 13 % 900:07d}"
             f"{'T' if i % 50 == 0 else ' '}\n" for i in range(1, 461)]
    log = place.write("weighbridge.log", "".join(lines))
    # Without the fault a transaction has the rows of one day.
    rows = 30 if place.fixed else round(1 / place.fault)
    book = place.c("seasonbook", SEASONBOOK, "-lsqlite3")
    return ["sh", "-c", f"{place.write('weighlog', WEIGHLOG)} {log} | {book} season.db {rows}"]


# The counter of the mill notes the moisture of a delivery. Meanwhile the office reads the report on
# every delivery.
COUNTER = """
import random
import pymysql
from flask import Flask

app = Flask(__name__)
base = pymysql.connect(host="127.0.0.1", port=PORT, user="root", database="test", autocommit=True)

@app.get("/moisture")
def moisture():
    delivery, percent = random.randrange(1, ROWS), random.randrange(110, 190)
    with base.cursor() as cursor:
        cursor.execute("select farm, weight from deliveries where id = %s", (delivery,))
        farm, weight = cursor.fetchone()
        cursor.execute("update deliveries set moisture = %s where id = %s", (percent, delivery))
    return {"farm": farm, "dry": weight * (1000 - percent) // 1000}
"""
BOARD = """#!/bin/sh
while mariadb --no-defaults -h 127.0.0.1 -P "$1" -u root test -e "
    select farm % 40 area, crop, count(*), sum(weight * (1000 - moisture) / 1000) dry, avg(moisture), max(weight)
    from deliveries group by area, crop order by dry desc" > report.new
do
    mv report.new report.txt
done
"""


def report(place):
    rows, engine = round(300000 * place.scale), "InnoDB" if place.fixed else "MyISAM"
    base = mariadb(place, f"""
        create table deliveries (id int primary key, farm int, crop int, weight int, moisture int) engine={engine};
        insert into deliveries select seq, seq * 37 % 900, seq % 6, 9000 + seq * 71 % 20000, 110 + seq % 80 from seq_1_to_{rows};
        """, "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=128M")
    port, front = place.port(), place.port()
    place.write("counter.py", COUNTER.replace("PORT", str(base)).replace("ROWS", str(rows)))
    place.start("/usr/bin/gunicorn", "-w", "4", "-b", f"127.0.0.1:{port}", "--chdir", place.folder, "counter:app", port=port)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend mill
    bind 127.0.0.1:{front}
    default_backend counter
backend counter
    server counter 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    place.start(place.write("board", BOARD), base, path=place.folder / "report.txt")
    return wrk(f"http://127.0.0.1:{front}/moisture", 4, place.seconds)


def bouncer(place, base, size):
    """Starts pgbouncer with a pool of `size` connections to postgres; returns its port."""
    port = place.port()
    config = place.write("pgbouncer.ini", f"""
[databases]
postgres = host=127.0.0.1 port={base} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
""")
    user = pwd.getpwnam("postgres")
    place.start("pgbouncer", config, port=port, user=user.pw_uid, group=user.pw_gid)
    return port


# Grades a delivery with the protein that the laboratory has measured, in one transaction.
GRADING = """
import json, random, threading, urllib.request
import psycopg2
from flask import Flask

app = Flask(__name__)
own = threading.local()

@app.get("/grade")
def grade():
    if not hasattr(own, "base"):
        own.base = psycopg2.connect(host="127.0.0.1", port=BASE, user="postgres", dbname="postgres")
    delivery = random.randrange(1, 20000)
    with own.base, own.base.cursor() as cursor:
        cursor.execute("select crop, weight from deliveries where id = %s", (delivery,))
        crop, weight = cursor.fetchone()
        with urllib.request.urlopen(f"http://127.0.0.1:LAB/sample/{delivery}") as answer:
            protein = json.load(answer)["protein"]
        cursor.execute("update deliveries set grade = %s where id = %s", ("A" if protein > 120 else "B", delivery))
    return {"delivery": delivery, "crop": crop, "weight": weight, "protein": protein}
"""
LAB = """
const http = require("http");
const [port, pause] = process.argv.slice(2).map(Number);
http.createServer((request, response) => {
  const sample = Number(request.url.split("/")[2]);
  setTimeout(() => response.end(JSON.stringify({ sample, protein: 100 + sample % 45 })), pause);
}).listen(port, "127.0.0.1");
"""


def pool(place):
    base = postgres(place, """
        create table deliveries (id int primary key, crop text, weight int, grade text) with (fillfactor = 50);
        insert into deliveries select i, 'wheat', 9000 + i % 20000, '' from generate_series(1, 20000) i;
        analyze deliveries""", synchronous_commit="off")
    lab, front = place.port(), place.port()
    place.start("node", place.write("lab.js", LAB), lab, round(20 * place.scale), port=lab)
    pooled = bouncer(place, base, 12 if place.fixed else 2)
    place.write("grading.py", GRADING.replace("BASE", str(pooled)).replace("LAB", str(lab)))
    place.start("/usr/bin/gunicorn", "-k", "gthread", "--threads", "12", "--keep-alive", "60", "-b", f"127.0.0.1:{front}",
                "--chdir", place.folder, "grading:app", port=front)
    return wrk(f"http://127.0.0.1:{front}/grade", 12, place.seconds)


# The station in the field keeps the readings of its sensors in a queue until they are passed on.
FIELDSTORE = r"""
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <leveldb/db.h>
#include <memory>
#include <mutex>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

static leveldb::DB *store;
static std::mutex turn;
static long next;
static bool resume;
static std::string taken = "reading:";

static std::string put(const char *text)
{
    char key[40];
    std::lock_guard<std::mutex> guard(turn);
    snprintf(key, sizeof key, "reading:%012ld", ++next);
    return store->Put({}, key, text).ok() ? "stored\n" : "failed\n";
}

// Removes the oldest reading and returns it.
static std::string take()
{
    std::lock_guard<std::mutex> guard(turn);
    std::unique_ptr<leveldb::Iterator> at(store->NewIterator({}));
    if (resume)
        at->Seek(taken);
    else
        at->SeekToFirst();
    if (!at->Valid())
        return "empty\n";
    std::string text = at->value().ToString();
    taken = at->key().ToString();
    store->Delete({}, taken);
    return text;
}

static void serve(int link)
{
    int on = 1;
    setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    FILE *in = fdopen(link, "r");
    char line[500];
    while (fgets(line, sizeof line, in)) {
        std::string answer = line[0] == 'p' ? put(line + 4) : take();
        if (write(link, answer.data(), answer.size()) < 0)
            break;
    }
    fclose(in);
}

int main(int, char **words)
{
    leveldb::Options options;
    options.create_if_missing = true;
    resume = !strcmp(words[3], "resume");
    if (!leveldb::DB::Open(options, words[2], &store).ok())
        return 1;
    int door = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(words[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(door, (sockaddr *)&address, sizeof address) || listen(door, 20))
        return 1;
    for (;;)
        std::thread(serve, accept(door, 0, 0)).detach();
}
"""
# Stores what the sensors have sent in one hour, and passes it on, hour after hour.
FORWARD = """#!/usr/bin/ruby
require "json"
require "socket"
station = TCPSocket.new("127.0.0.1", ARGV[0].to_i)
station.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
hours, sensors, wettest = ARGV[1].to_i, 300, 0
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
hours.times do |hour|
  sensors.times do |sensor|
    station.write("put " + JSON.generate({ hour: hour, sensor: sensor, soil: (hour * 7 + sensor) % 60 }) + "\\n")
    raise "not stored" unless station.gets == "stored\\n"
  end
  sensors.times do
    station.write("take\\n")
    reading = JSON.parse(station.gets)
    raise "wrong hour" unless reading["hour"] == hour
    wettest = [wettest, reading["soil"]].max
  end
end
seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
puts "wettest #{wettest}, items #{hours * sensors} seconds #{seconds.round(3)}"
"""


def queue(place):
    built = place.built(FIELDSTORE, ".cc", "g++", "-O2", "-pthread", "-o", "{program}", "{source}", "-lleveldb")
    program = place.named(built, "fieldstore")
    port = place.port()
    place.start(program, port, place.folder / "readings", "resume" if place.fixed else "first", port=port)
    return [str(place.write("forward", FORWARD)), str(port), "44"]


# Pays the members for what they have delivered.
PAYOUT = """#!/bin/bash
port=$1 list=$2 way=$3
begin=$EPOCHREALTIME
count=0

pay() {
    echo "update accounts set balance = balance + $2 where member = $1;
        insert into payments (member, cents) values ($1, $2);"
}

book() {
    psql -X -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$port" -U postgres
}

if [ "$way" = together ]; then
    while IFS=, read -r member cents; do
        pay "$member" "$cents"
    done < "$list" | book
else
    while IFS=, read -r member cents; do
        pay "$member" "$cents" | book
    done < "$list"
fi
while read -r line; do
    count=$((count + 1))
done < "$list"
elapsed=$(( ${EPOCHREALTIME/./} - ${begin/./} ))
printf 'items %d seconds %d.%06d\\n' "$count" $((elapsed / 1000000)) $((elapsed % 1000000))
"""


def payout(place):
    base = postgres(place, """
        create table accounts (member int primary key, balance bigint);
        create table payments (id int generated always as identity primary key, member int references accounts, cents int);
        insert into accounts select i, 0 from generate_series(1, 5000) i""", synchronous_commit="off")
    members = place.write("members.csv", "".join(f"{i},{10000 + i * 7919 % 90000}\n" for i in range(1, 81)))
    return [str(place.write("payout", PAYOUT)), str(base), str(members), "together" if place.fixed else "each"]


# Control: the climate of the silos is noted each 60 ms by intention, which takes a small part of it.
SILOCLOCK = """
package main

import ("bytes"; "fmt"; "io"; "net/http"; "os"; "strconv"; "time")

func main() {
	seconds, _ := strconv.Atoi(os.Args[2])
	start, count := time.Now(), 0
	clock := time.NewTicker(60 * time.Millisecond)
	for time.Since(start) < time.Duration(seconds) * time.Second {
		<-clock.C
		var text bytes.Buffer
		for silo := 1; silo <= 8; silo++ {
			fmt.Fprintf(&text, "%d,%d\\n", silo, 140 + (count * silo) % 40)
		}
		answer, err := http.Post("http://127.0.0.1:" + os.Args[1] + "/climate", "text/csv", &text)
		if err != nil {
			panic(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		count++
	}
	fmt.Printf("items %d seconds %.3f\\n", count, time.Since(start).Seconds())
}
"""
GRANARY = """
import sqlite3, sys, time
from aiohttp import web

book = sqlite3.connect("climate.db", isolation_level=None)
book.execute("pragma journal_mode = wal")
book.execute("pragma synchronous = normal")
book.execute("create table climate (at real, silo int, tenths int, primary key (silo, at))")

async def climate(request):
    rows = [line.split(",") for line in (await request.text()).splitlines()]
    book.execute("begin")
    book.executemany("insert into climate values (?, ?, ?)", [(time.time(), int(silo), int(tenths)) for silo, tenths in rows])
    book.execute("commit")
    return web.Response(text="noted")

app = web.Application()
app.router.add_post("/climate", climate)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
"""


def silos(place):
    port = place.port()
    place.start(PYTHON, place.write("granary.py", GRANARY), port, port=port)
    return [str(place.go("siloclock", SILOCLOCK)), str(port), str(place.seconds)]


# Control: six desks ask for the balance of a member, and the pool has a connection for each desk.
BALANCE = """
\\set member random(1, 900)
select crop, count(*), sum(weight) from deliveries where member = :member group by crop;
"""


def desks(place):
    base = postgres(place, """
        create table deliveries (id int primary key, member int, crop int, weight int);
        insert into deliveries select i, i * 37 % 900 + 1, i % 6, 9000 + i % 20000 from generate_series(1, 300000) i;
        create index on deliveries (member); analyze deliveries; checkpoint""", fsync="off", jit="off")
    pooled = bouncer(place, base, 6)
    return ["pgbench", *at(pooled), "-n", "-c", "6", "-T", str(place.seconds), "-f", str(place.write("balance.sql", BALANCE)), "postgres"]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="harvest_commit_for_each_ticket",
        kind="commit-per-row",
        truth="seasonbook waits for the disk: sqlite syncs its journal and the book, because each "
              "ticket of the weighbridge is a transaction of its own",
        load=commits,
        rate=ITEMS,
        component=(r"seasonbook", r"season\.db", r"sqlite"),
        mechanism=(r"\bf?(data)?sync", r"\bdisk\b", r"commit", r"journal", r"\bwrit(es|ing|eback)\b", r"transaction"),
        never=(r"seasonbook (\([^)]*\) )?(sleeps|computes)", r"weighlog[^;]* is the bottleneck"),
        halves=True,
        needs=("gcc", "perl"),
    ),
    System(
        name="harvest_report_locks_the_table",
        kind="table-lock",
        truth="threads of mariadbd wait for the lock of the MyISAM table of deliveries, which the "
              "thread that computes the report of board keeps for the whole of each report",
        load=report,
        rate=WRK,
        component=(r"maria", r"mysqld", r"\bboard\b", r"deliveries"),
        mechanism=(*LOCKS, r"\bholds?\b", r"\bheld\b", r"for one another", r"MyISAM"),
        never=(*DISK, r"(mariadbd?|gunicorn|haproxy) (\([^)]*\) )?sleeps"),
        running=True,
        needs=("mariadbd", "mariadb", "haproxy", "/usr/bin/gunicorn", "wrk"),
    ),
    System(
        name="harvest_pool_of_two",
        kind="connection-pool-too-small",
        truth="the 12 threads of gunicorn wait for one another's two connections of pgbouncer, "
              "each of which is kept in a transaction while lab.js replies after 20 ms",
        load=pool,
        rate=WRK,
        component=(r"pgbouncer", r"\bpool", r"\bnode\b", r"\blab\b", r"gunicorn"),
        mechanism=(*LOCKS, r"\bpool", r"(two|2)( \w+)? at (a time|once)", r"at (a time|once)", r"for one another",
                   r"\bqueue", r"in transaction", r"(two|2|few|all|free) (\w+ )?connections", r"concurren"),
        never=(*DISK, r"(node|lab\S*|gunicorn|postgres|pgbouncer) (\([^)]*\) )?computes"),
        halves=True,
        needs=("psql", "pgbouncer", "node", "/usr/bin/gunicorn", "wrk", PYTHON),
    ),
    System(
        name="harvest_queue_of_tombstones",
        kind="queue-tombstones",
        truth="fieldstore computes: for each reading that it takes, the iterator of leveldb skips "
              "all readings that were deleted before, since it starts at the first one",
        load=queue,
        rate=ITEMS,
        component=(r"fieldstore", r"leveldb"),
        mechanism=(*RUNS, r"iterat", r"FindNext", r"SkipList", r"leveldb::", r"\bseek", r"tombstone", r"delet", r"\bscan", r"\bskip"),
        never=(*DISK, r"fieldstore (\([^)]*\) )?sleeps", r"(ruby|forward) (\([^)]*\) )?computes"),
        code=(r"leveldb::", r"FindNextUserEntry", r"take"),
        needs=("g++", "ruby"),
    ),
    System(
        name="harvest_psql_for_each_member",
        kind="process-and-connection-per-row",
        truth="payout, in bash, starts a psql (first its wrapper in perl) for each member, which makes "
              "a new connection, for which postgres starts a process, instead of one psql for all",
        load=payout,
        rate=ITEMS,
        component=(r"payout", r"psql", r"\bbash\b", r"\bperl\b", r"postgres"),
        mechanism=(r"\bstart(s|ed|ing)?\b", r"exec", r"\bfork", r"\bclone",
                   r"(new|short|many|each|every|per|one) [^;]*(process|connection|psql)",
                   r"\d+ [^;]*processes", r"connect(s|ion)", r"spawn", r"launch", r"short-lived"),
        never=(*DISK, r"(payout|psql|bash|postgres) (\([^)]*\) )?sleeps"),
        needs=("psql", "/bin/bash"),
    ),
    System(
        name="harvest_control_silos",
        kind="control",
        truth="siloclock, in Go, posts the climate of the silos each 60 ms by intention; granary.py "
              "notes it in sqlite long before the next one, and both are idle most of the time",
        load=silos,
        rate=ITEMS,
        acceptable=(*NOTHING, r"\b[Pp]aced\b", r"siloclock.*(sleep|timer|until a time)", r"\bidle\b"),
        needs=("go", PYTHON),
    ),
    System(
        name="harvest_control_desks",
        kind="control",
        truth="six processes of postgres compute the balances of members for pgbench, through a "
              "pool of pgbouncer with a connection for each client, and both CPUs are full",
        load=desks,
        rate=PGBENCH,
        acceptable=(*NOTHING, rf"postgres.*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs", r"load generator"),
        needs=("psql", "pgbench", "pgbouncer"),
    ),
]

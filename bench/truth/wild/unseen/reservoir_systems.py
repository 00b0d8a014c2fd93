"""The measuring network of a reservoir: five faults of its stores, beside whose normal load an
import, a report, a replica or a backup works, and two healthy parts of the same network.
"""
import os
import pwd
import signal
from pathlib import Path

from services import at, mariadb, nginx, postgres, redis
from system import ITEMS, LOCKS, PYTHON, SLEEPS, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# The levels of a district, at the hours that the sensors of its gauges have marked. Postgres
# expects a hundred elements in each array, so that it takes this short query for a long one.
DISTRICT = """
import json, os, queue, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import psycopg2

LEVELS = '''
    select g.name, avg(r.level), max(r.flow)
    from gauges g
    cross join lateral jsonb_array_elements(g.sensors) s (sensor)
    cross join lateral jsonb_array_elements_text(s.sensor -> 'marks') m (hour)
    cross join lateral (select level, flow from readings
        where sensor = (s.sensor ->> 'id')::int and hour <= m.hour::int order by hour desc limit 1) r
    where g.district = %s group by g.name order by 2 desc limit 10'''

bases = queue.Queue()
for _ in range(4):
    base = psycopg2.connect(host="127.0.0.1", port=sys.argv[2], user="postgres", dbname="network")
    base.autocommit = True
    bases.put(base)

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    asked = 0

    def do_GET(self):
        Handler.asked += 1
        base = bases.get()
        with base.cursor() as cursor:
            cursor.execute(LEVELS, (Handler.asked % 8,))
            rows = cursor.fetchall()
        bases.put(base)
        text = json.dumps(rows).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def pgbouncer(place, base, pool):
    """Starts pgbouncer before the postgres of port `base`; returns its port."""
    port = place.port()
    config = place.write("pgbouncer.ini", f"""
[databases]
network = host=127.0.0.1 port={base} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool}
""")
    user = pwd.getpwnam("postgres")
    place.start("pgbouncer", config, port=port, user=user.pw_uid, group=user.pw_gid)
    return port


def compiled_queries(place):
    base = postgres(place, """
        create table gauges (id int primary key, district int, name text, sensors jsonb);
        create table readings (sensor int, hour int, level real, flow real, primary key (sensor, hour));
        insert into gauges select i, i % 8, 'gauge ' || i, jsonb_build_array(
            jsonb_build_object('id', i * 2, 'marks', array[1 + i % 7, 30]),
            jsonb_build_object('id', i * 2 + 1, 'marks', array[20 + i % 20, 60])) from generate_series(0, 1199) i;
        insert into readings select s, h, 100 + (s * 7 + h) % 50, (s + h) % 30
            from generate_series(0, 2399) s, generate_series(1, 60) h;
        create index on gauges (district);
        analyze""", jit="off" if place.fixed else "on", fsync="off")
    pool, port, front = pgbouncer(place, base, 4), place.port(), place.port()
    place.start(PYTHON, place.write("district.py", DISTRICT), port, pool, port=port)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend network
    bind 127.0.0.1:{front}
    default_backend district
backend district
    server district 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return wrk(f"http://127.0.0.1:{front}/levels", 4, place.seconds)


# Stores a reading of each gauge in turn, by its clock.
GAUGES = """#!/usr/bin/python3
import sys, time
import psycopg2

base = psycopg2.connect(host="127.0.0.1", port=sys.argv[1], user="postgres", dbname="postgres")
base.autocommit = True
cursor = base.cursor()
begin = time.monotonic()
for count in range(1000000):
    cursor.execute("insert into readings values (%s, now(), %s, 'regular')", (count % 400, 1400 + count % 37))
    cursor.execute("update gauges set level = %s where id = %s", (1400 + count % 37, count % 400))
    time.sleep(max(0, begin + count * 0.03 - time.monotonic()))
"""


def base_backup(place):
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"))
    base = postgres(place, """
        create table readings (gauge int, at timestamptz, level real, note text);
        create table gauges (id int primary key, level real);
        insert into gauges select i, 1400 from generate_series(0, 399) i;
        insert into readings select i % 400, now() - i * interval '1 minute', 1400 + sin(i / 9.0) * 12, md5(i::text)
            from generate_series(1, 500000) i""",
                    fsync="off", max_wal_size="2GB", checkpoint_timeout="30s", checkpoint_completion_target=0.12)
    place.start(place.write("gauges", GAUGES), base)
    mode = "fast" if place.fixed else "spread"
    return [str(place.write("nightbackup", f"""#!/bin/bash
set -e -o pipefail
{programs}/pg_basebackup {' '.join(at(base))} -D - -F tar -X fetch --checkpoint={mode} | zstd -q -7 -T1 -o network.tar.zst
zstd -q -t network.tar.zst
"""))]


# The sums of the day are complete when the authority has its table of them, hence one transaction.
DAYSUMS = """#!/usr/bin/python3
import statistics, sys, time
import pymysql

base = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", database="test", autocommit=False)
cursor = base.cursor()
if sys.argv[2] != "default":
    cursor.execute(f"set session transaction isolation level {sys.argv[2]}")
for count in range(1000000):
    cursor.execute("delete from daysums")
    cursor.execute("insert into daysums select gauge, count(*), avg(level), min(level), max(level) "
                   "from readings where day = 7 group by gauge")
    cursor.execute("select * from daysums order by gauge")
    lines = []
    for gauge, number, *levels in cursor.fetchall():
        curve = [levels[0] + (gauge * minute) % 11 / 10 for minute in range(1440)]
        lines.append(f"{gauge};{number};{statistics.fmean(curve):.3f};{statistics.median(curve):.3f};{statistics.pstdev(curve):.3f}")
    open("daysums.csv", "w").write("\\n".join(lines))
    base.commit()
    if count == 0:
        open("daysums-ready", "w").close()
    time.sleep(0.05)
"""
COLLECT = """#!/usr/bin/python3
import os, sys, time
import pymysql

port, stations, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])

def collect(station):
    base = pymysql.connect(host="127.0.0.1", port=port, user="root", database="test", autocommit=True)
    cursor = base.cursor()
    begin, count = time.monotonic(), 0
    while time.monotonic() < begin + seconds:
        gauge, level = station * 100 + count % 100, 1400 + count % 37
        cursor.execute("insert into readings (gauge, day, level) values (%s, 8, %s)", (gauge, level))
        cursor.execute("update latest set level = %s where gauge = %s", (level, gauge))
        count += 1
    return count

begin, pipes = time.monotonic(), []
for station in range(stations):
    end, other = os.pipe()
    if not os.fork():
        os.write(other, b"%d" % collect(station))
        os._exit(0)
    pipes.append(end)
print("items", sum(int(os.read(end, 20)) for end in pipes), "seconds", round(time.monotonic() - begin, 3))
"""


def day_sums(place):
    base = mariadb(place, """
        create table readings (id int auto_increment primary key, gauge int, day int, level double);
        create table daysums (gauge int primary key, number int, mean double, low double, high double);
        create table latest (gauge int primary key, level double);
        insert into latest select seq, 1400 from seq_0_to_399;
        insert into readings (gauge, day, level) select seq % 400, 7, 1400 + seq % 29 from seq_1_to_60000""",
                   "--innodb-flush-log-at-trx-commit=2")
    level = "read committed" if place.fixed else "default"
    place.start(place.write("daysums", DAYSUMS), base, level, path=place.folder / "daysums-ready")
    return [str(place.write("collect", COLLECT)), str(base), "3", str(place.seconds)]


# The archive of the hourly readings: a store of leveldb that answers with the mean of a district.
ARCHIVE = r"""
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <leveldb/db.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

const int GAUGES = 300, HOURS = 168;

static std::string key(int gauge, int hour) {
    char text[40];
    snprintf(text, sizeof text, "gauge%04d/hour%05d", gauge, hour);
    return text;
}

static leveldb::DB *opened(leveldb::Options options) {
    leveldb::DB *store;
    if (!leveldb::DB::Open(options, "archive", &store).ok())
        exit(1);
    return store;
}

// Imports the readings by gauge, as the files of the gauges come.
static void import() {
    leveldb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 64 << 10;
    leveldb::DB *store = opened(options);
    unsigned random = 1;
    for (int gauge = 0; gauge < GAUGES; gauge++)
        for (int hour = 0; hour < HOURS; hour++) {
            std::string value = std::to_string(1400 + (gauge * 7 + hour) % 53) + " ";
            while (value.size() < 280)
                value += 'a' + ((random = random * 1103515245 + 12345) >> 16) % 26;
            store->Put(leveldb::WriteOptions(), key(gauge, hour), value);
        }
    delete store;
}

static std::string mean(leveldb::DB *store, int first, int hour) {
    double total = 0;
    for (int i = 0; i < 80; i++) {
        std::string value;
        if (!store->Get(leveldb::ReadOptions(), key((first + i / 2 * 37) % GAUGES, (hour + i % 2) % HOURS), &value).ok())
            return "missing\n";
        total += atof(value.c_str());
    }
    return std::to_string(total / 80) + "\n";
}

int main(int, char **words) {
    import();
    leveldb::Options options;
    options.max_open_files = atoi(words[2]);
    leveldb::DB *store = opened(options);
    int door = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(words[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(door, (sockaddr *)&address, sizeof address) || listen(door, 10))
        return 1;
    for (;;) {
        int link = accept(door, nullptr, nullptr);
        FILE *lines = fdopen(link, "r");
        char line[100];
        int first, hour;
        while (fgets(line, sizeof line, lines) && sscanf(line, "mean %d %d", &first, &hour) == 2) {
            std::string reply = mean(store, first, hour);
            if (write(link, reply.data(), reply.size()) < 0)
                break;
        }
        fclose(lines);
    }
}
"""
YEARBOOK = """#!/usr/bin/ruby
require "socket"
archive, count, rows = TCPSocket.new("127.0.0.1", ARGV[0].to_i), ARGV[1].to_i, []
archive.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
count.times do |row|
  archive.write("mean #{row * 13 % 300} #{row % 168}\\n")
  rows << format("%05d %9.3f m", row, archive.gets.to_f / 100)
end
File.write("yearbook.txt", rows.join("\\n"))
puts "items #{count} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""


def table_files(place):
    port = place.port()
    built = place.built(ARCHIVE, ".cc", "g++", "-O2", "-o", "{program}", "{source}", "-lleveldb", "-pthread")
    place.start(place.named(built, "archive-server"), port, 1000 if place.fixed else 74, port=port)
    return [str(place.write("yearbook", YEARBOOK)), str(port), "3000"]


# Reads from the replica in one transaction, so that all pages have the same state.
MONTHREPORT = """#!/usr/bin/python3
import math, sys, time
import psycopg2

base = psycopg2.connect(host="127.0.0.1", port=sys.argv[1], user="postgres", dbname="postgres")
base.set_session(isolation_level="REPEATABLE READ", readonly=True)
cursor = base.cursor()
for count in range(1000000):
    pages = []
    for district in range(12):
        cursor.execute("select gauge, day, level from readings where gauge %% 12 = %s order by gauge, day limit 1200", (district,))
        waves = []
        for gauge, day, level in cursor.fetchall():
            waves.append(sum(math.sin(level / 100 * step) for step in range(200)))
        pages.append(f"district {district}: {sum(waves) / len(waves):.4f}")
    base.rollback()
    open("monthreport.txt", "w").write("\\n".join(pages))
    open("monthreport-ready", "w").close()
    time.sleep(0.05)
"""
# Closes a day: its readings replace the oldest ones, and the replica has them at the commit.
CLOSING = """#!/usr/bin/python3
import sys, time
import psycopg2

base = psycopg2.connect(host="127.0.0.1", port=sys.argv[1], user="postgres", dbname="postgres")
base.autocommit = True
cursor = base.cursor()
days = int(sys.argv[2])
cursor.execute("set synchronous_commit = remote_apply")
begin = time.monotonic()
for day in range(days):
    cursor.execute("insert into readings select i %% 400, 15 + %s, 1400 + i %% 37 from generate_series(1, 8000) i", (day,))
    cursor.execute("delete from readings where day = %s", (day,))
    cursor.execute("vacuum (truncate off) readings")
    cursor.execute("insert into closed values (%s, now())", (day,))
print("items", days, "seconds", round(time.monotonic() - begin, 3))
"""


def replica(place):
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"))
    base = postgres(place, """
        create table readings (gauge int, day int, level real);
        create table closed (day int primary key, at timestamptz);
        insert into readings select i % 400, i / 8000, 1400 + i % 37 from generate_series(0, 119999) i;
        create index on readings (day);
        analyze""", fsync="off", synchronous_commit="local", synchronous_standby_names="*")
    home, port, user = place.folder / "replica", place.port(), pwd.getpwnam("postgres")
    home.mkdir(mode=0o700)
    os.chown(home, user.pw_uid, user.pw_gid)
    as_user = {"user": user.pw_uid, "group": user.pw_gid, "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}}
    place.run(programs / "pg_basebackup", *at(base), "-D", home, "-R", "-X", "stream", "--checkpoint=fast", "--no-sync", **as_user)
    settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off",
                "max_standby_streaming_delay": -1, "wal_receiver_status_interval": "1s",
                "hot_standby_feedback": "on" if place.fixed else "off"}
    words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    place.start(programs / "postgres", "-D", home, *words, port=port, stop=signal.SIGINT, **as_user)
    place.run("sh", "-c", f"for i in $(seq 200); do pg_isready -q {' '.join(at(port))} && exit; sleep 0.05; done; exit 1")
    place.start(place.write("monthreport", MONTHREPORT), port, path=place.folder / "monthreport-ready")
    return [str(place.write("closing", CLOSING)), str(base), "12"]


# Control: the display boards at the dam ask for their levels each 40 ms by intention.
BOARDS = """
package main

import ("fmt"; "io"; "net/http"; "os"; "strconv"; "sync"; "sync/atomic"; "time")

func main() {
	var shown atomic.Int64
	var all sync.WaitGroup
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 8
	begin := time.Now()
	for board := 0; board < 6; board++ {
		all.Add(1)
		go func() {
			defer all.Done()
			clock := time.NewTicker(40 * time.Millisecond)
			for count := 0; time.Since(begin).Seconds() < seconds; count++ {
				<-clock.C
				answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%s/level/%d", os.Args[1], (board * 50 + count) % 300))
				if err != nil {
					panic(err)
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				shown.Add(1)
			}
		}()
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", shown.Load(), time.Since(begin).Seconds())
}
"""
LEVELS = """
import asyncio, sys
import redis.asyncio
from aiohttp import web

front, cache, store = map(int, sys.argv[1:])
links = []

async def asked(text):
    # The connections of the service remain open.
    reader, writer = links.pop() if links else await asyncio.open_connection("127.0.0.1", cache)
    writer.write(text)
    line = await reader.readline()
    value = None
    if line.startswith(b"VALUE"):
        value = await reader.readexactly(int(line.split()[3]))
        await reader.readline()
        await reader.readline()
    links.append((reader, writer))
    return value

async def level(request):
    gauge = request.match_info["gauge"].encode()
    found = await asked(b"get level%s\\r\\n" % gauge)
    if found is None:
        found = await latest.hget("latest", gauge) or b"1400"
        await asked(b"set level%s 0 1 %d\\r\\n%s\\r\\n" % (gauge, len(found), found))
    return web.Response(text=found.decode())

async def started(app):
    await latest.hset("latest", mapping={str(gauge): 1400 + gauge % 37 for gauge in range(300)})

latest = redis.asyncio.Redis(port=store)
app = web.Application()
app.on_startup.append(started)
app.router.add_get("/level/{gauge}", level)
web.run_app(app, host="127.0.0.1", port=front, print=None, access_log=None)
"""


def boards(place):
    cache, store, port = place.port(), redis(place), place.port()
    place.start("memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", cache, "-m", "64", port=cache)
    place.start(PYTHON, place.write("levels.py", LEVELS), port, cache, store, port=port)
    front = nginx(place, 'location / { proxy_pass http://levels; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream levels {{ server 127.0.0.1:{port}; keepalive 8; }}")
    return [str(place.go("boards", BOARDS)), str(front), str(place.seconds)]


# Control: the export of a week is read as a stream, and sent to redis without waiting for answers.
COMMANDS = """#!/usr/bin/perl
use strict;
use warnings;

$| = 0;
while (my $line = <STDIN>) {
    chomp $line;
    my ($gauge, $hour, $level) = split /;/, $line;
    my @words = ("ZADD", "gauge:$gauge", $hour, "$hour:$level");
    print "*4\\r\\n", map { "\\$" . length($_) . "\\r\\n$_\\r\\n" } @words;
}
"""


def import_week(place):
    store = redis(place)
    lines = "".join(f"{gauge};{hour};{1400 + (gauge * hour) % 53}\n" for hour in range(1500) for gauge in range(600))
    place.write("week.csv", lines, mode=0o644)
    place.run("zstd", "-q", "--rm", "week.csv")
    place.write("commands", COMMANDS)
    return [str(place.write("weekimport", f"""#!/bin/bash
set -e -o pipefail
zstd -q -d -c week.csv.zst | ./commands | redis-cli -p {store} --pipe
"""))]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="reservoir_levels_compiled_anew",
        kind="query-compiled-per-execution",
        truth="postgres computes: it compiles the short query of district.py with LLVM (jit) for "
              "each execution, because it expects a hundred elements in each JSON array, and so "
              "takes the query for a long one",
        load=compiled_queries,
        rate=WRK,
        component=(r"postgres",),
        mechanism=(*RUNS, r"\bjit", r"LLVM", r"compil", r"quer(y|ies)", r"requests? to"),
        never=(*DISK, r"postgres (\([^)]*\) )?sleeps"),
        code=(r"LLVM", r"llvm", r"jit"),
        needs=("psql", "pgbouncer", "haproxy", "wrk", PYTHON),
    ),
    System(
        name="reservoir_backup_before_its_start",
        kind="backup-waits-for-spread-checkpoint",
        truth="pg_basebackup, of nightbackup, waits for the checkpoint of postgres, whose "
              "checkpointer spreads its writes over 3 s, and sleeps between them",
        load=base_backup,
        component=(r"postgres", r"checkpoint"),
        mechanism=(*SLEEPS, r"checkpoint", r"\bpaced\b", r"throttl", r"epoll", r"time-?out", r"latch"),
        never=(*DISK, r"\bgauges (\([^)]*\) )?sleeps", r"(postgres|zstd) (\([^)]*\) )?(computes|runs its own code)"),
        change="x0",
        needs=("psql", "zstd", PYTHON),
    ),
    System(
        name="reservoir_sums_lock_readings",
        kind="source-rows-locked-by-insert-select",
        truth="the sessions of collect in mariadbd wait for the row locks and the gap lock that "
              "insert … select of daysums keeps on all readings (repeatable read) until it "
              "commits, after daysums has computed its curves",
        load=day_sums,
        rate=ITEMS,
        component=(r"mariadb", r"mysqld", r"daysums"),
        mechanism=(*LOCKS, r"\bholds?\b", r"\bheld\b", r"transaction", r"commit", r"isolation",
                   r"for one another", r"wait(s|ing)? for (its )?daysums", r"until daysums"),
        never=(*DISK, r"deadlock", r"daysums (\([^)]*\) )?sleeps"),
        running=True,
        needs=("mariadbd", "mariadb-install-db", PYTHON),
    ),
    System(
        name="reservoir_archive_opens_tables",
        kind="table-cache-too-small",
        truth="archive-server opens, maps and unmaps a table of leveldb for most lookups, because "
              "max_open_files lets it keep only 64 of more than 200 tables open",
        load=table_files,
        rate=ITEMS,
        component=(r"archive-server", r"leveldb"),
        mechanism=(r"\bopen", r"m(un)?map", r"\bmaps?\b", r"page[ -]?fault", r"\bfaults?\b", r"\bclos(e|es|ing)\b",
                   r"FindTable", r"Table(Cache|::Open)", r"\bkernel\b", r"system (call|time|mode)", r"syscall"),
        never=(*DISK, r"archive-server (\([^)]*\) )?sleeps", r"(yearbook|ruby) (\([^)]*\) )?computes"),
        code=(r"mmap", r"munmap", r"openat", r"FindTable", r"Table::Open"),
        needs=("g++", "ruby"),
    ),
    System(
        name="reservoir_report_stops_replica",
        kind="replay-conflicts-with-report",
        truth="the startup process of the replica's postgres does not replay the vacuum, but "
              "sleeps again and again until the transaction of monthreport ends, which still needs "
              "the deleted rows; closing waits for the replay at each commit (remote_apply)",
        load=replica,
        rate=ITEMS,
        component=(r"postgres", r"startup", r"replica", r"recover", r"monthreport"),
        mechanism=(*SLEEPS, r"conflict", r"repla(y|ic)", r"recover", r"\bpoll(s|ing)\b", r"\bheld\b", r"\bholds?\b",
                   r"transaction", r"(wait(s|ing)? for|until) monthreport"),
        never=(*DISK, r"monthreport (\([^)]*\) )?sleeps", r"closing (\([^)]*\) )?(sleeps|computes)"),
        needs=("psql", PYTHON),
    ),
    System(
        name="reservoir_boards_by_the_clock",
        kind="control",
        truth="six boards, in Go, each ask for a level every 40 ms by intention; nginx, levels.py "
              "and memcached answer long before the next time, and all are idle most of the time",
        load=boards,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by boards", r"boards.*(sleep|timer|until a time|\bpaced\b)", r"\bidle\b", r"load generator"),
        needs=("memcached", "redis-server", "nginx", "go", PYTHON),
    ),
    System(
        name="reservoir_import_of_a_week",
        kind="control",
        truth="zstd, commands (in perl), redis-cli and redis-server work in parallel on the stream "
              "of one import without waiting for each answer, and both CPUs are almost full",
        load=import_week,
        acceptable=(*NOTHING, rf"(commands|perl|redis|weekimport).*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("redis-server", "redis-cli", "perl", "zstd"),
    ),
]

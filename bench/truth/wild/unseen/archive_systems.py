"""An archive: its data stores (postgres, mariadb, redis, memcached, sqlite) and the services before
them. Five of the systems have a fault; in two nothing is short.
"""
from services import at, mariadb, php, postgres, redis
from system import COMPUTES, ITEMS, LOCKS, PGBENCH, PYTHON, SLEEPS, WRK, Place, System, number, wrk

# postgres: a full-text index whose list of pending entries was never merged.

WORDS = "to_tsvector('simple', (select string_agg('w' || (hash % 3000), ' ') from (select abs(hashint4(i * 31 + k)) as hash from generate_series(1, 24) k) of))"


def pending_list(place):
    finding = f"insert into finding select i, repeat('leaf ' || i || ' ', 40), {WORDS} from generate_series"
    port = postgres(place, f"""
        create table finding (id int primary key, body text, words tsvector);
        {finding}(1, 12000) i;
        create index finding_words on finding using gin (words) with (fastupdate = on, gin_pending_list_limit = 1048576);
        {finding}(12001, {12000 + round(5000 * place.fault)}) i;
        analyze finding""", jit="off", max_parallel_workers_per_gather=0)
    script = place.write("search.sql", "\\set a random(0, 2999)\n\\set b random(0, 2999)\n"
                         "select count(*) from finding where words @@ (('w' || :a) || ' & ' || ('w' || :b))::tsquery;\n")
    return ["pgbench", *at(port), "-n", "-f", str(script), "-c", "4", "-j", "1", "-T", str(place.seconds), "postgres"]


# node: connections that a path of the program forgets to give back to their pool.

LENDING = """
const http = require("http"), net = require("net");
const [port, store, size, leaked, reclaim] = process.argv.slice(2).map(Number);
const idle = [], waiting = [];

// The connection is free again: hand it to the next one who waits.
function free(connection) {
  clearTimeout(connection.overdue);
  const next = waiting.shift();
  if (next) lend(connection, next); else idle.push(connection);
}

// A connection that its borrower has not given back in time is taken from it.
function lend(connection, borrower) {
  connection.overdue = setTimeout(free, reclaim, connection);
  borrower(connection);
}

function take(borrower) {
  const connection = idle.pop();
  if (connection) lend(connection, borrower); else waiting.push(borrower);
}

for (let i = 0; i < size; i++) {
  const connection = net.connect(store, "127.0.0.1", () => idle.push(connection));
  connection.setNoDelay(true);
  connection.on("data", answer => connection.then(answer));
}

let count = 0;
http.createServer((request, response) => {
  take(connection => {
    connection.then = answer => {
      const renewal = leaked && ++count % leaked === 0;
      response.end("loan " + answer.toString().slice(1));
      // The path of renewals returns without giving the connection back.
      if (!renewal) free(connection);
    };
    connection.write("INCR loans\\r\\n");
  });
}).listen(port, "127.0.0.1");
"""


def leaked_connections(place):
    store, port = redis(place), place.port()
    leaked = 0 if place.fixed else 40
    place.start("node", place.write("lendingdesk.js", LENDING), port, store, 4, leaked, 100 * place.scale, port=port)
    return wrk(f"http://127.0.0.1:{port}/", 8, place.seconds)


# redis: monitors that a board of the reading room has opened and never closed.

BOARD = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static long seen;

int main(int argc, char **argv) {
    int count = atoi(argv[2]), sockets[1024];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    static char lines[1 << 20];
    for (int i = 0; i < count; i++) {
        sockets[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(sockets[i], (struct sockaddr *)&to, sizeof to) || write(sockets[i], "MONITOR\r\n", 9) != 9 || read(sockets[i], lines, sizeof lines) < 5)
            return 1;
    }
    fclose(fopen(argv[3], "w"));
    for (;;) {
        // The board shows what has happened 25 times in a second.
        nanosleep(&(struct timespec){.tv_nsec = 40000000}, 0);
        for (int i = 0; i < count; i++) {
            long got = recv(sockets[i], lines, sizeof lines, MSG_DONTWAIT);
            if (!got)
                return 0;
            seen += got;
        }
    }
}
"""


def forgotten_monitors(place):
    port = redis(place)
    ready = place.folder / "board-ready"
    place.start(place.c("readingboard", BOARD), port, round(200 * place.fault), ready, path=ready)
    return ["redis-benchmark", "-p", str(port), "-q", "-t", "set", "-c", "8", "-n", str(round(30000 / max(place.fault, 0.15))), "-r", "1000", "-d", "64"]


# mariadb: a backup that holds back all commits while it copies.

BACKUP = """
import sys, time
import pymysql

port, copying, early, ready = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "early", sys.argv[4]
server = pymysql.connect(host="127.0.0.1", port=port, user="root", database="test")
cursor = server.cursor()
open(ready, "w").close()
while True:
    cursor.execute("BACKUP STAGE START")
    if early:
        time.sleep(copying)
    for stage in "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT":
        cursor.execute("BACKUP STAGE " + stage)
    if not early:
        time.sleep(copying)
    cursor.execute("BACKUP STAGE END")
    time.sleep(0.01)
"""

ACCESSIONS = """
import sys, threading, time
import pymysql

port, seconds, count = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
done = [0] * count

def enter(of):
    server = pymysql.connect(host="127.0.0.1", port=port, user="root", database="test", autocommit=True)
    cursor = server.cursor()
    while time.monotonic() < end:
        cursor.execute("insert into accession (clerk, title) values (%s, %s)", (of, "box of letters"))
        done[of] += 1

begin = time.monotonic()
end = begin + seconds
clerks = [threading.Thread(target=enter, args=(of,)) for of in range(count)]
for clerk in clerks:
    clerk.start()
for clerk in clerks:
    clerk.join()
print("items", sum(done), "seconds", time.monotonic() - begin)
"""


def backup_stage(place):
    port = mariadb(place, "create table accession (id int auto_increment primary key, clerk int, title text) engine = innodb", "--innodb-flush-log-at-trx-commit=0")
    ready = place.folder / "backup-ready"
    place.start(PYTHON, place.write("nightcopy.py", BACKUP), port, 0.12 * place.scale, "early" if place.fixed else "late", ready, path=ready)
    return [PYTHON, str(place.write("accessions.py", ACCESSIONS)), str(port), str(place.seconds), "4"]


# postgres: a foreign table whose rows are fetched one by one from another postgres.

def foreign_lookups(place):
    far = place.stack.enter_context(Place(place.folder / "strongroom", place.fault, place.seconds))
    pause = 0.006 * place.fault
    # Each row has to come from cold storage.
    fetched = f"where pg_sleep({pause:.4f}) is not null" if pause else ""
    depot = postgres(far, f"""
        create table box (id int primary key, shelf text);
        insert into box select i, 'shelf ' || i % 97 from generate_series(1, 2000) i;
        create view shelves as select id, shelf from box {fetched}""", jit="off")
    front = postgres(place, f"""
        create extension postgres_fdw;
        create server strongroom foreign data wrapper postgres_fdw options (host '127.0.0.1', port '{depot}', dbname 'postgres');
        create user mapping for postgres server strongroom options (user 'postgres');
        create foreign table shelves (id int, shelf text) server strongroom;
        create table request (id int primary key, box int);
        insert into request select i, 1 + i * 7 % 2000 from generate_series(1, 5000) i;
        create function shelf_of(of int) returns text language plpgsql volatile as 'begin return (select shelf from shelves where id = of); end';
        analyze request""", jit="off")
    script = place.write("slip.sql", "\\set first random(1, 4990)\nselect id, shelf_of(box) from request where id between :first and :first + 7;\n")
    return ["pgbench", *at(front), "-n", "-f", str(script), "-c", "6", "-j", "1", "-T", str(place.seconds), "postgres"]


# Healthy: memcached and its client compute as much as they can.

MULTIGET = r"""
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { KEYS = 64, SIZE = 400 };
static int port;
static double seconds;
static long done[2];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static int joined(void) {
    int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(s, (struct sockaddr *)&to, sizeof to))
        exit(1);
    return s;
}

static void put(int s, const char *text, size_t size) {
    if (write(s, text, size) != (ssize_t)size)
        exit(1);
}

// Reads one answer, and returns a checksum of the leaves in it.
static unsigned taken(int s, char *buffer, size_t room) {
    size_t got = 0;
    unsigned sum = 1;
    while (got < 5 || memcmp(buffer + got - 5, "END\r\n", 5)) {
        ssize_t n = read(s, buffer + got, room - got);
        if (n <= 0)
            exit(1);
        got += n;
    }
    for (size_t i = 0; i < got; i++)
        sum = (sum ^ (unsigned char)buffer[i]) * 16777619u;
    return sum;
}

static void *reader(void *of) {
    long me = (long)of;
    char *buffer = malloc(1 << 20), ask[KEYS * 16 + 16];
    int lines[2] = {joined(), joined()}, n = 3;
    strcpy(ask, "get");
    for (int i = 0; i < KEYS; i++)
        n += sprintf(ask + n, " leaf%d", i);
    n += sprintf(ask + n, "\r\n");
    put(lines[0], ask, n);
    put(lines[1], ask, n);
    unsigned all = 0;
    for (double end = now() + seconds; now() < end; done[me] += KEYS) {
        int line = lines[done[me] / KEYS % 2];
        all += taken(line, buffer, 1 << 20);
        put(line, ask, n);
    }
    return (void *)(long)all;
}

int main(int argc, char **argv) {
    port = atoi(argv[1]);
    seconds = atof(argv[2]);
    int s = joined();
    char text[SIZE + 64], value[SIZE + 1], answer[64];
    for (int i = 0; i < KEYS; i++) {
        for (int k = 0; k < SIZE; k++)
            value[k] = 'a' + (i * 7 + k * k) % 26;
        value[SIZE] = 0;
        put(s, text, sprintf(text, "set leaf%d 0 0 %d\r\n%s\r\n", i, SIZE, value));
        if (read(s, answer, sizeof answer) <= 0)
            return 1;
    }
    pthread_t threads[2];
    double begin = now();
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, reader, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    printf("items %ld seconds %f\n", done[0] + done[1], now() - begin);
}
"""


def multiget(place):
    port = place.port()
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", port, "-U", "0", "-t", "2", "-m", "64", port=port)
    return [str(place.c("leafreader", MULTIGET)), str(port), str(place.seconds)]


# Healthy: a page of PHP takes a reading now and then; a keeper writes them down twice in a second.

READING = """<?php
$store = fsockopen("127.0.0.1", STORE);
fwrite($store, "RPUSH readings " . ($_GET["value"] ?? 0) . "\\r\\n");
echo trim(fgets($store)), "\\n";
"""

KEEPER = """
import sqlite3, sys, time
import redis

store = redis.Redis(port=int(sys.argv[1]))
book = sqlite3.connect(sys.argv[2])
book.execute("create table reading (at real, value text)")
book.commit()
open(sys.argv[3], "w").close()
while True:
    time.sleep(0.5)
    readings = store.lpop("readings", 1000)
    if readings:
        book.executemany("insert into reading values (?, ?)", ((time.time(), value.decode()) for value in readings))
        book.commit()
"""

HYGROMETER = """
import http.client, sys, time

port, seconds = int(sys.argv[1]), float(sys.argv[2])
server = http.client.HTTPConnection("127.0.0.1", port)
begin = due = time.monotonic()
count = 0
while due < begin + seconds:
    server.request("GET", f"/?value={40 + count % 9}")
    server.getresponse().read()
    count += 1
    due += 0.055
    time.sleep(max(0, due - time.monotonic()))
print("items", count, "seconds", time.monotonic() - begin)
"""


def readings(place):
    store = redis(place)
    ready = place.folder / "keeper-ready"
    front = php(place, READING.replace("STORE", str(store)), 2)
    place.start(PYTHON, place.write("keeper.py", KEEPER), store, place.folder / "readings.db", ready, path=ready)
    return [PYTHON, str(place.write("hygrometer.py", HYGROMETER)), str(front), str(place.seconds)]


SYSTEMS = [
    System(
        name="archive_findings_pending",
        kind="unmerged-pending-list",
        truth="postgres computes, because each search walks through the pending list of the GIN index, whose 5000 new rows were never merged into it",
        load=pending_list,
        rate=PGBENCH,
        component=(r"postgres",),
        mechanism=(*COMPUTES, r"\bcpu"),
        never=(r"\block", r"mutex", r"sleep", r"\bdisk"),
        halves=True,
        needs=("pgbench", "psql"),
    ),
    System(
        name="archive_desk_leaks",
        kind="leaked-connections",
        truth="lendingdesk in node forgets to give back its connection to redis in every 40th request, so that all wait until the timer of 100 ms reclaims the four connections of the pool",
        load=leaked_connections,
        rate=WRK,
        component=(r"\bnode\b", r"lendingdesk"),
        mechanism=(*SLEEPS, r"time-?out"),
        never=(r"(node|lendingdesk)[^;]{0,30} comput", r"\bdisk", r"\block\b"),
        change="x0",
        halves=True,
        needs=("node", "redis-server", "wrk"),
    ),
    System(
        name="archive_board_monitors",
        kind="fan-out-to-forgotten-monitors",
        truth="redis formats and sends each command to the 200 MONITOR connections that readingboard has never closed, in its one thread",
        load=forgotten_monitors,
        rate=number(r"SET: ([\d.]+) requests per second"),
        component=(r"redis-server", r"\bredis\b(?!-bench)"),
        mechanism=(*COMPUTES, r"\bcpu", r"kernel", r"\bsend", r"\bwrit", r"system calls?"),
        never=(r"readingboard.{0,40}(sleep|timer|until a time)", r"\block\b", r"mutex", r"\bdisk"),
        halves=True,
        needs=("redis-server", "redis-benchmark"),
    ),
    System(
        name="archive_copy_blocks_commits",
        kind="backup-lock",
        truth="nightcopy sleeps 120 ms in the stage BLOCK_COMMIT of its backup, whose lock in mariadbd all commits of accessions wait for",
        load=backup_stage,
        rate=ITEMS,
        component=(r"nightcopy", r"mariadb"),
        mechanism=(*LOCKS, r"waits? for .{0,40}nightcopy", r"nightcopy.{0,120}waits? for (it|nightcopy)", r"nightcopy.{0,80}(for which|while) .{0,60}waits?\b"),
        never=(r"\bdisk", r"fsync", r"interpreter", r"(mariadbd?|accessions) computes", r"accessions sleeps"),
        halves=True,
        needs=("mariadbd", "mariadb-install-db", PYTHON),
    ),
    System(
        name="archive_shelves_far_away",
        kind="foreign-table-lookups",
        truth="for each of the eight boxes of a slip, one after the other, postgres asks the postgres of the strongroom through a foreign table, which sleeps 6 ms for it",
        load=foreign_lookups,
        rate=PGBENCH,
        component=(r"postgres",),
        mechanism=(*SLEEPS, r"time-?out"),
        never=(r"postgres[^;]{0,20} comput", r"\bdisk", r"\block\b", r"pgbench (sleeps|waits for a timer)"),
        change="x0",
        halves=True,
        needs=("pgbench", "psql"),
    ),
    System(
        name="control_archive_leaves",
        kind="control",
        truth="leafreader asks memcached for 64 leaves at once, again and again, and both compute and copy on two CPUs, which are full",
        load=multiget,
        rate=ITEMS,
        acceptable=(r"^(?!.*(\block|mutex|one another|at a time|sleep|timer)).*(memcached|leafreader).*(comput|\buser\b|runs its own code|\bcpu|kernel|copies)",
                    r"\bcpus? (is|are) full"),
        needs=("memcached", "gcc"),
    ),
    System(
        name="control_archive_climate",
        kind="control",
        truth="hygrometer has a reading each 55 ms by intention, which nginx, php-fpm and redis take at once, and keeper writes them down twice in a second; all are idle most of the time",
        load=readings,
        rate=ITEMS,
        acceptable=(r"hygrometer.{0,60}(sleep|timer|until a time|pause)", r"^(?!.*keeper).*\bidle\b", r"no bottleneck", r"nothing (is|to)"),
        needs=("nginx", "redis-server", PYTHON),
    ),
]

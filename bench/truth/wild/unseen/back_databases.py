"""Databases: replicas and writers that are waited for, a lock left behind, a trigger, dead rows, a schema, small tables."""
from services import at, postgres, private_network, redis
from system import COMPUTES, ITEMS, PGBENCH, PYTHON, System

# Each entry has to be on another machine, too, before it counts, or so its author thought.
REGISTRAR = """#!/usr/bin/python3
# usage: registrar PORT SECONDS WAIT: enters names, and waits so many ms for a replica that has them, too.
import hashlib, socket, sys, time

server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
answers = server.makefile("rb")
wait = int(sys.argv[3])


def call(text):
    server.sendall(text.encode() + b"\\r\\n")
    return answers.readline()


begin, items, seal = time.monotonic(), 0, b"seal"
while time.monotonic() < begin + float(sys.argv[2]):
    for turn in range(6000):
        seal = hashlib.sha256(seal).digest()
    call(f"SET entry:{items % 5000} {seal.hex()}")
    if wait:
        call(f"WAIT 1 {wait}")
    items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def absent_replica(place):
    port = redis(place, "--hz", "500", "--dynamic-hz", "no")
    registrar = place.write("registrar", REGISTRAR)
    return [str(registrar), str(port), str(place.seconds), str(round(24 * place.fault))]


CASHIER = """#!/usr/bin/python3
# usage: cashier PORT SECONDS: books sales, forty in a batch.
import socket, sys, time, zlib

server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
answers = server.makefile("rb")
begin, items, receipt = time.monotonic(), 0, b"receipt " * 1500


def call(text):
    server.sendall(text.encode() + b"\\r\\n")
    return answers.readline()


while time.monotonic() < begin + float(sys.argv[2]):
    for number in range(40):
        call(f"SET sale:{items % 9000} {len(zlib.compress(receipt))}")
        items += 1
    call("PUBLISH batches done")
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""

REBALANCER = """#!/usr/bin/python3
# usage: rebalancer PORT PAUSE: holds all writes for so many ms after each batch.
import pathlib, socket, sys

events = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
events.sendall(b"SUBSCRIBE batches\\r\\n")
pathlib.Path("rebalancer-ready").touch()
while words := events.recv(4096):
    if b"done" in words and int(sys.argv[2]):
        server.sendall(f"CLIENT PAUSE {sys.argv[2]} WRITE\\r\\n".encode())
        server.recv(4096)
"""


def client_pause(place):
    port = redis(place, "--hz", "500", "--dynamic-hz", "no")
    place.start(place.write("rebalancer", REBALANCER), port, round(40 * place.fault),
                path=place.folder / "rebalancer-ready")
    return [str(place.write("cashier", CASHIER)), str(port), str(place.seconds)]


CONSOLE = """#!/usr/bin/python3
# usage: console PORT READY SQL: somebody's session, who went for lunch within a transaction.
import pathlib, signal, sys
import psycopg2

session = psycopg2.connect(host="127.0.0.1", port=sys.argv[1], user="postgres")
session.set_session(isolation_level="REPEATABLE READ")
session.cursor().execute(sys.argv[3])
pathlib.Path(sys.argv[2]).touch()
signal.pause()
"""

DISPATCHER = """#!/usr/bin/python3
# usage: dispatcher PORT SECONDS TIMEOUT: sends the urgent ticket if nobody has it, else the next one.
import hashlib, sys, time
import psycopg2

session = psycopg2.connect(host="127.0.0.1", port=sys.argv[1], user="postgres")
session.autocommit = True
cursor = session.cursor()
cursor.execute(f"set lock_timeout = {max(int(sys.argv[3]), 1)}")
begin, items, seal = time.monotonic(), 0, b"seal"
while time.monotonic() < begin + float(sys.argv[2]):
    try:
        cursor.execute("update tickets set sent = sent + 1 where id = 1")
    except psycopg2.errors.LockNotAvailable:
        cursor.execute("update tickets set sent = sent + 1 where id = %s", (2 + items % 500,))
    for turn in range(6000):
        seal = hashlib.sha256(seal).digest()
    items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def abandoned_lock(place):
    port = postgres(place, """
        create table tickets (id int primary key, sent int);
        insert into tickets select n, 0 from generate_series(1, 600) n;
    """, fsync="off")
    if not place.fixed:
        console = place.write("console", CONSOLE)
        ready = place.folder / "console-ready"
        place.start(console, port, ready, "update tickets set sent = 0 where id = 1", path=ready)
    dispatcher = place.write("dispatcher", DISPATCHER)
    return [str(dispatcher), str(port), str(place.seconds), str(round(24 * place.scale))]


def slow_trigger(place):
    """A row is sealed by so many rounds of md5 in the language of the database."""
    port = postgres(place, f"""
        create table parcels (id bigserial primary key, place int, seal text);
        create function seal() returns trigger language plpgsql as $$
        declare text text := new.place;
        begin
            for turn in 1 .. {round(1200 * place.fault)} loop text := md5(text); end loop;
            new.seal := text;
            return new;
        end $$;
        create trigger seal before insert on parcels for each row execute function seal();
    """, fsync="off", synchronous_commit="off")
    script = place.write("parcel.sql", "\\set at random(1, 1000)\n"
                                       "insert into parcels (place) values (:at);\n")
    return ["pgbench", *at(port), "-n", "-c", "1", "-T", str(place.seconds), "-f", str(script), "postgres"]


def dead_rows(place):
    """A table as queue, whose done jobs cannot go while a report of this morning may still see them."""
    port = postgres(place, """
        create table jobs (id bigint primary key, body text);
        insert into jobs select n, 'job ' || n from generate_series(1, 90000) n;
    """, fsync="off", synchronous_commit="off")
    if not place.fixed:
        ready = place.folder / "morning-ready"
        console = place.write("morning", CONSOLE)
        place.start(console, port, ready, "select count(*) from jobs", path=ready)
    place.run("psql", *at(port), "-q", "-c", "delete from jobs where id <= 9000", "-c", "vacuum analyze jobs")
    script = place.write("job.sql", "delete from jobs where id = (select id from jobs order by id"
                                    " limit 1 for update skip locked) returning body;\n")
    return ["pgbench", *at(port), "-n", "-c", "1", "-T", str(place.seconds), "-f", str(script), "postgres"]


LOOKUP = """#!/usr/bin/python3
# usage: lookup each|kept SECONDS: answers questions about customers of one of many tenants.
import json, random, sqlite3, sys, time

kept = sqlite3.connect("tenants.db") if sys.argv[1] == "kept" else None
begin, items = time.monotonic(), 0
while time.monotonic() < begin + float(sys.argv[2]):
    connection = kept or sqlite3.connect("tenants.db")
    tenant = random.randrange(300)
    rows = connection.execute(f"select * from customers_{tenant} order by town limit 40").fetchall()
    for turn in range(4):
        json.dumps([{"id": id, "name": name, "town": town} for id, name, town in rows])
    if not kept:
        connection.close()
    items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def schema_parsed(place):
    place.write("fill.sql", "begin;\n" + "".join(f"""
        create table customers_{tenant} (id integer primary key, name text not null, town text);
        create index customers_{tenant}_by_town on customers_{tenant} (town);
        insert into customers_{tenant} select value, 'name ' || value, 'town ' || (value * 7 % 50)
            from generate_series(1, 60);
    """ for tenant in range(300)) + "commit;\n")
    place.run("sh", "-c", "sqlite3 tenants.db <fill.sql")
    return [str(place.write("lookup", LOOKUP)), "kept" if place.fixed else "each", str(place.seconds)]


METERS = r"""
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

/* usage: meters FOLDER SECONDS BUFFER: stores readings of meters, in random order. */
int main(int count, char **words)
{
    char *error = NULL, key[32], value[400];
    leveldb_options_t *options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_compression(options, leveldb_no_compression);
    leveldb_options_set_write_buffer_size(options, atol(words[3]));
    leveldb_t *store = leveldb_open(options, words[1], &error);
    leveldb_writeoptions_t *how = leveldb_writeoptions_create();
    if (error) return fprintf(stderr, "%s\n", error), 1;
    long items = 0;
    unsigned long state = 88172645463325252ul;
    double begin = now();
    while (now() < begin + atof(words[2])) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        sprintf(key, "meter%010lu", state % 300000);
        for (int at = 0; at < 400; at++) value[at] = 'a' + (state >> (at % 48)) % 26;
        leveldb_put(store, how, key, strlen(key), value, sizeof value, &error);
        if (error) return fprintf(stderr, "%s\n", error), 1;
        items++;
    }
    printf("items %ld seconds %.3f\n", items, now() - begin);
    leveldb_close(store);
    return 0;
}
"""


def write_stall(place):
    """On a file system in memory, so that no disk is in it."""
    (place.folder / "store").mkdir()
    meters = place.c("meters", METERS, "-lleveldb")
    inside = private_network(place, f"mount -t tmpfs tmpfs {place.folder}/store")
    buffer = 64 << 20 if place.fixed else 64 << 10
    return [*inside, str(meters), f"{place.folder}/store/db", str(place.seconds), str(buffer)]


DISK = (r"f(data)?sync", r"waits? for (the |a )?(disk|storage|block device)")
TIMED = (r"\bsleep", r"timer", r"until a time", r"time-?out", r"\bpause", r"gives? up")

SYSTEMS = [
    System(
        name="redis_absent_replica",
        kind="replica-acknowledgement-timeout",
        truth="registrar has redis wait 24 ms after each entry for a replica that does not exist: redis answers its WAIT only when that time is over",
        load=absent_replica,
        rate=ITEMS,
        component=(r"redis", r"registrar"),
        mechanism=(*TIMED, r"\bWAIT\b", r"replica"),
        never=(*DISK, r"(redis\S*|registrar) comput", r"\block"),
        change="x0",
        halves=True,
        needs=("redis-server", PYTHON),
    ),
    System(
        name="redis_client_pause",
        kind="client-pause",
        truth="after each batch rebalancer has redis hold all writes for 40 ms (CLIENT PAUSE), so that cashier waits for its answer until that time is over",
        load=client_pause,
        rate=ITEMS,
        component=(r"redis", r"rebalancer", r"cashier"),
        mechanism=TIMED,
        never=(*DISK, r"(redis\S*|cashier|rebalancer) comput"),
        change="x0",
        halves=True,
        running=True,
        needs=("redis-server", PYTHON),
    ),
    System(
        name="postgres_abandoned_lock",
        kind="lock-timeout",
        truth="console has locked a row of postgres and does nothing; dispatcher tries that row first each time, and its session of postgres waits for the lock until the lock_timeout of 24 ms",
        load=abandoned_lock,
        rate=ITEMS,
        component=(r"postgres", r"dispatcher", r"console"),
        mechanism=(*TIMED, r"\block(s|ed)?\b", r"lock_timeout"),
        never=(*DISK, r"(postgres|dispatcher) comput"),
        change="x0",
        halves=True,
        running=True,
        needs=("psql", PYTHON),
    ),
    System(
        name="postgres_slow_trigger",
        kind="trigger-per-row",
        truth="a trigger of the table computes 1200 rounds of md5 in postgres for each row that pgbench inserts",
        load=slow_trigger,
        rate=PGBENCH,
        component=(r"postgres",),
        mechanism=(*COMPUTES, r"\bruns\b"),
        never=(*DISK, r"\bsleeps", r"\block(s|ed)?\b", r"pgbench comput"),
        halves=True,
        needs=("pgbench", "psql"),
    ),
    System(
        name="postgres_dead_rows",
        kind="dead-row-scan",
        truth="a session with an old snapshot keeps the rows of done jobs, so that postgres walks over 9000 dead ones for each job that pgbench takes",
        load=dead_rows,
        rate=PGBENCH,
        component=(r"postgres",),
        mechanism=(*COMPUTES, r"\bruns\b", r"dead", r"index", r"heap", r"vacuum", r"snapshot"),
        never=(*DISK, r"\bsleeps", r"pgbench comput"),
        needs=("pgbench", "psql", PYTHON),
    ),
    System(
        name="sqlite_schema_parsed",
        kind="schema-per-connection",
        truth="lookup opens the database anew for each question, so that SQLite in it reads and parses the definitions of all 300 tables each time",
        load=schema_parsed,
        rate=ITEMS,
        component=(r"lookup", r"sqlite"),
        mechanism=(*COMPUTES, r"\bruns\b", r"pars", r"schema", r"sqlite3?_?(open|Init|Parse|RunParser)"),
        never=(*DISK, r"\bsleeps", r"\block(s|ed)?\b"),
        needs=("sqlite3", PYTHON),
    ),
    System(
        name="leveldb_write_stall",
        kind="write-stall",
        truth="the write buffer of LevelDB in meters is so small that its compactions do not keep up: meters waits for the thread of LevelDB that writes the tables anew, and sleeps for it",
        load=write_stall,
        rate=ITEMS,
        component=(r"meters", r"leveldb"),
        mechanism=(r"\bsleep", r"\block(s|ed)?\b", r"mutex", r"futex", r"compact", r"flush", r"until a time", r"background",
                   r"BGWork", r"\bwrites?\b", r"(other|another|second|own) thread", r"condition"),
        never=(*DISK, r"page faults?", r"network"),
        needs=("gcc", "mount", "unshare", "nsenter"),
    ),
]

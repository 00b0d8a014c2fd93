"""Databases: an absent replica, a pause, a lock left behind, dead rows."""
from services import at, postgres, redis
from system import COMPUTES, ITEMS, PGBENCH, PYTHON, System

# Each entry must also be on another host before it counts; the author of the program required this.
REGISTRAR = """#!/usr/bin/python3
# usage: registrar PORT SECONDS WAIT: enters names, waits so many ms for a replica.
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
# usage: dispatcher PORT SECONDS TIMEOUT: sends the urgent ticket, or else the next one.
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


def dead_rows(place):
    """A table as a queue. Finished jobs cannot be removed while an old report may still see them.
    """
    port = postgres(place, """
        create table jobs (id bigint primary key, body text);
        insert into jobs select n, 'job ' || n from generate_series(1, 90000) n;
    """, fsync="off", synchronous_commit="off")
    if not place.fixed:
        ready = place.folder / "morning-ready"
        console = place.write("morning", CONSOLE)
        place.start(console, port, ready, "select count(*) from jobs", path=ready)
    place.run("psql", *at(port), "-q", "-c", "delete from jobs where id <= 9000",
              "-c", "vacuum analyze jobs")
    script = place.write("job.sql", "delete from jobs where id = (select id from jobs order by id"
                                    " limit 1 for update skip locked) returning body;\n")
    return ["pgbench", *at(port), "-n", "-c", "1", "-T", str(place.seconds),
            "-f", str(script), "postgres"]


DISK = (r"f(data)?sync", r"waits? for (the |a )?(disk|storage|block device)")
TIMED = (r"\bsleep", r"timer", r"until a time", r"time-?out", r"\bpause", r"gives? up")

SYSTEMS = [
    System(
        name="redis_absent_replica",
        kind="replica-acknowledgement-timeout",
        truth=("registrar has redis wait 24 ms after each entry for a replica that does not exist: "
               "redis answers its WAIT only when that time is over"),
        load=absent_replica,
        rate=ITEMS,
        component=(r"redis", r"registrar"),
        mechanism=(*TIMED, r"replica"),
        never=(*DISK, r"(redis\S*|registrar) comput", r"\block"),
        change="x0",
        halves=True,
        needs=("redis-server", PYTHON),
    ),
    System(
        name="redis_client_pause",
        kind="client-pause",
        truth=("after each batch rebalancer has redis hold all writes for 40 ms (CLIENT PAUSE), so "
               "that cashier waits for its answer until that time is over"),
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
        truth=("console has locked a row of postgres and does nothing; dispatcher tries that row "
               "first each time, and its session of postgres waits for the lock until the "
               "lock_timeout of 24 ms"),
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
        name="postgres_dead_rows",
        kind="dead-row-scan",
        truth=("a session with an old snapshot keeps the rows of done jobs, so that postgres walks "
               "over 9000 dead ones for each job that pgbench takes"),
        load=dead_rows,
        rate=PGBENCH,
        component=(r"postgres",),
        mechanism=(*COMPUTES, r"\bruns\b", r"dead", r"index", r"heap", r"vacuum", r"snapshot"),
        never=(*DISK, r"\bsleeps", r"pgbench comput"),
        needs=("pgbench", "psql", PYTHON),
    ),
]

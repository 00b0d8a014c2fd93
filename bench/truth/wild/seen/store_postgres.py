"""Postgres: a backup that waits for a checkpoint, a gentle vacuum, a queue for a lock, a cursor row by row."""
from services import at, postgres
from system import LOCKS, PGBENCH, PYTHON, SLEEPS, System


BACKUP = """#!/bin/bash
# usage: backup PORT spread|fast
set -e -o pipefail
pg_basebackup -h 127.0.0.1 -p "$1" -U postgres --checkpoint="$2" -X none -F tar -D - | zstd -q -1 -o base.tar.zst
zstd -q -l base.tar.zst
"""


def spread_checkpoint(place):
    """The checkpoint has enough pages to be spread over a part of its timeout, which is 4 s."""
    sql = """
        create table parcels as select n as id, repeat('parcel', 20) as label from generate_series(1, 60000) as n;
        checkpoint;
        update parcels set label = label || '!' where id % 3 = 0"""
    port = postgres(place, sql, checkpoint_timeout="30s", checkpoint_completion_target=0.14)
    return [str(place.write("backup", BACKUP)), str(port), "fast" if place.fixed else "spread"]


NIGHTLY = """#!/bin/bash
# usage: nightly PORT: clears up what the day has left in three tables.
set -e
export PGHOST=127.0.0.1 PGPORT="$1" PGUSER=postgres
for table in visits baskets letters; do
    vacuumdb -q -d postgres -t "$table"
    psql -At -c "select '$table', count(*) from $table"
done
"""


def gentle_vacuum(place):
    names = ("visits", "baskets", "letters")
    tables = "".join(f"create table {name} as select n as id, repeat('x', 90) as what from generate_series(1, 60000) as n;" for name in names)
    deleted = "".join(f"delete from {name} where id % 4 = 0;" for name in names)
    port = postgres(place, f"{tables} {deleted} checkpoint", vacuum_cost_delay=f"{8 * place.fault}ms", synchronous_commit="off")
    return [str(place.write("nightly", NIGHTLY)), str(port)]


REPORT = """#!/usr/bin/python3
# Reads the stock, and thinks about it before or after the end of its transaction.
import sys, time
import psycopg2

connection = psycopg2.connect(host="127.0.0.1", port=sys.argv[1], user="postgres")
cursor = connection.cursor()
while True:
    cursor.execute("select sum(pieces) from stock where shelf = 3")
    cursor.fetchone()
    if sys.argv[3] == "late":
        time.sleep(float(sys.argv[2]))
        connection.commit()
    else:
        connection.commit()
        time.sleep(float(sys.argv[2]))
    open("report.ready", "w").close()
"""

MIGRATE = """#!/usr/bin/python3
# Changes the default of a column every few milliseconds.
import sys, time
import psycopg2

connection = psycopg2.connect(host="127.0.0.1", port=sys.argv[1], user="postgres")
connection.autocommit = True
cursor, number = connection.cursor(), 0
while True:
    number += 1
    cursor.execute(f"alter table stock alter note set default 'day {number % 365}'")
    open("migrate.ready", "w").close()
    time.sleep(0.005)
"""


def behind_alter(place):
    sql = """
        create table stock as select n as id, n % 10 as shelf, n % 7 as pieces, ''::text as note from generate_series(1, 5000) as n;
        analyze stock"""
    port = postgres(place, sql, synchronous_commit="off")
    place.start(place.write("report", REPORT), port, 0.08 * place.scale, "early" if place.fixed else "late", path=place.folder / "report.ready")
    place.start(place.write("migrate", MIGRATE), port, path=place.folder / "migrate.ready")
    shop = place.write("shop.sql", "\\sleep 3 ms\nselect sum(pieces) from stock where shelf = 5;\n")
    return ["pgbench", *at(port), "-n", "-c", "4", "-T", str(place.seconds), "-f", str(shop), "postgres"]


EXPORT = """#!/usr/bin/python3
# usage: export PORT ROWS: writes a table as lines, by a cursor of the server that gives so many rows at once.
import sys
import psycopg2

connection = psycopg2.connect(host="127.0.0.1", port=sys.argv[1], user="postgres")
cursor = connection.cursor("readings")
cursor.itersize = int(sys.argv[2])
cursor.execute("select * from readings")
for meter, value, curve in cursor:
    print(meter, value, curve, sep=",")
"""


def row_by_row(place):
    port = postgres(place, "create table readings as select n as id, n * 7 % 1000 as value, md5(n::text) as curve from generate_series(1, 40000) as n")
    return ["bash", "-o", "pipefail", "-c", f"{place.write('export', EXPORT)} {port} {5000 if place.fixed else 1} | gawk -F, '{{ sum[$1 % 100] += $2 }} END {{ print length(sum), NR }}'"]


SYSTEMS = [
    System(
        name="postgres_spread_checkpoint",
        kind="spread-checkpoint",
        truth="pg_basebackup waits for a checkpoint of postgres, whose checkpointer sleeps between its writes to spread them over 4 s",
        load=spread_checkpoint,
        component=(r"\bpostgres\b", r"checkpointer", r"port \d+"),
        mechanism=(*SLEEPS, r"time-?out"),
        never=(r"pg_basebackup (sleeps|comput)", r"zstd (sleeps|comput)", r"\bdisk\b"),
        change="x0",
        needs=("pg_basebackup", "psql", "zstd", "bash"),
    ),
    System(
        name="postgres_gentle_vacuum",
        kind="vacuum-cost-delay",
        truth="postgres sleeps 8 ms after every few pages of a VACUUM of the script nightly, because vacuum_cost_delay says so",
        load=gentle_vacuum,
        component=(r"\bpostgres\b", r"port \d+"),
        mechanism=(*SLEEPS, r"time-?out"),
        never=(r"(vacuumdb|psql|nightly|bash) (sleeps|comput)", r"\bdisk\b", r"postgres comput"),
        change="x0",
        halves=True,
        needs=("vacuumdb", "psql", "bash"),
    ),
    System(
        name="postgres_behind_alter",
        kind="lock-queue",
        truth="report sleeps 80 ms in an open transaction of postgres, for whose lock the ALTER TABLE of migrate waits, and all queries of pgbench behind that",
        load=behind_alter,
        rate=PGBENCH,
        component=(r"\breport\b", r"\bpostgres\b"),
        mechanism=(*SLEEPS, *LOCKS, r"transaction"),
        never=(r"pgbench (sleeps|comput)", r"migrate (sleeps|comput)", r"\bdisk\b", r"postgres comput", r"report comput"),
        halves=True,
        needs=("pgbench", PYTHON),
    ),
    System(
        name="postgres_row_by_row",
        kind="cursor-fetch-size",
        truth="export fetches each row from its cursor in postgres by a request of its own, and each of the two waits for the other",
        load=row_by_row,
        component=(r"\bexport\b", r"\bpostgres\b", r"port \d+"),
        mechanism=(r"round trip", r"one (\w+ )?at a time", r"one after the other", r"in sequence", r"in turn", r"take turns", r"one another", r"each other", r"request", r"(each|every|per|one) (call|row|fetch|query)", r"\basks?\b", r"answer", r"repl(y|ies)", r"small (packet|write|message)", r"back and forth", r"wake"),
        never=(r"\bsleeps", r"gawk comput", r"\bdisk\b"),
        needs=("gawk", "bash", PYTHON),
    ),
]

"""Databases that wait for the disk at each commit."""
from services import at, postgres
from system import ITEMS, PGBENCH, PYTHON, System

SQLITE = """
import sqlite3, sys, time

path, synchronous, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
store = sqlite3.connect(path, isolation_level=None)
store.execute("pragma journal_mode = wal")
store.execute(f"pragma synchronous = {synchronous}")
store.execute("create table event (id integer primary key, text)")
begin, items = time.monotonic(), 0
while time.monotonic() < begin + seconds:
    store.execute("insert into event (text) values (?)", ("x" * 200,))
    items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def sqlite(place):
    return [PYTHON, str(place.write("events.py", SQLITE)), str(place.folder / "events.db"), "off" if place.fixed else "full", str(place.seconds)]


def pgbench(place):
    port = postgres(place, "create table journal (who int, at timestamptz)", synchronous_commit="off" if place.fixed else "on", wal_sync_method="fdatasync")
    script = place.write("append.sql", "insert into journal values (:client_id, now());\n")
    each = "12000" if place.fixed else "1200"
    return ["pgbench", *at(port), "-n", "-f", str(script), "-c", "2", "-j", "1", "-t", each, "postgres"]


MECHANISM = (r"f(data)?sync", r"disk", r"commit", r"\bvd[a-z]|\bsd[a-z]|nvme", r"flush")
SYSTEMS = [
    System(
        name="sqlite_commit",
        kind="fsync-per-commit",
        truth="sqlite syncs its log to the disk for each row",
        load=sqlite,
        rate=ITEMS,
        component=(r"python", r"sqlite", r"disk", r"events\.py"),
        mechanism=MECHANISM,
        needs=(PYTHON,),
    ),
    System(
        name="postgres_commit_work",
        kind="fsync-per-commit",
        truth="each transaction of postgres waits until its log is on the disk",
        load=pgbench,
        rate=PGBENCH,
        component=(r"postgres", r"disk"),
        mechanism=MECHANISM,
        needs=("pgbench", "psql"),
    ),
]

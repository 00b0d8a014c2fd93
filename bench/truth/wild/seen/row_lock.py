"""postgres: transactions of all clients change the same row, and pause before they commit."""
from services import at, postgres
from system import LOCKS, PGBENCH, SLEEPS, System

CLIENTS = 6


def pgbench(place):
    port = postgres(place, f"create table account (id int primary key, n int); insert into account select i, 0 from generate_series(0, {CLIENTS}) i", synchronous_commit="off")
    row = ":client_id" if place.fixed else "0"
    script = place.write("think.sql", f"begin;\nupdate account set n = n + 1 where id = {row};\n\\sleep {round(5000 * place.scale)} us\ncommit;\n")
    return ["pgbench", *at(port), "-n", "-f", str(script), "-c", str(CLIENTS), "-j", "1", "-T", str(place.seconds), "postgres"]


SYSTEMS = [
    System(
        name="postgres_row_lock",
        kind="row-lock",
        truth="each transaction of pgbench holds the lock of the same row while it thinks for 5 ms",
        load=pgbench,
        rate=PGBENCH,
        component=(r"pgbench", r"postgres", r"\brow\b"),
        mechanism=(*LOCKS, *SLEEPS),
        never=(r"disk", r"fsync", r"wal"),
        change="x0.167",
        halves=True,
        needs=("pgbench", "psql"),
    ),
]

"""Imports, commits and jobs: notifications at commit, indexes of a table while it is filled, pauses
between starts.
"""
from services import at, postgres
from system import COMPUTES, LOCKS, PGBENCH, SLEEPS, System


def notified(place):
    port = postgres(place, "create table events (id bigserial primary key, what text)")
    notify = "" if place.fixed else "notify events, 'new';\n"
    script = place.write("event.sql", f"begin;\ninsert into events (what) values ('order');\n{notify}commit;\n")
    return ["pgbench", *at(port), "-n", "-M", "prepared", "-f", str(script), "-c", "24", "-j", "1", "-t", "220", "postgres"]


ROWS = r"""#!/usr/bin/gawk -f
BEGIN { srand(7); for (i = 0; i < 40000; i++) printf "%d,%d,%s-%d-%d,%d\n", i, rand() * 1e9, "customer", rand() * 1e9, i, rand() * 1e9 }
"""


def indexed(place):
    port = postgres(place, "create table sales (id int, amount int, customer text, day int)", fsync="off", max_wal_size="4GB")
    if not place.fixed:
        columns = ("amount", "day", "customer", "md5(customer)", "reverse(customer)", "upper(customer), day", "lower(customer), amount")
        place.run("psql", *at(port), "-q", "-v", "ON_ERROR_STOP=1", *[word for it in columns for word in ("-c", f"create index on sales ({it})")])
        place.run("psql", *at(port), "-q", "-c", "create extension if not exists pg_trgm", "-c", "create index on sales using gin (customer gin_trgm_ops)")
    load = place.write("import", f"#!/bin/sh\n{place.write('export_rows', ROWS)} | psql {' '.join(at(port))} -q -c '\\copy sales from pstdin csv'\n")
    return [str(load)]


LETTER = """#!/bin/sh
gzip -9 <"$1" >"$1.gz"
"""


def delayed_starts(place):
    letters = [place.write(f"letter-{i}", f"dear customer {i}\n" * 2000) for i in range(44)]
    delay = f"{0.08 * place.fault:.3f}"
    return ["env", f"HOME={place.folder}", "parallel", "--will-cite", "--tmpdir", str(place.folder), "-j", "4", "--delay", delay,
            str(place.write("pack", LETTER)), ":::", *map(str, letters)]


SYSTEMS = [
    System(
        name="postgres_notify_lock",
        kind="notify-lock",
        truth="each transaction of postgres notifies others, for which it holds one lock of the whole server until its log is on the disk, so that one commits at a time",
        load=notified,
        rate=PGBENCH,
        component=(r"postgres",),
        mechanism=(*LOCKS, r"f(data)?sync", r"\bsync", r"\bdisk\b", r"commit", r"flush", r"block device", r"jbd2", r"ext4", r"wait for each other"),
        never=(r"postgres[^.;]* (computes|runs its own code)", r"pgbench[^.;]* (computes|runs)"),
        needs=("psql", "pgbench"),
    ),
    System(
        name="postgres_import_with_indexes",
        kind="index-maintenance",
        truth="the server process of postgres computes the entries of eight indexes for each row that gawk and psql import",
        load=indexed,
        component=(r"postgres",),
        mechanism=(*COMPUTES, r"\bCPU", r"\bruns?\b"),
        never=(r"(gawk|psql|export_rows)[^.;]* comput", r"postgres[^.;]* (sleeps|waits for the disk)"),
        needs=("psql", "gawk"),
    ),
    System(
        name="parallel_start_delay",
        kind="start-delay",
        truth="parallel sleeps 80 ms between the starts of two jobs, because it was told so, while its four places are free",
        load=delayed_starts,
        component=(r"parallel", r"perl"),
        mechanism=(*SLEEPS, r"delay", r"\bselect\b", r"\bp?poll\b", r"time-?out"),
        never=(r"(gzip|pack)[^.;]* (comput|runs|sleeps)",),
        halves=True,
        needs=("parallel", "gzip"),
    ),
]

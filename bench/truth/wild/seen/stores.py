"""Databases: a delayed commit, a late replica, many connections, snapshots, little memory."""
import os
import pwd
import signal
from pathlib import Path

from services import at, postgres, redis
from system import ITEMS, PGBENCH, PYTHON, SLEEPS, System, number

ORDERS = "create table orders (id bigserial primary key, amount int)"
INSERT = "insert into orders (amount) values (42);\n"


def commit_delay(place):
    port = postgres(place, ORDERS, commit_delay=int(20000 * place.fault), commit_siblings=0)
    return ["pgbench", *at(port), "-n", "-c", "4", "-j", "1", "-T", str(place.seconds), "-f", str(place.write("order.sql", INSERT)), "postgres"]


def late_replica(place):
    """A standby that applies a commit only after a delay, and a primary that waits for it."""
    primary = postgres(place, ORDERS, synchronous_commit="remote_apply", wal_level="replica", hot_standby="on")
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"))
    home, port = place.folder / "standby", place.port()
    home.mkdir(mode=0o700)
    user = pwd.getpwnam("postgres")
    os.chown(home, user.pw_uid, user.pw_gid)
    as_user = {"user": user.pw_uid, "group": user.pw_gid, "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}}
    place.run(programs / "pg_basebackup", "-h", "127.0.0.1", "-p", primary, "-U", "postgres", "-D", home, "-X", "stream", "-c", "fast", "-R", "--no-sync", **as_user)
    settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "port": port, "fsync": "off",
                "recovery_min_apply_delay": f"{round(6 * place.fault)}ms"}
    words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    place.start(programs / "postgres", "-D", home, *words, port=port, stop=signal.SIGINT, **as_user)
    place.run("sh", "-c", f"for i in $(seq 300); do psql {' '.join(at(primary))} -Atc 'select count(*) from pg_stat_replication' | grep -q 1 && exit 0; sleep 0.05; done; exit 1")
    place.run("psql", *at(primary), "-qc", "alter system set synchronous_standby_names = '*'", "-c", "select pg_reload_conf()")
    return ["pgbench", *at(primary), "-n", "-c", "2", "-j", "1", "-T", str(place.seconds), "-f", str(place.write("order.sql", INSERT)), "postgres"]


def connection_for_each(place):
    port = postgres(place, "create table pages as select id, md5(id::text) as body from generate_series(1, 1500) as id")
    script = place.write("page.sql", "\\set id random(1, 1000)\nselect max(md5(body)) from pages where id > :id;\n")
    often = [] if place.fixed else ["-C"]
    return ["pgbench", *at(port), "-n", *often, "-c", "2", "-T", str(place.seconds), "-f", str(script), "postgres"]


# Pages of the database that exceed the memory of the control group are read from the disk again.
LOOKUP = """
import os, random, sqlite3, sys, time
group, path, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
with open(group + "/cgroup.procs", "w") as procs:
    procs.write(str(os.getpid()))
connection = sqlite3.connect(path)
chance, count = random.Random(7), 0
for row in connection.execute("select sum(length(body)) from articles"):
    pass
begin = time.monotonic()
while time.monotonic() < begin + seconds:
    connection.execute("select length(body) from articles where id = ?", (chance.randrange(1, 60000),)).fetchone()
    count += 1
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""


def little_memory(place):
    base, group = place.folder / "wiki.db", Path("/sys/fs/cgroup/memory") / f"wiki-{os.getpid()}-{place.folder.name}"
    group.mkdir()
    place.stack.callback(group.rmdir)
    (group / "memory.limit_in_bytes").write_text("1G" if place.fixed else "24M")
    place.run("sqlite3", base, "create table articles (id integer primary key, body); with recursive n(i) as (values (1) union all select i + 1 from n where i < 60000) insert into articles select i, randomblob(2000) from n")
    # Pages that this process wrote are charged to its own group, and do not count in the new one.
    with base.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return [PYTHON, str(place.write("lookup.py", LOOKUP)), str(group), str(base), str(place.seconds)]


KEEPER = """
import socket, sys, time
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
while True:
    connection.sendall(b"*1\\r\\n$4\\r\\nSAVE\\r\\n")
    connection.recv(100)
    time.sleep(0.02)
"""


def blocking_save(place):
    port = redis(place, "--enable-debug-command", "yes")
    place.run("redis-cli", "-p", port, "debug", "populate", "200000" if not place.fixed else "400", "session", "100")
    place.start(PYTHON, place.write("keeper.py", KEEPER), port)
    return ["redis-benchmark", "-p", str(port), "-c", "4", "-n", "100000" if place.fixed else "30000", "-t", "incr", "--csv"]


SYSTEMS = [
    System(
        name="postgres_commit_delay",
        kind="commit-delay",
        truth="commit_delay makes postgres sleep 20 ms before each commit, in the hope of others",
        load=commit_delay,
        rate=PGBENCH,
        component=(r"postgres",),
        mechanism=SLEEPS,
        never=(r"waits? for the disk",),
        change="x0",
        halves=True,
        needs=("pgbench", "psql"),
    ),
    System(
        name="postgres_late_replica",
        kind="synchronous-replication",
        truth="the standby of postgres waits 6 ms by a timer before it applies a commit, and the primary waits for it",
        load=late_replica,
        rate=PGBENCH,
        component=(r"postgres", r"standby", r"recover"),
        mechanism=SLEEPS,
        never=(r"\bdisk\b",),
        change="x0",
        halves=True,
        needs=("pgbench", "psql"),
    ),
    System(
        name="postgres_connection_for_each",
        kind="connection-per-request",
        truth="pgbench makes a connection for each query, so that postgres starts a process for each",
        load=connection_for_each,
        rate=PGBENCH,
        component=(r"postgres", r"pgbench"),
        mechanism=(r"connect", r"fork", r"start(s|ed|ing)?\b", r"new process", r"short-lived", r"exit", r"page fault"),
        never=(r"\bdisk\b", r"sleep"),
        needs=("pgbench", "psql"),
    ),
    System(
        name="sqlite_memory_limit",
        kind="memory-limit",
        truth="the control group of lookup has 24 MB for a database of 160 MB, so that most pages come from the disk again",
        load=little_memory,
        rate=ITEMS,
        component=(r"python", r"lookup", r"\bdisk\b", r"\b([sv]d[a-z]|nvme\d)", r"block device"),
        mechanism=(r"\breads?\b", r"\bdisk\b", r"block", r"I/O"),
        never=(r"\bsync", r"sleep", r"\block"),
        needs=(PYTHON, "sqlite3"),
    ),
    System(
        name="redis_blocking_save",
        kind="blocking-snapshot",
        truth="keeper sends SAVE again and again, and redis writes all its keys to the disk while its clients wait",
        load=blocking_save,
        rate=number(r'"INCR","([\d.]+)"'),
        component=(r"redis(-server)?\b(?!-b)", r"keeper"),
        mechanism=(r"comput", r"\buser\b", r"one thread", r"single", r"\bdisk\b", r"writ", r"\bsync"),
        never=(r"keeper.* sleep", r"network"),
        needs=(PYTHON, "redis-server", "redis-cli", "redis-benchmark"),
    ),
]

"""Databases behind clients and pools: MariaDB, PostgreSQL behind pgbouncer, PostgreSQL behind a cache in redis."""
from services import at, postgres, redis
from system import ITEMS, LOCKS, PGBENCH, PYTHON, SLEEPS, WRK, System, wrk

SHOP = """#!/usr/bin/python3
import sys, threading, time
import pymysql

# Three clients, each of which sells articles of its own.
def sells(number):
    connection = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", database="shop", autocommit=True)
    with connection.cursor() as cursor:
        while time.monotonic() < end:
            cursor.execute("update stock set amount = amount - 1 where article = %s", (number,))
            sold[number] += 1

sold = [0, 0, 0]
begin = time.monotonic()
end = begin + float(sys.argv[2])
threads = [threading.Thread(target=sells, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"items {sum(sold)} seconds {time.monotonic() - begin:.3f}")
"""

NIGHTLY = """#!/usr/bin/python3
import sys, time
import pymysql

connection = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", database="shop", autocommit=True)
lock = sys.argv[2] == "lock"
open("nightly.ready", "w").close()
with connection.cursor() as cursor:
    while True:
        if lock:
            cursor.execute("lock tables stock write")
        cursor.execute("select sum(amount) from stock")
        time.sleep(float(sys.argv[3]))
        if lock:
            cursor.execute("unlock tables")
        time.sleep(0.005)
"""

APP = """
import flask, os, psycopg2, redis, threading

app = flask.Flask(__name__)
cache = redis.Redis(port=int(os.environ["CACHE"]))
local = threading.local()

@app.route("/top/<int:region>")
def top(region):
    found = cache.get(f"top:{region}")
    if found is None:
        if not hasattr(local, "connection"):
            local.connection = psycopg2.connect(host="127.0.0.1", port=int(os.environ["DATABASE"]), user="postgres")
            local.connection.autocommit = True
        with local.connection.cursor() as cursor:
            cursor.execute("select count(*), max(md5(note)) from sales where region = %s", (region,))
            found = str(cursor.fetchone()).encode()
        cache.set(f"top:{region}", found, px=int(os.environ["KEEP"]))
    return found
"""

BOUNCER = """
[databases]
* = host=127.0.0.1 port={database} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
log_connections = 0
log_disconnections = 0
"""


def mariadb(place, sql):
    """Starts a new server without passwords, and runs `sql` in the database `shop`. Returns its
    port and socket.
    """
    home, port, socket = place.folder / "mariadb", place.port(), place.folder / "mariadb.sock"
    place.run("mariadb-install-db", "--no-defaults", f"--datadir={home}", "--user=root", "--auth-root-authentication-method=normal", "--skip-test-db")
    place.start("mariadbd", "--no-defaults", f"--datadir={home}", "--user=root", "--skip-grant-tables", "--bind-address=127.0.0.1", f"--port={port}",
                f"--socket={socket}", "--innodb-flush-log-at-trx-commit=0", port=port)
    place.run("mariadb", "--no-defaults", f"--socket={socket}", "-u", "root", "-e", f"create database shop; use shop; {sql}")
    return port, socket


def full_scan(place):
    index = "alter table orders add index (customer);" if place.fixed else ""
    _, socket = mariadb(place, f"""
        create table orders (id int primary key auto_increment, customer int not null, note char(60)) engine=innodb;
        insert into orders (customer, note) select seq * 7919 % 20011, md5(seq) from seq_1_to_{round(150000 * place.scale)}; {index}""")
    return ["mariadb-slap", "--no-defaults", f"--socket={socket}", "-u", "root", "--create-schema=shop", "--no-drop", "--concurrency=2", "--number-of-queries=120",
            "--query=select count(*), max(note) from orders where customer = 4711"]


def table_lock(place):
    port, _ = mariadb(place, "create table stock (article int primary key, amount int not null) engine=innodb; insert into stock select seq - 1, 1000000 from seq_1_to_100;")
    place.start(place.write("nightly", NIGHTLY), port, "none" if place.fixed else "lock", 0.06 * place.scale, path=place.folder / "nightly.ready")
    return [str(place.write("shop", SHOP)), str(port), str(place.seconds)]


def pool_of_one(place):
    database, port = postgres(place), place.port()
    config = place.write("pgbouncer.ini", BOUNCER.format(database=database, port=port, size=8 if place.fixed else 1))
    place.start("pgbouncer", "-u", "postgres", config, port=port)
    script = place.write("report.sql", f"select pg_sleep({0.004 * place.scale});\n")
    return ["pgbench", *at(port), "-n", "-c", "8", "-j", "1", "-T", str(place.seconds), "-f", str(script), "postgres"]


def deadlocks(place):
    port = postgres(place, "create table accounts (id int primary key, balance int not null); insert into accounts select i, 0 from generate_series(0, 9) i")
    names = []
    for name, first, second in ("there", 1, 2), ("back", *((1, 2) if place.fixed else (2, 1))):
        names += ["-f", str(place.write(f"{name}.sql", f"""begin;
update accounts set balance = balance - 1 where id = {first};
update accounts set balance = balance + 1 where id = {second};
commit;
"""))]
    return ["pgbench", *at(port), "-n", "-c", "4", "-j", "1", "-T", str(place.seconds), "--max-tries=0", *names, "postgres"]


def cache_misses(place):
    database = postgres(place, f"create table sales as select i % 8 as region, repeat('x', 40) || i as note from generate_series(1, {round(60000 * place.scale)}) i; analyze sales",
                        max_parallel_workers_per_gather=0)
    port = place.port()
    place.write("shopfront.py", APP)
    environment = {"PATH": "/usr/bin:/bin", "CACHE": str(redis(place)), "DATABASE": str(database), "KEEP": "60000" if place.fixed else "1"}
    place.start("/usr/bin/gunicorn", "-w", "1", "--threads", "4", "-b", f"127.0.0.1:{port}", "--chdir", place.folder, "shopfront:app", port=port, env=environment)
    return wrk(f"http://127.0.0.1:{port}/top/3", 4, place.seconds)


RUNS = (r"comput", r"\buser\b", r"runs its own code", r"\bruns? on", r"CPU", r"scan", r"row_search")
ONE_AT_A_TIME = (r"one (\w+ )?at a time", r"one after (the other|another)", r"\bqueue", r"\bpool\b", r"one connection", r"wait for one another", r"serial", r"concurren", r"limit")

SYSTEMS = [
    System(
        name="mariadb_full_scan",
        kind="missing-index",
        truth="mariadbd reads the whole table for each query, because the column has no index",
        load=full_scan,
        component=(r"maria(db)?d?\b", r"mysqld"),
        mechanism=RUNS,
        never=(r"\bdisk\b", r"\bsleeps"),
        halves=True,
        needs=("mariadbd", "mariadb-slap", "mariadb-install-db"),
    ),
    System(
        name="mariadb_table_lock",
        kind="table-lock",
        truth="the job nightly sleeps 60 ms with a lock on the table, for which all updates of the shop wait in mariadbd",
        load=table_lock,
        rate=ITEMS,
        component=(r"nightly", r"maria(db)?d?\b", r"mysqld"),
        mechanism=(*LOCKS, *SLEEPS),
        never=(r"\bdisk\b", r"comput"),
        change="x0",
        halves=True,
        needs=("mariadbd", "mariadb-install-db", PYTHON),
    ),
    System(
        name="pgbouncer_pool_of_one",
        kind="connection-pool",
        truth="pgbouncer has one connection to postgres for eight clients, whose queries wait 4 ms in the server",
        load=pool_of_one,
        rate=PGBENCH,
        component=(r"pgbouncer", r"postgres"),
        mechanism=ONE_AT_A_TIME,
        never=(r"\bdisk\b", r"comput"),
        change="x0.125",
        halves=True,
        needs=("pgbouncer", "psql", "pgbench"),
    ),
    System(
        name="postgres_deadlocks",
        kind="deadlock-retry",
        truth="transactions take two row locks of postgres in opposite orders, wait a second until the deadlock is found, and are tried again",
        load=deadlocks,
        rate=PGBENCH,
        component=(r"postgres", r"pgbench"),
        mechanism=(r"\block", r"deadlock", r"wait for one another"),
        never=(r"\bdisk\b", r"comput"),
        needs=("psql", "pgbench"),
    ),
    System(
        name="flask_cache_misses",
        kind="cache-misses",
        truth="entries of the cache in redis live 1 ms, so that postgres computes nearly every answer anew",
        load=cache_misses,
        rate=WRK,
        component=(r"postgres",),
        mechanism=RUNS,
        never=(r"\bdisk\b", r"\bsleeps"),
        halves=True,
        needs=("/usr/bin/gunicorn", "redis-server", "psql", "wrk"),
    ),
]

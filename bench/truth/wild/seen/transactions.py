"""Postgres: a transaction that is open during a remote call, plans compiled for each query."""
from services import at, postgres
from system import COMPUTES, ITEMS, LOCKS, PGBENCH, SLEEPS, System

TAXES = """
require 'socket'
server = TCPServer.new('127.0.0.1', ARGV[0].to_i)
loop do
  Thread.new(server.accept) do |client|
    while client.gets
      nil until client.gets == "\\r\\n"
      sleep ARGV[1].to_f
      client.write "HTTP/1.1 200 OK\\r\\nContent-Length: 3\\r\\n\\r\\n19\\n"
    end
  end
end
"""

INVOICER = """#!/usr/bin/python3
import http.client, sys, threading, time
import psycopg2

end, items = time.monotonic() + float(sys.argv[3]), []

def worker():
    database = psycopg2.connect(host="127.0.0.1", port=sys.argv[1], user="postgres")
    taxes = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]))
    def rate():
        taxes.request("GET", "/rate")
        return int(taxes.getresponse().read())
    while time.monotonic() < end:
        tax = rate() if sys.argv[4] == "before" else None
        with database, database.cursor() as cursor:
            cursor.execute("update numbers set last = last + 1 where kind = 'invoice' returning last")
            number = cursor.fetchone()[0]
            cursor.execute("insert into invoices values (%s, %s)", (number, tax or rate()))
        items.append(number)

begin, workers = time.monotonic(), [threading.Thread(target=worker) for _ in range(5)]
for thread in workers: thread.start()
for thread in workers: thread.join()
print(f"items {len(items)} seconds {time.monotonic() - begin:.3f}")
"""


def call_within(place):
    taxes = place.port()
    database = postgres(place, "create table numbers (kind text primary key, last int); insert into numbers values ('invoice', 0); "
                        "create table invoices (number int primary key, tax int)", fsync="off", synchronous_commit="off")
    place.start("ruby", place.write("taxes.rb", TAXES), taxes, 0.012 * place.scale, port=taxes)
    return [place.write("invoicer", INVOICER), str(database), str(taxes), str(place.seconds), "before" if place.fixed else "within"]


def compiled_plans(place):
    jit = {"jit": "off"} if place.fixed else {"jit": "on", "jit_above_cost": 0, "jit_inline_above_cost": 0, "jit_optimize_above_cost": 0}
    database = postgres(place, "create table sales (day int, shop int, amount int); insert into sales select n % 30, n % 7, n from generate_series(1, 2000) n; analyze sales", **jit)
    pool = place.port()
    config = place.write("pgbouncer.ini", f"""
[databases]
postgres = host=127.0.0.1 port={database} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {pool}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
""")
    place.start("pgbouncer", config, port=pool, user="postgres")
    query = place.write("report.sql", "select shop, sum(amount) filter (where day < 10), avg(amount * 1.19), max(amount - day) from sales "
                        "where amount % 3 <> 1 and day between 2 and 28 group by shop having count(*) > 2 order by 2;\n")
    return ["pgbench", *at(pool), "-n", "-f", query, "-c", "1", "-t", "3000" if place.fixed else "20", "postgres"]


SYSTEMS = [
    System(
        name="postgres_call_within",
        kind="transaction-around-remote-call",
        truth="invoicer holds a row lock of postgres while it waits for taxes, which sleeps 12 ms for each request, so that one invoice is written at a time",
        load=call_within,
        rate=ITEMS,
        component=(r"invoicer", r"taxes", r"ruby", r"postgres"),
        mechanism=(*LOCKS, *SLEEPS),
        never=(r"comput", r"\bdisk\b", r"(postgres|invoicer) sleep"),
        change="x0.2",
        halves=True,
        needs=("psql", "ruby"),
    ),
    System(
        name="postgres_compiled_plans",
        kind="jit-per-query",
        truth="postgres compiles the plan of each query of pgbench by LLVM, which takes longer than the query",
        load=compiled_plans,
        rate=PGBENCH,
        component=(r"postgres",),
        mechanism=(*COMPUTES, r"\bjit\b", r"llvm", r"compil"),
        never=(r"pgbouncer (comput|sleep)", r"pgbench (comput|sleep)", r"\bdisk\b"),
        needs=("psql", "pgbench", "pgbouncer"),
    ),
]

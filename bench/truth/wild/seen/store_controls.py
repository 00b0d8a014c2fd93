"""Healthy stores: a report on two CPUs, two equally busy shards, a dashboard with few queries."""
from services import at, postgres, redis
from system import COMPUTES, ITEMS, PYTHON, System


def parallel_report(place):
    sql = """
        create table calls as select n as id, n % 977 as district, n * 31 % 3600 as seconds from generate_series(1, 1500000) as n;
        analyze calls"""
    port = postgres(place, sql, max_parallel_workers_per_gather=1, jit="off", parallel_leader_participation="on", min_parallel_table_scan_size=0)
    report = "select district % 7, count(*), sum(sqrt(seconds) * ln(seconds + district + 1)) from calls group by 1 order by 1"
    return ["psql", *at(port), "-q", "-At", "-o", "report", *(word for _ in range(8) for word in ("-c", report))]


BENCHMARKS = """#!/bin/sh
# usage: load PORT PORT: both shards at once.
for port in "$1" "$2"; do
    redis-benchmark -q -p "$port" -c 8 -P 64 -n 1400000 -r 10000 set article:__rand_int__ 3.50 >"out$port" &
done
wait
"""


def two_shards(place):
    return [str(place.write("load", BENCHMARKS)), str(redis(place)), str(redis(place))]


DASHBOARD = """#!/usr/bin/python3
# usage: dashboard PORT SECONDS: the turnover of the day, 25 times in a second.
import sys, time
import psycopg2

connection = psycopg2.connect(host="127.0.0.1", port=sys.argv[1], user="postgres")
connection.autocommit = True
cursor, items, begin = connection.cursor(), 0, time.monotonic()
while time.monotonic() < begin + float(sys.argv[2]):
    cursor.execute("select sum(amount) from sales where day = %s", (items % 30,))
    cursor.fetchone()
    items += 1
    time.sleep(max(0, begin + items * 0.04 - time.monotonic()))
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def dashboard(place):
    port = postgres(place, "create table sales as select n % 30 as day, n as amount from generate_series(1, 3000) as n; create index on sales (day)")
    return [str(place.write("dashboard", DASHBOARD)), str(port), str(place.seconds)]


SYSTEMS = [
    System(
        name="control_postgres_parallel_report",
        kind="control",
        truth="a process of postgres and its parallel worker compute a report on two CPUs",
        load=parallel_report,
        acceptable=(rf"postgres.*({'|'.join(COMPUTES)}|\bcpu)", r"\bcpus? (is|are) full"),
        needs=("psql",),
    ),
    System(
        name="control_redis_two_shards",
        kind="control",
        truth="two pairs of redis and redis-benchmark, which sends commands in batches, fill both CPUs equally",
        load=two_shards,
        acceptable=(rf"redis.*({'|'.join(COMPUTES)}|\bcpu)", r"\bcpus? (is|are) full"),
        needs=("redis-server", "redis-benchmark"),
    ),
    System(
        name="control_postgres_dashboard",
        kind="control",
        truth="a dashboard asks postgres 25 times in a second and sleeps in between by intention, and both are idle most of the time",
        load=dashboard,
        rate=ITEMS,
        acceptable=(r"dashboard.*(sleep|timer|until a time|input)",),
        needs=(PYTHON,),
    ),
]

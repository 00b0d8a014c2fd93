"""MariaDB: joins with too much planning, a gap lock that blocks all new rows."""
from services import mariadb
from system import COMPUTES, ITEMS, LOCKS, PYTHON, SLEEPS, System

CATALOGUE = """#!/usr/bin/python3
# usage: catalogue PORT SECONDS: asks for articles with all that belongs to them, by two connections.
import sys, threading, time
import pymysql

tables = ["makers", "colours", "sizes", "shelves", "prices", "taxes"]
joins = " ".join(f"join {name} on {name}.article = articles.article" for name in tables)
items, begin = [0, 0], time.monotonic()

def ask(which):
    connection = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", database="test")
    cursor = connection.cursor()
    while time.monotonic() < begin + float(sys.argv[2]):
        cursor.execute(f"select count(*) from articles {joins} where articles.what = 'a{items[which] % 20}' and taxes.what = 'none'")
        cursor.fetchall()
        items[which] += 1

threads = [threading.Thread(target=ask, args=(which,)) for which in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"items {sum(items)} seconds {time.monotonic() - begin:.3f}")
"""


def thorough_planner(place):
    names = ("articles", "makers", "colours", "sizes", "shelves", "prices", "taxes")
    sql = "".join(f"""
        create table {name} (id int primary key, article int, what varchar(20), key(article)) engine=aria;
        insert into {name} select seq, seq % 10 + 1, concat('a', seq) from seq_1_to_20;""" for name in names)
    port = mariadb(place, sql, "--skip-log-bin", f"--optimizer-prune-level={1 if place.fixed else 0}")
    return [str(place.write("catalogue", CATALOGUE)), str(port), str(place.seconds)]


DESPATCH = """#!/usr/bin/python3
# usage: despatch PORT SECONDS LEVEL: locks the orders that are new, has them printed for some time, and confirms them.
import sys, time
import pymysql

connection = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", database="test", init_command=f"set session transaction isolation level {sys.argv[3]}")
cursor, last = connection.cursor(), 0
while True:
    cursor.execute("select id from orders where id > %s for update", (last,))
    last = max([last, *(row[0] for row in cursor.fetchall())])
    open("despatch.ready", "w").close()
    time.sleep(float(sys.argv[2]))
    cursor.execute("update orders set state = 'printed' where id = %s", (last,))
    connection.commit()
"""

SHOP = """#!/usr/bin/python3
# usage: shop PORT SECONDS: four tills put orders into the table, and take 2 ms for each customer.
import sys, threading, time
import pymysql

items, begin = [0] * 4, time.monotonic()

def sell(till):
    connection = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", database="test", autocommit=True)
    cursor = connection.cursor()
    while time.monotonic() < begin + float(sys.argv[2]):
        cursor.execute("insert into orders (till, state) values (%s, 'new')", (till,))
        items[till] += 1
        time.sleep(0.002)

threads = [threading.Thread(target=sell, args=(till,)) for till in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"items {sum(items)} seconds {time.monotonic() - begin:.3f}")
"""


def locked_gap(place):
    sql = "create table orders (id int auto_increment primary key, till int, state varchar(10)) engine=innodb; insert into orders (till, state) values (0, 'new')"
    port = mariadb(place, sql, "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0")
    level = "read committed" if place.fixed else "repeatable read"
    place.start(place.write("despatch", DESPATCH), port, 0.025 * place.scale, level, path=place.folder / "despatch.ready")
    return [str(place.write("shop", SHOP)), str(port), str(place.seconds)]


SYSTEMS = [
    System(
        name="mariadb_thorough_planner",
        kind="exhaustive-join-search",
        truth="mariadbd computes all orders in which a query could join seven small tables, because optimizer_prune_level is 0",
        load=thorough_planner,
        rate=ITEMS,
        component=(r"mariadbd?\b", r"one_connection"),
        mechanism=(*COMPUTES, r"\bcpu"),
        never=(r"catalogue (comput|runs)", r"\bdisk\b", r"\bsleeps"),
        needs=("mariadbd", "mariadb-install-db", PYTHON),
    ),
    System(
        name="mariadb_locked_gap",
        kind="gap-lock",
        truth="despatch sleeps 25 ms in a transaction of MariaDB whose gap lock makes all inserts of the shop wait",
        load=locked_gap,
        rate=ITEMS,
        component=(r"despatch", r"mariadbd?\b"),
        mechanism=(*SLEEPS, *LOCKS, r"transaction"),
        never=(r"shop (sleeps|comput)", r"\bdisk\b", r"mariadbd? comput", r"despatch comput"),
        halves=True,
        needs=("mariadbd", "mariadb-install-db", PYTHON),
    ),
]

"""Locks of several kinds that are held during a slow operation: in PHP, MariaDB, Java and SQLite.
"""
from services import ECHO, PHP_FPM, mariadb, nginx, php
from system import ITEMS, LOCKS, PYTHON, SLEEPS, WRK, System, wrk

# A cart that calls a slow service. The session is locked in the part `locked` of the pause.
CART = """<?php
session_id("visitor");
session_start();
usleep({locked});
session_write_close();
usleep({free});
echo "ok\n";
"""

def php_session(place):
    script = CART.replace("{locked}", str(int(20000 * place.fault))).replace("{free}", str(int(20000 * (1 - place.fault))))
    front = php(place, script, children=8, settings=f"php_admin_value[session.save_path] = {place.folder}")
    return wrk(f"http://127.0.0.1:{front}/", 6, place.seconds)


SETTLE = """
import http.client, sys, threading, time
import pymysql

database, bank, seconds, fault = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
done = []

def work(number):
    connection = pymysql.connect(host="127.0.0.1", port=database, user="root", database="test", autocommit=True)
    cursor = connection.cursor()
    partner = http.client.HTTPConnection("127.0.0.1", bank)
    def ask(path):
        partner.request("GET", path)
        partner.getresponse().read()
    count = 0
    while time.monotonic() < end:
        locked = int((count + 1) * fault) > int(count * fault)
        if locked:
            cursor.execute("select get_lock('settlement', 10)")
        ask("/transfer")
        cursor.execute("insert into transfers (amount) values (%s)", (number,))
        if locked:
            cursor.execute("select release_lock('settlement')")
        count += 1
    done.append(count)

begin = time.monotonic()
end = begin + seconds
threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(f"items {sum(done)} seconds {time.monotonic() - begin:.3f}")
"""


def mariadb_get_lock(place):
    table = "create table transfers (id int auto_increment primary key, amount int) engine=innodb"
    database = mariadb(place, table, "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync")
    bank = nginx(place, "location / { echo_sleep 0.02; echo done; }", name="bank", top=ECHO)
    return [PYTHON, str(place.write("settle.py", SETTLE)), str(database), str(bank), str(place.seconds + 1), str(place.fault)]


# A refresher replaces the price list, and holds the write lock while it waits for the new one.
PRICES = """
import java.util.*;
import java.util.concurrent.atomic.*;
import java.util.concurrent.locks.*;

public class Main {
    static final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();
    static Map<Integer, Integer> prices = new HashMap<>();
    static volatile long sink;

    static void fetch(double milliseconds) throws Exception {
        if (milliseconds >= 1) Thread.sleep((long) milliseconds);
    }

    public static void main(String[] words) throws Exception {
        double seconds = Double.parseDouble(words[0]), locked = 40 * Double.parseDouble(words[1]);
        for (int i = 0; i < 20000; i++) prices.put(i, i * 7);
        Thread refresher = new Thread(() -> {
            try {
                for (;;) {
                    fetch(50 - locked);
                    lock.writeLock().lock();
                    try {
                        fetch(locked);
                        prices = new HashMap<>(prices);
                    } finally { lock.writeLock().unlock(); }
                }
            } catch (Exception e) { }
        }, "refresher");
        refresher.setDaemon(true);
        refresher.start();
        AtomicLong count = new AtomicLong();
        long begin = System.nanoTime(), end = begin + (long) (seconds * 1e9);
        Thread[] readers = new Thread[2];
        for (int n = 0; n < 2; n++) {
            int seed = n;
            readers[n] = new Thread(() -> {
                Random random = new Random(seed);
                while (System.nanoTime() < end) {
                    lock.readLock().lock();
                    try {
                        long sum = 0;
                        for (int i = 0; i < 20000; i++) sum += prices.get(random.nextInt(20000));
                        sink = sum;
                    } finally { lock.readLock().unlock(); }
                    count.incrementAndGet();
                    try { Thread.sleep(1); } catch (InterruptedException e) { return; }
                }
            }, "reader-" + n);
            readers[n].start();
        }
        for (Thread reader : readers) reader.join();
        System.out.printf(Locale.ROOT, "items %d seconds %.3f%n", count.get(), (System.nanoTime() - begin) / 1e9);
    }
}
"""


def java_write_lock(place):
    return ["java", "-Xmx256m", "-cp", str(place.java(PRICES)), "Main", str(place.seconds), str(place.fault)]


REPORT = """
import random, sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
chance, locked = random.Random(3), float(sys.argv[2])
while True:
    connection.execute("begin immediate")
    total = connection.execute("select count(*) from orders").fetchone()
    time.sleep(locked * chance.uniform(0.5, 1.5))
    connection.execute("update summary set total = ?", total)
    connection.execute("commit")
    time.sleep(0.02 * chance.uniform(0.5, 1.5))
"""
ORDERS = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
connection.execute("pragma synchronous=off")
count, begin = 0, time.monotonic()
while time.monotonic() < begin + float(sys.argv[2]):
    connection.execute("insert into orders (item) values (?)", (count,))
    time.sleep(0.001)
    count += 1
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""


def sqlite_busy(place):
    base = place.folder / "shop.db"
    place.run("sqlite3", base, "pragma journal_mode=wal; create table orders (id integer primary key, item); create table summary (total); insert into summary values (0)")
    place.start(PYTHON, place.write("report.py", REPORT), base, 0.04 * place.fault)
    return [PYTHON, str(place.write("orders.py", ORDERS)), str(base), str(place.seconds)]


SYSTEMS = [
    System(
        name="php_session_lock",
        kind="session-lock",
        truth="PHP holds the lock of the session's file while it sleeps 20 ms, so that a visitor's requests go one at a time",
        load=php_session,
        rate=WRK,
        component=(r"\bphp",),
        mechanism=(*LOCKS, *SLEEPS),
        change="x0.17",
        halves=True,
        needs=("nginx", "wrk", PHP_FPM),
    ),
    System(
        name="mariadb_get_lock",
        kind="advisory-lock",
        truth="the threads of settle hold GET_LOCK of MariaDB while the bank takes 20 ms to answer, one at a time",
        load=mariadb_get_lock,
        rate=ITEMS,
        component=(r"python", r"settle", r"bank", r"nginx", r"mariadb"),
        mechanism=(*LOCKS, *SLEEPS),
        never=(r"\bdisk\b", r"mariadbd? comput"),
        change="x0.2",
        halves=True,
        needs=(PYTHON, "nginx", "mariadbd", "mariadb-install-db"),
    ),
    System(
        name="java_write_lock",
        kind="rw-lock-writer",
        truth="the refresher of the Java program sleeps 40 ms with the write lock, and all readers wait for it",
        load=java_write_lock,
        rate=ITEMS,
        component=(r"refresher", r"\bjava"),
        mechanism=(*LOCKS, *SLEEPS),
        never=(r"reader-\d sleep", r"collect"),
        halves=True,
        running=True,
        needs=("java", "javac"),
    ),
    System(
        name="sqlite_busy_back_off",
        kind="busy-back-off",
        truth="report sleeps 40 ms within each transaction of SQLite, for whose end orders looks again and again after sleeps",
        load=sqlite_busy,
        rate=ITEMS,
        component=(r"report", r"orders", r"python"),
        mechanism=(*LOCKS, *SLEEPS, r"\bpoll"),
        never=(r"\bdisk\b", r"comput"),
        halves=True,
        needs=(PYTHON, "sqlite3"),
    ),
]

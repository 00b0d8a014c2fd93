"""Databases, caches, and locks between processes, in the trade of a flour mill: a queue in a table,
a cache that all fill at once, a lock of a counter, a reference without an index, a greedy consumer.
"""
from services import at, mariadb, postgres, redis
from system import COMPUTES, ITEMS, LOCKS, PGBENCH, PYTHON, SLEEPS, WRK, System, wrk

# The sentence must name the lock, or that others wait for one another.
QUEUED = (*LOCKS, r"wait\w* for each other", r"one after (the other|another)", r"\bserial")

# A worker takes the first job, has the label of the sack printed, and deletes the job, all in one
# transaction. A worker that has waited for a row that is gone then has no row, and asks again.
LABELS = """
import os, sys, time
import psycopg2

port, pause, clause, workers, seconds = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5])

def work(out):
    connection = psycopg2.connect(host="127.0.0.1", port=port, user="postgres", dbname="postgres")
    cursor, done, end = connection.cursor(), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        cursor.execute("select id, mill, kind from job order by id limit 1 " + clause)
        row = cursor.fetchone()
        if row:
            label = "%08d %s %s" % row
            time.sleep(pause)  # the printer
            cursor.execute("delete from job where id = %s", row[:1])
            done += 1
        connection.commit()
    os.write(out, b"%d\\n" % done)
    os._exit(0)

reader, writer = os.pipe()
begin = time.monotonic()
for _ in range(workers):
    if not os.fork():
        work(writer)
os.close(writer)
total = sum(int(line) for line in os.fdopen(reader))
print("items %d seconds %.3f" % (total, time.monotonic() - begin))
"""

WORKERS = 6


def queue_head(place):
    port = postgres(place, "create table job (id int primary key, mill text, kind text); insert into job select i, 'mill ' || i % 9, 'type ' || i % 5 from generate_series(1, 30000) i; analyze job",
                    synchronous_commit="off")
    clause = "for update skip locked" if place.fixed else "for update"
    return [PYTHON, str(place.write("labels.py", LABELS)), str(port), str(0.01 * place.scale), clause, str(WORKERS), str(place.seconds)]


# Each process serves one connection at a time. Without the fault the first that misses the ranking
# computes it, and the others answer with the last one meanwhile.
STOREFRONT = """
import os, socket, sys
import psycopg2

port, cache, database, single, workers = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "single", int(sys.argv[5])
listener = socket.create_server(("127.0.0.1", port), backlog=64)

class Memcached:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", cache))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
    def get(self, keys):
        self.socket.sendall(b"get " + keys + b"\\r\\n")
        found = {}
        while (line := self.file.readline()) != b"END\\r\\n":
            _, key, _, size = line.split()
            found[key] = self.file.read(int(size) + 2)[:-2]
        return found
    def put(self, verb, key, value):
        self.socket.sendall(b"%s %s 0 0 %d\\r\\n%s\\r\\n" % (verb, key, len(value), value))
        return self.file.readline() == b"STORED\\r\\n"
    def delete(self, key):
        self.socket.sendall(b"delete %s\\r\\n" % key)
        self.file.readline()

def serve():
    memcached, connection = Memcached(), psycopg2.connect(host="127.0.0.1", port=database, user="postgres", dbname="postgres")
    connection.autocommit = True
    cursor = connection.cursor()
    def ranking():
        found = memcached.get(b"ranking last" if single else b"ranking")
        if b"ranking" in found:
            return found[b"ranking"]
        if single and b"last" in found and not memcached.put(b"add", b"at-work", b"1"):
            return found[b"last"]
        cursor.execute("select flour, sum(price * sacks) from sale group by flour order by 2 desc limit 10")
        text = repr(cursor.fetchall()).encode()
        memcached.put(b"set", b"ranking", text)
        if single:
            memcached.put(b"set", b"last", text)
            memcached.delete(b"at-work")
        return text
    while True:
        client, _ = listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                if not client.recv(4096):
                    break
                body = ranking()
                client.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
            except OSError:
                break
        client.close()

for _ in range(workers - 1):
    if not os.fork():
        break
serve()
"""

# A program that changes prices removes the ranking from the cache.
REPRICER = """
import socket, sys, time
cache = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
while True:
    time.sleep(0.08)
    cache.sendall(b"delete ranking\\r\\n")
    cache.recv(100)
"""

FRONTS = 8
SALES = 110000


def stampede(place):
    rows = round(SALES * place.scale)
    database = postgres(place, f"create table sale (id int, flour int, price numeric, sacks int); insert into sale select i, i % 40, i % 700, i % 30 from generate_series(1, {rows}) i; analyze sale",
                        max_parallel_workers_per_gather=0, jit="off")
    cache, front = place.port(), place.port()
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", cache, "-U", "0", "-t", "1", port=cache)
    place.start(PYTHON, place.write("storefront.py", STOREFRONT), front, cache, database, "single" if place.fixed else "all", FRONTS, port=front)
    place.start(PYTHON, place.write("repricer.py", REPRICER), cache)
    return wrk(f"http://127.0.0.1:{front}/", FRONTS, place.seconds)


# Each client is a thread of its own with a connection of its own.
WEIGHBRIDGE = """
import sys, threading, time
import pymysql

port, clients, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
counts = [0] * clients

def weigh(number):
    connection = pymysql.connect(host="127.0.0.1", port=port, user="root", database="test", autocommit=True)
    cursor = connection.cursor()
    while time.monotonic() < end:
        cursor.execute("insert into load_in (cart, weight) values (%s, %s)", (number, 900 + counts[number] % 100))
        counts[number] += 1

begin = time.monotonic()
end = begin + seconds
threads = [threading.Thread(target=weigh, args=(number,)) for number in range(clients)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("items %d seconds %.3f" % (sum(counts), time.monotonic() - begin))
"""

CARTS = 6


def counter_lock(place):
    # The traditional lock of AUTO_INCREMENT is held until the end of the statement, thus also while
    # its trigger runs, which tells the scales and waits for them.
    port = mariadb(place, "create table load_in (id int auto_increment primary key, cart int, weight int) engine=innodb; "
                   f"create trigger tell_scales after insert on load_in for each row do sleep({0.01 * place.scale:.4f})",
                   f"--innodb-autoinc-lock-mode={2 if place.fixed else 0}", "--innodb-flush-log-at-trx-commit=0")
    return [PYTHON, str(place.write("weighbridge.py", WEIGHBRIDGE)), str(port), str(CARTS), str(place.seconds)]


ENTRIES = 60000


def unindexed_reference(place):
    """Deletes farmers to whom nothing refers; the server looks for references each time."""
    rows = round(ENTRIES * place.scale)
    port = postgres(place, "create table farmer (id int primary key, name text); create sequence old_farmer; "
                    "insert into farmer select i, 'farmer ' || i from generate_series(1, 121000) i; select setval('old_farmer', 1000); "
                    "create table delivery (id int primary key, farmer int references farmer, sacks int); "
                    f"insert into delivery select i, 1 + i % 1000, i % 40 from generate_series(1, {rows}) i; "
                    + ("create index on delivery (farmer); " if place.fixed else "") + "analyze",
                    synchronous_commit="off", max_parallel_workers_per_gather=0, jit="off")
    script = place.write("retention.sql", "delete from farmer where id = (select nextval('old_farmer'));\n")
    return ["pgbench", *at(port), "-n", "-f", str(script), "-c", "3", "-j", "1", "-T", str(place.seconds), "postgres"]


# Consumers of one group of a stream. Redis gives a consumer as many entries as it asks for.
SIFTER = """
package main

import ("bufio"; "fmt"; "io"; "net"; "os"; "strconv"; "strings"; "time")

var in *bufio.Reader
var out net.Conn

func command(words ...string) string {
	text := fmt.Sprintf("*%d\\r\\n", len(words))
	for _, word := range words {
		text += fmt.Sprintf("$%d\\r\\n%s\\r\\n", len(word), word)
	}
	return text
}

// reply appends the strings of one reply.
func reply(all []string) []string {
	line, err := in.ReadString('\\n')
	if err != nil {
		os.Exit(0)
	}
	line = strings.TrimRight(line, "\\r\\n")
	size, _ := strconv.Atoi(line[1:])
	switch line[0] {
	case '*':
		for i := 0; i < size; i++ {
			all = reply(all)
		}
	case '$':
		if size >= 0 {
			text := make([]byte, size+2)
			io.ReadFull(in, text)
			all = append(all, string(text[:size]))
		}
	default:
		all = append(all, line)
	}
	return all
}

func main() {
	pause, _ := time.ParseDuration(os.Args[4])
	out, _ = net.Dial("tcp", "127.0.0.1:"+os.Args[1])
	in = bufio.NewReader(out)
	for {
		io.WriteString(out, command("XREADGROUP", "GROUP", "sifters", os.Args[2], "COUNT", os.Args[3], "BLOCK", "0", "STREAMS", "sacks", ">"))
		// The name of the stream, then for each entry its id, the name of its field and the value.
		entries := reply(nil)[1:]
		for i := 0; i+2 < len(entries); i += 3 {
			time.Sleep(pause)
			io.WriteString(out, command("XACK", "sacks", "sifters", entries[i])+command("LPUSH", "sifted", entries[i+2]))
			reply(nil)
			reply(nil)
		}
	}
}
"""

HOPPER = """
import sys, time
import redis

port, batch, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
server = redis.Redis(port=port)
begin, done = time.monotonic(), 0
while time.monotonic() < begin + seconds:
    together = server.pipeline(transaction=True)
    for sack in range(batch):
        together.xadd("sacks", {"sack": sack}, maxlen=10000, approximate=True)
    together.execute()
    for _ in range(batch):
        server.blpop("sifted")
    done += batch
print("items %d seconds %.3f" % (done, time.monotonic() - begin))
"""

BATCH, SIFTERS = 32, 4


def greedy_consumer(place):
    port = redis(place)
    place.run("redis-cli", "-p", port, "xgroup", "create", "sacks", "sifters", "$", "mkstream")
    sifter = place.go("sifter", SIFTER)
    for number in range(SIFTERS):
        place.start(sifter, port, f"sifter{number}", 1 if place.fixed else BATCH, f"{0.005 * place.scale:.4f}s")
    return [PYTHON, str(place.write("hopper.py", HOPPER)), str(port), str(BATCH), str(place.seconds)]


# An order each 50 ms by intention; its notification wakes the clerks, of whom one takes it.
ORDERS = """
import sys, time
import psycopg2

connection = psycopg2.connect(host="127.0.0.1", port=int(sys.argv[1]), user="postgres", dbname="postgres")
connection.autocommit = True
cursor = connection.cursor()
begin, done = time.monotonic(), 0
while time.monotonic() < begin + float(sys.argv[2]):
    cursor.execute("insert into job (flour) values (%s); notify job", (done % 9,))
    done += 1
    time.sleep(max(0, begin + done * 0.05 - time.monotonic()))
print("items %d seconds %.3f" % (done, time.monotonic() - begin))
"""

CLERK = """
import select, sys
import psycopg2

connection = psycopg2.connect(host="127.0.0.1", port=int(sys.argv[1]), user="postgres", dbname="postgres")
connection.autocommit = True
cursor = connection.cursor()
cursor.execute("listen job")
while True:
    select.select([connection], [], [])
    connection.poll()
    connection.notifies.clear()
    cursor.execute("begin; select id, flour from job where not done order by id limit 1 for update skip locked")
    row = cursor.fetchone()
    if row:
        bill = "".join("%d;%d;%d\\n" % (*row, line) for line in range(300))
        cursor.execute("update job set done = true, bill = %s where id = %s", (len(bill), row[0]))
    cursor.execute("commit")
"""


def paced_queue(place):
    port = postgres(place, "create table job (id serial primary key, flour int, bill int, done bool default false)", synchronous_commit="off")
    clerk = place.write("clerk.py", CLERK)
    for _ in range(2):
        place.start(PYTHON, clerk, port)
    return [PYTHON, str(place.write("orders.py", ORDERS)), str(port), str(place.seconds)]


# Two processes compute for some milliseconds, and enter each result in a ledger whose lock they
# hold for some microseconds.
APPRAISAL = """
require "digest"
seconds = ARGV[0].to_f
File.write("ledger", "0")
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
children = 2.times.map do |number|
  fork do
    ledger = File.open("ledger", "r+")
    grain = "grain #{number}"
    while Process.clock_gettime(Process::CLOCK_MONOTONIC) < start + seconds
      2500.times { |i| grain = Digest::SHA256.digest(grain + i.to_s) }
      ledger.flock(File::LOCK_EX)
      count = ledger.pread(20, 0).to_i
      ledger.pwrite((count + 1).to_s, 0)
      ledger.flock(File::LOCK_UN)
    end
  end
end
children.each { |child| Process.wait(child) }
puts "items %s seconds %.3f" % [File.read("ledger"), Process.clock_gettime(Process::CLOCK_MONOTONIC) - start]
"""


def short_lock(place):
    script = place.write("appraisal.rb", APPRAISAL)
    return ["sh", "-c", f"cd {place.folder} && exec ruby {script} {place.seconds}"]


SYSTEMS = [
    System(
        name="mill_label_queue",
        kind="queue-head-lock",
        truth="six workers of labels.py select the first job of a table of postgres FOR UPDATE without SKIP LOCKED, and the one that has its row holds it for 10 ms while the label is printed",
        load=queue_head,
        rate=ITEMS,
        component=(r"labels", r"postgres", r"python", r"\brow\b", r"\bjob\b"),
        mechanism=QUEUED,
        never=(r"disk", r"fsync", r"\bwal\b", r"network"),
        change="x0.167",
        halves=True,
        needs=("psql", PYTHON),
    ),
    System(
        name="mill_ranking_stampede",
        kind="cache-stampede",
        truth="whenever the ranking is removed from memcached, all eight processes of storefront have postgres compute the same ranking at once",
        load=stampede,
        rate=WRK,
        component=(r"postgres",),
        mechanism=(*COMPUTES, r"stampede", r"same (query|work|ranking)"),
        never=(r"repricer", r"memcached.{0,30}(comput|sleep)", r"disk", r"\block", r"mutex", r"postgres.{0,30}sleep"),
        halves=True,
        needs=("psql", "memcached", "wrk", PYTHON),
    ),
    System(
        name="mill_weighing_counter",
        kind="auto-increment-lock",
        truth="each INSERT holds the lock of AUTO_INCREMENT of its table in mariadbd (innodb_autoinc_lock_mode 0) until its trigger has slept 10 ms, so that one of six clients inserts at a time",
        load=counter_lock,
        rate=ITEMS,
        component=(r"mariadb", r"mysql"),
        mechanism=QUEUED,
        never=(r"disk", r"fsync", r"redo log", r"network"),
        change="x0.167",
        halves=True,
        needs=("mariadbd", "mariadb", PYTHON),
    ),
    System(
        name="mill_farmers_retired",
        kind="unindexed-foreign-key",
        truth="postgres reads the whole table of deliveries for each farmer that pgbench deletes, because the column that refers to farmers has no index",
        load=unindexed_reference,
        rate=PGBENCH,
        component=(r"postgres",),
        mechanism=(*COMPUTES, r"scan", r"reads the whole"),
        never=(r"disk", r"fsync", r"\bwal\b", r"\block", r"postgres.{0,30}sleep"),
        halves=True,
        needs=("pgbench", "psql"),
    ),
    System(
        name="mill_greedy_sifter",
        kind="greedy-prefetch",
        truth="a sifter takes all 32 entries of a batch from the stream of redis at once (XREADGROUP COUNT 32), and sleeps 5 ms for one after the other, while the three other sifters have nothing to do",
        load=greedy_consumer,
        rate=ITEMS,
        component=(r"sifter",),
        mechanism=(*SLEEPS, r"one (\w+ )?at a time", r"one after (the other|another)", r"\bserial"),
        never=(r"disk", r"network", r"redis.{0,30}comput"),
        change="x0.25",
        halves=True,
        needs=("redis-server", "redis-cli", "go", PYTHON),
    ),
    System(
        name="mill_orders_in_good_time",
        kind="control",
        truth="orders puts an order in postgres twenty times in a second by intention, and one of two clerks takes it at once; all are idle most of the time",
        load=paced_queue,
        rate=ITEMS,
        acceptable=(r"orders.{0,60}(sleep|timer|until a time|pause)", r"\bidle\b", r"no bottleneck", r"nothing (is|to)"),
        needs=("psql", PYTHON),
    ),
    System(
        name="mill_short_ledger_lock",
        kind="control",
        truth="two processes of ruby compute on two CPUs, and enter each result under a file lock that they hold for microseconds",
        load=short_lock,
        rate=ITEMS,
        # A verdict that names the lock is wrong.
        acceptable=(r"^(?!.*(\block|one another|at a time)).*(appraisal|ruby).*(comput|\buser\b|runs its own code|\bcpu)",),
        needs=("ruby",),
    ),
]

"""The systems of a savings bank: five frequent faults of card authorisation, sessions, fraud checks
and the nightly batches, and two healthy parts of the same bank.
"""
import pwd

from services import at, mariadb, nginx, postgres, redis
from system import ITEMS, PGBENCH, PYTHON, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# After a line failure the acquirer sends the payments that four card terminals have stored, each
# over its own connection. A message is its length in two bytes and a text.
ACQUIRER = """
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;

public class Main {
    static final AtomicInteger approved = new AtomicInteger(), declined = new AtomicInteger();

    static void terminal(int number, int port, int stored, boolean nodelay) {
        try (Socket socket = new Socket("127.0.0.1", port)) {
            socket.setTcpNoDelay(nodelay);
            DataInputStream in = new DataInputStream(socket.getInputStream());
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            Random random = new Random(number);
            for (int trace = 1; trace <= stored; trace++) {
                String text = "0100|" + (100000 + random.nextInt(5000)) + "|" + (100 + random.nextInt(9000))
                    + "|" + trace + "|terminal " + number;
                byte[] request = text.getBytes();
                out.writeShort(request.length);
                out.write(request);
                byte[] reply = new byte[in.readUnsignedShort()];
                in.readFully(reply);
                (new String(reply).endsWith("|00") ? approved : declined).incrementAndGet();
            }
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }

    public static void main(String[] words) throws Exception {
        int port = Integer.parseInt(words[0]);
        int stored = Integer.parseInt(words[1]);
        boolean nodelay = words[2].equals("nodelay");
        long start = System.nanoTime();
        List<Thread> terminals = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            int number = i;
            terminals.add(new Thread(() -> terminal(number, port, stored, nodelay), "terminal-" + i));
        }
        for (Thread terminal : terminals) terminal.start();
        for (Thread terminal : terminals) terminal.join();
        System.out.printf(java.util.Locale.ROOT, "items %d seconds %.3f%n", approved.get() + declined.get(),
            (System.nanoTime() - start) / 1e9);
    }
}
"""
CARDHOST = """#!/usr/bin/python3
import socketserver, struct, sys
import psycopg2

BOOK = "update cards set available = available - %s where card = %s and available >= %s returning available"
audit = open("authorisations.log", "ab", 0)

class Terminal(socketserver.StreamRequestHandler):
    def handle(self):
        base = psycopg2.connect(host="127.0.0.1", port=sys.argv[2], user="postgres")
        base.autocommit = True
        cursor = base.cursor()
        while head := self.rfile.read(2):
            kind, card, cents, trace, terminal = self.rfile.read(*struct.unpack(">H", head)).decode().split("|")
            cursor.execute(BOOK, (cents, card, cents))
            answer = "00" if cursor.fetchone() else "51"
            audit.write(f"{terminal} {trace} {card} {cents} {answer}\\n".encode())
            reply = f"0110|{trace}|{answer}".encode()
            self.request.sendall(struct.pack(">H", len(reply)) + reply)

class Host(socketserver.ThreadingTCPServer):
    daemon_threads = True

Host(("127.0.0.1", int(sys.argv[1])), Terminal).serve_forever()
"""


def cards(place):
    base = postgres(place, """
        create table cards (card int primary key, available int) with (fillfactor = 50);
        insert into cards select 100000 + i, 100000000 from generate_series(0, 4999) i; analyze""", synchronous_commit="off")
    host = place.port()
    place.start(place.write("cardhost", CARDHOST), host, base, port=host)
    mode = "nodelay" if place.fixed else "default"
    return ["java", "-Xmx64m", "-cp", str(place.java(ACQUIRER)), "Main", str(host), "90", mode]


# The page of a customer shows the accounts, and in how many browsers the customer is logged in.
OVERVIEW = """
import json
import redis
from flask import Flask, render_template_string

app = Flask(__name__)
store = redis.Redis(port=PORT)
PAGE = '''<h1>Customer {{ customer }}</h1>
{% for account in accounts %}<p>{{ account.name }}: {{ "%.2f"|format(account.cents / 100) }}</p>
{% endfor %}<p>Logged in {{ count }} times</p>'''

@app.get("/overview/<int:customer>")
def overview(customer):
    session = json.loads(store.get(f"session:{customer}:1"))
    COUNT
    return render_template_string(PAGE, customer=customer, accounts=session["accounts"], count=count)
"""
CUSTOMERS = """
function request()
  return wrk.format("GET", "/overview/" .. math.random(1000, 4999))
end
"""
FILL = """
for i = 0, tonumber(ARGV[1]) - 1 do
  local customer, token = 1000 + i % 4000, 1 + math.floor(i / 4000)
  redis.call("SET", "session:" .. customer .. ":" .. token,
    '{"since": 1, "accounts": [{"name": "current", "cents": 120411}, {"name": "savings", "cents": 990017}]}', "EX", 7200)
  redis.call("SADD", "sessions:" .. customer, token)
end
"""


def sessions(place):
    store, port = redis(place), place.port()
    place.run("redis-cli", "-p", store, "eval", FILL, 0, round(48000 * place.scale))
    count = 'store.scard(f"sessions:{customer}")' if place.fixed else 'len(store.keys(f"session:{customer}:*"))'
    place.write("overview.py", OVERVIEW.replace("PORT", str(store)).replace("COUNT", f"count = {count}"))
    place.start("/usr/bin/gunicorn", "-w", "3", "-k", "gthread", "--threads", "2", "-b", f"127.0.0.1:{port}", "--chdir", place.folder,
                "overview:app", port=port)
    front = nginx(place, 'location / { proxy_pass http://bank; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream bank {{ server 127.0.0.1:{port}; keepalive 8; }}")
    load = wrk(f"http://127.0.0.1:{front}/", 6, place.seconds)
    return [*load[:1], "-s", str(place.write("customers.lua", CUSTOMERS)), *load[1:]]


# Books the file of the clearing house until the window of the batch ends. A line of the file is an
# account, an amount and a reference.
IMPORTER = """#!/usr/bin/python3
import csv, gzip, sys, time
import pymysql

port, path, batch, window = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
base = pymysql.connect(host="127.0.0.1", port=port, user="root", database="test")
cursor = base.cursor()
begin, count = time.monotonic(), 0
for account, cents, reference in csv.reader(gzip.open(path, "rt")):
    cursor.execute("insert into bookings (account, cents, reference) values (%s, %s, %s)", (account, cents, reference))
    cursor.execute("update accounts set balance = balance + %s where id = %s", (cents, account))
    count += 1
    if count % batch == 0:
        base.commit()
        if time.monotonic() > begin + window:
            break
base.commit()
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""


def clearing(place):
    port = mariadb(place, """
        create table accounts (id int primary key, balance bigint not null) engine=innodb;
        create table bookings (id int primary key auto_increment, account int not null, cents int not null, reference varchar(40),
            key (account)) engine=innodb;
        insert into accounts select seq, 100000 from seq_1_to_3000""", "--log-bin=clearing", "--sync-binlog=1")
    lines = "".join(f"{1 + i * 617 % 3000},{i * 7919 % 30000 - 9000},transfer {i:06}\n" for i in range(120000))
    place.run("gzip", place.write("clearing.csv", lines))
    return [str(place.write("importer", IMPORTER)), str(port), "clearing.csv.gz", "50" if place.fixed else "1", str(place.seconds)]


# Writes the statement of each account of the night, as a text that is printed.
NIGHTRUN = """#!/bin/bash
set -eu
port=$1 classes=$2 mode=$3
mkdir bookings statements
psql -h 127.0.0.1 -p "$port" -U postgres -q -A -t -F '|' -o bookings.txt \\
    -c 'select account, day, cents, purpose from bookings order by account, day, id'
awk -F '|' '{ print > "bookings/" $1 }' bookings.txt
if [ "$mode" = together ]; then
    java -Xmx128m -cp "$classes" Main statements bookings/*
else
    for account in bookings/*; do
        java -Xmx128m -cp "$classes" Main statements "$account"
    done
fi
tar -czf statements.tar.gz statements
"""
STATEMENTS = """
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.format.DateTimeFormatter;
import java.util.Locale;

public class Main {
    static final DateTimeFormatter DAY = DateTimeFormatter.ofPattern("d MMM uuuu", Locale.UK);

    static String statement(Path bookings) throws IOException {
        StringBuilder text = new StringBuilder("Statement of account " + bookings.getFileName() + "\\n\\n");
        long balance = 0;
        int line = 0;
        for (String booking : Files.readAllLines(bookings)) {
            String[] parts = booking.split("\\\\|");
            balance += Long.parseLong(parts[2]);
            text.append(String.format(Locale.UK, "%-14s %-40s %,14.2f %,16.2f%n", DAY.format(LocalDate.parse(parts[1])), parts[3],
                Long.parseLong(parts[2]) / 100.0, balance / 100.0));
            if (++line % 60 == 0) text.append(String.format("%60s %d%n\\f", "page", line / 60));
        }
        return text.toString();
    }

    public static void main(String[] words) throws IOException {
        for (int i = 1; i < words.length; i++) {
            Path bookings = Path.of(words[i]);
            Files.writeString(Path.of(words[0], bookings.getFileName() + ".txt"), statement(bookings));
        }
    }
}
"""


def statements(place):
    base = postgres(place, """
        create table bookings (id int primary key, account int, day date, cents int, purpose text);
        insert into bookings select i, 4000 + i % 14, date '2024-01-01' + i / 14 % 366, i * 7919 % 50000 - 20000, 'card payment ' || i
            from generate_series(1, 14000) i; analyze; checkpoint""")
    mode = "together" if place.fixed else "each"
    return [str(place.write("nightrun", NIGHTRUN)), str(base), str(place.java(STATEMENTS)), mode]


# Compares a payment with the profile of the customer, which is kept in memory.
FRAUD = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;

public class Main {
    record Payment(int shop, int hour, double amount) {}

    static final List<String> profiles = new ArrayList<>();

    // A profile is the text of the last 40 payments.
    static String profile(int customer) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 40; i++) {
            text.append((customer * 31 + i * 17) % 9000).append(':').append((customer + i) % 24).append(':')
                .append((customer * 7L + i * 1319) % 20000 / 100.0).append(';');
        }
        return text.toString();
    }

    static double risk(String profile, double amount) {
        List<Payment> payments = new ArrayList<>();
        for (String entry : profile.split(";")) {
            String[] parts = entry.split(":");
            payments.add(new Payment(Integer.parseInt(parts[0]), Integer.parseInt(parts[1]), Double.parseDouble(parts[2])));
        }
        double mean = payments.stream().mapToDouble(Payment::amount).average().orElse(0);
        double spread = payments.stream().mapToDouble(payment -> Math.abs(payment.amount() - mean)).average().orElse(1);
        return Math.abs(amount - mean) / spread;
    }

    public static void main(String[] words) throws Exception {
        int customers = Integer.parseInt(words[1]);
        for (int i = 0; i < customers; i++) profiles.add(profile(i));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 100);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/risk", exchange -> {
            int customer = Integer.parseInt(exchange.getRequestURI().getQuery());
            double sum = 0;
            // The household of the customer has eight cards.
            for (int card = 0; card < 8; card++) sum += risk(profiles.get((customer + card) % customers), 49.90);
            byte[] answer = String.format("{\\"customer\\": %d, \\"risk\\": %.3f}", customer, sum / 8).getBytes();
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.start();
    }
}
"""
PAYMENTS = """
function request()
  return wrk.format("GET", "/risk?" .. math.random(0, 99999))
end
"""


def fraud(place):
    port, front = place.port(), place.port()
    heap = "512m" if place.fixed else "74m"
    place.start("java", "-Dsun.net.httpserver.nodelay=true", f"-Xmx{heap}", "-cp", place.java(FRAUD), "Main", port, 100000, port=port)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend payments
    bind 127.0.0.1:{front}
    default_backend fraud
backend fraud
    server fraud 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    load = wrk(f"http://127.0.0.1:{front}/", 4, place.seconds)
    return [*load[:1], "-s", str(place.write("payments.lua", PAYMENTS)), *load[1:]]


# Control: the tills of the branches book 60 times a second through a pool that has enough
# connections, and the commits are synced as they should.
TILL = r"""
\set account random(1, 20000)
\set cents random(-5000, 9000)
begin;
select balance from accounts where id = :account for update;
update accounts set balance = balance + :cents where id = :account;
insert into audit (account, cents) values (:account, :cents);
commit;
"""


def tills(place):
    base = postgres(place, """
        create table accounts (id int primary key, balance bigint);
        create table audit (id bigserial primary key, account int, cents int, at timestamptz default now());
        insert into accounts select i, 100000 from generate_series(1, 20000) i; analyze; checkpoint""")
    port = place.port()
    config = place.write("pgbouncer.ini", f"""
[databases]
postgres = host=127.0.0.1 port={base} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 10
""")
    user = pwd.getpwnam("postgres")
    place.start("pgbouncer", config, port=port, user=user.pw_uid, group=user.pw_gid)
    script = place.write("till.sql", TILL, mode=0o644)
    return ["pgbench", *at(port), "-n", "-c", "8", "-R", "60", "-T", str(place.seconds), "-f", str(script), "postgres"]


# Control: the letters of the end of the year are set by groff, two at a time on two CPUs.
YEAREND = """#!/bin/sh
set -eu
begin=$(date +%s.%N)
ls letters | xargs -P 2 -I NAME sh -c 'tbl letters/NAME | groff -Tps | gzip > NAME.ps.gz'
echo "items $(ls letters | wc -l) seconds $(echo "$begin $(date +%s.%N)" | awk '{ print $2 - $1 }')"
"""


def letters(place):
    (place.folder / "letters").mkdir()
    for number in range(24):
        rows = "\n".join(f"{1 + line % 28}.{1 + line // 28 % 12}.\tcard payment in shop {line * 31 % 977}\t{line * 7919 % 40000 / 100:.2f}"
                         for line in range(number % 3, 5000))
        place.write(f"letters/account{number:02}", f".ll 6.5i\nYearly statement of account {4000 + number}\n.sp\n"
                    f".TS\ntab(\t);\nl l n.\n{rows}\n.TE\n")
    return [str(place.write("yearend", YEAREND))]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="savings_card_messages_in_two",
        kind="nagle-delayed-ack",
        truth="java (the acquirer) writes the length and the text of each message separately without "
              "TCP_NODELAY, so that Nagle's algorithm holds the text back until cardhost sends its "
              "delayed acknowledgement of the length after 40 ms",
        load=cards,
        rate=ITEMS,
        component=(r"\bjava\b", r"acquirer", r"terminal", r"cardhost", r"\bTCP\b"),
        mechanism=(r"[Nn]agle", r"\backnowledg", r"\bACKs?\b", r"delayed.?ack", r"NO_?DELAY", r"nodelay", r"coalesc",
                   r"(small|short|two|several|separate|many|tiny) (\w+ )?(writes|sends|segments|pieces|packets|parts|messages)"),
        never=(*DISK, r"(java|cardhost|python3?|postgres) (\([^)]*\) )?(sleeps|computes)"),
        needs=("psql", "java", "javac", PYTHON),
    ),
    System(
        name="savings_keys_of_all_sessions",
        kind="store-scans-all-keys",
        truth="redis-server, which has one thread, computes: KEYS compares the names of all 48000 "
              "sessions with a pattern for each page that gunicorn makes",
        load=sessions,
        rate=WRK,
        component=(r"redis",),
        mechanism=(*RUNS, r"\bKEYS\b", r"keys\b", r"\bscan", r"pattern", r"one (\w+ )?at a time", r"stringmatch"),
        never=(*DISK, r"redis(-server)? (\([^)]*\) )?sleeps"),
        halves=True,
        running=True,
        needs=("redis-server", "redis-cli", "nginx", "/usr/bin/gunicorn", "wrk"),
    ),
    System(
        name="savings_clearing_commit_each",
        kind="sync-per-row",
        truth="mariadbd waits for the disk: importer commits each booking by itself, and each commit "
              "syncs the binary log and the redo log",
        load=clearing,
        rate=ITEMS,
        component=(r"mariadb", r"importer", r"clearing", r"python"),
        mechanism=(r"\bdisk", r"\bf?(data)?sync", r"commit", r"\bflush", r"journal", r"bin(ary )?log", r"redo log", r"write.?back"),
        never=(r"(mariadbd|importer|python3?) (\([^)]*\) )?sleeps", r"(importer|python3?) (\([^)]*\) )?computes"),
        needs=("mariadbd", "mariadb-install-db", "gzip", PYTHON),
    ),
    System(
        name="savings_statement_jvm_each",
        kind="process-per-item",
        truth="nightrun, in bash, starts java for each account, one after the other, and most of "
              "their time is the start of the JVM, not the statement",
        load=statements,
        component=(r"nightrun", r"\bbash\b", r"\bjava\b"),
        mechanism=(r"\bstart(s|ed|ing)?\b", r"start-?ups?\b", r"launch", r"\bexec", r"\bv?fork", r"spawn", r"short-? ?lived",
                   r"(process|program|child|JVM|java)\b[^;]*\b(for each|per|after another|after the other)", r"new (\w+ )?(process|JVM)",
                   r"\b\d+ (times|processes|programs|children|runs)\b", r"class(es)? load|loads? (\w+ )?classes", r"\bJIT\b", r"warm"),
        never=(*DISK, r"(postgres|psql|m?awk|tar|gzip) (\([^)]*\) )?(computes|sleeps)", r"nightrun (\([^)]*\) )?sleeps"),
        needs=("bash", "awk", "tar", "gzip", "psql", "java", "javac"),
    ),
    System(
        name="savings_fraud_small_heap",
        kind="garbage-collection",
        truth="java (the fraud check) collects garbage most of the time, because its heap of 74 MB is "
              "hardly larger than the profiles of the customers",
        load=fraud,
        rate=WRK,
        component=(r"\bjava\b", r"fraud", r"\bG1\b", r"\bGC\b"),
        mechanism=(r"\bGC\b", r"[Gg]arbage", r"\bcollect(s|or|ors|ion|ions|ing)\b", r"\bheap\b", r"\bG1\b"),
        never=(*DISK, r"(java|haproxy|wrk) (\([^)]*\) )?sleeps", r"haproxy (\([^)]*\) )?computes"),
        needs=("java", "javac", "haproxy", "wrk"),
    ),
    System(
        name="control_savings_tills",
        kind="control",
        truth="pgbench begins 60 transactions a second by intention; pgbouncer has enough "
              "connections, and postgres syncs each commit long before the next one is due",
        load=tills,
        rate=PGBENCH,
        acceptable=(*NOTHING, r"[Pp]aced by pgbench", r"pgbench.*(sleep|timer|until a time|\brate\b|paces)", r"\bidle\b",
                    r"load generator"),
        needs=("psql", "pgbench", "pgbouncer"),
    ),
    System(
        name="control_savings_letters",
        kind="control",
        truth="xargs keeps two letters in work, which tbl, troff, grops and gzip compute on both CPUs",
        load=letters,
        rate=ITEMS,
        acceptable=(*NOTHING, rf"(troff|grops|groff|\btbl|gzip|yearend|xargs|\bsh\b).*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("tbl", "groff", "grops", "xargs", "gzip", "awk"),
    ),
]

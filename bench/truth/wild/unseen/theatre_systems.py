"""A theatre: faults of its box office, programme, archive of plays and costume store, each with a
proxy, an application and a database or cache, and two healthy parts of the same theatre.
"""
import pwd

from services import PHP_FPM, at, mariadb, nginx, postgres, redis
from system import ITEMS, PYTHON, SLEEPS, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
# Patterns for sentences that blame the disk, or the sleep of the program before it.
DISK = (r"waits? for (the |a )?disk", r"(reads|writes) (from|to) (the |a )?disk", r"\bf(data)?sync")
SLEPT = r",?( \([^)]*\))?,? sleeps"


def haproxy(place, server, mode="http", more=""):
    """Starts haproxy in front of the port `server`; returns its port."""
    front = place.port()
    config = place.write("haproxy.cfg", f"""
global
  nbthread 1
defaults
  mode {mode}
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen front
  bind 127.0.0.1:{front}
  server behind 127.0.0.1:{server}
  {more}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return front


# Shows the programme of a month. The cookie counts the visits of a browser; responses with a cookie
# are not kept by varnish.
PROGRAMME = """
const http = require("http");
const [port, count, cookie] = process.argv.slice(2);
const plays = ["Faust", "Medea", "Tartuffe", "The Seagull", "Hamlet", "Woyzeck", "Galileo"];
const euro = new Intl.NumberFormat("de-DE", { style: "currency", currency: "EUR" });

function programme() {
  const evenings = [];
  for (let i = 0; i < Number(count); i++) {
    const play = plays[i * 5 % 7];
    evenings.push({ play, day: i * 37 % 31 + 1, stage: i % 3, price: 8 + i * 7919 % 61 / 2 });
  }
  return evenings.map(evening => `<tr><td>${evening.play.replace(/&/g, "&amp;")}</td>` +
    `<td>${euro.format(evening.price)}</td><td>${evening.day}</td>` +
    `<td>${evening.stage}</td></tr>`).join("");
}

http.createServer((request, response) => {
  const page = programme();
  response.setHeader("Cache-Control", "public, max-age=60");
  if (cookie === "cookie") response.setHeader("Set-Cookie", "visits=1; Path=/");
  response.end(`<table>${page.slice(0, 4000)}</table>`);
}).listen(Number(port), "127.0.0.1");
"""


def programme(place):
    port, cache = place.port(), place.port()
    cookie = "none" if place.fixed else "cookie"
    script = place.write("programme.js", PROGRAMME)
    place.start("node", script, port, round(900 * place.scale), cookie, port=port)
    web = nginx(place, f"""location / {{ proxy_pass http://programme; proxy_http_version 1.1;
                                        proxy_set_header Connection ""; }}""",
                f"upstream programme {{ server 127.0.0.1:{port}; keepalive 16; }}")
    place.start("varnishd", "-F", "-j", "none", "-n", place.folder / "varnish", "-s", "malloc,64m",
                "-a", f"127.0.0.1:{cache}", "-b", f"127.0.0.1:{web}", port=cache)
    return wrk(f"http://127.0.0.1:{haproxy(place, cache)}/march", 4, place.seconds)


# Eight visitors, each with an address of its own, look at the plan of seats again and again.
VISITORS = """
const http = require("http");
const [port, count] = process.argv.slice(2).map(Number);

async function visitor(number) {
  const localAddress = `127.0.0.${number + 10}`;
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1, localAddress });
  for (let i = 0; i < count; i++) {
    await new Promise((done, fail) => {
      http.get({ host: "127.0.0.1", port, path: `/seats?row=${i % 30}`, agent }, response => {
        if (response.statusCode !== 200) fail(new Error(`status ${response.statusCode}`));
        response.on("end", done).resume();
      }).on("error", fail);
    });
  }
  agent.destroy();
}

const start = performance.now();
Promise.all([0, 1, 2, 3, 4, 5, 6, 7].map(visitor)).then(() => {
  const seconds = (performance.now() - start) / 1000;
  console.log(`items ${8 * count} seconds ${seconds.toFixed(3)}`);
});
"""

# Draws a plan of the seats; memcached knows which seats of a row are sold.
SEATS = """<?php
$cache = pfsockopen("127.0.0.1", CACHE);
$row = (int) ($_GET["row"] ?? 0);
fwrite($cache, "get row$row\\r\\n");
$sold = "";
while (($line = fgets($cache)) !== false && $line !== "END\\r\\n") {
    if (strncmp($line, "VALUE", 5)) $sold = trim($line);
}
if ($sold === "") {
    $sold = str_repeat("01101", 8);
    fwrite($cache, "set row$row 0 60 " . strlen($sold) . "\\r\\n$sold\\r\\n");
    fgets($cache);
}
$plan = "";
for ($line = 0; $line < 30; $line++) {
    for ($seat = 0; $seat < 40; $seat++) {
        $colour = $line == $row && $sold[$seat] ? "red" : substr(md5("$line/$seat"), 0, 6);
        $plan .= sprintf("<rect x='%d' y='%d' fill='#%s'/>", $seat * 12, $line * 14, $colour);
    }
}
echo "<svg>", substr($plan, 0, 4000), "</svg>";
"""


def seats(place):
    cache, port = place.port(), place.port()
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", cache, "-t", "2", port=cache)
    config = place.write("fpm.conf", f"""
[global]
daemonize = no
error_log = {place.folder}/fpm.log
[seats]
user = root
group = root
listen = 127.0.0.1:{port}
pm = static
pm.max_children = 4
""")
    place.start(PHP_FPM, "-n", "-R", "-F", "-y", config, port=port)
    page = place.write("seats.php", SEATS.replace("CACHE", str(cache)))
    # All connections come from haproxy, so that its address is the same for all visitors.
    key = "$http_x_forwarded_for" if place.fixed else "$binary_remote_addr"
    web = nginx(place, f"""location / {{
        limit_req zone=visitors burst=50; fastcgi_pass 127.0.0.1:{port};
        include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME {page}; }}""",
                f"limit_req_zone {key} zone=visitors:1m rate={round(150 / place.scale)}r/s;",
                name="boxoffice")
    front = haproxy(place, web, more="option forwardfor")
    return ["node", str(place.write("visitors.js", VISITORS)), str(front), "75"]


# Asks the archive for all that a role says in all plays, one role after the other.
SCHOLARS = """#!/usr/bin/ruby
require "net/http"
port, count = ARGV.map(&:to_i)
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
Net::HTTP.start("127.0.0.1", port) do |archive|
  count.times do |number|
    answer = archive.get("/roles/#{number * 37 % 400}")
    raise answer.body unless answer.code == "200"
  end
end
puts "items #{count} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""
ARCHIVE = """#!/usr/bin/python3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import pymysql

class Archive(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def setup(self):
        super().setup()
        self.base = pymysql.connect(host="127.0.0.1", port=int(sys.argv[2]), user="reader",
                                    database="test")
    def log_message(self, *_):
        pass
    def do_GET(self):
        with self.base.cursor() as cursor:
            cursor.execute("select count(*), sum(length(words)) from speeches where role = %s",
                           (int(self.path.split("/")[2]),))
            body = "%d speeches with %d letters".encode() % cursor.fetchone()
        head = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body)
        self.wfile.write(head + body)

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Archive).serve_forever()
"""


def archive(place):
    base = mariadb(place, """
        create table speeches (id int primary key, role int, words varchar(1500), key (role))
            engine=innodb charset=latin1;
        insert into speeches select seq, seq % 400, repeat(md5(seq), 40) from seq_1_to_40000;
        create user reader@'127.0.0.1'; grant all on test.* to reader@'127.0.0.1'""",
                   f"--innodb-buffer-pool-size={256 if place.fixed else 8}M",
                   "--innodb-flush-method=O_DIRECT", "--innodb-flush-log-at-trx-commit=0",
                   "--innodb-doublewrite=0")
    front, app, web = haproxy(place, base, mode="tcp"), place.port(), place.port()
    place.start(place.write("archive", ARCHIVE), app, front, port=app)
    modules = "/usr/lib/apache2/modules"
    config = place.write("apache.conf", f"""
ServerName theatre
ServerRoot {place.folder}
PidFile {place.folder}/apache.pid
ErrorLog {place.folder}/apache.log
DefaultRuntimeDir {place.folder}
Listen 127.0.0.1:{web}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule proxy_module {modules}/mod_proxy.so
LoadModule proxy_http_module {modules}/mod_proxy_http.so
KeepAlive On
MaxKeepAliveRequests 0
ProxyPass / http://127.0.0.1:{app}/
""")
    place.start("apache2", "-f", config, "-D", "FOREGROUND", port=web)
    return [str(place.write("scholars", SCHOLARS)), str(web), "400"]


# Serves the next person of the waiting list, who then gets in line again for another play.
BOXOFFICE = """
import psycopg2
from flask import Flask, jsonify

app = Flask(__name__)
base = None

@app.get("/next")
def next_person():
    global base
    if base is None:
        base = psycopg2.connect(host="127.0.0.1", port=PORT, user="postgres", dbname="theatre")
        base.autocommit = True
    with base.cursor() as cursor:
        cursor.execute("delete from waiting where id = (select id from waiting order by id "
                       "for update skip locked limit 1) returning person")
        person, = cursor.fetchone()
        cursor.execute("insert into waiting (person) values (%s)", (person,))
    return jsonify(person=person)
"""

# Counts the waiting list for the books, and forgets to end its transaction.
LEDGER = """#!/usr/bin/python3
import signal, sys
import psycopg2

base = psycopg2.connect(host="127.0.0.1", port=sys.argv[1], user="postgres", dbname="postgres")
base.set_session(isolation_level="REPEATABLE READ")
cursor = base.cursor()
cursor.execute("select count(*) from waiting")
if sys.argv[2] == "end":
    base.commit()
open("counted", "w").close()
signal.pause()
"""


def waiting(place):
    base = postgres(place, "create table waiting (id bigserial primary key, person int)",
                    fsync="off", synchronous_commit="off", max_wal_size="8GB")
    end = "end" if place.fixed else "forget"
    place.start(place.write("ledger", LEDGER), base, end, path=place.folder / "counted")
    gone = round(50000 * place.scale)
    for statement in (
            f"insert into waiting (person) select i from generate_series(1, {gone + 200}) i",
            f"delete from waiting where id <= {gone}", "vacuum analyze waiting"):
        place.run("psql", *at(base), "-q", "-c", statement)
    pool, port = place.port(), place.port()
    config = place.write("pgbouncer.ini", f"""
[databases]
theatre = host=127.0.0.1 port={base} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {pool}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 8
""")
    user = pwd.getpwnam("postgres")
    place.start("pgbouncer", config, port=pool, user=user.pw_uid, group=user.pw_gid)
    place.write("boxoffice.py", BOXOFFICE.replace("PORT", str(pool)))
    place.start("/usr/bin/gunicorn", "-w", "3", "-b", f"127.0.0.1:{port}", "--chdir", place.folder,
                "boxoffice:app", port=port)
    web = nginx(place, f"location / {{ proxy_pass http://127.0.0.1:{port}; }}")
    return wrk(f"http://127.0.0.1:{web}/next", 2, place.seconds)


# Books the costumes of an evening, one after the other.
DRESSERS = """
package main

import ("fmt"; "io"; "net/http"; "os"; "strconv"; "time")

func main() {
	count, _ := strconv.Atoi(os.Args[2])
	start := time.Now()
	for i := 0; i < count; i++ {
		url := fmt.Sprintf("http://127.0.0.1:%s/rent/%d", os.Args[1], i * 7 % 3000)
		answer, err := http.Post(url, "text/plain", nil)
		if err != nil { panic(err) }
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if answer.StatusCode != 200 { panic(answer.Status) }
	}
	fmt.Printf("items %d seconds %.3f\\n", count, time.Since(start).Seconds())
}
"""
RENTALS = """
import sqlite3
from flask import Flask

app = Flask(__name__)
store = sqlite3.connect("costumes.db", timeout=30)
store.execute("pragma synchronous = off")

@app.post("/rent/<int:costume>")
def rent(costume):
    with store:
        store.execute("update costumes set rented = rented + 1 where id = ?", (costume,))
    return "rented"
"""

# Reports on the whole store again and again. A report reads in one transaction.
STOCKTAKING = """#!/usr/bin/python3
import hashlib, sqlite3, sys, time

rounds = int(sys.argv[1])
store = sqlite3.connect("costumes.db", timeout=30, isolation_level=None)
open("counting", "w").close()
while True:
    report = hashlib.sha256()
    for number, size, rented in store.execute("select id, size, rented from costumes order by id"):
        for _ in range(rounds):
            report.update(b"%d %d %d" % (number, size, rented))
    time.sleep(0.004)
"""
STORE = """
import sqlite3, sys
store = sqlite3.connect("costumes.db")
store.execute("pragma journal_mode = " + sys.argv[1])
store.execute("create table costumes (id integer primary key, size int, rented int, text text)")
store.executemany("insert into costumes values (?, ?, 0, ?)",
                  ((i, i % 20 + 36, f"gown no. {i}") for i in range(3000)))
store.commit()
"""


def rentals(place):
    place.run(PYTHON, "-c", STORE, "wal" if place.fixed else "delete")
    port = place.port()
    place.write("rentals.py", RENTALS)
    place.start("/usr/bin/gunicorn", "-w", "1", "-b", f"127.0.0.1:{port}", "--chdir", place.folder,
                "rentals:app", port=port)
    place.start(place.write("stocktaking", STOCKTAKING), 10, path=place.folder / "counting")
    web = nginx(place, f"location / {{ proxy_pass http://127.0.0.1:{port}; }}")
    return [str(place.go("dressers", DRESSERS)), str(web), "600"]


# Control: wrk searches the texts of the plays. Each search runs in a goroutine of its own, and
# counts the word in redis.
PLAYSEARCH = """
package main

import ("bufio"; "fmt"; "net"; "net/http"; "os"; "strings")

type link struct { socket net.Conn; in *bufio.Reader }

func main() {
	links := make(chan link, 8)
	for i := 0; i < 8; i++ {
		socket, err := net.Dial("tcp", "127.0.0.1:" + os.Args[2])
		if err != nil { panic(err) }
		links <- link{socket, bufio.NewReader(socket)}
	}
	var plays []string
	for i := 0; i < 40; i++ {
		plays = append(plays, strings.Repeat(fmt.Sprintf("Enter Ghost %d, and Horatio speaks. ", i), 300))
	}
	http.HandleFunc("/search", func(w http.ResponseWriter, r *http.Request) {
		word, found := r.URL.Query().Get("word"), 0
		for _, play := range plays {
			for _, part := range strings.Fields(play) {
				if strings.EqualFold(part, word) { found++ }
			}
		}
		one := <-links
		fmt.Fprintf(one.socket, "INCR searches:%s\\r\\n", word)
		count, _ := one.in.ReadString('\\n')
		links <- one
		fmt.Fprintf(w, "%s is found %d times, search %s", word, found, count)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def search(place):
    store, port = redis(place), place.port()
    place.start(place.go("playsearch", PLAYSEARCH), port, store, port=port)
    front = nginx(place, """location / { proxy_pass http://plays; proxy_http_version 1.1;
                                         proxy_set_header Connection ""; }""",
                  f"upstream plays {{ server 127.0.0.1:{port}; keepalive 16; }}")
    return wrk(f"http://127.0.0.1:{front}/search?word=ghost", 8, place.seconds)


# Control: the prompter gives a cue each 80 ms by intention.
PROMPTER = """#!/usr/bin/perl
use strict;
use IO::Socket::INET;
use Time::HiRes qw(time sleep);
my ($port, $seconds) = @ARGV;
my $stage = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port) or die "no stage";
my ($start, $cues) = (time, 0);
while (time < $start + $seconds) {
    print $stage "GET /cue.php?number=$cues HTTP/1.1\\r\\nHost: stage\\r\\n\\r\\n";
    my $length = 0;
    die "no answer" unless (readline $stage) =~ / 200 /;
    while ((my $line = readline $stage) ne "\\r\\n") {
        $length = $1 if $line =~ /^Content-Length: (\\d+)/i;
    }
    read $stage, my $text, $length;
    die "wrong answer: $text" unless $text =~ /^lights /;
    $cues++;
    my $rest = $start + $cues * 0.08 - time;
    sleep $rest if $rest > 0;
}
printf "items %d seconds %.3f\\n", $cues, time - $start;
"""
CUE = """<?php
$store = pfsockopen("127.0.0.1", STORE);
$number = (int) $_GET["number"];
fwrite($store, "set cue 0 0 " . strlen($number) . "\\r\\n$number\\r\\n");
fgets($store);
$text = "lights " . substr(md5("cue $number"), 0, 8);
header("Content-Length: " . strlen($text));
echo $text;
"""


def cues(place):
    store, port = place.port(), place.port()
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", store, port=store)
    place.write("cue.php", CUE.replace("STORE", str(store)))
    config = place.write("lighttpd.conf", f"""
server.modules = ("mod_fastcgi")
server.bind = "127.0.0.1"
server.port = {port}
server.document-root = "{place.folder}"
server.max-keep-alive-requests = 100000
fastcgi.server = (".php" => ((
    "bin-path" => "/usr/bin/php-cgi -n", "socket" => "{place.folder}/php", "max-procs" => 1,
    "bin-environment" => ("PHP_FCGI_CHILDREN" => "2", "PHP_FCGI_MAX_REQUESTS" => "100000"))))
""")
    place.start("lighttpd", "-D", "-f", config, port=port)
    return [str(place.write("prompter", PROMPTER)), str(port), str(place.seconds)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
SYSTEMS = [
    System(
        name="theatre_programme_with_cookie",
        kind="cookie-prevents-caching",
        truth="node (programme.js) computes the same page for each request, because it sets a "
              "cookie in each response, so that varnish keeps none of them",
        load=programme,
        rate=WRK,
        component=(r"\bnode\b", r"programme", r"varnish[^;]*(cookie|miss|pass|keeps|caches)"),
        mechanism=(*RUNS, r"cookie", r"not cach", r"cache miss", r"\bformats?\b", r"renders",
                   r"one (request|\w+) at a time", r"again and again"),
        never=(*DISK, rf"(node|programme\S*|varnishd?|haproxy|nginx){SLEPT}"),
        halves=True,
        needs=("node", "nginx", "varnishd", "haproxy", "wrk"),
    ),
    System(
        name="theatre_seats_of_one_address",
        kind="rate-limit-of-proxy-address",
        truth="nginx keeps each request until a timer ends, because its limit of 150 requests in a "
              "second for one address (limit_req) counts the address of haproxy for all visitors",
        load=seats,
        rate=ITEMS,
        component=(r"nginx", r"boxoffice", r"limit_req"),
        mechanism=(*SLEEPS, r"limit", r"\brate\b", r"delay", r"throttl", r"time-?out",
                   r"\bpace[sd]\b"),
        never=(*DISK, rf"(php\S*|memcached|haproxy|node|visitors\S*){SLEPT}"),
        change="x0",
        halves=True,
        needs=("node", "haproxy", "nginx", "memcached", PHP_FPM),
    ),
    System(
        name="theatre_archive_small_pool",
        kind="small-buffer-pool",
        truth="mariadbd reads about 100 pages from the disk for each role that archive asks for, "
              "because its buffer pool of 8 MB is much smaller than the 60 MB of the speeches",
        load=archive,
        rate=ITEMS,
        component=(r"mariadb", r"mysqld", r"one_connection", r"\bdisk\b",
                   r"\b(vd|sd|xvd)[a-z]\d*\b", r"\b(nvme|dm-|md)\d\w*"),
        mechanism=(r"\bdisk\b", r"\bdevice\b", r"\bstorage\b", r"\bI/O\b", r"\bpread",
                   r"buffer pool", r"reads? (from |of )?(the |its |a )?(file|page|block|data)",
                   r"system calls?"),
        never=(r"\bf(data)?sync", rf"(mariadbd|archive|haproxy|apache2|ruby|scholars){SLEPT}"),
        needs=("mariadbd", "mariadb-install-db", "apache2", "haproxy", "ruby"),
    ),
    System(
        name="theatre_waiting_list_of_dead_rows",
        kind="old-transaction-keeps-dead-rows",
        truth="postgres computes, because each search for the next person goes over 50000 deleted "
              "rows, which an old transaction of ledger keeps from being removed",
        load=waiting,
        rate=WRK,
        component=(r"postgres", r"ledger"),
        mechanism=(*RUNS, r"dead (row|tuple)", r"deleted rows", r"vacuum", r"snapshot",
                   r"transaction", r"visib", r"bloat", r"index scan"),
        never=(*DISK, rf"(postgres|pgbouncer|gunicorn|nginx){SLEPT}"),
        halves=True,
        running=True,
        needs=("psql", "pgbouncer", "/usr/bin/gunicorn", "nginx", "wrk"),
    ),
    System(
        name="theatre_stocktaking_blocks_rentals",
        kind="readers-block-writer",
        truth="gunicorn (rentals.py) sleeps and tries again to lock the SQLite file, because "
              "stocktaking holds its lock for a whole report, and the journal is no WAL",
        load=rentals,
        rate=ITEMS,
        component=(r"gunicorn", r"rentals", r"stocktaking", r"python", r"costumes\.db",
                   r"[Ss]qlite"),
        mechanism=(*SLEEPS, r"\block", r"\bbusy\b", r"one (\w+ )?at a time", r"for one another",
                   r"journal", r"transaction", r"tries again", r"retr(y|ies)", r"back.?off"),
        never=(*DISK, rf"(stocktaking|nginx|dressers){SLEPT}"),
        needs=(PYTHON, "/usr/bin/gunicorn", "nginx", "go"),
    ),
    System(
        name="control_theatre_search",
        kind="control",
        truth="the goroutines of playsearch compare the words that wrk asks nginx for, count each "
              "search in redis, and both CPUs are full",
        load=search,
        rate=WRK,
        acceptable=(rf"(playsearch|nginx|wrk|redis).*{COMPUTES}", r"(both|all|the) CPUs",
                    r"no (single )?program leads", r"[Nn]othing stands out"),
        running=True,
        needs=("go", "nginx", "redis-server", "wrk"),
    ),
    System(
        name="control_theatre_cues",
        kind="control",
        truth="prompter, in perl, gives a cue each 80 ms by intention; lighttpd, php and memcached "
              "are done long before the next one, and all are idle most of the time",
        load=cues,
        rate=ITEMS,
        acceptable=(r"paced by (prompter|perl)", r"(prompter|perl).*(sleep|timer|until a time)",
                    r"\bidle\b", r"[Nn]othing stands out"),
        needs=("perl", "lighttpd", "php-cgi", "memcached"),
    ),
]

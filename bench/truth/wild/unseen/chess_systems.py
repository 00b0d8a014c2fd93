"""The services of a chess federation: five faults that were met behind its live boards, ratings,
archives, engines and games, and two healthy parts of the same federation.
"""
import os
import random

from services import PHP_FPM, mariadb, nginx, private_network, redis
from system import ITEMS, LOCKS, PYTHON, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU", r"\bin the kernel")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Puts the games of a tournament into a queue, and waits for the verdicts of the engine.
OFFICE = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($port, $count) = @ARGV;
my $queue = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port) or die "no queue: $!";
my $start = clock_gettime(CLOCK_MONOTONIC);
for my $game (1 .. $count) {
    print $queue "RPUSH games $game\\r\\n";
    <$queue>;
}
for (1 .. $count) {
    print $queue "BLPOP verdicts 0\\r\\n";
    <$queue> for 1 .. 5;
}
printf "items %d seconds %.3f\\n", $count, clock_gettime(CLOCK_MONOTONIC) - $start;
"""
# Keeps the opening book in memory, and starts an engine for each game, with a low priority.
DISPATCHER = """#!/usr/bin/python3
import os, subprocess, sys
import redis

port, entries, way = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
book = {number: (b"position %d: e2e4 e7e5 g1f3 b8c6 f1b5" % number).ljust(200) for number in range(entries)}
queue = redis.Redis(port=port)
open("dispatcher-ready", "w").close()
while True:
    game = int(queue.blpop("games")[1])
    opening = book[game * 7919 % entries].split(b":")[0].decode()
    if way == "hook":
        done = subprocess.run(["./engine", str(game), opening], preexec_fn=lambda: os.nice(5), capture_output=True)
    else:
        done = subprocess.run(["nice", "-n", "5", "./engine", str(game), opening], capture_output=True)
    queue.rpush("verdicts", done.stdout.strip() or b"none")
"""
# Looks for the knight's path that visits the most valuable squares.
ENGINE = """
#include <stdio.h>
#include <stdlib.h>

static int value[64];
static const int steps[8][2] = {{1, 2}, {2, 1}, {2, -1}, {1, -2}, {-1, -2}, {-2, -1}, {-2, 1}, {-1, 2}};

static int best(int square, int depth, unsigned long visited)
{
    int most = 0;
    if (!depth)
        return 0;
    for (int i = 0; i < 8; i++) {
        int x = square % 8 + steps[i][0], y = square / 8 + steps[i][1], to = y * 8 + x;
        if (x < 0 || y < 0 || x > 7 || y > 7 || visited >> to & 1)
            continue;
        int found = value[to] + best(to, depth - 1, visited | 1ul << to);
        if (found > most)
            most = found;
    }
    return most;
}

int main(int count, char **words)
{
    if (count < 3)
        return 1;
    srand(atoi(words[1]));
    for (int i = 0; i < 64; i++)
        value[i] = rand() % 900;
    printf("%s %s: %d\\n", words[1], words[2], best(27, 7, 1ul << 27));
}
"""


def forks(place):
    queue = redis(place)
    place.c("engine", ENGINE)
    dispatcher = place.write("dispatcher", DISPATCHER)
    place.start(dispatcher, queue, 800000, "plain" if place.fixed else "hook", path=place.folder / "dispatcher-ready")
    return [str(place.write("office", OFFICE)), str(queue), "250"]


# A server of games over TCP: one line for each move, which it checks and confirms.
GAMES = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strings")

func play(c net.Conn) {
	defer c.Close()
	in := bufio.NewScanner(c)
	moves := 0
	for in.Scan() {
		from, to, found := strings.Cut(in.Text(), "-")
		moves++
		if !found || len(from) != 2 || len(to) != 2 || from == to {
			fmt.Fprintf(c, "%d illegal\\n", moves)
			continue
		}
		fmt.Fprintf(c, "%d %s%s clock %d\\n", moves, from, to, 5400 - moves % 5400)
	}
}

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		if c, err := l.Accept(); err == nil {
			go play(c)
		}
	}
}
"""
# Plays many games at once for some seconds.
ARENA = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strconv"; "sync"; "sync/atomic"; "time")

func main() {
	games, _ := strconv.Atoi(os.Args[2])
	seconds, _ := strconv.Atoi(os.Args[3])
	var moves atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	end := start.Add(time.Duration(seconds) * time.Second)
	for game := 0; game < games; game++ {
		c, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
		if err != nil {
			panic(err)
		}
		all.Add(1)
		go func() {
			defer all.Done()
			in := bufio.NewReader(c)
			for i := game; time.Now().Before(end); i++ {
				fmt.Fprintf(c, "%c%d-%c%d\\n", 'a' + i % 8, 1 + i % 7, 'a' + i % 8, 2 + i % 7)
				if _, err := in.ReadString('\\n'); err != nil {
					panic(err)
				}
				moves.Add(1)
			}
		}()
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", moves.Load(), time.Since(start).Seconds())
}
"""


def fence(place):
    """The list of banned players is either one rule for each address, or a set of all."""
    games, front = place.port(), place.port()
    banned = [f"198.{18 + i // 65536}.{i // 256 % 256}.{i % 256}" for i in range(9000)]
    if place.fixed:
        rules = "ip saddr @banned drop"
        names = f"set banned {{ type ipv4_addr; elements = {{ {', '.join(banned)} }} }}"
    else:
        rules = "\n".join(f"ip saddr {address} drop" for address in banned)
        names = ""
    table = place.write("banned.nft", f"""
table ip fence {{
{names}
chain input {{
    type filter hook input priority 0; policy accept;
{rules}
}}
}}
""")
    inside = private_network(place, f"nft -f {table}")
    place.start(*inside, place.go("games", GAMES), games)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
listen games
    bind 127.0.0.1:{front}
    server games 127.0.0.1:{games}
""")
    place.start(*inside, "haproxy", "-db", "-f", config)
    open_in(place, inside, games, front)
    return [*inside, str(place.go("arena", ARENA)), str(front), "12", str(place.seconds)]


def open_in(place, inside, *ports):
    """Waits until something listens on each of the ports of a private network."""
    for port in ports:
        script = f"for i in $(seq 400); do (: > /dev/tcp/127.0.0.1/{port}) 2> /dev/null && exit; sleep 0.02; done; exit 1"
        place.run(*inside, "bash", "-c", script)


# The page of a player's rating.
PROFILE = """
from flask import Flask
import pymysql

app = Flask(__name__)
base = pymysql.connect(host="127.0.0.1", port=PORT, user="root", database="test", autocommit=True)
players = iter(range(1, 1000000000))

@app.get("/player")
def player():
    with base.cursor() as cursor:
        cursor.execute("select name, rating from players where id = %s", (next(players) * 37 % 5000,))
        name, rating = cursor.fetchone()
    return f"<p>{name}: {rating}</p>"
"""
# Computes the table of the opponents of each club again and again, as after a large tournament.
NIGHTLY = """#!/bin/sh
for club in $(seq 100000); do
    echo "select sql_no_cache $club, count(*), avg(w.rating - b.rating), sum(1 / (1 + pow(10, (b.rating - w.rating) / 400)))
        from players w join players b on b.id % 11 = w.id % 11 where w.id < 900 and w.club <> $club;"
done | mariadb --no-defaults -h 127.0.0.1 -P $1 -u root test > table.txt
"""


def groups(place):
    base = mariadb(place, """
        create table players (id int primary key, name varchar(40), club int, rating int);
        insert into players select seq, concat('player ', seq), seq % 120, 1200 + seq * 31 % 1500 from seq_0_to_4999;
        analyze table players""", "--thread-handling=pool-of-threads", f"--thread-pool-size={4 if place.fixed else 1}")
    port = place.port()
    place.write("profile.py", PROFILE.replace("PORT", str(base)))
    place.start(place.write("nightly", NIGHTLY), base)
    place.start("/usr/bin/gunicorn", "-w", "4", "-b", f"127.0.0.1:{port}", "--chdir", place.folder, "profile:app", port=port)
    front = nginx(place, f"location / {{ proxy_pass http://127.0.0.1:{port}; }}")
    return wrk(f"http://127.0.0.1:{front}/player", 4, place.seconds)


# The page of a live board reads its position from redis.
BOARD = """<?php
function store() {
    while (!($store = @stream_socket_client("tcp://127.0.0.1:PORT", $number, $text, 2))) {
        error_log("no store: $text");
        usleep(50000);
    }
    return $store;
}

$store = store();
$board = getmypid() % 8;
fwrite($store, "HINCRBY seen $board 1\\r\\nGET board:$board\\r\\n");
$seen = substr(fgets($store), 1);
fgets($store);
$position = trim(fgets($store));
fclose($store);
echo "<pre>", htmlspecialchars($position), "</pre>", (int) $seen;
"""


def ports(place):
    """The range of ports for outgoing connections is either narrow or that of the kernel."""
    store, front, folder = place.port(), place.port(), place.folder
    inside = private_network(place, *([] if place.fixed else ["sysctl -qw net.ipv4.ip_local_port_range='61000 61799'"]))
    place.start(*inside, "redis-server", "--port", store, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder)
    open_in(place, inside, store)
    for board in range(8):
        position = f"r1bqkbnr/pppp1ppp/2n5/1B2p3/4P3/5N2/PPPP1PPP/RNBQK2R b KQkq - {board} 3"
        place.run(*inside, "redis-cli", "-p", store, "set", f"board:{board}", position)
    place.write("board.php", BOARD.replace("PORT", str(store)))
    config = place.write("fpm.conf", f"""
[global]
daemonize = no
error_log = {folder}/fpm.log
[boards]
user = root
group = root
listen = {folder}/boards.sock
pm = static
pm.max_children = 8
""")
    place.start(*inside, PHP_FPM, "-n", "-R", "-F", "-y", config, path=folder / "boards.sock")
    place.write("lighttpd.conf", f"""
server.modules = ("mod_fastcgi")
server.bind = "127.0.0.1"
server.port = {front}
server.document-root = "{folder}"
server.max-keep-alive-requests = 10000000
fastcgi.server = (".php" => (("socket" => "{folder}/boards.sock")))
""")
    place.start(*inside, "lighttpd", "-D", "-f", folder / "lighttpd.conf")
    open_in(place, inside, front)
    return [*inside, *wrk(f"http://127.0.0.1:{front}/board.php", 8, place.seconds)]


# Searches the games of a year, whose file it maps into its memory.
ARCHIVE = """
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int advice;

static unsigned move_key(const char *move, const char *end)
{
    unsigned key = 2166136261u;
    while (move < end)
        key = (key ^ *move++) * 16777619u;
    return key;
}

// Returns the number of games that white won and that came, with any order of moves, to a position
// after which this move was played.
static long search(const char *year, const char *move)
{
    char path[64];
    snprintf(path, sizeof path, "games-%s.pgn", year);
    int file = open(path, O_RDONLY);
    struct stat about;
    if (file < 0 || fstat(file, &about))
        return -1;
    char *games = mmap(NULL, about.st_size, PROT_READ, MAP_SHARED, file, 0);
    madvise(games, about.st_size, advice);
    unsigned wanted = move_key(move, move + strlen(move)), position = 0, reached = 0;
    long won = 0;
    for (char *at = games, *end = games + about.st_size; at < end;) {
        char *stop = at;
        while (stop < end && *stop > ' ')
            stop++;
        unsigned key = move_key(at, stop);
        reached |= key == wanted && position;
        position += key;
        if (stop < end && *stop == '\\n') {
            won += reached && stop - at == 3 && !memcmp(at, "1-0", 3);
            position = reached = 0;
        }
        at = stop + 1;
    }
    munmap(games, about.st_size);
    close(file);
    return won;
}

int main(int count, char **words)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, server = socket(AF_INET, SOCK_STREAM, 0);
    advice = atoi(words[2]) ? MADV_RANDOM : MADV_NORMAL;
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(server, (struct sockaddr *)&address, sizeof address) || listen(server, 16))
        return 1;
    for (;;) {
        int client = accept(server, NULL, NULL);
        FILE *in = fdopen(client, "r");
        char year[16], move[64];
        while (in && fscanf(in, "%15s %63s", year, move) == 2)
            dprintf(client, "%ld\\n", search(year, move));
        if (in)
            fclose(in);
    }
}
"""
# Asks how often an opening was won in each year.
OPENINGS = """#!/usr/bin/ruby
require "socket"

archive = TCPSocket.new("127.0.0.1", ARGV[0].to_i)
archive.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
won = (1...ARGV[1].to_i + 1).sum do |year|
  archive.write("#{1980 + year} Bb5_a6\\n")
  archive.gets.to_i
end
raise "no games" if won <= 0
puts "items #{ARGV[1]} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""
YEARS = 22


def advice(place):
    port, chance = place.port(), random.Random(64)
    moves = ("e4_e5", "Nf3_Nc6", "Bb5_a6", "d4_d5", "c4_e6", "Nc3_Nf6", "O-O_Be7", "Re1_b5", "h3_Bb7", "Bg5_h6")
    game = [" ".join(chance.choices(moves, k=60)) + chance.choice((" 1-0\n", " 0-1\n", " 1/2-1/2\n")) for _ in range(2500)]
    for year in range(1, YEARS + 1):
        chance.shuffle(game)
        text = "".join(game).encode() * 10
        with (place.folder / f"games-{1980 + year}.pgn").open("wb") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
            # The archive is much larger than the memory; here its pages are given up instead.
            os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    place.start(place.c("archive", ARCHIVE), port, 0 if place.fixed else 1, port=port)
    return [str(place.write("openings", OPENINGS)), str(port), str(YEARS)]


# Sends the clocks of all boards to every spectator, ten times a second.
CLOCKS = """
import asyncio, json, sys, time
import websockets

spectators = set()

async def watch(socket, path=None):
    spectators.add(socket)
    try:
        await socket.wait_closed()
    finally:
        spectators.discard(socket)

async def main():
    async with websockets.serve(watch, "127.0.0.1", int(sys.argv[1]), compression=None):
        tick = time.monotonic()
        while True:
            tick += 0.1
            await asyncio.sleep(tick - time.monotonic())
            websockets.broadcast(spectators, json.dumps({"white": 5400 - int(tick) % 5400, "black": 5100, "boards": list(range(20))}))

asyncio.run(main())
"""
SPECTATOR = """
import asyncio, json, sys, time
import websockets

async def watch():
    async with websockets.connect(f"ws://127.0.0.1:{sys.argv[1]}/clocks", compression=None) as socket:
        for _ in range(int(sys.argv[2])):
            json.loads(await socket.recv())

async def main():
    start = time.monotonic()
    await asyncio.gather(*(watch() for _ in range(5)))
    print(f"items {sys.argv[2]} seconds {time.monotonic() - start:.3f}")

asyncio.run(main())
"""


def clocks(place):
    port = place.port()
    place.start(PYTHON, place.write("clocks.py", CLOCKS), port, port=port)
    front = nginx(place, f"""location / {{
        proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }}""")
    return [PYTHON, str(place.write("spectator.py", SPECTATOR)), str(front), "38"]


# Tells what a player wins or loses with a result.
ELO = """
package main

import ("fmt"; "math"; "net/http"; "os"; "strconv")

func main() {
	http.HandleFunc("/expected", func(w http.ResponseWriter, r *http.Request) {
		own, _ := strconv.ParseFloat(r.FormValue("own"), 64)
		other, _ := strconv.ParseFloat(r.FormValue("other"), 64)
		fmt.Fprintf(w, "{\\"expected\\": %.3f}\\n", 1 / (1 + math.Pow(10, (other - own) / 400)))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def ratings(place):
    port, front = place.port(), place.port()
    place.start(place.go("elo", ELO), port, port=port)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 2
defaults
    mode http
    http-reuse always
    timeout connect 5s
    timeout client 30s
    timeout server 30s
listen ratings
    bind 127.0.0.1:{front}
    server elo 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return wrk(f"http://127.0.0.1:{front}/expected?own=2210&other=2105", 32, place.seconds)


NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="chess_engine_per_game",
        kind="fork-of-large-process",
        truth="dispatcher, in python, computes in the kernel: for each engine that it starts it "
              "forks, because of a hook before exec, and copies the page tables of its opening book",
        load=forks,
        rate=ITEMS,
        component=(r"dispatcher", r"python"),
        mechanism=(r"fork", r"\bv?clone", r"page.?table", r"copy_p", r"dup_mm", r"page.?fault", r"cop(y|ies) ",
                   r"address space", r"(starts?|starting|creat\w+|spawns?) [^;]*(process|child|engine|program)",
                   r"in the kernel", r"system (call|time)"),
        never=(*DISK, r"engine (\([^)]*\) )?(computes|runs its own code|sleeps)", r"(dispatcher|python\S*) (\([^)]*\) )?sleeps",
               r"redis\S* (\([^)]*\) )?(computes|runs its own code)"),
        needs=("redis-server", "perl", "gcc", "nice", PYTHON),
    ),
    System(
        name="chess_banned_addresses",
        kind="linear-firewall-rules",
        truth="the kernel computes: it compares each packet between arena, haproxy and games with "
              "9000 firewall rules, one for each banned address, within their calls that send",
        load=fence,
        rate=ITEMS,
        component=(r"haproxy", r"\bgames\b", r"\barena\b", r"kernel", r"soft.?irq", r"\bnft", r"netfilter", r"firewall"),
        mechanism=(r"\bnft?_", r"netfilter", r"nf_?tables", r"firewall", r"packet filter", r"\brules?\b", r"soft.?irq",
                   r"(each|per|every) packet", r"in the kernel", r"system (call|time)", r"\b(send|write)\w*\(?\)?[^;]*comput",
                   r"comput[^;]*\b(send|write)"),
        never=(*DISK, r"(haproxy|games|arena) (\([^)]*\) )?sleeps"),
        running=True,
        needs=("nft", "nsenter", "unshare", "haproxy", "go"),
    ),
    System(
        name="chess_rating_report",
        kind="thread-pool-stall",
        truth="the queries of gunicorn wait in mariadbd for a worker of its thread pool, whose "
              "only group has one thread, which computes the reports of nightly, until the report "
              "ends or a timer notices the stall after 500 ms",
        load=groups,
        rate=WRK,
        component=(r"mariadbd", r"mysqld", r"thread.?pool"),
        mechanism=(*RUNS, *LOCKS, r"thread.?pool", r"\bpool\b", r"queue", r"timer", r"until a time", r"stall", r"worker",
                   r"for one another", r"requests? waits?", r"one (\w+ )?(thread|group)"),
        never=(*DISK, r"(gunicorn|nginx)\S* (\([^)]*\) )?(computes|runs its own code)"),
        running=True,
        needs=("mariadbd", "mariadb", "mariadb-install-db", "/usr/bin/gunicorn", "nginx", "wrk"),
    ),
    System(
        name="chess_boards_of_the_hall",
        kind="ephemeral-ports-exhausted",
        truth="the workers of php-fpm sleep 50 ms after each connection to redis that fails, "
              "because each page opens a new one and only 800 local ports are allowed for them",
        load=ports,
        rate=WRK,
        component=(r"php", r"\bboards?\b"),
        mechanism=(r"sleep", r"timer", r"until a time", r"\bports?\b", r"EADDRNOTAVAIL", r"[Cc]annot assign", r"connect",
                   r"retr(y|ies)", r"tries again"),
        never=(*DISK, r"redis\S* (\([^)]*\) )?(computes|runs its own code|sleeps)", r"php\S* (\([^)]*\) )?(computes|runs its own code)"),
        needs=("redis-server", "redis-cli", f"/usr/sbin/{PHP_FPM}", "lighttpd", "nsenter", "unshare", "sysctl", "wrk"),
    ),
    System(
        name="chess_openings_by_year",
        kind="read-ahead-disabled",
        truth="archive waits for the disk: it reads its mapped files from start to end, but page "
              "by page in faults, because they are advised for random access without read-ahead",
        load=advice,
        rate=ITEMS,
        component=(r"archive",),
        mechanism=(r"\bdisk", r"page.?fault", r"\bfaults\b", r"read.?ahead", r"reads?\b[^;]*\bpages?\b", r"\bpages?\b[^;]*\breads?\b",
                   r"\bI/O\b", r"\bvda\b", r"mmap|mapped", r"folio"),
        never=(r"archive (\([^)]*\) )?(sleeps|runs its own code|computes)", r"ruby (\([^)]*\) )?(sleeps|computes)",
               r"writeback", r"\bsyncs?\b"),
        needs=("gcc", "ruby"),
    ),
    System(
        name="control_chess_clocks",
        kind="control",
        truth="clocks.py, in python, sends the clocks of all boards to its spectators each 100 ms "
              "by intention; nginx passes them on, and all are idle most of the time",
        load=clocks,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by", r"(clocks|python).*(sleep|timer|until a time|waits? for its)", r"\bidle\b"),
        needs=("nginx", PYTHON),
    ),
    System(
        name="control_chess_elo",
        kind="control",
        truth="elo, in go, answers what haproxy passes on over kept connections; both CPUs are "
              "full of wrk, haproxy and elo, which all compute",
        load=ratings,
        rate=WRK,
        acceptable=(*NOTHING, r"(elo|haproxy|wrk).*(comput|runs its own code|\buser\b|in the kernel|system (call|time))",
                    r"([Bb]oth|[Aa]ll|[Tt]he) CPUs", r"load generator", r"\bCPUs? (is|are) (full|busy)", r"waits? for a (free )?CPU"),
        needs=("haproxy", "go", "wrk"),
    ),
]

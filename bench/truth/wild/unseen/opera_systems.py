"""An opera house: its ticketing, its lights, its recordings and their archive. Five faults, and two
healthy parts of the same house.
"""
import random
import time
from pathlib import Path

from services import mariadb, nginx, private_network, redis
from system import ITEMS, PYTHON, SLEEPS, WRK, System, wrk

# The plan of seats of an evening, by blocks, for the pages of the ticket shop behind nginx.
SEATPLAN = """#!/usr/bin/ruby
require "socket"
require "json"

RELEASE = ARGV[1] == "release"
SEATS = (0...40).map { |block| (0...12).map { |seat| { seat: block * 12 + seat, price: 18 + (seat * 7 + block * 3) % 160 } } }

def answer(link, evening)
  rows = 3.times.map { |row| JSON.generate(SEATS[(evening + row) % 40]) }
  link.write("HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n")
  link.write("Content-Length: #{rows.sum(&:bytesize) + 4}\\r\\n\\r\\n[")
  rows.each_with_index { |row, number| link.write(number.zero? ? row : ",#{row}") }
  link.write("]")
  return unless RELEASE
  link.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_CORK, 0)
  link.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_CORK, 1)
end

def serve(link)
  # The parts of an answer go into one packet.
  link.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_CORK, 1)
  while (request = link.gets)
    while (line = link.gets) && line != "\\r\\n"; end
    answer(link, request[/evening=(\\d+)/, 1].to_i)
  end
rescue SystemCallError
  link.close
end

server = TCPServer.new("127.0.0.1", ARGV[0].to_i)
server.listen(100)
loop { Thread.new(server.accept) { |link| serve(link) } }
"""


def seats(place):
    port = place.port()
    place.start(place.write("seatplan", SEATPLAN), port, "release" if place.fixed else "keep", port=port)
    front = nginx(place, """
  location / { proxy_pass http://seatplan; proxy_http_version 1.1; proxy_set_header Connection ""; }""", f"""
  upstream seatplan {{ server 127.0.0.1:{port}; keepalive 32; }}""")
    return wrk(f"http://127.0.0.1:{front}/plan?evening=17", 8, place.seconds)


# The recordings of a season come with the lower layer of a container. Each is checked, and then made
# readable only.
HANDOVER = """#!/usr/bin/python3
import hashlib, os, sys, time

folder = sys.argv[1]
begin, names = time.monotonic(), sorted(os.listdir(folder))
with open(sys.argv[2], "w") as sums:
    for name in names:
        path = os.path.join(folder, name)
        with open(path, "rb") as tape:
            total = hashlib.sha256(tape.read())
        os.chmod(path, 0o440)
        print(total.hexdigest(), name, file=sums)
print(f"items {len(names)} seconds {time.monotonic() - begin:.3f}")
"""
TAPES, TAPE_SIZE = 50, 16 << 20


def layers(place):
    lower, upper, work, merged = (place.folder / name for name in ("image", "changes", "scratch", "season"))
    for folder in (lower, upper, work, merged):
        folder.mkdir()
    tone = bytes((i * i // 700 + i * 13) % 251 for i in range(1 << 18))
    for tape in range(TAPES):
        with (lower / f"act{tape:03}.wav").open("wb") as out:
            for block in range(TAPE_SIZE // len(tone)):
                shift = (tape * 977 + block * 131) % len(tone)
                out.write(tone[shift:] + tone[:shift])
    place.run("sync", "-f", lower)
    options = f"lowerdir={lower},upperdir={upper},workdir={work},metacopy={'on' if place.fixed else 'off'}"
    inside = private_network(place, f"mount -t overlay -o {options} season {merged}")
    return [*inside, str(place.write("handover", HANDOVER)), str(merged), str(place.folder / "sums")]


# Somebody looked for a missing poster with strace, and left it running.
def posters(place):
    (place.folder / "posters").mkdir()
    for number in range(50):
        circles = "<circle r='4'/>" * 150
        place.write(f"posters/{number}.svg", f"<svg><text>Evening {number}</text>{circles}</svg>", mode=0o644)
    front = nginx(place, f"location / {{ root {place.folder}; }}")
    if not place.fixed:
        master = int((place.folder / "nginx.pid").read_text())
        workers = [int(pid) for pid in Path(f"/proc/{master}/task/{master}/children").read_text().split()]
        lines = place.folder / "missing-poster.txt"
        place.start("strace", "-f", "-o", lines, *[word for pid in (master, *workers) for word in ("-p", pid)], path=lines)
        for pid in workers:
            while "TracerPid:\t0" in Path(f"/proc/{pid}/status").read_text():
                time.sleep(0.02)
    script = place.write("visitors.lua", """
local poster = 0
request = function()
  poster = (poster + 1) % 50
  return wrk.format("GET", "/posters/" .. poster .. ".svg")
end
""")
    load = wrk(f"http://127.0.0.1:{front}", 8, place.seconds)
    return [*load[:1], "-s", str(script), *load[1:]]


# An encoder takes the recordings of rehearsals from beanstalkd. `hush` keeps the rack cool, and its
# fans quiet, while microphones are open on the stage.
ENCODER = """#!/usr/bin/python3
import lzma, os, socket, sys

port, tapes, archive = sys.argv[1:]
queue = socket.create_connection(("127.0.0.1", int(port)))
queue.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
answers = queue.makefile("rb")

def ask(text):
    queue.sendall(text.encode())
    return answers.readline().decode().split()

ask("watch takes\\r\\n")
ask("use encoded\\r\\n")
os.mkdir(archive)
while True:
    number, size = ask("reserve\\r\\n")[1:]
    take = answers.read(int(size) + 2).decode().strip()
    with open(f"{tapes}/{int(take) % 8}.pcm", "rb") as tape:
        packed = lzma.compress(tape.read(), preset=1)
    with open(f"{archive}/{take}.xz", "wb") as out:
        out.write(packed)
    ask(f"put 100 0 60 {len(take)}\\r\\n{take}\\r\\n")
    ask(f"delete {number}\\r\\n")
"""
HUSH = """#!/usr/bin/perl
use strict;
my ($encoder, $quiet) = @ARGV;
$SIG{TERM} = sub { kill CONT => $encoder; exit };
while (kill STOP => $encoder) {
    select undef, undef, undef, $quiet;
    kill CONT => $encoder;
    select undef, undef, undef, 0.05;
}
"""
REHEARSAL = """#!/usr/bin/python3
import socket, sys, time

port, takes = map(int, sys.argv[1:])
queue = socket.create_connection(("127.0.0.1", port))
queue.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
answers = queue.makefile("rb")

def ask(text):
    queue.sendall(text.encode())
    return answers.readline().decode().split()

ask("use takes\\r\\n")
ask("watch encoded\\r\\n")
begin = time.monotonic()
for take in range(takes):
    ask(f"put 100 0 60 {len(str(take))}\\r\\n{take}\\r\\n")
for take in range(takes):
    number, size = ask("reserve\\r\\n")[1:]
    answers.read(int(size) + 2)
    ask(f"delete {number}\\r\\n")
print(f"items {takes} seconds {time.monotonic() - begin:.3f}")
"""


def rehearsal(place):
    queue, archive = place.port(), place.folder / "archive"
    place.start("beanstalkd", "-l", "127.0.0.1", "-p", queue, port=queue)
    (place.folder / "tapes").mkdir()
    for tape in range(8):
        samples = bytes((i * (tape + 3) // 9 + i * i // 5000) % 241 for i in range(120000))
        (place.folder / f"tapes/{tape}.pcm").write_bytes(samples)
    encoder = place.start(place.write("encoder", ENCODER), queue, place.folder / "tapes", archive, path=archive)
    if not place.fixed:
        place.start(place.write("hush", HUSH), encoder.pid, 0.15 * place.fault)
    return [str(place.write("rehearsal", REHEARSAL)), str(queue), "100"]


# The till opens a connection to mariadb, through haproxy, for each sale. haproxy also refuses
# browsers and scanners, which talk HTTP to the port of the database.
TILL = """
import pymysql
from flask import Flask, jsonify

app = Flask(__name__)

@app.get("/sale/<int:seat>")
def sale(seat):
    base = pymysql.connect(host="127.0.0.1", port=PORT, user="root", database="test", autocommit=True)
    with base.cursor() as cursor:
        cursor.execute("select price, sold from seats where id = %s", (seat,))
        price, sold = cursor.fetchone()
    base.close()
    return jsonify(price=price, sold=sold)
"""
CUSTOMERS = """
local seat = 0
request = function()
  seat = seat % 1900 + 7
  return wrk.format("GET", "/sale/" .. seat)
end
"""


def tills(place):
    base = mariadb(place, """
        create table seats (id int primary key, price int, sold int);
        insert into seats select seq, 18 + seq * 7 % 160, seq % 3 = 0 from seq_1_to_2000;""")
    guard, port = place.port(), place.port()
    wait = "" if place.fixed else f"tcp-request inspect-delay {round(120 * place.fault)}ms"
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode tcp
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend tills
    bind 127.0.0.1:{guard}
    {wait}
    tcp-request content reject if HTTP
    default_backend seats
backend seats
    server seats 127.0.0.1:{base}
""")
    place.start("haproxy", "-db", "-f", config, port=guard)
    place.write("till.py", TILL.replace("PORT", str(guard)))
    place.start("/usr/bin/gunicorn", "-w", "2", "--threads", "8", "-b", f"127.0.0.1:{port}", "--chdir", place.folder, "till:app",
                port=port)
    load = wrk(f"http://127.0.0.1:{port}", 8, place.seconds)
    return [*load[:1], "-s", str(place.write("customers.lua", CUSTOMERS)), *load[1:]]


# Control: surtitles. The conductor's clock sends a line each 80 ms over redis and node to twelve
# screens, which wait for it.
SURTITLES = """
const http = require("http");
const net = require("net");
const [port, lines] = process.argv.slice(2).map(Number);
const screens = new Set();
const store = net.connect({ port: lines, host: "127.0.0.1", noDelay: true });
let rest = "";

store.write("SUBSCRIBE surtitles\\r\\n");
store.on("data", data => {
  const parts = (rest + data).split("\\r\\n");
  rest = parts.pop();
  for (const part of parts)
    if (part.startsWith("line "))
      for (const screen of screens) screen.write(`data: ${part}\\n\\n`);
});
http.createServer((request, response) => {
  response.socket.setNoDelay(true);
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  response.write(": welcome\\n\\n");
  screens.add(response);
  response.on("close", () => screens.delete(response));
}).listen(port, "127.0.0.1");
"""
CONDUCTOR = """
package main

import ("bufio"; "fmt"; "net"; "net/http"; "os"; "strconv"; "strings"; "sync"; "time")

func screen(url string, lines int, ready, all *sync.WaitGroup) {
	defer all.Done()
	answer, err := http.Get(url)
	if err != nil || answer.StatusCode != 200 {
		panic("no surtitles")
	}
	defer answer.Body.Close()
	text := bufio.NewScanner(answer.Body)
	for seen := 0; seen < lines && text.Scan(); {
		if strings.HasPrefix(text.Text(), ": welcome") {
			ready.Done()
		} else if strings.HasPrefix(text.Text(), "data: line") {
			seen++
		}
	}
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[3], 64)
	lines := int(seconds * 12.5)
	store, err := net.Dial("tcp", "127.0.0.1:" + os.Args[2])
	if err != nil {
		panic(err)
	}
	replies := bufio.NewReader(store)
	var ready, all sync.WaitGroup
	for i := 0; i < 12; i++ {
		ready.Add(1)
		all.Add(1)
		go screen("http://127.0.0.1:" + os.Args[1] + "/", lines, &ready, &all)
	}
	ready.Wait()
	begin := time.Now()
	clock := time.NewTicker(80 * time.Millisecond)
	for line := 0; line < lines; line++ {
		<-clock.C
		text := fmt.Sprintf("line %d: Nessun dorma", line)
		fmt.Fprintf(store, "*3\\r\\n$7\\r\\nPUBLISH\\r\\n$9\\r\\nsurtitles\\r\\n$%d\\r\\n%s\\r\\n", len(text), text)
		replies.ReadString('\\n')
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", lines, time.Since(begin).Seconds())
}
"""


def surtitles(place):
    store, port = redis(place), place.port()
    place.start("node", place.write("surtitles.js", SURTITLES), port, store, port=port)
    front = nginx(place, f"""
  location / {{ proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1; proxy_buffering off; }}""")
    return [str(place.go("conductor", CONDUCTOR)), str(front), str(store), str(place.seconds)]


# Control: a season is packed for the archive. tar waits for zstd, whose threads fill all CPUs.
SEASON = """#!/bin/bash
set -eo pipefail
tar -C "$1" -cf - recordings | zstd -q -T0 -12 -B4MiB | tee season.tar.zst | sha256sum > season.sum
"""


def season(place):
    (place.folder / "recordings").mkdir()
    cues = [f"{number:04} cue {number * 37 % 127};" for number in range(4096)]
    for evening in range(60):
        words = random.Random(evening).choices(cues, k=150000)
        place.write(f"recordings/evening{evening:03}.cues", "\n".join(words), mode=0o644)
    return [str(place.write("packseason", SEASON)), str(place.folder)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="opera_seats_held_back",
        kind="cork-not-released",
        truth="the kernel holds the last part of each reply of seatplan, in ruby, back for 200 ms, "
              "because seatplan sets TCP_CORK and does not release it after a reply; nginx and wrk "
              "wait for the rest",
        load=seats,
        rate=WRK,
        component=(r"seatplan", r"\bruby\b"),
        mechanism=(r"timer", r"\bcork", r"held back", r"holds? back", r"hold(s|ing)?\b", r"\b(19|20|21)\d(\.\d+)? ms",
                   r"unsent", r"not (yet )?sent", r"retransmi", r"(tail|end|rest|last (part|segment|packet)) of",
                   r"small (write|packet|segment)", r"partial"),
        never=(r"delayed.?ack", r"(seatplan|ruby|nginx) (\([^)]*\) )?computes", r"\block\b", r"mutex", r"for the disk"),
        needs=("nginx", "ruby", "wrk"),
    ),
    System(
        name="opera_recordings_copied_up",
        kind="overlay-copy-up",
        truth="each chmod of handover, in python, copies a whole recording of 16 MB from the lower "
              "layer of an overlay into its upper one and syncs it to the disk, because the overlay "
              "is mounted without metacopy",
        load=layers,
        rate=ITEMS,
        component=(r"handover", r"python", r"overlay", r"\bovl"),
        mechanism=(r"chmod", r"\bcop(y|ies|ied|ying)\b", r"overlay", r"\bovl_", r"\bsync", r"fsync", r"writes?\b", r"writeback",
                   r"writing", r"(for|by) the disk", r"block device", r"splice"),
        never=(r"(handover|python\S*) (\([^)]*\) )?(sleeps|waits for a (lock|timer))", r"\breads? from the disk", r"sha256"),
        needs=("unshare", "nsenter", "mount", PYTHON),
    ),
    System(
        name="opera_posters_watched",
        kind="tracer-left-attached",
        truth="strace, which somebody left attached to nginx, stops the worker of nginx at the "
              "beginning and at the end of each system call until it has written a line",
        load=posters,
        rate=WRK,
        component=(r"strace", r"nginx"),
        mechanism=(r"strace", r"ptrace", r"\btrac(ed|er|ing)\b", r"debugg", r"\bstop(s|ped|ping)?\b"),
        never=(r"\block\b", r"mutex", r"for the disk", r"nginx (\([^)]*\) )?(sleeps|computes|runs its own code)",
               r"wrk (\([^)]*\) )?(sleeps|computes)"),
        needs=("nginx", "strace", "wrk"),
    ),
    System(
        name="opera_encoder_must_be_quiet",
        kind="stopped-by-signals",
        truth="hush, in perl, stops the encoder, in python, with SIGSTOP for 150 ms and lets it go on "
              "for 50 ms, again and again; rehearsal waits for the encoder meanwhile",
        load=rehearsal,
        rate=ITEMS,
        component=(r"encoder", r"\bhush\b"),
        mechanism=(r"\bstop(s|ped|ping)?\b", r"SIG(STOP|CONT)", r"\bsignal", r"suspend", r"\bpaused?\b", r"job control",
                   r"\bfr(ee|o)ze", r"\bhush\b[^;]*(sleep|timer|until a time)"),
        never=(r"encoder (\([^)]*\) )?(computes|runs its own code|sleeps)", r"\block\b", r"for the disk",
               r"beanstalkd (\([^)]*\) )?(sleeps|computes)"),
        halves=True,
        needs=("beanstalkd", "perl", PYTHON),
    ),
    System(
        name="opera_tills_say_nothing_first",
        kind="inspection-timer",
        truth="haproxy waits 120 ms, until its inspect-delay ends, for the first bytes of the client "
              "of each new connection, to see whether it is HTTP, but in mariadb's protocol the server "
              "talks first, so both sides wait",
        load=tills,
        rate=WRK,
        component=(r"haproxy",),
        mechanism=(*SLEEPS, r"inspect", r"time-?out", r"times out", r"\bdelay", r"epoll_wait", r"first (bytes?|data|packet)",
                   r"greet", r"handshake"),
        never=(r"delayed.?ack", r"(mariadbd?|haproxy|gunicorn|wrk) (\([^)]*\) )?(computes|runs its own code)", r"\block\b",
               r"for the disk", r"\bpool\b"),
        halves=True,
        needs=("haproxy", "mariadbd", "/usr/bin/gunicorn", "wrk"),
    ),
    System(
        name="control_opera_surtitles",
        kind="control",
        truth="healthy: conductor, in Go, sends a line each 80 ms by its own clock; redis, node and "
              "nginx pass it to twelve screens within a few milliseconds, and all are idle most of "
              "the time",
        load=surtitles,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by conductor", r"\bconductor\b.*(sleep|timer|until a time|clock|paced)", r"\bidle\b",
                    r"load generator"),
        needs=("nginx", "node", "redis-server", "go"),
    ),
    System(
        name="control_opera_season_packed",
        kind="control",
        truth="healthy: the threads of zstd fill all CPUs with the compression of a season; tar, "
              "before it in the pipe, and tee and sha256sum, after it, wait for it most of the time",
        load=season,
        acceptable=(*NOTHING, rf"zstd.*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("tar", "zstd", "bash"),
    ),
]

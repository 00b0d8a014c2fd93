"""The computers of an ore mine: five faults of its payroll, maps, pumps and gates, and two healthy
parts of the same mine.
"""
from services import nginx, redis
from system import COMPUTES as RUNS
from system import ITEMS, LOCKS, PYTHON, WRK, System, wrk

DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Keeps all shifts of the year in memory, and replies with the pay of a miner for each seam.
WAGEBOOK = """
package main

import ("encoding/json"; "fmt"; "net/http"; "os"; "strconv")

type Shift struct {
	Day, Seam string
	Hours, Allowance float64
	Next *Shift
}

type Line struct {
	Day, Seam string
	Pay, Tax, Pension float64
}

var miners = map[int]*Shift{}

func main() {
	for miner := 0; miner < 4000; miner++ {
		for day := 0; day < 240; day++ {
			miners[miner] = &Shift{fmt.Sprintf("day %d", day), fmt.Sprintf("seam %d", (miner + day) % 31), 7.5, float64(day % 5), miners[miner]}
		}
	}
	http.HandleFunc("/wages", func(w http.ResponseWriter, r *http.Request) {
		miner, _ := strconv.Atoi(r.URL.Query().Get("miner"))
		lines := []*Line{}
		for shift := miners[miner % 4000]; shift != nil; shift = shift.Next {
			pay := shift.Hours * 31.4 + shift.Allowance
			lines = append(lines, &Line{shift.Day, shift.Seam, pay, pay * 0.2, pay * 0.09})
		}
		seams := map[string]float64{}
		for _, line := range lines {
			seams[line.Seam] += line.Pay - line.Tax - line.Pension
		}
		text, _ := json.Marshal(seams)
		w.Header().Set("Content-Type", "application/json")
		w.Write(text)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""
MINERS = """
local miner = 0
request = function()
  miner = (miner + 37) % 4000
  return wrk.format("GET", "/wages?miner=" .. miner)
end
"""


def wages(place):
    port = place.port()
    percent = "200" if place.fixed else "2"
    place.start("env", f"GOGC={percent}", place.go("wagebook", WAGEBOOK), port, port=port)
    front = nginx(place, 'location / { proxy_pass http://wages; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream wages {{ server 127.0.0.1:{port}; keepalive 16; }}")
    load = wrk(f"http://127.0.0.1:{front}", 8, place.seconds)
    return [*load[:1], "-s", str(place.write("miners.lua", MINERS)), *load[1:]]


# Answers the pumping stations with the limit of a pump, which is in redis. Meanwhile it fits the
# curves of the pumps to the readings of last month.
PUMPHOUSE = """
import math, multiprocessing, socket, socketserver, sys, threading

port, limits, home = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

class Station(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        store = socket.create_connection(("127.0.0.1", limits))
        for line in self.rfile:
            pump, level = line.split()
            store.sendall(b"GET limit:%s\\r\\n" % pump)
            limit = float(store.recv(100).split()[1])
            self.wfile.write(b"run\\n" if float(level) > limit else b"rest\\n")

class Stations(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True

def fit():
    bend = 0.5
    while True:
        for pump in range(60):
            wrong = 0.0
            for reading in range(300):
                flow = 1 + reading % 40
                wrong += flow ** bend - 3 * math.log(flow + pump)
            bend = min(0.9, max(0.1, bend - wrong * 1e-6))

server = Stations(("127.0.0.1", port), Station)
(threading.Thread if home == "inside" else multiprocessing.Process)(target=fit, daemon=True).start()
server.serve_forever()
"""
STATIONS = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strconv"; "sync"; "sync/atomic"; "time")

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	begin := time.Now()
	var orders atomic.Int64
	var all sync.WaitGroup
	for station := 0; station < 6; station++ {
		link, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
		if err != nil {
			panic(err)
		}
		all.Add(1)
		go func() {
			defer all.Done()
			answers := bufio.NewReader(link)
			for i := 0; time.Since(begin).Seconds() < seconds; i++ {
				fmt.Fprintf(link, "%d %d\\n", (station * 9 + i) % 50, i * 13 % 100)
				if _, err := answers.ReadString('\\n'); err != nil {
					panic(err)
				}
				orders.Add(1)
			}
		}()
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", orders.Load(), time.Since(begin).Seconds())
}
"""


def pumps(place):
    limits, port = redis(place), place.port()
    place.run("redis-cli", "-p", limits, "mset", *[word for pump in range(50) for word in (f"limit:{pump}", 30 + pump)])
    place.start(PYTHON, place.write("pumphouse.py", PUMPHOUSE), port, limits, "outside" if place.fixed else "inside", port=port)
    return [str(place.go("stations", STATIONS)), str(port), str(place.seconds)]


# Finds the blocks of each seam that are rich and not yet dug; a map has a bit for each block.
SEAMS = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
use Time::HiRes "time";

my ($port, $count) = @ARGV;
my $maps = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port) or die "no maps";

sub ask {
    my $text = "*" . @_ . "\\r\\n" . join("", map { "\\$" . length($_) . "\\r\\n$_\\r\\n" } @_);
    print $maps $text;
    $maps->flush;
    return scalar <$maps>;
}

my $begin = time;
for my $seam (0 .. $count - 1) {
    ask("BITOP", "AND", "found:$seam", "rich:" . $seam % 3, "solid:" . $seam % 2);
    ask("BITCOUNT", "found:$seam", 0, 4095);
    ask("DEL", "found:$seam");
}
printf "items %d seconds %.3f\\n", $count, time - $begin;
"""


def seams(place):
    port = place.port()
    decay = 10000 if place.fixed else 0
    place.start("env", f"MALLOC_CONF=dirty_decay_ms:{decay},muzzy_decay_ms:{decay}", "redis-server", "--port", port, "--bind", "127.0.0.1",
                "--save", "", "--appendonly", "no", "--dir", place.folder, port=port)
    for name in ("rich:0", "rich:1", "rich:2", "solid:0", "solid:1"):
        for bit in (5, 70007, 33000001):
            place.run("redis-cli", "-p", port, "setbit", name, bit, 1)
    return [str(place.write("seams", SEAMS)), str(port), "2000"]


# The firmware of the pumps is built from a fresh copy of its sources.
CHECKS = {
    "include_file": ("termios.h", "poll.h", "sys/epoll.h", "sys/ioctl.h", "linux/serial.h", "sys/timerfd.h", "sys/eventfd.h", "sched.h", "syslog.h",
                     "sys/prctl.h", "sys/uio.h", "net/if.h", "netinet/tcp.h", "semaphore.h", "mqueue.h", "sys/resource.h", "sys/mman.h"),
    "function_exists": ("clock_nanosleep", "ppoll", "cfmakeraw", "getrandom", "timerfd_create", "eventfd", "strlcpy", "pipe2", "accept4",
                        "mlockall", "sched_setscheduler"),
}
UNIT = """
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "config.h"

NAMES
int unit_NUMBER(double level) { return (int)(TERMS); }
"""
BUILDER = """#!/bin/sh
set -e
cmake -G Ninja INITIAL -S pumps -B out > configure.txt
ninja -C out > build.txt
"""


def firmware(place):
    (place.folder / "pumps").mkdir()
    names = [(kind, name, "HAVE_" + name.upper().replace("/", "_").replace(".", "_")) for kind, all_names in CHECKS.items() for name in all_names]
    checks = "\n".join(f"check_{kind}({name} {variable})" for kind, name, variable in names)
    place.write("pumps/CMakeLists.txt", f"""
cmake_minimum_required(VERSION 3.16)
project(pumps C)
set(CMAKE_BUILD_TYPE Release)
include(CheckIncludeFile)
include(CheckFunctionExists)
{checks}
configure_file(config.h.in config.h)
include_directories(${{CMAKE_CURRENT_BINARY_DIR}})
add_executable(pumpctl main.c {" ".join(f"unit{number}.c" for number in range(8))})
target_link_libraries(pumpctl m)
""")
    place.write("pumps/config.h.in", "".join(f"#cmakedefine {variable}\n" for _, _, variable in names))
    for number in range(8):
        parts = range(60)
        functions = "\n".join(f"""static double stage_{part}(double level) {{
    double sum = 0;
    for (int i = 0; i < {part + 20}; i++)
        sum += sin(level * i + {part}.{number}) * sqrt(level + i) + (i % 3 ? level / (i + 1) : fmod(level, i + 2));
    return sum;
}}""" for part in parts)
        terms = " + ".join(f"stage_{part}(level)" for part in parts)
        place.write(f"pumps/unit{number}.c", UNIT.replace("NAMES", functions).replace("NUMBER", str(number)).replace("TERMS", terms))
    calls = " + ".join(f"unit_{number}(count)" for number in range(8))
    declared = "".join(f"int unit_{number}(double);\n" for number in range(8))
    place.write("pumps/main.c", f"{declared}int main(int count, char **words) {{ return ({calls}) % 7; }}\n")
    # strlcpy is not in every C library.
    known = "".join(f'set({variable} {"" if name == "strlcpy" else 1} CACHE INTERNAL "")\n' for _, name, variable in names)
    place.write("toolchain-results.cmake", known)
    return [str(place.write("firmware", BUILDER.replace("INITIAL", "-C toolchain-results.cmake" if place.fixed else "")))]


# The gates ask for the PIN of each miner; the boards in the galleries ask for the gas readings.
LAMPROOM = """
const http = require("http");
const crypto = require("crypto");
const [port, mode] = process.argv.slice(2);
const cost = { N: 32768, r: 8, p: 1, maxmem: 128 * 1024 * 1024 };
const pins = new Map();
const gas = Array.from({ length: 40 }, (_, i) => ({ gallery: i, methane: i % 9 / 10, oxygen: 20.9 }));

function enter(miner, response) {
  const finish = key => {
    pins.set(miner, key.toString("hex"));
    response.end("open\\n");
  };
  if (mode === "pool") crypto.scrypt("pin" + miner, "salt" + miner, 32, cost, (problem, key) => finish(key));
  else finish(crypto.scryptSync("pin" + miner, "salt" + miner, 32, cost));
}

http.createServer((request, response) => {
  if (request.url.startsWith("/gate/")) enter(request.url.slice(6), response);
  else response.end(JSON.stringify(gas));
}).listen(Number(port), "127.0.0.1");
"""
GATE = """
import http.client, sys

room = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
miner = 0
while True:
    room.request("GET", f"/gate/{miner % 900}")
    room.getresponse().read()
    open("gate-open", "w").close()
    miner += 1
"""


def gates(place):
    port = place.port()
    place.start("node", place.write("lamproom.js", LAMPROOM), port, "pool" if place.fixed else "direct", port=port)
    place.start(PYTHON, place.write("gate.py", GATE), port, path=place.folder / "gate-open")
    return wrk(f"http://127.0.0.1:{port}/gas", 6, place.seconds)


# Control: plans the shifts of the crews on both CPUs, with garbage that a roomy heap takes easily.
ROSTER = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;

public class Main {
    record Turn(int miner, int day, long cost) {}

    static String plan(int crew) {
        List<Turn> turns = new ArrayList<>();
        for (int miner = 0; miner < 40; miner++)
            for (int day = 0; day < 28; day++) {
                long cost = crew;
                for (int i = 0; i < 60; i++)
                    cost = cost * 6364136223846793005L + miner * 31 + day;
                turns.add(new Turn(miner, day, cost >>> 40));
            }
        turns.sort((a, b) -> Long.compare(a.cost, b.cost));
        StringBuilder text = new StringBuilder();
        for (Turn turn : turns.subList(0, 100))
            text.append(turn.miner).append(' ').append(turn.day).append('\\n');
        return text.toString();
    }

    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 100);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/crew", exchange -> {
            byte[] text = plan(exchange.getRequestURI().getPath().hashCode()).getBytes();
            exchange.sendResponseHeaders(200, text.length);
            exchange.getResponseBody().write(text);
            exchange.close();
        });
        server.start();
    }
}
"""


def roster(place):
    port = place.port()
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Xmx600m", "-Xmn300m", "-XX:+UseParallelGC", "-cp", place.java(ROSTER), "Main", port,
                port=port)
    # The compiler of java has done its work before the run.
    place.run(*wrk(f"http://127.0.0.1:{port}/crew/1", 8, 3))
    return wrk(f"http://127.0.0.1:{port}/crew/7", 8, place.seconds)


# Control: twelve miners at a time hold their tags to a reader, and walk to the next one.
TAGS = """
import asyncio, sys
from aiohttp import web
from redis.asyncio import Redis

async def seen(request):
    tag = request.match_info["tag"]
    await request.app["places"].hset("last", tag, request.match_info["reader"])
    return web.json_response({"tag": tag, "visits": await request.app["places"].incr("visits:" + tag)})

app = web.Application()
app["places"] = Redis(host="127.0.0.1", port=int(sys.argv[2]))
app.router.add_get("/tag/{tag}/{reader}", seen)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
"""
WALKS = """#!/usr/bin/ruby
require "net/http"
port, seconds = ARGV[0].to_i, ARGV[1].to_f
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
visits = 12.times.map do |miner|
  Thread.new do
    count = 0
    Net::HTTP.start("127.0.0.1", port) do |http|
      while Process.clock_gettime(Process::CLOCK_MONOTONIC) < start + seconds
        http.get("/tag/#{miner}/#{count % 30}").body
        count += 1
        sleep 0.08 + (miner * 7 + count * 11) % 60 / 1000.0
      end
    end
    count
  end
end.sum(&:value)
puts format("items %d seconds %.3f", visits, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start)
"""


def tags(place):
    places, port = redis(place), place.port()
    place.start(PYTHON, place.write("tags.py", TAGS), port, places, port=port)
    return [str(place.write("walks", WALKS)), str(port), str(place.seconds)]


BUSY = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="mine_wages_collected_often",
        kind="gc-setting",
        truth="the garbage collector of wagebook, in Go, marks all shifts of the year again each "
              "time the heap has grown by 2 % (GOGC=2), and takes most of the time of the CPUs",
        load=wages,
        rate=WRK,
        component=(r"wagebook",),
        mechanism=(r"\bGC\b", r"garbage", r"GOGC", r"\bgc[A-Z]\w+", r"\bcollect(s|ion|or|ing)\b",
                   r"runtime\.(gc|scan|mark|grey)\w*", r"\bscanobject"),
        never=(*DISK, r"wagebook (\([^)]*\) )?sleeps", r"nginx (\([^)]*\) )?(is the bottleneck|computes)"),
        needs=("nginx", "go", "wrk"),
    ),
    System(
        name="mine_pumps_and_curves",
        kind="interpreter-lock",
        truth="the threads of pumphouse.py that answer the stations wait up to 5 ms for the lock "
              "of the interpreter (GIL) after each system call, because a thread of the same "
              "process computes the curves of the pumps; as a process of its own it would not "
              "disturb them",
        load=pumps,
        rate=ITEMS,
        component=(r"pumphouse", r"python", r"\bGIL\b", r"interpreter"),
        mechanism=(*LOCKS, r"\bGIL\b", r"interpreter", r"wait for each other", r"take turns", r"only one (of|thread)", r"serialis|serializ",
                   r"switch interval"),
        never=(*DISK, r"(pumphouse|python)\S* (\([^)]*\) )?sleeps", r"file lock", r"(redis\S*|stations) (\([^)]*\) )?(is the bottleneck|computes)"),
        running=True,
        needs=(PYTHON, "redis-server", "redis-cli", "go"),
    ),
    System(
        name="mine_maps_given_back",
        kind="page-faults",
        truth="redis is in page faults and madvise most of the time, because its allocator, "
              "jemalloc, gives the map of each BITOP back to the kernel at once "
              "(dirty_decay_ms:0) and gets it anew for the next",
        load=seams,
        rate=ITEMS,
        component=(r"redis",),
        mechanism=(r"page.?fault", r"\bfault(s|ing|ed)?\b", r"madvise", r"munmap", r"\bmmap\b", r"jemalloc", r"allocat", r"\bdecay",
                   r"(gets?|gives?|returns?|takes?|zero(s|es)?|clears?) [^;]*(memory|pages)", r"clear_page", r"(new|fresh) (memory|pages)"),
        never=(*DISK, r"redis\S* (\([^)]*\) )?sleeps", r"(seams|perl) (\([^)]*\) )?(computes|sleeps)"),
        needs=("redis-server", "redis-cli", "perl"),
    ),
    System(
        name="mine_firmware_of_the_pumps",
        kind="serial-configure",
        truth="cmake tries 28 headers and functions one after the other, each with a build of "
              "its own, before ninja may compile the eight sources on both CPUs",
        load=firmware,
        component=(r"cmake", r"configur", r"try_compile", r"cmTC_", r"CheckIncludeFile", r"CheckFunctionExists"),
        mechanism=(r"one (\w+ )?(after|at a) (another|the other|time)", r"one by one", r"serial", r"sequential", r"in turn", r"in sequence",
                   r"\bchild", r"\bstart(s|ed|ing)?\b", r"start-?up", r"spawn", r"\bfork", r"\bexec", r"short-?lived", r"configur", r"try_compile",
                   r"cmTC_", r"\d+ (\w+ )?(process|program|check|test)", r"\bchecks?\b", r"single.thread", r"alone"),
        never=(*DISK, r"\bmemory\b", r"\block\b"),
        needs=("cmake", "ninja", "gcc"),
    ),
    System(
        name="mine_gates_and_gas",
        kind="synchronous-work-in-event-loop",
        truth="the main thread of node (lamproom.js) computes the hash of the PIN of each miner at "
              "the gate itself (scryptSync), and the boards that ask for gas readings wait "
              "until its event loop goes on",
        load=gates,
        rate=WRK,
        component=(r"\bnode\b", r"lamproom"),
        mechanism=(*RUNS, r"scrypt", r"[Ee]vent.?loop", r"synchronous", r"main thread", r"block(s|ed|ing)\b",
                   r"\bcrypto", r"\bhash", r"PKCS5|pbkdf|salsa"),
        never=(*DISK, r"(node|lamproom\S*) (\([^)]*\) )?sleeps", r"(wrk|gate\.py) (\([^)]*\) )?(is the bottleneck|computes)"),
        needs=("node", "wrk"),
    ),
    System(
        name="control_mine_roster",
        kind="control",
        truth="eight threads of java compute the plans of crews on both CPUs, which are full; its "
              "garbage collector takes a few per cent, and no thread waits for another",
        load=roster,
        rate=WRK,
        acceptable=(*NOTHING, rf"(java|Main|HTTP-Dispatcher|pool-\S+|roster).*{BUSY}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs", r"load generator"),
        needs=("java", "javac", "wrk"),
    ),
    System(
        name="control_mine_tags",
        kind="control",
        truth="twelve threads of walks, in ruby, sleep 80 to 140 ms between two visits by "
              "intention; the event loop of tags.py and redis reply at once and are idle most of "
              "the time",
        load=tags,
        rate=ITEMS,
        acceptable=(*NOTHING, r"\b(walks|ruby)\b.*(sleep|timer|until a time|paced|think|pause)",
                    r"[Pp]aced by (walks|ruby)", r"\bidle\b", r"load generator"),
        needs=("redis-server", "ruby", PYTHON),
    ),
]

"""The computers of a small airfield: flight plans, charts, radar tracks and fuel. Five frequent
faults (a heap that is too small, a batch that waits to be filled, a build that starts a program for
each target, a memory limit below the size of a file, a search in a long list), and two healthy
systems.
"""
import contextlib
import os
import time
from pathlib import Path

from services import PHP_FPM, nginx, php
from system import ITEMS, PYTHON, SLEEPS, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
# A number after these words would make them a share in a list, and not a statement.
DISK = r"(waits? for|reads? from|writes? to) (the|a) (disk|device)\b(?! \(?\d)"
LOCK = r"waits? for (the|a) lock\b(?! \(?\d)"
PID = r"(\([^)]*\) )?"


def cpp(place, name, source):
    command = ("g++", "-O2", "-std=c++17", "-pthread", "-o", "{program}", "{source}")
    return place.named(place.built(source, ".cpp", *command), name)


# Keeps all deliveries of fuel in its heap (about 90 MB), and adds up those of one aircraft. Each
# request makes objects that are garbage afterwards.
LEDGER = """
import com.sun.net.httpserver.*;
import java.net.*;
import java.util.*;
import java.util.concurrent.*;

public class Main {
    static final class Delivery {
        final int aircraft;
        final long minute;
        final double litres;
        Delivery(int aircraft, long minute, double litres) {
            this.aircraft = aircraft;
            this.minute = minute;
            this.litres = litres;
        }
    }

    static final Map<Integer, List<Delivery>> LEDGER = new HashMap<>();

    static String balance(int aircraft) {
        List<Delivery> day = new ArrayList<>();
        for (Delivery one : LEDGER.get(aircraft))
            day.add(new Delivery(one.aircraft, one.minute % 1440, one.litres * 1.02));
        double sum = 0;
        for (Delivery one : day) sum += one.litres;
        return day.size() + " deliveries, " + Math.round(sum) + " litres\\n";
    }

    public static void main(String[] words) throws Exception {
        for (int aircraft = 0; aircraft < 200; aircraft++) {
            List<Delivery> all = new ArrayList<>();
            for (int i = 0; i < 12000; i++)
                all.add(new Delivery(aircraft, i * 7919L % 100003, 40 + i % 90));
            LEDGER.put(aircraft, all);
        }
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
        HttpServer server = HttpServer.create(address, 100);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/balance/", exchange -> {
            String path = exchange.getRequestURI().getPath();
            byte[] body = balance(Integer.parseInt(path.substring(9))).getBytes();
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
"""
FUELGATE = """
import http.client
from flask import Flask

app = Flask(__name__)
ledger = http.client.HTTPConnection("127.0.0.1", PORT)

@app.get("/fuel/<int:aircraft>")
def fuel(aircraft):
    ledger.request("GET", f"/balance/{aircraft % 200}")
    return ledger.getresponse().read()
"""


def ledger(place):
    base, gate, front = place.port(), place.port(), place.port()
    heap = "600m" if place.fixed else "106m"
    place.start("java", "-XX:+UseParallelGC", f"-Xmx{heap}", "-Dsun.net.httpserver.nodelay=true",
                "-cp", place.java(LEDGER), "Main", base, port=base)
    place.write("fuelgate.py", FUELGATE.replace("PORT", str(base)))
    place.start("/usr/bin/gunicorn", "-w", "4", "-b", f"127.0.0.1:{gate}", "--chdir", place.folder,
                "fuelgate:app", port=gate)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
listen airfield
    bind 127.0.0.1:{front}
    server fuelgate 127.0.0.1:{gate}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return wrk(f"http://127.0.0.1:{front}/fuel/117", 4, place.seconds)


# Four radar heads report plots, and each waits until its plot is stored.
RADARHEADS = """#!/usr/bin/python3
import http.client, math, os, sys, time

port, seconds = int(sys.argv[1]), float(sys.argv[2])

def plots(head):
    call, count = http.client.HTTPConnection("127.0.0.1", port), 0
    while time.monotonic() < begin + seconds:
        bearing = sum(math.sin(head + count * step / 1e4) for step in range(2500))
        call.request("GET", f"/plot?head={head}&number={count}&bearing={bearing:.4f}")
        answer = call.getresponse()
        text = answer.read()
        if answer.status != 200 or text != b"stored\\n":
            raise SystemExit(f"not stored: {text!r}")
        count += 1
    return count

begin = time.monotonic()
pipes = []
for head in range(4):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, b"%d" % plots(head))
        os._exit(0)
    pipes.append(read)
count = sum(int(os.read(pipe, 20)) for pipe in pipes)
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""
PLOTS = """
const http = require("http");
const [port, relay] = process.argv.slice(2).map(Number);
const agent = new http.Agent({ keepAlive: true });
http.createServer((request, response) => {
  const plot = new URL(request.url, "http://airfield/").searchParams;
  const path = `/track?plot=${plot.get("head")}-${plot.get("number")}-${plot.get("bearing")}`;
  http.get({ host: "127.0.0.1", port: relay, agent, path }, answer => {
    response.writeHead(answer.statusCode);
    answer.pipe(response);
  });
}).listen(port, "127.0.0.1");
"""
RELAY = """
package main

import ("bufio"; "fmt"; "net"; "net/http"; "os")

func main() {
	links := make(chan net.Conn, 8)
	for i := 0; i < cap(links); i++ {
		link, err := net.Dial("tcp", "127.0.0.1:" + os.Args[2])
		if err != nil { panic(err) }
		links <- link
	}
	http.HandleFunc("/track", func(w http.ResponseWriter, r *http.Request) {
		link := <-links
		fmt.Fprintf(link, "%s\\n", r.URL.Query().Get("plot"))
		answer, _ := bufio.NewReader(link).ReadString('\\n')
		links <- link
		fmt.Fprint(w, answer)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""
# Writes tracks in batches: a batch is written when it has 64 tracks, or when a time has passed
# since its first track.
TRACKSTORE = r"""
#include <arpa/inet.h>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <netinet/tcp.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

std::mutex guard;
std::condition_variable arrived, stored;
std::vector<std::string> batch;
long filling = 1, finished = 0;

void write_batches(FILE *file, std::chrono::microseconds linger) {
    std::unique_lock<std::mutex> hold(guard);
    for (;;) {
        arrived.wait(hold, [] { return !batch.empty(); });
        arrived.wait_for(hold, linger, [] { return batch.size() >= 64; });
        std::vector<std::string> full;
        full.swap(batch);
        long number = filling++;
        hold.unlock();
        for (const std::string &track : full) fputs(track.c_str(), file);
        fflush(file);
        hold.lock();
        finished = number;
        stored.notify_all();
    }
}

void serve(int link) {
    FILE *in = fdopen(link, "r");
    char line[256];
    while (fgets(line, sizeof line, in)) {
        std::unique_lock<std::mutex> hold(guard);
        batch.push_back(line);
        long mine = filling;
        arrived.notify_one();
        stored.wait(hold, [mine] { return finished >= mine; });
        hold.unlock();
        if (write(link, "stored\n", 7) != 7) break;
    }
    fclose(in);
}

int main(int, char **words) {
    FILE *file = fopen("tracks", "a");
    std::thread(write_batches, file, std::chrono::microseconds(atol(words[2]))).detach();
    int door = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(words[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(door, (sockaddr *)&address, sizeof address) || listen(door, 100)) return 1;
    for (;;) {
        int link = accept(door, nullptr, nullptr);
        setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        std::thread(serve, link).detach();
    }
}
"""


def linger(place):
    store, relay, plots = place.port(), place.port(), place.port()
    place.start(cpp(place, "trackstore", TRACKSTORE), store, round(12000 * place.fault), port=store)
    place.start(place.go("trackrelay", RELAY), relay, store, port=relay)
    place.start("node", place.write("plots.js", PLOTS), plots, relay, port=plots)
    front = nginx(place, 'location / { proxy_pass http://behind; proxy_http_version 1.1; '
                         'proxy_set_header Connection ""; }',
                  f"upstream behind {{ server 127.0.0.1:{plots}; keepalive 8; }}")
    return [str(place.write("radarheads", RADARHEADS)), str(front), str(place.seconds)]


# Names the edition of the charts after the last commit and the sum of all their data.
CHARTVERSION = """#!/bin/bash
commit=$(git describe --always --dirty)
sum=$(cat data/*.txt | sha256sum | cut -c 1-8)
echo "$commit-$sum"
"""
NIGHTLY = """#!/bin/bash
set -e
rm -f charts/*.o charts/atlas
make -s charts
charts/atlas > atlas.txt
"""
ABOVE = """
.PHONY: charts
charts:
	$(MAKE) -C charts -j 2
"""
CHARTS = """
EDITION ASSIGN $(shell ../chartversion)
CFLAGS = -O1 -DEDITION='"$(EDITION)"'
SHEETS := $(patsubst %.c,%.o,$(wildcard sheet*.c))

atlas: main.o $(SHEETS)
	$(CC) -o $@ $^

%.o: %.c
	@echo "$@ of edition $(EDITION)"
	$(CC) $(CFLAGS) -c -o $@ $<
"""
SHEET = """
#include <math.h>
#include <stdio.h>
static const double beacons[][2] = {{ {beacons} }};
void sheet{number}(void) {{
    double length = 0;
    for (unsigned i = 1; i < sizeof beacons / sizeof *beacons; i++) {{
        double north = beacons[i][0] - beacons[i - 1][0], east = beacons[i][1] - beacons[i - 1][1];
        length += north * north + east * east;
    }}
    printf("sheet {number} of edition %s: %.1f\\n", EDITION, length);
}}
"""
SHEETS = 50


def charts(place):
    folder = place.folder / "charts"
    (folder / "data").mkdir(parents=True)
    for number in range(30):
        lines = (f"{number} {i} obstacle of {i * 37 % 400} feet\n" for i in range(6000))
        place.write(f"charts/data/{number}.txt", "".join(lines), mode=0o644)
    for number in range(SHEETS):
        beacons = ", ".join(f"{{ {i * 7 % 90}.5, {i * number % 180}.25 }}" for i in range(200))
        sheet = SHEET.format(number=number, beacons=beacons)
        place.write(f"charts/sheet{number}.c", sheet, mode=0o644)
    calls = "".join(f" void sheet{number}(void); sheet{number}();" for number in range(SHEETS))
    place.write("charts/main.c", f"int main(void) {{{calls} return 0; }}\n", mode=0o644)
    place.write("Makefile", ABOVE, mode=0o644)
    assign = ":=" if place.fixed else "="
    place.write("charts/Makefile", CHARTS.replace("ASSIGN", assign), mode=0o644)
    place.write("chartversion", CHARTVERSION)
    who = ("-c", "user.name=charts", "-c", "user.email=charts@airfield")
    place.run("git", "init", "-q", cwd=folder)
    place.run("git", "add", "data", cwd=folder)
    place.run("git", *who, "commit", "-q", "-m", "data of the year", cwd=folder)
    return [str(place.write("nightly", NIGHTLY))]


# Maps a file of map tiles into its memory, reads all of it at the start, and sums the bytes of
# eight tiles for each request. MADV_RANDOM is right for such requests: without it the kernel would
# read up to some megabytes around each page.
CHARTTILES = r"""
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

const long TILE = 16384;
const unsigned char *tiles;

unsigned long sum(long tile) {
    unsigned long total = 0;
    for (long i = 0; i < TILE; i++) total += tiles[tile * TILE + i] ^ i;
    return total;
}

void serve(int link) {
    FILE *in = fdopen(link, "r");
    char line[256];
    while (fgets(line, sizeof line, in)) {
        unsigned long total = 0;
        char *next = line;
        for (int i = 0; i < 8; i++) total += sum(strtol(next, &next, 10));
        if (dprintf(link, "%lu\n", total) < 0) break;
    }
    fclose(in);
}

int main(int, char **words) {
    int file = open("tiles", O_RDONLY);
    struct stat about;
    if (fstat(file, &about)) return 1;
    void *start = mmap(nullptr, about.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (start == MAP_FAILED) return 1;
    tiles = static_cast<const unsigned char *>(start);
    unsigned long total = 0;
    for (long tile = 0; tile < about.st_size / TILE; tile++) total += sum(tile);
    printf("%lu\n", total);
    if (madvise(start, about.st_size, MADV_RANDOM)) return 1;
    int door = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(words[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(door, (sockaddr *)&address, sizeof address) || listen(door, 100)) return 1;
    for (;;) {
        int link = accept(door, nullptr, nullptr);
        setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        std::thread(serve, link).detach();
    }
}
"""
BRIEFING = """<?php
$tiles = pfsockopen("127.0.0.1", PORT);
$wanted = [];
for ($i = 0; $i < 8; $i++) $wanted[] = mt_rand(0, TILES - 1);
fwrite($tiles, implode(" ", $wanted)."\\n");
echo "Briefing with sheets ", fgets($tiles);
"""
TILES = 16384
MEGABYTE = 1 << 20


def memory_group(place, limit):
    """Makes a control group with a limit of memory in bytes, which is removed at the end of the
    run; returns its folder.
    """
    base = Path("/sys/fs/cgroup")
    old = base / "memory"
    group = (old if old.is_dir() else base) / f"airfield-{os.getpid()}-{time.monotonic_ns()}"
    if not old.is_dir():
        with contextlib.suppress(OSError):
            (base / "cgroup.subtree_control").write_text("+memory")
    group.mkdir()
    place.stack.callback(removed, group)
    (group / ("memory.limit_in_bytes" if old.is_dir() else "memory.max")).write_text(str(limit))
    return group


def removed(group):
    """Removes the group; the kernel refuses until its last process has quite ended."""
    for _ in range(100):
        try:
            return group.rmdir()
        except OSError:
            time.sleep(0.05)


def tiles(place):
    file = place.folder / "tiles"
    piece = os.urandom(MEGABYTE)
    with file.open("wb") as out:
        for number in range(TILES * 16384 // MEGABYTE):
            out.write(piece[number:] + piece[:number])
        out.flush()
        os.fsync(out.fileno())
        # Pages count for the group of the process that reads them first, so none may remain.
        os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    group = memory_group(place, (1024 if place.fixed else 48) * MEGABYTE)
    port = place.port()
    start = f"echo $$ > {group}/cgroup.procs && exec ./charttiles {port}"
    cpp(place, "charttiles", CHARTTILES)
    place.start("sh", "-c", start, port=port)
    script = BRIEFING.replace("PORT", str(port)).replace("TILES", str(TILES))
    return wrk(f"http://127.0.0.1:{php(place, script, 4)}/", 4, place.seconds)


# Replays the radar tracks of a day: all programs are one pipeline.
REPLAY = """#!/bin/bash
set -e -o pipefail
./tracksource 14000 registry | pv -q | ./decode | ./correlate registry $1 | zstd -q -f -o tracks.zst
"""
TRACKSOURCE = r"""
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

int main(int, char **words) {
    std::ifstream file(words[2]);
    std::vector<std::string> aircraft;
    for (std::string line; std::getline(file, line);) aircraft.push_back(line);
    std::mt19937 random(4711);
    for (int i = 0, count = atoi(words[1]); i < count; i++) {
        const std::string &one = aircraft[random() % aircraft.size()];
        printf("%d %s %u %u %u\n", i, one.c_str(), unsigned(random() % 9000),
               unsigned(random() % 18000), unsigned(random() % 40000));
    }
}
"""
DECODE = """#!/usr/bin/perl
use strict;
while (<STDIN>) {
    my ($number, $aircraft, $north, $east, $feet) = split;
    my ($y, $x, $far) = ($north / 5730, $east / 5730, 0);
    for my $step (1 .. 120) {
        $far += sqrt(sin($y / $step) ** 2 + cos($y) * sin($x / $step) ** 2);
    }
    printf "%d %s %.4f %d\\n", $number, $aircraft, $far, $feet / 100;
}
"""
CORRELATE = """#!/usr/bin/ruby
require "set"
known = File.readlines(ARGV[0], chomp: true)
known = known.to_set if ARGV[1] == "set"
STDIN.each_line do |line|
  number, aircraft, far, level = line.split
  kind = known.include?(aircraft) ? "known" : "stranger"
  puts "#{number} #{aircraft} #{kind} FL#{level} #{far}"
end
"""


def correlate(place):
    aircraft = round(40000 * place.scale)
    marks = (f"G-{i * 7919 % 999983:06d}\n" for i in range(aircraft))
    place.write("registry", "".join(marks), mode=0o644)
    cpp(place, "tracksource", TRACKSOURCE)
    place.write("decode", DECODE)
    place.write("correlate", CORRELATE)
    return [str(place.write("replay", REPLAY)), "set" if place.fixed else "list"]


# Control: windsock measures each 60 ms, and all others are done long before the next measurement.
WINDSOCK = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int count, char **words) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    struct timespec next = start;
    long items = 0, end = start.tv_sec + atol(words[1]);
    setlinebuf(stdout);
    do {
        printf("wind %ld degrees %ld knots\n", items * 7 % 360, 4 + items % 13);
        items++;
        next.tv_nsec += 60000000;
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < end);
    fprintf(stderr, "items %ld seconds %.3f\n", items,
            now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) / 1e9);
}
"""
# The messages of windsock go to the broker, and its last line to the output.
OBSERVE = """#!/bin/bash
exec 3>&1
./windsock $2 2>&3 | mosquitto_pub -h 127.0.0.1 -p $1 -t wind -l
"""
BULLETIN = """#!/bin/bash
mosquitto_sub -h 127.0.0.1 -p $1 -t wind | gawk '
    BEGIN { printf "" > "bulletin-ready"; close("bulletin-ready") }
    { sum += $4; print NR, $2, sum / NR; fflush() }' > bulletin.txt
"""


def wind(place):
    port = place.port()
    config = place.write("mosquitto.conf", f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    place.start("mosquitto", "-c", config, port=port)
    place.c("windsock", WINDSOCK)
    place.start(place.write("bulletin", BULLETIN), port, path=place.folder / "bulletin-ready")
    return [str(place.write("observe", OBSERVE)), str(port), str(place.seconds)]


# Control: three jobs at a time inspect the engines' records of a day, and pack the result.
INSPECT = """#!/usr/bin/perl
use strict;
my ($day, @worst) = @ARGV;
for my $engine (1 .. 40) {
    my ($heat, $peak) = (600, 0);
    for my $second (1 .. 6000) {
        $heat += 9 * sin($day * $engine + $second / 7) + (620 - $heat) / 50;
        $peak = $heat if $heat > $peak;
        printf "%d %d %.2f\\n", $engine, $second, $heat if $second % 3 == 0;
    }
}
"""
DAY = """#!/bin/bash
set -e -o pipefail
./inspect $1 | xz -2 > day$1.xz
"""
MAINTENANCE = """#!/bin/bash
seq 1 ${1} | xargs -P 3 -n 1 ./day
"""


def maintenance(place):
    place.write("inspect", INSPECT)
    place.write("day", DAY)
    return [str(place.write("maintenance", MAINTENANCE)), "24"]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
SYSTEMS = [
    System(
        name="airfield_ledger_heap",
        kind="heap-too-small",
        truth="the heap of java (-Xmx106m) is hardly larger than its ledger of fuel, so that its "
              "GC threads compute full collections again and again while all other threads of java "
              "stand still, and wrk, haproxy and gunicorn wait for java",
        load=ledger,
        rate=WRK,
        component=(r"\bjava\b", r"\bGC\b", r"VM.Thread", r"garbage"),
        mechanism=(r"\bGC\b", r"garbage", r"collect", r"\bheap\b", r"VM.Thread", r"stop.the.world"),
        never=(DISK, rf"(java|gunicorn) {PID}sleeps"),
        running=True,
        needs=("java", "javac", "haproxy", "/usr/bin/gunicorn", "wrk"),
    ),
    System(
        name="airfield_plots_linger",
        kind="batch-linger",
        truth="trackstore waits 12 ms for a timer before it writes a batch that is not full, and "
              "with four radarheads, each of which waits for its plot (by nginx, node and "
              "trackrelay), no batch ever becomes full",
        load=linger,
        rate=ITEMS,
        component=(r"trackstore",),
        mechanism=(*SLEEPS, r"time.?out", r"timed", r"linger", r"\bbatch", r"deadline", r"pause"),
        never=(DISK, rf"(radarheads|nginx|node|plots\.js|trackrelay) {PID}sleeps"),
        change="x0",
        halves=True,
        needs=("nginx", "node", "go", "g++", PYTHON),
    ),
    System(
        name="airfield_charts_edition",
        kind="command-per-expansion",
        truth="make starts chartversion, which starts git and sha256sum, anew for each sheet, "
              "because the variable EDITION is expanded in each recipe (= instead of :=), and "
              "starts no compiler while it waits for that child",
        load=charts,
        component=(r"\bmake\b", r"chartversion", r"\bgit\b", r"sha256sum"),
        mechanism=(r"start(s|ed|ing)? ", r"child", r"process(es)?\b", r"\bfork", r"\bexec",
                   r"one (\w+ )?at a time", r"one after (the|an)other", r"chartversion",
                   r"\$\(shell", r"again and again",
                   r"(git|sha256sum)[^;]*(comput|runs|user)"),
        never=(DISK, LOCK, rf"(make|chartversion) {PID}sleeps"),
        needs=("make", "gcc", "git"),
    ),
    System(
        name="airfield_tiles_memory",
        kind="memory-limit",
        truth="charttiles may have 48 MB of memory (limit of its control group) for a mapped file "
              "of 256 MB, so that its page faults read the tiles from the disk again and again, "
              "and wrk, nginx and php-fpm wait for it",
        load=tiles,
        rate=WRK,
        component=(r"charttiles", r"\bvd[a-z]\b", r"\bnvme", r"\bsd[a-z]\b"),
        mechanism=(r"\bdisk\b", r"\bdevice\b", r"\breads?\b", r"page.?faults?", r"major fault",
                   r"page.?cache", r"memory", r"reclaim", r"\bI/O\b", r"pages\b"),
        never=(rf"(charttiles|nginx|php-fpm\S*) {PID}sleeps",),
        needs=("g++", "nginx", PHP_FPM, "wrk"),
    ),
    System(
        name="airfield_tracks_correlated",
        kind="linear-search",
        truth="correlate, in ruby, computes: for each track it searches a list of 40000 aircraft "
              "from its start, and the other programs of the pipeline wait for it",
        load=correlate,
        component=(r"correlate", r"ruby"),
        mechanism=(*RUNS, r"search", r"\blist\b", r"compar", r"include", r"linear", r"scan"),
        never=(DISK, LOCK, rf"(correlate|ruby) {PID}sleeps"),
        halves=True,
        needs=("g++", "pv", "perl", "ruby", "zstd"),
    ),
    System(
        name="control_airfield_wind",
        kind="control",
        truth="windsock measures each 60 ms by intention; mosquitto, its clients and gawk are done "
              "long before the next measurement, and all are idle most of the time",
        load=wind,
        rate=ITEMS,
        acceptable=(r"paced by", r"windsock.*(sleep|timer|until a time)", r"\bidle\b"),
        needs=("mosquitto", "mosquitto_pub", "mosquitto_sub", "gawk"),
    ),
    System(
        name="control_airfield_maintenance",
        kind="control",
        truth="three jobs at a time inspect the records of the engines with perl and pack them "
              "with xz, and both CPUs are full",
        load=maintenance,
        acceptable=(rf"(inspect|perl|xz|xargs|\bday\b).*{COMPUTES}", r"both CPUs|all CPUs|CPUs are",
                    r"no single program leads"),
        needs=("perl", "xz", "xargs"),
    ),
]

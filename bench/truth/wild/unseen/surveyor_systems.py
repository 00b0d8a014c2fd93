"""The jobs of an office of surveyors that makes maps: five frequent faults in how work is divided,
handed over, started, written and joined, and two healthy parts of the same office.
"""
from services import nginx
from system import ITEMS, PYTHON, SLEEPS, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Draws how much of the sky is visible from each cell of a sheet. The sea, which is the north of
# each sheet, needs no work, and OpenMP divides the rows as $OMP_SCHEDULE says.
SKYVIEW = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SIDE = 480, FAR = 40, WINDS = 12 };
static short land[SIDE][SIDE];
static unsigned char shade[SIDE][SIDE];

// Returns the share of the sky that the hills around a cell leave free.
static double visible_sky(int row, int column)
{
    double sum = 0;
    for (int wind = 0; wind < WINDS; wind++) {
        double angle = wind * 2 * M_PI / WINDS, down = sin(angle), right = cos(angle), steepest = 0;
        for (int step = 1; step < FAR; step++) {
            int y = row + step * down, x = column + step * right;
            if (y < 0 || y >= SIDE || x < 0 || x >= SIDE)
                break;
            double slope = (land[y][x] - land[row][column]) / (25.0 * step);
            if (slope > steepest)
                steepest = slope;
        }
        sum += 1 / (1 + steepest * steepest);
    }
    return sum / WINDS;
}

static void draw_sheet(void)
{
    #pragma omp parallel for schedule(runtime)
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            shade[row][column] = land[row][column] > 0 ? 255 * visible_sky(row, column) : 0;
}

int main(int count, char **words)
{
    int sheets = atoi(words[1]);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int sheet = 0; sheet < sheets; sheet++) {
        FILE *in = fopen("coast.dem", "rb"), *out = fopen("sky.pgm", "wb");
        if (!in || !out || fread(land, sizeof land, 1, in) != 1)
            return 1;
        fclose(in);
        draw_sheet();
        fprintf(out, "P5 %d %d 255\n", SIDE, SIDE);
        fwrite(shade, sizeof shade, 1, out);
        fclose(out);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("items %d seconds %.3f\n", sheets, end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9);
}
"""
COAST = """
import array, math
heights = array.array("h")
for row in range(480):
    for column in range(480):
        hills = 300 + 120 * math.sin(row / 17) * math.cos(column / 23) + (row * 31 + column * 17) % 40
        heights.append(int(hills) if row > 245 + 8 * math.sin(column / 30) else 0)
open("coast.dem", "wb").write(heights.tobytes())
"""


def skyview(place):
    program = place.c("skyview", SKYVIEW, "-fopenmp", "-lm")
    place.run(PYTHON, place.write("coast.py", COAST))
    schedule = "dynamic,4" if place.fixed else "static"
    return ["env", f"OMP_SCHEDULE={schedule}", str(program), "40"]


# Estimates the heights of a grid from the points of the survey. With `whole`, each task carries
# all points; otherwise the workers have them already, because they are forked later.
SPOTHEIGHTS = """#!/usr/bin/python3
import bisect, math, multiprocessing, sys, time

POINTS = []


def survey(count):
    return sorted((i * 7919 % 100003 / 100.0, i * 104729 % 99991 / 100.0, 200 + 50 * math.sin(i / 90), f"P{i}") for i in range(count))


def height(near, x, y):
    total = weights = 0.0
    for px, py, pz, _ in near:
        weight = 1 / ((px - x) ** 2 + (py - y) ** 2 + 1)
        total += pz * weight
        weights += weight
    return total / weights


def estimate(points, column):
    first = bisect.bisect_left(points, (column % 1000,))
    near = points[first:first + 60] or points[-60:]
    return [height(near, column % 1000, y * 10) for y in range(250)]


def with_points(task):
    return estimate(*task)


def by_column(column):
    return estimate(POINTS, column)


count, columns, whole = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "whole"
points = survey(count)
POINTS = points
start = time.monotonic()
with multiprocessing.Pool() as pool:
    if whole:
        results = pool.imap_unordered(with_points, ((points, column) for column in range(columns)))
    else:
        results = pool.imap_unordered(by_column, range(columns))
    total = sum(len(heights) for heights in results)
assert total == columns * 250
print(f"items {columns} seconds {time.monotonic() - start:.3f}")
"""


def spotheights(place):
    mode = "shared" if place.fixed else "whole"
    return [str(place.write("spotheights", SPOTHEIGHTS)), "20000", "240", mode]


# The queue of jobs of the office: it runs one step at a time, and is asked for the state of a step
# or to say when it has ended.
JOBQUEUE = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
use POSIX qw(WNOHANG);

my $server = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], Listen => 8, ReuseAddr => 1)
    or die "no port: $!";
while (my $driver = $server->accept) {
    my $step;
    while (my $line = <$driver>) {
        if ($line =~ /^submit (.*)/) {
            $step = fork;
            exec "sh", "-c", $1 unless $step;
            print $driver "submitted $step\\n";
        } else {
            my $ended = waitpid $step, $line =~ /^state/ ? WNOHANG : 0;
            print $driver $ended ? "ended\\n" : "running\\n";
        }
        $driver->flush;
    }
}
"""
# Each step of a sheet needs the file of the step before.
MAKESHEETS = """#!/bin/bash
port=$1 sheets=$2 mode=$3 pause=$4
exec 3<>/dev/tcp/127.0.0.1/$port

step() {
    echo "submit $*" >&3
    read -r -u 3 answer
    if [ $mode = wait ]; then
        echo "wait" >&3
        read -r -u 3 state
        return
    fi
    while echo "state" >&3 && read -r -u 3 state && [ "$state" = running ]; do
        sleep $pause
    done
}

begin=$(date +%s%N)
for ((sheet = 1; sheet <= sheets; sheet++)); do
    step "mawk '{ print int(\\$1 / 30), int(\\$2 / 30), \\$3 * 0.3048 + $sheet }' points.xyz > metres.xyz"
    step "LC_ALL=C sort -k1,1n -k2,2n metres.xyz > sorted.xyz"
    step "mawk '{ c = \\$1 \\" \\" \\$2; sum[c] += \\$3; n[c]++ } END { for (c in n) print c, sum[c] / n[c] }' sorted.xyz > sheet.grid"
    step "xz -4 -c sheet.grid > sheet-$sheet.xz"
done
echo "items $((sheets * 4)) seconds $(echo "scale=3; ($(date +%s%N) - $begin) / 1000000000" | bc)"
"""
POINTS = """
import sys
with open(sys.argv[1], "w") as file:
    for i in range(int(sys.argv[2])):
        print(f"{i * 7919 % 20011 / 4:.2f} {i * 10007 % 19997 / 4:.2f} {300 + i * 31 % 977 / 7:.3f}", file=file)
"""


def sheets(place):
    port = place.port()
    place.run(PYTHON, place.write("points.py", POINTS), "points.xyz", 12000)
    place.start(place.write("jobqueue", JOBQUEUE), port, port=port)
    mode = "wait" if place.fixed else "poll"
    return [str(place.write("makesheets", MAKESHEETS)), str(port), "5", mode, f"{0.24 * place.scale:g}"]


# The office's web service converts geographic coordinates to the national grid. The conversion is
# a script in Python, which is started for each request, or once, and then has one line for each.
COORDINATES = """
const http = require("http"), { spawn, execFile } = require("child_process"), readline = require("readline");
const port = Number(process.argv[2]), resident = process.argv[3] === "resident";
const waiting = [];
let converter;

if (resident) {
  converter = spawn("./to_grid", ["-"], { stdio: ["pipe", "pipe", "inherit"] });
  readline.createInterface({ input: converter.stdout }).on("line", line => waiting.shift()(line));
}

function convert(latitude, longitude) {
  return new Promise((resolve, reject) => {
    if (resident) {
      waiting.push(resolve);
      converter.stdin.write(`${latitude} ${longitude}\\n`);
    } else {
      execFile("./to_grid", [latitude, longitude], (error, out) => error ? reject(error) : resolve(out.trim()));
    }
  });
}

let points = 0;
http.createServer(async (request, response) => {
  points++;
  const grid = await convert(47 + points % 700 / 1000, 8 + points % 900 / 1000);
  response.setHeader("Content-Type", "application/json");
  response.end(grid);
}).listen(port, "127.0.0.1");
"""
TO_GRID = """#!/usr/bin/python3
import argparse, decimal, fractions, json, logging, math, sys

parser = argparse.ArgumentParser(description="geographic coordinates to the national grid")
parser.add_argument("latitude")
parser.add_argument("longitude", nargs="?")
words = parser.parse_args()


def to_grid(latitude, longitude):
    # Transverse Mercator by a series, repeated until it converges.
    a, e2, middle = 6378137.0, 0.00669438, math.radians(8.5)
    lat, lon = math.radians(latitude), math.radians(longitude) - middle
    north = 0.0
    for k in range(1, 40):
        n = a / math.sqrt(1 - e2 * math.sin(lat) ** 2)
        north += n * math.sin(lat) * math.cos(lat) * lon ** (2 * k) / math.factorial(k)
    east = n * math.cos(lat) * lon
    return json.dumps({"east": round(east, 3), "north": round(north + a * lat, 3)})


if words.latitude == "-":
    for line in sys.stdin:
        print(to_grid(*map(float, line.split())), flush=True)
else:
    print(to_grid(float(words.latitude), float(words.longitude)))
"""


def coordinates(place):
    port, front = place.port(), place.port()
    place.write("to_grid", TO_GRID)
    mode = "resident" if place.fixed else "each"
    place.start("node", place.write("coordinates.js", COORDINATES), port, mode, port=port)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend office
    bind 127.0.0.1:{front}
    default_backend coordinates
backend coordinates
    server coordinates 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return wrk(f"http://127.0.0.1:{front}/grid", 4, place.seconds)


# Draws tiles of heights until the time is over, and writes each after a line with its place and
# length.
DRAWTILES = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <zlib.h>

enum { SIDE = 64 };

int main(int count, char **words)
{
    double seconds = atof(words[1]);
    struct timespec start, now;
    static short heights[SIDE][SIDE];
    static unsigned char packed[2 * sizeof heights];
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int tile = 0;; tile++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) / 1e9 > seconds)
            return 0;
        for (int row = 0; row < SIDE; row++)
            for (int column = 0; column < SIDE; column++)
                heights[row][column] = 400 + 90 * sinf((row + tile) / 11.0f) * cosf(column / 7.0f) + (row * 31 + column * 17 + tile) % 9;
        uLongf length = sizeof packed;
        if (compress2(packed, &length, (void *)heights, sizeof heights, 1) != Z_OK)
            return 1;
        printf("%d %d %d %lu\n", 14, tile % 256, tile / 256, length);
        fwrite(packed, length, 1, stdout);
        fflush(stdout);
    }
}
"""
PACKTILES = """#!/usr/bin/python3
import sqlite3, sys, time

base, each = sqlite3.connect(sys.argv[1]), int(sys.argv[2])
base.execute("create table tiles (zoom integer, x integer, y integer, data blob, primary key (zoom, x, y))")
base.commit()
start, count = time.monotonic(), 0
while line := sys.stdin.buffer.readline():
    zoom, x, y, length = map(int, line.split())
    base.execute("insert or replace into tiles values (?, ?, ?, ?)", (zoom, x, y, sys.stdin.buffer.read(length)))
    count += 1
    if count % each == 0:
        base.commit()
base.commit()
print(f"items {count} seconds {time.monotonic() - start:.3f}")
"""


def tiles(place):
    place.c("drawtiles", DRAWTILES, "-lz", "-lm")
    place.write("packtiles", PACKTILES)
    each = 500 if place.fixed else 1
    return ["sh", "-c", f"./drawtiles {place.seconds} | ./packtiles region.tiles {each}"]


# Control: make compresses the sheets of a county, as many at once as there are CPUs.
COUNTY = """
SHEETS := $(wildcard sheet-*.xyz)

county.tar: $(SHEETS:.xyz=.xz)
\ttar -cf $@ $^

%.xz: %.xyz
\tgawk '{ printf "%d %d %.2f\\n", $$1 / 5, $$2 / 5, $$3 * 0.3048 }' $< | LC_ALL=C sort -k1,1n -k2,2n | xz -3 > $@
"""


def county(place):
    place.run(PYTHON, place.write("points.py", POINTS), "sheet-0.xyz", 30000)
    for number in range(1, 36):
        (place.folder / f"sheet-{number}.xyz").write_bytes((place.folder / "sheet-0.xyz").read_bytes())
    place.write("Makefile", COUNTY)
    return ["sh", "-c", "make -s -j $(nproc)"]


# Control: twelve people look at a map; each looks for 80 ms at a tile and then asks for the next.
VIEWERS = """
package main

import ("fmt"; "io"; "net/http"; "os"; "strconv"; "sync"; "time")

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 16
	start, end := time.Now(), time.Now().Add(time.Duration(seconds * 1e9))
	var all sync.WaitGroup
	var lock sync.Mutex
	tiles := 0
	for viewer := 0; viewer < 12; viewer++ {
		all.Add(1)
		go func(viewer int) {
			defer all.Done()
			time.Sleep(time.Duration(viewer) * 7 * time.Millisecond)
			for column := 0; time.Now().Before(end); column++ {
				answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%s/tile/%d/%d", os.Args[1], viewer, column%200))
				if err != nil || answer.StatusCode != 200 {
					fmt.Println("no tile", err)
					os.Exit(1)
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				lock.Lock()
				tiles++
				lock.Unlock()
				time.Sleep(80 * time.Millisecond)
			}
		}(viewer)
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", tiles, time.Since(start).Seconds())
}
"""
TILESERVICE = """
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;
import java.util.zip.DeflaterOutputStream;

public class Main {
    static byte[] tile(String path) throws Exception {
        byte[] cells = new byte[128 * 128];
        int place = path.hashCode() & 1023;
        for (int i = 0; i < cells.length; i++) {
            cells[i] = (byte) (90 + 60 * Math.sin((i / 128 + place) / 19.0) + (i % 128) / 8);
        }
        ByteArrayOutputStream packed = new ByteArrayOutputStream();
        try (DeflaterOutputStream out = new DeflaterOutputStream(packed)) {
            out.write(cells);
        }
        return packed.toByteArray();
    }

    public static void main(String[] words) throws Exception {
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
        HttpServer server = HttpServer.create(address, 100);
        server.setExecutor(Executors.newFixedThreadPool(6));
        server.createContext("/tile", exchange -> {
            try {
                byte[] tile = tile(exchange.getRequestURI().getPath());
                exchange.sendResponseHeaders(200, tile.length);
                exchange.getResponseBody().write(tile);
            } catch (Exception error) {
                throw new RuntimeException(error);
            } finally {
                exchange.close();
            }
        });
        server.start();
    }
}
"""


def viewers(place):
    port = place.port()
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Dsun.net.httpserver.maxIdleConnections=50", "-Xmx128m",
                "-cp", place.java(TILESERVICE), "Main", port, port=port)
    front = nginx(place, 'location / { proxy_pass http://tiles; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream tiles {{ server 127.0.0.1:{port}; keepalive 16; }}")
    return [str(place.go("viewers", VIEWERS)), str(front), str(place.seconds)]


NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
SYSTEMS = [
    System(
        name="surveyor_sky_of_the_coast",
        kind="static-schedule-imbalance",
        truth="one half of the OpenMP threads of skyview computes alone, while the others wait at "
              "the end of the loop, because the static schedule gave them the rows of the sea",
        load=skyview,
        rate=ITEMS,
        component=(r"skyview", r"openmp", r"\bg?omp\b"),
        mechanism=(r"one (\w+ )?(of (its|the|\d+) (\w+ )?)?(thread|CPU|core)\b", r"single[- ]thread", r"barrier", r"imbalanc",
                   r"un(even|equal)", r"wait for one another", r"(thread|other)s? [^;]*\b(waits?|idles?|spins?)\b", r"slowest",
                   r"\bin (the )?(same|one) thread", r"not (run )?(in parallel|parallel)", r"\bserial", r"static",
                   r"one (\w+ )?at a time"),
        never=(*DISK, r"skyview (\([^)]*\) )?sleeps"),
        code=(r"draw_sheet", r"visible_sky"),
        needs=("gcc", "env", PYTHON),
    ),
    System(
        name="surveyor_points_in_each_task",
        kind="large-argument-per-task",
        truth="the parent process of spotheights, in python, pickles all points of the survey for "
              "each task of its pool and writes them into the pipe, and its workers, which unpickle "
              "them, wait for it",
        load=spotheights,
        rate=ITEMS,
        component=(r"spotheights", r"python"),
        mechanism=(*RUNS, r"pickl", r"serial", r"\bpipe", r"cop(y|ies|ied)", r"parent", r"\bmain\b", r"one process",
                   r"argument", r"\bdumps\b", r"one (\w+ )?at a time"),
        never=(*DISK, r"(spotheights|python\S*) (\([^)]*\) )?sleeps"),
        code=(r"pickl", r"\bdumps\b", r"_handle_tasks", r"\bsave_\w+"),
        needs=(PYTHON,),
    ),
    System(
        name="surveyor_asks_for_the_state",
        kind="polling-for-completion",
        truth="makesheets, in bash, sleeps 240 ms before it asks jobqueue again whether a step has "
              "ended, which takes a fraction of that time",
        load=sheets,
        rate=ITEMS,
        component=(r"makesheets", r"\bbash\b", r"\bsleep\b"),
        mechanism=(*SLEEPS, r"poll", r"\bpaus", r"nanosleep", r"\bpaced\b"),
        never=(*DISK, r"jobqueue (\([^)]*\) )?(sleeps|computes)", r"(xz|sort|mawk) (\([^)]*\) )?computes"),
        change="x0",
        halves=True,
        needs=("perl", "bash", "mawk", "sort", "xz", "bc", PYTHON),
    ),
    System(
        name="surveyor_converter_for_each_point",
        kind="process-per-request",
        truth="node (coordinates.js) starts a new python process, to_grid, for each request; "
              "starting the interpreter and importing its modules fill the CPUs",
        load=coordinates,
        rate=WRK,
        component=(r"\bnode\b", r"coordinates", r"to_grid", r"python"),
        mechanism=(r"\bstart(s|ed|ing|up)?\b", r"\bexec", r"\bfork", r"\bspawn", r"\bclone", r"new (\w+ )?process", r"short[- ]lived",
                   r"process(es)?,? (for|per|in) (each|every|a) ", r"\d+ (\w+ )?processes", r"\bimport",
                   r"(loads?|loading) (\w+ )?(modules|libraries)", r"dynamic link", r"\beach (process|run)\b"),
        never=(*DISK, r"(node|to_grid|python\S*) (\([^)]*\) )?sleeps"),
        running=True,
        needs=("node", "haproxy", "wrk", PYTHON),
    ),
    System(
        name="surveyor_commit_for_each_tile",
        kind="commit-per-row",
        truth="packtiles, in python, waits for the disk (fdatasync of sqlite), because it commits "
              "a transaction for each tile that drawtiles writes into the pipe",
        load=tiles,
        rate=ITEMS,
        component=(r"packtiles", r"python", r"sqlite", r"region\.tiles"),
        mechanism=(r"\bdisk", r"f(data)?sync", r"\bsyncs?\b", r"writeback", r"commit", r"journal", r"transaction", r"\bI/O\b",
                   r"block device", r"\bvd[a-z]|\bsd[a-z]|nvme"),
        never=(r"(drawtiles|packtiles|python\S*) (\([^)]*\) )?(sleeps|computes)",),
        needs=("gcc", "sh", PYTHON),
    ),
    System(
        name="control_surveyor_county",
        kind="control",
        truth="make runs as many pipelines of gawk, sort and xz at once as there are CPUs, and all "
              "CPUs are full until the last sheets",
        load=county,
        acceptable=(*NOTHING, rf"(xz|gawk|sort).*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs", r"own code"),
        needs=("make", "gawk", "sort", "xz", "tar", "sh", PYTHON),
    ),
    System(
        name="control_surveyor_viewers",
        kind="control",
        truth="twelve viewers ask nginx and a tile service, in java, for a tile and by intention "
              "look at it for 80 ms before the next; the services are idle most of the time",
        load=viewers,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by viewers", r"viewers.*(sleep|timer|until a time|\bpause|\bown clock)", r"\bidle\b",
                    r"load generator"),
        needs=("go", "java", "javac", "nginx"),
    ),
]

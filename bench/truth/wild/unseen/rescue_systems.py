"""The services of a mountain rescue: five frequent faults of its radio links, its imports and its
elevation data, and two healthy parts of the same organisation.
"""
import gzip
import random

from services import mariadb, nginx, redis
from system import ITEMS, LOCKS, PYTHON, SLEEPS, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Sends the positions of the teams, each as a head and a body, and waits for the answer.
RELAY = """#!/usr/bin/ruby
require "socket"
require "json"
port, seconds, now = ARGV[0].to_i, ARGV[1].to_f, ARGV[2] == "now"

link = TCPSocket.new("127.0.0.1", port)
link.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) if now
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
count = 0
while Process.clock_gettime(Process::CLOCK_MONOTONIC) < start + seconds
  track = Array.new(20) { |i| { lat: 46.8 + (count + i) % 90 / 1000.0, lon: 10.1 + i / 500.0, metres: 1900 + i * 4 } }
  body = JSON.generate(track)
  link.write("POSITIONS team#{count % 12} #{body.bytesize}\\n")
  link.write(body)
  raise "no answer" unless link.gets == "ok\\n"
  count += 1
end
puts "items #{count} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""
TRACKER = """
package main

import ("bufio"; "encoding/json"; "fmt"; "io"; "net"; "os")

type point struct { Lat, Lon float64; Metres int }

func follow(link, store net.Conn) {
	words, answers := bufio.NewReader(link), bufio.NewReader(store)
	for {
		var team string
		var size int
		line, err := words.ReadString('\\n')
		if err != nil {
			return
		}
		fmt.Sscanf(line, "POSITIONS %s %d", &team, &size)
		body := make([]byte, size)
		if _, err := io.ReadFull(words, body); err != nil {
			return
		}
		var track []point
		if json.Unmarshal(body, &track) != nil {
			return
		}
		last := track[len(track) - 1]
		fmt.Fprintf(store, "HSET %s lat %f lon %f metres %d\\r\\n", team, last.Lat, last.Lon, last.Metres)
		answers.ReadString('\\n')
		io.WriteString(link, "ok\\n")
	}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		link, err := listener.Accept()
		if err != nil {
			return
		}
		store, err := net.Dial("tcp", "127.0.0.1:" + os.Args[2])
		if err != nil {
			panic(err)
		}
		go follow(link, store)
	}
}
"""


def positions(place):
    store, port = redis(place), place.port()
    place.start(place.go("tracker", TRACKER), port, store, port=port)
    mode = "now" if place.fixed else "later"
    return [str(place.write("relay", RELAY)), str(port), str(place.seconds), mode]


# The board of an operation shows what each of its five teams answers.
DISPATCH = """
const http = require("http");
const [port, link, order] = process.argv.slice(2), teams = ["ridge", "gully", "dogs", "hut", "helipad"];
const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });

function ask(team) {
  return new Promise((resolve, reject) => {
    const request = http.get({ socketPath: link, path: "/team/" + team, agent }, answer => {
      let text = "";
      answer.on("data", piece => text += piece);
      answer.on("end", () => resolve(JSON.parse(text)));
    });
    request.on("error", reject);
  });
}

async function board() {
  if (order === "together") return Promise.all(teams.map(ask));
  const answers = [];
  for (const team of teams) answers.push(await ask(team));
  return answers;
}

http.createServer(async (request, response) => {
  response.end(JSON.stringify({ operation: 17, teams: await board() }));
}).listen(Number(port), "127.0.0.1");
"""
# The answer of a team takes its time on the radio.
RADIOLINK = """
package main

import ("fmt"; "net"; "net/http"; "os"; "strconv"; "time")

func main() {
	air, _ := strconv.ParseFloat(os.Args[2], 64)
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	http.HandleFunc("/team/", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Duration(air * 1e9))
		fmt.Fprintf(w, "{\\"team\\": %q, \\"metres\\": %d, \\"battery\\": 71}", r.URL.Path[6:], 1800 + 7 * len(r.URL.Path))
	})
	http.Serve(listener, nil)
}
"""


def in_turn(place):
    link, port = place.folder / "radiolink.sock", place.port()
    place.start(place.go("radiolink", RADIOLINK), link, 0.004 * place.scale, path=link)
    order = "together" if place.fixed else "inturn"
    place.start("node", place.write("dispatch.js", DISPATCH), port, link, order, port=port)
    front = nginx(place, 'location / { proxy_pass http://dispatch; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream dispatch {{ server 127.0.0.1:{port}; keepalive 32; }}")
    return wrk(f"http://127.0.0.1:{front}/board/17", 6, place.seconds)


# Finds the messages of the radio log that report a place.
RADIOLOG = """#!/usr/bin/python3
import csv, re, sys

# day, time, channel, sender, receiver, words, latitude, longitude, rest
LOOSE = re.compile(r"(.*) (.*) (.*) (.*) > (.*): (.*) at ([0-9.]+), ([0-9.]+)(.*)")
STRICT = re.compile(r"(\\S+) (\\S+) (\\S+) (\\S+) > ([^:]+): (.*) at ([0-9.]+), ([0-9.]+)(.*)")
pattern = LOOSE if sys.argv[1] == "loose" else STRICT
out = csv.writer(sys.stdout, lineterminator="\\n")
for line in sys.stdin:
    found = pattern.match(line)
    if found:
        out.writerow(found.groups())
"""
TALK = ("understood, wait for the wind to drop", "two persons in the gully, one with a broken leg", "the helicopter needs ten minutes",
        "we need the long rope and a stretcher", "the snow is soft here, we go back to the saddle")


def radio_log(place):
    dice, lines = random.Random(4), []
    for i in range(24000):
        text = dice.choice(TALK)
        if i % 40:
            text = f"we are at 46.{dice.randrange(10000):04}, 10.{dice.randrange(10000):04}, {text}"
        lines.append(f"2031-02-03 {i // 3600 % 24:02}:{i // 60 % 60:02}:{i % 60:02} CH{i % 7:02} TEAM{i % 12:02} > BASE: {text}\n")
    (place.folder / "radio.log.gz").write_bytes(gzip.compress("".join(lines).encode(), 6))
    place.write("radiolog", RADIOLOG)
    mode = "strict" if place.fixed else "loose"
    return [str(place.write("evening", f"""#!/bin/sh
cd {place.folder} && rm -f radio.db
gzip -dc radio.log.gz | ./radiolog {mode} | sqlite3 -csv radio.db \\
    "create table reports (day, time, channel, sender, receiver, words, lat, lon, rest)" ".import /dev/stdin reports" \\
    "create index places on reports (lat, lon)" "select count(*) from reports"
"""))]


# Shades a part of the elevations by its slopes. The seeder asks for one part after the other.
HILLSHADE = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

enum { SIDE = 1201, PART = 320, OUT = 64 };
static short metres[SIDE * SIDE];

// Planes of one part: its heights, its slopes to the east and to the north, and its light.
struct Planes {
    float *heights, *east, *north, *light;
    Planes() {
        for (float **plane : {&heights, &east, &north, &light})
            *plane = (float *)malloc(PART * PART * sizeof(float));
    }
    ~Planes() {
        for (float *plane : {light, north, east, heights})
            free(plane);
    }
};

static void shade(int row, int column, unsigned char *out) {
    Planes planes;
    for (int y = 0; y < PART; y++)
        for (int x = 0; x < PART; x++)
            planes.heights[y * PART + x] = metres[(row + y) * SIDE + column + x];
    for (int here = 0; here + PART < PART * PART; here++) {
        planes.east[here] = planes.heights[here + 1] - planes.heights[here];
        planes.north[here] = planes.heights[here + PART] - planes.heights[here];
    }
    for (int here = 0; here + PART < PART * PART; here++)
        planes.light[here] = 128 + 3 * planes.east[here] - 2 * planes.north[here];
    for (int y = 0; y < OUT; y++)
        for (int x = 0; x < OUT; x++)
            out[y * OUT + x] = (int)planes.light[y * (PART / OUT) * PART + x * (PART / OUT)];
}

int main(int, char **words) {
    FILE *file = fopen(words[1], "rb");
    if (!file || fread(metres, sizeof metres, 1, file) != 1)
        return 1;
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, words[2], sizeof address.sun_path - 1);
    if (bind(listener, (sockaddr *)&address, sizeof address) || listen(listener, 5))
        return 1;
    static unsigned char out[OUT * OUT];
    int link, part[2];
    while ((link = accept(listener, nullptr, nullptr)) >= 0) {
        while (recv(link, part, sizeof part, MSG_WAITALL) == sizeof part) {
            shade(part[0] % (SIDE - PART), part[1] % (SIDE - PART), out);
            if (write(link, out, sizeof out) < 0)
                break;
        }
        close(link);
    }
}
"""
SEEDER = """
package main

import ("encoding/binary"; "fmt"; "hash/crc32"; "io"; "net"; "os"; "strconv"; "time")

func main() {
	link, err := net.Dial("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	count, _ := strconv.Atoi(os.Args[2])
	start, shaded, sum := time.Now(), make([]byte, 64 * 64), uint32(0)
	for i := 0; i < count; i++ {
		binary.Write(link, binary.LittleEndian, []int32{int32(i * 37), int32(i * 91)})
		if _, err := io.ReadFull(link, shaded); err != nil {
			panic(err)
		}
		sum ^= crc32.ChecksumIEEE(shaded)
	}
	fmt.Printf("items %d seconds %.3f, sum %08x\\n", count, time.Since(start).Seconds(), sum)
}
"""


def hillshade(place):
    program = place.named(place.built(HILLSHADE, ".cc", "g++", "-O3", "-o", "{program}", "{source}"), "hillshade")
    (place.folder / "n46e010.hgt").write_bytes(random.Random(7).randbytes(2 * 1201 * 1201))
    socket = place.folder / "hillshade.sock"
    # By default, malloc returns the planes of each part to the kernel.
    limits = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)} if place.fixed else {}
    place.start(program, "n46e010.hgt", socket, path=socket, env={"PATH": "/usr/bin:/bin", **limits})
    return [str(place.go("seeder", SEEDER)), str(socket), "5000"]


# One part of the forecast, as SQL for the client of the database.
FORECAST = """#!/usr/bin/php -n
<?php
[, $part, $count] = $argv;
mt_srand(100 + $part);
for ($i = 0; $i < $count; $i++) {
    $station = sprintf("ST%04d", ($i * 3 + $part) * 7 % 300);
    printf("update forecast set wind = %.1f, snow = %d, issue = %d where station = '%s' and hour = %d;\\n",
        mt_rand(0, 900) / 10, mt_rand(0, 80), $i, $station, $i % 8);
}
"""


def forecast(place):
    index = "create index stations on forecast (station, hour);" if place.fixed else ""
    port = mariadb(place, f"""
        create table forecast (id int auto_increment primary key, station char(8), hour int, wind float, snow int, issue int,
            model varchar(60));
        insert into forecast (station, hour, wind, snow, issue, model)
            select concat('ST', lpad(seq div 8 % 300, 4, '0')), seq % 8, 0, 0, 0, 'alpine model, 2 km, run of the morning'
            from seq_0_to_2399;
        {index} analyze table forecast""", "--innodb-flush-log-at-trx-commit=2")
    place.write("forecast", FORECAST)
    client = f"mariadb --no-defaults -h 127.0.0.1 -P {port} -u root test"
    return [str(place.write("import", f"""#!/bin/sh
cd {place.folder}
seq 3 | xargs -P 3 -I PART sh -c './forecast PART 1900 | {client}'
"""))]


# Control: the console pages a team every 60 ms by its own clock. The roster has eight threads, and
# the pager needs 8 ms for a call.
ROSTER = """
import socket, sys, threading
from concurrent.futures import ThreadPoolExecutor
import grpc

mine = threading.local()

def page(team, context):
    if not hasattr(mine, "pager"):
        mine.pager = socket.socket(socket.AF_UNIX)
        mine.pager.connect(sys.argv[2])
        mine.answers = mine.pager.makefile("rb")
    mine.pager.sendall(b"PAGE " + team + b"\\n")
    return mine.answers.readline()

server = grpc.server(ThreadPoolExecutor(8))
methods = {"Page": grpc.unary_unary_rpc_method_handler(page)}
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("rescue.Roster", methods)])
server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
server.start()
server.wait_for_termination()
"""
PAGER = """
package main

import ("bufio"; "fmt"; "net"; "os"; "time")

func main() {
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		link, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			for lines := bufio.NewScanner(link); lines.Scan(); {
				time.Sleep(8 * time.Millisecond)
				fmt.Fprintf(link, "paged %s\\n", lines.Text()[5:])
			}
		}()
	}
}
"""
CONSOLE = """#!/usr/bin/python3
import sys, time
import grpc

seconds = float(sys.argv[2])
with grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}") as channel:
    page = channel.unary_unary("/rescue.Roster/Page")
    page(b"base")
    start, calls = time.monotonic(), 0
    while time.monotonic() < start + seconds:
        page(b"team%d" % (calls % 12))
        calls += 1
        time.sleep(max(0, start + calls * 0.06 - time.monotonic()))
    print(f"items {calls} seconds {time.monotonic() - start:.3f}")
"""


def roster(place):
    port, pager = place.port(), place.folder / "pager.sock"
    place.start(place.go("pager", PAGER), pager, path=pager)
    place.start(PYTHON, place.write("roster.py", ROSTER), port, pager, port=port)
    return [str(place.write("console", CONSOLE)), str(port), str(place.seconds)]


# Control: make draws the contours of the tiles, two at a time, and packs each of them.
CONTOURS = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
    int tile = atoi(words[1]), side = 420;
    double *metres = malloc(sizeof *metres * side * side);
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++)
            metres[y * side + x] = 1800 + 500 * sin((x + tile * side) / 61.0) * cos(y / 47.0) + 90 * sin(x * y / 900.0);
    printf("<svg>\n");
    for (int level = 800; level < 2800; level += 20)
        for (int y = 0; y + 1 < side; y++)
            for (int x = 0; x + 1 < side; x++) {
                int at = y * side + x;
                double here = metres[at] - level, right = metres[at + 1] - level, below = metres[at + side] - level;
                if (here * right < 0 && here * below < 0)
                    printf("<path d=\"M%.2f %d L%d %.2f\"/>\n", x + here / (here - right), y, x, y + here / (here - below));
            }
    printf("</svg>\n");
}
"""


def contours(place):
    place.c("contours", CONTOURS, "-lm")
    tiles = " ".join(f"tile{i}.svgz" for i in range(28))
    place.write("Makefile", f"all: {tiles}\n%.svgz:\n\t./contours $(patsubst tile%,%,$*) | gzip -6 >$@\n", mode=0o644)
    return ["make", "-s", "-B", "-j", "2", "-C", str(place.folder)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="rescue_positions_in_two_writes",
        kind="nagle-and-delayed-acknowledgement",
        truth="relay, in ruby, writes each message as a head and a body on a connection without "
              "TCP_NODELAY, so that the kernel keeps the body back until tracker acknowledges the "
              "head, which it delays by 40 ms",
        load=positions,
        rate=ITEMS,
        component=(r"\brelay\b", r"\bruby\b", r"\b[Aa][Cc][Kk]s?\b", r"acknowledg", r"Nagle"),
        mechanism=(r"[Nn]agle", r"NODELAY", r"delayed.ack", r"acknowledg", r"\bA[Cc][Kk]s?\b",
                   r"\backs?\b", r"small (write|segment|packet)", r"two writes", r"kept back"),
        never=(*DISK, r"(tracker|redis\S*) (\([^)]*\) )?(sleeps|computes)"),
        needs=("ruby", "go", "redis-server"),
    ),
    System(
        name="rescue_teams_asked_in_turn",
        kind="sequential-calls",
        truth="node (dispatch.js) asks the five teams one after the other over radiolink, which "
              "sleeps 4 ms for each of them, although no answer needs another one",
        load=in_turn,
        rate=WRK,
        component=(r"radiolink", r"\bnode\b", r"dispatch"),
        mechanism=(*SLEEPS, r"\bin turn\b", r"one after (the other|another)", r"one (\w+ )?at a time",
                   r"sequential", r"\bserial", r"waits for (\S+ )?radiolink"),
        never=(*DISK, r"(nginx|wrk) (\([^)]*\) )?(sleeps|computes)", r"\block\b"),
        halves=True,
        running=True,
        needs=("node", "go", "nginx", "wrk"),
    ),
    System(
        name="rescue_radio_log_pattern",
        kind="backtracking-pattern",
        truth="radiolog, in python, computes: its regular expression tries every division of a "
              "line without a place into its four loose words; gzip and sqlite3 wait for it",
        load=radio_log,
        component=(r"radiolog", r"python"),
        mechanism=(*RUNS, r"regular expression", r"\bregex", r"\bsre_", r"\b_?sre\b", r"backtrack",
                   r"pattern", r"\bmatch"),
        never=(*DISK, r"(gzip|sqlite3|radiolog|python3?) (\([^)]*\) )?sleeps", r"(gzip|sqlite3) (\([^)]*\) )?computes"),
        needs=("gzip", "sqlite3", PYTHON),
    ),
    System(
        name="rescue_hillshade_memory",
        kind="memory-returned-per-request",
        truth="hillshade, in C++, spends its time with page faults in the kernel, because "
              "malloc returns the planes of each part to the kernel and gets them anew for the next",
        load=hillshade,
        rate=ITEMS,
        component=(r"hillshade",),
        mechanism=(r"page.?fault", r"\bfaults?\b", r"munmap", r"mmap", r"\bmemory\b", r"malloc", r"alloc", r"\bkernel\b",
                   r"clear_page", r"zero(s|es|ing)", r"free_unref", r"\bsystem time"),
        never=(*DISK, r"hillshade (\([^)]*\) )?sleeps", r"\block\b"),
        needs=("g++", "go"),
    ),
    System(
        name="rescue_forecast_import",
        kind="update-locks-all-rows",
        truth="mariadbd scans the whole table for each update, because no index has the station, "
              "and locks each row that it reads, so that the three imports wait for one another",
        load=forecast,
        component=(r"mariadb", r"mysql", r"one_connection"),
        mechanism=(*RUNS, *LOCKS, r"\bscan", r"\bindex\b", r"row_search", r"requests? to", r"quer(y|ies)", r"\bupdate"),
        never=(*DISK, r"mariadbd? (\([^)]*\) )?sleeps", r"(forecast|php) (\([^)]*\) )?computes"),
        needs=("mariadbd", "mariadb-install-db", "php", "xargs"),
    ),
    System(
        name="control_rescue_roster",
        kind="control",
        truth="console, in python, pages a team each 60 ms by intention; the roster behind gRPC "
              "and pager are done long before the next call, and all are idle most of the time",
        load=roster,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by console", r"console[^;]*(sleep|timer|until a time|\bpaced\b)", r"\bidle\b",
                    r"load generator"),
        needs=("go", PYTHON),
    ),
    System(
        name="control_rescue_contours",
        kind="control",
        truth="make runs two jobs at a time, each with contours and gzip, which compute, and both "
              "CPUs are full",
        load=contours,
        acceptable=(*NOTHING, rf"(contours|gzip|make).*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("make", "gcc", "gzip"),
    ),
]

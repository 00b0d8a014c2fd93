"""The computers of a railway yard: five frequent faults of its services and batches, and two healthy
parts of the same yard.
"""
from services import PHP_FPM, nginx, php, redis
from system import COMPUTES, ITEMS, PYTHON, SLEEPS, WRK, System, number, wrk

DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# The signaller's page asks the interlocking for a route. A telegram has a head of eight bytes.
ROUTES = """
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.concurrent.Executors;

public class Main {
    static int interlocking, space;

    static class Line {
        final OutputStream out;
        final DataInputStream in;
        int number;

        Line() {
            try {
                Socket socket = new Socket("127.0.0.1", interlocking);
                out = space > 0 ? new BufferedOutputStream(socket.getOutputStream(), space) : socket.getOutputStream();
                in = new DataInputStream(socket.getInputStream());
            } catch (java.io.IOException problem) {
                throw new java.io.UncheckedIOException(problem);
            }
        }

        byte[] ask(String order) throws java.io.IOException {
            byte[] body = order.getBytes();
            out.write(ByteBuffer.allocate(8).putInt(body.length).putInt(number++).array());
            out.write(body);
            out.flush();
            byte[] answer = new byte[in.readInt()];
            in.readFully(answer);
            return answer;
        }
    }

    static final ThreadLocal<Line> lines = ThreadLocal.withInitial(Line::new);

    public static void main(String[] words) throws Exception {
        interlocking = Integer.parseInt(words[1]);
        space = Integer.parseInt(words[2]);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 100);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/route", exchange -> {
            byte[] text = lines.get().ask("SET " + exchange.getRequestURI().getQuery() + " FOR SHUNTING");
            exchange.sendResponseHeaders(200, text.length);
            exchange.getResponseBody().write(text);
            exchange.close();
        });
        server.start();
    }
}
"""
# Keeps the points of the yard, and sets those of a route.
INTERLOCKING = """
package main

import ("bufio"; "encoding/binary"; "fmt"; "hash/fnv"; "io"; "net"; "os"; "sync")

var points [64]bool
var guard sync.Mutex

func set(order []byte) string {
	sum := fnv.New64()
	sum.Write(order)
	route := sum.Sum64()
	guard.Lock()
	defer guard.Unlock()
	moved := 0
	for i := range points {
		if wanted := route >> i & 1 == 1; points[i] != wanted {
			points[i] = wanted
			moved++
		}
	}
	return fmt.Sprintf("LOCKED %016x, %d POINTS MOVED", route, moved)
}

func serve(line net.Conn) {
	defer line.Close()
	in := bufio.NewReader(line)
	head := make([]byte, 8)
	for {
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		order := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(in, order); err != nil {
			return
		}
		text := set(order)
		line.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	}
}

func main() {
	server, err := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		line, err := server.Accept()
		if err != nil {
			panic(err)
		}
		go serve(line)
	}
}
"""


def routes(place):
    interlocking, front = place.port(), place.port()
    place.start(place.go("interlocking", INTERLOCKING), interlocking, port=interlocking)
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Xmx128m", "-cp", place.java(ROUTES), "Main", front, interlocking,
                8192 if place.fixed else 0, port=front)
    return wrk(f"http://127.0.0.1:{front}/route?T14-T31", 4, place.seconds)


# The desk of the hump sends each cut of wagons down, when the retarders have confirmed their force.
# Both exchange files.
HUMPDESK = """#!/usr/bin/tclsh
lassign $argv box cuts pause
set begin [clock microseconds]
for {set cut 0} {$cut < $cuts} {incr cut} {
    set file [open $box/order.new w]
    puts $file "$cut [expr {18 + $cut * 37 % 70}] [expr {200 + $cut * 53 % 400}]"
    close $file
    file rename $box/order.new $box/order
    while {![file exists $box/force]} {
        after $pause
    }
    set file [open $box/force]
    lassign [gets $file] answered force
    close $file
    file delete $box/force
    if {$answered != $cut} {
        error "cut $cut: the retarders answered $answered"
    }
}
puts [format "items %d seconds %.3f" $cuts [expr {([clock microseconds] - $begin) / 1e6}]]
"""
RETARDERS = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Speed in m/s with which the cut arrives at the last wagon of its track. */
static double arrival(double tons, double metres, double force) {
    double speed = 1.4, way = 0, step = 0.01;
    while (way < metres && speed > 0) {
        double slope = way < 60 ? 0.035 : 0.0012;
        double braking = way > 70 && way < 90 ? force / tons : 0;
        speed += (9.81 * slope - 0.018 - braking - 0.0004 * speed * speed) * step;
        way += speed * step;
    }
    return speed;
}

int main(int count, char **words) {
    int cut, pause = atoi(words[2]) * 1000;
    double tons, metres;
    if (count != 3 || chdir(words[1]))
        return 1;
    fclose(fopen("ready", "w"));
    for (;;) {
        FILE *file = fopen("order", "r");
        if (!file) {
            usleep(pause);
            continue;
        }
        if (fscanf(file, "%d %lf %lf", &cut, &tons, &metres) != 3)
            return 1;
        fclose(file);
        unlink("order");
        double low = 0, high = 400;
        for (int i = 0; i < 9; i++) {
            double middle = (low + high) / 2;
            if (arrival(tons, metres, middle) > 1.2)
                low = middle;
            else
                high = middle;
        }
        file = fopen("force.new", "w");
        fprintf(file, "%d %.1f\n", cut, high);
        fclose(file);
        rename("force.new", "force");
    }
}
"""


def hump(place):
    box, pause = place.folder / "box", 1 if place.fixed else 20
    box.mkdir()
    place.start(place.c("retarders", RETARDERS, "-lm"), box, pause, path=box / "ready")
    return [str(place.write("humpdesk", HUMPDESK)), str(box), "1500" if place.fixed else "200", str(pause)]


# A film of the camera above the entry tracks lies on lighttpd, and is fetched through haproxy.
def film(place):
    store, front = place.port(), place.port()
    folder = place.folder / "films"
    folder.mkdir()
    megabytes = 128 if place.fixed else 8
    with (folder / "entry.mp4").open("wb") as out:
        for _ in range(megabytes):
            out.write(bytes(range(256)) * 4096)
    config = place.write("lighttpd.conf", f"""
server.document-root = "{folder}"
server.bind = "127.0.0.1"
server.port = {store}
mimetype.assign = ( ".mp4" => "video/mp4" )
""")
    place.start("lighttpd", "-D", "-f", config, port=store)
    memory = "" if place.fixed else "tune.sndbuf.client 16384"
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
    {memory}
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend cameras
    bind 127.0.0.1:{front}
    default_backend films
backend films
    server films 127.0.0.1:{store}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    told = "bytes %{size_download} seconds %{time_total}"
    return ["curl", "-sS", "--fail", "-o", "/dev/null", "-w", told, f"http://127.0.0.1:{front}/entry.mp4"]


# Answers which wagons stand on a track, and how far the train that they make would brake.
YARDSTATE = """
const http = require("http");
const [port, limits, copies] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
const tracks = Array.from({ length: 42 }, (_, track) => ({ track, wagons: Array.from({ length: 38 }, (_, place) => ({
  number: String(318045320000 + track * 7919 + place * 31), place, tons: 20 + (track * 13 + place * 29) % 70, axles: 4,
  brake: place % 9 ? "P" : "G", owner: "owner " + (track + place) % 17,
  goods: ["coal", "grain", "steel", "cars"][place % 4] })) }));
let asked = 0;

// A copy, because the answer adds to the wagons.
function trackOf(number) {
  if (copies === "track") return JSON.parse(JSON.stringify(tracks[number]));
  return JSON.parse(JSON.stringify(tracks))[number];
}

http.createServer((request, response) => {
  const found = trackOf(asked++ % tracks.length);
  http.get({ host: "127.0.0.1", port: limits, path: "/line?" + found.track, agent }, answer => {
    let text = "";
    answer.on("data", piece => text += piece);
    answer.on("end", () => {
      const line = JSON.parse(text);
      let tons = 0;
      for (const wagon of found.wagons) {
        tons += wagon.tons;
        wagon.allowed = wagon.tons / wagon.axles <= line.axle;
      }
      response.setHeader("Content-Type", "application/json");
      response.end(JSON.stringify({ tons, heavy: found.wagons.filter(wagon => !wagon.allowed).map(wagon => wagon.number) }));
    });
  }).on("error", problem => { response.statusCode = 502; response.end(String(problem)); });
}).listen(Number(port), "127.0.0.1");
"""
LINES = """
package main

import ("fmt"; "net/http"; "os"; "strconv")

func main() {
	http.HandleFunc("/line", func(w http.ResponseWriter, r *http.Request) {
		track, _ := strconv.Atoi(r.URL.RawQuery)
		fmt.Fprintf(w, `{"axle": %d, "metres": %d}`, 16 + track % 7, 500 + track % 5 * 60)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def consist(place):
    lines, state = place.port(), place.port()
    place.start(place.go("linelimits", LINES), lines, port=lines)
    place.start("node", place.write("yardstate.js", YARDSTATE), state, lines, "track" if place.fixed else "yard", port=state)
    front = nginx(place, 'location / { proxy_pass http://state; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream state {{ server 127.0.0.1:{state}; keepalive 16; }}")
    return wrk(f"http://127.0.0.1:{front}/consist", 8, place.seconds)


# Looks through the photographs of all wagons that came in, two wagons at a time, and stores what a
# service found on them.
INSPECT = """#!/usr/bin/python3
import http.client, socket, sys, threading, time

photos, marks, results, count = map(int, sys.argv[1:])

def inspect(first):
    apache = http.client.HTTPConnection("127.0.0.1", photos)
    finder = http.client.HTTPConnection("127.0.0.1", marks)
    store = socket.create_connection(("127.0.0.1", results))
    for wagon in range(first, count, 2):
        apache.request("GET", f"/wagon{wagon % 6}.raw")
        answer = apache.getresponse()
        photo = answer.read()
        if answer.status != 200:
            sys.exit(f"wagon {wagon}: {answer.status}")
        finder.request("POST", "/marks", photo)
        found = finder.getresponse().read().decode()
        store.sendall(f"SET wagon:{wagon} '{found}'\\r\\n".encode())
        if store.recv(100) != b"+OK\\r\\n":
            sys.exit("redis does not store")
        done.append(wagon)

done = []
threads = [threading.Thread(target=inspect, args=(first,)) for first in range(2)]
begin = time.monotonic()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if len(done) < count:
    sys.exit("wagons are missing")
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""
MARKS = """
package main

import ("fmt"; "io"; "net/http"; "os")

func main() {
	http.HandleFunc("/marks", func(w http.ResponseWriter, r *http.Request) {
		photo, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(400)
			return
		}
		edges := 0
		for round := 0; round < 20; round++ {
			for i := 1; i < len(photo); i++ {
				if difference := int(photo[i]) - int(photo[i-1]); difference * difference > 900 + round {
					edges++
				}
			}
		}
		fmt.Fprintf(w, "%d edges", edges)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def photographs(place):
    photos, marks, results = place.port(), place.port(), redis(place)
    place.start(place.go("wagonmarks", MARKS), marks, port=marks)
    folder = place.folder / "photos"
    folder.mkdir()
    for wagon in range(6):
        row = bytes((x * x // (wagon + 3)) % 256 for x in range(1024))
        (folder / f"wagon{wagon}.raw").write_bytes(row * 480)
    limit = "" if place.fixed else f"SetOutputFilter RATE_LIMIT\n  SetEnv rate-limit {round(400 / place.scale)}"
    modules = "\n".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so"
                        for name in ("mpm_event", "authz_core", "env", "ratelimit"))
    config = place.write("apache.conf", f"""
{modules}
ServerName yard
ServerRoot {place.folder}
PidFile {place.folder}/apache.pid
ErrorLog {place.folder}/apache.log
User www-data
Group www-data
Listen 127.0.0.1:{photos}
DocumentRoot {folder}
StartServers 1
ServerLimit 1
ThreadsPerChild 25
MaxRequestWorkers 25
KeepAlive On
KeepAliveTimeout 30
MaxKeepAliveRequests 0
<Directory {folder}>
  Require all granted
  {limit}
</Directory>
""", mode=0o644)
    place.start("apache2", "-D", "FOREGROUND", "-f", config, port=photos)
    return [str(place.write("inspect", INSPECT)), str(photos), str(marks), str(results), "10" if not place.fixed else "300"]


# Control: the brake sheet of a train is computed by php on all CPUs.
BRAKES = """<?php
$wagons = [];
for ($i = 0; $i < 30; $i++) {
    $wagons[] = ["tons" => 20 + $i * 37 % 70, "percent" => 55 + $i * 11 % 40];
}
$sheet = [];
for ($speed = 40; $speed <= 120; $speed += 10) {
    $tons = $held = $way = 0.0;
    foreach ($wagons as $wagon) {
        $tons += $wagon["tons"];
        $held += $wagon["tons"] * $wagon["percent"] / 100;
    }
    for ($now = $speed / 3.6, $time = 0.0; $now > 0; $time += 0.005) {
        $way += $now * 0.005;
        $now -= (0.2 + min($time / 5, 1) * $held / $tons + 0.0003 * $now * $now) * 0.005;
    }
    $sheet[] = sprintf("%d km/h: %.0f m", $speed, $way);
}
echo implode("\\n", $sheet);
"""


def brakes(place):
    return wrk(f"http://127.0.0.1:{php(place, BRAKES, 4)}/sheet", 6, place.seconds)


# Control: drivers of lorries sign in at four desks of the gate, and need a moment for each sheet. A
# worker that waits in a list of redis finds the place of their container.
GATEDESKS = """#!/usr/bin/ruby
require "socket"

port, seconds = ARGV[0].to_i, ARGV[1].to_f

def ask(store, *words)
  store.write("*#{words.size}\\r\\n" + words.map { |word| "$#{word.to_s.bytesize}\\r\\n#{word}\\r\\n" }.join)
  line = store.gets
  return line unless line.start_with?("*")
  Array.new(line[1..].to_i) { store.gets; store.gets.chomp }
end

signed = Queue.new
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
desks = 4.times.map do |desk|
  Thread.new do
    store = TCPSocket.new("127.0.0.1", port)
    store.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    chance = Random.new(desk)
    while Process.clock_gettime(Process::CLOCK_MONOTONIC) < start + seconds
      sleep(0.03 + chance.rand * 0.05)
      ask(store, "RPUSH", "lorries", "#{desk} MSKU#{chance.rand(1_000_000)}")
      signed << ask(store, "BLPOP", "desk:#{desk}", 5).last
    end
  end
end
desks.each(&:join)
puts format("items %d seconds %.3f", signed.size, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start)
"""
STACKER = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
use Socket qw(IPPROTO_TCP TCP_NODELAY);

my ($port, $ready) = @ARGV;
my $store = IO::Socket::INET->new("127.0.0.1:$port") or die "no redis";
$store->setsockopt(IPPROTO_TCP, TCP_NODELAY, 1);
my %places = map { $_ => "block " . $_ % 9 . " row " . $_ % 31 } 0 .. 20000;

sub ask {
    print $store "*" . @_ . "\\r\\n" . join("", map { "\\$" . length($_) . "\\r\\n$_\\r\\n" } @_);
    my $line = <$store>;
    return $line unless $line =~ /^\\*(\\d+)/;
    return map { scalar <$store>; my $word = <$store>; $word =~ s/\\r\\n//; $word } 1 .. $1;
}

open my $file, ">", $ready;
close $file;
while (1) {
    my ($list, $lorry) = ask("BLPOP", "lorries", 0);
    my ($desk, $container) = $lorry =~ /^(\\d+) MSKU(\\d+)/;
    ask("RPUSH", "desk:$desk", "MSKU$container: $places{$container % 20001}");
}
"""


def gate(place):
    store = redis(place)
    place.start(place.write("stacker", STACKER), store, place.folder / "stacker-ready", path=place.folder / "stacker-ready")
    return [str(place.write("gatedesks", GATEDESKS)), str(store), str(place.seconds)]


BUSY = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="railyard_route_in_two_writes",
        kind="nagle-delayed-ack",
        truth="java writes the head and the body of a telegram to interlocking, in Go, with two "
              "small writes; Nagle's algorithm keeps the second back until the delayed "
              "acknowledgement of the first, 40 ms later",
        load=routes,
        rate=WRK,
        component=(r"\bjava\b", r"\bMain\b"),
        mechanism=(r"delayed[- ]ack", r"\bACK\b", r"acknowledg", r"Nagle", r"NODELAY", r"small writes", r"two writes"),
        never=(*DISK, r"(java|interlocking|wrk) (\([^)]*\) )?(sleeps|computes)"),
        running=True,
        needs=("java", "javac", "go", "wrk"),
    ),
    System(
        name="railyard_hump_mailbox",
        kind="poll-interval",
        truth="humpdesk, in Tcl, and retarders, in C, exchange files, and each sleeps 20 ms before it "
              "looks again for the file of the other; a shorter pause of only one of them gains nothing",
        load=hump,
        rate=ITEMS,
        component=(r"humpdesk", r"tclsh", r"retarders"),
        mechanism=(*SLEEPS, r"\bpoll(s|ed|ing)\b", r"\bpauses?\b"),
        never=(*DISK, r"(humpdesk|tclsh\S*|retarders) (\([^)]*\) )?(computes|runs its own code)"),
        needs=("tclsh", "gcc"),
    ),
    System(
        name="railyard_film_through_small_buffers",
        kind="small-socket-buffer",
        truth="haproxy has send buffers of 16 kB towards its clients, so that it sends a small piece "
              "of the film and then waits for space, until curl has acknowledged the piece up to "
              "40 ms later",
        load=film,
        rate=number(r"bytes (\d+) seconds ([\d.]+)"),
        component=(r"haproxy",),
        mechanism=(r"buffer", r"\bwindow", r"sndbuf", r"SO_SND", r"\bspace\b", r"socket[^;]*\bfull\b", r"back-?pressure",
                   r"unacknowledged", r"in flight", r"acknowledg\w+ before it (can )?sends? more"),
        never=(*DISK, r"(haproxy|lighttpd|curl) (\([^)]*\) )?(sleeps|computes)"),
        needs=("lighttpd", "haproxy", "curl"),
    ),
    System(
        name="railyard_consist_on_one_thread",
        kind="single-thread-cpu",
        truth="node computes on its one thread all the time, because it copies the state of the "
              "whole yard as JSON for each request about one track; nginx and linelimits, in Go, "
              "are mostly idle",
        load=consist,
        rate=WRK,
        component=(r"\bnode\b", r"yardstate"),
        mechanism=(*COMPUTES, r"\bCPU\b", r"single[- ]thread", r"event loop", r"\bJSON\b", r"\bbusy\b"),
        never=(*DISK, r"(nginx|linelimits|wrk) (\([^)]*\) )?(computes|sleeps)", r"(node|yardstate\S*) (\([^)]*\) )?sleeps"),
        needs=("nginx", "node", "go", "wrk"),
    ),
    System(
        name="railyard_photographs_at_a_limit",
        kind="rate-limit",
        truth="apache2 sleeps between the pieces of each photograph, because mod_ratelimit allows "
              "400 KiB/s for one response; wagonmarks, in Go, and redis are idle",
        load=photographs,
        rate=ITEMS,
        component=(r"apache",),
        mechanism=(*SLEEPS, r"rate[- _]?limit", r"limit(s|ed)? (of |to )?(the |its )?(rate|bandwidth)", r"\bpac(ed|es|ing)\b",
                   r"throttl", r"\bpauses?\b"),
        never=(*DISK, r"(inspect|python3?|wagonmarks|redis\S*) (\([^)]*\) )?(sleeps|computes)",
               r"apache2? (\([^)]*\) )?computes"),
        halves=True,
        needs=("apache2", "redis-server", "go", PYTHON),
    ),
    System(
        name="control_railyard_brake_sheets",
        kind="control",
        truth="four children of php-fpm compute brake sheets and keep both CPUs busy; nothing waits "
              "for anything but a CPU",
        load=brakes,
        rate=WRK,
        acceptable=(*NOTHING, rf"(php|nginx|wrk).*{BUSY}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs", r"load generator"),
        needs=("nginx", f"/usr/sbin/{PHP_FPM}", "wrk"),
    ),
    System(
        name="control_railyard_gate",
        kind="control",
        truth="the drivers at the four desks of gatedesks, in Ruby, think 30 to 80 ms between two "
              "lorries; redis and stacker, in Perl, which waits in a list, reply within a "
              "millisecond, and all are idle most of the time",
        load=gate,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by (gatedesks|ruby)",
                    r"(gatedesks|ruby)\b.*(sleep|timer|until a time|clock|paced|think)", r"\bidle\b", r"load generator"),
        needs=("ruby", "perl", "redis-server"),
    ),
]

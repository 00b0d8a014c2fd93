"""The computers of a model railway club: five faults of networked programs that are frequent in
production, and two healthy parts of the same railway.
"""
import pwd

from services import nginx, php, postgres
from system import ITEMS, PYTHON, SLEEPS, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
# Text in brackets, such as "(pid 123)", may follow each name in a sentence.
BRACKETS = r"(\([^)]*\) )?"

# A module of the layout is drawn, and its plan is sent to the archive of the club with curl, which
# asks before a large body whether the server wants it ("Expect: 100-continue").
TRACKPLANS = """#!/bin/bash
port=$1 count=$2 patience=$3 mode=$4
options=(--silent --fail --output /dev/null --expect100-timeout "$patience")
[ "$mode" = direct ] && options+=(--header "Expect:")
start=$(date +%s.%N)
for ((plan = 0; plan < count; plan++)); do
    awk -v plan="$plan" 'BEGIN {
        for (i = 0; i < 60000; i++) print "rail", plan, i, i * 37 % 1009, i * 91 % 2003
    }' > "plan-$plan.txt"
    curl "${options[@]}" --upload-file "plan-$plan.txt" "http://127.0.0.1:$port/plan/$plan" || exit 1
done
end=$(date +%s.%N)
echo "items $count seconds $(awk "BEGIN { print $end - $start }")"
"""

# Reads a whole request before it answers, and knows nothing of "100 Continue".
PLANARCHIVE = r"""#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;

my $listener = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ARGV[0],
                                     Listen => 64, ReuseAddr => 1) or die $!;
$SIG{PIPE} = "IGNORE";
while (my $client = $listener->accept) {
    my $length = 0;
    while (my $line = <$client>) {
        $length = $1 if $line =~ /^content-length: (\d+)/i;
        last if $line =~ /^\r?$/;
    }
    read $client, my $plan, $length;
    my %squares;
    for my $rail (split /\n/, $plan) {
        my (undef, undef, undef, $x, $y) = split / /, $rail;
        $squares{int($x / 10) . "/" . int($y / 10)}++;
    }
    my $answer = keys(%squares) . " squares\n";
    print $client "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ", length $answer,
        "\r\n\r\n", $answer;
    close $client;
}
"""


def trackplans(place):
    archive, front = place.port(), place.port()
    place.start(place.write("planarchive", PLANARCHIVE), archive, port=archive)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 2s
    timeout client 10s
    timeout server 10s
frontend club
    bind 127.0.0.1:{front}
    default_backend plans
backend plans
    server planarchive 127.0.0.1:{archive}
""")
    place.start("haproxy", "-f", config, "-db", port=front)
    script = place.write("trackplans", TRACKPLANS)
    mode = "direct" if place.fixed else "ask"
    return [str(script), str(front), "4", f"{place.scale:.3f}", mode]


# Sends the position of one train after the other, with at most 16 that are not yet confirmed.
TRAINS = """#!/usr/bin/ruby
require "socket"
require "json"
require "digest"
port, seconds = ARGV[0].to_i, ARGV[1].to_f
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
line = TCPSocket.new("127.0.0.1", port)
line.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
start, sent, confirmed = now.call, 0, 0
while now.call < start + seconds
  seal = "train #{sent % 40}"
  120.times { seal = Digest::SHA256.hexdigest(seal) }
  axles = (0...60).map { |axle| (sent * 31 + axle * 17) % 9973 }
  line.write(JSON.generate(train: sent % 40, axles: axles, seal: seal, load: "coal " * 120) + "\\n")
  sent += 1
  while sent - confirmed >= 16
    raise "the line is closed" unless line.gets
    confirmed += 1
  end
end
puts "items #{confirmed} seconds #{(now.call - start).round(3)}"
"""

# Adds the block of the track to each position, and passes it on to the hub.
TRACKSIDE = """
const net = require("net"), readline = require("readline");
const [port, hubPort] = process.argv.slice(2).map(Number);
net.createServer(train => {
  const hub = net.connect(hubPort, "127.0.0.1");
  train.setNoDelay(true);
  hub.setNoDelay(true);
  hub.pipe(train);
  hub.on("error", () => train.destroy());
  train.on("error", () => hub.destroy());
  const lines = readline.createInterface({ input: train });
  lines.on("line", text => {
    const position = JSON.parse(text);
    position.block = position.axles[0] % 64;
    if (!hub.write(JSON.stringify(position) + "\\n")) train.pause();
  });
  hub.on("drain", () => train.resume());
  lines.on("close", () => hub.end());
}).listen(port, "127.0.0.1");
"""

# Writes each message to all subscribers before it confirms the message to the publisher.
SIGNALHUB = """
package main

import ("bufio"; "net"; "os"; "sync")

var lock sync.Mutex
var subscribers []net.Conn

func publish(publisher net.Conn) {
	defer publisher.Close()
	in := bufio.NewReaderSize(publisher, 1 << 16)
	for {
		message, err := in.ReadBytes('\\n')
		if err != nil { return }
		lock.Lock()
		all := subscribers
		lock.Unlock()
		for _, subscriber := range all { subscriber.Write(message) }
		publisher.Write([]byte("ok\\n"))
	}
}

func main() {
	publishers, _ := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	joins, _ := net.Listen("tcp", "127.0.0.1:" + os.Args[2])
	go func() {
		for {
			subscriber, err := joins.Accept()
			if err != nil { return }
			subscriber.(*net.TCPConn).SetWriteBuffer(32768)
			subscriber.Write([]byte("welcome\\n"))
			lock.Lock()
			subscribers = append(append([]net.Conn{}, subscribers...), subscriber)
			lock.Unlock()
		}
	}()
	for {
		publisher, err := publishers.Accept()
		if err != nil { return }
		go publish(publisher)
	}
}
"""

# Shows each message on a board of flaps, whose flaps need some time to turn.
FLAPBOARD = r"""
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static unsigned char flaps[256];

static void turn_flaps(long nanoseconds) {
    struct timespec pause = {0, nanoseconds};
    if (nanoseconds) nanosleep(&pause, NULL);
}

int main(int count, char **words) {
    int link = socket(AF_INET, SOCK_STREAM, 0), room = 65536;
    setsockopt(link, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    struct sockaddr_in hub = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1]))};
    hub.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(link, (void *)&hub, sizeof hub)) return 1;
    FILE *in = fdopen(link, "r");
    char *line = NULL;
    size_t size = 0;
    long length, nanoseconds = atol(words[2]);
    while ((length = getline(&line, &size, in)) > 0) {
        if (line[0] == 'w') {
            close(open("board-ready", O_CREAT | O_WRONLY, 0644));
            continue;
        }
        for (long i = 0; i < length; i++) flaps[i % 256] = line[i];
        turn_flaps(nanoseconds);
    }
    return 0;
}
"""

LOGBOOK = """#!/usr/bin/python3
import socket, sys

hub = socket.create_connection(("127.0.0.1", int(sys.argv[1]))).makefile("rb")
hub.readline()
with open("logbook.txt", "wb") as book:
    for message in hub:
        book.write(message[:80] + b"\\n")
"""


def flapboard(place):
    publish, join, trackside, front = (place.port() for _ in range(4))
    place.start(place.go("signalhub", SIGNALHUB), publish, join, port=publish)
    place.start(place.write("logbook", LOGBOOK), join, path=place.folder / "logbook.txt")
    pause = round(4_000_000 * place.fault)
    place.start(place.c("flapboard", FLAPBOARD), join, pause, path=place.folder / "board-ready")
    place.start("node", place.write("trackside.js", TRACKSIDE), trackside, publish, port=trackside)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode tcp
    timeout connect 2s
    timeout client 30s
    timeout server 30s
listen layout
    bind 127.0.0.1:{front}
    server trackside 127.0.0.1:{trackside}
""")
    place.start("haproxy", "-f", config, "-db", port=front)
    return [str(place.write("trains", TRAINS)), str(front), str(place.seconds)]


# At each full hour of the model time all kiosks sell a ticket at once, then each prints its own.
# The next hour starts when all are printed.
KIOSKS = """
import java.io.*;
import java.net.*;
import java.security.*;
import java.util.*;
import java.util.concurrent.*;

public class Main {
    static byte[] buy(int port, int kiosk) throws IOException {
        try (Socket socket = new Socket("127.0.0.1", port)) {
            String request = "GET /ticket/" + kiosk + " HTTP/1.1\\r\\nHost: club\\r\\n"
                + "Connection: close\\r\\n\\r\\n";
            socket.getOutputStream().write(request.getBytes("ISO-8859-1"));
            byte[] answer = socket.getInputStream().readAllBytes();
            if (!new String(answer, "ISO-8859-1").startsWith("HTTP/1.1 200"))
                throw new IOException("no ticket");
            return answer;
        }
    }

    static Void sell(int port, int kiosk) throws Exception {
        byte[] ticket = buy(port, kiosk);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int i = 0; i < 15000; i++) ticket = digest.digest(ticket);
        return null;
    }

    public static void main(String[] words) throws Exception {
        int port = Integer.parseInt(words[0]), hours = Integer.parseInt(words[1]), kiosks = 12;
        ThreadFactory threads = new ThreadFactory() {
            int count;
            public Thread newThread(Runnable task) { return new Thread(task, "kiosk-" + ++count); }
        };
        ExecutorService hall = Executors.newFixedThreadPool(kiosks, threads);
        long start = System.nanoTime();
        for (int hour = 0; hour < hours; hour++) {
            List<Callable<Void>> sales = new ArrayList<>();
            for (int i = 0; i < kiosks; i++) {
                int kiosk = i;
                sales.add(() -> sell(port, kiosk));
            }
            for (Future<Void> sale : hall.invokeAll(sales)) sale.get();
        }
        hall.shutdown();
        System.out.printf(Locale.ROOT, "items %d seconds %.3f%n", hours * kiosks,
                          (System.nanoTime() - start) / 1e9);
    }
}
"""

# Two threads accept connections, and seal one ticket for each.
TICKETOFFICE = r"""
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

static uint64_t seal(const std::string &request) {
    uint64_t value = 1469598103934665603ull;
    for (int round = 0; round < 90000; round++)
        for (int i = 0; i < 40; i++) value = (value ^ (unsigned char)request[i % request.size()]) * 1099511628211ull;
    return value;
}

static void sell(int listener) {
    for (;;) {
        int client = accept(listener, nullptr, nullptr);
        if (client < 0) return;
        char text[4096];
        std::string request;
        ssize_t size;
        while (request.find("\r\n\r\n") == std::string::npos && (size = read(client, text, sizeof text)) > 0)
            request.append(text, size);
        if (!request.empty()) {
            std::string ticket = std::to_string(seal(request)) + "\n";
            std::string answer = "HTTP/1.0 200 OK\r\nContent-Length: " + std::to_string(ticket.size()) + "\r\n\r\n" + ticket;
            if (write(client, answer.data(), answer.size()) < 0) {}
        }
        close(client);
    }
}

int main(int, char **words) {
    signal(SIGPIPE, SIG_IGN);
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(words[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (sockaddr *)&address, sizeof address) || listen(listener, atoi(words[2]))) return 1;
    std::thread second(sell, listener);
    sell(listener);
}
"""


def backlog(place):
    port = place.port()
    built = place.built(TICKETOFFICE, ".cc", "g++", "-O2", "-pthread", "-o", "{program}", "{source}")
    place.start(place.named(built, "ticketoffice"), port, 128 if place.fixed else 5, port=port)
    front = nginx(place, f"location / {{ proxy_pass http://127.0.0.1:{port}; proxy_next_upstream off; }}")
    return ["java", "-Xmx256m", "-cp", str(place.java(KIOSKS)), "Main", str(front), "4"]


# The page of a train asks trainstore by its name, with a new connection for each request.
TRAINPAGE = """<?php
$train = file_get_contents("http://trainstore.yard.club:PORT/train/7");
if ($train === false) { http_response_code(500); exit; }
$sum = $train;
for ($i = 0; $i < 800; $i++) $sum = hash("sha256", $sum);
echo "<h1>$train</h1><p>$sum</p>";
"""

TRAINSTORE = """
package main

import ("fmt"; "net/http"; "os")

func main() {
	http.HandleFunc("/train/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "train %s has 12 coaches", r.URL.Path[7:])
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

# The name server of the association of clubs, which is far away: each answer needs some time.
# It knows one name, and its other answers say that there is no such name.
ZONEKEEPER = """
package main

import ("net"; "os"; "strings"; "time")

func main() {
	address, _ := net.ResolveUDPAddr("udp", "127.0.0.1:" + os.Args[1])
	line, err := net.ListenUDP("udp", address)
	if err != nil { panic(err) }
	pause, _ := time.ParseDuration(os.Args[2])
	os.WriteFile("zone-ready", nil, 0644)
	for {
		packet := make([]byte, 1500)
		size, client, err := line.ReadFromUDP(packet)
		if err != nil { return }
		go func() {
			end, labels := 12, []string{}
			for end < size && packet[end] != 0 {
				length := int(packet[end])
				labels = append(labels, string(packet[end + 1:end + 1 + length]))
				end += 1 + length
			}
			end += 5
			answer := append([]byte{}, packet[:end]...)
			copy(answer[2:12], []byte{0x84, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
			if strings.ToLower(strings.Join(labels, ".")) != "trainstore.yard.club" {
				answer[3] = 0x83
			} else if packet[end - 3] == 1 {
				answer[7] = 1
				answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 127, 0, 0, 1)
			}
			time.Sleep(pause)
			line.WriteToUDP(answer, client)
		}()
	}
}
"""


def names(place):
    zone, store, unique = place.port(), place.port(), place.port()
    place.start(place.go("trainstore", TRAINSTORE), store, port=store)
    place.start(place.go("zonekeeper", ZONEKEEPER), zone, f"{0.004 * place.scale}s",
                path=place.folder / "zone-ready")
    # A resolver can only be asked at port 53, so it has an address of the loopback of its own.
    address = f"127.71.{unique >> 8}.{unique & 255}"
    place.start("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-hosts",
                "--no-resolv", f"--server=127.0.0.1#{zone}", f"--listen-address={address}",
                "--bind-interfaces", "--user=root", f"--pid-file={place.folder}/dnsmasq.pid",
                path=place.folder / "dnsmasq.pid")
    search = "" if place.fixed else "search layout.svc.railway.local svc.railway.local railway.local"
    resolver = place.write("resolv.conf", f"nameserver {address}\n{search}\noptions ndots:5 no-aaaa\n", mode=0o644)
    bound = ("unshare", "-m", "sh", "-c", f'mount --bind {resolver} /etc/resolv.conf && exec "$@"', "sh")
    front = php(place, TRAINPAGE.replace("PORT", str(store)), children=2, bound=bound)
    return wrk(f"http://127.0.0.1:{front}/", 2, place.seconds)


# The page of departures reads a few rows. haproxy asks each server for /health all the time.
TIMETABLE = """
import json
import psycopg2

CHECK = "CHECKSQL"
base = None

def app(environ, start_response):
    global base
    if base is None:
        base = psycopg2.connect(host="127.0.0.1", port=PORT, user="postgres", dbname="railway")
        base.autocommit = True
    with base.cursor() as cursor:
        if environ["PATH_INFO"] == "/health":
            cursor.execute(CHECK)
        else:
            station = hash(environ["PATH_INFO"]) % 500
            cursor.execute("select train, minute from departures where station = %s "
                           "order by minute limit 20", (station,))
        body = json.dumps(cursor.fetchall()).encode()
    start_response("200 OK", [("Content-Type", "application/json"),
                              ("Content-Length", str(len(body)))])
    return [body]
"""


def health(place):
    base = postgres(place, """
        create table departures (station int, train int, minute int, late int);
        insert into departures select i % 500, i % 977, i % 1440, i % 7 from generate_series(1, 500000) i;
        create index on departures (station, minute); analyze departures""",
                    fsync="off", synchronous_commit="off", max_parallel_workers_per_gather=0, work_mem="64MB")
    bouncer, front = place.port(), place.port()
    config = place.write("pgbouncer.ini", f"""
[databases]
railway = host=127.0.0.1 port={base} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {bouncer}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 12
""")
    user = pwd.getpwnam("postgres")
    place.start("pgbouncer", config, port=bouncer, user=user.pw_uid, group=user.pw_gid)
    check = "select 1" if place.fixed else (
        "select count(distinct train), count(distinct minute) from departures where late < 6")
    place.write("timetable.py", TIMETABLE.replace("PORT", str(bouncer)).replace("CHECKSQL", check))
    servers = ""
    for name in ("east", "west", "north"):
        port = place.port()
        place.start("/usr/bin/gunicorn", "-w", "1", "-b", f"127.0.0.1:{port}", "--chdir", place.folder,
                    "timetable:app", port=port)
        servers += f"    server {name} 127.0.0.1:{port} check\n"
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 2s
    timeout client 10s
    timeout server 10s
    timeout check 5s
frontend station
    bind 127.0.0.1:{front}
    default_backend timetable
backend timetable
    balance leastconn
    option httpchk GET /health
    default-server inter 50ms
{servers}
""")
    place.start("haproxy", "-f", config, "-db", port=front)
    return wrk(f"http://127.0.0.1:{front}/station/7", 6, place.seconds)


# Control: the clock of the layout ticks each 60 ms by intention. interlock sets the points of the
# next train and stores their position, and all are done long before the next tick.
STATIONCLOCK = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC sleep);

my ($port, $seconds) = @ARGV;
my $line = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port, Proto => "udp") or die $!;
my ($start, $ticks) = (clock_gettime(CLOCK_MONOTONIC), 0);
while ((my $now = clock_gettime(CLOCK_MONOTONIC)) < $start + $seconds) {
    $line->send("tick $ticks");
    $line->recv(my $answer, 200);
    $ticks++;
    my $rest = $start + $ticks * 0.06 - clock_gettime(CLOCK_MONOTONIC);
    sleep($rest) if $rest > 0;
}
printf "items %d seconds %.3f\\n", $ticks, clock_gettime(CLOCK_MONOTONIC) - $start;
"""

INTERLOCK = """
package main

import ("bufio"; "fmt"; "net"; "os")

func dial(port string) (net.Conn, *bufio.Reader) {
	conn, err := net.Dial("tcp", "127.0.0.1:" + port)
	if err != nil { panic(err) }
	return conn, bufio.NewReader(conn)
}

func main() {
	address, _ := net.ResolveUDPAddr("udp", "127.0.0.1:" + os.Args[1])
	clock, err := net.ListenUDP("udp", address)
	if err != nil { panic(err) }
	points, set := dial(os.Args[2])
	cache, stored := dial(os.Args[3])
	os.WriteFile("interlock-ready", nil, 0644)
	packet := make([]byte, 200)
	for {
		size, client, err := clock.ReadFromUDP(packet)
		if err != nil { return }
		fmt.Fprintf(points, "%s\\n", packet[:size])
		position, _ := set.ReadString('\\n')
		fmt.Fprintf(cache, "set points 0 0 %d\\r\\n%s\\r\\n", len(position), position)
		stored.ReadString('\\n')
		clock.WriteToUDP([]byte(position), client)
	}
}
"""

POINTS = """
import java.io.*;
import java.net.*;

public class Main {
    public static void main(String[] words) throws Exception {
        InetAddress here = InetAddress.getByName("127.0.0.1");
        ServerSocket listener = new ServerSocket(Integer.parseInt(words[0]), 50, here);
        while (true) {
            Socket socket = listener.accept();
            socket.setTcpNoDelay(true);
            new Thread(() -> serve(socket), "points").start();
        }
    }

    static void serve(Socket socket) {
        try (socket) {
            BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
            for (String tick; (tick = in.readLine()) != null; ) {
                int turns = 0;
                for (int i = 0; i < 200000; i++) turns = turns * 31 + tick.charAt(i % tick.length());
                socket.getOutputStream().write(("points " + (turns & 15) + "\\n").getBytes());
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
"""


def clock(place):
    line, points, cache = place.port(), place.port(), place.port()
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", cache, "-t", "1", port=cache)
    place.start("java", "-Xmx128m", "-cp", place.java(POINTS), "Main", points, port=points)
    place.start(place.go("interlock", INTERLOCK), line, points, cache, path=place.folder / "interlock-ready")
    return [str(place.write("stationclock", STATIONCLOCK)), str(line), str(place.seconds)]


# Control: four processes of node compute the pictures of tickets for wrk, behind lighttpd, which
# spreads the requests, and both CPUs are full.
TICKETPRINT = """
const http = require("http"), crypto = require("crypto");
http.createServer((request, response) => {
  let ink = Buffer.from(request.url);
  for (let dot = 0; dot < 1200; dot++) ink = crypto.createHash("sha256").update(ink).digest();
  const picture = ink.toString("hex");
  response.writeHead(200, { "Content-Length": picture.length });
  response.end(picture);
}).listen(Number(process.argv[2]), "127.0.0.1");
"""


def prints(place):
    script, front = place.write("ticketprint.js", TICKETPRINT), place.port()
    ports = [place.port() for _ in range(4)]
    for port in ports:
        place.start("node", script, port, port=port)
    hosts = ", ".join(f'( "host" => "127.0.0.1", "port" => {port} )' for port in ports)
    config = place.write("lighttpd.conf", f"""
server.modules = ( "mod_proxy" )
server.document-root = "{place.folder}"
server.bind = "127.0.0.1"
server.port = {front}
server.max-keep-alive-requests = 1000000
proxy.balance = "least-connection"
proxy.server = ( "" => ( {hosts} ) )
""")
    place.start("lighttpd", "-D", "-f", config, port=front)
    return wrk(f"http://127.0.0.1:{front}/ticket/7", 8, place.seconds)


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
HARMLESS = (r"[Nn]othing stands out", r"[Nn]o single program leads")
SYSTEMS = [
    System(
        name="railway_plans_wait_for_continue",
        kind="expect-continue",
        truth="curl, which trackplans starts for each plan, asks with Expect: 100-continue, and "
              "waits in poll for one second before it sends the body, because planarchive, in "
              "perl, behind haproxy never answers 100 Continue",
        load=trackplans,
        rate=ITEMS,
        component=(r"\bcurl\b", r"trackplans"),
        mechanism=(*SLEEPS, r"time.?out", r"timed", r"100.continue", r"\bexpect",
                   r"self.?(set|imposed|chosen)"),
        never=(r"\bdisk\b", r"\bsync", rf"haproxy {BRACKETS}sleeps",
               rf"(perl|planarchive) {BRACKETS}(sleeps|computes)"),
        change="x0",
        halves=True,
        needs=("curl", "haproxy", "perl", "awk"),
    ),
    System(
        name="railway_flaps_hold_up_trains",
        kind="slow-subscriber",
        truth="flapboard sleeps 4 ms for each message, so that its socket buffer is full and "
              "signalhub, which writes to all subscribers before it confirms, waits for room in "
              "it, and trackside, haproxy and trains wait for signalhub",
        load=flapboard,
        rate=ITEMS,
        component=(r"flapboard",
                   r"signalhub[^;]*(room|full|buffer|peer|subscriber|to write|to send|space|slow)"),
        mechanism=(*SLEEPS, r"\broom\b", r"\bspace\b", r"\bfull\b", r"back.?pressure", r"buffer",
                   r"slow (reader|receiver|subscriber)", r"does not read", r"reads? too slowly"),
        never=(r"\bdisk\b", r"\bsync", rf"(trains|ruby|signalhub|haproxy|logbook) {BRACKETS}sleeps"),
        code=(r"turn_flaps",),
        change="x0",
        halves=True,
        running=True,
        needs=("ruby", "node", "haproxy", "go", "gcc", PYTHON),
    ),
    System(
        name="railway_kiosks_at_a_short_backlog",
        kind="listen-backlog",
        truth="nginx opens a connection for each kiosk, but ticketoffice listens with a backlog "
              "of 5, so that the kernel drops the SYN of the other connections and sends it again "
              "after a second, and the kiosks, in java, wait meanwhile",
        load=backlog,
        rate=ITEMS,
        component=(r"nginx", r"ticketoffice", r"kiosk", r"\bjava\b"),
        mechanism=(r"\bconnect(s|ing)?\b", r"connection (to|is|of|attempt|request)",
                   r"connections (to|of|are|wait)", r"\bSYN", r"handshake", r"backlog", r"accept",
                   r"listen", r"overflow", r"retransmi", r"resen[dt]", r"(sends|sent|send) \w+ again",
                   r"\bdrop(s|ped)?\b", r"queue.*full", r"lost"),
        never=(r"\bdisk\b", r"\bsync\b", rf"(nginx|ticketoffice|java) {BRACKETS}sleeps",
               rf"^(nginx|ticketoffice|java) {BRACKETS}computes"),
        needs=("java", "javac", "nginx", "g++"),
    ),
    System(
        name="railway_names_in_three_domains",
        kind="search-domains",
        truth="php-fpm looks up the name of trainstore for each request and tries three search "
              "domains first (ndots:5), and dnsmasq asks zonekeeper for each of them, which sleeps "
              "4 ms before it says that there is no such name",
        load=names,
        rate=WRK,
        component=(r"php", r"dnsmasq", r"zonekeeper", r"\bDNS\b", r"port 53\b"),
        mechanism=(*SLEEPS, r"look(s|ing)?.?ups?\b", r"\bDNS\b", r"port 53\b", r"\bnames?\b",
                   r"resol[uv]", r"search domain", r"getaddrinfo", r"asks .*again and again",
                   r"waits? for [^;]*(dnsmasq|zonekeeper)"),
        never=(r"\bdisk\b", r"\bsync", rf"(nginx|dnsmasq|trainstore) {BRACKETS}sleeps",
               rf"^(php\S*|dnsmasq|nginx) {BRACKETS}computes"),
        change="x0",
        halves=True,
        needs=("nginx", "wrk", "go", "dnsmasq", "unshare"),
    ),
    System(
        name="railway_health_counts_departures",
        kind="expensive-health-check",
        truth="haproxy asks three servers of gunicorn for /health each 50 ms, and each time postgres "
              "computes, because the check counts the trains and minutes of all departures, so that "
              "the requests of wrk wait for a CPU and for the one worker of each server",
        load=health,
        rate=WRK,
        component=(r"postgres", r"haproxy[^;]*(check|health)", r"health",
                   r"(gunicorn|timetable)[^;]*(one (\w+ )?at a time|one worker|each other|one another)"),
        mechanism=(*RUNS, r"one (\w+ )?at a time", r"one worker", r"each other", r"one another", r"health", r"\bchecks?\b", r"count", r"quer(y|ies)", r"\bscan"),
        never=(r"\bdisk\b", r"\bsync", rf"postgres {BRACKETS}(sleeps|waits for a lock)"),
        needs=("psql", "pgbouncer", "/usr/bin/gunicorn", "haproxy", "wrk"),
    ),
    System(
        name="control_railway_clock",
        kind="control",
        truth="stationclock, in perl, ticks each 60 ms by intention; interlock, points, in java, "
              "and memcached are done long before the next tick, and all are idle most of the time",
        load=clock,
        rate=ITEMS,
        acceptable=(*HARMLESS, r"paced by (stationclock|perl)",
                    r"(stationclock|perl).*(sleep|timer|until a time|poll)",
                    r"waits? for (stationclock|perl|the next|its next)", r"\bidle\b"),
        needs=("perl", "go", "java", "javac", "memcached"),
    ),
    System(
        name="control_railway_ticket_prints",
        kind="control",
        truth="four processes of node compute the pictures of tickets that wrk asks lighttpd for, "
              "and both CPUs are full",
        load=prints,
        rate=WRK,
        acceptable=(*HARMLESS, rf"(node|ticketprint|lighttpd|wrk).*{COMPUTES}",
                    r"(both|all|the|two|2) CPUs"),
        running=True,
        needs=("node", "lighttpd", "wrk"),
    ),
]

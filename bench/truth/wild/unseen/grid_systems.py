"""The systems of the operator of an electricity grid: five faults of its telemetry, exports,
forecasts, grid state and alarms that are frequent in practice, and two healthy parts of the same
control room.
"""
from services import at, postgres
from system import ITEMS, LOCKS, PGBENCH, PYTHON, SLEEPS, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Sends the readings of all meters each quarter of an hour, one datagram a meter, and sends those
# again that the head end has not acknowledged.
OUTSTATION = r"""
#include <arpa/inet.h>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <vector>

static std::string reading(uint32_t number, int meter, int quarter) {
    char text[400];
    int length = snprintf(text, sizeof text, "%u;meter-%05d;%d", number, meter, quarter);
    for (int channel = 0; channel < 12; channel++)
        length += snprintf(text + length, sizeof text - length, ";%.3f", (meter * 7 + quarter * 13 + channel * 29) % 9973 / 10.0);
    return std::string(text, length);
}

int main(int, char **words) {
    int quarters = atoi(words[2]), meters = atoi(words[3]), silence = atoi(words[4]);
    int link = socket(AF_INET, SOCK_DGRAM, 0), space = 4 << 20;
    setsockopt(link, SOL_SOCKET, SO_RCVBUFFORCE, &space, sizeof space);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(words[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(link, (sockaddr *)&address, sizeof address))
        return 1;
    auto begin = std::chrono::steady_clock::now();
    for (int quarter = 0; quarter < quarters; quarter++) {
        uint32_t first = quarter * meters;
        std::vector<bool> known(meters);
        for (int missing = meters; missing;) {
            for (int meter = 0; meter < meters; meter++)
                if (!known[meter]) {
                    std::string text = reading(first + meter, meter, quarter);
                    send(link, text.data(), text.size(), 0);
                }
            pollfd wait{link, POLLIN, 0};
            while (missing && poll(&wait, 1, silence) > 0) {
                uint32_t number;
                if (recv(link, &number, sizeof number, 0) != sizeof number)
                    return 1;
                uint32_t meter = ntohl(number) - first;
                if (meter < (uint32_t)meters && !known[meter]) {
                    known[meter] = true;
                    missing--;
                }
            }
        }
    }
    printf("items %d seconds %.3f\n", quarters * meters, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}
"""
HEADEND = """
import socket, sqlite3, struct, sys

SO_RCVBUFFORCE = 33
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, int(sys.argv[2]))
base = sqlite3.connect("readings.db", isolation_level=None)
base.execute("pragma synchronous = off")
base.execute("create table readings (quarter int, meter text, mean real, spread real, jumps int, primary key (quarter, meter))")
link.bind(("127.0.0.1", int(sys.argv[1])))
open("headend-ready", "w").close()
base.execute("begin")
seen = 0
while True:
    text, peer = link.recvfrom(2000)
    number, meter, quarter, *channels = text.decode().split(";")
    values = [float(value) for value in channels]
    jumps = sum(abs(later - sooner) > 500 for sooner, later in zip(values, values[1:]))
    mean = sum(values) / len(values)
    spread = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    base.execute("insert or ignore into readings values (?, ?, ?, ?, ?)", (int(quarter), meter, mean, spread, jumps))
    link.sendto(struct.pack("!I", int(number)), peer)
    seen += 1
    if seen % 500 == 0:
        base.execute("commit")
        base.execute("begin")
"""


def datagrams(place):
    port = place.port()
    space = 4 << 20 if place.fixed else 128 << 10
    place.start(PYTHON, place.write("headend.py", HEADEND), port, space, path=place.folder / "headend-ready")
    outstation = place.named(place.built(OUTSTATION, ".cc", "g++", "-O2", "-o", "{program}", "{source}"), "outstation")
    return [str(outstation), str(port), "60", "600", str(round(40 * place.scale))]


# Writes the load profiles of one area as lines of text. localtime() looks each time whether the
# file of the time zone has changed, unless the environment names the zone.
LOADPROFILE = r"""
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int count, char **words) {
    sqlite3 *base;
    sqlite3_stmt *rows;
    if (count < 3 || sqlite3_open_v2(words[1], &base, SQLITE_OPEN_READONLY, NULL))
        return 1;
    const char *query = "select meter, quarter, energy from profiles where area = ? order by meter, quarter";
    if (sqlite3_prepare_v2(base, query, -1, &rows, NULL))
        return 1;
    sqlite3_bind_int(rows, 1, atoi(words[2]));
    puts("meter;from;to;kWh");
    while (sqlite3_step(rows) == SQLITE_ROW) {
        time_t begin = sqlite3_column_int64(rows, 1), end = begin + 900;
        char from[40], to[40];
        strftime(from, sizeof from, "%Y-%m-%dT%H:%M", localtime(&begin));
        strftime(to, sizeof to, "%Y-%m-%dT%H:%M", localtime(&end));
        printf("%d;%s;%s;%d.%03d\n", sqlite3_column_int(rows, 0), from, to,
               sqlite3_column_int(rows, 2) / 1000, sqlite3_column_int(rows, 2) % 1000);
    }
    sqlite3_finalize(rows);
    sqlite3_close(base);
    return 0;
}
"""
SETTLEMENT = """#!/bin/bash
# Sends the load profiles of each area to the partner that supplies it.
set -e -o pipefail
begin=$(date +%s.%N)
for area in $(seq "$3"); do
    ./loadprofile profiles.db "$area" | zstd -q -1 -f -o "out/area-$area.csv.zst"
    rsync -W "out/area-$area.csv.zst" "rsync://127.0.0.1:$1/supplier$area/"
done
echo "items $(($2 * $3)) seconds $(echo "$(date +%s.%N) - $begin" | bc)"
"""


def zone(place):
    port, folder, areas, rows = place.port(), place.folder, 4, 160000
    place.run("sqlite3", folder / "profiles.db", f"""
        pragma journal_mode = off; pragma synchronous = off;
        create table profiles (area int, meter int, quarter int, energy int, primary key (area, meter, quarter)) without rowid;
        with recursive n (i) as (values (0) union all select i + 1 from n where i < {areas * rows} - 1)
        insert into profiles select 1 + i / {rows}, i / 2000, 1700000000 / 900 * 900 + i % 2000 * 900, i * 7919 % 4001 from n""")
    modules = "\n".join(f"[supplier{area}]\npath = {folder}/in{area}\nread only = false" for area in range(1, areas + 1))
    for area in range(1, areas + 1):
        (folder / f"in{area}").mkdir()
    (folder / "out").mkdir()
    config = place.write("suppliers.conf", f"""
use chroot = false
uid = root
gid = root
pid file = {folder}/rsyncd.pid
{modules}
""", mode=0o644)
    place.start("rsync", "--daemon", "--no-detach", "--address=127.0.0.1", f"--port={port}", f"--config={config}", port=port)
    place.c("loadprofile", LOADPROFILE, "-lsqlite3")
    script = place.write("settlement", SETTLEMENT)
    environment = ["TZ=:/etc/localtime"] if place.fixed else ["-u", "TZ"]
    return ["env", *environment, str(script), str(port), str(rows), str(areas)]


# Forecasts the load of one region from the file of its last months.
FORECASTS = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.*;
import java.nio.channels.FileChannel;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.Executors;

public class Main {
    static final int VALUES = 64 * 1024;
    static final ThreadLocal<ByteBuffer> OWN = ThreadLocal.withInitial(() -> ByteBuffer.allocateDirect(8 * VALUES));

    // The connection points of the grid with their names, which the service keeps in memory.
    static final Map<String, double[]> POINTS = new HashMap<>();

    static void create(Path home) throws Exception {
        for (int region = 0; region < 16; region++) {
            ByteBuffer values = ByteBuffer.allocate(8 * VALUES);
            for (int i = 0; i < VALUES; i++)
                values.putDouble(400 + region + 90 * Math.sin(i * Math.PI / 48) + i % 7);
            Files.write(home.resolve("region" + region), values.array());
        }
        for (int point = 0; point < 250000; point++)
            POINTS.put("point-" + point, new double[] {point % 360, point % 180, point % 42});
    }

    static double forecast(Path file, boolean keep) throws Exception {
        ByteBuffer buffer = keep ? OWN.get().clear() : ByteBuffer.allocateDirect(8 * VALUES);
        try (FileChannel channel = FileChannel.open(file)) {
            while (buffer.hasRemaining() && channel.read(buffer) >= 0) { }
        }
        DoubleBuffer values = buffer.flip().asDoubleBuffer();
        // Smooths the values of the same quarter of an hour of each day.
        double[] level = new double[96];
        for (int i = 0; i < values.limit(); i++)
            level[i % 96] += 0.1 * (values.get(i) - level[i % 96]);
        return Arrays.stream(level).max().getAsDouble();
    }

    public static void main(String[] words) throws Exception {
        Path home = Path.of(words[1]);
        boolean keep = words[2].equals("keep");
        create(home);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 100);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/forecast/", exchange -> {
            try {
                String region = exchange.getRequestURI().getPath().substring(10);
                byte[] text = String.format("{\\"peak\\": %.2f}", forecast(home.resolve(region), keep)).getBytes();
                exchange.sendResponseHeaders(200, text.length);
                exchange.getResponseBody().write(text);
            } catch (Exception error) {
                exchange.sendResponseHeaders(500, -1);
            }
            exchange.close();
        });
        server.start();
    }
}
"""
REGIONS = """
local number = 0
request = function()
    number = number + 1
    return wrk.format("GET", "/forecast/region" .. number % 16)
end
"""


def direct(place):
    port, front = place.port(), place.port()
    (place.folder / "regions").mkdir()
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Xmx400m", "-XX:MaxDirectMemorySize=32m", "-cp", place.java(FORECASTS),
                "Main", port, place.folder / "regions", "keep" if place.fixed else "new", port=port)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend planning
    bind 127.0.0.1:{front}
    default_backend forecasts
backend forecasts
    server forecasts 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    load = wrk(f"http://127.0.0.1:{front}/", 6, place.seconds)
    return [*load[:1], "-s", str(place.write("regions.lua", REGIONS, mode=0o644)), *load[1:]]


# Keeps the measured flows of all lines: GET /area/N has the load of one area, GET /snapshot all
# lines for a neighbouring grid, and datagrams change the flow of a line.
GRIDSTATE = r"""
#include <arpa/inet.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

struct Line { double flow, angle, limit; };
static std::vector<Line> lines(20000);
static pthread_rwlock_t state;
static bool copy_first;

static bool put(int client, const std::string &text) {
    for (size_t done = 0; done < text.size();) {
        ssize_t part = write(client, text.data() + done, text.size() - done);
        if (part <= 0)
            return false;
        done += part;
    }
    return true;
}

static bool area(int client, int number) {
    double load = 0;
    pthread_rwlock_rdlock(&state);
    for (int i = 0; i < 1200; i++) {
        const Line &line = lines[(number * 1200 + i) % lines.size()];
        load += line.flow * std::cos(line.angle) / line.limit;
    }
    pthread_rwlock_unlock(&state);
    char body[40], text[200];
    int length = snprintf(body, sizeof body, "area %d load %.3f\n", number, load);
    snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", length, body);
    return put(client, text);
}

static bool snapshot(int client) {
    std::string text;
    char row[80];
    bool good = put(client, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    pthread_rwlock_rdlock(&state);
    for (size_t i = 0; i < lines.size() && good; i++) {
        const Line &line = lines[i];
        text.append(row, snprintf(row, sizeof row, "line-%05zu;flow;%12.4f;angle;%9.5f;max;%9.2f\n", i, line.flow, line.angle, line.limit));
        if (!copy_first && text.size() > 16000) {
            good = put(client, text);
            text.clear();
        }
    }
    pthread_rwlock_unlock(&state);
    if (good)
        put(client, text);
    return false;
}

static void serve(int client) {
    char request[4000];
    bool more = true;
    for (size_t held = 0; more;) {
        ssize_t part = read(client, request + held, sizeof request - 1 - held);
        if (part <= 0)
            break;
        held += part;
        request[held] = 0;
        if (!strstr(request, "\r\n\r\n"))
            continue;
        more = strncmp(request, "GET /area/", 10) ? snapshot(client) : area(client, atoi(request + 10));
        held = 0;
    }
    close(client);
}

static void measure(int port) {
    int link = socket(AF_INET, SOCK_DGRAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(link, (sockaddr *)&address, sizeof address))
        exit(1);
    struct { int line; float flow; } value;
    while (recv(link, &value, sizeof value, 0) == sizeof value) {
        pthread_rwlock_wrlock(&state);
        lines[value.line % lines.size()].flow = value.flow;
        pthread_rwlock_unlock(&state);
    }
}

int main(int, char **words) {
    signal(SIGPIPE, SIG_IGN);
    copy_first = !strcmp(words[2], "copy");
    // Measured values must not starve behind the readers.
    pthread_rwlockattr_t kind;
    pthread_rwlockattr_init(&kind);
    pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&state, &kind);
    for (size_t i = 0; i < lines.size(); i++)
        lines[i] = {i % 700 + 0.5, i % 90 / 100.0, 800.0 + i % 50};
    int port = atoi(words[1]), server = socket(AF_INET, SOCK_STREAM, 0), yes = 1, space = 32 << 10;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(server, SOL_SOCKET, SO_SNDBUF, &space, sizeof space);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (bind(server, (sockaddr *)&address, sizeof address) || listen(server, 100))
        return 1;
    std::thread(measure, port).detach();
    for (int client; (client = accept(server, nullptr, nullptr)) >= 0;)
        std::thread(serve, client).detach();
}
"""
TRANSDUCERS = """
import random, socket, struct, sys, time

link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.connect(("127.0.0.1", int(sys.argv[1])))
open("transducers-ready", "w").close()
while True:
    for _ in range(4):
        link.send(struct.pack("if", random.randrange(20000), random.random() * 700))
    time.sleep(0.01)
"""
# Reads as fast as its line is, in pieces of 16 KB.
NEIGHBOUR = """#!/usr/bin/ruby
# Fetches the flows of all lines of this grid for the model of the neighbouring grid.
require "socket"

port, pause = ARGV[0].to_i, ARGV[1].to_f
File.write("neighbour-ready", "")
loop do
  link = Socket.new(:INET, :STREAM)
  link.setsockopt(:SOCKET, :RCVBUF, 16 * 1024)
  link.connect(Addrinfo.tcp("127.0.0.1", port))
  link.write("GET /snapshot HTTP/1.0\\r\\n\\r\\n")
  lines = 0
  while (piece = link.read(16 * 1024))
    lines += piece.count("\\n")
    sleep(pause)
  end
  link.close
  File.write("neighbour.lines", lines)
  sleep(0.05)
end
"""


def snapshot(place):
    port = place.port()
    gridstate = place.named(place.built(GRIDSTATE, ".cc", "g++", "-O2", "-pthread", "-o", "{program}", "{source}"), "gridstate")
    place.start(gridstate, port, "copy" if place.fixed else "stream", port=port)
    place.start(PYTHON, place.write("transducers.py", TRANSDUCERS), port, path=place.folder / "transducers-ready")
    place.start(place.write("neighbour", NEIGHBOUR), port, 0.005, path=place.folder / "neighbour-ready")
    return wrk(f"http://127.0.0.1:{port}/area/7", 8, place.seconds)


# The alarm board shows the newest of the few open alarms, and some alarms are raised meanwhile.
BOARD = "select id, station, raised, message from alarms where state = :state order by raised desc limit 20;\n"
RAISED = r"""\set station random(1, 400)
insert into alarms (station, state, raised, message) values (:station, 'closed', now(), 'short circuit, reclosed after 300 ms');
"""


def plan(place):
    mode = "force_custom_plan" if place.fixed else "auto"
    closed = round(5000 * place.scale)
    port = postgres(place, f"""
        create table alarms (id serial primary key, station int, state text, raised timestamptz, message text);
        insert into alarms (station, state, raised, message)
            select i % 400, 'open', timestamptz '2024-01-01' + i * interval '1 minute', 'oil temperature' from generate_series(1, 60) i;
        insert into alarms (station, state, raised, message)
            select i % 400, 'closed', timestamptz '2024-01-02' + i * interval '1 minute', 'voltage below limit'
            from generate_series(1, {closed}) i;
        create index on alarms (state);
        create index on alarms (raised);
        analyze; checkpoint""", fsync="off", plan_cache_mode=mode)
    board, raised = (place.write(name, text, mode=0o644) for name, text in (("board.sql", BOARD), ("raised.sql", RAISED)))
    return ["pgbench", *at(port), "-n", "-M", "prepared", "-c", "4", "-T", str(place.seconds), "-D", "state=open",
            "-f", f"{board}@9", "-f", f"{raised}@1", "postgres"]


# Control: the flows across a border go to the neighbour each 250 ms by intention, and rsync is done
# long before the next time.
BORDERFLOW = """#!/usr/bin/perl
use strict;
use warnings;
use Time::HiRes qw(clock_gettime sleep CLOCK_MONOTONIC);

my ($port, $seconds) = @ARGV;
my ($start, $turn) = (clock_gettime(CLOCK_MONOTONIC), 0);
while (clock_gettime(CLOCK_MONOTONIC) < $start + $seconds) {
    open my $file, ">", "flows/quarter-" . $turn % 8 or die "no file: $!";
    printf $file "tieline-%03d;%d;%.2f\\n", $_, $turn, ($_ * 37 + $turn * 11) % 900 for 1 .. 400;
    close $file;
    system("rsync", "-a", "flows/", "rsync://127.0.0.1:$port/border/") == 0 or die "rsync failed";
    $turn++;
    my $rest = $start + $turn * 0.25 - clock_gettime(CLOCK_MONOTONIC);
    sleep($rest) if $rest > 0;
}
printf "items %d seconds %.3f\\n", $turn, clock_gettime(CLOCK_MONOTONIC) - $start;
"""


def border(place):
    port, folder = place.port(), place.folder
    (folder / "flows").mkdir()
    (folder / "border").mkdir()
    config = place.write("border.conf", f"""
use chroot = false
uid = root
gid = root
pid file = {folder}/rsyncd.pid
[border]
path = {folder}/border
read only = false
""", mode=0o644)
    place.start("rsync", "--daemon", "--no-detach", "--address=127.0.0.1", f"--port={port}", f"--config={config}", port=port)
    return [str(place.write("borderflow", BORDERFLOW)), str(port), str(place.seconds)]


# Control: twelve disturbances are always with the broker, and three correlators, which share one
# subscription, look for their common causes.
DISPATCH = """#!/usr/bin/python3
import socket, sys, threading, time
import paho.mqtt.client as mqtt

port, seconds = int(sys.argv[1]), float(sys.argv[2])
causes = threading.Semaphore(0)
client = mqtt.Client("dispatch", protocol=mqtt.MQTTv5)
client.on_socket_open = lambda client, data, link: link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
client.on_message = lambda client, data, message: causes.release()
listening = threading.Event()
client.on_subscribe = lambda *_: listening.set()
client.connect("127.0.0.1", port)
client.loop_start()
client.subscribe("causes")
listening.wait()
for number in range(12):
    client.publish("disturbances", str(number))
begin, count = time.monotonic(), 0
while time.monotonic() < begin + seconds:
    causes.acquire()
    count += 1
    client.publish("disturbances", str(count + 11))
print(f"items {count} seconds {time.monotonic() - begin:.3f}", flush=True)
"""
CORRELATOR = """#!/usr/bin/python3
import random, socket, sys
import paho.mqtt.client as mqtt

LINES = {bus: [(bus * 7 + i * i + 1) % 1500 for i in range(5)] for bus in range(1500)}

# Returns the number of buses that lose their supply if the lines of one bus trip.
def affected(bus):
    reached, edge = {0}, [0]
    while edge:
        for other in LINES[edge.pop()]:
            if other != bus and other not in reached:
                reached.add(other)
                edge.append(other)
    return len(LINES) - len(reached)

def correlate(client, data, message):
    seed = random.Random(int(message.payload))
    worst = max(affected(seed.randrange(1, 1500)) for _ in range(20))
    client.publish("causes", str(worst))

client = mqtt.Client(f"correlator-{sys.argv[2]}", protocol=mqtt.MQTTv5)
client.on_socket_open = lambda client, data, link: link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
client.on_message = correlate
client.on_subscribe = lambda *_: open(f"correlator-{sys.argv[2]}-ready", "w").close()
client.connect("127.0.0.1", int(sys.argv[1]))
client.subscribe("$share/correlators/disturbances")
client.loop_forever()
"""


def correlators(place):
    port = place.port()
    config = place.write("mosquitto.conf", f"""
listener {port} 127.0.0.1
allow_anonymous true
set_tcp_nodelay true
user root
persistence false
""", mode=0o644)
    place.start("mosquitto", "-c", config, port=port)
    program = place.write("correlator", CORRELATOR)
    for number in range(3):
        place.start(program, port, number, path=place.folder / f"correlator-{number}-ready")
    return [str(place.write("dispatch", DISPATCH)), str(port), str(place.seconds)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|own code|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="grid_meter_datagrams",
        kind="datagrams-dropped-at-receive-buffer",
        truth="outstation waits in poll for acknowledgements until its timer of 40 ms expires, and "
              "sends its datagrams again, because the kernel drops those that find the receive "
              "buffer of headend.py full",
        load=datagrams,
        rate=ITEMS,
        component=(r"outstation", r"(headend|python|UDP|datagram)[^;]*(drop|lost|los(es|s)|overflow|buffer|full)",
                   r"(drop|lost|los(es|s)|overflow|buffer|full)[^;]*(headend|UDP)"),
        mechanism=(*SLEEPS, r"time-?out", r"\bpoll\b", r"drop", r"\blost\b", r"\bloss\b", r"overflow",
                   r"receive buffer", r"retransmi", r"resend", r"sends? .*again", r"\bpause"),
        never=(*DISK, r"^[^;]*headend\S* (\([^)]*\) )?(sleeps|computes)", r"outstation (\([^)]*\) )?computes"),
        halves=True,
        needs=("g++", PYTHON),
    ),
    System(
        name="grid_profiles_zone_file",
        kind="time-zone-file-checked-per-row",
        truth="loadprofile, in C, spends its time in the system call newfstatat (stat) of "
              "/etc/localtime, twice for each row, because localtime() looks whether the file has "
              "changed if TZ is not set",
        load=zone,
        rate=ITEMS,
        component=(r"loadprofile", r"localtime"),
        mechanism=(*RUNS, r"\bstat\b", r"fstatat", r"localtime", r"time ?zone", r"\btz", r"\bTZ\b",
                   r"system calls?", r"\bkernel\b"),
        never=(*DISK, r"loadprofile (\([^)]*\) )?sleeps"),
        code=(r"fstatat", r"\bstat\b", r"localtime", r"__tz", r"tzset", r"tzfile"),
        needs=("gcc", "sqlite3", "zstd", "rsync", "bc", "bash"),
    ),
    System(
        name="grid_forecast_direct_buffers",
        kind="direct-memory-exhausted",
        truth="the threads of java wait in Bits.reserveMemory for full collections (System.gc), "
              "because each request allocates a direct buffer, and the limit of direct memory is "
              "reached long before the heap is full",
        load=direct,
        rate=WRK,
        component=(r"\bjava\b", r"forecasts", r"\bG1\b", r"\bGC\b", r"VM[ _]Thread"),
        mechanism=(r"\bGC\b", r"garbage", r"collect", r"\bgc\b", r"reserveMemory", r"allocat", r"direct (memory|buffer)", r"\bG1\b",
                   r"VM[ _]Thread", r"safepoint"),
        never=(*DISK, r"^[^;]*(haproxy|wrk) (\([^)]*\) )?(sleeps|computes)"),
        code=(r"reserveMemory", r"allocateDirect", r"DirectByteBuffer", r"G1", r"Mark", r"System\.gc", r"forecast"),
        running=True,
        needs=("java", "javac", "haproxy", "wrk"),
    ),
    System(
        name="grid_snapshot_for_neighbour",
        kind="pending-writer-blocks-readers",
        truth="the threads of gridstate wait for the read-write lock: one thread keeps it for "
              "reading while it writes the snapshot to the slow line of neighbour (ruby), a measured "
              "value waits to write, and all further readers wait behind it",
        load=snapshot,
        rate=WRK,
        component=(r"gridstate",),
        mechanism=(*LOCKS, r"\b(writ|send)(es?|s|ing) to (the )?(neighbour|ruby|socket)", r"rwlock", r"futex", r"read-?write",
                   r"\bholds?\b", r"\bheld\b", r"keeps", r"(neighbour|ruby).*(slow|read|sleep|pace)", r"send buffer", r"blocked"),
        never=(*DISK, r"^[^;]*gridstate (\([^)]*\) )?computes"),
        running=True,
        needs=("g++", "ruby", "wrk", PYTHON),
    ),
    System(
        name="grid_alarm_board_plan",
        kind="generic-plan-of-skewed-values",
        truth="postgres computes: after five executions it uses a generic plan, which scans the "
              "index of the times backwards through all closed alarms until it has found 20 open "
              "ones, in place of the index of the states",
        load=plan,
        rate=PGBENCH,
        component=(r"postgres",),
        mechanism=(*RUNS, r"\bscan", r"\bindex\b", r"\bplan", r"quer(y|ies)", r"heap_?", r"btree|\b_bt_",
                   r"requests? to", r"ExecScan|ExecQual|slot_deform|texteq"),
        never=(*DISK, r"postgres (\([^)]*\) )?sleeps", r"^[^;]*pgbench (\([^)]*\) )?(computes|sleeps)"),
        halves=True,
        needs=("psql", "pgbench"),
    ),
    System(
        name="control_grid_border_flows",
        kind="control",
        truth="borderflow, in perl, starts rsync each 250 ms by intention; rsync and its daemon are "
              "done long before the next time, and all are idle most of the time",
        load=border,
        rate=ITEMS,
        acceptable=(*NOTHING, r"\bpaced\b", r"(borderflow|perl).*(sleep|timer|until a time|clock)", r"\bidle\b"),
        needs=("perl", "rsync"),
    ),
    System(
        name="control_grid_correlators",
        kind="control",
        truth="three correlators, in Python, compute in parallel what dispatch gives to mosquitto, "
              "and both CPUs are full",
        load=correlators,
        rate=ITEMS,
        acceptable=(*NOTHING, rf"correlator.*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("mosquitto", PYTHON),
    ),
]

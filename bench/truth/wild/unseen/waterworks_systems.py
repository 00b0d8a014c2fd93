"""The measuring data of a waterworks: five frequent faults of collectors, pipelines and stores of
time series, and two healthy parts of the same waterworks.
"""
import gzip
import subprocess

from services import at, postgres
from system import ITEMS, LOCKS, PGBENCH, PYTHON, System

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU", r"\bkernel\b")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Keeps the readings of all stations in leveldb. A station sends its next reading after the "ok" for
# the last one, which means that the reading is on the disk.
LEVELSTORE = r"""
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <leveldb/db.h>
#include <leveldb/write_batch.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

int main(int, char **words) {
    bool together = !strcmp(words[3], "together");
    leveldb::DB *store;
    leveldb::Options options;
    options.create_if_missing = true;
    if (!leveldb::DB::Open(options, words[2], &store).ok())
        return 1;
    leveldb::WriteOptions durable;
    durable.sync = true;

    int entry = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(words[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(entry, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(entry, (sockaddr *)&address, sizeof address) || listen(entry, 100))
        return 1;
    int poll = epoll_create1(0);
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    wanted.data.fd = entry;
    epoll_ctl(poll, EPOLL_CTL_ADD, entry, &wanted);

    for (;;) {
        epoll_event ready[64];
        int count = epoll_wait(poll, ready, 64, -1);
        leveldb::WriteBatch batch;
        std::vector<int> stations;
        for (int i = 0; i < count; i++) {
            int from = ready[i].data.fd;
            if (from == entry) {
                wanted.data.fd = accept(entry, nullptr, nullptr);
                setsockopt(wanted.data.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                epoll_ctl(poll, EPOLL_CTL_ADD, wanted.data.fd, &wanted);
                continue;
            }
            char line[200];
            ssize_t length = read(from, line, sizeof line);
            if (length <= 0) {
                close(from);
                continue;
            }
            // "pressure of station 17 at 00000042\n4.318\n"
            std::string reading(line, length);
            size_t end = reading.find('\n');
            batch.Put(reading.substr(0, end), reading.substr(end + 1));
            stations.push_back(from);
            if (together)
                continue;
            store->Write(durable, &batch);
            batch.Clear();
            if (write(from, "ok\n", 3) < 0)
                return 1;
        }
        if (together && !stations.empty()) {
            store->Write(durable, &batch);
            for (int station : stations)
                if (write(station, "ok\n", 3) < 0)
                    return 1;
        }
    }
}
"""
STATIONS = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strconv"; "sync"; "sync/atomic"; "time")

func main() {
	count, _ := strconv.Atoi(os.Args[2])
	seconds, _ := strconv.ParseFloat(os.Args[3], 64)
	var all sync.WaitGroup
	var readings atomic.Int64
	start := time.Now()
	end := start.Add(time.Duration(seconds * 1e9))
	for station := 0; station < count; station++ {
		all.Add(1)
		go func() {
			defer all.Done()
			link, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
			if err != nil {
				panic(err)
			}
			replies := bufio.NewReader(link)
			for number := 0; time.Now().Before(end); number++ {
				fmt.Fprintf(link, "pressure of station %d at %08d\\n%.3f\\n", station, number, 4 + float64(number % 100) / 300)
				if _, err := replies.ReadString('\\n'); err != nil {
					panic(err)
				}
				readings.Add(1)
			}
		}()
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", readings.Load(), time.Since(start).Seconds())
}
"""


def levels(place):
    source = place.built(LEVELSTORE, ".cc", "g++", "-O2", "-o", "{program}", "{source}", "-lleveldb")
    port = place.port()
    mode = "together" if place.fixed else "single"
    place.start(place.named(source, "levelstore"), port, place.folder / "levels", mode, port=port)
    return [str(place.go("stations", STATIONS)), str(port), "24", str(place.seconds)]


# Each night the readings of the day get a time that people can read, and a smoothed value.
LOCALTIMES = """#!/bin/bash
while IFS=';' read -r epoch station flow; do
    STAMP
    echo "$stamp;$station;$flow"
done
"""
OUTSIDE = """stamp=$(date -d "@$epoch" '+%Y-%m-%d %H:%M:%S')"""
INSIDE = """printf -v stamp '%(%Y-%m-%d %H:%M:%S)T' "$epoch\""""
SMOOTH = """#!/usr/bin/python3
import sys
from collections import defaultdict, deque

recent = defaultdict(lambda: deque(maxlen=2880))

# A leak shows as a flow at night: the tenth part of the smallest flows, and their spread.
for line in sys.stdin:
    stamp, station, flow = line.rstrip().split(";")
    window = recent[station]
    window.append(float(flow))
    lowest = sorted(window)[:max(1, len(window) // 10)]
    mean = sum(lowest) / len(lowest)
    deviations = [abs(value - mean) for value in window]
    spread = sum(value * value for value in deviations) / len(window)
    median = sorted(deviations)[len(window) // 2]
    print(stamp, station, flow, f"{mean:.3f}", f"{spread:.3f}", f"{median:.3f}", sep=";")
"""
NIGHTLY = """#!/bin/bash
set -o pipefail
zcat day.csv.gz | ./localtimes | ./nightflow | sqlite3 -separator ';' flows.db '.import /dev/stdin flows' || exit 1
[ "$(sqlite3 flows.db 'select count(*) from flows')" = LINES ] || exit 1
"""


def nightly(place):
    lines = 2200
    day = "".join(f"{1700000000 + i * 30};district 4;{20 + (i * 7919) % 1000 / 100}\n" for i in range(lines))
    (place.folder / "day.csv.gz").write_bytes(gzip.compress(day.encode()))
    place.write("localtimes", LOCALTIMES.replace("STAMP", INSIDE if place.fixed else OUTSIDE))
    place.write("nightflow", SMOOTH)
    place.run("sqlite3", "flows.db", "create table flows (time text, station text, flow real, low real, spread real, median real)")
    return [str(place.write("nightly", NIGHTLY.replace("LINES", str(lines))))]


# A controller of a pumping station, which answers a request of Modbus after one of its cycles.
CONTROLLERS = """
package main

import ("encoding/binary"; "io"; "net"; "os"; "strconv"; "time")

func serve(link net.Conn, cycle time.Duration) {
	defer link.Close()
	for number := uint16(0); ; number++ {
		var request [12]byte
		if _, err := io.ReadFull(link, request[:]); err != nil {
			return
		}
		time.Sleep(cycle)
		count := binary.BigEndian.Uint16(request[10:])
		answer := append([]byte{}, request[:8]...)
		binary.BigEndian.PutUint16(answer[4:], 3 + 2 * count)
		answer = append(answer, byte(2 * count))
		for i := uint16(0); i < count; i++ {
			answer = binary.BigEndian.AppendUint16(answer, 400 + number * 31 % 90 + i)
		}
		link.Write(answer)
	}
}

func main() {
	cycle, _ := strconv.ParseFloat(os.Args[2], 64)
	entry, err := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		link, err := entry.Accept()
		if err != nil {
			panic(err)
		}
		go serve(link, time.Duration(cycle * 1e9))
	}
}
"""
# One process for each district reads the registers of its controller into the panel, a shared
# memory from which the control room shows them.
DISTRICTS = r"""
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DISTRICTS = 6, REGISTERS = 40 };

struct panel {
    pthread_mutex_t lock;
    long scans;
    struct {
        unsigned short values[REGISTERS];
        double mean;
    } districts[DISTRICTS];
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void read_registers(int link, int unit, unsigned short *values) {
    unsigned char request[12] = {0, 1, 0, 0, 0, 6, unit, 3, 0, 0, 0, REGISTERS}, answer[9 + 2 * REGISTERS];
    if (write(link, request, sizeof request) != sizeof request || recv(link, answer, sizeof answer, MSG_WAITALL) != sizeof answer)
        exit(1);
    for (int i = 0; i < REGISTERS; i++)
        values[i] = answer[9 + 2 * i] << 8 | answer[10 + 2 * i];
}

static void store(struct panel *panel, int district, const unsigned short *values) {
    double sum = 0;
    for (int i = 0; i < REGISTERS; i++)
        sum += panel->districts[district].values[i] = values[i];
    panel->districts[district].mean = sum / REGISTERS;
    panel->scans++;
}

static void scan(struct panel *panel, int district, int link, double end, int brief) {
    unsigned short values[REGISTERS];
    while (now() < end) {
        if (brief)
            read_registers(link, district, values);
        pthread_mutex_lock(&panel->lock);
        if (!brief)
            read_registers(link, district, values);
        store(panel, district, values);
        pthread_mutex_unlock(&panel->lock);
    }
}

int main(int count, char **words) {
    int brief = count > 3 && !strcmp(words[3], "brief");
    struct panel *panel = mmap(NULL, sizeof *panel, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&panel->lock, &shared);
    double start = now();
    for (int district = 0; district < DISTRICTS; district++) {
        if (fork())
            continue;
        int link = socket(AF_INET, SOCK_STREAM, 0);
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        if (connect(link, (struct sockaddr *)&address, sizeof address))
            return 1;
        scan(panel, district, link, start + atof(words[2]), brief);
        return 0;
    }
    for (int status; wait(&status) > 0;)
        if (status)
            return 1;
    printf("items %ld seconds %.3f\n", panel->scans, now() - start);
}
"""


def panel(place):
    port = place.port()
    place.start(place.go("controllers", CONTROLLERS), port, 0.004 * place.scale, port=port)
    mode = "brief" if place.fixed else "whole"
    return [str(place.c("districts", DISTRICTS)), str(port), str(place.seconds), mode]


# Keeps the last readings of all meters, and answers each reading with the balance of its zone.
BALANCE = """
import java.io.*;
import java.net.Socket;
import java.nio.file.*;
import java.util.*;

public class Main {
    record Reading(long time, Double litres, String quality) {}

    static final Map<Integer, ArrayDeque<Reading>> meters = new HashMap<>();

    static String readLine(InputStream in, StringBuilder line) throws IOException {
        line.setLength(0);
        for (int letter; (letter = in.read()) != '\\n'; ) {
            if (letter < 0)
                return null;
            if (letter != '\\r')
                line.append((char) letter);
        }
        return line.toString();
    }

    static void add(int meter, long time, double litres) {
        ArrayDeque<Reading> readings = meters.computeIfAbsent(meter, key -> new ArrayDeque<>());
        readings.addLast(new Reading(time, litres, "good " + time % 10));
        if (readings.size() > 1200)
            readings.removeFirst();
    }

    static double balance(int meter) {
        double sum = 0;
        for (int i = 0; i < 2; i++) {
            ArrayDeque<Reading> readings = meters.get((meter + i) % 250);
            List<Double> sorted = new ArrayList<>();
            for (Reading reading : readings)
                if (reading.quality().startsWith("good"))
                    sorted.add(reading.litres() * 1.001);
            Collections.sort(sorted);
            sum += sorted.get(sorted.size() / 2);
        }
        return sum;
    }

    public static void main(String[] words) throws Exception {
        for (int i = 0; i < 250 * 1200; i++)
            add(i % 250, i, i * 31 % 900);
        Socket link = new Socket("127.0.0.1", Integer.parseInt(words[0]));
        link.setTcpNoDelay(true);
        InputStream in = new BufferedInputStream(link.getInputStream(), 65536);
        OutputStream out = link.getOutputStream();
        StringBuilder line = new StringBuilder();
        out.write("CONNECT {\\"verbose\\":false}\\r\\nSUB meters 1\\r\\nPING\\r\\n".getBytes());
        for (String text; (text = readLine(in, line)) != null; ) {
            if (text.startsWith("PONG"))
                Files.createFile(Path.of(words[1]));
            if (text.startsWith("PING"))
                out.write("PONG\\r\\n".getBytes());
            if (!text.startsWith("MSG"))
                continue;
            String reply = text.split(" ")[3];
            String[] reading = readLine(in, line).split(" ");
            int meter = Integer.parseInt(reading[0]);
            add(meter, Long.parseLong(reading[1]), Double.parseDouble(reading[2]));
            String answer = String.format("%.2f", balance(meter));
            out.write(("PUB " + reply + " " + answer.length() + "\\r\\n" + answer + "\\r\\n").getBytes());
        }
    }
}
"""
METERS = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strconv"; "strings"; "time")

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	link, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	lines := bufio.NewReader(link)
	fmt.Fprintf(link, "CONNECT {\\"verbose\\":false}\\r\\nSUB balances 1\\r\\n")
	start := time.Now()
	sent, done := 0, 0
	for time.Since(start).Seconds() < seconds {
		// There are always 16 readings on their way.
		for ; sent < done + 16; sent++ {
			text := fmt.Sprintf("%d %d %d", sent * 7 % 250, sent, sent * 31 % 900)
			fmt.Fprintf(link, "PUB meters balances %d\\r\\n%s\\r\\n", len(text), text)
		}
		line, err := lines.ReadString('\\n')
		if err != nil {
			panic(err)
		}
		if strings.HasPrefix(line, "PING") {
			fmt.Fprintf(link, "PONG\\r\\n")
		}
		if strings.HasPrefix(line, "MSG") {
			lines.ReadString('\\n')
			done++
		}
	}
	fmt.Printf("items %d seconds %.3f\\n", done, time.Since(start).Seconds())
}
"""


def balance(place):
    port, ready = place.port(), place.folder / "balance-ready"
    place.start("nats-server", "-a", "127.0.0.1", "-p", port, port=port)
    heap = "-Xmx256m" if place.fixed else "-Xmx40m"
    place.start("java", "-XX:+UseParallelGC", heap, "-cp", place.java(BALANCE), "Main", port, ready, path=ready)
    return [str(place.go("meters", METERS)), str(port), str(place.seconds)]


# Stations deliver files into a spool; the importer loads those that are new into postgres.
IMPORTER = """#!/usr/bin/python3
import csv, io, os, socket, sys
import psycopg2

port, tidy = int(sys.argv[1]), sys.argv[2] == "tidy"
base = psycopg2.connect(host="127.0.0.1", port=port, user="postgres")
cursor = base.cursor()
imported = set(open("imported.list").read().split())

def by_age():
    return sorted(os.listdir("spool"), key=lambda name: os.path.getmtime(os.path.join("spool", name)))

def load(path):
    rows = io.StringIO()
    with open(path) as file:
        for time, sensor, value in csv.reader(file, delimiter=";"):
            rows.write(f"{time}\\t{sensor}\\t{float(value) * 9.81:.3f}\\n")
    rows.seek(0)
    cursor.copy_expert("copy pressures from stdin", rows)
    base.commit()

listener = socket.socket(socket.AF_UNIX)
listener.bind("importer.sock")
listener.listen()
while True:
    link, _ = listener.accept()
    while link.recv(100):
        for name in by_age():
            if name in imported:
                continue
            load(os.path.join("spool", name))
            imported.add(name)
            if tidy:
                os.rename(os.path.join("spool", name), os.path.join("done", name))
        link.sendall(b"nothing left\\n")
    link.close()
"""
DELIVER = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::UNIX;
use Time::HiRes "time";

my ($count) = @ARGV;
my $importer = IO::Socket::UNIX->new(Peer => "importer.sock") or die "no importer: $!";
$importer->autoflush(1);
my $start = time;
for my $number (1 .. $count) {
    open my $file, ">", "incoming.csv" or die "no file: $!";
    printf $file "%d;%d;%.3f\\n", 1800000000 + $number * 300 + $_, $_ % 12, 3 + $_ % 70 / 50 for 1 .. 300;
    close $file;
    rename "incoming.csv", "spool/new-$number.csv" or die "no spool: $!";
    print $importer "look\\n";
    <$importer> // die "importer ended";
}
printf "items %d seconds %.3f\\n", $count, time - $start;
"""


def spool(place):
    base = postgres(place, "create table pressures (time bigint, sensor int, head real)", fsync="off")
    for folder in ("spool", "done"):
        (place.folder / folder).mkdir()
    old = [f"old-{number}.csv" for number in range(round(3000 * place.fault))]
    for name in old:
        (place.folder / "spool" / name).write_text("1700000000;1;3.5\n")
    place.write("imported.list", "\n".join(old), mode=0o644)
    mode = "tidy" if place.fixed else "keep"
    place.start(place.write("importer", IMPORTER), base, mode, path=place.folder / "importer.sock")
    return [str(place.write("deliver", DELIVER)), "220"]


# Control: transactions of loggers arrive at a moderate rate, and the pool has enough connections.
LOGGERS = """
\\set sensor random(1, 2000)
\\set value random(300, 600)
begin;
insert into readings values (:sensor, now(), :value);
update last_values set time = now(), value = :value where sensor = :sensor;
end;
select value from last_values where sensor = :sensor;
"""


def pool(place):
    base = postgres(place, """
        create table readings (sensor int, time timestamptz, value int);
        create table last_values (sensor int primary key, time timestamptz, value int) with (fillfactor = 50);
        insert into last_values select i, now(), 400 from generate_series(1, 2000) i;
        analyze""", synchronous_commit="off")
    port = place.port()
    config = place.write("pgbouncer.ini", f"""
[databases]
postgres = host=127.0.0.1 port={base} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 8
min_pool_size = 8
""")
    place.start("pgbouncer", config, port=port, user="postgres", group="postgres")
    script = place.write("loggers.sql", LOGGERS, mode=0o644)
    return ["pgbench", *at(port), "-n", "-f", str(script), "-c", "8", "-R", "150", "-T", str(place.seconds), "postgres"]


# Control: three days of the archive at once are unpacked, sorted, summed up and packed again.
HOURS = """BEGIN { FS = OFS = ";" }
function show() { if (count) print key, count, sum / count, sqrt(squares / count), lowest, highest }
key != $2 OFS int($1 / 3600) {
    show()
    key = $2 OFS int($1 / 3600)
    sum = squares = count = highest = 0
    lowest = 1e9
}
{
    sum += $3
    squares += $3 * $3
    count++
    if ($3 < lowest) lowest = $3
    if ($3 > highest) highest = $3
}
END { show() }
"""
MONTHEND = """#!/bin/sh
export LC_ALL=C
parallel --will-cite -j 3 'zstd -dc {} | sort -t";" -k2,2n -k1,1n | mawk -f hours.awk | gzip > {.}.hours.gz' ::: station*.zst
"""


def archive(place):
    for day in range(8):
        lines = "".join(f"{1700000000 + day * 86400 + i};{(i * 7919) % 600};{3 + (i * 31 + day) % 977 / 500:.3f}\n" for i in range(100000))
        packed = subprocess.run(["zstd", "-q", "-1"], input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout
        for station in range(5):
            (place.folder / f"station{station}-day{day}.zst").write_bytes(packed)
    place.write("hours.awk", HOURS)
    return [str(place.write("monthend", MONTHEND))]


COMPUTING = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="waterworks_sync_for_each_reading",
        kind="sync-per-item",
        truth="levelstore, in C++, waits for the disk: it writes each reading into leveldb with a "
              "fdatasync of its own, though the readings of other stations are waiting and "
              "could share it",
        load=levels,
        rate=ITEMS,
        component=(r"levelstore", r"leveldb"),
        mechanism=(r"\b[Dd]isk", r"f(data)?sync", r"\b[Ss]ync", r"writeback", r"journal", r"\bjbd2", r"flush"),
        never=(r"levelstore (\([^)]*\) )?(sleeps|computes)",),
        running=True,
        needs=("g++", "go"),
    ),
    System(
        name="waterworks_date_for_each_line",
        kind="process-per-line",
        truth="localtimes, a loop in bash, starts the program date for each line and waits until "
              "it ends",
        load=nightly,
        component=(r"localtimes", r"\bbash\b", r"\bdate\b"),
        mechanism=(r"\bv?fork", r"exec", r"\bclone", r"spawn", r"wait4", r"wait_?pid", r"\bstart(s|ed|ing)?\b",
                   r"\bchild", r"(new|short|many|other|its|creates?|per|each|more) [^;]*(process|program)s?\b",
                   r"process(es)? (creation|for each)", r"(localtimes|bash)\b[^;]*\bdate\b"),
        never=(*DISK, r"(localtimes|bash|date) (\([^)]*\) )?sleeps"),
        needs=("bash", "date", "zcat", "sqlite3", PYTHON),
    ),
    System(
        name="waterworks_panel_locked_for_requests",
        kind="lock-over-request",
        truth="the processes of districts wait for one another's lock of the panel in shared "
              "memory, which each holds during its request to controllers, of 4 ms, so that one "
              "district is read at a time",
        load=panel,
        rate=ITEMS,
        component=(r"districts",),
        mechanism=(*LOCKS, r"futex", r"for one another", r"\bholds?\b", r"\bheld\b", r"one (\w+ )?(request|process|district)"),
        never=(*DISK, r"districts (\([^)]*\) )?(sleeps|computes)"),
        halves=True,
        needs=("gcc", "go"),
    ),
    System(
        name="waterworks_heap_of_the_balance",
        kind="heap-too-small",
        truth="java collects garbage most of the time, in its threads \"GC Thread\", because its "
              "heap of 40 MB is hardly larger than the readings that it keeps",
        load=balance,
        rate=ITEMS,
        component=(r"\bjava\b", r"\bGC\b"),
        mechanism=(r"\bGC\b", r"[Gg]arbage", r"\b[Cc]ollect(s|ion|or|ing)\b", r"\b[Hh]eap", r"VM Thread"),
        never=(*DISK, r"java (\([^)]*\) )?sleeps", r"(nats-server|meters) (\([^)]*\) )?(sleeps|computes)"),
        running=True,
        needs=("java", "javac", "nats-server", "go"),
    ),
    System(
        name="waterworks_spool_never_emptied",
        kind="directory-scan",
        truth="importer, in Python, computes: for each new file it lists a spool of 3000 files "
              "that are already imported, asks for the age of each (stat) and sorts them",
        load=spool,
        rate=ITEMS,
        component=(r"importer",),
        mechanism=(*RUNS, r"stat\b", r"statx", r"getdents", r"[Ll]ists?\b", r"listdir", r"readdir", r"directory", r"\bspool",
                   r"\bsort(s|ed|ing)?\b", r"getmtime", r"system calls?", r"\bfiles\b"),
        never=(*DISK, r"importer (\([^)]*\) )?sleeps", r"postgres (\([^)]*\) )?(computes|sleeps)"),
        code=(r"stat", r"listdir", r"getdents", r"readdir"),
        halves=True,
        needs=("psql", "perl", PYTHON),
    ),
    System(
        name="control_waterworks_pool",
        kind="control",
        truth="pgbench starts 150 transactions in a second by its own clock; pgbouncer has a "
              "connection to postgres for each client, and all are idle most of the time",
        load=pool,
        rate=PGBENCH,
        acceptable=(*NOTHING, r"[Pp]aced by pgbench", r"pgbench.*(sleep|timer|until a time|\bpaced\b|own clock)", r"\bidle\b",
                    r"load generator"),
        needs=("psql", "pgbench", "pgbouncer"),
    ),
    System(
        name="control_waterworks_archive",
        kind="control",
        truth="monthend sorts and sums up three files of the archive at once, with zstd, sort, "
              "mawk and gzip, which compute on both CPUs",
        load=archive,
        acceptable=(*NOTHING, rf"(sort|zstd|mawk|gzip|parallel|monthend).*{COMPUTING}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("parallel", "zstd", "sort", "mawk", "gzip"),
    ),
]

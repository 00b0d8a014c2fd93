"""A tram company: its files, imports, nightly jobs and logs."""
import bz2
import gzip

from system import COMPUTES, ITEMS, LOCKS, PYTHON, SLEEPS, System

# Punctuality: gzip unpacks the trips of a day, stoptimes adds up their delays and writes the time of
# day in words, and sqlite3 imports them.

STOPTIMES = r"""#!/bin/bash
begin=$EPOCHREALTIME trips=0 seconds=$1
while IFS=, read -r trip departure delays; do
	CLOCK
	total=0 late=0
	for delay in $delays; do
		((total += delay, late += delay > 180))
	done
	echo "$trip,$clock,$total,$late"
	((++trips % 16)) || ((EPOCHSECONDS < ${begin%.*} + seconds)) || break
done
now=$EPOCHREALTIME
millis=$(((${now/./} - ${begin/./}) / 1000))
printf 'items %d seconds %d.%03d\n' $trips $((millis / 1000)) $((millis % 1000)) >&2
"""
PROCESS = 'clock=$(date -d "@$departure" "+%F %T")'
BUILTIN = 'printf -v clock "%(%F %T)T" "$departure"'


def punctuality(place):
    lines = "".join(f"T{i},{1700000000 + i * 61},{' '.join(str((i * 7 + stop * 31) % 240) for stop in range(24))}\n" for i in range(4000))
    (place.folder / "trips.csv.gz").write_bytes(gzip.compress(lines.encode(), 1) * 25)
    place.write("stoptimes", STOPTIMES.replace("CLOCK", BUILTIN if place.fixed else PROCESS))
    place.run("sqlite3", "stops.db", "create table times (trip text, clock text, total int, late int)")
    script = f"gzip -dc trips.csv.gz | ./stoptimes {place.seconds} 2>count | sqlite3 -csv stops.db '.import /dev/stdin times'; cat count\n"
    return ["sh", str(place.write("nightimport", script))]


# Fares: gzip unpacks the taps of all cards, hashcards hides the numbers of the cards, zonefare looks
# for the cheapest fares, and sqlite3 imports them.

HASHCARDS = r"""#!/usr/bin/python3
import hashlib, sys, time

rounds, seconds = int(sys.argv[1]), float(sys.argv[2])
sys.stdout.reconfigure(line_buffering=True)
begin, taps = time.monotonic(), 0
for line in sys.stdin:
    card, rest = line.split(",", 1)
    print(hashlib.pbkdf2_hmac("sha256", card.encode(), b"tramway", rounds)[:12].hex(), rest, sep=",", end="")
    taps += 1
    if time.monotonic() > begin + seconds:
        break
sys.stdout.flush()
print("items", taps, "seconds", time.monotonic() - begin, file=sys.stderr)
"""

ZONEFARE = r"""#!/usr/bin/ruby
ZONES = 12
PRICE = Array.new(ZONES) { |a| Array.new(ZONES) { |b| (a * 5 + b * 7) % 11 + 1 + (a - b).abs } }
STDOUT.sync = true
STDIN.each_line do |line|
  card, from, to = line.chomp.split(",")
  best = Array.new(ZONES, 1000)
  best[from.to_i] = 0
  5.times do
    ZONES.times { |a| ZONES.times { |b| best[b] = best[a] + PRICE[a][b] if best[a] + PRICE[a][b] < best[b] } }
  end
  puts "#{card},#{from},#{to},#{best[to.to_i]}"
end
"""


def fares(place):
    rounds = max(1, round(2400 * place.fault))
    lines = "".join(f"7040{i * 7919 % 100000000:08},{i % 12},{i * 5 % 11}\n" for i in range(5000))
    (place.folder / "taps.csv.gz").write_bytes(gzip.compress(lines.encode(), 1) * 40)
    place.write("hashcards", HASHCARDS)
    place.write("zonefare", ZONEFARE)
    place.run("sqlite3", "fares.db", "create table fares (card text, origin int, destination int, price int)")
    script = f"gzip -dc taps.csv.gz | ./hashcards {rounds} {place.seconds} 2>count | ./zonefare | sqlite3 -csv fares.db '.import /dev/stdin fares'; cat count\n"
    return ["sh", str(place.write("nightfares", script))]


# Depots: the jobs of four depots pack their logs and send them by curl to the archive, each under a
# lock file.

ARCHIVE = r"""
const http = require("http"), fs = require("fs")
const [port, pause, folder] = [Number(process.argv[2]), Number(process.argv[3]), process.argv[4]]
process.title = "archive"
http.createServer((request, response) => {
  const parts = []
  request.on("data", part => parts.push(part))
  request.on("end", () => fs.writeFile(folder + request.url, Buffer.concat(parts), () => setTimeout(() => response.end("kept\n"), pause)))
}).listen(port, "127.0.0.1")
"""

DEPOTJOB = r"""#!/bin/bash
LC_ALL=C
depot=$1 port=$2 lock=$3 sent=0
end=$((${EPOCHREALTIME/./} + $4 * 1000000))
while ((${EPOCHREALTIME/./} < end)); do
    gzip -c day.log >$depot.gz
    (
        flock 9
        exec curl -s -o /dev/null -T $depot.gz http://127.0.0.1:$port/$depot
    ) 9>>$lock
    ((sent += 1))
done
echo $sent
"""

NIGHTJOBS = r"""#!/bin/bash
LC_ALL=C
begin=${EPOCHREALTIME/./}
for depot in north south east west; do
    ./depotjob $depot $1 LOCK.lock $2 >$depot.count &
done
wait
spent=$((${EPOCHREALTIME/./} - begin)) sum=0
for count in *.count; do
    ((sum += $(<$count)))
done
printf 'items %d seconds %d.%06d\n' $sum $((spent / 1000000)) $((spent % 1000000))
"""


def depots(place):
    port = place.port()
    (place.folder / "kept").mkdir()
    place.write("day.log", "".join(f"06:{i % 60:02} tram {i * 37 % 90} door {i % 4} closed\n" for i in range(400)), 0o644)
    place.start("node", place.write("archive.js", ARCHIVE), port, 50 * place.scale, place.folder / "kept", port=port)
    place.write("depotjob", DEPOTJOB)
    return [str(place.write("nightjobs", NIGHTJOBS.replace("LOCK", "$depot" if place.fixed else "uplink"))), str(port), str(place.seconds)]


# Trams: nightshift starts fetchlog for each tram, which asks the gateway of the onboard computers
# for the log of the day.

ONBOARD = r"""
import java.io.*;
import java.net.*;
import java.util.concurrent.*;

public class Main {
    public static void main(String[] words) throws Exception {
        int port = Integer.parseInt(words[0]), pause = Integer.parseInt(words[1]);
        byte[] log = "door closed\n".repeat(300).getBytes();
        ExecutorService radios = Executors.newCachedThreadPool(task -> new Thread(task, "onboard"));
        ServerSocket door = new ServerSocket(port, 64, InetAddress.getByName("127.0.0.1"));
        while (true) {
            Socket peer = door.accept();
            radios.execute(() -> {
                try (peer) {
                    peer.getInputStream().read(new byte[64]);
                    Thread.sleep(pause);
                    peer.getOutputStream().write(log);
                } catch (IOException | InterruptedException error) {
                }
            });
        }
    }
}
"""

FETCHLOG = r"""
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char **words)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(peer, (void *)&address, sizeof address))
        return 1;
    char path[64], piece[8192];
    int length = snprintf(piece, sizeof piece, "log of tram %s\n", words[2]);
    if (write(peer, piece, length) < 0)
        return 1;
    snprintf(path, sizeof path, "logs/tram-%s", words[2]);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ssize_t got;
    while ((got = read(peer, piece, sizeof piece)) > 0)
        if (write(file, piece, got) < 0)
            return 1;
    return 0;
}
"""

NIGHTSHIFT = r"""#!/usr/bin/ruby
port, at_once, seconds = ARGV[0], ARGV[1].to_i, ARGV[2].to_f
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
start = now.call
running = fetched = tram = 0
loop do
  while running < at_once && now.call < start + seconds
    tram = (tram + 1) % 90
    Process.spawn("./fetchlog", port, tram.to_s)
    running += 1
  end
  break if running == 0
  Process.wait
  running -= 1
  fetched += 1
end
puts "items #{fetched} seconds #{(now.call - start).round(3)}"
"""


def trams(place):
    port = place.port()
    (place.folder / "logs").mkdir()
    place.start("java", "-XX:+UseSerialGC", "-Xmx64m", "-cp", place.java(ONBOARD), "Main", port, round(40 * place.scale), port=port)
    place.c("fetchlog", FETCHLOG)
    return [str(place.write("nightshift", NIGHTSHIFT)), str(port), "4" if place.fixed else "1", str(place.seconds)]


# Controls.

REPORTS = 16
MAKEFILE = """
all: $(patsubst day-%.json.bz2,report-%.txt,$(wildcard day-*.json.bz2))

report-%.txt: day-%.json.bz2
\tbzip2 -dc $< | jq -r '[.line, .stop, .delay > 60] | @csv' | sort | uniq -c >$@
"""


def line_reports(place):
    for day in range(REPORTS):
        lines = "".join(f'{{"line":{i % 23},"stop":"s{i * 31 % 199}","delay":{i * (day + 7) % 180},"doors":[{i % 4},{i % 3}],"tram":{i % 90}}}\n' for i in range(9000))
        (place.folder / f"day-{day}.json.bz2").write_bytes(bz2.compress(lines.encode(), 1) * 6)
    place.write("Makefile", MAKEFILE, 0o644)
    return ["make", "-s", "-j2"]


GPSBOX = r"""#!/usr/bin/ruby
require "socket"
port, seconds = ARGV[0].to_i, ARGV[1].to_f
radio = UDPSocket.new
radio.connect("127.0.0.1", port)
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
start, sent = now.call, 0
while now.call < start + seconds
  radio.send("<134>Jan  1 06:00:00 tram gpsbox: tram #{sent * 37 % 90} at #{sent * 13 % 997}", 0)
  sent += 1
  sleep [start + sent * 0.055 - now.call, 0].max
end
puts "items #{sent} seconds #{(now.call - start).round(3)}"
"""


def positions(place):
    port, folder = place.port(), place.folder
    place.write("positions.log", "", 0o644)
    config = place.write("rsyslog.conf", f"""
global(workDirectory="{folder}")
module(load="imudp")
input(type="imudp" address="127.0.0.1" port="{port}")
template(name="plain" type="string" string="%msg%\\n")
action(type="omfile" file="{folder}/positions.log" template="plain" fileOwner="root" fileGroup="root")
""", 0o644)
    place.start("rsyslogd", "-n", "-f", config, "-i", folder / "rsyslog.pid", path=folder / "rsyslog.pid")
    place.start("sh", "-c", "tail -n +1 -F positions.log | gawk '{ last[$2] = $4; print $2, $4 - before; before = $4; fflush() }' >headways")
    return [str(place.write("gpsbox", GPSBOX)), str(port), str(place.seconds)]


SYSTEMS = [
    System(
        name="tram_date_for_each_trip",
        kind="process-per-line",
        truth="stoptimes, a script of bash in a pipe between gzip and sqlite3, starts a process of date for each line and waits for it",
        load=punctuality,
        rate=ITEMS,
        component=(r"stoptimes", r"\bbash\b", r"\bdate\b"),
        mechanism=(r"(start|creat|launch|spawn)\w* (\S+ ){0,5}(process|program|command|date)", r"process\w* (\S+ ){0,3}(start|creat|spawn)", r"\bfork", r"\bexec", r"\bchild",
                   r"short-lived", r"waits? for (\S+ ){0,4}date\b"),
        never=(r"sleeps", r"\block\b", r"\bdisk\b"),
        needs=("bash", "gzip", "sqlite3", "date"),
    ),
    System(
        name="tram_cards_hashed",
        kind="slow-stage-in-a-pipe",
        truth="hashcards, a python in a pipe of gzip, ruby (zonefare) and sqlite3, computes 2400 rounds of a hash for each card, and the stages behind it wait",
        load=fares,
        rate=ITEMS,
        component=(r"hashcards", r"python"),
        mechanism=COMPUTES,
        never=(r"sleeps", r"\block\b", r"\bdisk\b"),
        change="x0",
        halves=True,
        needs=("gzip", "ruby", "sqlite3", PYTHON),
    ),
    System(
        name="tram_depots_share_a_lock_file",
        kind="lock-file-around-upload",
        truth="the jobs of four depots hold the same lock file uplink.lock (flock) while their curl waits for archive in node, which answers each upload by a timer of 50 ms, so that one job uploads at a time",
        load=depots,
        rate=ITEMS,
        component=(r"\bf?lock", r"uplink", r"depotjob", r"\bbash\b", r"\bcurl\b", r"archive", r"\bnode\b"),
        mechanism=(*LOCKS, r"(in|calls?|by|of|under|holds?) (the |a |an |its )?f?lock"),
        never=(r"\bdisk\b",),
        change="x0.25",
        halves=True,
        needs=("bash", "flock", "curl", "gzip", "node"),
    ),
    System(
        name="tram_logs_one_child_at_a_time",
        kind="one-child-at-a-time",
        truth="nightshift, in ruby, starts one fetchlog at a time and waits for its end, while onboard in java sleeps 40 ms for each",
        load=trams,
        rate=ITEMS,
        component=(r"nightshift", r"ruby", r"fetchlog", r"onboard", r"\bjava\b"),
        mechanism=(*SLEEPS, r"one (\w+ )?at a time", r"one after (the other|another)", r"serial", r"\bchild"),
        never=(r"\block\b", r"mutex", r"\bdisk\b"),
        change="x0.25",
        halves=True,
        needs=("ruby", "java", "javac", "gcc"),
    ),
    System(
        name="control_tram_line_reports",
        kind="control",
        truth="make has two pipes of bzip2, jq and sort at once, which compute reports of each day and fill both CPUs",
        load=line_reports,
        acceptable=(r"no bottleneck", r"CPUs? (is|are) (full|busy)", r"waits? for (a|the) CPUs?", r"\b(jq|bzip2|sort)\b.*(comput|\buser\b|own code)"),
        needs=("make", "bzip2", "jq", "sort", "uniq"),
    ),
    System(
        name="control_tram_positions",
        kind="control",
        truth="gpsbox, in ruby, sends a position to rsyslogd each 55 ms by intention, which writes it to a file that tail and gawk follow, and all are idle most of the time",
        load=positions,
        rate=ITEMS,
        acceptable=(r"no bottleneck", r"\bidle\b", r"\b(gpsbox|ruby)\b.*(sleep|timer|until a time|\bpace)"),
        needs=("ruby", "rsyslogd", "tail", "gawk"),
    ),
]

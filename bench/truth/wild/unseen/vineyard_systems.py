"""A group of vineyards with shared infrastructure: five frequent faults in settings of the
operating system, of its network and its files and in the use of system calls, and two healthy
parts of the same group.
"""
import os
import random

from services import nginx, redis
from system import ITEMS, LOCKS, PYTHON, WRK, System, wrk

DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Each cellar logs in to the storehouse from its own address, and delivers its readings.
DELIVERIES = """
CELLARS := $(shell seq 1 8)
all: $(CELLARS:%=cellar-%)
cellar-%:
\techo "put readings.csv FOLDER/store/cellar-$*.csv" | sftp -q -b - -F none -P PORT -i key \\
\t  -o BindAddress=NET.$* -o UserKnownHostsFile=hosts root@127.0.0.1 > cellar-$*.log
"""


def logins(place):
    port, mark, folder = place.port(), place.port(), place.folder
    # A name server has port 53, so the mark only makes its network unique.
    net = f"127.{mark >> 8}.{mark & 255}"
    names = {f"{net}.{number}": f"cellar{number}.vineyards.internal" for number in range(1, 9)}
    local = "\n".join(f'  local-data: "{name}. A {address}"\n  local-data-ptr: "{address} {name}"' for address, name in names.items())
    config = place.write("unbound.conf", f"""
server:
  interface: {net}.53
  do-daemonize: no
  use-syslog: no
  chroot: ""
  username: ""
  directory: "{folder}"
  pidfile: "{folder}/unbound.pid"
  do-not-query-localhost: no
  module-config: "iterator"
  unblock-lan-zones: yes
  access-control: 127.0.0.0/8 {"allow" if place.fixed else "deny"}
  local-zone: "vineyards.internal." static
{local}
""")
    place.start("unbound", "-d", "-c", config, path=folder / "unbound.pid")
    records = [f"--host-record={name},{address}" for address, name in names.items()]
    place.start("dnsmasq", "-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--user=root", f"--pid-file={folder}/dnsmasq.pid",
                *records, f"--listen-address={net}.54", "--bind-interfaces", path=folder / "dnsmasq.pid")
    # Only sshd sees this configuration of the resolver.
    resolver = place.write("resolv.conf", f"nameserver {net}.53\nnameserver {net}.54\noptions timeout:1\n", mode=0o644)
    place.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key")
    place.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "host")
    host = (folder / "host.pub").read_text()
    place.write("hosts", f"[127.0.0.1]:{port} {host}")
    settings = place.write("sshd.conf", f"""
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
PidFile {folder}/sshd.pid
StrictModes no
UsePAM no
UseDNS yes
PermitUserRC no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
ForceCommand internal-sftp
MaxStartups 100
""")
    mounts = f"mount -t tmpfs none /run && mkdir /run/sshd && mount --bind {resolver} /etc/resolv.conf"
    place.start("unshare", "-m", "sh", "-c", f'{mounts} && exec "$@"', "sh", "/usr/sbin/sshd", "-D", "-e", "-f", settings,
                path=folder / "sshd.pid")
    (folder / "store").mkdir()
    chance = random.Random(7)
    place.write("readings.csv", "".join(f"2031-09-{i % 30 + 1:02},{i % 400},{chance.random() * 30:.2f}\n" for i in range(100000)))
    text = DELIVERIES.replace("NET", net).replace("PORT", str(port)).replace("FOLDER", str(folder))
    place.write("Makefile", text)
    return ["make", "-s", "-j4"]


# Publishes the readings of the stations as retained messages, and waits until the broker has all.
STATIONS = """#!/usr/bin/python3
import sys, threading, time
import paho.mqtt.client as mqtt

port, first, count, topics = map(int, sys.argv[1:])
confirmed, done = 0, threading.Event()

def published(client, data, number):
    global confirmed
    confirmed += 1
    if confirmed == count:
        done.set()

client = mqtt.Client(client_id=f"stations{first}")
client.on_publish = published
client.max_queued_messages_set(0)
client.connect("127.0.0.1", port)
client.loop_start()
begin = time.monotonic()
for number in range(first, first + count):
    row = number % topics
    reading = f'{{"row": {row}, "number": {number}, "leaf": {number % 97 / 10}, "soil": {number % 89 / 10}, "note": "{"dry " * 20}"}}'
    client.publish(f"vineyard/{row % 12}/row/{row}", reading, qos=1, retain=True)
done.wait()
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
client.disconnect()
"""


def retained(place):
    port, folder, script = place.port(), place.folder, place.write("stations", STATIONS)

    def broker(saving):
        config = place.write("mosquitto.conf", f"""
listener {port} 127.0.0.1
allow_anonymous true
user root
persistence true
persistence_location {folder}/
max_queued_messages 0
set_tcp_nodelay true
log_type error
{saving}
""")
        return place.start("mosquitto", "-c", config, port=port)
    # The broker already keeps one reading of each row; it saves them when it ends.
    earlier = broker("autosave_interval 0")
    place.run(script, port, 0, 500, 500)
    earlier.terminate()
    earlier.wait()
    broker("autosave_interval 30" if place.fixed else "autosave_interval 1\nautosave_on_changes true")
    place.start("mosquitto_sub", "-p", port, "-q", "1", "-R", "-t", "vineyard/3/row/+")
    return [str(script), str(port), "500", "2000", "500"]


# The gateway to the tanks: Python's servers have a queue of five connections if nothing else is
# said.
TANKS = """
import http.server, json, sys
import redis

port, store, queue = map(int, sys.argv[1:])
tanks = redis.Redis(port=store)

class Tank(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        values = [float(value) for value in tanks.lrange(self.path[1:], 0, -1)]
        body = json.dumps({"tank": self.path[1:], "mean": sum(values) / len(values), "last": values[-1]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass

class Gateway(http.server.ThreadingHTTPServer):
    request_queue_size = queue

for number in range(60):
    tanks.rpush(f"tank{number}", *(8 + (number * 7 + hour) % 31 / 10 for hour in range(100)))
Gateway(("127.0.0.1", port), Tank).serve_forever()
"""
# Asks all tanks at once, and begins the next round when it has all answers.
ROUND = """
package main

import ("encoding/json"; "fmt"; "net/http"; "os"; "strconv"; "sync"; "time")

type tank struct { Tank string; Mean, Last float64 }

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	begin, rounds, warm := time.Now(), 0, 0
	for time.Since(begin).Seconds() < seconds {
		answers := make([]tank, 24)
		var all sync.WaitGroup
		for i := range answers {
			all.Add(1)
			go func() {
				defer all.Done()
				reply, err := client.Get(fmt.Sprintf("http://127.0.0.1:%s/tank%d", os.Args[1], i))
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				defer reply.Body.Close()
				json.NewDecoder(reply.Body).Decode(&answers[i])
			}()
		}
		all.Wait()
		for _, answer := range answers {
			if answer.Last > answer.Mean + 1 { warm++ }
		}
		rounds++
	}
	fmt.Printf("items %d seconds %.3f, %d warm\\n", rounds, time.Since(begin).Seconds(), warm)
}
"""


def backlog(place):
    store, port = redis(place), place.port()
    place.start(PYTHON, place.write("tankgateway.py", TANKS), port, store, 128 if place.fixed else 5, port=port)
    return [str(place.go("morninground", ROUND)), str(port), str(place.seconds)]


# The shop of the group shows the pictures of its wines in a random order.
VISITORS = """
math.randomseed(os.time())
request = function()
  return wrk.format("GET", "/wine" .. math.random(0, 79) .. ".jpg")
end
"""


def direct(place):
    pictures = place.folder / "pictures"
    pictures.mkdir()
    chance = random.Random(5)
    for wine in range(80):
        with (pictures / f"wine{wine}.jpg").open("wb") as out:
            out.write(chance.randbytes(500000 + wine * 6000))
            out.flush()
            os.fsync(out.fileno())
    # The settings of a guide for servers of films that are larger than the memory
    reading = "" if place.fixed else "directio 512; output_buffers 1 128k;"
    port = nginx(place, f"root {pictures}; {reading}", "sendfile on; tcp_nopush on;", workers=2)
    return [*wrk(f"http://127.0.0.1:{port}/", 8, place.seconds), "-s", str(place.write("visitors.lua", VISITORS))]


# The forecast of the partner needs some time for each place.
FORECAST = """
package main

import ("fmt"; "net/http"; "os"; "strconv"; "time")

func main() {
	pause, _ := strconv.ParseFloat(os.Args[2], 64)
	http.HandleFunc("/forecast/", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Duration(pause * float64(time.Second)))
		for hour := 0; hour < 3000; hour++ {
			fmt.Fprintf(w, "%s,%d,%d.%d\\n", r.URL.Path[10:], hour, hour % 29, hour * 7 % 10)
		}
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""
# A line of the crontab for each vineyard, all started at the same minute.
NIGHTLY = """#!/bin/sh
set -e
for vineyard in 1 2 3 4 5 6 7 8; do
  flock LOCK ./forecast.sh $vineyard &
done
wait
test $(ls done | wc -l) = 8
"""
VINEYARD = """#!/bin/sh
set -e
for part in north south; do
  curl -sf http://127.0.0.1:PORT/forecast/$1-$part > forecast-$1.csv
  sqlite3 -csv vineyard-$1.db 'create table if not exists forecast (part, hour int, degrees real)' \\
    ".import forecast-$1.csv forecast"
done
sqlite3 vineyard-$1.db 'select hour / 24, sum(max(degrees - 10, 0)) / 24 from forecast group by 1' > done/$1
"""


def one_lock(place):
    port = place.port()
    place.start(place.go("forecasts", FORECAST), port, 0.2 * place.scale, port=port)
    (place.folder / "done").mkdir()
    place.write("forecast.sh", VINEYARD.replace("PORT", str(port)))
    lock = "nightly-$vineyard.lock" if place.fixed else "nightly.lock"
    return [str(place.write("nightly", NIGHTLY.replace("LOCK", lock)))]


# Control: the branch copies the records of the vineyards, which are text and worth compressing.
def mirror(place):
    port, source = place.port(), place.folder / "records"
    source.mkdir()
    chance = random.Random(11)
    lines = [f"{i % 12},row {chance.randrange(400)},{chance.random() * 30:.2f},{chance.random() * 90:.1f},grapes ripen\n"
             for i in range(20000)]
    for year in range(40):
        (source / f"{year}.csv").write_text("".join(chance.choices(lines, k=45000)))
    config = place.write("rsyncd.conf", f"""
use chroot = no
uid = root
gid = root
pid file = {place.folder}/rsyncd.pid
[records]
path = {source}
read only = yes
""")
    place.start("rsync", "--daemon", "--no-detach", f"--config={config}", "--address=127.0.0.1", f"--port={port}", port=port)
    return ["rsync", "-az", "--zc=zlib", f"rsync://127.0.0.1:{port}/records/", "branch/"]


# Control: each 50 ms by its own timer, irrigation finds the valves by their name and asks for them.
IRRIGATION = r"""
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static int ask(const char *port, int valve) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo("valves.vineyards.internal", port, &hints, &found))
        return -1;
    int link = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(link, found->ai_addr, found->ai_addrlen))
        return -1;
    char text[2000];
    int length = snprintf(text, sizeof text, "GET /valve/%d HTTP/1.0\r\n\r\n", valve), held = 0;
    if (write(link, text, length) != length)
        return -1;
    while (held < (int)sizeof text - 1 && (length = read(link, text + held, sizeof text - 1 - held)) > 0)
        held += length;
    text[held] = 0;
    close(link);
    freeaddrinfo(found);
    return strstr(text, "\"open\":true") != NULL;
}

int main(int count, char **words) {
    struct itimerspec each = {{0, 50000000}, {0, 50000000}};
    int timer = timerfd_create(CLOCK_MONOTONIC, 0), rounds = 0, open = 0;
    timerfd_settime(timer, 0, &each, NULL);
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    double passed = 0;
    while (passed < atof(words[2])) {
        uint64_t ticks;
        if (read(timer, &ticks, sizeof ticks) != sizeof ticks)
            return 1;
        for (int valve = 0; valve < 3; valve++) {
            int answer = ask(words[1], rounds * 3 + valve);
            if (answer < 0)
                return 1;
            open += answer;
        }
        rounds++;
        clock_gettime(CLOCK_MONOTONIC, &now);
        passed = now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) / 1e9;
    }
    printf("items %d seconds %.3f, %d open\n", rounds, passed, open);
}
"""
VALVES = """
const fs = require("fs"), http = require("http");
const log = fs.openSync("valves.log", "a");
http.createServer((request, response) => {
  const valve = Number(request.url.slice(7)), open = valve % 3 === 0;
  fs.writeSync(log, `${valve} ${open}\\n`);
  fs.fdatasync(log, () => response.end(JSON.stringify({ valve, open })));
}).listen(Number(process.argv[2]), "127.0.0.1");
"""


def irrigation(place):
    port, mark, folder = place.port(), place.port(), place.folder
    server = f"127.{mark >> 8}.{mark & 255}.53"
    place.start("dnsmasq", "-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--user=root", f"--pid-file={folder}/dnsmasq.pid",
                "--host-record=valves.vineyards.internal,127.0.0.1", f"--listen-address={server}", "--bind-interfaces",
                path=folder / "dnsmasq.pid")
    resolver = place.write("resolv.conf", f"nameserver {server}\n", mode=0o644)
    place.start("node", place.write("valves.js", VALVES), port, port=port)
    program = place.c("irrigation", IRRIGATION)
    return ["unshare", "-m", "sh", "-c", f'mount --bind {resolver} /etc/resolv.conf && exec "$@"', "sh",
            str(program), str(port), str(place.seconds)]


BUSY = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU|own code)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="vineyard_deliveries_by_sftp",
        kind="dead-name-server",
        truth="sshd waits a second for each of two DNS queries of each login, because unbound, the "
              "first name server of its resolv.conf, drops all queries of this network; sshd wants "
              "the name of each cellar (UseDNS)",
        load=logins,
        component=(r"\bssh", r"\bsftp\b", r"unbound", r"\bDNS\b", r"resolv", r"name ?server", r":53\b", r"port 53\b"),
        mechanism=(r"\bDNS\b", r"resolv", r"name ?server", r"\bnames?\b", r"look(s|ed)? ?up", r":53\b", r"port 53\b", r"UDP", r"unbound",
                   r"time-?d? ?out", r"until a time", r"timer", r"no (reply|answer)", r"(never|not) (replied|repl(y|ies)|answer)",
                   r"unanswered"),
        never=(*DISK, r"\b(sshd|sftp|ssh)\b (\([^)]*\) )?(comput|runs its own code)", r"dnsmasq[^;]*(slow|comput|sleeps)"),
        needs=("/usr/sbin/sshd", "ssh", "sftp", "ssh-keygen", "unbound", "dnsmasq", "make", "unshare"),
    ),
    System(
        name="vineyard_readings_retained",
        kind="snapshot-for-each-change",
        truth="mosquitto writes its whole database to the disk (write, fsync, rename) for each reading, "
              "because autosave_on_changes makes autosave_interval 1 a number of changes, not of "
              "seconds",
        load=retained,
        rate=ITEMS,
        component=(r"mosquitto\b",),
        mechanism=(r"\bdisk", r"f?sync\b", r"writ(e|es|ing)\b", r"\bsav(e|es|ing)\b", r"renam", r"mosquitto\.db", r"\bfiles?\b", r"storage",
                   r"persist", r"autosave", r"snapshot", r"writeback", r"journal", r"jbd2", r"flush"),
        never=(r"mosquitto (\([^)]*\) )?sleeps", r"\b(stations|python3?)\b[^;]*comput"),
        needs=("mosquitto", "mosquitto_sub", PYTHON),
    ),
    System(
        name="vineyard_morning_round",
        kind="short-listen-backlog",
        truth="the listen queue of tankgateway.py, with five places, overflows in each round of "
              "morninground, which opens 24 connections at once; the kernel sends the dropped SYN "
              "again after a second, and meanwhile all are idle",
        load=backlog,
        rate=ITEMS,
        component=(r"tankgateway", r"morninground", r"\bpython", r"backlog", r"(listen|accept) ?queue"),
        mechanism=(r"backlog", r"(listen|accept)[\w-]* ?(queue|socket)", r"queue[^;]*(full|overflow)", r"overflow", r"\bSYN",
                   r"retransmi", r"sen[dt]s? again", r"\bdrop", r"\bconnects?\b", r"\bconnecting\b",
                   r"(open|establish|new|set up|setup)[^;]*connection", r"connections?[^;]*(wait|refus|drop|establish|accept|open)"),
        never=(*DISK, r"(tankgateway|python|redis|morninground)\S* (\([^)]*\) )?(comput|runs its own code)", r"redis[^;]*(sleeps|slow)"),
        needs=("redis-server", "go", PYTHON),
    ),
    System(
        name="vineyard_pictures_of_wines",
        kind="page-cache-bypassed",
        truth="nginx reads each picture from the disk for each request, because directio (O_DIRECT) "
              "bypasses the page cache and sendfile, in which all pictures would fit",
        load=direct,
        rate=WRK,
        component=(r"nginx", r"\bdisk", r"\bvd[a-z]\b|\bsd[a-z]\b|nvme"),
        mechanism=(r"\bdisk", r"pread", r"\breads? (of |from )?(the )?(files?|disk|storage|device|block)", r"direct",
                   r"page cache", r"\bI/?O\b", r"storage", r"block device"),
        never=(r"nginx (\([^)]*\) )?sleeps", r"f?sync\b", r"\bwrit(e|es|ing) to"),
        running=True,
        needs=("nginx", "wrk"),
    ),
    System(
        name="vineyard_nightly_forecasts",
        kind="global-file-lock",
        truth="the nightly jobs of eight vineyards, which have nothing in common, wait for one "
              "another, because flock gives all of them the same lock, nightly.lock, and each holds "
              "it while it waits for the forecasts of the partner",
        load=one_lock,
        component=(r"flock", r"nightly", r"forecast\.sh", r"\block"),
        mechanism=(*LOCKS, r"flock", r"for one another", r"one after (the other|another)", r"\bserial"),
        never=(*DISK, r"(curl|sqlite3|nightly|flock) (\([^)]*\) )?(comput|runs its own code)"),
        halves=True,
        needs=("flock", "curl", "sqlite3", "go"),
    ),
    System(
        name="control_vineyard_mirror",
        kind="control",
        truth="the daemon of rsync compresses the records of forty years for a branch, whose rsync "
              "unpacks and writes them meanwhile",
        load=mirror,
        acceptable=(*NOTHING, rf"rsync.*{BUSY}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("rsync",),
    ),
    System(
        name="control_vineyard_irrigation",
        kind="control",
        truth="irrigation, in C, asks for three valves each 50 ms by its own timer; dnsmasq and "
              "node, which syncs a short log, answer long before the next time",
        load=irrigation,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by irrigation", r"irrigation.*(sleep|timer|until a time|paced)", r"\bidle\b"),
        needs=("dnsmasq", "node", "unshare"),
    ),
]

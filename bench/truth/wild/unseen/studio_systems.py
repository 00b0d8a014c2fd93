"""The batch work of a film studio: five frequent faults of deliveries, logs, statistics, backups
and copies, and two healthy parts of the same studio.
"""
import os
import re

from system import COMPUTES, ITEMS, LOCKS, PYTHON, SLEEPS, System

DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# make delivers six shots at once. A delivery packs the shot, sends it to the store, which replies
# when its second site has it too, and adds a line to the catalogue, which the lock protects.
DELIVERIES = """
SHOTS := $(patsubst plates/%.dpx,packed/%.gz,$(wildcard plates/*.dpx))
all: $(SHOTS)
packed/%.gz: plates/%.dpx
	@./deliver $< $@
"""
DELIVER = """#!/bin/sh
set -e
exec 9>> catalogue.lock
EARLY
gzip -1 -c "$1" > "$2"
sum=$(curl -sf -T "$2" http://127.0.0.1:PORT/)
LATE
echo "$2 $sum" >> catalogue
"""
STORE = """
package main

import ("crypto/sha256"; "fmt"; "io"; "net/http"; "os"; "path/filepath"; "time")

func main() {
	pause, _ := time.ParseDuration(os.Args[2])
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		shot, err := io.ReadAll(r.Body)
		if err == nil {
			err = os.WriteFile(filepath.Join("store", filepath.Base(r.URL.Path)), shot, 0644)
		}
		if err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		// The second site has the shot after this time.
		time.Sleep(pause)
		fmt.Fprintf(w, "%x", sha256.Sum256(shot))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def noise(place, folder, ending, count, size):
    """Writes `count` files of film grain, which cannot be compressed."""
    home = place.folder / folder
    home.mkdir(parents=True)
    for number in range(count):
        (home / f"{number:04}.{ending}").write_bytes(os.urandom(size))


def deliveries(place):
    noise(place, "plates", "dpx", 44, 150_000)
    for folder in ("packed", "store"):
        (place.folder / folder).mkdir()
    port = place.port()
    place.start(place.go("asset-store", STORE), port, f"{0.045 * place.scale}s", port=port)
    early, late = ("", "flock 9") if place.fixed else ("flock 9", "")
    place.write("deliver", DELIVER.replace("PORT", str(port)).replace("EARLY", early).replace("LATE", late))
    place.write("Makefile", DELIVERIES)
    return ["make", "-s", "-j", "6"]


# The render nodes send their log by TCP, and each line is acknowledged. socat starts one filter for
# each connection.
NODES = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strconv"; "sync"; "sync/atomic"; "time")

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	var lines atomic.Int64
	var nodes sync.WaitGroup
	begin := time.Now()
	for node := 0; node < 4; node++ {
		nodes.Add(1)
		go func() {
			defer nodes.Done()
			link, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
			if err != nil {
				panic(err)
			}
			replies := bufio.NewScanner(link)
			for frame := 1; time.Since(begin).Seconds() < seconds; frame++ {
				fmt.Fprintf(link, "node%d INFO shot=sc%03d frame=%d took=%dms\\n", node, frame % 90, frame, frame * 31 % 4000)
				if !replies.Scan() {
					panic("the log is closed")
				}
				lines.Add(1)
			}
			link.Close()
		}()
	}
	nodes.Wait()
	fmt.Printf("items %d seconds %.3f\\n", lines.Load(), time.Since(begin).Seconds())
}
"""
SIFT = """#!/bin/bash
while read -r line; do
  now=$(date +%s)
  shot=$(echo "$line" | sed 's/.*shot=\\([^ ]*\\).*/\\1/')
  took=$(echo "$line" | cut -d' ' -f5 | tr -dc 0-9)
  echo "$now $shot $took" >> render.log
  echo "ok $shot"
done
"""
SIFT_IN_GAWK = """#!/usr/bin/gawk -f
{
  match($0, /shot=([^ ]*)/, shot)
  took = $5
  gsub(/[^0-9]/, "", took)
  print systime(), shot[1], took >> "render.log"
  print "ok " shot[1]
  fflush()
}
"""


def render_log(place):
    port = place.port()
    place.write("sift", SIFT_IN_GAWK if place.fixed else SIFT)
    place.start("socat", f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr,nodelay", "EXEC:./sift", port=port)
    return [str(place.go("rendernodes", NODES)), str(port), str(place.seconds)]


# Four processes count how often each brightness occurs in the tiles of a film. They share one
# table, which a process of its own keeps.
LEVELS = """#!/usr/bin/python3
import sys
from multiprocessing.managers import BaseManager

class Table:
    def __init__(self):
        self.counts = [0] * 256

    def add(self, level, count):
        self.counts[level] += count

    def merge(self, counts):
        for level, count in enumerate(counts):
            self.counts[level] += count

class Tables(BaseManager):
    pass

table = Table()
Tables.register("table", lambda: table, exposed=("add", "merge"))
Tables(("127.0.0.1", int(sys.argv[1])), b"grading").get_server().serve_forever()
"""
EXPOSURE = """#!/usr/bin/python3
import sys, time
from multiprocessing.managers import BaseManager

class Tables(BaseManager):
    pass

tile, port, seconds, merged = f"tiles/{sys.argv[1]}.raw", int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "merge"
Tables.register("table")
tables = Tables(("127.0.0.1", port), b"grading")
tables.connect()
table = tables.table()
begin, done = time.monotonic(), 0
while time.monotonic() < begin + seconds:
    with open(tile, "rb") as file:
        pixels = file.read()
    counts = [0] * 256
    for pixel in pixels:
        counts[pixel] += 1
    if merged:
        table.merge(counts)
    else:
        for level, count in enumerate(counts):
            table.add(level, count)
    done += 1
print(f"items {done} seconds {time.monotonic() - begin:.3f}", flush=True)
"""


def all_items(output):
    """Returns the sum of the rates of several processes."""
    return sum(int(count) / float(seconds) for count, seconds in re.findall(r"items (\d+) seconds ([\d.]+)", output))


def exposure(place):
    noise(place, "tiles", "raw", 4, 40_000)
    port = place.port()
    place.start(place.write("levels", LEVELS), port, port=port)
    place.write("exposure", EXPOSURE)
    mode = "merge" if place.fixed else "add"
    return ["sh", "-c", f"ls tiles | sed s/.raw// | xargs -P 4 -I% ./exposure % {port} {place.seconds} {mode}"]


# A reel goes to the vault through ssh, and dd writes it there.
OFFLOAD = """#!/bin/bash
set -e -o pipefail
tar -cf - reel | zstd -q -1 | ssh -F ssh_config vault "dd of=FOLDER/reel.tar.zst bs=8k iflag=fullblock status=none HOW"
echo "the vault has $(stat -c %s reel.tar.zst) bytes"
"""


def vault(place):
    noise(place, "reel", "dpx", 6, 2_000_000)
    folder, port = place.folder, place.port()
    for name in ("host_key", "operator_key"):
        place.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "vault", "-f", folder / name)
    config = place.write("sshd_config", f"""
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/operator_key.pub
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
PermitRootLogin prohibit-password
PidFile none
""", mode=0o644)
    place.write("ssh_config", f"""
Host vault
  HostName 127.0.0.1
  Port {port}
  User root
  IdentityFile {folder}/operator_key
  IdentitiesOnly yes
  IdentityAgent none
  StrictHostKeyChecking no
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile none
  LogLevel ERROR
""", mode=0o600)
    # sshd wants its folder in /run, and gets a /run of its own for it.
    script = f"mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec /usr/sbin/sshd -D -e -f {config}"
    place.start("unshare", "-m", "sh", "-c", script, port=port)
    how = "conv=fsync" if place.fixed else "oflag=dsync"
    return [str(place.write("offload", OFFLOAD.replace("FOLDER", str(folder)).replace("HOW", how)))]


# Each night the reels of the day are copied from the archive, and their checksums are written down.
CONFORM = """#!/bin/bash
set -e
mkdir today
for reel in 1 2 3 4; do
  rsync -a rsync://127.0.0.1:PORT/archive/reel$reel today/
  sha256sum today/reel$reel/* >> today/sums
done
echo "$(wc -l < today/sums) frames"
"""


def conform(place):
    for reel in range(1, 5):
        noise(place, f"archive/reel{reel}", "dpx", 10, 450_000)
    port = place.port()
    config = place.write("rsyncd.conf", f"""
use chroot = no
uid = root
gid = root
log file = {place.folder}/rsyncd.log
[archive]
path = {place.folder}/archive
read only = yes
""", mode=0o644)
    limit = () if place.fixed else (f"--bwlimit={round(5000 / place.fault)}",)
    place.start("rsync", "--daemon", "--no-detach", f"--config={config}", "--address=127.0.0.1", f"--port={port}", *limit, port=port)
    return [str(place.write("conform", CONFORM.replace("PORT", str(port))))]


# Control: make compiles the plug-ins of the compositor, three at a time, and packs them.
PLUGINS = """
PARTS := $(patsubst %.c,%.o,$(wildcard filter*.c))
plugins.tar.gz: $(PARTS)
	@gcc -shared -o plugins.so $^
	@tar -cf - plugins.so $^ | pigz -p 2 > $@
%.o: %.c
	@gcc -O2 -fPIC -c -o $@ $<
"""
FILTER = """
float filter_{number}_{part}(float *pixels, int width, int height, float gain)
{{
    float sum = 0;
    for (int y = 1; y < height - 1; y++)
        for (int x = {part} % 3 + 1; x < width - 1; x++) {{
            float *at = pixels + y * width + x;
            float edge = at[-1] * {part} + at[1] * {number} - at[-width] - at[width];
            at[0] = edge > gain ? edge * gain : at[0] / (gain + {part}.5f);
            switch ((int)edge % 7) {{
            case 0: sum += at[0]; break;
            case 1: sum -= at[-1] * 0.5f; break;
            case 2: sum *= 0.99f; break;
            case 3: sum += edge / (1 + x); break;
            default: sum += gain;
            }}
        }}
    return sum;
}}
"""


def plugins(place):
    for number in range(9):
        place.write(f"filter{number}.c", "".join(FILTER.format(number=number, part=part) for part in range(60)), mode=0o644)
    place.write("Makefile", PLUGINS)
    return ["make", "-s", "-j", "3"]


# Control: playout shows 25 frames a second by its own clock, through haproxy.
PLAYOUT = r"""
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 200000, PERIOD = 1000000000 / 25 };

static char frame[FRAME];

static int send_all(int link)
{
    for (size_t sent = 0; sent < FRAME;) {
        ssize_t count = write(link, frame + sent, FRAME - sent);
        if (count <= 0)
            return 0;
        sent += count;
    }
    return 1;
}

int main(int count, char **words)
{
    int one = 1, door = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    signal(SIGPIPE, SIG_IGN);
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(door, (struct sockaddr *)&address, sizeof address) || listen(door, 5))
        return 1;
    for (int link; (link = accept(door, NULL, NULL)) >= 0; close(link)) {
        struct timespec next;
        clock_gettime(CLOCK_MONOTONIC, &next);
        for (unsigned number = 0;; number++) {
            for (int i = 0; i < FRAME; i++)
                frame[i] = number * 7 + i * (number + 3) % 253;
            if (!send_all(link))
                break;
            next.tv_nsec += PERIOD;
            if (next.tv_nsec >= 1000000000) {
                next.tv_nsec -= 1000000000;
                next.tv_sec++;
            }
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        }
    }
}
"""
SCREEN = """
package main

import ("fmt"; "hash/crc32"; "io"; "net"; "os"; "strconv"; "time")

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	link, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	frame, begin, shown, sum := make([]byte, 200000), time.Now(), 0, uint32(0)
	for ; time.Since(begin).Seconds() < seconds; shown++ {
		if _, err := io.ReadFull(link, frame); err != nil {
			panic(err)
		}
		sum ^= crc32.ChecksumIEEE(frame)
	}
	fmt.Printf("sum %08x items %d seconds %.3f\\n", sum, shown, time.Since(begin).Seconds())
}
"""


def playout(place):
    back, front = place.port(), place.port()
    place.start(place.c("playout", PLAYOUT), back, port=back)
    config = place.write("haproxy.cfg", f"""
global
  nbthread 1
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen screen
  bind 127.0.0.1:{front}
  server playout 127.0.0.1:{back}
""", mode=0o644)
    place.start("haproxy", "-db", "-f", config, port=front)
    return [str(place.go("screen", SCREEN)), str(front), str(place.seconds)]


NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
COMPILERS = r"(cc1|\bgcc|\bas\b|\bld\b|collect2|\bmake|compil|pigz|\btar\b)"
SYSTEMS = [
    System(
        name="studio_lock_around_delivery",
        kind="file-lock-around-call",
        truth="the six deliveries that make runs at once wait for one another's lock of "
              "catalogue.lock, which each keeps while curl waits 45 ms for the reply of "
              "asset-store, although only the line for the catalogue needs it",
        load=deliveries,
        component=(r"\bflock", r"\bdeliver", r"\bmake\b", r"\bcatalogue", r"\bcurl\b", r"asset-store"),
        mechanism=(*LOCKS, r"\bflock", r"for one another", r"\bserial", r"\bholds?\b", r"\bheld\b",
                   r"one (\w+ )?(delivery|upload|request|process)"),
        never=DISK,
        halves=True,
        needs=("make", "curl", "gzip", "flock", "go"),
    ),
    System(
        name="studio_programs_for_each_line",
        kind="fork-per-line",
        truth="the filter sift, in bash, starts date, sed, cut, tr and subshells for each line of "
              "the log, and both CPUs are busy to start and end processes",
        load=render_log,
        rate=ITEMS,
        component=(r"\bsift\b", r"\bbash\b", r"\b(sed|cut|date|tr)\b", r"\bsocat\b[^;]*(start|fork|exec)"),
        mechanism=(r"\bfork", r"\bclone", r"\bexec", r"\bstart(s|ed|ing)?\b", r"\bspawn", r"short-lived",
                   r"pro(cess|gram)(es|s)? (for|per|a second|each)", r"new process", r"child", r"wait4|waitpid"),
        never=(*DISK, r"(sift|bash|socat) (\([^)]*\) )?sleeps"),
        running=True,
        needs=("socat", "bash", "gawk", "go"),
    ),
    System(
        name="studio_call_for_each_level",
        kind="chatty-calls",
        truth="the processes of exposure call the manager levels, in python, 256 times for each "
              "tile, once for each brightness, and wait for each reply; levels computes, with one "
              "thread at a time",
        load=exposure,
        rate=all_items,
        component=(r"\blevels\b", r"\bexposure\b[^;]*(calls?|requests?|asks?|repl(y|ies)|round trip)"),
        mechanism=(*COMPUTES, *LOCKS, r"\bruns? on", r"\bCPU", r"\bGIL\b", r"interpreter", r"calls?\b",
                   r"requests?\b", r"repl(y|ies)\b", r"round trip", r"pickl", r"messages?"),
        never=(*DISK, r"levels (\([^)]*\) )?sleeps"),
        needs=(PYTHON, "xargs"),
    ),
    System(
        name="studio_sync_of_each_block",
        kind="sync-per-block",
        truth="dd, which sshd starts in the vault, waits for the disk after each block of 8 KiB, "
              "because it opens its file with O_DSYNC; tar, zstd and ssh wait for it",
        load=vault,
        component=(r"\bdd\b", r"reel\.tar\.zst"),
        mechanism=(*DISK, r"\bdisk\b", r"sync", r"\bflush", r"\bjournal", r"jbd2"),
        never=(r"^[^;]*\b(tar|zstd|ssh|sshd) (\([^)]*\) )?(computes|sleeps)",),
        needs=("/usr/sbin/sshd", "ssh", "ssh-keygen", "tar", "zstd", "dd", "unshare"),
    ),
    System(
        name="studio_forgotten_bandwidth_limit",
        kind="rate-limit",
        truth="the rsync daemon of the archive sleeps, because it was started with --bwlimit and "
              "sends no more than 5 MB each second",
        load=conform,
        component=(r"\brsync",),
        mechanism=(*SLEEPS, r"bwlimit", r"limit", r"throttl", r"\bpaced\b", r"\bselect\b"),
        never=(*DISK, r"^[^;]*\b(sha256sum|conform|bash|rsync) (\([^)]*\) )?computes"),
        change="x0",
        halves=True,
        needs=("rsync", "sha256sum"),
    ),
    System(
        name="control_studio_plugins",
        kind="control",
        truth="make compiles nine files with gcc, three at a time, and both CPUs are full",
        load=plugins,
        acceptable=(*NOTHING, rf"{COMPILERS}.*(user|kernel|\brun|preempted|interrupted|comput|\bCPU|own code)",
                    r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("make", "gcc", "tar", "pigz"),
    ),
    System(
        name="control_studio_playout",
        kind="control",
        truth="playout sends 25 frames a second by its own clock through haproxy to screen, and "
              "all of them are idle most of the time",
        load=playout,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by playout", r"playout.*(sleep|timer|until a time|\bpaced\b)", r"\bidle\b"),
        needs=("gcc", "haproxy", "go"),
    ),
]

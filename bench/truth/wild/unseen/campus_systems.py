"""The computing centre of a university: five faults of its mail, git server, transfers, shell
pipelines and science jobs, and two healthy parts of the same centre.
"""
import os
import pwd
import random

from services import private_network
from system import ITEMS, PYTHON, SLEEPS, System

DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")
LOCK = (r"\bmutex", r"\bfutex", r"\bwait(s|ing)? for (a|the) (\w+ )?lock")
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")

# The circulars of a faculty: sixteen letters in one connection to exim, which passes them to the
# mail store by LMTP. The next circular follows when the store has all of them.
CIRCULAR = """#!/usr/bin/python3
import smtplib, socket, sys, time

mail, told, circulars = map(int, sys.argv[1:])
stored = socket.create_connection(("127.0.0.1", told)).makefile()
stored.readline()
begin, letters = time.monotonic(), 0
for circular in range(circulars):
    with smtplib.SMTP("127.0.0.1", mail) as relay:
        for student in range(16):
            head = f"Subject: circular {circular}\\r\\n\\r\\n"
            text = head + f"The lecture is in hall {circular + 2}.\\r\\n" + "Dates of examinations. " * 40
            relay.sendmail("faculty@campus.example", [f"student{student}@campus.example"], text)
    for _ in range(16):
        stored.readline()
        letters += 1
print(f"items {letters} seconds {time.monotonic() - begin:.3f}")
"""
MAILSTORE = """#!/usr/bin/python3
import os, queue, socketserver, sys, threading

lmtp, told, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
stored = queue.SimpleQueue()
numbers = iter(range(1, 1000000))

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 200

class Delivery(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"220 mailstore\\r\\n")
        for line in self.rfile:
            word = line[:4].upper()
            if word == b"LHLO":
                self.wfile.write(b"250-mailstore\\r\\n250 PIPELINING\\r\\n")
            elif word == b"DATA":
                self.wfile.write(b"354 go on\\r\\n")
                text = []
                while (part := self.rfile.readline()) not in (b".\\r\\n", b""):
                    text.append(part)
                with open(os.path.join(folder, f"letter{next(numbers)}"), "wb") as file:
                    file.writelines(text)
                self.wfile.write(b"250 stored\\r\\n")
                stored.put("stored\\n")
            elif word == b"QUIT":
                self.wfile.write(b"221 bye\\r\\n")
                return
            else:
                self.wfile.write(b"250 ok\\r\\n")

class Told(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"hello\\n")
        while True:
            self.wfile.write(stored.get().encode())

threading.Thread(target=Server(("127.0.0.1", told), Told).serve_forever, daemon=True).start()
Server(("127.0.0.1", lmtp), Delivery).serve_forever()
"""
RELAY = """
primary_hostname = mail.campus.example
spool_directory = SPOOL
log_file_path = SPOOL/%slog
pid_file_path = SPOOL/exim.pid
local_interfaces = 127.0.0.1
deliver_drop_privilege = true
keep_environment =
tls_advertise_hosts =
acl_smtp_rcpt = accept
smtp_accept_max = 100
SETTINGS
begin routers
students:
  driver = manualroute
  route_list = * 127.0.0.1
  self = send
  transport = store
begin transports
store:
  driver = smtp
  protocol = lmtp
  port = STORE
  allow_localhost
  hosts_try_fastopen =
begin retry
* * F,1h,1m
"""


def letters(place):
    told, store, mail = (place.port() for _ in range(3))
    user = pwd.getpwnam("Debian-exim")
    for name in "spool", "letters":
        (place.folder / name).mkdir()
    os.chown(place.folder / "spool", user.pw_uid, user.pw_gid)
    place.start(place.write("mailstore", MAILSTORE), store, told, place.folder / "letters", port=store)
    # By default, exim keeps all letters but the first ten of a connection for the next queue run.
    settings = "smtp_accept_queue_per_connection = 0" if place.fixed else ""
    text = RELAY.replace("SPOOL", f"{place.folder}/spool").replace("STORE", str(store)).replace("SETTINGS", settings)
    config = place.write("exim.conf", text, mode=0o644)
    place.start("exim4", "-C", config, "-bdf", "-oX", mail, f"-q{round(2 * place.scale)}s", port=mail)
    return [str(place.write("circular", CIRCULAR)), str(mail), str(told), "3"]


# Fetches what groups of students have submitted, a branch for each, on the host of the repository.
COLLECT = """#!/bin/bash
set -e
git init -q marking
cd marking
git remote add course "file://$1"
for (( group = 0; group < $2; group++ )); do
    name=$(printf 'group%05d' $group)
    git fetch -q course refs/heads/$name:refs/heads/$name
done
"""


GROUPS = 24000


def branches(place):
    bare = place.folder / "course"
    place.run("git", "init", "-q", "--bare", bare)
    place.write("exercise.c", "int main(void) { return 0; }\n")
    name = ("-c", "user.name=course", "-c", "user.email=course@campus.example")
    git = ("git", f"--git-dir={bare}", f"--work-tree={place.folder}", *name)
    place.run(*git, "add", "exercise.c")
    place.run(*git, "commit", "-q", "-m", "exercises")
    first = place.run("git", f"--git-dir={bare}", "rev-parse", "HEAD")
    heads = bare / "refs" / "heads"
    # Each push leaves a file; `git pack-refs --all` makes one file of them.
    if place.fixed:
        (bare / "packed-refs").write_text("".join(f"{first.strip()} refs/heads/group{group:05}\n" for group in range(GROUPS)))
    else:
        for group in range(GROUPS):
            (heads / f"group{group:05}").write_text(first)
    return [str(place.write("collect", COLLECT)), str(bare), "35"]


# Copies the input files of a job array from the archive, six at a time.
STAGEIN = """#!/usr/bin/ruby
require "net/http"
port, count = ARGV[0, 2].map(&:to_i)
queue = Queue.new
count.times { |file| queue << file }
begun = Process.clock_gettime(Process::CLOCK_MONOTONIC)
workers = 6.times.map do
  Thread.new do
    loop do
      file = queue.pop(true) rescue break
      answer = Net::HTTP.get_response("127.0.0.1", "/run#{file % 40}.dat", port)
      abort "no input" unless answer.is_a?(Net::HTTPOK)
      File.binwrite("#{ARGV[2]}/run#{file}.dat", answer.body)
    end
  end
end
workers.each(&:join)
puts format("items %d seconds %.3f", count, Process.clock_gettime(Process::CLOCK_MONOTONIC) - begun)
"""


def stage_in(place):
    (place.folder / "input").mkdir()
    archive = place.folder / "archive"
    archive.mkdir()
    for run in range(40):
        (archive / f"run{run}.dat").write_bytes(random.Random(run).randbytes(20000))
    port = place.port()
    config = place.write("archive.conf", f"""
server.document-root = "{archive}"
server.bind = "127.0.0.1"
server.port = {port}
server.pid-file = "{place.folder}/archive.pid"
server.max-connections = 200
mimetype.assign = ( ".dat" => "application/octet-stream" )
""")
    # The firewall of the computing centre drops new connections above a rate.
    rules = place.write("firewall.nft", f"""
table inet campus {{
  chain input {{
    type filter hook input priority 0;
    tcp dport {port} tcp flags & (syn | ack) == syn limit rate over 30/second burst 10 packets drop
  }}
}}
""")
    inside = private_network(place, *([] if place.fixed else [f"nft -f {rules}"]))
    place.start(*inside, "lighttpd", "-D", "-f", config, path=place.folder / "archive.pid")
    return [*inside, str(place.write("stagein", STAGEIN)), str(port), "60", str(place.folder / "input")]


# Compresses the scans of a day. Without a limit, one call of gzip gets the names of all of them.
PACKSCANS = """#!/bin/bash
set -eo pipefail
find scans -name '*.pgm' -print0 | sort -z | xargs -0 -P 4 LIMIT gzip -9
cat scans/*.gz | sha256sum > scans/sums
"""


def scans(place):
    folder = place.folder / "scans"
    folder.mkdir()
    dice = random.Random(5)
    grey = bytes(min(255, max(0, round(dice.gauss(128, 9)))) for _ in range(100000))
    for scan in range(120):
        parts = [grey[start:start + 25000] for start in (dice.randrange(75000) for _ in range(44))]
        (folder / f"scan{scan:03}.pgm").write_bytes(b"P5 1100 1000 255\n" + b"".join(parts))
    return [str(place.write("packscans", PACKSCANS.replace("LIMIT", "-n 5" if place.fixed else "")))]


# Moves a cloud of dust over a map, with fresh arrays for the fluxes of each step, and writes the
# amount of each hundredth step into a table.
DUSTCLOUD = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 256, COLUMNS = 256, CELLS = ROWS * COLUMNS };

static void flux(const double *dust, double wind, int reach, double *out) {
    for (int i = 0; i < CELLS - reach; i++)
        out[i] = wind * (dust[i] - dust[i + reach]);
    for (int i = CELLS - reach; i < CELLS; i++)
        out[i] = 0;
}

static void apply(double *dust, const double *east, const double *south) {
    for (int i = COLUMNS; i < CELLS; i++)
        dust[i] += east[i - 1] - east[i] + south[i - COLUMNS] - south[i];
}

int main(int count, char **words) {
    int steps = atoi(words[1]);
    struct timespec begin, end;
    double *map = calloc(16 * CELLS, sizeof *map), *dust = malloc(CELLS * sizeof *dust), total = 0;
    for (int i = 0; i < 16 * CELLS; i++)
        map[i] = i % 97;
    for (int i = 0; i < CELLS; i++)
        dust[i] = map[i * 16] + map[i];
    free(map);
    FILE *table = fopen("amounts", "w");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int step = 0; step < steps; step++) {
        double *east = malloc(CELLS * sizeof *east), *south = malloc(CELLS * sizeof *south);
        flux(dust, 0.1, 1, east);
        flux(dust, 0.05, COLUMNS, south);
        apply(dust, east, south);
        free(south);
        free(east);
        if (step % 100 == 0) {
            total = 0;
            for (int i = 0; i < CELLS; i++)
                total += dust[i];
            fprintf(table, "%d %.3f\n", step, total);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    fclose(table);
    printf("amount %.1f\nitems %d seconds %.3f\n", total, steps, end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) / 1e9);
}
"""


def dust(place):
    program = place.c("dustcloud", DUSTCLOUD)
    # The profile of the job sets malloc's threshold for mmap to its initial value, and it no longer
    # grows with the blocks that are freed.
    profile = "" if place.fixed else "export MALLOC_MMAP_THRESHOLD_=131072\n"
    return [str(place.write("job", f"#!/bin/sh\n{profile}exec {program} 11000\n"))]


# Builds what each group has submitted, with a make for each group that shares the two jobs of the
# first make, and runs it on an input.
MARKING = """
groups := $(wildcard groups/*)
.PHONY: all $(groups)
all: $(groups)
$(groups):
	$(MAKE) -s -C $@ -f ../../group.mk marked
"""
GROUP = """
marked: sorter
	./sorter 300000 > marked
sorter: main.o order.o
	$(CXX) -o $@ $^
%.o: %.cc order.h
	$(CXX) -O2 -Wall -c -o $@ $<
"""
ORDER_H = """
#include <string>
#include <vector>
struct Student { std::string name; int number; };
void order(std::vector<Student> &all);
"""
ORDER_CC = """
#include <algorithm>
#include "order.h"
void order(std::vector<Student> &all) {
    std::stable_sort(all.begin(), all.end(), [](auto &one, auto &other) { return one.number % KEY < other.number % KEY; });
}
"""
MAIN_CC = """
#include <cstdio>
#include <cstdlib>
#include "order.h"
int main(int, char **words) {
    std::vector<Student> all;
    for (int i = 0; i < atoi(words[1]); i++)
        all.push_back({"student " + std::to_string(i * 7919L % 100003), i * 31 % 65537});
    order(all);
    for (int i = 0; i < 100; i++)
        puts(all[i].name.c_str());
}
"""


def marking(place):
    groups = place.folder / "groups"
    groups.mkdir()
    for number in range(6):
        group = groups / f"group{number}"
        group.mkdir()
        for name, text in ("order.h", ORDER_H), ("order.cc", ORDER_CC.replace("KEY", str(101 + number))), ("main.cc", MAIN_CC):
            (group / name).write_text(text)
    place.write("group.mk", GROUP)
    return ["make", "-s", "-j", "2", "-f", str(place.write("marking.mk", MARKING))]


# Twelve terminals in the hall ask for plans of courses, and their users read a while before they
# turn to the next page.
TERMINALS = """
const http = require("http");
const [port, seconds] = process.argv.slice(2).map(Number);
const agent = new http.Agent({ keepAlive: true, maxSockets: 20 });
const begin = process.hrtime.bigint();
const passed = () => Number(process.hrtime.bigint() - begin) / 1e9;
let pages = 0, open = 12;

function page(terminal, seed) {
  if (passed() > seconds) {
    if (--open === 0) {
      console.log(`items ${pages} seconds ${passed().toFixed(3)}`);
      agent.destroy();
    }
    return;
  }
  const next = (seed * 1103515245 + 12345) % 2147483648;
  http.get({ host: "127.0.0.1", port, path: "/plan?course=" + next % 300, agent }, answer => {
    answer.resume();
    answer.on("end", () => {
      if (answer.statusCode !== 200) process.exit(1);
      pages++;
      setTimeout(page, 120 + next % 260, terminal, next);
    });
  });
}
for (let terminal = 0; terminal < open; terminal++) setTimeout(page, terminal * 23, terminal, terminal + 1);
"""
PLANS = """
package main

import ("bufio"; "fmt"; "net"; "net/http"; "os"; "strings")

func main() {
	stores := make(chan net.Conn, 4)
	for i := 0; i < 4; i++ {
		store, err := net.Dial("tcp", "127.0.0.1:" + os.Args[2])
		if err != nil {
			panic(err)
		}
		stores <- store
	}
	http.HandleFunc("/plan", func(answer http.ResponseWriter, request *http.Request) {
		course := request.FormValue("course")
		store := <-stores
		defer func() { stores <- store }()
		replies := bufio.NewReader(store)
		fmt.Fprintf(store, "get plan%s\\r\\n", course)
		line, _ := replies.ReadString('\\n')
		if line == "END\\r\\n" {
			var text strings.Builder
			for hour := 8; hour < 20; hour++ {
				fmt.Fprintf(&text, "<tr><td>%d:15<td>course %s, hall %d", hour, course, hour * 7 % 11)
			}
			line = text.String()
			fmt.Fprintf(store, "set plan%s 0 0 %d\\r\\n%s\\r\\n", course, len(line), line)
			replies.ReadString('\\n')
		} else {
			line, _ = replies.ReadString('\\n')
			replies.ReadString('\\n')
		}
		fmt.Fprintf(answer, "<table>%s</table>", line)
	})
	panic(http.ListenAndServe("127.0.0.1:" + os.Args[1], nil))
}
"""


def terminals(place):
    front, plans, store = (place.port() for _ in range(3))
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", store, "-t", "2", "-U", "0", port=store)
    place.start(place.go("plans", PLANS), plans, store, port=plans)
    config = place.write("haproxy.cfg", f"""
defaults
    mode http
    timeout connect 2s
    timeout client 20s
    timeout server 20s
frontend hall
    bind 127.0.0.1:{front}
    default_backend plans
backend plans
    server plans 127.0.0.1:{plans}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return ["node", str(place.write("terminals.js", TERMINALS)), str(front), str(place.seconds)]


SYSTEMS = [
    System(
        name="campus_letters_in_the_queue",
        kind="deferred-to-queue-run",
        truth="exim delivers only the first ten letters of a connection at once, and leaves the other "
              "six in its spool until its timer starts the next queue run, every 2 s",
        load=letters,
        rate=ITEMS,
        component=(r"exim",),
        mechanism=(*SLEEPS, r"queue[- ]?run", r"\binterval\b", r"\bperiod", r"\balarm\b",
                   r"\bevery (2|1\.9|2\.0)", r"\btimed?[- ]?outs?\b"),
        never=(*DISK, *LOCK, r"delayed ACK",
               r"(exim4?|circular|mailstore|python3) (\S+ )?(\([^)]*\) )?(computes|runs its own code)",
               r"^(python3 )?(\S*/)?(circular|mailstore)\S* (\([^)]*\) )?(sleeps|is the bottleneck)"),
        halves=True,
        needs=("exim4", PYTHON),
    ),
    System(
        name="campus_submitted_branches",
        kind="loose-references",
        truth="git upload-pack, started by git fetch, opens and reads the files of 24,000 branches at "
              "each fetch of one branch, because the references were never packed",
        load=branches,
        component=(r"\bgit\b", r"upload-pack"),
        mechanism=(r"\bopen(at|s|ed|ing)?\b", r"\bfiles?\b", r"system calls?\b", r"syscalls?\b", r"kernel",
                   r"l?stat\b", r"\bread(s|ing|link)?\b", r"getdents", r"\brefs?\b", r"\breferences?\b",
                   r"director(y|ies)", r"path ?names?"),
        never=(*DISK, *LOCK, r"sleeps", r"collect\S* (\([^)]*\) )?computes"),
        needs=("git", "bash"),
    ),
    System(
        name="campus_stage_in_behind_a_firewall",
        kind="new-connections-dropped",
        truth="stagein, in ruby, opens a connection for each file, and waits seconds in connect until "
              "SYNs are sent again that a rule of nftables drops above 30 new connections a second",
        load=stage_in,
        rate=ITEMS,
        component=(r"stagein", r"\bruby\b", r"lighttpd", r"firewall", r"nft", r"netfilter", r"\bport \d+", r"\blo\b",
                   r"loopback", r"connections?\b"),
        mechanism=(r"\bconnect(s|ing)?\b", r"(new|opens?|opening|each|per) [\w ]*connection", r"\bSYNs?\b", r"retransm",
                   r"\bsent again", r"\bdrop(s|ped)?\b", r"\blost\b", r"\bloss\b", r"rate ?limit", r"firewall",
                   r"packet filter", r"netfilter", r"handshake"),
        never=(*DISK, r"(ruby|stagein|lighttpd) (\S+ )?(\([^)]*\) )?(computes|runs its own code)",
               r"interpreter lock", r"\bGVL\b", r"delayed ACK"),
        needs=("lighttpd", "ruby", "nft", "unshare", "nsenter"),
    ),
    System(
        name="campus_scans_in_one_batch",
        kind="batch-too-large",
        truth="xargs may run four gzip at once, but without a limit it gives all 120 scans to a single "
              "one, which compresses them one after the other on one CPU while the other is idle",
        load=scans,
        component=(r"\bgzip\b", r"\bxargs\b", r"packscans"),
        mechanism=(r"\b(one|single|only|1) (\w+ )?(thread|process|CPU|gzip|core|job)",
                   r"single-?threaded", r"one (at a time|after (another|the other))",
                   r"\bserial", r"\bin sequence\b", r"parallel", r"idle", r"(other|second) CPU", r"at once", r"not (use|shared?)"),
        never=(*DISK, *LOCK, r"gzip (\([^)]*\) )?sleeps", r"sha256sum (\([^)]*\) )?(computes|is the bottleneck)"),
        needs=("bash", "find", "xargs", "gzip"),
    ),
    System(
        name="campus_cloud_of_fresh_arrays",
        kind="page-faults",
        truth="dustcloud, in C, is in page faults most of the time, because malloc maps the arrays of "
              "each step anew and returns them to the kernel at once, with a threshold for mmap that "
              "the job has set",
        load=dust,
        rate=ITEMS,
        component=(r"dustcloud",),
        mechanism=(r"page[- ]?faults?", r"\bfaults?\b", r"\bm(un)?map\b", r"\bmalloc", r"\b(clear|zero)(s|ing|ed)?\b.*\bpages?\b",
                   r"fresh (memory|pages)", r"memory.*(kernel|return|anew|alloc)", r"clear_page"),
        never=(*DISK, *LOCK, r"dustcloud (\([^)]*\) )?sleeps"),
        needs=("gcc",),
    ),
    System(
        name="control_campus_marking",
        kind="control",
        truth="make builds the programs of six groups with two jobs at a time, and the compilers keep "
              "both CPUs busy until the end",
        load=marking,
        acceptable=(*NOTHING, r"(cc1plus|g\+\+|make|sorter|compil).*(user|kernel|\brun|preempted|interrupted|comput|\bCPU)",
                    r"([Bb]oth|[Aa]ll|[Tt]he|2) CPUs", r"\bCPUs? (is|are) (full|busy)"),
        needs=("make", "g++"),
    ),
    System(
        name="control_campus_terminals_of_the_hall",
        kind="control",
        truth="twelve terminals, in node, ask for a plan and wait for their readers before the next; "
              "haproxy, plans, in Go, and memcached reply within a millisecond or two and are idle",
        load=terminals,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by (node|terminals)",
                    r"(\bnode\b|terminals).*(sleep|timer|until a time|clock|paced|think|idle)", r"\bidle\b", r"load generator"),
        needs=("haproxy", "memcached", "go", "node"),
    ),
]

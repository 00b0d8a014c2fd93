"""A public library: faults of batch and parallel work that are frequent in production, such as a
CPU quota, a bandwidth limit, a batch without nice, tasks that are too small and unbuffered reads,
and two healthy parts of the same library.
"""
import os
from itertools import count
from pathlib import Path

from services import mariadb, nginx, php
from system import ITEMS, PYTHON, SLEEPS, WRK, System, wrk

HAPROXY = """
global
    nbthread 1
defaults
    mode {mode}
    timeout connect 5s
    timeout client 30s
    timeout server 30s
listen {name}
    bind 127.0.0.1:{front}
    server one 127.0.0.1:{port}
"""


def haproxy(place, name, port, mode="http"):
    """Starts a haproxy in front of `port`; returns its own port."""
    front = place.port()
    config = place.write(f"{name}.cfg", HAPROXY.format(mode=mode, name=name, front=front, port=port))
    place.start("haproxy", "-db", "-f", config, port=front)
    return front


# Shows the books that search.js finds.
READING_ROOM = """<?php
$found = file_get_contents("http://127.0.0.1:PORT/search?words=" . rand(1, 500));
echo "<html><ul>";
foreach (json_decode($found) as $title) echo "<li>" . htmlspecialchars($title) . "</li>";
echo "</ul></html>";
"""

# Gives each title a rank, and returns the ten best.
SEARCH = """
const http = require("http");
const titles = Array.from({ length: 6000 }, (_, i) => ({
  title: `Annals of the town, volume ${i}`, year: 1700 + i % 320, loans: i * 7919 % 1013 }));
http.createServer((request, response) => {
  const words = Number(request.url.split("=")[1]);
  const ranked = titles.map(book => ({
    title: book.title,
    rank: Math.log(1 + book.loans) * Math.exp(-Math.abs(book.year - 1700 - words) / 90) }));
  ranked.sort((a, b) => b.rank - a.rank);
  response.end(JSON.stringify(ranked.slice(0, 10).map(book => book.title)));
}).listen(Number(process.argv[2]), "127.0.0.1");
"""
NUMBERS = count()


def quota(place, share):
    """Makes a control group that may use this share of one CPU.

    Returns the words before a command that should run in it.
    """
    name, period = f"library-{os.getpid()}-{next(NUMBERS)}", 100000
    microseconds = round(share * period)
    old = Path("/sys/fs/cgroup/cpu")
    group = (old if old.is_dir() else old.parent) / name
    if old.is_dir():
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text(f"{period}")
        (group / "cpu.cfs_quota_us").write_text(f"{microseconds}")
    else:
        (old.parent / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
        (group / "cpu.max").write_text(f"{microseconds} {period}")
    # The services, which start later, are ended before the group is removed.
    place.stack.callback(group.rmdir)
    return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]


def limited_search(place):
    port = place.port()
    # A fifth of a CPU: for each millisecond that the search runs it is stopped for four, or for two
    # with half of the fault.
    bound = [] if place.fixed else quota(place, 1 / (1 + 4 * place.fault))
    place.start(*bound, "node", place.write("search.js", SEARCH), port, port=port)
    front = php(place, READING_ROOM.replace("PORT", str(port)), children=6)
    return wrk(f"http://127.0.0.1:{haproxy(place, 'catalogue', front)}/", 6, place.seconds)


# Copies the scans of each shelf from the store, and keeps their checksums.
NIGHTCOPY = """#!/bin/bash
start=$EPOCHREALTIME
for shelf in 1 2 3 4; do
  rsync -a --whole-file "rsync://127.0.0.1:$1/scans/shelf$shelf" copies || exit 1
  sha256sum copies/shelf$shelf/* >> checksums
done
gawk -v start=$start -v end=$EPOCHREALTIME \\
  'END { printf "items %d seconds %.3f\\n", NR, end - start }' checksums
"""


def slow_copy(place):
    for shelf in range(1, 5):
        folder = place.folder / "scans" / f"shelf{shelf}"
        folder.mkdir(parents=True)
        for page in range(16):
            (folder / f"page{page}.tiff").write_bytes(os.urandom(700000))
    (place.folder / "copies").mkdir()
    config = place.write("rsyncd.conf", f"""
use chroot = no
uid = 0
gid = 0
[scans]
path = {place.folder}/scans
read only = yes
""", mode=0o644)
    port = place.port()
    limit = [] if place.fixed else [f"--bwlimit={round(11000 / place.fault)}"]
    place.start("rsync", "--daemon", "--no-detach", "--address=127.0.0.1", f"--port={port}",
                f"--config={config}", *limit, port=port)
    return [str(place.write("nightcopy", NIGHTCOPY)), str(port)]


# Computes the fees of a reader for all books that came back too late.
LOANS = """
from flask import Flask, jsonify

app = Flask(__name__)
closed = {day for day in range(4000) if day % 7 == 6 or day % 91 == 3}

@app.get("/fees/<int:reader>")
def fees(reader):
    owed = 0
    for loan in range(30):
        due = (reader * 31 + loan * 17) % 3000
        owed += sum(10 for day in range(due, due + 40 + loan) if day not in closed)
    return jsonify(reader=reader, cents=owed)
"""

# Eight threads build the index of the scanned books anew, again and again.
REINDEX = """
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

static void index(uint32_t seed) {
    std::vector<uint32_t> postings(20000);
    for (;;) {
        for (auto &entry : postings) {
            seed = seed * 1664525u + 1013904223u;
            entry ^= seed >> 7;
        }
    }
}

int main(int, char **words) {
    std::vector<std::thread> threads;
    for (int i = 0; i < atoi(words[1]); i++) threads.emplace_back(index, i + 1);
    for (auto &thread : threads) thread.join();
}
"""


def cpp(place, name, source):
    command = ("g++", "-O2", "-std=c++17", "-pthread", "-o", "{program}", "{source}")
    return place.named(place.built(source, ".cpp", *command), name)


def starved_loans(place):
    # Both services stay in one session, because the kernel can compare nice values only within a
    # session (autogroup).
    together = {"start_new_session": False, "process_group": 0}
    port = place.port()
    place.write("loans.py", LOANS)
    place.start("/usr/bin/gunicorn", "-w", "2", "-b", f"127.0.0.1:{port}", "--chdir", place.folder,
                "loans:app", port=port, **together)
    web = nginx(place, f"location / {{ proxy_pass http://127.0.0.1:{port}; }}")
    front = haproxy(place, "counter", web)
    patient = ["nice", "-n", "19"] if place.fixed else []
    place.start(*patient, cpp(place, "reindex", REINDEX), 8, **together)
    return wrk(f"http://127.0.0.1:{front}/fees/4711", 4, place.seconds)


# Checks the ISBN of each line of the input in two processes.
ISBNCHECK = """#!/usr/bin/python3
import sys
from multiprocessing import Pool

def check(isbn):
    digits = [int(digit) for digit in isbn if digit.isdigit()]
    total = sum(digit * (3 if place % 2 else 1) for place, digit in enumerate(digits))
    return "valid" if len(digits) == 13 and total % 10 == 0 else "wrong"

if __name__ == "__main__":
    isbns = (line.strip() for line in sys.stdin)
    with Pool(2) as pool:
        for answer in pool.imap(check, isbns, CHUNK):
            print(answer)
"""
STOCKTAKE = """#!/bin/bash
start=$EPOCHREALTIME
sqlite3 catalogue.db "select isbn from books order by id" | ./isbncheck |
  gawk -v start=$start '{ seen[$1]++ }
    END {
      "date +%s.%N" | getline end
      printf "wrong %d items %d seconds %.3f\\n", seen["wrong"], NR, end - start
    }'
"""


def tiny_tasks(place):
    books = 150000
    place.run("sqlite3", "catalogue.db", f"""
        create table books (id integer primary key, isbn text);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < {books})
        insert into books select i, printf('978-%d-%05d-%03d-%d', i % 9 + 1, i % 99991, i % 997, i % 10)
            from n""")
    place.write("isbncheck", ISBNCHECK.replace("CHUNK", "500" if place.fixed else "1"))
    return [str(place.write("stocktake", STOCKTAKE))]


# Has one shelf after the other indexed.
NIGHTINDEX = """#!/usr/bin/ruby
require "net/http"
port, shelves = ARGV.map(&:to_i)
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
start = now.call
Net::HTTP.start("127.0.0.1", port) do |web|
  shelves.times do |shelf|
    answer = web.get("/index?shelf=#{shelf}")
    raise answer.body unless answer.code == "200" && answer.body.to_i > 0
  end
end
puts "items #{shelves} seconds #{(now.call - start).round(3)}"
"""

# Sends the records of a shelf to the indexer, and returns its answer.
SHELVES = """
package main

import ("bufio"; "fmt"; "net"; "net/http"; "os"; "strings")

func records(shelf string) string {
	var text strings.Builder
	for i := 0; i < 160; i++ {
		fmt.Fprintf(&text, "245 %s/%d The %dth history of the town and its bridges, ", shelf, i, i % 40)
		fmt.Fprintf(&text, "with %d maps, told by the miller no. %d\\n", i % 7, i * 7919 % 4001)
	}
	return text.String()
}

func main() {
	http.HandleFunc("/index", func(w http.ResponseWriter, r *http.Request) {
		indexer, err := net.Dial("tcp", "127.0.0.1:" + os.Args[2])
		if err != nil { http.Error(w, err.Error(), 502); return }
		defer indexer.Close()
		fmt.Fprintf(indexer, "%s\\n", records(r.URL.Query().Get("shelf")))
		answer, err := bufio.NewReader(indexer).ReadString('\\n')
		if err != nil { http.Error(w, err.Error(), 502); return }
		fmt.Fprint(w, answer)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

# Counts the words of the records up to an empty line, and answers with the number of words.
INDEXER = """
import java.io.*;
import java.net.*;
import java.util.*;
import java.util.concurrent.*;

public class Main {
    static String line(InputStream in) throws IOException {
        StringBuilder text = new StringBuilder();
        for (int letter; (letter = in.read()) >= 0 && letter != '\\n';) text.append((char) letter);
        return text.toString();
    }

    static void index(Socket socket, boolean buffered) {
        try (socket) {
            InputStream in = socket.getInputStream();
            if (buffered) in = new BufferedInputStream(in);
            Map<String, List<Integer>> postings = new TreeMap<>();
            int number = 0;
            for (String record; !(record = line(in)).isEmpty(); number++)
                for (String word : record.toLowerCase().split("[ ,.]+"))
                    postings.computeIfAbsent(word, key -> new ArrayList<>()).add(number);
            socket.getOutputStream().write((postings.size() + "\\n").getBytes());
        } catch (IOException error) { throw new UncheckedIOException(error); }
    }

    public static void main(String[] words) throws Exception {
        InetAddress address = InetAddress.getByName("127.0.0.1");
        ServerSocket server = new ServerSocket(Integer.parseInt(words[0]), 100, address);
        ExecutorService pool = Executors.newFixedThreadPool(2, task -> new Thread(task, "indexer"));
        while (true) {
            Socket socket = server.accept();
            pool.execute(() -> index(socket, words[1].equals("buffered")));
        }
    }
}
"""


def read_by_bytes(place):
    port, shelves = place.port(), place.port()
    place.start("java", "-Xmx256m", "-cp", place.java(INDEXER), "Main", port,
                "buffered" if place.fixed else "plain", port=port)
    balancer = haproxy(place, "indexers", port, mode="tcp")
    place.start(place.go("shelves", SHELVES), shelves, balancer, port=shelves)
    web = nginx(place, f"location / {{ proxy_pass http://127.0.0.1:{shelves}; }}")
    return [str(place.write("nightindex", NIGHTINDEX)), str(web), "190"]


# Control: reminds one reader each 70 ms by intention; all others are done long before the next.
REMINDERS = """#!/usr/bin/python3
import socket, sys, time
import pymysql

base = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", database="test")
queue = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
seconds, start, sent = float(sys.argv[3]), time.monotonic(), 0
while time.monotonic() < start + seconds:
    with base.cursor() as cursor:
        cursor.execute("select title, due from loans where reader = %s order by due limit 5",
                       (sent % 400,))
        text = "".join(f"{title} was due on day {due}\\n" for title, due in cursor.fetchall())
    queue.sendall(f"put 0 0 60 {len(text)}\\r\\n{text}\\r\\n".encode())
    assert queue.recv(100).startswith(b"INSERTED")
    sent += 1
    time.sleep(max(0, start + sent * 0.07 - time.monotonic()))
print(f"items {sent} seconds {time.monotonic() - start:.3f}")
"""
LETTERS = """#!/usr/bin/perl
use strict;
use IO::Socket::INET;
my $queue = IO::Socket::INET->new("127.0.0.1:$ARGV[0]") or die "no queue";
open(my $letters, ">", "letters.txt") or die;
while (1) {
    print $queue "reserve\\r\\n";
    <$queue> =~ /^RESERVED (\\d+) (\\d+)/ or die "no job";
    my ($job, $size) = ($1, $2);
    read($queue, my $text, $size + 2);
    print $letters "Dear reader,\\n$text";
    print $queue "delete $job\\r\\n";
    <$queue>;
}
"""


def reminders(place):
    base = mariadb(place, """
        create table loans (id int primary key, reader int, title varchar(60), due int,
                            key (reader, due)) engine=innodb;
        insert into loans select seq, seq % 400, concat('Book no. ', seq), seq * 31 % 365
            from seq_1_to_20000""")
    queue = place.port()
    place.start("beanstalkd", "-l", "127.0.0.1", "-p", queue, port=queue)
    place.start(place.write("letters", LETTERS), queue, path=place.folder / "letters.txt")
    return [str(place.write("reminders", REMINDERS)), str(base), str(queue), str(place.seconds)]


# Control: four threads each take the next page, read it and send its text to the text store.
PAGEREADER = """
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

using Clock = std::chrono::steady_clock;
static std::atomic<unsigned> next_page, done;

// Compares each square of the page with the shapes of the letters.
static std::string read_page(unsigned page) {
    std::vector<unsigned char> pixels(40000);
    unsigned seed = page * 2654435761u + 1;
    for (auto &pixel : pixels) { seed = seed * 1664525u + 1013904223u; pixel = seed >> 24; }
    std::string text;
    for (size_t square = 0; square + 64 <= pixels.size(); square += 64) {
        int best = 0, least = 1 << 30;
        for (int letter = 0; letter < 26; letter++) {
            int distance = 0;
            for (int i = 0; i < 64; i++) {
                int difference = pixels[square + i] - (letter * 37 + i * 11) % 256;
                distance += difference * difference;
            }
            if (distance < least) { least = distance; best = letter; }
        }
        text += square / 64 % 6 == 5 ? ' ' : char('a' + best);
    }
    return text + "\\n";
}

static void work(const char *path, Clock::time_point end) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int store = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(store, (sockaddr *)&address, sizeof address)) { perror("connect"); exit(1); }
    while (Clock::now() < end) {
        std::string text = read_page(next_page++);
        if (write(store, text.data(), text.size()) != (ssize_t)text.size()) exit(1);
        done++;
    }
    close(store);
}

int main(int, char **words) {
    auto start = Clock::now();
    auto end = start + std::chrono::milliseconds(long(atof(words[2]) * 1000));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) threads.emplace_back(work, words[1], end);
    for (auto &thread : threads) thread.join();
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    printf("items %u seconds %.3f\\n", done.load(), seconds);
}
"""
TEXTSTORE = """
package main

import ("bufio"; "net"; "os"; "strings")

func main() {
	store, err := net.Listen("unix", os.Args[1])
	if err != nil { panic(err) }
	for {
		reader, err := store.Accept()
		if err != nil { panic(err) }
		go func() {
			index := map[string]int{}
			lines := bufio.NewScanner(reader)
			for lines.Scan() {
				for _, word := range strings.Fields(lines.Text()) { index[word]++ }
			}
		}()
	}
}
"""


def pages(place):
    store = place.folder / "textstore.sock"
    place.start(place.go("textstore", TEXTSTORE), store, path=store)
    return [str(cpp(place, "pagereader", PAGEREADER)), str(store), str(place.seconds)]


NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single|one) (program|process|thread)")
COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
SYSTEMS = [
    System(
        name="library_search_in_a_quota",
        kind="cpu-quota",
        truth="the control group of node (search.js) may use only a fifth of a CPU, so that the "
              "kernel stops node for most of each 100 ms, and wrk, haproxy, nginx and php-fpm wait "
              "for its answers",
        load=limited_search,
        rate=WRK,
        component=(r"\bnode\b", r"search\.?js", r"\blibrary-\d+", r"c(ontrol )?group"),
        mechanism=(r"quota", r"throttl", r"bandwidth", r"c(ontrol )?group", r"cpu\.max", r"\bcfs",
                   r"CPU (time )?limit", r"limit(s|ed)?\b[^;]*\bCPU",
                   r"waits? for (a|the|its) CPU[^;]*\bidle"),
        never=(r"\bdisk\b", r"(node|search\.js) (\([^)]*\) )?sleeps"),
        change="x0",
        halves=True,
        needs=("node", "haproxy", "nginx", "wrk"),
    ),
    System(
        name="library_scans_with_a_bandwidth_limit",
        kind="bandwidth-limit",
        truth="the rsync daemon, which was started with --bwlimit, sleeps after each block of a "
              "scan, and nightcopy and its rsync wait for the scans",
        load=slow_copy,
        rate=ITEMS,
        component=(r"rsync",),
        mechanism=(*SLEEPS, r"bwlimit", r"bandwidth", r"limit", r"throttl", r"paced", r"pauses?\b"),
        never=(r"\bdisk\b", r"sha256sum (\([^)]*\) )?(comput|sleeps)", r"nightcopy (\([^)]*\) )?sleeps"),
        change="x0",
        halves=True,
        needs=("rsync", "bash", "gawk", "sha256sum"),
    ),
    System(
        name="library_loans_next_to_the_reindex",
        kind="batch-without-nice",
        truth="the eight threads of reindex compute with the same priority as gunicorn (no nice), "
              "so that gunicorn waits for a CPU most of the time",
        load=starved_loans,
        rate=WRK,
        component=(r"reindex", r"(gunicorn|loans|python|haproxy|nginx|wrk)[^;]*(\bCPU|preempt|runnable|run queue)",
                   r"\bCPUs? (is|are) (full|busy|all used|overloaded)"),
        mechanism=(rf"reindex[^;]*({'|'.join(('comput', 'user', 'CPU', 'runs', 'preempt', 'uses', 'takes'))})",
                   r"wait[^,;]*\bCPU", r"preempt", r"run(nable| queue)", r"priorit", r"\bnice\b",
                   r"CPUs? (is|are) (full|busy|all used|overloaded)"),
        never=(r"\bdisk\b", r"\bfsync", r"(gunicorn|reindex) (\([^)]*\) )?sleeps", r"reindex[^,;]*\block"),
        running=True,
        needs=("/usr/bin/gunicorn", "haproxy", "nginx", "wrk", "g++"),
    ),
    System(
        name="library_stocktake_by_single_books",
        kind="tasks-too-small",
        truth="isbncheck hands each ISBN to its pool of two processes as a task of its own "
              "(chunksize 1), and spends its time on packing, pipes, locks and wake-ups, while the "
              "check itself takes a few microseconds",
        load=tiny_tasks,
        rate=ITEMS,
        component=(r"isbncheck", r"python"),
        mechanism=(r"queue", r"isbncheck[^;]*pipe", r"\block", r"mutex", r"futex", r"semaphore", r"wake",
                   r"switch", r"one (\w+ )?at a time", r"one another", r"each other", r"pickl",
                   r"chunk", r"\btasks?\b", r"system calls?", r"kernel", r"one thread", r"\bGIL\b",
                   r"(main|parent)[^;]*(comput|CPU|runs)", r"\bsmall (reads|writes)", r"comput"),
        never=(r"\bdisk\b", r"\bsync", r"isbncheck (\([^)]*\) )?sleeps",
               r"(sqlite3|gawk) (\([^)]*\) )?(comput|sleeps)"),
        needs=("sqlite3", "gawk", "bash", PYTHON),
    ),
    System(
        name="library_shelves_read_by_bytes",
        kind="unbuffered-reads",
        truth="java, the indexer, reads the records from its socket without a buffer, so that it "
              "makes a system call for each byte, and ruby, nginx, shelves and haproxy wait for it",
        load=read_by_bytes,
        rate=ITEMS,
        component=(r"\bjava\b", r"indexer"),
        mechanism=(r"system calls?", r"syscalls?", r"kernel", r"\breads?\b", r"\breading\b",
                   r"\brecv", r"bytes?\b", r"buffer", r"comput", r"one thread"),
        never=(r"\bdisk\b", r"\bsync", r"(java|indexer) (\([^)]*\) )?sleeps",
               r"(java|indexer)[^,;]*garbage"),
        needs=("java", "javac", "ruby", "go", "haproxy", "nginx"),
    ),
    System(
        name="control_library_reminders",
        kind="control",
        truth="reminders writes to a reader each 70 ms by intention; mariadbd, beanstalkd and "
              "letters, in perl, are done long before the next one, and all are idle most of the time",
        load=reminders,
        rate=ITEMS,
        acceptable=(*NOTHING, r"paced by (reminders|python)", r"(reminders|python).*(sleep|timer|until a time)",
                    r"\bidle\b"),
        needs=(PYTHON, "mariadbd", "mariadb-install-db", "beanstalkd", "perl"),
    ),
    System(
        name="control_library_page_reader",
        kind="control",
        truth="four threads of pagereader compute the text of the scanned pages, textstore, in Go, "
              "counts their words at the same time, and both CPUs are full",
        load=pages,
        rate=ITEMS,
        acceptable=(*NOTHING, rf"(pagereader|textstore).*{COMPUTES}", r"(both|all|the) CPUs",
                    r"CPUs? (is|are) (full|busy)"),
        needs=("g++", "go"),
    ),
]

"""The computers of a quarry: uploads, tiles of a survey, a release, grades, logs, and two healthy
systems.
"""
from system import COMPUTES, ITEMS, LOCKS, PYTHON, SLEEPS, System, number

ONE_BY_ONE = (r"one (\w+ )*(at a time|after)", r"serial", r"sequential", r"in turn")


def rust(place, name, source):
    """Returns the program `name`, compiled from Rust."""
    command = ("rustc", "--edition", "2021", "-O", "-o", "{program}", "{source}")
    return place.named(place.built(source, ".rs", *command), name)


# Keeps photographs of the rock faces: a line with a name and a length, then the bytes. The archive
# behind it confirms each of them after a while.
VAULT = """
const net = require("net"), crypto = require("crypto");
const [port, pause] = process.argv.slice(2).map(Number);
net.createServer(socket => {
  let parts = [], held = 0, wanted = -1;
  socket.setNoDelay(true);
  socket.on("error", () => {});
  socket.on("data", data => {
    parts.push(data);
    held += data.length;
    if (wanted < 0) {
      const all = Buffer.concat(parts), end = all.indexOf(10);
      if (end < 0) return;
      wanted = end + 1 + Number(all.toString("latin1", 0, end).split(" ")[1]);
      parts = [all];
    }
    if (held < wanted) return;
    const seal = crypto.createHash("sha1").update(Buffer.concat(parts)).digest("hex");
    parts = [];
    held = 0;
    wanted = -1;
    setTimeout(() => socket.write(seal + "\\n"), pause);
  });
}).listen(port, "127.0.0.1");
"""

# Three workers take the names that come from the standard input.
UPLOADER = """
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{mpsc, Arc, Mutex};
use std::thread;

struct Vault { reader: BufReader<TcpStream> }

impl Vault {
    fn upload(&mut self, path: &str) -> usize {
        let face = std::fs::read(path).unwrap();
        let mut sum = 0u32;
        for byte in &face { sum = sum.rotate_left(5) ^ u32::from(*byte); }
        let mut message = format!("{}-{:08x} {}\\n", path.rsplit('/').next().unwrap(), sum, face.len()).into_bytes();
        message.extend_from_slice(&face);
        self.reader.get_mut().write_all(&message).unwrap();
        let mut seal = String::new();
        self.reader.read_line(&mut seal).unwrap();
        seal.len()
    }
}

fn main() {
    let port = std::env::args().nth(1).unwrap();
    let (names, list) = mpsc::channel::<String>();
    let list = Arc::new(Mutex::new(list));
    let mut workers = Vec::new();
    for _ in 0..3 {
        let list = Arc::clone(&list);
        let stream = TcpStream::connect(format!("127.0.0.1:{}", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut vault = Vault { reader: BufReader::new(stream) };
        workers.push(thread::spawn(move || {
            let mut done = 0;
            WORK
            done
        }));
    }
    for name in std::io::stdin().lock().lines() { names.send(name.unwrap()).unwrap(); }
    drop(names);
    let done: usize = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    println!("{} faces", done);
}
"""
# The guard of the lock in the condition lives until the end of the loop's body.
HELD = """while let Ok(name) = list.lock().unwrap().recv() { done += usize::from(vault.upload(&name) > 0); }"""
LEFT = """loop {
                let next = list.lock().unwrap().recv();
                let Ok(name) = next else { break };
                done += usize::from(vault.upload(&name) > 0);
            }"""


def uploads(place):
    port = place.port()
    faces = place.folder / "faces"
    faces.mkdir()
    for count in range(720):
        (faces / f"face-{count}.jpg").write_bytes(bytes((count * 7 + i * i) % 251 for i in range(64)) * 320)
    place.start("node", place.write("vault.js", VAULT), port, round(10 * place.scale), port=port)
    uploader = rust(place, "uploader", UPLOADER.replace("WORK", LEFT if place.fixed else HELD))
    return ["sh", "-c", f"find {faces} -name '*.jpg' | {uploader} {port}"]


# Has the tiles of a seismic survey, and gets each from far away.
CORESTORE = """
package main

import ("bufio"; "compress/zlib"; "bytes"; "encoding/binary"; "net"; "os"; "strconv"; "time")

func tile(seed int) []byte {
	raw := make([]byte, 900000)
	for i := range raw { seed = (seed*1103515245 + 12345) & 0x7fffffff; raw[i] = byte(seed >> 20) & 63 }
	var packed bytes.Buffer
	writer, _ := zlib.NewWriterLevel(&packed, 1)
	writer.Write(raw)
	writer.Close()
	return packed.Bytes()
}

func main() {
	micros, _ := strconv.Atoi(os.Args[2])
	tiles := [][]byte{}
	for i := 0; i < 8; i++ { tiles = append(tiles, tile(i)) }
	listener, err := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil { panic(err) }
	for {
		connection, _ := listener.Accept()
		go func() {
			lines := bufio.NewScanner(connection)
			for lines.Scan() {
				number, _ := strconv.Atoi(lines.Text())
				time.Sleep(time.Duration(micros) * time.Microsecond)
				packed := tiles[number % len(tiles)]
				binary.Write(connection, binary.BigEndian, uint32(len(packed)))
				connection.Write(packed)
			}
			connection.Close()
		}()
	}
}
"""
# Fits a model of the rock to one tile after the other.
FIT = """#!/usr/bin/python3
import socket, struct, sys, threading, time, zlib
from collections import deque
from concurrent.futures import ThreadPoolExecutor

port, seconds, ahead = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
own = threading.local()

def tile(number):
    if not hasattr(own, "store"):
        own.store = socket.create_connection(("127.0.0.1", port)).makefile("rwb")
    own.store.write(b"%d\\n" % number)
    own.store.flush()
    (length,) = struct.unpack(">I", own.store.read(4))
    return own.store.read(length)

def tiles():
    number = 0
    if not ahead:
        while True:
            yield tile(number)
            number += 1
    with ThreadPoolExecutor(ahead) as pool:
        coming = deque()
        while True:
            while len(coming) < ahead:
                coming.append(pool.submit(tile, number))
                number += 1
            if time.time() > begin + seconds:
                return
            yield coming.popleft().result()

begin, steps, model = time.time(), 0, 0
for packed in tiles():
    model = zlib.adler32(zlib.decompress(packed), model)
    steps += 1
    if time.time() > begin + seconds:
        break
print(f"items {steps} seconds {time.time() - begin:.3f}", flush=True)
"""


def tiles(place):
    port = place.port()
    place.start(place.go("corestore", CORESTORE), port, round(24000 * place.scale), port=port)
    return [str(place.write("fit", FIT)), str(port), str(place.seconds), "4" if place.fixed else "0"]


# Writes the version into a header, for all units.
REVISION = """#!/bin/sh
printf '#pragma once\\n#define REVISION "4.2"\\n'
"""
UNIT = """#include "version.h"
#include <map>
#include <string>
#include <vector>
#include <algorithm>
#include <sstream>
struct Load_{unit} {{ std::string stone; double tons; }};
std::string report_{unit}(const std::vector<Load_{unit}> &loads) {{
  std::map<std::string, std::vector<double>> all;
  for (auto &load : loads) all[load.stone].push_back(load.tons);
  std::ostringstream out;
  out << REVISION;
  for (auto &[stone, tons] : all) {{
    std::sort(tons.begin(), tons.end());
    out << stone << ' ' << tons.front() << ' ' << tons.back();
  }}
  return out.str();
}}
"""
# The test of the whole program: sells some loads.
MAIN = """#include <cstdio>
int main() {
  unsigned long sum = 1;
  for (unsigned long i = 0; i < 300000000; i++) sum = sum * 6364136223846793005ul + (i ^ sum >> 33);
  printf("%lu\\n", sum);
}
"""
MAKEFILE = """
objects = {objects}
all: quarry
\t./quarry >tested
quarry: $(objects)
\tg++ -o $@ $(objects)
%.o: %.cc version.h
\tg++ -std=c++17 -O1 -c $< -o $@
main.o: main.cc
\tg++ -O1 -c $< -o $@
version.h: FORCE
\t{rule}
FORCE:
"""
RELEASE = """#!/bin/bash
# Each fix changes one unit; then the program is made and tested.
for fix in 1 2 3; do
    echo "// fix $fix" >>unit$fix.cc
    make -s -j2 all || exit 1
done
"""


def rebuilt(place):
    units = range(5)
    for unit in units:
        place.write(f"unit{unit}.cc", UNIT.format(unit=unit))
    place.write("main.cc", MAIN)
    place.write("revision", REVISION)
    rule = "./revision >$@.new; cmp -s $@.new $@ || mv $@.new $@" if place.fixed else "./revision >$@"
    place.write("Makefile", MAKEFILE.format(objects=" ".join(f"unit{unit}.o" for unit in units) + " main.o", rule=rule))
    place.run("make", "-s", "-j2", "all")
    return [str(place.write("release", RELEASE))]


# Grades the samples of the drill cores, by tasks.
GRADER = """
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <vector>

static double grade(const std::string *lines, size_t count) {
  double all = 0;
  for (size_t i = 0; i < count; i++) {
    double gold = 0;
    for (const char *at = lines[i].c_str(); *at; at++)
      if (*at >= '0' && *at <= '9') gold = std::fmod(gold * 10 + (*at - '0'), 9973.0);
    for (int k = 0; k < WORK; k++) gold = std::sqrt(gold * 1.7 + k);
    all += gold;
  }
  return all;
}

int main() {
  static char buffer[4096];
  double total = 0;
  long samples = 0;
  std::vector<std::string> block;
  std::vector<std::future<double>> tasks;
  for (bool more = true; more;) {
    block.clear();
    while (block.size() < 2048 && (more = fgets(buffer, sizeof buffer, stdin))) block.emplace_back(buffer);
    for (size_t at = 0; at < block.size(); at += TASK)
      tasks.push_back(std::async(std::launch::async, grade, &block[at], std::min<size_t>(TASK, block.size() - at)));
    for (auto &task : tasks) total += task.get();
    tasks.clear();
    samples += block.size();
    printf("%ld %.3f\\n", samples, total);
  }
}
"""
SAMPLES = r"""#!/usr/bin/perl
srand 4;
printf "hole-%04d;%.1f;%.4f;%.4f;%.4f\n", $_ % 300, $_ / 7, rand 40, rand 9, rand 2 for 1 .. $ARGV[0];
"""


def tasks(place):
    source = GRADER.replace("TASK", "1024" if place.fixed else "1").replace("WORK", "4400")
    command = ("g++", "-O2", "-std=c++17", "-pthread", "-o", "{program}", "{source}")
    grader = place.named(place.built("#include <algorithm>\n" + source, ".cc", *command), "grader")
    place.run("sh", "-c", f"{place.write('drill', SAMPLES)} 155000 | gzip -1 >samples.gz")
    return ["sh", "-c", f"gzip -dc samples.gz | {grader} | tail -n 3"]


# Takes batches of lines of the machines' logs, and counts what it recognises.
LOGSIFT = """
package main

import ("bufio"; "fmt"; "net/http"; "os"; "regexp"; "sync")

const shape = `^([\\d-]+T[\\d:.]+)Z ([a-z]+-\\d+) (info|warn|error): (?:temp=(-?[\\d.]+) )?(.*)$`

var (
	counts = map[string]int{}
	mutex sync.Mutex
	SHARED
)

func sift(line string) string {
	OWN
	found := pattern.FindStringSubmatch(line)
	if found == nil { return "other" }
	return found[3]
}

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		batch := map[string]int{}
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() { batch[sift(lines.Text())]++ }
		mutex.Lock()
		for kind, count := range batch { counts[kind] += count }
		mutex.Unlock()
		fmt.Fprintln(w, "taken")
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def sifted(place):
    port = place.port()
    once = "pattern = regexp.MustCompile(shape)"
    source = LOGSIFT.replace("SHARED", once if place.fixed else "").replace("OWN", "" if place.fixed else once.replace("=", ":="))
    place.start(place.go("logsift", source), port, port=port)
    line = "2026-11-30T08:15:42.{0:03d}Z crusher-{0} {1}: temp=71.5 belt {0} runs at 3.1 m/s, load is normal\n"
    lines = "".join(line.format(i, ("info", "warn", "error")[i % 3]) for i in range(100, 150))
    batch = place.write("batch.log", lines)
    return ["ab", "-q", "-k", "-c", "4", "-t", str(place.seconds), "-n", "1000000", "-p", str(batch), f"http://127.0.0.1:{port}/"]


# Two workers sieve blocks, which come from a pipe through a short queue.
SIEVE = """
use std::io::Read;
use std::sync::{mpsc, Arc, Mutex};
use std::time::Instant;

fn sieve(block: &[u8]) -> u64 {
    let mut grains = [0u64; 256];
    let mut sum = 1u64;
    for round in 0..40u64 {
        for byte in block {
            sum = sum.wrapping_mul(6364136223846793005).wrapping_add(u64::from(*byte) ^ round);
            grains[(sum >> 56) as usize] += 1;
        }
    }
    grains.iter().fold(sum, |all, grain| all.rotate_left(3) ^ grain)
}

fn main() {
    let (blocks, list) = mpsc::sync_channel::<Vec<u8>>(8);
    let list = Arc::new(Mutex::new(list));
    let begin = Instant::now();
    let workers: Vec<_> = (0..2).map(|_| {
        let list = Arc::clone(&list);
        std::thread::spawn(move || {
            let (mut done, mut sum) = (0u64, 0u64);
            loop {
                let next = list.lock().unwrap().recv();
                let Ok(block) = next else { break };
                sum ^= sieve(&block);
                done += 1;
            }
            (done, sum)
        })
    }).collect();
    let mut input = std::io::stdin().lock();
    loop {
        let mut block = vec![0u8; 65536];
        if input.read_exact(&mut block).is_err() { break; }
        blocks.send(block).unwrap();
    }
    drop(blocks);
    let (mut done, mut sum) = (0, 0);
    for worker in workers { let (one, other) = worker.join().unwrap(); done += one; sum ^= other; }
    println!("items {} seconds {:.3} sum {}", done, begin.elapsed().as_secs_f64(), sum);
}
"""


def sieved(place):
    sieve = rust(place, "sieve", SIEVE)
    rocks = place.folder / "rocks"
    rocks.write_bytes(b"".join(b"%d basalt %d;" % (i * i % 8191, i) for i in range(12000000 // 8)))
    place.run("gzip", "-1", "-k", rocks)
    return ["sh", "-c", f"gzip -dc {rocks}.gz {rocks}.gz {rocks}.gz {rocks}.gz | {sieve}"]


# Weighs what lies on the belt, some times in a second, because the belt is no faster.
BELT = """
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let seconds: f64 = words[2].parse().unwrap();
    let mut book = BufReader::new(UnixStream::connect(&words[1]).unwrap());
    let begin = Instant::now();
    let (mut next, mut done) = (begin, 0u64);
    while begin.elapsed().as_secs_f64() < seconds {
        writeln!(book.get_mut(), "{} {}", done, 1200 + done * 37 % 500).unwrap();
        let mut answer = String::new();
        book.read_line(&mut answer).unwrap();
        done += 1;
        next += Duration::from_millis(60);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    println!("items {} seconds {:.3}", done, begin.elapsed().as_secs_f64());
}
"""
DAYBOOK = """#!/usr/bin/python3
import socket, sqlite3, sys

book = sqlite3.connect("daybook.db", isolation_level=None)
book.execute("create table loads (number integer, kilos integer)")
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
while True:
    belt = server.accept()[0].makefile("rwb")
    for line in belt:
        book.execute("insert into loads values (?, ?)", [int(word) for word in line.split()])
        belt.write(b"written\\n")
        belt.flush()
"""
FOREMAN = """#!/bin/bash
# Looks twice in a second at the sum of the day.
while sleep 0.5; do
    sqlite3 -cmd '.timeout 500' daybook.db 'select count(*), sum(kilos) from loads' >>board
done
"""


def weighed(place):
    path = place.folder / "daybook.socket"
    place.start(place.write("daybook", DAYBOOK), path, path=path)
    place.start(place.write("foreman", FOREMAN))
    return [str(rust(place, "beltscale", BELT)), str(path), str(place.seconds)]


SYSTEMS = [
    System(
        name="quarry_uploads_in_turn",
        kind="guard-held-over-job",
        truth="the worker of uploader (Rust) that has taken a name keeps the lock of the list "
              "while it waits for vault, in node, which waits 10 ms for a timer, so that one of "
              "three workers uploads at a time",
        load=uploads,
        component=(r"uploader", r"vault", r"\bnode\b"),
        mechanism=(*LOCKS, *SLEEPS, *ONE_BY_ONE),
        never=(r"(uploader|node|vault\S*) comput", r"find comput", r"\bdisk\b"),
        change="x0.333",
        halves=True,
        needs=("rustc", "node", "find"),
    ),
    System(
        name="quarry_tiles_when_asked",
        kind="no-prefetch",
        truth="fit asks for a tile only when it is done with the last one, and waits for "
              "corestore, which sleeps 24 ms for each",
        load=tiles,
        rate=ITEMS,
        component=(r"corestore", r"\bfit\b"),
        mechanism=(*SLEEPS, *ONE_BY_ONE, r"waits? for (\S+ )?corestore", r"prefetch", r"ahead"),
        never=(r"\bfit comput", r"corestore comput", r"\bdisk\b"),
        halves=True,
        running=True,
        needs=(PYTHON, "go"),
    ),
    System(
        name="quarry_release_made_anew",
        kind="needless-rebuild",
        truth="each make writes version.h anew though nothing in it has changed, so that the "
              "compiler (cc1plus) compiles all units for each fix of one",
        load=rebuilt,
        component=(r"cc1plus", r"g\+\+", r"compiler", r"version\.h"),
        mechanism=(*COMPUTES, r"compil", r"\bCPU", r"rebuil"),
        never=(r"\bdisk\b", r"^[^;.]*\bsleeps", r"\b(make|release|quarry) computes"),
        needs=("make", "g++", "bash", "cmp"),
    ),
    System(
        name="quarry_grades_by_tasks",
        kind="thread-per-item",
        truth="grader, between gzip and tail, starts a thread (std::async) for each sample, which "
              "costs the kernel more than its grade",
        load=tasks,
        component=(r"grader",),
        mechanism=(r"(starts?|starting|creat\w+|new|short|many|each) [^.;,]*threads?\b",
                   r"threads? (are|is|starts?|creat\w+)\b", r"threads? for each", r"\bclone",
                   r"\bkernel\b", r"system calls?", r"\bm(un)?map\b", r"\bexit",
                   r"wakes?\b", r"wake-ups?"),
        never=(r"(gzip|tail) comput", r"\bdisk\b", r"^[^;.]*\bsleeps"),
        needs=("g++", "gzip", "perl", "tail"),
    ),
    System(
        name="quarry_lines_sifted",
        kind="pattern-compiled-per-line",
        truth="logsift, a Go server, compiles its regular expression anew for each line, and "
              "computes on both CPUs",
        load=sifted,
        rate=number(r"Requests per second:\s+([\d.]+)"),
        component=(r"logsift",),
        mechanism=(*COMPUTES, r"regexp?", r"compil", r"\bCPU", r"garbage", r"allocat"),
        never=(r"\bab\b[^.;,]* comput", r"\bdisk\b", r"^[^;.]*\bsleeps"),
        needs=("go", "ab"),
    ),
    System(
        name="control_quarry_sieves",
        kind="control",
        truth="two threads of sieve compute on two CPUs, which are full, and gzip always has the "
              "next blocks for their short queue",
        load=sieved,
        rate=ITEMS,
        acceptable=(r"sieve[^.;]* (comput|runs its own code|CPU)", r"CPUs? (is|are) (full|busy)"),
        needs=("rustc", "gzip"),
    ),
    System(
        name="control_quarry_belt",
        kind="control",
        truth="beltscale has a load each 60 ms by intention, daybook writes it to the disk by "
              "sqlite long before the next one, foreman looks at the sum twice in a second, and "
              "all are idle most of the time",
        load=weighed,
        rate=ITEMS,
        acceptable=(r"beltscale[^.;]* (sleep|timer|until a time)",),
        needs=("rustc", PYTHON, "sqlite3", "bash"),
    ),
]

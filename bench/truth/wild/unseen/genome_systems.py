"""The systems of a genetics laboratory: five faults of its pipelines, its cluster, its sample
database, its mounted store and its network, and two healthy parts of the same laboratory.
"""
import gzip
import random

from services import at, postgres, private_network, redis
from system import ITEMS, PGBENCH, PYTHON, System

# The words with which a verdict may say that a program computes.
RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")


def bases(dice, count):
    return "".join(dice.choices("ACGT", k=count))


# The image of the pipeline has settings in its environment, as images usually do.
PREPARE = """#!/bin/bash
set -e -o pipefail
. ./image.env
start=$EPOCHREALTIME
gzip -dc reads.fastq.gz \\
  | ./trim.py \\
  | awk -F '\\t' '{ bin = int($9 / 5) * 5; reads[bin]++; gc[bin] += $10 ~ /^[GC]/ }
      END { for (bin in reads) print bin, reads[bin], gc[bin] / reads[bin] }' \\
  | sort -n > lengths.txt
reads=$(awk '{ sum += $2 } END { print sum }' lengths.txt)
echo "items $reads seconds $(awk "BEGIN { printf \\"%.3f\\", $EPOCHREALTIME - $start }")"
"""
TRIM = """#!/usr/bin/python3
import sys

# Qualities below 20; bases at the end of a read that have them are cut off.
LOW = "".join(chr(33 + quality) for quality in range(20))
source = sys.stdin
for header in source:
    sequence, _, quality = next(source), next(source), next(source)
    length = len(quality[:-1].rstrip(LOW))
    # The columns of an alignment that is not yet known.
    print(header[1:-1], 4, "*", 0, 0, "*", "*", 0, length, sequence[:length], quality[:length], sep="\\t")
"""


def unbuffered(place):
    dice, reads = random.Random(11), []
    for number in range(2500):
        good = dice.randrange(60, 101)
        quality = "".join(dice.choices("5:?DI", k=good)) + "".join(dice.choices("#$%&+", k=100 - good))
        reads.append(f"@lane1:tile{number % 96}:read{number}\n{bases(dice, 100)}\n+\n{quality}\n")
    with gzip.open(place.folder / "reads.fastq.gz", "wt", compresslevel=1) as out:
        for _ in range(60):
            out.writelines(reads)
    place.write("image.env", f"export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED={'' if place.fixed else 1}\n")
    place.write("trim.py", TRIM)
    return [str(place.write("prepare.sh", PREPARE))]


# Gives jobs to the agents of the cluster, and always keeps four of them in the queue.
SUBMIT = """#!/usr/bin/python3
import sys, time
import redis

queue, seconds = redis.Redis(port=int(sys.argv[1])), float(sys.argv[2])
queue.lpush("submitted", *range(7))
start, count = time.monotonic(), 0
while time.monotonic() < start + seconds:
    queue.brpop("finished")
    count += 1
    queue.lpush("submitted", count + 6)
print(f"items {count} seconds {time.monotonic() - start:.3f}")
"""
AGENT = """#!/usr/bin/python3
import os, subprocess, sys
import redis

port, slot, *settings = sys.argv[1:]
queue = redis.Redis(port=int(port))
environment = {**os.environ, **dict(setting.split("=") for setting in settings)}
open(f"agent-{slot}", "w").close()
while True:
    job = queue.brpop("submitted")[1].decode()
    result = subprocess.run(["./genotype", job], env=environment, capture_output=True, check=True).stdout
    queue.lpush("finished", f"{job} {result.decode().strip()}")
"""
# How often a variant is in a population, from the likelihoods of the three genotypes of each
# sample. The threads of a job share the samples of each iteration, and meet at its end.
GENOTYPE = r"""
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 200000, ITERATIONS = 40 };
static double likelihood[SAMPLES][3];

int main(int count, char **words)
{
    unsigned seed = count > 1 ? atoi(words[1]) * 2654435761u + 1 : 1;
    for (int i = 0; i < SAMPLES; i++)
        for (int copies = 0; copies < 3; copies++) {
            seed = seed * 1664525 + 1013904223;
            likelihood[i][copies] = 0.01 + (seed >> 16) / 65536.0 / (1 + copies);
        }
    double frequency = 0.2;
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        double sum = 0, rest = 1 - frequency;
#pragma omp parallel for reduction(+:sum)
        for (int i = 0; i < SAMPLES; i++) {
            double none = likelihood[i][0] * rest * rest;
            double one = likelihood[i][1] * 2 * rest * frequency;
            double two = likelihood[i][2] * frequency * frequency;
            sum += (one + 2 * two) / (none + one + two);
        }
        frequency = sum / (2 * SAMPLES);
    }
    printf("%.6f\n", frequency);
}
"""


def oversubscribed(place):
    queue = redis(place)
    place.c("genotype", GENOTYPE, "-fopenmp")
    agent = place.write("agent", AGENT)
    # Without a setting, each job has as many threads as there are CPUs.
    settings = ["OMP_NUM_THREADS=1"] if place.fixed else []
    for slot in range(3):
        place.start(agent, queue, slot, *settings, path=place.folder / f"agent-{slot}")
    return [str(place.write("submit", SUBMIT)), str(queue), str(place.seconds)]


# The table of calls was analyzed when it had the runs 1 and 2, and has got run 3 since, in which
# sample 1 is a child and sample 2 its mother.
CALLS = """
    create table calls (run int, sample int, chromosome int, place int, quality int);
    insert into calls select 1 + i % 2, i % 96, i % 22 + 1, i * 7, i % 60 from generate_series(1, 20000) i;
    create index on calls (run, sample);
    analyze;
    insert into calls select 3, 1 + i / 300, i % 300 % 22 + 1, i % 300 * 7 * (1 + i / 300), i % 60 from generate_series(0, 899) i;
"""
REPORT = """
\\set quality random(5, 15)
select c.chromosome, count(*), count(m.place) from calls c left join calls m
    on m.run = 3 and m.sample = 2 and m.chromosome = c.chromosome and m.place = c.place and m.quality >= :quality
 where c.run = 3 and c.sample = 1 and c.quality >= :quality group by c.chromosome order by 1;
"""


def stale_statistics(place):
    port = postgres(place, CALLS + ("analyze;" if place.fixed else ""), fsync="off")
    report = place.write("report.sql", REPORT, mode=0o644)
    return ["pgbench", *at(port), "-n", "-c", "3", "-T", str(place.seconds), "-f", str(report), "postgres"]


# Finds the steps of the pipeline whose results are older than what they are made from.
STALE = """#!/usr/bin/python3
import hashlib, json, multiprocessing, os, sys, time

STORE, INPUTS, OUTPUTS = sys.argv[1], ("reads.fastq", "sheet.csv"), ("aligned.bam", "aligned.bai", "calls.vcf", "report.html")

def checked(sample):
    folder = f"{STORE}/cohorts/{sample % 4}/samples/{sample}/run"
    newest = max(os.stat(f"{folder}/{name}").st_mtime_ns for name in INPUTS)
    missing = [name for name in OUTPUTS if os.stat(f"{folder}/{name}").st_mtime_ns < newest]
    settings = {f"step{step}": {"sample": sample, "threads": step % 4, "tool": "1.17"} for step in range(60)}
    return sample, missing, hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

if __name__ == "__main__":
    samples, seconds, count = int(sys.argv[2]), float(sys.argv[3]), 0
    with multiprocessing.Pool(2) as pool:
        start = time.monotonic()
        while time.monotonic() < start + seconds:
            count += sum(1 for _ in pool.imap_unordered(checked, range(samples), chunksize=25))
        print(f"items {count} seconds {time.monotonic() - start:.3f}")
"""


def mounted_store(place):
    folder, samples = place.folder, 400
    for sample in range(samples):
        home = folder / f"disks/cohorts/{sample % 4}/samples/{sample}/run"
        home.mkdir(parents=True)
        for name in ("reads.fastq", "sheet.csv", "aligned.bam", "aligned.bai", "calls.vcf", "report.html"):
            (home / name).write_text(name)
    (folder / "store").mkdir()
    keep = 60 if place.fixed else 0
    # The mount is in a namespace of its own, and ends with bindfs.
    options = f"attr_timeout={keep},entry_timeout={keep}"
    mount = place.start("unshare", "-m", "bindfs", "-f", "-o", options, folder / "disks", folder / "store")
    inside = ["nsenter", "-t", str(mount.pid), "-m"]
    place.run("sh", "-c", f"for i in $(seq 200); do {' '.join(inside)} test -e {folder}/store/cohorts && exit; sleep 0.02; done; exit 1")
    return [*inside, str(place.write("stale_steps", STALE)), str(folder / "store"), str(samples), str(place.seconds)]


# Fetches the statistics of all tiles from a sequencer, one lane beside the other.
COLLECT = """#!/bin/bash
set -e
cd "$(dirname "$0")"
start=$EPOCHREALTIME
for lane in 1 2; do
  wget -q -i lane$lane.urls -P incoming/lane$lane &
  jobs[$lane]=$!
done
for lane in 1 2; do wait ${jobs[$lane]}; done
md5sum --quiet -c tiles.md5
echo "items $(wc -l < tiles.md5) seconds $(awk "BEGIN { printf \\"%.3f\\", $EPOCHREALTIME - $start }")"
"""


def damaged_cable(place):
    dice, folder, port = random.Random(5), place.folder, place.port()
    for lane in (1, 2):
        (folder / f"instrument/lane{lane}").mkdir(parents=True)
        urls = []
        for tile in range(320):
            (folder / f"instrument/lane{lane}/tile{tile}.stats").write_text(bases(dice, 8000))
            urls.append(f"http://127.0.0.1:{port}/lane{lane}/tile{tile}.stats\n")
        place.write(f"lane{lane}.urls", "".join(urls))
    place.run("sh", "-c", "cd instrument && md5sum */*.stats | sed 's| lane| incoming/lane|' > ../tiles.md5")
    # Of a cable that is damaged two packets in a hundred do not arrive.
    cable = ["ip link set lo mtu 1500 gso_max_segs 1"]
    if not place.fixed:
        cable += ["nft add table ip cable", "nft add chain ip cable arrives '{ type filter hook input priority 0; }'",
                  "nft add rule ip cable arrives numgen random mod 100 '<' 2 drop"]
    inside = private_network(place, *cable)
    config = place.write("sequencer.conf", f"""
daemon off; user root; pid {folder}/sequencer.pid; error_log {folder}/sequencer.error; worker_processes 1;
events {{ worker_connections 64; }}
http {{ access_log off; server {{ listen 127.0.0.1:{port}; keepalive_requests 100000; root {folder}/instrument; }} }}
""")
    place.start(*inside, "nginx", "-p", folder, "-c", config, path=folder / "sequencer.pid")
    return [*inside, str(place.write("collect.sh", COLLECT))]


# Control: a sequencer finishes a tile each 60 ms by its own clock, and the intake of the laboratory
# has packed, checked and noted it long before the next one.
SEQUENCER = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
use Time::HiRes qw(clock_gettime clock_nanosleep CLOCK_MONOTONIC);

my ($port, $seconds) = @ARGV;
my $intake = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port) or die "no intake: $!";
$intake->autoflush(1);
my $tile = join "", map { substr "ACGT", $_ * $_ % 7 % 4, 1 } 1 .. 30000;
my ($start, $count) = (clock_gettime(CLOCK_MONOTONIC), 0);
while (clock_gettime(CLOCK_MONOTONIC) < $start + $seconds) {
    print $intake "tile$count $tile\\n";
    <$intake> eq "noted\\n" or die "no answer";
    $count++;
    clock_nanosleep(CLOCK_MONOTONIC, 1e9 * ($start + $count * 0.06), 1);
}
printf "items %d seconds %.3f\\n", $count, clock_gettime(CLOCK_MONOTONIC) - $start;
"""
INTAKE = """
package main

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"strings"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		link, err := listener.Accept()
		if err != nil {
			return
		}
		go serve(link)
	}
}

func serve(link net.Conn) {
	ledger, err := net.Dial("tcp", "127.0.0.1:" + os.Args[2])
	if err != nil {
		return
	}
	tiles, replies := bufio.NewReaderSize(link, 65536), bufio.NewReader(ledger)
	for {
		line, err := tiles.ReadString('\\n')
		if err != nil {
			return
		}
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		file, _ := os.Create(name + ".gz")
		packed := gzip.NewWriter(file)
		packed.Write([]byte(text))
		packed.Close()
		file.Close()
		fmt.Fprintf(ledger, "HSET tiles %s %x\\r\\n", name, sha256.Sum256([]byte(text)))
		replies.ReadString('\\n')
		fmt.Fprintln(link, "noted")
	}
}
"""


def sequencer(place):
    ledger, intake = redis(place), place.port()
    place.start(place.go("intake", INTAKE), intake, ledger, port=intake)
    return [str(place.write("sequencer", SEQUENCER)), str(intake), str(place.seconds)]


# Control: a pool with as many processes as there are CPUs counts the words of twelve bases in parts
# of equal size, which it returns as a few numbers.
WORDS = """#!/usr/bin/python3
import collections, gzip, multiprocessing, os, sys, time

def counted(part):
    with gzip.open(f"part{part}.gz", "rt") as source:
        text = source.read()
    words = collections.Counter(text[i:i + 12] for i in range(len(text) - 11))
    return part, len(words), words.most_common(3)

if __name__ == "__main__":
    start, parts = time.monotonic(), [part % 8 for part in range(int(sys.argv[1]))]
    with multiprocessing.Pool(os.cpu_count()) as pool:
        count = sum(1 for _ in pool.imap_unordered(counted, parts, chunksize=2))
    print(f"items {count} seconds {time.monotonic() - start:.3f}")
"""


def words(place):
    dice = random.Random(3)
    for part in range(8):
        with gzip.open(place.folder / f"part{part}.gz", "wt") as out:
            out.write(bases(dice, 60000))
    return [str(place.write("count_words", WORDS)), "350"]


NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="genome_unbuffered_trimming",
        kind="unbuffered-output",
        truth="python3 (trim.py) makes a system call write into the pipe to awk for each piece of "
              "each line, because the image sets PYTHONUNBUFFERED",
        load=unbuffered,
        rate=ITEMS,
        component=(r"trim", r"python"),
        mechanism=(r"\bwrit(e|es|ing)\b", r"system calls?", r"buffer", r"small (piece|write|block)",
                   r"\bbytes (each|at a time|per)", r"\bkernel\b", r"wak(e|es|ing)\b.*\b(awk|each)"),
        never=(*DISK, r"(python3?|trim\S*) (\([^)]*\) )?sleeps", r"full pipe", r"pipe (is|stays) full"),
        needs=("gzip", "gawk", "bash", PYTHON),
    ),
    System(
        name="genome_threads_of_all_jobs",
        kind="spinning-threads-oversubscribed",
        truth="each of three genotype starts a thread for each CPU, so that more threads than CPUs "
              "spin at a barrier after each iteration, and those that the others wait for wait "
              "for a CPU",
        load=oversubscribed,
        rate=ITEMS,
        component=(r"\bgenotype\b",),
        mechanism=(r"gomp", r"GOMP", r"\bOMP|OpenMP", r"barrier", r"\bspin", r"busy.?wait",
                   r"wait(s|ing)? for (a |the |one another's )?CPU", r"preempt", r"runnable", r"run queue",
                   r"(more|too many) (\w+ )?threads", r"oversubscri", r"wait for one another"),
        never=(*DISK, r"genotype (\([^)]*\) )?sleeps"),
        needs=("redis-server", "gcc", PYTHON),
    ),
    System(
        name="genome_calls_without_statistics",
        kind="stale-statistics",
        truth="postgres computes: a nested loop scans all calls of the mother once for each call of "
              "the child, because the table was not analyzed after the new run was loaded",
        load=stale_statistics,
        rate=PGBENCH,
        component=(r"postgres",),
        mechanism=(*RUNS, r"\bscan", r"nest", r"\bloop", r"\bjoin", r"\bplan", r"statistic", r"analy[sz]e",
                   r"\bindex\b", r"heap_?get", r"quer(y|ies)", r"statement"),
        never=(*DISK, r"postgres (\([^)]*\) )?sleeps", r"\block"),
        running=True,
        needs=("psql", "pgbench"),
    ),
    System(
        name="genome_store_without_cache",
        kind="metadata-not-cached-over-fuse",
        truth="the pool of stale_steps waits in the system call stat for bindfs, which serves one "
              "request at a time, because the mount lets the kernel keep neither names nor "
              "attributes",
        load=mounted_store,
        rate=ITEMS,
        component=(r"bindfs", r"(stale_steps|python)[^;]*(\bstat|newfstatat|statx|fuse|look)"),
        mechanism=(*RUNS, r"\bstat\b", r"newfstatat", r"statx", r"lstat", r"look(s|ed)? ?up", r"fuse",
                   r"requests?", r"one (\w+ )?at a time", r"file system", r"attribute", r"system call", r"\bkernel\b",
                   r"(stale_steps|python)\S* .*waits? for bindfs", r"cach"),
        never=(*DISK, r"bindfs (\([^)]*\) )?sleeps"),
        needs=("bindfs", "unshare", "nsenter", PYTHON),
    ),
    System(
        name="genome_tiles_over_damaged_cable",
        kind="packet-loss",
        truth="two packets in a hundred are lost between wget and nginx, and most of the time of the "
              "transfer passes until a timer of TCP sends such a packet again",
        load=damaged_cable,
        rate=ITEMS,
        component=(r"wget", r"nginx", r"network", r"\bTCP\b", r"packets?", r"collect"),
        mechanism=(r"retrans", r"re-?sen(d|t)", r"sen[dt]s? (\w+ )*again", r"\blos(s|t|es|ing)\b", r"\bdrop", r"\bRTO\b"),
        never=(*DISK, r"(nginx|wget) (\([^)]*\) )?(sleeps|computes)"),
        needs=("wget", "nginx", "nft", "unshare", "nsenter", "bash"),
    ),
    System(
        name="genome_steady_sequencer",
        kind="control",
        truth="sequencer, in perl, sends a tile each 60 ms by its own clock; intake, in Go, has "
              "packed it and noted it in redis long before the next one, and all are idle most of "
              "the time",
        load=sequencer,
        rate=ITEMS,
        acceptable=(*NOTHING, r"\b[Pp]aced\b", r"(sequencer|perl).*(sleep|timer|until a time)", r"\bidle\b"),
        needs=("redis-server", "go", "perl"),
    ),
    System(
        name="genome_words_in_full_pool",
        kind="control",
        truth="a pool with one process for each CPU counts words in parts of equal size, and the "
              "CPUs are full of its own code",
        load=words,
        rate=ITEMS,
        acceptable=(*NOTHING, r"(count_words|python3?).*(comput|\buser\b|own code|\brun|\bCPU|preempted)", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=(PYTHON,),
    ),
]

"""Batch jobs and runtimes of a freight depot: a thread that stops for nobody, a pipe that is opened
anew, a window of jobs in order, pages copied for snapshots, a key derived for each file.
"""
import os

from system import COMPUTES, ITEMS, SLEEPS, WRK, System, wrk

BUSY = (*COMPUTES, r"waits? for (a|the|its) CPU", r"\bCPUs? (is|are)( \w+)? (full|busy)", r"runnable", r"\b(both|all|two) CPUs\b")
PACED = (*SLEEPS, r"\bidle", r"\btick", r"interval", r"pace", r"waits? for (work|input|something to do|requests?|a request|the next)")


def said(of, what):
    """Returns a pattern for a sentence that states one of `what` about one of the programs `of`."""
    return (f"\\b({of})\\b.*({'|'.join(what)})",)


# The loop of the thread `revaluation` counts an int, so that the compiler leaves no safepoint in
# it. The young generation is full after some requests, and a collection begins only when all
# threads have stopped, thus at the end of the loop. The fix is a safepoint after each 1000 rounds.
TARIFFS = """
import com.sun.net.httpserver.*;
import java.net.*;
import java.util.*;
import java.util.concurrent.*;

public class Main {
    static final long[] weights = new long[4096];
    static volatile long worth;

    static long revalue(int rounds, long seed) {
        long sum = seed;
        for (int i = 0; i < rounds; i++) sum = sum * 31 + (weights[i & 4095] ^ (sum >>> 7));
        return sum;
    }

    static byte[] offer(long number) {
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < 700; i++) lines.add("waggon " + (number + i) + " at " + (number * 31 + i) % 9973);
        Collections.sort(lines);
        return (lines.get(0) + "\\n").getBytes();
    }

    public static void main(String[] words) throws Exception {
        int rounds = Integer.parseInt(words[1]);
        for (int i = 0; i < weights.length; i++) weights[i] = i * 7919L % 1009;
        Thread revaluation = new Thread(() -> { while (true) worth = revalue(rounds, worth); }, "revaluation");
        revaluation.setDaemon(true);
        revaluation.start();
        for (long begin = System.nanoTime(), number = 0; System.nanoTime() - begin < 1_500_000_000L; number++) offer(number);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 64);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            byte[] body = offer(System.nanoTime() % 100000);
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
"""


def tariffs(place):
    port = place.port()
    strips = ["-XX:+UseCountedLoopSafepoints", "-XX:LoopStripMiningIter=1000"] if place.fixed else ["-XX:-UseCountedLoopSafepoints"]
    place.start("java", "-Xmx96m", "-Xmn4m", "-XX:+UseSerialGC", *strips, "-Dsun.net.httpserver.nodelay=true", "-cp", place.java(TARIFFS), "Main",
                port, round(90_000_000 * place.scale), port=port)
    return wrk(f"http://127.0.0.1:{port}/", 4, place.seconds)


# Puts each docket through a named pipe, which it opens anew, and waits for the receipt in another.
GATEHOUSE = r"""#!/usr/bin/perl
use strict;
use warnings;
use Time::HiRes qw(time);

my ($dockets, $receipts, $seconds) = @ARGV;
my ($begin, $items) = (time, 0);
while (time - $begin < $seconds) {
    my @waggons = map { ($items * 37 + $_ * 101) % 997 } 1 .. 1500;
    my $longest = (sort { $b <=> $a } @waggons)[0];
    open(my $hatch, '>', $dockets) or die $!;
    print $hatch join(' ', $items, $longest, @waggons[0 .. 150]), "\n";
    close $hatch;
    open(my $slip, '<', $receipts) or die $!;
    my $receipt = <$slip>;
    close $slip;
    $items++;
}
printf "items %d seconds %.3f\n", $items, time - $begin;
"""
CLERK = """#!/usr/bin/ruby --disable=gems
dockets, receipts, settle = ARGV[0], ARGV[1], ARGV[2].to_f
loop do
  words = File.read(dockets).split.map(&:to_i)
  sum = 0
  words.each { |word| 60.times { |i| sum = (sum * 31 + word + i) % 1_000_003 } }
  File.write(receipts, "#{words[0]} #{sum}\\n")
  sleep settle if settle > 0
end
"""


def dockets(place):
    pipes = [place.folder / name for name in ("dockets", "receipts")]
    for pipe in pipes:
        os.mkfifo(pipe)
    place.start(place.write("clerk", CLERK), *pipes, 0.014 * place.fault)
    return [str(place.write("gatehouse", GATEHOUSE)), *map(str, pipes), str(place.seconds)]


# Gives parcels to five packers, and enters them in their order; at most eight may be open.
DISPATCH = """
package main

import ("bufio"; "fmt"; "io"; "os"; "os/exec"; "strconv"; "time")

type packer struct { in io.Writer; out *bufio.Reader }

func main() {
	seconds, _ := strconv.Atoi(os.Args[3])
	const packers, window = 5, 8
	jobs, done := make(chan int, window), make(chan int, window)
	for n := 0; n < packers; n++ {
		command := exec.Command(os.Args[1], os.Args[2])
		in, _ := command.StdinPipe()
		out, _ := command.StdoutPipe()
		command.Stderr = os.Stderr
		if err := command.Start(); err != nil { panic(err) }
		go func(p packer) {
			for job := range jobs {
				fmt.Fprintf(p.in, "%d\\n", job)
				if _, err := p.out.ReadString('\\n'); err != nil { panic(err) }
				done <- job
			}
		}(packer{in, bufio.NewReader(out)})
	}
	begin := time.Now()
	next, oldest, ready := 0, 0, map[int]bool{}
	for time.Since(begin) < time.Duration(seconds) * time.Second {
		for ; next < oldest + window; next++ { jobs <- next }
		ready[<-done] = true
		for ; ready[oldest]; oldest++ { delete(ready, oldest) }
	}
	fmt.Printf("items %d seconds %.3f\\n", oldest, time.Since(begin).Seconds())
	os.Exit(0)
}
"""
PACKER = """#!/usr/bin/ruby --disable=gems
bulky = ARGV[0].to_f
$stdout.sync = true
while (line = $stdin.gets)
  parcel, volume = line.to_i, 0
  sleep bulky if bulky > 0 && parcel % 12 == 5
  9000.times { |i| volume = (volume * 31 + parcel + i) % 1_000_003 }
  puts volume
end
"""


def parcels(place):
    return [str(place.go("dispatch", DISPATCH)), str(place.write("packer", PACKER)), str(0.06 * place.fault), str(place.seconds)]


# Counts what comes through the pipe in a table of 96 MiB, of which a child adds up a state that
# does not change. The next child starts 20 ms after the last one, or hardly ever.
STOCK = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PLACES = 12 << 20, BATCH = 8192 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static uint64_t checked(uint64_t move)
{
    for (int i = 0; i < 60; i++)
        move = move * 31 + (move >> 9);
    return move;
}

static void snapshot(const uint64_t *stock)
{
    uint64_t sum = 0;
    prctl(PR_SET_NAME, "snapshot");
    for (long i = 0; i < PLACES; i++)
        sum = sum * 31 + stock[i];
    _exit(sum == 1);
}

int main(int count, char **words)
{
    double pause = atof(words[1]), seconds = atof(words[2]);
    uint64_t *stock = mmap(NULL, PLACES * sizeof *stock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static uint32_t places[BATCH];
    madvise(stock, PLACES * sizeof *stock, MADV_NOHUGEPAGE);
    for (long i = 0; i < PLACES; i++)
        stock[i] = i;
    long moves = 0;
    pid_t child = 0;
    double begin = now(), last = begin, time;
    while ((time = now()) - begin < seconds) {
        for (size_t had = 0; had < sizeof places; ) {
            ssize_t got = read(0, (char *)places + had, sizeof places - had);
            if (got <= 0)
                return 1;
            had += got;
        }
        for (int i = 0; i < BATCH; i++)
            stock[places[i] % PLACES] += checked(places[i]);
        moves += BATCH;
        if (child && waitpid(child, NULL, WNOHANG) == child)
            child = 0;
        if (!child && time - last > pause) {
            last = time;
            child = fork();
            if (!child)
                snapshot(stock);
        }
    }
    if (child > 0)
        waitpid(child, NULL, 0);
    printf("items %ld seconds %.3f\n", moves, now() - begin);
}
"""
MOVES = r"""
#include <stdint.h>
#include <unistd.h>

int main(void)
{
    static uint32_t places[8192];
    uint64_t state = 88172645463325252;
    do {
        for (int i = 0; i < 8192; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            places[i] = state >> 20;
        }
    } while (write(1, places, sizeof places) > 0);
}
"""


def snapshots(place):
    stock, moves = place.c("stock", STOCK), place.c("moves", MOVES)
    return ["sh", "-c", f"{moves} | {stock} {3 if place.fixed else 0.02} {place.seconds}"]


# Packs and encrypts each waybill with a key of its own, which openssl derives from the password.
COURIER = """#!/bin/bash
for bill in bills/*; do
    gzip -6 < "$bill" | openssl enc -aes-256-cbc -pbkdf2 -iter "$1" -pass file:password -out "${bill/bills/sealed}"
done
"""


def waybills(place):
    for name in ("bills", "sealed"):
        (place.folder / name).mkdir()
    place.write("password", "the goat in the goods shed\n")
    for number in range(52):
        text = "".join(f"waggon {i * number % 971} from platform {i % 13} with {i * 31 % 97} crates\n" for i in range(1500))
        (place.folder / "bills" / f"{number:03}").write_text(text)
    return [str(place.write("courier", COURIER)), str(max(round(120_000 * place.fault), 1))]


# Two threads compute weights, each for the next number. `lamp` shows every 10 ms that all is well,
# and guard looks at the lamp.
WEIGHBRIDGE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static long next, items;
static double end;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void *weigh(void *unused)
{
    pthread_setname_np(pthread_self(), "scale");
    while (now() < end) {
        pthread_mutex_lock(&turn);
        uint64_t load = next++;
        pthread_mutex_unlock(&turn);
        for (int i = 0; i < 1500000; i++)
            load = load * 6364136223846793005 + (load >> 33) + i;
        pthread_mutex_lock(&turn);
        items += load != 0;
        pthread_mutex_unlock(&turn);
    }
    return unused;
}

static void *shine(void *unused)
{
    pthread_setname_np(pthread_self(), "lamp");
    int lamp = open("lamp", O_CREAT | O_WRONLY, 0644);
    while (now() < end) {
        char text[32];
        int size = snprintf(text, sizeof text, "%8ld\n", items);
        if (pwrite(lamp, text, size, 0) != size)
            exit(1);
        usleep(10000);
    }
    return unused;
}

int main(int count, char **words)
{
    pthread_t threads[3];
    double begin = now();
    end = begin + atof(words[1]);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, i < 2 ? weigh : shine, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("items %ld seconds %.3f\n", items, now() - begin);
}
"""
GUARD = r"""#!/usr/bin/perl
use Time::HiRes qw(sleep);
my $seen = '';
while (1) {
    if (open(my $lamp, '<', 'lamp')) { my $now = <$lamp> // ''; $dark = $now eq $seen ? $dark + 1 : 0; $seen = $now; }
    sleep 0.1;
}
"""


def weights(place):
    place.start(place.write("guard", GUARD))
    return [str(place.c("weighbridge", WEIGHBRIDGE)), str(place.seconds)]


# A train leaves every 60 ms, and the book of departures is on the disk before its answer.
DEPARTURES = """
import java.io.*;
import java.net.*;

public class Main {
    public static void main(String[] words) throws Exception {
        ServerSocket door = new ServerSocket(Integer.parseInt(words[0]), 16, InetAddress.getByName("127.0.0.1"));
        RandomAccessFile book = new RandomAccessFile("departures", "rw");
        while (true) {
            try (Socket guest = door.accept()) {
                guest.setTcpNoDelay(true);
                BufferedReader in = new BufferedReader(new InputStreamReader(guest.getInputStream()));
                for (String line; (line = in.readLine()) != null; ) {
                    book.write((line + "\\n").getBytes());
                    book.getFD().sync();
                    guest.getOutputStream().write("gone\\n".getBytes());
                }
            }
        }
    }
}
"""
TIMETABLE = """#!/usr/bin/node
const [port, seconds] = process.argv.slice(2).map(Number);
const yard = require('net').connect(port, '127.0.0.1');
let sent = 0, gone = 0;
yard.setNoDelay(true);
yard.on('data', text => { gone += text.length / 5; });
setInterval(() => yard.write(`train ${++sent}\\n`), 60);
setTimeout(() => { console.log(`sent ${sent} gone ${gone}`); process.exit(0); }, seconds * 1000);
"""


def trains(place):
    port = place.port()
    place.start("java", "-Xmx32m", "-XX:+UseSerialGC", "-cp", place.java(DEPARTURES), "Main", port, port=port)
    return [str(place.write("timetable", TIMETABLE)), str(port), str(place.seconds)]


SYSTEMS = [
    System(
        name="depot_tariffs_to_safepoint",
        kind="time-to-safepoint",
        truth="all threads of the java server stop for each small collection until the thread revaluation, which computes a loop of 0.1 s without a safepoint, stops, too",
        load=tariffs,
        rate=WRK,
        component=(r"\bjava\b", r"revaluation"),
        # "java computes" is vague: only the stop keeps the other threads from the second CPU.
        mechanism=(r"revaluation", r"safe ?point", r"stop\w*[ -]the[ -]world", r"threads? stop", r"wait\w* for (one another|each other|one (of its )?threads?)", r"one thread"),
        never=(r"\bdisk\b", r"\bsleeps", r"wrk (computes|runs|holds)", r"collects garbage"),
        halves=True,
        needs=("java", "javac", "wrk"),
    ),
    System(
        name="depot_docket_pipe",
        kind="pipe-opened-anew",
        truth="clerk sleeps 14 ms before it opens the named pipe of the dockets again, and gatehouse waits in open until then",
        load=dockets,
        rate=ITEMS,
        component=(r"clerk", r"ruby"),
        mechanism=SLEEPS,
        never=(r"\bdisk\b", r"gatehouse sleeps", r"(clerk|ruby|gatehouse|perl) computes"),
        change="x0",
        halves=True,
        needs=("perl", "ruby"),
    ),
    System(
        name="depot_parcels_in_order",
        kind="reorder-window",
        truth="the packer that has every twelfth parcel sleeps 60 ms, and dispatch gives the others nothing meanwhile, because at most eight parcels may be open behind the oldest",
        load=parcels,
        rate=ITEMS,
        component=(r"packer", r"ruby", r"dispatch.*(window|in order|oldest)"),
        mechanism=(*SLEEPS, r"window", r"in order", r"oldest"),
        never=(r"\bdisk\b", r"dispatch sleeps", r"(packer|ruby|dispatch) computes"),
        change="x0",
        halves=True,
        needs=("go", "ruby"),
    ),
    System(
        name="depot_snapshots_of_stock",
        kind="copy-on-write",
        truth="the kernel copies nearly each page that stock writes, because stock forks a snapshot of itself again and again",
        load=snapshots,
        rate=ITEMS,
        component=(r"\bstock\b",),
        mechanism=(r"page faults?", r"cop(y|ies|ied|ying)", r"in the kernel", r"kernel (code|work|time)", r"\bforks?\b", r"snapshots?"),
        never=(r"\bdisk\b", r"\bsleeps", r"\block", r"moves (computes|runs|holds)"),
        needs=("gcc",),
    ),
    System(
        name="depot_sealed_waybills",
        kind="key-derivation-per-file",
        truth="openssl computes 120000 rounds for the key of each small file that courier has it encrypt, one file after the other",
        load=waybills,
        component=(r"openssl",),
        mechanism=COMPUTES,
        never=(r"\bdisk\b", r"\bsleeps", r"gzip computes"),
        halves=True,
        needs=("bash", "gzip", "openssl"),
    ),
    System(
        name="control_depot_weighbridge",
        kind="control",
        truth="two threads of weighbridge compute on two CPUs, a third shows every 10 ms that they do, and guard looks at that ten times in a second",
        load=weights,
        rate=ITEMS,
        acceptable=said("weighbridge|scale|CPUs?", BUSY),
        needs=("gcc", "perl"),
    ),
    System(
        name="control_depot_timetable",
        kind="control",
        truth="timetable sends a train every 60 ms by intention, departures in java writes each to the disk long before the next one, and both are idle most of the time",
        load=trains,
        acceptable=(*said("timetable|node|MainThread|java", PACED), r"nothing (to do|holds)"),
        running=True,
        needs=("node", "java", "javac"),
    ),
]

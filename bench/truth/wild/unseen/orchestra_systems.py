"""The media archive of an orchestra: five frequent faults of programs in several languages that
work together on one host, by sockets of Unix, pipes, shared memory and files, and two healthy parts
of the same archive.
"""
import os
import random

from system import ITEMS, LOCKS, PYTHON, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"\bkernel\b", r"runs its own code", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")


def music(place, name, samples, seed=1):
    """Writes a file of random 16-bit samples, half of whose bits are zero, and returns its path."""
    noise = random.Random(seed).randbytes(samples)
    path = place.folder / name
    path.write_bytes(bytes(value for byte in noise for value in (byte & 0xf0, byte & 3)))
    return path


# The server of the programme: it reads pages of scores from files, and the levels of the mixing
# desks from named pipes. Node reads both with the threads of its pool, of which there are four.
PROGRAMME = """
const fs = require("fs"), http = require("http");
const [port, desks, pages] = process.argv.slice(2).map(Number);
const peaks = [];

for (let i = 0; i < desks; i++) {
  peaks.push(0);
  fs.createReadStream("desk" + i, "latin1").on("data", text => {
    peaks[i] = Math.max(...text.trim().split(/\\s+/).map(Number));
  });
}

let served = 0;
http.createServer((request, response) => {
  fs.readFile(`scores/page${served++ % pages}`, (error, score) => {
    if (error) {
      response.statusCode = 500;
      return response.end(error.message);
    }
    response.setHeader("X-Peaks", peaks.join(","));
    response.end(score);
  });
}).listen(port, "127.0.0.1");
"""
# A mixing desk writes the levels of its channels 25 times a second.
DESK = """#!/usr/bin/perl
use strict;
use warnings;
use Time::HiRes qw(sleep);

open my $levels, ">", $ARGV[0] or die "no pipe: $!";
$levels->autoflush(1);
while (1) {
    print $levels join(" ", map { int rand 100 } 1 .. 48), "\\n";
    sleep 0.04;
}
"""


def meters(place):
    desks, pages, port = 4, 80, place.port()
    (place.folder / "scores").mkdir()
    for page in range(pages):
        music(place, f"scores/page{page}", 6000, page)
    desk = place.write("desk", DESK)
    for number in range(desks):
        os.mkfifo(place.folder / f"desk{number}")
        place.start(desk, f"desk{number}")
    pool = {"UV_THREADPOOL_SIZE": "12"} if place.fixed else {}
    place.start("node", place.write("programme.js", PROGRAMME), port, desks, pages, port=port, env={**os.environ, **pool})
    return wrk(f"http://127.0.0.1:{port}/", 8, place.seconds)


# The catalogue answers each connection in a thread of its own, and draws the waveforms of new
# takes, either in one more thread, or in a process. A thread of ruby that computes keeps the lock
# of the interpreter for at most 100 ms.
CATALOGUE = """#!/usr/bin/ruby
require "json"
require "socket"

def waveform(take)
  level, points = 0.0, []
  1500.times do |column|
    peak = 0.0
    250.times do |i|
      level = 0.97 * level + Math.sin((take + column * 250 + i) * 0.37)
      peak = level.abs if level.abs > peak
    end
    points << "#{column},#{(peak * 10).round(1)}"
  end
  "<svg><polyline points='#{points.join(" ")}'/></svg>"
end

def draw
  (0..).each { |take| File.write("waveform-#{take % 40}.svg", waveform(take)) }
end

def serve(client, shelves)
  client.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
  shelf = UNIXSocket.new(shelves)
  (1..).each do |take|
    while (line = client.gets) && line != "\\r\\n"
    end
    return unless line
    shelf.puts("take #{take % 5000}")
    body = JSON.generate({ take: take, shelf: shelf.gets.chomp, conductor: "guest #{take % 17}" })
    client.write("HTTP/1.1 200 OK\\r\\nContent-Length: #{body.bytesize}\\r\\n\\r\\n#{body}")
  end
rescue Errno::ECONNRESET, Errno::EPIPE
  nil
end

port, shelves, drawing = ARGV
drawing == "thread" ? Thread.new { draw } : fork { draw }
server = TCPServer.new("127.0.0.1", port.to_i)
loop { Thread.new(server.accept) { |client| serve(client, shelves) } }
"""
SHELVES = """
package main

import ("bufio"; "fmt"; "net"; "os")

func answer(link net.Conn, shelves map[string]string) {
	defer link.Close()
	lines := bufio.NewScanner(link)
	for lines.Scan() {
		fmt.Fprintln(link, shelves[lines.Text()])
	}
}

func main() {
	shelves := map[string]string{}
	for i := 0; i < 5000; i++ {
		shelves[fmt.Sprint("take ", i)] = fmt.Sprintf("cellar %d, shelf %d", i%7, i/40)
	}
	door, err := net.Listen("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		link, err := door.Accept()
		if err != nil {
			panic(err)
		}
		go answer(link, shelves)
	}
}
"""


def waveforms(place):
    shelves, port = place.folder / "shelves.sock", place.port()
    place.start(place.go("shelves", SHELVES), shelves, path=shelves)
    drawing = "process" if place.fixed else "thread"
    place.start(place.write("catalogue", CATALOGUE), port, shelves, drawing, port=port)
    return wrk(f"http://127.0.0.1:{port}/take", 8, place.seconds)


# The restorer gives blocks of a tape to four processes, which share the tape's memory. Its own
# thread stays on one processor, near the clock of the tape machine. Programs that it starts later
# inherit that.
RESTORER = """#!/usr/bin/python3
import configparser, os, selectors, subprocess, sys, time

settings = configparser.ConfigParser()
settings.read(sys.argv[1])
tape, program, blocks = settings["tape"]["file"], settings["tape"]["program"], int(settings["tape"]["blocks"])
processor = int(settings["clock"]["processor"])

def start():
    return subprocess.Popen([program, tape], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

begin = time.monotonic()
if settings["clock"]["stay"] == "before":
    os.sched_setaffinity(0, {processor})
workers = [start() for _ in range(4)]
os.sched_setaffinity(0, {processor})

waiting, done, clicks = list(range(blocks)), 0, 0
with selectors.DefaultSelector() as ready:
    for worker in workers:
        ready.register(worker.stdout, selectors.EVENT_READ, worker)
        worker.stdin.write(b"%d\\n" % waiting.pop())
    while done < blocks:
        for key, _ in ready.select():
            clicks += int(key.data.stdout.readline())
            done += 1
            if waiting:
                key.data.stdin.write(b"%d\\n" % waiting.pop())
for worker in workers:
    worker.stdin.close()
    worker.wait()
print(f"clicks {clicks} items {done} seconds {time.monotonic() - begin:.3f}")
"""
DECLICK = r"""
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { BLOCK = 24000, WIDTH = 41 };

// Replaces samples that differ much from the median of their neighbours; returns their number.
static int declick(int16_t *samples) {
    static int16_t copy[BLOCK], window[WIDTH];
    int clicks = 0;
    memcpy(copy, samples, sizeof copy);
    for (int i = WIDTH / 2; i < BLOCK - WIDTH / 2; i++) {
        for (int j = 0; j < WIDTH; j++) {
            int16_t value = copy[i - WIDTH / 2 + j];
            int k = j;
            for (; k > 0 && window[k - 1] > value; k--)
                window[k] = window[k - 1];
            window[k] = value;
        }
        int16_t median = window[WIDTH / 2];
        if (abs(copy[i] - median) > 700) {
            samples[i] = median;
            clicks++;
        }
    }
    return clicks;
}

int main(int count, char **words) {
    int tape = open(words[count - 1], O_RDWR);
    struct stat state;
    if (tape < 0 || fstat(tape, &state))
        return 1;
    int16_t *samples = mmap(NULL, state.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, tape, 0);
    if (samples == MAP_FAILED)
        return 1;
    char line[40];
    while (fgets(line, sizeof line, stdin)) {
        printf("%d\n", declick(samples + (size_t)atoi(line) * BLOCK));
        fflush(stdout);
    }
}
"""


def affinity(place):
    blocks = 240
    tape = music(place, "tape", 24000 * blocks // 8)
    tape.write_bytes(tape.read_bytes() * 8)
    config = place.write("restorer.ini", f"""
[tape]
file = {tape}
program = {place.c("declick", DECLICK)}
blocks = {blocks}
[clock]
processor = {min(os.sched_getaffinity(0))}
stay = {"after" if place.fixed else "before"}
""")
    return [str(place.write("restorer", RESTORER)), str(config)]


# The porter starts an encoder for each short take, and closes its own descriptors before that: all
# up to the limit of descriptors, which is that of the service.
PORTER = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::UNIX;
use POSIX ();

my $door = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 64) or die "no socket: $!";
$SIG{CHLD} = "IGNORE";

sub encode {
    my ($client) = @_;
    chomp(my $take = <$client>);
    open STDIN, "<", $take or die "no take: $!";
    open STDOUT, ">&", $client or die "no answer: $!";
    POSIX::close($_) for 3 .. POSIX::sysconf(POSIX::_SC_OPEN_MAX()) - 1;
    exec "gzip", "-c";
}

while (1) {
    my $client = $door->accept or next;
    my $child = fork;
    die "no process: $!" unless defined $child;
    encode($client) unless $child;
    close $client;
}
"""
INGEST = """
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.concurrent.atomic.AtomicLong;

public class Main {
    static final AtomicLong takes = new AtomicLong(), bytes = new AtomicLong();

    static void ingest(UnixDomainSocketAddress porter, String take, long end) {
        ByteBuffer buffer = ByteBuffer.allocate(65536);
        while (System.nanoTime() < end) {
            try (SocketChannel link = SocketChannel.open(porter)) {
                link.write(ByteBuffer.wrap((take + "\\n").getBytes()));
                for (int length; (length = link.read(buffer.clear())) >= 0; bytes.addAndGet(length)) {
                }
            } catch (java.io.IOException error) {
                throw new RuntimeException(error);
            }
            takes.incrementAndGet();
        }
    }

    public static void main(String[] words) throws Exception {
        UnixDomainSocketAddress porter = UnixDomainSocketAddress.of(words[0]);
        long start = System.nanoTime(), end = start + (long) (1e9 * Double.parseDouble(words[2]));
        Thread[] machines = new Thread[3];
        for (int i = 0; i < machines.length; i++) {
            machines[i] = new Thread(() -> ingest(porter, words[1], end), "tape machine");
            machines[i].start();
        }
        for (Thread machine : machines) {
            machine.join();
        }
        System.out.printf("bytes %d items %d seconds %.3f%n", bytes.get(), takes.get(), (System.nanoTime() - start) / 1e9);
    }
}
"""


def descriptors(place):
    door, take = place.folder / "porter.sock", music(place, "take", 4000)
    limit = 256 if place.fixed else round(20000 * place.fault)
    place.start("sh", "-c", f'ulimit -n {limit} && exec "$@"', "sh", place.write("porter", PORTER), door, path=door)
    return ["java", "-Xmx64m", "-cp", str(place.java(INGEST)), "Main", str(door), str(take), str(place.seconds)]


# The editor has the applause cut off each take by a script, whose output it reads to the end. The
# script's watchdog is a shell that waits for `sleep`. Only the shell is killed afterwards; `sleep`
# remains, and has the output open.
EDITOR = """
package main

import ("fmt"; "os"; "os/exec"; "strconv"; "strings"; "sync"; "time")

func main() {
	script, take := os.Args[1], os.Args[2]
	count, _ := strconv.Atoi(os.Args[3])
	start, takes := time.Now(), make(chan int)
	var group sync.WaitGroup
	for i := 0; i < 3; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for number := range takes {
				text, err := exec.Command(script, take, strconv.Itoa(number)).Output()
				if err != nil || !strings.HasPrefix(string(text), "cut at") {
					panic(fmt.Sprint(err, string(text)))
				}
			}
		}()
	}
	for number := 0; number < count; number++ {
		takes <- number
	}
	close(takes)
	group.Wait()
	fmt.Printf("items %d seconds %.3f\\n", count, time.Since(start).Seconds())
}
"""
CUT = """#!/bin/sh
# Usage: cut-applause TAKE NUMBER
( sleep PATIENCE; kill $$ ) OUTPUT&
watchdog=$!
php -n ANALYSIS "$1" | gzip -c >"$1.$2.gz"
echo "cut at $(zcat "$1.$2.gz" | wc -l)"
kill $watchdog
"""
APPLAUSE = """<?php
// Prints the loudness of each tenth of a second, up to the last one that is music.
$samples = unpack("s*", file_get_contents($argv[1]));
$loudness = [];
foreach (array_chunk($samples, 4800) as $part) {
    $sum = $crossings = $last = 0;
    foreach ($part as $value) {
        $sum += $value * $value;
        $crossings += ($value ^ $last) < 0 ? 1 : 0;
        $last = $value;
    }
    $loudness[] = sprintf("%.1f %d", sqrt($sum / count($part)), $crossings);
}
echo implode("\\n", $loudness), "\\n";
"""


def watchdog(place):
    take, analysis = music(place, "take", 300000), place.write("applause.php", APPLAUSE)
    script = CUT.replace("PATIENCE", f"{0.9 * place.scale:.3f}").replace("ANALYSIS", str(analysis))
    cut = place.write("cut-applause", script.replace("OUTPUT", ">/dev/null 2>&1 " if place.fixed else ""))
    return [str(place.go("editor", EDITOR)), str(cut), str(take), "12"]


# Control: the prompter gives a cue each 60 ms by intention, by its own clock, to the stage, which
# answers at once.
PROMPTER = """
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.Socket;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

public class Main {
    static int cues;

    public static void main(String[] words) throws Exception {
        double seconds = Double.parseDouble(words[1]);
        CountDownLatch end = new CountDownLatch((int) (seconds / 0.06));
        try (Socket stage = new Socket("127.0.0.1", Integer.parseInt(words[0]))) {
            stage.setTcpNoDelay(true);
            BufferedReader answers = new BufferedReader(new InputStreamReader(stage.getInputStream()));
            ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor();
            long start = System.nanoTime();
            clock.scheduleAtFixedRate(() -> {
                try {
                    stage.getOutputStream().write(("cue " + cues + "\\n").getBytes());
                    if (answers.readLine() == null) {
                        System.exit(1);
                    }
                } catch (java.io.IOException error) {
                    System.exit(1);
                }
                cues++;
                end.countDown();
            }, 0, 60, TimeUnit.MILLISECONDS);
            end.await();
            clock.shutdown();
            System.out.printf("items %d seconds %.3f%n", cues, (System.nanoTime() - start) / 1e9);
        }
    }
}
"""
STAGE = """#!/usr/bin/escript
main([Port, Log]) ->
    {ok, Door} = gen_tcp:listen(list_to_integer(Port), [binary, {packet, line}, {active, false}, {nodelay, true},
                                                        {ip, {127, 0, 0, 1}}, {reuseaddr, true}]),
    {ok, File} = file:open(Log, [raw, append]),
    Book = spawn(fun() -> book(File) end),
    accept(Door, Book).

accept(Door, Book) ->
    {ok, Link} = gen_tcp:accept(Door),
    spawn(fun() -> receive start -> serve(Link, Book) end end) ! start,
    accept(Door, Book).

serve(Link, Book) ->
    case gen_tcp:recv(Link, 0) of
        {ok, Cue} ->
            Book ! Cue,
            ok = gen_tcp:send(Link, ["ready for ", Cue]),
            serve(Link, Book);
        {error, closed} ->
            ok
    end.

%% Writes each cue into the book of the evening.
book(File) ->
    receive Cue -> ok = file:write(File, Cue) end,
    book(File).
"""


def cues(place):
    port, log = place.port(), place.folder / "evening.log"
    place.start(place.write("stage", STAGE), port, log, port=port)
    return ["java", "-Xmx64m", "-cp", str(place.java(PROMPTER)), "Main", str(port), str(place.seconds)]


# Control: the librarian always has eight takes in the queue, which is one socket of datagrams, and
# three processes of Go take the next one each as soon as they are free.
LIBRARIAN = """#!/usr/bin/ruby
require "socket"
program, take, seconds = ARGV[0], ARGV[1], ARGV[2].to_f
clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
queue, entry = UNIXSocket.pair(:DGRAM)
answers, result = UNIXSocket.pair(:DGRAM)
packers = Array.new(3) { spawn(program, take, in: entry, out: result) }
begin
  start, count = clock.call, 0
  8.times { |part| queue.send(part.to_s, 0) }
  while clock.call < start + seconds
    answers.recv(200)
    count += 1
    queue.send((count + 7).to_s, 0)
  end
  puts "items #{count} seconds #{(clock.call - start).round(3)}"
ensure
  packers.each { |packer| Process.kill(:TERM, packer) }
  packers.each { |packer| Process.wait(packer) }
end
"""
PACKER = """
package main

import ("bytes"; "compress/zlib"; "crypto/sha256"; "fmt"; "os"; "strconv")

func main() {
	take, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	line := make([]byte, 100)
	for {
		length, err := os.Stdin.Read(line)
		if err != nil || length == 0 {
			return
		}
		part, _ := strconv.Atoi(string(line[:length]))
		from := part % 8 * len(take) / 8
		var packed bytes.Buffer
		writer, _ := zlib.NewWriterLevel(&packed, 7)
		writer.Write(take[from : from+len(take)/8])
		writer.Close()
		os.Stdout.WriteString(fmt.Sprintf("part %d %x", part, sha256.Sum256(packed.Bytes())))
	}
}
"""


def packing(place):
    take, packer = music(place, "take", 1200000), place.go("packer", PACKER)
    return [str(place.write("librarian", LIBRARIAN)), str(packer), str(take), str(place.seconds)]


NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="orchestra_meters_in_the_pool",
        kind="runtime-pool-blocked-by-pipes",
        truth="all four threads of node's pool wait in read for the next levels that desk, in "
              "perl, writes into a named pipe each 40 ms, so that the reads of the pages, which "
              "need a thread of the same pool, wait",
        load=meters,
        rate=WRK,
        component=(r"\bnode\b", r"programme", r"libuv", r"\bpool\b"),
        mechanism=(r"\bpipe", r"\bfifo", r"\bread\b", r"\breads from", r"\bpool\b", r"libuv", r"\bdesk",
                   r"threads? (of|that)[^;]*(busy|occupied|blocked|wait)", r"for one another"),
        never=(*DISK, r"(\bnode|programme\S*) (\([^)]*\) )?computes"),
        running=True,
        needs=("node", "perl", "wrk"),
    ),
    System(
        name="orchestra_waveforms_in_a_thread",
        kind="interpreter-lock-quantum",
        truth="the threads of catalogue, in ruby, that answer requests wait for the lock of the "
              "interpreter (GVL) after each system call, because one thread of the same process "
              "computes waveforms and keeps that lock",
        load=waveforms,
        rate=WRK,
        component=(r"catalogue", r"\bruby\b"),
        mechanism=(*LOCKS, r"\bG[VI]L\b", r"interpreter", r"waveform", r"\bholds?\b", r"\bheld\b", r"for one another",
                   r"futex", r"one thread at a time", r"[Oo]nly one (of (its|the) )?threads?"),
        never=(*DISK, r"shelves (\([^)]*\) )?(computes|sleeps)"),
        needs=("ruby", "go", "wrk"),
    ),
    System(
        name="orchestra_tape_on_one_processor",
        kind="inherited-affinity",
        truth="the four processes of declick wait for a CPU, because they inherit the affinity of "
              "restorer, in python, which binds itself to one CPU before it starts them, while the "
              "other CPU is idle",
        load=affinity,
        rate=ITEMS,
        component=(r"declick", r"restorer", r"\bpython"),
        mechanism=(r"affinity", r"\bpinned", r"\bbound to", r"\bone CPU\b", r"\bCPU ?\d+", r"only [^;]*CPU", r"single CPU",
                   r"wait(s|ing)? for (a|the|its|one|their) (\w+ )?CPU", r"run ?queue", r"\bready\b", r"runnable", r"preempted",
                   r"share (a|one) CPU", r"allowed"),
        never=(*DISK, r"\block\b", r"mutex", r"(declick|restorer|python\S*) (\([^)]*\) )?sleeps"),
        needs=("gcc", PYTHON),
    ),
    System(
        name="orchestra_porter_closes_everything",
        kind="descriptor-limit-loop",
        truth="each child of porter, in perl, calls close 20,000 times before it becomes gzip, "
              "because the limit of descriptors is that high",
        load=descriptors,
        rate=ITEMS,
        component=(r"porter", r"\bperl\b"),
        mechanism=(*RUNS, r"\bclose", r"descriptor", r"system calls?", r"\bfork", r"limit"),
        never=(*DISK, r"(porter|perl) (\([^)]*\) )?sleeps", r"gzip (\([^)]*\) )?computes"),
        code=(r"close",),
        halves=True,
        needs=("perl", "java", "javac", "gzip"),
    ),
    System(
        name="orchestra_watchdog_of_the_applause",
        kind="orphan-keeps-pipe-open",
        truth="editor, in Go, waits for the end of the output of cut-applause, which a forgotten "
              "sleep of the script's watchdog has open for 0.9 s, long after the script has ended",
        load=watchdog,
        rate=ITEMS,
        component=(r"\bsleep\b", r"cut-applause", r"editor", r"watchdog"),
        mechanism=(r"\bpipe", r"end of (the )?(output|file|input)", r"\bEOF\b", r"\bsleep", r"timer", r"until a time",
                   r"watchdog", r"\bopen\b"),
        never=(*DISK, r"(php|gzip|editor|applause\.php) (\([^)]*\) )?computes", r"\bmutex"),
        halves=True,
        needs=("go", "php", "gzip"),
    ),
    System(
        name="control_orchestra_cues",
        kind="control",
        truth="the prompter, in java, gives a cue each 60 ms by its own clock, and stage, in "
              "erlang, answers at once; both are idle most of the time",
        load=cues,
        rate=ITEMS,
        acceptable=(*NOTHING, r"\bpaced\b", r"(java|prompter|\bMain\b|pool-1-thread).*(sleep|timer|clock|until a time)", r"\bidle\b"),
        needs=("java", "javac", "escript"),
    ),
    System(
        name="control_orchestra_packing",
        kind="control",
        truth="three processes of packer, in Go, compute in parallel what librarian, in ruby, puts "
              "into their common queue, and both CPUs are full",
        load=packing,
        rate=ITEMS,
        acceptable=(*NOTHING, r"packer.*(comput|\buser|own code|\brun|preempted|\bCPU)", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("ruby", "go"),
    ),
]

"""Processes that build, hand over items, poll, spin, retry and call each other: ninja, Python,
bash, C, Ruby, Go, memcached.
"""
import os

from system import COMPUTES, ITEMS, PYTHON, SLEEPS, WRK, System, wrk

CODEGEN = """#!/usr/bin/python3
import sys

# A table of primes by trial division, as long as it was asked for.
primes, number = [2], 3
while len(primes) < int(sys.argv[1]):
    if all(number % prime for prime in primes if prime * prime <= number):
        primes.append(number)
    number += 2
with open("table.h", "w") as out:
    print("static const int primes[] = {%s};" % ", ".join(map(str, primes[:500])), file=out)
"""

UNIT = "#include \"table.h\"\n#include <stdio.h>\n" + "\n".join(
    f"int part{{unit}}_{i}(char *to, int n) {{{{ for (int k = 0; k < n; k++) n += snprintf(to, n, \"%d\", primes[k % 500]); return n; }}}}" for i in range(30)) + "\n"

TALLY = """#!/usr/bin/python3
import multiprocessing, sys, time

def weight(number):
    return bin(number).count("1")

if __name__ == "__main__":
    begin, items, total = time.monotonic(), 0, 0
    with multiprocessing.Pool(2) as pool:
        while time.monotonic() < begin + float(sys.argv[2]):
            for part in pool.imap(weight, range(8000), chunksize=int(sys.argv[1])):
                total += part
            items += 8000
    print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""

SPOOLER = """#!/bin/bash
# Looks for jobs in the spool, or waits for the bell, and tells of each that is done.
exec 3<>results 4<>bell
while true; do
    for job in spool/*.job; do
        [ -e "$job" ] || continue
        read -r amount <"$job"
        rm "$job"
        echo $((amount * 2)) >&3
    done
    if [ "$1" = bell ]; then read -r _ <&4; else sleep "$2"; fi
done
"""

SUBMIT = """#!/usr/bin/python3
import os, sys, time

results, bell = open("results", "rb+", buffering=0), open("bell", "wb+", buffering=0)
begin, items = time.monotonic(), 0
while time.monotonic() < begin + float(sys.argv[2]):
    with open("spool/new", "w") as out:
        print(items, file=out)
    os.rename("spool/new", f"spool/{items}.job")
    if sys.argv[1] == "bell":
        bell.write(b"-\\n")
    results.readline()
    items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""

WATCHER = r"""
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int changed;

// Waits for a change of the configuration.
int main(int count, char **arguments)
{
	int pause_us = count > 1 ? atoi(arguments[1]) : 0;
	while (!atomic_load(&changed))
		if (pause_us)
			usleep(pause_us);
}
"""

STORE = """
package main

import ("net/http"; "os"; "strconv"; "sync/atomic")

// Says 503 to every nth request; 0: to none.
func main() {
	each, _ := strconv.Atoi(os.Args[2])
	var count atomic.Int64
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if each > 0 && count.Add(1) % int64(each) == 0 {
			w.WriteHeader(503)
			return
		}
		w.Write([]byte("done\\n"))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

SIGNER = """
package main

import ("crypto/sha256"; "fmt"; "net/http"; "os")

func main() {
	text := make([]byte, 1 << 18)
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%x\\n", sha256.Sum256(text)) })
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

FETCHER = """#!/usr/bin/ruby
require 'net/http'

start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
items = 0
Net::HTTP.start('127.0.0.1', ARGV[0].to_i) do |client|
  while Process.clock_gettime(Process::CLOCK_MONOTONIC) < start + ARGV[1].to_f
    pause = ARGV[2].to_f
    while client.get('/').code == '503'
      sleep pause
      pause *= 2
    end
    items += 1
  end
end
puts "items #{items} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""

# Calls are frames of 8 bytes: number and kind; a reply is the same frame.
RPC = """
package main

import ("fmt"; "io"; "net"; "os"; "path/filepath"; "strconv"; "sync"; "sync/atomic"; "time")

func serve(connection net.Conn, apart bool, pause time.Duration) {
	var writing sync.Mutex
	handle := func(frame [8]byte) {
		if frame[7] == 1 { time.Sleep(pause) }
		writing.Lock()
		connection.Write(frame[:])
		writing.Unlock()
	}
	for {
		var frame [8]byte
		if _, err := io.ReadFull(connection, frame[:]); err != nil { return }
		if apart { go handle(frame) } else { handle(frame) }
	}
}

func main() {
	if filepath.Base(os.Args[0]) == "ledger" {
		listener, err := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
		if err != nil { panic(err) }
		pause, _ := time.ParseDuration(os.Args[3])
		for {
			connection, _ := listener.Accept()
			go serve(connection, os.Args[2] == "apart", pause)
		}
	}
	connection, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil { panic(err) }
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	replies := [16]chan bool{}
	for i := range replies { replies[i] = make(chan bool, 1) }
	go func() {
		var frame [8]byte
		for {
			if _, err := io.ReadFull(connection, frame[:]); err != nil { return }
			replies[frame[0]] <- true
		}
	}()
	var items atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for number := range replies {
		all.Add(1)
		go func() {
			defer all.Done()
			for call := number; time.Since(begin).Seconds() < seconds; call++ {
				frame := [8]byte{byte(number)}
				if call % 10 == 0 { frame[7] = 1 }
				connection.Write(frame[:])
				<-replies[number]
				items.Add(1)
			}
		}()
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", items.Load(), time.Since(begin).Seconds())
}
"""

BASKET = r"""
package main

import ("bufio"; "fmt"; "net"; "os"; "strconv"; "strings"; "time")

// Fetches baskets of 100 articles, each by a call of its own or all by one.
func main() {
	connection, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil { panic(err) }
	in := bufio.NewReader(connection)
	ask := func(text string) {
		connection.Write([]byte(text))
		for {
			line, err := in.ReadString('\n')
			if err != nil { panic(err) }
			if line == "END\r\n" || line == "STORED\r\n" { return }
		}
	}
	keys := []string{}
	for i := 0; i < 100; i++ {
		keys = append(keys, fmt.Sprintf("article%d", i))
		ask(fmt.Sprintf("set %s 0 0 5\r\nprice\r\n", keys[i]))
	}
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	begin, items := time.Now(), 0
	for time.Since(begin).Seconds() < seconds {
		if os.Args[3] == "all" {
			ask("get " + strings.Join(keys, " ") + "\r\n")
		} else {
			for _, key := range keys { ask("get " + key + "\r\n") }
		}
		items++
	}
	fmt.Printf("items %d seconds %.3f\n", items, time.Since(begin).Seconds())
}
"""


def codegen(place):
    place.write("codegen", CODEGEN)
    units = range(10)
    for unit in units:
        place.write(f"unit{unit}.c", UNIT.format(unit=unit))
    # Each number is divided by all smaller primes, so half of the work needs numbers smaller by the
    # root of 2.
    primes = 500 if place.fixed else round(11000 * place.fault ** 0.5)
    edges = "\n".join(f"build unit{unit}.o: cc unit{unit}.c | table.h" for unit in units)
    place.write("build.ninja", f"rule gen\n  command = exec ./codegen {primes}\nrule cc\n  command = gcc -O1 -c $in -o $out\nbuild table.h: gen\n{edges}\n")
    return ["ninja", "--quiet", "-j2"]


def tally(place):
    return [str(place.write("tally", TALLY)), "1000" if place.fixed else "1", str(place.seconds)]


def spool(place):
    how = "bell" if place.fixed else "look"
    (place.folder / "spool").mkdir()
    for pipe in "results", "bell":
        os.mkfifo(place.folder / pipe)
    place.start(place.write("spooler", SPOOLER), how, 0.05 * place.scale)
    return [str(place.write("submit", SUBMIT)), how, str(place.seconds)]


def spinning(place):
    port = place.port()
    place.start(place.go("signer", SIGNER), port, port=port)
    watcher = place.c("watcher", WATCHER)
    for _ in range(5):
        place.start(watcher, 10000 if place.fixed else 0)
    return wrk(f"http://127.0.0.1:{port}/", 4, place.seconds)


def retries(place):
    port = place.port()
    place.start(place.go("store", STORE), port, 0 if place.fixed else 4, port=port)
    return [str(place.write("fetcher", FETCHER)), str(port), str(place.seconds), str(0.04 * place.scale)]


def head_of_line(place):
    port = place.port()
    place.start(place.go("ledger", RPC), port, "apart" if place.fixed else "inline", f"{20 * place.scale}ms", port=port)
    return [str(place.go("teller", RPC)), str(port), str(place.seconds)]


def key_by_key(place):
    port = place.port()
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", port, "-t", "1", port=port)
    return [str(place.go("basket", BASKET)), str(port), str(place.seconds), "all" if place.fixed else "each"]


SYSTEMS = [
    System(
        name="ninja_slow_codegen",
        kind="serial-build-step",
        truth="all compilers wait for the generator codegen, which computes in one thread",
        load=codegen,
        component=(r"codegen",),
        mechanism=COMPUTES,
        never=(r"\bdisk\b",),
        halves=True,
        needs=("ninja", "gcc", PYTHON),
    ),
    System(
        name="python_pool_item_by_item",
        kind="hand-over-per-item",
        truth="Python's pool hands each small task to its processes by itself, so that pipes, locks and wake-ups cost more than the work",
        load=tally,
        rate=ITEMS,
        component=(r"tally", r"python"),
        mechanism=(r"\bpipe", r"\block", r"mutex", r"semaphore", r"futex", r"wake", r"hand", r"\bread", r"\bwrit", r"per item", r"system call", r"queue", r"wait for one another"),
        never=(r"\bdisk\b", r"\bsleeps"),
        needs=(PYTHON,),
    ),
    System(
        name="bash_spool_polling",
        kind="polling-a-spool",
        truth="spooler sleeps 50 ms by `sleep` before it looks into its spool again",
        load=spool,
        rate=ITEMS,
        component=(r"spooler", r"\bsleep\b"),
        mechanism=SLEEPS,
        never=(r"comput", r"\bdisk\b"),
        change="x0",
        halves=True,
        needs=("bash", "sleep", PYTHON),
    ),
    System(
        name="go_http_next_to_spinners",
        kind="busy-spinning",
        truth="five processes of watcher spin and take the CPUs from the Go server",
        load=spinning,
        rate=WRK,
        component=(r"watcher",),
        mechanism=(r"CPU", r"preempt", r"runnable", r"spin", r"comput", r"\brun"),
        never=(r"\bdisk\b", r"\bsleeps"),
        running=True,
        needs=("gcc", "go", "wrk"),
    ),
    System(
        name="ruby_retry_back_off",
        kind="retry-back-off",
        truth="the Ruby client sleeps 40 ms whenever the store says 503, which it does to every fourth request",
        load=retries,
        rate=ITEMS,
        component=(r"fetcher", r"ruby"),
        mechanism=SLEEPS,
        never=(r"comput", r"\bdisk\b"),
        change="x0",
        halves=True,
        needs=("ruby", "go"),
    ),
    System(
        name="go_rpc_head_of_line",
        kind="head-of-line",
        truth="ledger handles the calls of its one connection one after the other, and sleeps 20 ms in every tenth",
        load=head_of_line,
        rate=ITEMS,
        component=(r"ledger",),
        mechanism=(*SLEEPS, r"one (\w+ )?at a time", r"one after (the other|another)", r"head.of.line", r"\bqueue"),
        never=(r"comput", r"\bdisk\b"),
        halves=True,
        needs=("go",),
    ),
    System(
        name="memcached_key_by_key",
        kind="n-plus-one",
        truth="basket asks memcached for each of its 100 keys by a call of its own",
        load=key_by_key,
        rate=ITEMS,
        component=(r"basket", r"memcached"),
        mechanism=(r"\bcalls?\b", r"round.?trip", r"back and forth", r"per item", r"one (\w+ )?at a time", r"one after (the other|another)", r"repl(y|ies)", r"requests?\b",
                   r"wait for one another", r"system call", r"wake"),
        never=(r"\bdisk\b", r"\bsleeps"),
        needs=("memcached", "go"),
    ),
]

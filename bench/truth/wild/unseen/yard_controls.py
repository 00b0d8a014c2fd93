"""Controls: gauges with a fixed pace, full CPUs with evenly distributed work, a service with few
requests.
"""
import os

from system import COMPUTES, ITEMS, SLEEPS, System

BUSY = (*COMPUTES, r"waits? for (a|the|its) CPU", r"\bCPUs? (is|are) (full|busy)", r"runnable", r"\bboth CPUs\b", r"all CPUs")
PACED = (*SLEEPS, r"\bidle", r"\btick", r"interval", r"pace", r"waits? for (work|input|something to do|requests?|a request|the next)")


def said(of, what):
    """Returns a pattern for a sentence that states one of `what` about one of the programs `of`."""
    return (f"\\b({of}).*({'|'.join(what)})",)


# Measures fifty times per second, and writes a line each time.
GAUGE = """
package main

import ("fmt"; "os"; "strconv"; "time")

func main() {
	seconds, _ := strconv.Atoi(os.Args[2])
	out, err := os.OpenFile(os.Args[1], os.O_WRONLY, 0)
	if err != nil { panic(err) }
	beat := time.NewTicker(20 * time.Millisecond)
	count := 0
	for begin := time.Now(); time.Since(begin) < time.Duration(seconds) * time.Second; count++ {
		<-beat.C
		level := 0
		for i := 0; i < 100000; i++ { level = (level * 31 + i) % 9973 }
		fmt.Fprintf(out, "level %d\\n", level)
	}
	fmt.Printf("measured %d\\n", count)
}
"""
LOGBOOK = """#!/usr/bin/ruby --disable=gems
last = []
File.open(ARGV[0]) do |levels|
  while (line = levels.gets)
    last = (last + [line.split[1].to_i]).last(200)
    File.write('mean', last.sum / last.size)
  end
end
"""


def gauges(place):
    pipe = place.folder / "levels"
    os.mkfifo(pipe)
    place.start(place.write("logbook", LOGBOOK), pipe)
    return [str(place.go("gauge", GAUGE)), str(pipe), str(place.seconds)]


# Two threads take small jobs from a queue that is never empty.
SORTER = """
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;

public class Main {
    public static void main(String[] words) throws Exception {
        long begin = System.nanoTime(), end = begin + Long.parseLong(words[0]) * 1000000000L;
        AtomicLong items = new AtomicLong();
        Thread[] hands = new Thread[2];
        for (int hand = 0; hand < 2; hand++) {
            int of = hand;
            hands[hand] = new Thread(() -> {
                Random cards = new Random(of);
                int[] box = new int[20000];
                while (System.nanoTime() < end) {
                    for (int i = 0; i < box.length; i++) box[i] = cards.nextInt();
                    Arrays.sort(box);
                    items.incrementAndGet();
                }
            }, "hand-" + hand);
            hands[hand].start();
        }
        for (Thread hand : hands) hand.join();
        System.out.printf("items %d seconds %.3f%n", items.get(), (System.nanoTime() - begin) / 1e9);
    }
}
"""


def two_hands(place):
    return ["java", "-Xmx64m", "-XX:+UseSerialGC", "-cp", str(place.java(SORTER)), "Main", str(place.seconds)]


# Returns the number of copies of a book on the shelf.
SHELF = r"""
-module(main).
-export([start/1]).

start([Port]) -> spawn(fun() -> open(list_to_integer(Port)) end).

open(Port) ->
    Books = ets:new(books, [public, {read_concurrency, true}]),
    [ets:insert(Books, {I, I rem 7}) || I <- lists:seq(1, 1000)],
    {ok, Door} = gen_tcp:listen(Port, [binary, {packet, line}, {active, false}, {reuseaddr, true}, {ip, {127, 0, 0, 1}}]),
    accept(Door, Books).

accept(Door, Books) ->
    {ok, Guest} = gen_tcp:accept(Door),
    serve(Guest, Books),
    accept(Door, Books).

serve(Guest, Books) ->
    case gen_tcp:recv(Guest, 0) of
        {ok, Line} ->
            [{_, Copies}] = ets:lookup(Books, binary_to_integer(string:trim(Line)) rem 1000 + 1),
            gen_tcp:send(Guest, [integer_to_list(Copies), $\n]),
            serve(Guest, Books);
        _ -> gen_tcp:close(Guest)
    end.
"""
DESK = """#!/usr/bin/tclsh
lassign $argv port seconds
set shelf [socket 127.0.0.1 $port]
fconfigure $shelf -buffering line
set asked 0
set end [expr {[clock milliseconds] + $seconds * 1000}]
while {[clock milliseconds] < $end} {
    puts $shelf $asked
    gets $shelf copies
    incr asked
    after 90
}
puts "asked $asked"
"""


def desk(place):
    folder = place.built(SHELF, ".erl", "sh", "-c", "mkdir {program} && erlc -o {program} {source}")
    port = place.port()
    place.start("env", "HOME=/tmp", "erl", "-noshell", "-noinput", "-boot", "start_clean", "-pa", folder, "-run", "main", "start", str(port), port=port)
    return [str(place.write("desk", DESK)), str(port), str(place.seconds)]


SYSTEMS = [
    System(
        name="control_gauge_pace",
        kind="control",
        truth="gauge measures fifty times in a second by intention, and logbook keeps up with it",
        load=gauges,
        acceptable=said("gauge|logbook|ruby", PACED),
        running=True,
        needs=("go", "ruby"),
    ),
    System(
        name="control_two_hands",
        kind="control",
        truth="two threads of java sort boxes of their own on two CPUs, and share nothing",
        load=two_hands,
        rate=ITEMS,
        acceptable=said("java|hand|CPUs?", BUSY),
        needs=("java", "javac"),
    ),
    System(
        name="control_seldom_asked",
        kind="control",
        truth="desk asks a service in Erlang eleven times in a second by intention, and both are idle most of the time",
        load=desk,
        acceptable=said("desk|tclsh|beam|erl", PACED),
        needs=("erl", "erlc", "tclsh"),
    ),
]

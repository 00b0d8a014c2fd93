"""Waits within language runtimes: switch intervals, nested pools, cloned interpreters, locked
threads, heaps.
"""
from system import COMPUTES, ITEMS, LOCKS, PYTHON, SLEEPS, System

# One thread of the server computes in pure Python. The other one answers requests and needs the
# interpreter lock.
TICKETS = """#!/usr/bin/python3
import socket, sys, threading
sys.setswitchinterval(float(sys.argv[2]))

def forecast():
    value = 1
    while True:
        for i in range(1000):
            value = (value * 31 + i) % 1000003

threading.Thread(target=forecast, daemon=True).start()
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    client, _ = server.accept()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while asked := client.recv(100):
        client.sendall(b"seat " + asked)
"""
KIOSK = """#!/usr/bin/perl
use strict; use IO::Socket::INET; use Time::HiRes 'time'; use Socket;
my ($port, $seconds) = @ARGV;
my $box = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die;
setsockopt($box, Socket::IPPROTO_TCP(), Socket::TCP_NODELAY(), 1);
my ($items, $begin) = (0, time);
while (time < $begin + $seconds) {
    syswrite $box, "row $items\\n";
    sysread $box, my $answer, 100;
    $items++;
}
printf "items %d seconds %.3f\\n", $items, time - $begin;
"""


def switching(place):
    port = place.port()
    interval = 0.02 * place.fault if place.fault else 0.0002
    place.start(place.write("tickets", TICKETS), port, interval, port=port)
    return [str(place.write("kiosk", KIOSK)), str(port), str(place.seconds)]


# Each statement waits for its two halves, which are queued for threads of the same pool.
NESTED = r"""
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;

public class Main {
    static long sum(int from) {
        long sum = 0;
        for (int i = 0; i < 20000; i++) sum = sum * 31 + (from ^ i);
        return sum;
    }

    static ExecutorService pool(String name) {
        AtomicInteger number = new AtomicInteger();
        return Executors.newFixedThreadPool(4, job -> new Thread(job, name + "-" + number.incrementAndGet()));
    }

    public static void main(String[] words) throws Exception {
        int patience = Integer.parseInt(words[0]);
        ExecutorService statements = pool("statement");
        ExecutorService halves = words[1].equals("own") ? pool("half") : statements;
        AtomicLong items = new AtomicLong(), total = new AtomicLong();
        long begin = System.nanoTime(), end = begin + (long) (Double.parseDouble(words[2]) * 1e9);
        Thread[] customers = new Thread[8];
        for (int c = 0; c < customers.length; c++) {
            int customer = c;
            customers[c] = new Thread(() -> {
                try {
                    while (System.nanoTime() < end) {
                        statements.submit(() -> {
                            List<Future<Long>> parts = new ArrayList<>();
                            for (int p = 0; p < 2; p++) {
                                int part = p;
                                parts.add(halves.submit(() -> sum(customer * 2 + part)));
                            }
                            for (int p = 0; p < 2; p++) {
                                try {
                                    total.addAndGet(parts.get(p).get(patience, TimeUnit.MILLISECONDS));
                                } catch (TimeoutException late) {
                                    parts.get(p).cancel(false);
                                    total.addAndGet(sum(customer * 2 + p));
                                }
                            }
                            return 0;
                        }).get();
                        items.incrementAndGet();
                    }
                } catch (Exception error) {
                    throw new RuntimeException(error);
                }
            }, "customer-" + c);
            customers[c].start();
        }
        for (Thread customer : customers) customer.join();
        System.out.printf("items %d seconds %.3f%n", items.get(), (System.nanoTime() - begin) / 1e9);
        System.exit(0);
    }
}
"""


def nested(place):
    return ["java", "-Xmx128m", "-cp", str(place.java(NESTED)), "Main", str(int(60 * place.scale)), "own" if place.fixed else "same", str(place.seconds)]


# A new Perl thread gets a copy of all data of the interpreter, here a price list.
CLONES = """#!/usr/bin/perl
use strict; use threads;
my ($prices, $orders) = @ARGV;
my %price;
sub checked { my ($sum, $order) = (0, @_); $sum += $order * $_ % 97 for 1 .. 20000; return $sum }
my $fill = sub { $price{"article $_"} = [$_ % 1000, "box $_"] for 1 .. $_[0] };
$fill->($prices);
for my $order (1 .. $orders) {
    threads->create(\\&checked, $order)->join;
}
"""


def cloned(place):
    return [str(place.write("tillserver", CLONES)), str(int(60000 * place.fault)), "40"]


# The goroutine that owns the device is bound to a thread of the kernel, so that each step wakes a thread.
LOCKED = r"""
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
)

func plot(steps, done chan int, locked bool) {
	if locked {
		runtime.LockOSThread()
	}
	for step := range steps {
		done <- step*7 + 1
	}
}

func main() {
	count, _ := strconv.Atoi(os.Args[1])
	steps, done := make(chan int), make(chan int)
	go plot(steps, done, os.Args[2] == "locked")
	if os.Args[2] == "locked" {
		runtime.LockOSThread()
	}
	sum := 0
	for i := 0; i < count; i++ {
		steps <- i
		sum += <-done
	}
	fmt.Println(sum)
}
"""


def locked(place):
    return [str(place.go("plotdrive", LOCKED)), "60000", "free" if place.fixed else "locked"]


# Each bill is a Java program whose heap is touched page by page before the program begins.
BILL = r"""
public class Main {
    public static void main(String[] words) {
        long sum = 0;
        for (int i = 0; i < 1000; i++) sum += i * words.length;
        System.out.println("bill of " + sum);
    }
}
"""


def pretouched(place):
    heap = int(1400 * place.scale)
    touch = "-XX:-AlwaysPreTouch" if place.fixed else "-XX:+AlwaysPreTouch"
    script = f"#!/bin/bash\nfor bill in 1 2 3; do java -XX:+UseSerialGC {touch} -Xms{heap}m -Xmx{heap}m -cp {place.java(BILL)} Main $bill; done\n"
    return [str(place.write("billing", script))]


SYSTEMS = [
    System(
        name="python_switch_interval",
        kind="interpreter-switch-interval",
        truth="the thread of tickets that answers waits up to 20 ms, the switch interval, until the computing thread gives it the lock of the interpreter",
        load=switching,
        rate=ITEMS,
        component=(r"tickets", r"python"),
        mechanism=(*LOCKS, r"interpreter", r"\bGIL\b", r"switch interval", r"condition", r"futex", r"time-?out", r"(another|other|one) (of its )?threads?"),
        never=(r"(kiosk|perl)[^.;]* (sleeps|computes)", r"\bdisk\b"),
        needs=(PYTHON, "perl"),
    ),
    System(
        name="java_nested_pool",
        kind="nested-pool",
        truth="the four statement threads of Java wait 60 ms, until their time is out, for halves that are queued for the same four threads",
        load=nested,
        rate=ITEMS,
        component=(r"\bjava", r"statement"),
        mechanism=(*SLEEPS, r"time-?out", r"times? out", r"\bwait(s|ing)? (up to |for )?[\d.]+ ?m?s", r"timed", r"pool", r"deadline",
                   r"wait(s|ing)? for (\w+ )?(thread|itself|another|one another|each other|work)"),
        never=(r"\bdisk\b", r"garbage", r"\bcomputes"),
        change="x0",
        halves=True,
        needs=("java", "javac"),
    ),
    System(
        name="perl_thread_clone",
        kind="interpreter-clone",
        truth="tillserver, a perl, copies its whole interpreter with a large price list for each thread that it starts, one for each order",
        load=cloned,
        component=(r"tillserver", r"perl"),
        mechanism=(*COMPUTES, r"clon", r"cop(y|ies)", r"page fault", r"faults", r"starts? (a |many |new |one )?(\w+ )?thread", r"\bCPU", r"\bruns?\b"),
        never=(r"\bsleeps", r"\bdisk\b"),
        halves=True,
        needs=("perl",),
    ),
    System(
        name="go_locked_threads",
        kind="locked-os-thread",
        truth="two goroutines of plotdrive are locked to threads of their own, so that each step wakes one thread of the kernel after the other",
        load=locked,
        component=(r"plotdrive",),
        mechanism=(r"wake", r"woken", r"hand(s|ed|ing)?[- ]?(over|off)", r"futex", r"round trip", r"switch", r"tak(e|ing)s? turns", r"schedul", r"ping.?pong",
                   r"(each|one an)other", r"one (\w+ )?at a time", r"\block"),
        never=(r"\bdisk\b", r"garbage"),
        needs=("go",),
    ),
    System(
        name="java_touched_heap",
        kind="pretouched-heap",
        truth="each java that billing starts touches all of its heap of 1.4 GB before it begins, and the kernel clears its pages",
        load=pretouched,
        component=(r"\bjava\b", r"\bMain\b"),
        mechanism=(r"page fault", r"\bfaults?\b", r"clear", r"memory", r"\bpages?\b", r"touch", r"zero"),
        never=(r"\bdisk\b", r"\bsleeps", r"garbage"),
        halves=True,
        needs=("java", "javac", "bash"),
    ),
]

"""Delays for which others wait: a tick, a scheduler with one thread, a lock held at low priority.
"""
import os

from system import ITEMS, LOCKS, PYTHON, SLEEPS, System

ONE_BY_ONE = (r"one (\w+ )*(at a time|after)", r"serial", r"sequential")

# Collects messages and confirms all of them at the next tick; without a tick, immediately.
COMMITTER = """
package main

import ("bufio"; "net"; "os"; "time")

func main() {
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil { panic(err) }
	tick, _ := time.ParseDuration(os.Args[2])
	arrived := make(chan net.Conn, 64)
	go func() {
		if tick == 0 {
			for connection := range arrived { connection.Write([]byte("kept\\n")) }
		}
		for range time.Tick(tick) {
			for n := len(arrived); n > 0; n-- { (<-arrived).Write([]byte("kept\\n")) }
		}
	}()
	for {
		connection, _ := listener.Accept()
		go func() {
			for lines := bufio.NewScanner(connection); lines.Scan(); { arrived <- connection }
		}()
	}
}
"""

TILLS = """
import socket, sys, threading, time
done = []

def sell():
    with socket.socket(socket.AF_UNIX) as committer:
        committer.connect(sys.argv[1])
        count = 0
        while time.monotonic() < end:
            receipt = ",".join(str(price * 119 // 100) for price in range(300))
            committer.sendall(f"{len(receipt)}\\n".encode())
            committer.recv(16)
            count += 1
        done.append(count)

begin = time.monotonic()
end = begin + float(sys.argv[2])
threads = [threading.Thread(target=sell) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(f"items {sum(done)} seconds {time.monotonic() - begin:.3f}")
"""


def tick(place):
    path = place.folder / "committer.socket"
    place.start(place.go("committer", COMMITTER), path, f"{24 * place.fault:g}ms", path=path)
    return [PYTHON, str(place.write("tills.py", TILLS)), str(path), str(place.seconds)]


# Answers each line after a millisecond, with the scheduler that also checks the peers.
REMINDERS = """
import java.io.*;
import java.util.concurrent.*;

public class Main {
    public static void main(String[] words) throws Exception {
        long slow = Math.round(Double.parseDouble(words[0]));
        ScheduledExecutorService scheduler = Executors.newSingleThreadScheduledExecutor(work -> new Thread(work, "scheduler"));
        scheduler.scheduleWithFixedDelay(() -> {
            try { Thread.sleep(slow); } catch (InterruptedException e) { }
        }, 0, 10, TimeUnit.MILLISECONDS);
        BufferedReader in = new BufferedReader(new FileReader("orders"));
        PrintStream out = new PrintStream(new FileOutputStream("answers"), true);
        for (String line; (line = in.readLine()) != null; ) {
            String order = line;
            scheduler.schedule(() -> out.println("planned " + order), 1, TimeUnit.MILLISECONDS);
        }
        System.exit(0);
    }
}
"""

PLAN = """#!/usr/bin/ruby
orders, answers = File.open('orders', 'w'), File.open('answers')
orders.sync = true
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
items = 0
while Process.clock_gettime(Process::CLOCK_MONOTONIC) < start + ARGV[0].to_f
  orders.puts items
  answers.gets
  items += 1
end
puts "items #{items} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""


def one_scheduler(place):
    for pipe in "orders", "answers":
        os.mkfifo(place.folder / pipe)
    place.start("java", "-Xmx64m", "-cp", place.java(REMINDERS), "Main", 40 * place.fault)
    return [str(place.write("plan", PLAN)), str(place.seconds)]


# meteo (low priority), comms (middle) and bus (high) share one CPU; meteo and bus share a lock.
ROVER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t of)
{
	struct timespec t;
	clock_gettime(of, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void compute(double ms)
{
	double end = seconds(CLOCK_THREAD_CPUTIME_ID) + ms / 1e3;
	while (seconds(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

int main(int count, char **arguments)
{
	char *self = strrchr(arguments[0], '/') + 1;
	struct sched_param priority = { !strcmp(self, "meteo") ? 10 : !strcmp(self, "comms") ? 20 : 30 };
	cpu_set_t last;
	CPU_ZERO(&last);
	CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &last);
	if (sched_setaffinity(0, sizeof last, &last) || sched_setscheduler(0, SCHED_FIFO, &priority))
		return 1;
	if (!strcmp(self, "comms"))
		for (double ms = atof(arguments[2]);; usleep(10000))
			compute(ms);
	int file = open(arguments[1], O_RDWR | O_CREAT, 0600);
	if (ftruncate(file, 4096))
		return 1;
	pthread_mutex_t *lock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (!strcmp(self, "meteo")) {
		pthread_mutexattr_t attributes;
		pthread_mutexattr_init(&attributes);
		pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
		if (!strcmp(arguments[2], "inherit"))
			pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
		pthread_mutex_init(lock, &attributes);
		close(open(arguments[3], O_WRONLY | O_CREAT, 0600));
		for (;; usleep(50)) {
			pthread_mutex_lock(lock);
			compute(2);
			pthread_mutex_unlock(lock);
		}
	}
	long items = 0;
	double begin = seconds(CLOCK_MONOTONIC), end = begin + atof(arguments[2]);
	for (; seconds(CLOCK_MONOTONIC) < end; items++) {
		pthread_mutex_lock(lock);
		compute(0.1);
		pthread_mutex_unlock(lock);
		usleep(3000);
	}
	printf("items %ld seconds %.3f\n", items, seconds(CLOCK_MONOTONIC) - begin);
}
"""


def priorities(place):
    meteo, comms, bus = (place.c(name, ROVER) for name in ("meteo", "comms", "bus"))
    shared, ready = place.folder / "shared", place.folder / "ready"
    place.start(meteo, shared, "inherit" if place.fixed else "plain", ready, path=ready)
    place.start(comms, shared, 60 * place.scale)
    return [str(bus), str(shared), str(place.seconds)]


SYSTEMS = [
    System(
        name="go_commit_tick",
        kind="timer-tick",
        truth="committer confirms only at its tick of 24 ms",
        load=tick,
        rate=ITEMS,
        component=(r"committer",),
        mechanism=(*SLEEPS, r"\btick", r"interval", r"periodic"),
        never=(r"comput", r"\bdisk\b"),
        change="x0",
        halves=True,
        running=True,
        needs=("go", PYTHON),
    ),
    System(
        name="java_one_scheduler",
        kind="shared-scheduler",
        truth="the one thread of a Java scheduler sleeps 40 ms in a periodic task, and answers nothing meanwhile",
        load=one_scheduler,
        rate=ITEMS,
        component=(r"\bjava", r"scheduler"),
        mechanism=(*SLEEPS, *ONE_BY_ONE),
        never=(r"comput", r"\bdisk\b", r"collect"),
        halves=True,
        running=True,
        needs=("java", "javac", "ruby"),
    ),
    System(
        name="priority_inversion",
        kind="priority-inversion",
        truth="meteo, which holds a lock that bus wants, does not get the CPU, because comms has a higher priority",
        load=priorities,
        rate=ITEMS,
        component=(r"meteo", r"comms"),
        mechanism=(*LOCKS, r"preempt", r"priorit", r"waits? for (a|the|its) CPU", r"(has|had|keeps|takes|occupies) (the|a|its) CPU", r"runnable"),
        never=(r"\bdisk\b", r"\bsleeps"),
        halves=True,
        needs=("gcc",),
    ),
]

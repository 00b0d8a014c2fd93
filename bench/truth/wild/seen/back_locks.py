"""A lock in shared memory whose readers starve the writer, and healthy systems."""
from services import redis
from system import COMPUTES, ITEMS, LOCKS, PYTHON, SLEEPS, System

# Readers and a writer in processes of their own, with a lock in memory that they share.
TARIFFS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { READERS = 4 };
static struct { pthread_rwlock_t lock; unsigned table[4096]; } *shared;

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static unsigned compute(int turns)
{
    unsigned sum = 1;
    for (int turn = 0; turn < turns; turn++)
        for (int at = 0; at < 4096; at++) sum = sum * 31 + shared->table[at];
    return sum;
}

/* usage: tariffs readers|writer SECONDS: who goes first. */
int main(int count, char **words)
{
    pthread_rwlockattr_t how;
    int reader;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_rwlockattr_init(&how);
    pthread_rwlockattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    if (!strcmp(words[1], "writer"))
        pthread_rwlockattr_setkind_np(&how, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&shared->lock, &how);
    pid_t readers[READERS];
    for (reader = 0; reader < READERS; reader++)
        if (!(readers[reader] = fork())) {
            prctl(PR_SET_NAME, "quoter");
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (srand(reader);;) {
                pthread_rwlock_rdlock(&shared->lock);
                /* The answer goes to a slow partner, still under the lock. */
                usleep(2500 + rand() % 1000);
                pthread_rwlock_unlock(&shared->lock);
                compute(40);
                usleep(1500);
            }
        }
    prctl(PR_SET_NAME, "updater");
    int items = 0;
    double begin = now();
    while (now() < begin + atof(words[2])) {
        unsigned sum = compute(300);
        pthread_rwlock_wrlock(&shared->lock);
        shared->table[items++ % 4096] = sum;
        pthread_rwlock_unlock(&shared->lock);
    }
    printf("items %d seconds %.3f\n", items, now() - begin);
    for (reader = 0; reader < READERS; reader++)
        kill(readers[reader], SIGKILL), waitpid(readers[reader], NULL, 0);
    return 0;
}
"""


def writer_starves(place):
    tariffs = place.c("tariffs", TARIFFS)
    return [str(tariffs), "writer" if place.fixed else "readers", str(place.seconds)]


LEAGUE = """#!/usr/bin/python3
# usage: league PORT SECONDS: forty times a second, enters a result and asks for the first ten.
import sys, time
import redis

server = redis.Redis(port=int(sys.argv[1]))
begin, items = time.monotonic(), 0
while time.monotonic() < begin + float(sys.argv[2]):
    server.zincrby("league", items % 7, f"club{items % 40}")
    server.zrevrange("league", 0, 9)
    items += 1
    time.sleep(max(0, begin + items / 40 - time.monotonic()))
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def league(place):
    return [str(place.write("league", LEAGUE)), str(redis(place)), str(place.seconds)]


# Two processes with equal work and a bounded pipe between them. Each has a CPU of its own.
PRESS = """#!/usr/bin/python3
# usage: press SECONDS: a printer packs sheets, a binder unpacks and packs them again.
import os, sys, time, zlib

sheet = b"".join(b"line %d of the sheet " % (number * 7919 % 9973) for number in range(900))
reading, writing = os.pipe()
if binder := os.fork():
    os.close(reading)
    with open("/proc/self/comm", "w") as name:
        name.write("printer")
    begin, items = time.monotonic(), 0
    while time.monotonic() < begin + float(sys.argv[1]):
        packed = zlib.compress(sheet, 6)
        os.write(writing, packed.ljust(16384, b"."))
        items += 1
    os.close(writing)
    os.waitpid(binder, 0)
    print(f"items {items} seconds {time.monotonic() - begin:.3f}")
else:
    os.close(writing)
    with open("/proc/self/comm", "w") as name:
        name.write("binder")
    with open(reading, "rb") as source:
        while len(source.read(16384)) == 16384:
            zlib.compress(sheet, 6)
"""


def press(place):
    return [str(place.write("press", PRESS)), str(place.seconds)]


SHELVES = """#!/bin/bash
# usage: shelves: packs all crates with bzip2, two at once.
ls crate-* | xargs -n 1 -P 2 bzip2 -k
cat crate-*.bz2 | cksum
"""


def shelves(place):
    words = [f"crate{number * 7919 % 100003}" for number in range(60000)]
    for number in range(12):
        turned = words[number * 50:] + words[:number * 50]
        (place.folder / f"crate-{number:02}").write_text(" ".join(turned) * 5)
    return [str(place.write("shelves", SHELVES))]


BUSY = (*COMPUTES, r"\bruns\b", r"waits? for (a|the|its) CPU",
        r"CPUs? (is|are) (full|busy)", r"runnable")


def said(of, what):
    """Returns a pattern for a sentence that states one of `what` about one of the programs `of`."""
    return (f"\\b({of}).*({'|'.join(what)})",)


SYSTEMS = [
    System(
        name="shared_writer_starves",
        kind="writer-starvation",
        truth=("four quoters hold the shared lock in turn for reading while they sleep 3 ms, and"
               " new ones pass the waiting updater, which has to wait for the lock until none of"
               " them has it"),
        load=writer_starves,
        rate=ITEMS,
        component=(r"updater", r"quoter", r"tariffs"),
        mechanism=(*LOCKS, r"\bsleep", r"futex", r"starv"),
        never=(r"f(data)?sync", r"\bdisk\b", r"(updater|quoter|tariffs) comput",
               r"network", r"page faults?"),
        needs=("gcc",),
    ),
    System(
        name="control_redis_league",
        kind="control",
        truth=("league enters forty results a second in redis and sleeps between them; nothing is "
               "short"),
        load=league,
        rate=ITEMS,
        acceptable=said("league|python", (*SLEEPS, r"\bidle", r"\btick", r"interval", r"pace")),
        running=True,
        needs=("redis-server", PYTHON),
    ),
    System(
        name="control_pipe_press",
        kind="control",
        truth=("printer and binder compute for the same time for each sheet, each on a CPU of its "
               "own"),
        load=press,
        rate=ITEMS,
        acceptable=said("press|printer|binder|python", BUSY),
        needs=(PYTHON,),
    ),
    System(
        name="control_bzip2_crates",
        kind="control",
        truth="two bzip2 at once compute all the time on both CPUs",
        load=shelves,
        acceptable=said("bzip2|xargs|shelves", BUSY),
        needs=("bzip2", "xargs", "bash", "cksum"),
    ),
]

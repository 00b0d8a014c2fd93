"""Programs on one host that are delayed: by a frozen control group, its limit of processes, an
order of turns, a thundering herd.
"""
import contextlib
import os
import signal
import time
from pathlib import Path

from system import ITEMS, LOCKS, SLEEPS, System


def control_group(place, kind):
    """A control group of version 1 or 2. Processes that are left in it are ended with the place."""
    root = Path("/sys/fs/cgroup")
    group = (root / kind if (root / kind).is_dir() else root) / f"wild-{kind}-{os.getpid()}"
    group.mkdir()

    def removed():
        for _ in range(100):
            with contextlib.suppress(OSError):
                (group / "freezer.state").exists() and (group / "freezer.state").write_text("THAWED")
                for pid in (group / "cgroup.procs").read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                group.rmdir()
                return
            time.sleep(0.05)
    place.stack.callback(removed)
    return group


# Stops all processes of the container while the storage takes a snapshot.
SNAPSHOTD = """#!/usr/bin/perl
use strict;
use Time::HiRes 'sleep';
my ($state, $picture, $on, $off) = @ARGV;
sub says { open(my $file, '>', $state) or exit; print $file @_; close $file }
open(my $ready, '>', 'snapshotd.ready'); close $ready;
while (1) {
    says($on) if $on ne 'none';
    sleep($picture) if $picture > 0;
    says($off) if $on ne 'none';
    sleep(0.03);
}
"""


def frozen(place):
    group = control_group(place, "freezer")
    old = (group / "freezer.state").exists()
    (place.folder / "ledger.raw").write_bytes(b"".join(b"%d;%d\n" % (n, n * n * 7919 % 100003) for n in range(170000)))
    words = ("none", "none") if place.fixed else ("FROZEN", "THAWED") if old else ("1", "0")
    place.start(place.write("snapshotd", SNAPSHOTD), group / ("freezer.state" if old else "cgroup.freeze"), 0.12 * place.fault, *words, path=place.folder / "snapshotd.ready")
    return ["sh", "-c", f"echo $$ > {group}/cgroup.procs && exec xz -T1 -1 -k ledger.raw"]


# Renders pages in separate processes. If it cannot start one, it tries again later.
NIGHTLY = """#!/usr/bin/perl
use strict;
use Time::HiRes 'sleep';
$SIG{CHLD} = 'IGNORE';
for my $page (1 .. 36) {
    my $child;
    until (defined($child = fork)) { sleep($ARGV[0]) }
    next if $child;
    my $sum = 0;
    $sum = ($sum * 31 + $_) % 65521 for 1 .. 300000;
    exit;
}
1 while wait != -1;
"""


def process_limit(place):
    group = control_group(place, "pids")
    (group / "pids.max").write_text("200" if place.fixed else "4")
    script = place.write("nightly", NIGHTLY)
    return ["sh", "-c", f"echo $$ > {group}/cgroup.procs && exec {script} {0.4 * place.scale:g}"]


# Eight threads draw strips. A device needs some milliseconds for each strip.
PLOTTER = r"""
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words)
{
    int is_ordered = !strcmp(words[1], "ordered"), pause = atof(words[2]) * 1e6, items = 0;
    double begin = omp_get_wtime(), sum = 0;
    while (omp_get_wtime() < begin + atof(words[3])) {
        if (is_ordered) {
            #pragma omp parallel for ordered schedule(static, 1) num_threads(8) reduction(+ : sum)
            for (int strip = 0; strip < 32; strip++) {
                for (int n = 1; n < 20000; n++) sum += 1.0 / (n + strip);
                #pragma omp ordered
                usleep(pause);
            }
        } else {
            #pragma omp parallel for schedule(static, 1) num_threads(8) reduction(+ : sum)
            for (int strip = 0; strip < 32; strip++) {
                for (int n = 1; n < 20000; n++) sum += 1.0 / (n + strip);
                usleep(pause);
            }
        }
        items += 32;
    }
    printf("items %d seconds %.3f %g\n", items, omp_get_wtime() - begin, sum);
}
"""


def ordered_strips(place):
    return [str(place.c("plotter", PLOTTER, "-fopenmp")), "free" if place.fixed else "ordered", str(0.006 * place.scale), str(place.seconds)]


# Each order is for one of the desks. A desk that wakes looks through the open orders.
EXCHANGE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DESKS = 48, BOOK = 200000 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed[DESKS], settled = PTHREAD_COND_INITIALIZER;
static int to_all, book[BOOK], order = -1;

static void *desk(void *number)
{
    int own = (long)number;
    pthread_mutex_lock(&lock);
    while (1) {
        pthread_cond_wait(&changed[to_all ? 0 : own], &lock);
        int open = 0;
        for (int n = 0; n < BOOK; n++) open += book[n] == own;
        if (!open) continue;
        book[order] = -1;
        order = -1;
        pthread_cond_signal(&settled);
    }
    return 0;
}

static double now(void)
{
    struct timespec at;
    return clock_gettime(CLOCK_MONOTONIC, &at), at.tv_sec + at.tv_nsec * 1e-9;
}

int main(int count, char **words)
{
    pthread_t thread;
    int items = 0;
    to_all = !strcmp(words[1], "broadcast");
    memset(book, -1, sizeof book);
    for (long n = 0; n < DESKS; n++) pthread_cond_init(&changed[n], 0);
    for (long n = 0; n < DESKS; n++) pthread_create(&thread, 0, desk, (void *)n);
    nanosleep(&(struct timespec){0, 100000000}, 0);
    double begin = now();
    while (now() < begin + atof(words[2])) {
        pthread_mutex_lock(&lock);
        order = items * 7919L % BOOK;
        book[order] = items % DESKS;
        if (to_all) pthread_cond_broadcast(&changed[0]);
        else pthread_cond_signal(&changed[items % DESKS]);
        while (order >= 0) pthread_cond_wait(&settled, &lock);
        pthread_mutex_unlock(&lock);
        items++;
    }
    printf("items %d seconds %.3f\n", items, now() - begin);
    exit(0);
}
"""


def herd(place):
    return [str(place.c("exchange", EXCHANGE)), "signal" if place.fixed else "broadcast", str(place.seconds)]


SYSTEMS = [
    System(
        name="xz_frozen_group",
        kind="frozen-group",
        truth="snapshotd freezes the control group of xz, and sleeps 120 ms before it lets it go on for 30 ms",
        load=frozen,
        component=(r"\bxz\b", r"snapshotd", r"control group", r"cgroup"),
        mechanism=(*SLEEPS, r"fr[eo]ez", r"frozen", r"stopped", r"\bheld\b", r"holds (it|xz) back", r"control group", r"cgroup", r"suspend", r"paused"),
        never=(r"\bxz comput", r"snapshotd comput", r"\bdisk\b"),
        halves=True,
        needs=("xz", "perl"),
    ),
    System(
        name="perl_process_limit",
        kind="process-limit",
        truth="the control group of nightly may have four processes, so that fork fails and nightly sleeps 0.4 s before it tries again",
        load=process_limit,
        component=(r"nightly", r"\bperl\b"),
        mechanism=(*SLEEPS, r"fork fail", r"(limit|number) of (processes|pids)", r"\bpids\b", r"tries again", r"retr(y|ies)"),
        never=(r"(nightly|perl) comput",),
        halves=True,
        needs=("perl",),
    ),
    System(
        name="openmp_ordered_strips",
        kind="ordered-section",
        truth="the threads of plotter sleep 6 ms for each strip in an ordered section, so that one strip is plotted at a time",
        load=ordered_strips,
        rate=ITEMS,
        component=(r"plotter",),
        mechanism=(*SLEEPS, *LOCKS, r"one after (the other|another)", r"in (turn|order|sequence)", r"serial"),
        never=(r"plotter comput",),
        change="x0.125",
        halves=True,
        needs=("gcc",),
    ),
    System(
        name="c_thundering_herd",
        kind="thundering-herd",
        truth="each order wakes all 48 threads of exchange, which look through the book one after the other under a mutex, though it is for one of them",
        load=herd,
        rate=ITEMS,
        component=(r"exchange",),
        mechanism=(*LOCKS, r"\bw[ao]kes?\b", r"woken", r"wake-?ups?", r"herd", r"condition variable", r"one after (the other|another)"),
        never=(r"exchange sleep", r"\bdisk\b"),
        needs=("gcc",),
    ),
]

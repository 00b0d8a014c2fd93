"""Programs with an expensive system call: one publishes tables, the other one acts for its users.
"""
from system import ITEMS, PYTHON, System

CALLS = (r"system calls?", r"syscalls?", r"\bkernel\b")

# Computes all prices again at each new rate, and frees the old table when no reader uses it.
TARIFF = r"""
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ARTICLES = 400000 };
static _Atomic(double *) current;
static atomic_int done;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void *quote(void *unused)
{
	double sum = 0;
	for (int i = 0; !done; i++) {
		sum += atomic_load(&current)[i * 7919 % ARTICLES];
		usleep(5000);
	}
	return NULL;
}

int main(int count, char **words)
{
	int command = strcmp(words[2], "all") ? MEMBARRIER_CMD_PRIVATE_EXPEDITED : MEMBARRIER_CMD_GLOBAL;
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	double *table = calloc(ARTICLES, sizeof *table), *next = calloc(ARTICLES, sizeof *next);
	for (int i = 0; i < ARTICLES; i++)
		table[i] = 1 + i % 1000;
	current = table;
	pthread_t reader;
	pthread_create(&reader, NULL, quote, NULL);
	FILE *rates = fopen(words[3], "r");
	char line[64];
	long items = 0;
	double begin = now(), end = begin + atof(words[1]);
	while (now() < end && fgets(line, sizeof line, rates)) {
		double rate = atof(line);
		for (int i = 0; i < ARTICLES; i++)
			next[i] = (long)(table[i] * rate / (1 + rate * 1e-3) * 100 + 0.5) / 100.0 + 0.01;
		atomic_store(&current, next);
		syscall(SYS_membarrier, command, 0, 0);
		double *old = table;
		table = next;
		next = old;
		items++;
	}
	printf("items %ld seconds %.3f\n", items, now() - begin);
	done = 1;
	pthread_join(reader, NULL);
}
"""
BOURSE = """#!/usr/bin/perl
open my $rates, '>', $ARGV[0] or die;
for (my $i = 0; ; $i++) { printf $rates "%.4f\\n", 1 + ($i % 21 - 10) / 1000 or exit }
"""


def published(place):
    place.run("mkfifo", "rates")
    place.start(place.write("bourse", BOURSE), "rates")
    return [str(place.c("tariff", TARIFF)), str(place.seconds), "own" if place.fixed else "all", "rates"]


# One thread per reader at its desk. Books are opened with the reader's privileges.
LENDER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static int whole;

static void become(uid_t user)
{
	if (whole ? seteuid(user) : syscall(SYS_setresuid, -1, user, -1))
		perror("become");
}

static void *serve(void *of)
{
	int desk = (long)of;
	char name[256], text[65536];
	ssize_t length;
	while ((length = read(desk, name, sizeof name - 1)) > 0) {
		name[length] = 0;
		become(1000);
		int book = open(name, O_RDONLY);
		length = book < 0 ? 0 : read(book, text, sizeof text);
		if (book >= 0)
			close(book);
		become(0);
		int sum = 0;
		for (ssize_t i = 0; i < length; i++)
			sum = sum * 31 + text[i];
		length = snprintf(text, sizeof text, "%d\n", sum);
		if (write(desk, text, length) < 0)
			break;
	}
	close(desk);
	return NULL;
}

int main(int count, char **words)
{
	whole = !strcmp(words[2], "whole");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	strncpy(address.sun_path, words[1], sizeof address.sun_path - 1);
	int door = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(door, (void *)&address, sizeof address) || listen(door, 200))
		return 1;
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 1 << 18);
	for (;;) {
		pthread_t thread;
		long desk = accept(door, NULL, NULL);
		if (desk >= 0 && pthread_create(&thread, &small, serve, (void *)desk))
			return 1;
	}
}
"""
READERS = """#!/usr/bin/python3
import os, socket, sys, time
path, seconds, folder = sys.argv[1], float(sys.argv[2]), os.getcwd()
desks = []
for _ in range(60):
    desk = socket.socket(socket.AF_UNIX)
    desk.connect(path)
    desks.append(desk)
items, begin, desk = 0, time.monotonic(), desks[0]
while time.monotonic() < begin + seconds:
    desk.sendall(b"%s/book%d" % (folder.encode(), items % 20))
    desk.recv(64)
    items += 1
print("items %d seconds %.3f" % (items, time.monotonic() - begin))
"""


def lent(place):
    for number in range(20):
        place.write(f"book{number}", "It was a dark and stormy night. " * 300, 0o644)
    path = place.folder / "lender.socket"
    place.start(place.c("lender", LENDER), path, "thread" if place.fixed else "whole", path=path)
    return [str(place.write("readers", READERS)), str(path), str(place.seconds)]


SYSTEMS = [
    System(
        name="c_global_membarrier",
        kind="grace-period",
        truth="tariff calls membarrier for all processes after each new rate, and waits about 10 ms in it for a grace period of RCU",
        load=published,
        rate=ITEMS,
        component=(r"tariff",),
        mechanism=(*CALLS, r"membarrier", r"barrier", r"grace", r"\brcu", r"synchroni"),
        never=(r"bourse (computes|sleeps)", r"\bdisk\b"),
        needs=("gcc", "perl", "mkfifo"),
    ),
    System(
        name="c_setuid_all_threads",
        kind="credential-broadcast",
        truth="lender changes its user for each book by seteuid of the C library, which interrupts each of its 60 threads by a signal and waits for all",
        load=lent,
        rate=ITEMS,
        component=(r"lender",),
        mechanism=(*CALLS, r"set\w*uid", r"setxid", r"credential", r"signal", r"interrupt", r"(its|other|all|own|many|\d+) threads", r"one another", r"\bwak(e|es|ing|en|ed)\b",
                   r"futex", r"context switch", r"waits? for (a|the|its) CPU", r"runnable", r"thread switch"),
        never=(r"\bdisk\b", r"\bsleeps", r"readers computes"),
        running=True,
        needs=("gcc", PYTHON),
    ),
]

"""Processes that are traced, stopped, forked, or started for each job, and a slow process in a
pipe.
"""
from system import COMPUTES, ITEMS, System

# Answers requests on a Unix socket. Each needs some small reads of the index.
INDEXD = r"""
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	strcpy(address.sun_path, arguments[1]);
	int index = open(arguments[2], O_RDONLY), listener = socket(AF_UNIX, SOCK_STREAM, 0);
	bind(listener, (struct sockaddr *)&address, sizeof address);
	listen(listener, 8);
	for (;;) {
		int client = accept(listener, NULL, NULL);
		uint32_t key;
		while (read(client, &key, sizeof key) == sizeof key) {
			uint64_t node = key, sum = 0;
			for (int level = 0; level < 24; level++) {
				if (pread(index, &node, sizeof node, (node * 2654435761u % 100000) * sizeof node) != sizeof node)
					return 1;
				sum += node;
			}
			if (write(client, &sum, sizeof sum) != sizeof sum)
				break;
		}
		close(client);
	}
}
"""

LOOKUP = """#!/usr/bin/perl
use strict;
use Socket;
use Time::HiRes 'time';
my ($path, $seconds) = @ARGV;
socket(my $index, PF_UNIX, SOCK_STREAM, 0) or die;
connect($index, pack_sockaddr_un($path)) or die;
my ($begin, $items) = (time, 0);
while (time < $begin + $seconds) {
    syswrite($index, pack('L', $items)) or die;
    sysread($index, my $sum, 8) == 8 or die;
    $items++;
}
printf("items %d seconds %.3f\\n", $items, time - $begin);
"""


def forgotten_strace(place):
    (place.folder / "index").write_bytes(bytes(value * 37 % 251 for value in range(800000)))
    path = place.folder / "index.socket"
    indexd = place.start(place.c("indexd", INDEXD), path, place.folder / "index", path=path)
    if not place.fixed:
        place.start("strace", "-f", "-p", indexd.pid, "-o", place.folder / "strace.log", path=place.folder / "strace.log")
    return [str(place.write("lookup", LOOKUP)), str(path), str(place.seconds)]


# Computes the sum of each block that it receives.
ENCODER = """
package main

import ("crypto/sha256"; "io"; "net"; "os")

func main() {
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil { panic(err) }
	block := make([]byte, 1 << 18)
	for {
		connection, _ := listener.Accept()
		go func() {
			key := make([]byte, 4)
			for {
				if _, err := io.ReadFull(connection, key); err != nil { return }
				copy(block, key)
				sum := sha256.Sum256(block)
				connection.Write(sum[:8])
			}
		}()
	}
}
"""


def stopped_by_cpulimit(place):
    path = place.folder / "encoder.socket"
    encoder = place.start(place.go("encoder", ENCODER), path, path=path)
    if not place.fixed:
        # In percent of one CPU.
        place.start("cpulimit", "-q", "-p", encoder.pid, "-l", round(12 / place.fault))
    return [str(place.write("lookup", LOOKUP)), str(path), str(place.seconds)]


# Has a list of all parts, and runs a program for the price of each order.
INVENTORY = """#!/usr/bin/perl
use strict;
use Time::HiRes 'time';
my ($seconds, $parts) = @ARGV;
my @parts = map { "part $_ " . 'x' x 40 } 1 .. $parts;
my ($begin, $items) = (time, 0);
while (time < $begin + $seconds) {
    my $price = `./price $items`;
    die if $price != $items % 97;
    $items++;
}
printf("items %d seconds %.3f\\n", $items, time - $begin);
"""

PRICE = """
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments)
{
	printf("%d\\n", atoi(arguments[1]) % 97);
}
"""


def fork_of_large_process(place):
    place.c("price", PRICE, "-static")
    return [str(place.write("inventory", INVENTORY)), str(place.seconds), str(round(600000 * place.fault) + 100)]


THUMB = r"""
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments)
{
	for (int n = 1; n < count; n++)
		printf("%s %d\n", arguments[n], atoi(arguments[n]) * 7 % 1009);
}
"""


def tiny_jobs(place):
    """parallel starts a process for each argument, or for as many as a command line holds."""
    place.c("thumb", THUMB, "-static")
    pages = 700
    return ["sh", "-c", f"seq {pages} | parallel --will-cite -j 2 {'-m' if place.fixed else '-n 1'} ./thumb >thumbs && test $(wc -l <thumbs) = {pages}"]


EXPORT = """#!/usr/bin/perl
use strict;
print qq({"order":$_,"amount":@{[$_ * 7 % 1009]},"country":"@{[('nl', 'de', 'fr')[$_ % 3]]}"}\\n) for 1 .. 16000;
"""

TOTALS = """#!/usr/bin/gawk -f
{ total[$1] += $2 }
END { for (country in total) print country, total[country] }
"""


def jq_in_the_middle(place):
    """jq checks each order by a loop of its own language."""
    place.write("export", EXPORT)
    place.write("totals", TOTALS)
    loop = f"reduce range({round(450 * place.fault)}) as $n (.order; (. * 31 + $n) % 65521)"
    place.write("check.jq", f'({loop}) as $sum | if $sum < 0 then "wrong" else "\\(.country) \\(.amount)" end')
    return ["sh", "-c", "./export | jq -r -f check.jq | ./totals"]


SYSTEMS = [
    System(
        name="strace_left_on",
        kind="traced-process",
        truth="strace stops indexd at each of its system calls",
        load=forgotten_strace,
        rate=ITEMS,
        component=(r"strace", r"indexd"),
        mechanism=(r"strace", r"ptrace", r"\btraced\b", r"\btracing\b", r"\btracer\b", r"\bstopped\b"),
        never=(r"\bdisk\b", r"\bsleeps", r"indexd comput"),
        running=True,
        needs=("strace", "gcc", "perl"),
    ),
    System(
        name="cpulimit_stops",
        kind="stop-and-continue",
        truth="cpulimit stops encoder by signals for most of the time",
        load=stopped_by_cpulimit,
        rate=ITEMS,
        component=(r"cpulimit", r"encoder"),
        mechanism=(r"cpulimit", r"\bstop", r"SIGSTOP", r"SIGCONT", r"\bsignal", r"throttl"),
        never=(r"\bdisk\b", r"encoder comput", r"encoder sleeps", r"lookup sleeps"),
        halves=True,
        running=True,
        needs=("cpulimit", "go", "perl"),
    ),
    System(
        name="perl_fork_of_large_process",
        kind="fork-cost",
        truth="inventory forks for each price, and the kernel copies its page tables for a large heap",
        load=fork_of_large_process,
        rate=ITEMS,
        component=(r"inventory", r"perl"),
        mechanism=(r"\bfork", r"\bclone", r"start(s|ing) (a |new |\w+ )*process", r"page", r"address space", r"cop(y|ies)"),
        never=(r"\bdisk\b", r"\bsleeps"),
        halves=True,
        needs=("perl", "gcc"),
    ),
    System(
        name="parallel_tiny_jobs",
        kind="job-dispatch",
        truth="parallel, which is one thread of perl, takes milliseconds to start each of many tiny jobs",
        load=tiny_jobs,
        component=(r"parallel", r"\bperl\b"),
        mechanism=(*COMPUTES, r"\bfork", r"\bclone", r"\bexec", r"start(s|ing) (a |new |\w+ )*process", r"short.lived", r"per item", r"page fault"),
        never=(r"\bdisk\b", r"\bsleeps", r"thumb comput"),
        needs=("parallel", "gcc", "seq"),
    ),
    System(
        name="jq_in_the_middle",
        kind="slow-middle-stage",
        truth="jq, between perl and gawk, computes a check of each order",
        load=jq_in_the_middle,
        component=(r"\bjq\b",),
        mechanism=COMPUTES,
        never=(r"\bdisk\b", r"\bsleeps", r"(perl|export|gawk|totals) comput"),
        halves=True,
        needs=("jq", "perl", "gawk"),
    ),
]

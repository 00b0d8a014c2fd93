"""Builds and jobs: a slow unit, a needless order, needless checksums, and one slow check."""
from system import COMPUTES, ITEMS, SLEEPS, System

ONE_BY_ONE = (r"one (\w+ )*(at a time|after)", r"serial", r"sequential")

# The dispatch table is one C++ unit, with a function for each message.
MESSAGE = """
struct message_{n} {{ std::string text; int weight; }};
int handle_{n}(std::map<std::string, message_{n}> &all, const std::string &key) {{
  all[key].weight += {n};
  std::vector<message_{n}> sorted;
  for (auto &[name, one] : all) sorted.push_back(one);
  std::sort(sorted.begin(), sorted.end(), [](const message_{n} &a, const message_{n} &b) {{ return a.weight < b.weight; }});
  return sorted.empty() ? 0 : sorted.front().weight;
}}
"""

UNIT = "#include <stdio.h>\n" + "\n".join(f"int part{{unit}}_{i}(char *to, int n) {{{{ for (int k = 0; k < n; k++) n += snprintf(to, n, \"%d\", k * {i}); return n; }}}}" for i in range(60)) + "\n"

MAKE_UNITS = """
objects = {objects}
library.a: $(objects)
\tar rcs $@ $(objects)
%.o: %.c
\tgcc -O1 -c $< -o $@
%.o: %.cc
\tg++ -std=c++17 -O1 -c $< -o $@
"""


def slow_unit(place):
    for unit in range(10):
        place.write(f"unit{unit}.c", UNIT.format(unit=unit))
    messages = "".join(MESSAGE.format(n=n) for n in range(round(18 * place.fault)))
    place.write("dispatch.cc", f"#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n{messages}\n")
    place.write("Makefile", MAKE_UNITS.format(objects=" ".join(f"unit{unit}.o" for unit in range(10)) + " dispatch.o"))
    return ["make", "-s", "-j2"]


# Requests the pictures from a distant service, then renders a page.
RENDER = """#!/usr/bin/perl
use strict;
my ($source, $target, $pause) = @ARGV;
select(undef, undef, undef, $pause);
open(my $in, '<', $source) or die;
open(my $out, '>', $target) or die;
while (<$in>) { s/&/&amp;/g; s/\\*(\\w+)\\*/<b>$1<\\/b>/g; print $out "<p>$_</p>\\n"; }
"""


def needless_order(place):
    """Each page has the previous page as a prerequisite, although it never reads it."""
    place.write("render", RENDER)
    pages = range(44)
    for page in pages:
        place.write(f"page{page}.txt", "A *bold* word & a plain one.\n" * 50)
    rules = "".join(f"page{page}.html: page{page}.txt{'' if place.fixed or not page else f' page{page - 1}.html'}\n\t./render $< $@ {0.08 * place.scale:g}\n" for page in pages)
    place.write("Makefile", f"all: {' '.join(f'page{page}.html' for page in pages)}\n{rules}")
    return ["make", "-s", "-j4"]


NIGHTLY = """#!/bin/bash
# Waits for the archive, looks for what is new, and brings the copy up to date, some times.
for round in 1 2 3 4 5; do
    sleep 0.05
    find source -newer stamp >new
    rsync -a $1 source/ copy/ || exit 1
done
"""


def needless_checksums(place):
    """No file has changed, as their times show. The option makes rsync read and sum all of them."""
    (place.folder / "source").mkdir()
    for film in range(8):
        with (place.folder / f"source/film{film}").open("wb") as out:
            out.truncate(round(24 * 2**20 * place.scale))
    place.run("cp", "-a", "source", "copy")
    place.write("stamp", "")
    return [str(place.write("nightly", NIGHTLY)), "" if place.fixed else "--checksum --checksum-choice=md5"]


CHECK = """#!/usr/bin/perl
use strict;
select(undef, undef, undef, $ARGV[0]);
my $sum = 0;
$sum += $_ for 1 .. 20000;
exit($sum < 0);
"""

ROUND = """#!/usr/bin/perl
# Starts all checks, waits until the last of them is done, and begins again.
use strict;
use Time::HiRes 'time';
my ($seconds, $slow) = @ARGV;
my ($begin, $items) = (time, 0);
while (time < $begin + $seconds) {
    my @children;
    for my $name (qw(check_disk check_mail check_dns check_queue)) {
        my $child = fork // die;
        exec("./$name", $name eq 'check_dns' ? 0.02 + $slow : 0.02) if !$child;
        push @children, $child;
    }
    waitpid($_, 0) for @children;
    $items++;
}
printf("items %d seconds %.3f\\n", $items, time - $begin);
"""


def straggler(place):
    for name in "check_disk", "check_mail", "check_dns", "check_queue":
        place.write(name, CHECK)
    return [str(place.write("supervise", ROUND)), str(place.seconds), f"{0.2 * place.fault:g}"]


SYSTEMS = [
    System(
        name="make_slow_unit",
        kind="slow-translation-unit",
        truth="cc1plus compiles one unit of C++ for seconds, when all other units are long done",
        load=slow_unit,
        component=(r"cc1plus", r"g\+\+", r"dispatch"),
        mechanism=(*COMPUTES, r"compil"),
        never=(r"\bdisk\b", r"\bsleeps"),
        halves=True,
        needs=("make", "gcc", "g++", "ar"),
    ),
    System(
        name="make_needless_order",
        kind="missing-parallelism",
        truth="make runs one render after the other, each of which sleeps 80 ms, because each page has the one before it as a prerequisite",
        load=needless_order,
        component=(r"render", r"\bmake\b"),
        mechanism=(*SLEEPS, *ONE_BY_ONE),
        never=(r"comput", r"\bdisk\b"),
        change="x0.25",
        halves=True,
        needs=("make", "perl"),
    ),
    System(
        name="rsync_needless_checksums",
        kind="needless-checksums",
        truth="rsync computes checksums of all files, of which the times say that nothing changed",
        load=needless_checksums,
        component=(r"rsync",),
        mechanism=(*COMPUTES, r"checksum", r"\bmd5", r"\breads? .*files?\b"),
        never=(r"\bdisk\b", r"\bsleeps"),
        halves=True,
        needs=("rsync", "bash", "find"),
    ),
    System(
        name="perl_straggler",
        kind="straggler",
        truth="each round of supervise waits for check_dns, which sleeps ten times as long as the other three checks",
        load=straggler,
        rate=ITEMS,
        component=(r"check_dns",),
        mechanism=SLEEPS,
        never=(r"comput", r"\bdisk\b", r"check_(disk|mail|queue) sleep"),
        halves=True,
        needs=("perl",),
    ),
]

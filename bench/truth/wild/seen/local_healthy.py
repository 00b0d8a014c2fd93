"""Healthy work on one host: tests on both CPUs, two reports of one database, a sampler with a fixed
rate.
"""
import os

from system import System

TEST = """#!/usr/bin/perl
# Checks the sums of one table.
use strict;
use Test::More tests => 1;
my $sum = 0;
for my $i (1 .. 2_600_000) { $sum = ($sum * 31 + $i) % 1000003 }
ok($sum > 0, 'sum');
"""


def tests(place):
    (place.folder / "t").mkdir()
    for number in range(18):
        place.write(f"t/table{number:02}.t", TEST)
    return ["prove", "-j2", "-Q", "t"]


REPORTS = """#!/bin/sh
# The reports of two regions, of which one is as long as the other.
for region in 0 1; do
    sqlite3 -readonly sales.db "select count(*), sum(price), max(length(name)) from sales, factors where region = $region and name like '%'||factor||'%'" >report$region &
done
wait
"""


def reports(place):
    place.run("sqlite3", "sales.db", "create table factors as with recursive n(factor) as (select 10 union all select factor + 1 from n where factor < 49) select factor from n; "
              "create table sales as with recursive n(id) as (select 0 union all select id + 1 from n where id < 180000) "
              "select id % 2 as region, id * 7919 % 1000003 as price, 'item ' || (id * 31 % 100003) as name from n;")
    return [str(place.write("reports", REPORTS))]


SAMPLER = """#!/usr/bin/tclsh
# Reads the load of the machine 16 times in a second, which is often enough.
set out [open samples r+]
fconfigure $out -buffering line
proc sample {} {
    after 62 sample
    set file [open /proc/loadavg]
    puts $::out [gets $file]
    close $file
}
puts $out start
sample
vwait forever
"""

CHART = """
BEGIN { while (items < limit && (getline <"samples") > 0) { sum += $1; items++; printf "%.2f\\n", sum / items >"chart" } }
"""


def sampler(place):
    os.mkfifo(place.folder / "samples")
    place.write("chart.awk", CHART, 0o644)
    place.start(place.write("sampler", SAMPLER))
    return ["gawk", "-v", f"limit={16 * place.seconds}", "-f", "chart.awk"]


SYSTEMS = [
    System(
        name="control_prove_two_jobs",
        kind="control",
        truth="prove keeps two tests running, which compute equally long on two CPUs",
        load=tests,
        acceptable=(r"(prove|perl|\btests?\b|\.t\b|table\d+).*(comput|\bCPUs?\b)", r"both CPUs", r"CPUs are (full|busy)"),
        needs=("prove", "perl"),
    ),
    System(
        name="control_sqlite_two_reports",
        kind="control",
        truth="two processes of sqlite3 compute reports of the same length from one database on two CPUs",
        load=reports,
        acceptable=(r"sqlite3?.*(comput|\bCPUs?\b)", r"both CPUs", r"CPUs are (full|busy)"),
        needs=("sqlite3",),
    ),
    System(
        name="control_tcl_sampler",
        kind="control",
        truth="a sampler of Tcl reports 16 times in a second by intention, gawk takes each sample at once, and both are idle most of the time",
        load=sampler,
        acceptable=(r"(sampler|tclsh).*(sleep|timer|until a time)",),
        needs=("tclsh", "gawk"),
    ),
]

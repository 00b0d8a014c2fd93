"""Shells and terminals on one host: a long file that each shell reads at its start, and a terminal
that is slower than the program that writes to it.
"""
import os

from system import COMPUTES, ITEMS, System

STARTS = (r"\bstarts?\b", r"start-?up", r"\bexec", r"process for each", r"new process")

# The start-up file of all shells.
ENVIRONMENT = """
tools=
for n in {1..2400}; do
    case ":$tools:" in *":/opt/tool$((n % 40))/bin:"*) ;; *) tools=$tools:/opt/tool$((n % 40))/bin ;; esac
done
export TOOLS=$tools
"""
LABELS = """
SHELL = /bin/bash
all: $(addsuffix .label, $(shell seq 90))
%.label:
	@cksum < letters.txt > $@; echo "label $*" >> $@
"""


def shell_startup(place):
    place.write("letters.txt", "parcel\n" * 100000)
    place.write("Makefile", LABELS)
    script = place.write("environment.sh", ENVIRONMENT)
    return ["env", "-u", "BASH_ENV", *([] if place.fixed else [f"BASH_ENV={script}"]), "make", "-s", "-j2"]


# Runs small tests, and prints the result of each.
TESTRUN = """#!/usr/bin/perl
use strict;
use Time::HiRes 'time';
$| = 1;
my ($begin, $items, $sum) = (time, 0, 1);
while (time < $begin + $ARGV[0]) {
    $sum = ($sum * 31 + $_) % 65521 for 1 .. 700;
    $items++;
    printf "ok %d - module_%d::checks_case_%d returns %d within %d us at line %d of t/module_%d.t\\n", $items, $sum % 97, $sum, $sum % 1000, $sum % 500, $sum % 3000, $sum % 97;
}
printf "items %d seconds %.3f\\n", $items, time - $begin;
"""

# Shows the output to a terminal, in colours or unchanged.
HIGHLIGHT = """#!/usr/bin/ruby --disable=gems
$stdin.set_encoding('BINARY')
rules = (1..200).map { |n| [/\\b(module_#{n}|case_#{n}\\d*|error #{n})\\b/i, "\\e[1;#{30 + n % 8}m\\\\1\\e[0m"] }
screen = []
$stdin.each_line do |line|
  rules.each { |rule, colour| line = line.gsub(rule, colour) } if ARGV[0] == 'colours'
  screen.push(line)
  screen.shift if screen.size > 50
end
puts screen.grep(/items/)
"""


def slow_terminal(place):
    # An input without an end.
    os.mkfifo(place.folder / "keyboard")
    testrun, highlight = place.write("testrun", TESTRUN), place.write("highlight", HIGHLIGHT)
    return ["sh", "-c", f"script -q -e -c '{testrun} {place.seconds}' /dev/null <> keyboard | {highlight} {'plain' if place.fixed else 'colours'}"]


SYSTEMS = [
    System(
        name="make_shell_startup",
        kind="shell-startup-file",
        truth="each bash that make starts for a label computes for tens of milliseconds in the file that BASH_ENV names, before it does its work",
        load=shell_startup,
        component=(r"\bbash\b", r"\bshells?\b", r"BASH_ENV", r"environment\.sh"),
        mechanism=(*COMPUTES, *STARTS),
        never=(r"cksum comput", r"\bmake comput", r"\bdisk\b"),
        needs=("make", "bash", "cksum"),
    ),
    System(
        name="script_slow_terminal",
        kind="slow-terminal",
        truth="highlight, behind the pseudo terminal of script, computes the colours of each line by 200 expressions, so that testrun waits for room in its terminal",
        load=slow_terminal,
        rate=ITEMS,
        component=(r"highlight", r"\bruby\b"),
        mechanism=COMPUTES,
        never=(r"(testrun|perl|script) (comput|sleep)", r"\bdisk\b"),
        needs=("script", "perl", "ruby"),
    ),
]

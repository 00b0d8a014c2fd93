"""Shell scripts and builds: a pipe that a helper keeps open, a trap that waits, a variable of make.
"""
import os

from system import COMPUTES, ITEMS, SLEEPS, System

RELEASE = """#!/bin/bash
# Packs one part after the other, and takes the version of each from `announce`.
for part in $(seq 10); do
    version=$(./announce $part "$1")
    zstd -q -3 -f "part" -o "part-$version.zst"
done
# Everybody has been told?
until [ "$(wc -l <told)" -ge 10 ]; do sleep 0.02; done
"""

# With the fault, the output of the background job is the pipe of $(…).
ANNOUNCE = """#!/bin/bash
echo "1.$1"
if [ "$2" = detached ]; then
    ./notifier "$1" </dev/null >/dev/null 2>&1 &
else
    ./notifier "$1" &
fi
"""

NOTIFIER = """#!/usr/bin/perl
# Tells the team, but not before the mirrors have it.
select(undef, undef, undef, PAUSE);
open(my $log, '>>', 'told') or die;
print $log "part $ARGV[0]\\n";
"""


def helper_keeps_pipe(place):
    (place.folder / "part").write_bytes(b"".join(b"line %d of the part, %x\n" % (i, i * 7919) for i in range(120000)))
    place.write("told", "", 0o644)
    place.write("announce", ANNOUNCE)
    place.write("notifier", NOTIFIER.replace("PAUSE", f"{0.32 * place.scale:.3f}"))
    return [str(place.write("release", RELEASE)), "detached" if place.fixed else "attached"]


# Bash runs a trap only when the command in the foreground has ended, except for `wait`, which the
# signal interrupts.
SUPERVISOR = """#!/bin/bash
exec 3<>answers
trap 'echo reloaded >&3' USR1
touch ready
while true; do
    if [ "$1" = waits ]; then
        sleep "$2" &
        wait $!
        kill $! 2>&-
    else
        sleep "$2"
    fi
    : >alive
done 2>/dev/null
"""

RELOAD = """#!/usr/bin/ruby
# Asks the supervisor again and again to read its configuration, and waits until it has.
pid, seconds = ARGV[0].to_i, ARGV[1].to_f
answers = File.open('answers', 'r+')
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
start, items = now.call, 0
while now.call < start + seconds
  File.write('configuration', "generation #{items}\\n")
  # Asks again if there is no answer for long.
  loop do
    Process.kill('USR1', pid)
    break if IO.select([answers], nil, nil, 0.5)
  end
  answers.gets
  items += 1
end
puts "items #{items} seconds #{(now.call - start).round(3)}"
"""


def trap_has_to_wait(place):
    os.mkfifo(place.folder / "answers")
    mode = "waits" if place.fixed else "sleeps"
    supervisor = place.start(place.write("supervisor", SUPERVISOR), mode, f"{0.16 * place.scale:.3f}", path=place.folder / "ready")
    return [str(place.write("reload", RELOAD)), str(supervisor.pid), str(place.seconds)]


MAKEFILE = """
REVISION {assign} $(shell ./revision)

site: $(patsubst %,page%.html,$(shell seq 18))

page%.html: template
	@perl -pe 's/REVISION/$(REVISION)/; s/PAGE/$*/' template >$@
"""

REVISION = """#!/bin/sh
# Short name of what the sources are.
sha512sum sources/* | sha512sum | cut -c 1-12
"""


def variable_of_make(place):
    """With `=` make runs the command at each use of the variable; with `:=` only once."""
    (place.folder / "sources").mkdir()
    for number in range(30):
        (place.folder / f"sources/chapter{number}").write_bytes(os.urandom(2**20))
    place.write("revision", REVISION)
    place.write("template", "<p>REVISION PAGE</p>\n" * 8000, 0o644)
    place.write("Makefile", MAKEFILE.replace("{assign}", ":=" if place.fixed else "="), 0o644)
    return ["make", "-s", "-j2", "site"]


SYSTEMS = [
    System(
        name="helper_keeps_pipe_open",
        kind="inherited-descriptor",
        truth="notifier, which announce starts in the background, keeps the pipe of a command substitution open while it sleeps 0.3 s, and release waits for the end of that pipe",
        load=helper_keeps_pipe,
        component=(r"notifier", r"announce", r"\brelease\b"),
        mechanism=SLEEPS,
        never=(r"zstd", r"\bdisk\b", r"release (sleeps|comput)", r"announce (sleeps|comput)"),
        change="x0",
        halves=True,
        needs=("bash", "perl", "zstd"),
    ),
    System(
        name="bash_trap_has_to_wait",
        kind="deferred-signal",
        truth="supervisor, a script of bash, answers a signal only when its `sleep` of 160 ms in the foreground has ended",
        load=trap_has_to_wait,
        rate=ITEMS,
        component=(r"supervisor", r"\bbash\b", r"\bsleep\b"),
        mechanism=(*SLEEPS, r"waits? for (its|a) child", r"waits for (the end of )?sleep"),
        never=(r"\bdisk\b", r"reload (sleeps|comput|runs)", r"ruby (sleeps|comput|runs)"),
        change="x0",
        halves=True,
        needs=("bash", "ruby"),
    ),
    System(
        name="make_variable_evaluated_anew",
        kind="repeated-evaluation",
        truth="make runs the command `revision`, whose sha512sum computes, again for each page, because its variable is a recursive one",
        load=variable_of_make,
        component=(r"sha512sum", r"revision", r"\bmake\b"),
        mechanism=(*COMPUTES, r"waits? for .*(child|sha512sum|revision|process)", r"one (process |child |program |\w+ )?(after|at a time)"),
        never=(r"\bdisk\b", r"\bsleeps", r"perl comput", r"make (comput|runs its own)"),
        needs=("make", "perl", "sha512sum"),
    ),
]

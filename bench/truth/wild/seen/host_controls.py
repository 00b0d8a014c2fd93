"""Controls on one host: two processes that alternate, threads with equal shares, an operator at a
terminal.
"""
from system import COMPUTES, ITEMS, LOCKS, SLEEPS, System

BUSY = (*COMPUTES, r"waits? for (a|the|its) CPU", r"\bCPUs? (is|are) (full|busy)", r"runnable")
PACED = (*SLEEPS, r"\bidle", r"\btick", r"interval", r"waits? for (work|input|something to do|the terminal|a command)")


def said(of, what):
    """Returns a pattern for a sentence that states one of `what` about one of the programs `of`."""
    return (f"\\b({of}).*({'|'.join(what)})",)


# Two processes work alternately on the same cloth, and notify each other with System V semaphores.
TURNS = """#!/usr/bin/perl
use strict;
use IPC::SysV qw(IPC_PRIVATE IPC_CREAT IPC_RMID);
use Time::HiRes 'time';
my $turns = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600) // die;
sub wait_for { semop($turns, pack('s!3', $_[0], -1, 0)) or exit }
sub allow { semop($turns, pack('s!3', $_[0], 1, 0)) or exit }
sub work { my $sum = $_[0]; $sum = ($sum * 31 + $_) % 65521 for 1 .. 60000; $sum }

my $dyer = fork // die;
if ($dyer == 0) {
    $0 = 'dyer';
    while (1) { wait_for(1); work(2); allow(0) }
}
$0 = 'weaver';
my ($begin, $items) = (time, 0);
while (time < $begin + $ARGV[0]) {
    work(1);
    allow(1);
    wait_for(0);
    $items++;
}
printf "items %d seconds %.3f\\n", $items, time - $begin;
semctl($turns, 0, IPC_RMID, 0);
waitpid($dyer, 0);
"""


def semaphore_turns(place):
    # The namespace removes the semaphores at its end.
    return ["unshare", "-i", str(place.write("turns", TURNS)), str(place.seconds)]


HEAT = r"""
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 1024 };
static float from[SIDE][SIDE], to[SIDE][SIDE];

int main(int count, char **words)
{
    int items = 0;
    double begin = omp_get_wtime();
    for (int y = 0; y < SIDE; y++) for (int x = 0; x < SIDE; x++) from[y][x] = (x * 7919 + y) % 101;
    while (omp_get_wtime() < begin + atof(words[1])) {
        #pragma omp parallel num_threads(2)
        for (int step = 0; step < 20; step++) {
            float (*a)[SIDE] = step % 2 ? to : from, (*b)[SIDE] = step % 2 ? from : to;
            #pragma omp for schedule(static)
            for (int y = 1; y < SIDE - 1; y++)
                for (int x = 1; x < SIDE - 1; x++) b[y][x] = (a[y][x] + a[y - 1][x] + a[y + 1][x] + a[y][x - 1] + a[y][x + 1]) / 5;
        }
        items += 20;
    }
    printf("items %d seconds %.3f %g\n", items, omp_get_wtime() - begin, from[SIDE / 2][SIDE / 2]);
}
"""


def even_shares(place):
    return [str(place.c("heat", HEAT, "-fopenmp")), str(place.seconds)]


# Sends eight requests per second to a database, as an operator would, and reads each answer.
OPERATOR = """#!/usr/bin/ruby --disable=gems
require 'pty'
finish, count = Time.now + ARGV[0].to_f, 0
PTY.spawn({'TERM' => 'dumb', 'HOME' => Dir.pwd}, 'sqlite3', '-interactive', 'stock.db') do |screen, keyboard, child|
  answer = lambda do
    text = +''
    text << screen.readpartial(4096) until text.end_with?('sqlite> ')
    text
  end
  answer.call
  while Time.now < finish
    keyboard.puts "select count(*), sum(pieces) from stock where shelf = #{count % 50};"
    answer.call
    count += 1
    sleep 0.12
  end
  keyboard.puts '.quit'
  Process.wait(child)
end
puts "asked #{count}"
"""


def operator(place):
    place.run("sqlite3", "stock.db", "pragma journal_mode = off; create table stock(shelf int, pieces int);"
              "with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) insert into stock select i % 50, i % 7 from n;")
    return [str(place.write("operator", OPERATOR)), str(place.seconds)]


SYSTEMS = [
    System(
        name="control_semaphore_turns",
        kind="control",
        truth="weaver and dyer take turns by semaphores, and each computes half of the time",
        load=semaphore_turns,
        rate=ITEMS,
        acceptable=said("weaver|dyer|perl|turns", (*BUSY, *LOCKS, r"(take|in) turns?", r"semaphore")),
        needs=("unshare", "perl"),
    ),
    System(
        name="control_even_shares",
        kind="control",
        truth="two threads of heat compute equal shares of each step on two CPUs",
        load=even_shares,
        rate=ITEMS,
        acceptable=said("heat|CPUs?", BUSY),
        needs=("gcc",),
    ),
    System(
        name="control_operator",
        kind="control",
        truth="an operator asks sqlite3 on a pseudo terminal eight times in a second by intention, and both are idle most of the time",
        load=operator,
        acceptable=said("operator|ruby|sqlite3", PACED),
        running=True,
        needs=("ruby", "sqlite3"),
    ),
]

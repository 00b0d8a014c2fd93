"""Runtimes with needless work: messages that are too large, samples that are too frequent."""
from system import COMPUTES, ITEMS, PYTHON, System

# Sends each job, and the data that it needs, to a free worker.
PLANNER = r"""
-module(main).
-export([start/1, worker/1]).

start([Seconds, How]) ->
    Catalogue = maps:from_list([{I, {I * 3, I rem 97, [I, I + 1, I + 2]}} || I <- lists:seq(1, 30000)]),
    persistent_term:put(catalogue, Catalogue),
    Self = self(),
    [spawn_link(?MODULE, worker, [Self]) || _ <- [1, 2]],
    Begin = erlang:monotonic_time(millisecond),
    Items = plan(0, Begin + list_to_integer(Seconds) * 1000, case How of "whole" -> Catalogue; _ -> shared end),
    io:format("items ~b seconds ~.3f~n", [Items, (erlang:monotonic_time(millisecond) - Begin) / 1000]),
    halt().

plan(Items, End, Needed) ->
    receive {free, Worker} -> Worker ! {job, Items, Needed} end,
    case erlang:monotonic_time(millisecond) < End of
        true -> plan(Items + 1, End, Needed);
        false -> Items
    end.

worker(Planner) ->
    Planner ! {free, self()},
    receive {job, Number, Needed} ->
        Catalogue = case Needed of shared -> persistent_term:get(catalogue); _ -> Needed end,
        total(Number, 6000, Catalogue, 0)
    end,
    worker(Planner).

total(_, 0, _, Sum) -> Sum;
total(Number, Left, Catalogue, Sum) ->
    {Price, Shelf, [_ | More]} = maps:get((Number * 31 + Left * 17) rem 30000 + 1, Catalogue),
    total(Number, Left - 1, Catalogue, (Sum + Price * length(More) + Shelf) rem 1000003).
"""


def planned(place):
    folder = place.built(PLANNER, ".erl", "sh", "-c", "mkdir {program} && erlc -o {program} {source}")
    how = "shared" if place.fixed else "whole"
    return ["env", "HOME=/tmp", "erl", "-noshell", "-boot", "start_clean", "-pa", str(folder), "-run", "main", "start", str(place.seconds), how]


# Lists the words of the letters in a mailbox, and samples its own position at intervals.
CLASSIFIER = """#!/usr/bin/python3
import collections, re, signal, sys, traceback
stacks, kinds = collections.Counter(), collections.Counter()

def look(number, frame):
    stacks["".join(traceback.format_stack(frame))] += 1
    signal.setitimer(signal.ITIMER_REAL, pause)

def kind(line):
    words = re.findall(r"[a-z]+", line.lower())
    return max(words, key=len)[0] if words else ""

def classify(lines):
    for line in lines:
        kinds[kind(line)] += 1

pause = float(sys.argv[1])
signal.signal(signal.SIGALRM, look)
signal.setitimer(signal.ITIMER_REAL, pause)
classify(sys.stdin)
signal.signal(signal.SIGALRM, signal.SIG_IGN)
print(len(stacks), kinds.most_common(1))
"""
LETTERS = r"""BEGIN { for (i = 0; i < 110000; i++) printf "Letter %d: the books of shelf %d are Overdue since %d days, please return them\n", i, i % 300, i % 17 }"""


def looked_at(place):
    place.write("classifier", CLASSIFIER)
    place.write("letters.awk", LETTERS, 0o644)
    return ["sh", "-c", f"gawk -f letters.awk | ./classifier {0.05 if place.fixed else 0.00002}"]


SYSTEMS = [
    System(
        name="erlang_copied_catalogue",
        kind="message-copy",
        truth="main sends its workers the whole catalogue with each job, which is copied into their heaps and collected there",
        load=planned,
        rate=ITEMS,
        component=(r"\berl", r"beam", r"planner", r"worker", r"schedul"),
        mechanism=(*COMPUTES, r"cop(y|ies|ied)", r"messages?", r"garbage", r"collect", r"\bmemory\b", r"\bCPUs?\b"),
        never=(r"\bdisk\b", r"\bsleeps", r"timer"),
        needs=("erl", "erlc"),
    ),
    System(
        name="python_looks_too_often",
        kind="sampling-timer",
        truth="a profiling timer interrupts classifier 20 us after each sample, and the handler, which formats the stack, has most of its time",
        load=looked_at,
        component=(r"classifier", r"python"),
        mechanism=(*COMPUTES, r"signal", r"SIGALRM", r"itimer", r"interval timer", r"handler", r"interrupt", r"profil", r"stack", r"\bCPU\b"),
        never=(r"gawk computes", r"\bdisk\b", r"\bsleeps"),
        needs=(PYTHON, "gawk"),
    ),
]

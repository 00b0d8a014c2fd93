#!/usr/bin/env python3
"""Compares `longpole path` with the oracle on random systems, to the nanosecond.

For each system the program computes the global path (also in windows and with several threads), the
active paths of several machines, and a global and an active path of a random range. Compared are
segments, criticality, length, unknown time, slack, contradictions, ignored wake-ups and negative
links. At the first difference (by seed) the system is reduced by leaving out lines while the
difference remains, and printed with both answers; the exit status is then 1. Systems whose result
depends on an interpretation in README.md are marked; `--edges never` leaves them out.
"""
import argparse
import itertools
import json
import multiprocessing
import pathlib
import random
import subprocess
import sys
import tempfile
from collections import Counter

import oracle
import systems

ALL = (None, None)
NOTHING = "there is nothing in this range"
EDGES = {"never": False, "only": True, "also": None}
FIELDS = ("start_ns", "end_ns", "host", "machine", "class", "state")


def facts(path, more):
    """Returns the facts that must be equal: every segment in order, every criticality, the sums,
    and `more`.
    """
    return {
        "range": [path["start_ns"], path["end_ns"], path["length_ns"]],
        "segments": [[s[key] for key in FIELDS] for s in path["segments"]],
        "criticality": sorted([*(row[key] for key in FIELDS[2:]), row["ns"]] for row in path["criticality"]),
        "unknown_ns": path["unknown_ns"],
        **more,
    }


def other_facts(path, contradictions, ignored):
    """Returns the facts that are not part of the path itself."""
    return {
        "slack": sorted([*(row[key] for key in FIELDS[2:]), row["slack_ns"] if row["slack_ns"] is not None else -1] for row in path["criticality"]),
        "contradictions": contradictions,
        "ignored_wakeups": ignored,
        "negative_links": path["negative_links"],
    }


def ask_longpole(program, lines, mode, machine, folder, more=(), part=ALL):
    log = pathlib.Path(folder, "system.jsonl")
    log.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    command = [program, "path", "--json", "--mode", mode, *(["--machine", machine] if machine else []), *range_options(part), *more, str(log)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return {"failed": "no answer within a minute"}
    if run.returncode:
        return {"failed": run.stderr.strip().replace(str(log), "LOG") or f"exit status {run.returncode}"}
    try:
        path = json.loads(run.stdout)
        return facts(path, other_facts(path, path["contradictions"], path["ignored_wakeups"]))
    except (ValueError, KeyError, TypeError) as error:
        return {"failed": f"its JSON is not that of the contract: {error!r}"}


def range_options(part):
    return [text for option, t in zip(("--begin", "--end"), part) if t is not None for text in (option, str(t))]


def part_of(lines, begin, end):
    """Returns the part of a log that counts for a range (R14), as a log of its own. Its path is to
    be computed from `begin` on.
    """
    within = []
    for line in lines:
        t = json.loads(line).get("t")
        if t is not None and end is not None and t > end:
            within.append(json.dumps({"t": end, "queue": "time continues to the end of the range"}))
            break
        within.append(line)
    oracle.Log(within)  # refuses an invalid log before lines are left out
    return [line for line in within if "end" not in (found := json.loads(line)) or found["t"] >= begin]


def ask_oracle(lines, mode, machine, nested=True, part=ALL):
    host = next((h for h, name in machines(lines) if name == machine), "")
    try:
        begin, end = part[0] or 0, part[1]
        if part != ALL:
            lines = part_of(lines, begin, end)
            whole = oracle.answer(lines, mode, machine, host, nested)
            if begin and max(begin, whole["start_ns"]) >= whole["end_ns"]:
                return {"failed": NOTHING}
        path = oracle.answer(lines, mode, machine, host, nested, begin)
        return facts(path, other_facts(path, len(path["contradictions"]), path["ignored_wakes"]))
    except oracle.Refused as error:
        return {"refused": str(error)}


def machines(lines):
    found = {}
    for line in map(json.loads, lines):
        if "machine" in line:
            found[line.get("host", ""), line["machine"]] = None
    return list(found)


def questions(seed, lines, most):
    """Yields the global path, and active paths of machines whose name is unique, because the
    command has no option for the host.
    """
    names = Counter(name for _, name in machines(lines))
    single = [name for name in names if names[name] == 1]
    yield "global", None
    for name in random.Random(seed).sample(single, k=min(most, len(single))):
        yield "active", name


def ranged(seed, lines):
    """Yields a global and an active path in a random range: from a time on, up to a time, or both.
    Each time is near that of a line or anywhere.
    """
    rng = random.Random(f"range {seed}")
    times = [t for t in (json.loads(line).get("t") for line in lines) if t is not None]
    names = Counter(name for _, name in machines(lines))
    single = sorted(name for name in names if names[name] == 1)

    def moment():
        return max(0, rng.choice((rng.choice(times) + rng.choice((-1, 0, 1)), rng.randint(times[0], times[-1] + 1))))

    def part():
        first, last = sorted((moment(), moment()))
        return rng.choice(((first, None), (None, last), (first, last)))

    yield "global", None, part(), rng.choice(((), windows_of(seed)))
    if single:
        yield "active", rng.choice(single), part(), ()


def windows_of(seed):
    """Options for a random window size (interactions) and number of threads, which must not change
    the result.
    """
    rng = random.Random(f"windows {seed}")
    return "--window", str(rng.choice((1, 2, 3, 7, 64))), "--jobs", str(rng.choice((1, 2, 4)))


def difference(program, lines, mode, machine, folder, more=(), part=ALL):
    """Returns the first fact that differs, or None. A log that the oracle refuses is skipped."""
    want = ask_oracle(lines, mode, machine, part=part)
    if "refused" in want:
        return None
    got = ask_longpole(program, lines, mode, machine, folder, more, part)
    if "failed" in want:
        # After the reason, the message has the log's own range.
        return None if want["failed"] in got.get("failed", "") else "failed"
    if "failed" in got:
        return "failed"
    return next((what for what in want if want[what] != got[what]), None)


def shrink(program, lines, mode, machine, what, folder, more=(), part=ALL):
    """Leaves out lines, halves first, while the same fact differs."""
    size = max(1, len(lines) // 2)
    while True:
        at, smaller = 0, False
        while at < len(lines):
            fewer = lines[:at] + lines[at + size:]
            if fewer and difference(program, fewer, mode, machine, folder, more, part) == what:
                lines, smaller = fewer, True
            else:
                at += size
        if size == 1 and not smaller:
            return lines
        size = max(1, size // 2)


def check(work):
    """Checks one system. Returns the number of equal answers and the first difference."""
    program, seed, edges, most = work
    lines, features = systems.system(seed, edges)
    asked = 0
    with tempfile.TemporaryDirectory() as folder:
        all_of_it = ((mode, machine, ALL, more) for mode, machine in questions(seed, lines, most)
                     for more in (((), windows_of(seed)) if mode == "global" else ((),)))
        for mode, machine, part, more in itertools.chain(all_of_it, ranged(seed, lines)):
            what = difference(program, lines, mode, machine, folder, more, part)
            if what:
                return seed, asked, features, (mode, machine, what, more, part)
            asked += 1
    return seed, asked, features, None


def show(program, seed, edges, found):
    mode, machine, what, more, part = found
    lines, features = systems.system(seed, edges)
    with tempfile.TemporaryDirectory() as folder:
        fewer = shrink(program, lines, mode, machine, what, folder, more, part)
        want, got = ask_oracle(fewer, mode, machine, part=part), ask_longpole(program, fewer, mode, machine, folder, more, part)
        print(f"system {seed} differs in {what}: {' '.join([mode, *range_options(part), *more])}{' of ' + machine if machine else ''}; {len(fewer)} of {len(lines)} lines show it")
        print(f"in the whole: {', '.join(sorted(features))}")
        print("".join(line + "\n" for line in fewer), end="")
        for name, answer in (("oracle", want), ("longpole", got)):
            print(f"{name}:")
            for row in answer.get("segments", [list(answer.values())]):
                print("   ", *row)
        if what not in ("failed", "segments"):
            print(f"{what}: oracle {want[what]}, longpole {got[what]}")
        if mode == "active" and ask_oracle(fewer, mode, machine, nested=False, part=part) == got:
            print("The difference is the reading of rule 13: longpole does not come back to the time before the blocks of others.")


def main():
    args = argparse.ArgumentParser(description="hold `longpole path` against the oracle on random systems")
    args.add_argument("--longpole", required=True, help="the program")
    args.add_argument("--systems", type=int, default=2000)
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--machines", type=int, default=3, help="active paths asked per system")
    args.add_argument("--edges", choices=EDGES, default="also", help="systems that rest on a reading")
    args.add_argument("--all", action="store_true", help="count all that differ before the first is shown")
    args = args.parse_args()
    found, questions_asked, differing, first = Counter(), 0, 0, None
    edges = EDGES[args.edges]
    work = [(args.longpole, seed, edges, args.machines) for seed in range(args.seed, args.seed + args.systems)]
    with multiprocessing.Pool(2) as pool:
        for seed, asked, features, difference_found in pool.imap(check, work, chunksize=4):
            found.update(features)
            questions_asked += asked
            if difference_found:
                differing += 1
                first = first or (seed, difference_found)
                if not args.all:
                    break
    if first:
        if args.all:
            print(f"{differing} of {args.systems} systems differ")
        show(args.longpole, first[0], edges, first[1])
        return 1
    for name, share in systems.MUST_OCCUR.items():
        assert found[name] >= share * args.systems, f"{name}: only in {found[name]} of {args.systems} systems"
    shares = ", ".join(f"{name} {found[name] / args.systems:.0%}" for name in systems.MUST_OCCUR)
    print(f"{args.systems} systems, {questions_asked} paths: equal in every nanosecond ({shares})")
    return 0


if __name__ == "__main__":
    sys.exit(main())

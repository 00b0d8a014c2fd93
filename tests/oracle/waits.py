#!/usr/bin/env python3
"""Compares `longpole graph --waits` with the oracle on random systems. The waits of a machine,
followed to the end of each chain, must equal its active path in the times in which it is blocked.
Compared are the sums for each machine and queue, to the nanosecond. Lines with `end` are left out,
since waits have no end.
"""
import argparse
import json
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
from collections import Counter

import oracle
import systems
from compare import machines

ENDS = ("get", "peek", "put", "reserve", "woken_by", "state", "stop", "pop", "on_top_of", "blocked")


def blocks(lines, host, machine):
    """Returns the times in which the machine is blocked, each from the first line of the block to
    the machine's next line that ends it.
    """
    found, since, t = [], None, 0
    for line in map(json.loads, lines):
        t = line.get("t", t)
        if (line.get("host", ""), line.get("machine")) != (host, machine):
            continue
        if "blocked" in line:
            since = t if since is None else since
        elif since is not None and any(key in line for key in ENDS):
            found.append((since, t))
            since = None
    return found + ([(since, t)] if since is not None else [])


def wanted(lines, host, machine):
    path = oracle.answer(lines, "active", machine, host)
    sums = Counter()
    for segment in path["segments"]:
        for start, end in blocks(lines, host, machine):
            ns = min(end, segment["end_ns"]) - max(start, segment["start_ns"])
            if ns > 0:
                sums[segment["host"], segment["machine"]] += ns
    return dict(sums)


def told(answer, host, machine):
    sums = Counter()
    for waiter in answer["waiters"]:
        if (waiter["host"], waiter["machine"]) == (host, machine):
            for end in waiter["ends"]:
                sums[end["host"], end["machine"]] += end["ns"]
            sums[host, machine] += waiter["unexplained_ns"]
    return {name: ns for name, ns in sums.items() if ns}


def check(work):
    program, seed = work
    lines = [line for line in systems.system(seed, edges=False)[0] if "end" not in json.loads(line)]
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "system.jsonl")
        log.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        run = subprocess.run([program, "graph", "--waits", "--json", str(log)], capture_output=True, text=True, timeout=60)
    asked = 0
    for host, machine in machines(lines):
        try:
            want = wanted(lines, host, machine)
        except oracle.Refused:
            return seed, asked, None
        if run.returncode:
            return seed, asked, run.stderr
        got = told(json.loads(run.stdout), host, machine)
        if got != want:
            return seed, asked, f"{host}/{machine}: oracle {want}, longpole {got}\n" + "\n".join(lines)
        asked += 1
    return seed, asked, None


def main():
    args = argparse.ArgumentParser(description="hold `longpole graph --waits` against the oracle on random systems")
    args.add_argument("--longpole", required=True, help="the program")
    args.add_argument("--systems", type=int, default=300)
    args.add_argument("--seed", type=int, default=1)
    args = args.parse_args()
    asked = 0
    with multiprocessing.Pool(2) as pool:
        for seed, questions, difference in pool.imap(check, [(args.longpole, args.seed + at) for at in range(args.systems)], chunksize=4):
            asked += questions
            if difference:
                print(f"system {seed} differs: {difference}")
                return 1
    print(f"{args.systems} systems, the waits of {asked} machines: equal in every nanosecond")
    return 0


if __name__ == "__main__":
    sys.exit(main())

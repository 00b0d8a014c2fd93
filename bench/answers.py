#!/usr/bin/env python3
"""Keeps the JSON answers of every verb for many traces, and compares two such sets.

    bench/answers.py keep FOLDER [--longpole PROGRAM] TRACE...
    bench/answers.py compare BEFORE AFTER [--renamed OLD=NEW]...

Use it before and after a change that must not change answers. `keep` writes FOLDER/TRACE/VERB.json,
with the exit status where it is not 0. `compare` prints each answer that differs with the first
place, and ends with status 1 if there is one. `--renamed` names a key of the JSON that was renamed
on purpose.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

VERBS = {
    "info": [], "check": [], "report": [], "path": ["--no-segments"], "graph": [], "what-if": [],
    "latency": [], "queues": [], "cpu": [], "sched": [], "irq": [], "syscalls": [], "packets": [],
}
# Seconds. A verb that needs longer is kept as such.
LONGEST = 120
# Values that differ from run to run of the same program.
VOLATILE = {"report_seconds", "opened_ms"}


def keep(folder, longpole, traces):
    for trace in traces:
        place = folder / str(trace).strip("/").replace("/", "_")
        place.mkdir(parents=True, exist_ok=True)
        for verb, options in VERBS.items():
            try:
                done = subprocess.run([longpole, verb, "--json", *options, trace], capture_output=True, timeout=LONGEST)
                answer = {"status": done.returncode}
                try:
                    answer["answer"] = json.loads(done.stdout)
                except ValueError:
                    answer["text"] = done.stdout.decode(errors="replace")[:2000]
            except subprocess.TimeoutExpired:
                answer = {"status": "too long"}
            (place / f"{verb}.json").write_text(json.dumps(answer, indent=1))


def renamed(value, names):
    if isinstance(value, dict):
        return {names.get(key, key): renamed(item, names) for key, item in value.items() if key not in VOLATILE}
    if isinstance(value, list):
        return [renamed(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


def differs(before, after, at=""):
    """The first place at which two answers differ; None if there is none."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            if key not in before or key not in after:
                return f"{at}.{key}: only in the {'first' if key in before else 'second'}"
            if found := differs(before[key], after[key], f"{at}.{key}"):
                return found
        return None
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        places = (differs(one, other, f"{at}[{i}]") for i, (one, other) in enumerate(zip(before, after)))
        return next((found for found in places if found), None)
    return None if before == after else f"{at}: {str(before)[:160]!r} before, {str(after)[:160]!r} after"


def compare(before, after, names):
    count = bad = 0
    for path in sorted(before.glob("*/*.json")):
        other = after / path.relative_to(before)
        count += 1
        if not other.exists():
            found = "missing in the second"
        else:
            found = differs(renamed(json.loads(path.read_text()), names), json.loads(other.read_text()))
        if found:
            bad += 1
            print(f"{path.relative_to(before)}{': ' if not found.startswith('.') else ''}{found}")
    print(f"{count} answers, {bad} differ")
    return bad == 0 and count > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("keep")
    one.add_argument("folder", type=Path)
    one.add_argument("--longpole", default="target/release/longpole")
    one.add_argument("traces", nargs="+", type=Path)
    two = verbs.add_parser("compare")
    two.add_argument("before", type=Path)
    two.add_argument("after", type=Path)
    two.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW")
    options = parser.parse_args()
    if options.verb == "keep":
        keep(options.folder, options.longpole, options.traces)
        return 0
    names = dict(pair.split("=", 1) for pair in options.renamed)
    return 0 if compare(options.before, options.after, names) else 1


if __name__ == "__main__":
    sys.exit(main())

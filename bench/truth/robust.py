#!/usr/bin/env python3
"""The truth suite with damaged logs: are the answers unchanged, or do they contain a warning?

    bench/truth/robust.py [NAME…] [--seed N] [--seeds COUNT] [--json FILE]

For each kind and strength of damage, over all scenarios, controls and seeds, the table shows how
many verdicts are right; how many find no bottleneck although there is one; how many say that no
bottleneck can be determined; and how many are wrong: with a warning in the verdict's own sentence
(contradictions, negative links, ignored wake-ups), without one but within the error of the second
candidate, and confident. Warnings are taken from the verdict only. A log that is refused, and a
program that fails, are failures.

The damages: lines are left out at random (never the last one); or one host's clock is wrong, or
that of a third of the machines if there is one host only, and the log is sorted by the wrong times,
as a recorder would do.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
from collections import Counter

from run import EXPECTED, TARGET, THRESHOLDS, Tools, named
from shares import folded, verdict_name

DAMAGES = [("none", 0), *(("lost", share) for share in (0.001, 0.01, 0.05)), *(("wakes lost", share) for share in (0.001, 0.01, 0.05)),
           *(("skew", ns) for ns in (10_000, 30_000, 100_000, 300_000, 1_000_000)), *(("skew", -ns) for ns in (10_000, 100_000, 1_000_000))]
COLUMNS = ("right", "nothing", "cannot", "warned", "unsure", "CONFIDENT", "FAILED")


def lost(lines, share, rng, only):
    """Leaves out that share of the lines. Lines that declare queues are no events, and the last
    line defines the end.
    """
    def is_one(line):
        return '"t":' in line and (not only or any(key in line for key in only))
    return [line for at, line in enumerate(lines) if at == len(lines) - 1 or not is_one(line) or rng.random() >= share]


def skewed(lines, ns, rng):
    """Shifts one host's clock, or that of a third of the machines, by `ns`."""
    parsed = [json.loads(line) for line in lines]
    hosts = sorted({line.get("host", "") for line in parsed if "t" in line})
    machines = sorted({line["machine"] for line in parsed if "machine" in line})
    if len(hosts) > 1:
        host = rng.choice(hosts)
        wrong = {line["machine"] for line in parsed if line.get("host", "") == host and "machine" in line}
    else:
        wrong = set(rng.sample(machines, max(1, len(machines) // 3)))
    shift = max(0, -ns)
    out = []
    for at, line in enumerate(parsed):
        if "t" not in line:
            out.append((-1, at, line))
            continue
        by = shift + (ns if (line.get("machine") or line.get("end")) in wrong else 0)
        if "at" in line:
            line["at"] += by
        line["t"] += by
        out.append((line["t"], at, line))
    # The end must be the last line, whatever its shifted time.
    last = out.pop()
    out.sort(key=lambda entry: entry[:2])
    last[2]["t"] = max(last[2]["t"], out[-1][0])
    return [json.dumps(line, separators=(",", ":")) for _, _, line in [*out, last]]


def damaged(lines, kind, strength, rng):
    if kind == "lost":
        return lost(lines, strength, rng, ())
    if kind == "wakes lost":
        return lost(lines, strength, rng, ('"put"', '"woken_by"'))
    return skewed(lines, strength, rng) if kind == "skew" else lines


def is_warned(said):
    """True if the sentence contains the warning about contradictions and the JSON key agrees."""
    return any((said["doubts"] or {}).values()) and "in the trace: clocks, losses or misplaced probes" in said["text"]


def judged(tools, expected, seed, lines, kind, strength, log, right):
    """Returns the column of the table and the answer."""
    rng = random.Random(f"{expected['name']} {seed} {kind} {strength}")
    log.write_text("\n".join(damaged(lines, kind, strength, rng)) + "\n")
    try:
        said = tools.report(log)["verdict"]
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return "FAILED", str(error)
    first = verdict_name(said)
    if first in right:
        return "right", first
    if first == "nothing":
        return ("cannot" if said["outcome"] == "unknown" else "nothing"), said["text"]
    if is_warned(said):
        return "warned", said["text"]
    path = tools.path(log)
    shares = [(share, error) for share, error, names in folded(path, THRESHOLDS["windows"]["count"]) if "::".join(names) != first]
    sure = said["share_low"] > sum(shares[0] if shares else (0, 0))
    return ("CONFIDENT" if sure else "unsure"), first


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json")
    parser.add_argument("--longpole", default=str(TARGET / "longpole"))
    parser.add_argument("--simulator", default=str(TARGET / "longpole-sim"))
    options = parser.parse_args()
    tools = Tools(options.longpole, options.simulator)
    wanted = [row for row in EXPECTED["scenario"] + EXPECTED["control"] if not options.names or row["name"] in options.names]
    counts, rows = {damage: Counter() for damage in DAMAGES}, []
    with tempfile.TemporaryDirectory(prefix="longpole-truth-") as folder:
        log = pathlib.Path(folder, "log.jsonl")
        for expected in wanted:
            for seed in range(options.seed, options.seed + options.seeds):
                command = [options.simulator, "log", expected["name"], "--seed", str(seed)]
                lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
                roles = tools.truth(expected["name"], seed, [])["roles"]
                right = [named(text, roles) for text in [expected.get("truth", "nothing"), *expected.get("synonyms", [])]]
                for damage in DAMAGES:
                    column, said = judged(tools, expected, seed, lines, *damage, log, right)
                    counts[damage][column] += 1
                    rows.append({"name": expected["name"], "seed": seed, "damage": damage[0], "strength": damage[1], "column": column, "said": said})
    print(f"{'damage':12} {'strength':>10}  " + "  ".join(f"{column:>9}" for column in COLUMNS))
    for (kind, strength), count in counts.items():
        shown = "" if kind == "none" else f"{strength / 1000:.0f} us" if kind == "skew" else f"{100 * strength:.1f} %"
        print(f"{kind:12} {shown:>10}  " + "  ".join(f"{count[column]:9}" for column in COLUMNS))
    for row in rows:
        if row["column"] in ("CONFIDENT", "FAILED"):
            print(f"{row['column']}: {row['name']} {row['seed']}, {row['damage']} {row['strength']}: {row['said']}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))
    bad, failed = (sum(count[column] for count in counts.values()) for column in ("CONFIDENT", "FAILED"))
    print(f"\n{'met   ' if not bad else 'MISSED'}  confident and wrong: {bad} of {len(rows)}")
    print(f"{'met   ' if not failed else 'MISSED'}  failed: {failed}")
    sys.exit(1 if bad or failed else 0)


if __name__ == "__main__":
    main()

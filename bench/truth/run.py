#!/usr/bin/env python3
"""The truth suite, simulated part: is the verdict the bottleneck that the system has by
construction?

    bench/truth/run.py [NAME…] [--seed N] [--seeds COUNT] [--items N] [--ctf] [--json FILE]

The table shows for each scenario the truth; our first answer (the verdict of `report`; criticality:
its share of the path, or that of the path's first state); the profiler's first answer (the state
with the most CPU time); the unknown share; the gain of a change: as `what-if` predicts it, as
subtracting the criticality would, as Amdahl's law with the profiler's share would, and as
simulating the changed system shows; and the number of lines of rules and of probes that a user
would have to write (none for machine logs). With --ctf the input is the trace that probes in the
simulated programs would have recorded, if probes can express the whole system. expectations.toml
contains the expected answers, thresholds.toml defines what counts as right. The exit status is 1 if
a threshold is missed.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

from shares import folded, quoted, verdict_name

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
EXPECTED = tomllib.loads((HERE / "expectations.toml").read_text())
THRESHOLDS = tomllib.loads((HERE / "thresholds.toml").read_text())


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{pathlib.Path(command[0]).name} {command[1]}: {(done.stderr.strip() or f'status {done.returncode}').splitlines()[-1]}")
    return done.stdout


class Tools:
    def __init__(self, longpole, simulator):
        self.longpole, self.simulator = longpole, simulator

    def log(self, name, seed, items, to):
        with open(to, "wb") as out:
            subprocess.run([self.simulator, "log", name, "--seed", str(seed), *items], stdout=out, check=True, timeout=600)

    def ctf(self, name, seed, items, to):
        """Writes the trace. Returns True if probes can express this system."""
        command = [self.simulator, "ctf", name, "--seed", str(seed), *items, "-o", to]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode and "take its machine log" not in done.stderr:
            raise RuntimeError(done.stderr.strip())
        return done.returncode == 0

    def probes(self, trace):
        """Returns the number of lines that a user has to write into the programs: in each of them
        one for each pair of begin and end, call and return, ….
        """
        lines = {(line["stream"], re.sub("^(span|rpc)_(begin|end|call|returned):", r"\1:", line["name"])) for line in map(json.loads, run(self.longpole, "print", "--json", trace).splitlines()) if "name" in line}
        return len(lines)

    def truth(self, name, seed, items, *changes):
        return json.loads(run(self.simulator, "truth", name, "--seed", seed, *items, *changes))

    def path(self, log, *options):
        return json.loads(run(self.longpole, "path", "--json", *options, log))

    def report(self, log):
        return json.loads(run(self.longpole, "report", "--json", log))

    def what_if(self, log, *options):
        return json.loads(run(self.longpole, "what-if", "--json", *options, log))


def named(text, roles, quote=False):
    """Replaces roles by names, the longest role first."""
    for role in sorted(roles, key=len, reverse=True):
        text = text.replace("$" + role, quoted(roles[role]) if quote else roles[role])
    return text


def answer(tools, expected, seed, items, log):
    """Returns one row."""
    name = expected["name"]
    change = expected.get("change")
    truth = tools.truth(name, seed, items, *([change] if change else []))
    roles = truth["roles"]
    # A machine log contains its end.
    whose = ["--machine", roles["end"]] if log.is_dir() else []
    path = tools.path(log, *whose)
    said = tools.report(log)["verdict"]
    first = verdict_name(said)
    profile = truth["profile"]
    profiled = f"{profile[0]['class']}::{profile[0]['state']}" if profile else "nothing"
    rows = folded(path, THRESHOLDS["windows"]["count"])
    shares = {f"{owner}::{state}": (share, error) for share, error, (owner, state) in rows}
    share, error = shares.get(first, rows[0][:2])
    row = {
        "name": name, "seed": seed, "truth": named(expected.get("truth", "nothing"), roles), "first": first, "profiler": profiled,
        "right_names": [named(text, roles) for text in [expected.get("truth", "nothing"), *expected.get("synonyms", [])]],
        "share": share, "error": error, "why": "" if said["outcome"] == "bottleneck" else said["text"], "top": "::".join(rows[0][2]),
        "unknown": path["unknown_ns"] / max(path["length_ns"], 1), "decoy_criticality": shares.get(profiled, (0.0, 0.0))[0],
        "profiler_share": profile[0]["share"] if profile else None, "contradictions": path["contradictions"], "base_ns": truth["end_ns"],
        # None of them needs a rule; machine logs need no probes.
        "rule_lines": 0, "probe_lines": tools.probes(log) if log.is_dir() else 0,
    }
    row["right"], row["profiler_right"] = first in row["right_names"], profiled in row["right_names"]
    if change:
        row["change"] = named(change, roles, quote=True)
        row["real_ns"], row["real_gain"] = truth["changes"][0]["end_ns"], truth["changes"][0]["gain"]
        factor = expected.get("factor") or float(change.split(" x")[1])
        # The gain if nothing else took the place of the time that is saved.
        row["subtracted"] = 1 / max(1 - share * (1 - factor), 1e-9) - 1
        row["amdahl"] = 1 / max(1 - (row["profiler_share"] or 0) * (1 - factor), 1e-9) - 1
        predict(tools, row, log, whose)
    return row


def predict(tools, row, log, whose):
    row.update(predicted=None, predicted_error=None, refused=None)
    try:
        told = tools.what_if(log, *whose, row["change"])[0]
    except RuntimeError as error:
        row["refused"] = str(error)
        return
    row["refused"] = told["refused"]
    if told["predicted_ns"] is not None:
        row["predicted"] = row["base_ns"] / max(told["predicted_ns"], 1) - 1
        row["predicted_error"] = told["predicted_ns"] / row["real_ns"] - 1


def percent(value, sign=""):
    return "-" if value is None else f"{100 * value:{sign}.1f}"


COLUMNS = {
    "scenario": lambda r: f"{r['name']} {r['seed']}",
    "truth": lambda r: r["truth"],
    "first answer": lambda r: r["first"] + ("" if r["right"] else "  WRONG"),
    "critical": lambda r: f"{percent(r['share'])} ± {percent(r['error'])}",
    "profiler": lambda r: r["profiler"] + ("" if r["profiler_right"] else " x"),
    "its crit.": lambda r: percent(r["decoy_criticality"]),
    "unknown": lambda r: percent(r["unknown"]),
    "predicted": lambda r: "refused" if r.get("refused") else percent(r.get("predicted"), "+"),
    "subtract": lambda r: percent(r.get("subtracted"), "+"),
    "Amdahl": lambda r: percent(r.get("amdahl"), "+"),
    "real": lambda r: percent(r.get("real_gain"), "+"),
    "error": lambda r: percent(r.get("predicted_error"), "+"),
    "lines": lambda r: f"{r['rule_lines']}+{r['probe_lines']}" if r["truth"] != "nothing" else "",
}


def table(rows):
    cells = [list(COLUMNS), *([show(row) for show in COLUMNS.values()] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(COLUMNS))]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def sums(rows):
    """Prints the sums. Returns True if all thresholds are met."""
    bar = THRESHOLDS["bar"]
    scenarios = [row for row in rows if row["truth"] != "nothing"]
    controls = [row for row in rows if row["truth"] == "nothing"]
    hits, theirs = (sum(row[key] for row in scenarios) for key in ("right", "profiler_right"))
    alarms = sum(not row["right"] for row in controls)
    unknown = max(row["unknown"] for row in rows)
    decoy = max((row["decoy_criticality"] for row in scenarios), default=0)
    errors = [abs(row["predicted_error"]) for row in scenarios if row.get("predicted_error") is not None]
    refusals = sum(bool(row.get("refused")) for row in scenarios)
    seeds = len({row["seed"] for row in rows})
    lines = [
        ("first answers right", f"{hits} of {len(scenarios)}, the profiler's {theirs}", hits >= bar["hits"] * len(scenarios)),
        ("false alarms", f"{alarms} on {len(controls)} controls", alarms <= bar["false_alarms"]),
        ("unknown, worst", f"{percent(unknown)} %", unknown <= bar["unknown_share"]),
        ("criticality of the profiler's first answer, worst", f"{percent(decoy)} %", decoy < THRESHOLDS["decoy"]["criticality"]),
    ]
    if errors or refusals:
        worst = max(errors, default=None)
        lines.append(("error of what-if, worst", f"{percent(worst)} % of {len(errors)}", worst is not None and worst <= bar["what_if_error"]))
        lines.append(("refusals", f"{refusals}", refusals <= bar["refusals"] * seeds))
    print()
    for what, value, good in lines:
        print(f"{'met   ' if good else 'MISSED'}  {what}: {value}")
    return all(good for _, _, good in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="this and the following ones")
    parser.add_argument("--items", type=int, help="how much work a scenario has")
    parser.add_argument("--ctf", action="store_true", help="from traces of probes, not from machine logs")
    parser.add_argument("--json", help="all rows, for programs")
    parser.add_argument("--longpole", default=str(TARGET / "longpole"))
    parser.add_argument("--simulator", default=str(TARGET / "longpole-sim"))
    options = parser.parse_args()
    tools = Tools(options.longpole, options.simulator)
    wanted = [row for row in EXPECTED["scenario"] + EXPECTED["control"] if not options.names or row["name"] in options.names]
    unknown = set(options.names) - {row["name"] for row in wanted}
    if unknown or not wanted:
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    items = ["--items", str(options.items)] if options.items else []
    rows = []
    with tempfile.TemporaryDirectory(prefix="longpole-truth-") as folder:
        for seed in range(options.seed, options.seed + options.seeds):
            for expected in wanted:
                log = pathlib.Path(folder, f"{expected['name']}-{seed}")
                if not options.ctf:
                    tools.log(expected["name"], seed, items, log)
                elif not tools.ctf(expected["name"], seed, items, log):
                    continue
                rows.append(answer(tools, expected, seed, items, log))
                shutil.rmtree(log) if log.is_dir() else log.unlink()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))
    commit = subprocess.run(["git", "-C", str(ROOT), "log", "-1", "--format=%h", "--", str(HERE / "expectations.toml")], capture_output=True, text=True)
    print(f"simulated{', as traces of probes' if options.ctf else ''}; expectations of commit {commit.stdout.strip() or '(none)'}; gains and errors in %\n")
    table(rows)
    for row in rows:
        if not row["right"] and row["why"]:
            print(f"\n{row['name']} {row['seed']}: {row['why']}")
    sys.exit(0 if sums(rows) else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The truth suite, real part: is the verdict the bottleneck that the running system has by
construction?

    bench/truth/real.py [NAME…] [--runs 5 | --quick] [--seed N] [--seconds S] [--longpole PROGRAM]
                        [--json FILE] [--keep DIR]

Each system (systems.py) runs three times per repetition: unchanged, with the change of real.toml,
and unchanged under `longpole record`. The table shows for each scenario the truth; the first answer
of `report`; whether the verdict is right or only the first finding; its share of the critical path;
the profiler's first answer (the state with the most running time on the host, without the
recorder); the unknown share; and the gain of the change: as `what-if` predicts it, as subtracting
the criticality would, as Amdahl's law with the profiler's share would, and as measured with the
changed system. Figures are medians over the repetitions; for the unknown share and the error of the
prediction the worst repetition is shown as well, and refused predictions are counted over all
repetitions. thresholds.toml defines what counts as right.

Needs root, tracefs, ip, tc, nft and gcc, and for the gains a host without other work. The exit
status is 1 if a threshold is missed.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import tomllib

sys.dont_write_bytecode = True
import systems  # noqa: E402
from shares import quoted, told, verdict_name  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
EXPECTED = tomllib.loads((HERE / "real.toml").read_text())
THRESHOLDS = tomllib.loads((HERE / "thresholds.toml").read_text())
LIMIT = 120
BEGIN = "+0.25s"
# Root's default groups.
GROUPS = "sched,irq,softirq,net,block,workqueue,syscall"


def missing():
    if os.geteuid() != 0:
        return "root"
    if not pathlib.Path("/sys/kernel/tracing/instances").is_dir():
        return "tracefs"
    return next((tool for tool in ["ip", "tc", "nft", "gcc", "g++", "chrt", "taskset"] if shutil.which(tool) is None), None)


def named(text, names, quote=False):
    """Replaces roles by names, the longest role first."""
    for role in sorted(names, key=len, reverse=True):
        text = text.replace("$" + role, quoted(names[role]) if quote else names[role])
    return text


def is_one_of(answer, right):
    """True if the answer is one of the right ones. The prefix "rpc " of a call's state and the
    number of the process in a name are ignored.
    """
    answer = re.sub(r"/\d+\)", ")", answer.replace("::rpc ", "::"))
    return answer in right


class Trial:
    """One scenario at one strength."""

    def __init__(self, options, folder, program, expected, strength):
        self.options, self.folder, self.program, self.expected, self.strength = options, folder, program, expected, strength
        self.name = expected["name"]
        self.count = 0
        self.environment = dict(os.environ, LONGPOLE_RUNTIME_DIR=str(folder / "run"))

    def place(self, fixed):
        self.count += 1
        folder = self.folder / f"{self.name}-{self.count}"
        return systems.Place(self.program, folder, self.options.seed, self.options.seconds, fixed, self.strength, self.environment)

    def plain(self, fixed):
        """Returns the rate without a recording."""
        with self.place(fixed) as place:
            command = systems.SYSTEMS[self.name](place)
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=self.environment)
            if done.returncode:
                raise RuntimeError(f"{self.name}: {done.stderr.strip() or f'status {done.returncode}'}")
            return systems.rate(self.name, done.stdout)

    def recorded(self, fixed=False):
        """Returns the answers on a recording and the rate during it; for the fixed system the rate
        only.
        """
        with self.place(fixed) as place:
            command = systems.SYSTEMS[self.name](place)
            traces = place.folder / "traces"
            what = command if command[0] == "--for" else ["--all", "--", *command]
            done = subprocess.run([self.options.longpole, "record", *self.expected.get("record", []), "-o", traces, *what], capture_output=True, text=True, timeout=LIMIT, env=self.environment)
            if done.returncode:
                raise RuntimeError(f"{self.name}: record: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
            rate = systems.rate(self.name, done.stdout) if self.is_timed() else None
        recording = max(path for path in traces.iterdir() if path.is_dir())
        try:
            return rate if fixed else {**self.answer(place, recording), "recorded_rate": rate}
        finally:
            if self.options.keep:
                shutil.copytree(recording, pathlib.Path(self.options.keep) / place.folder.name, dirs_exist_ok=True)
            shutil.rmtree(place.folder)

    def groups(self):
        """Groups of kernel events that are recorded."""
        words = self.expected.get("record", [])
        return (words[words.index("--kernel") + 1] if "--kernel" in words else GROUPS).split(",")

    def is_timed(self):
        return self.expected.get("change") or self.expected.get("finding")

    def ask(self, *words):
        done = subprocess.run([self.options.longpole, *map(str, words)], capture_output=True, text=True, timeout=LIMIT, env=self.environment)
        if done.returncode:
            raise RuntimeError(f"{words[0]}: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
        return json.loads(done.stdout)

    def answer(self, place, recording):
        """Returns the answers of longpole and of a profiler on the recording."""
        report, path = self.ask("report", "--json", recording), self.ask("path", "--json", "--no-segments", recording)
        expected, names = self.expected, place.names
        verdict, lost = report["verdict"], next((it for it in report["findings"] if it["kind"] == "packets_lost"), None)
        first = verdict_name(verdict)
        is_loss = verdict["mechanism"] == "packet_loss"
        finding = next((f"{it['kind']} {it['subject']}" for it in report["findings"]), "")
        right = {named(text, names) for text in [expected.get("truth", "nothing"), *expected.get("synonyms", [])]}
        row = {"truth": named(expected.get("truth", "nothing"), names), "first": finding if lost and not is_loss else first, "verdict": first, "finding": finding, "text": verdict["text"]}
        wanted = named(expected["finding"], names) if "finding" in expected else None
        rows = told(report, path, THRESHOLDS["windows"]["count"])
        shares = {f"{owner}::{state}": (share, error) for share, error, (owner, state) in rows}
        row["top"] = "::".join(rows[0][2])
        row["share"], row["error"] = shares.get(first, rows[0][:2])
        row["is_on_path"] = first in shares
        row["path"] = [["::".join(of), round(share, 4), round(error, 4)] for share, error, of in rows[:8]]
        row["unknown"] = path["unknown_ns"] / max(path["length_ns"], 1)
        row["unknown_by"] = path.get("unknown_by", {})
        # Time must not be unknown if the reason is in an event group that was recorded.
        row["unexcused"] = "truth" in expected and row["unknown"] > THRESHOLDS["real"]["unknown_share"] and any(group in self.groups() for group in row["unknown_by"])
        # Lost packets must be reported before a verdict on something else.
        row["verdict_right"] = is_one_of(first, right) and not (lost and not is_loss) and not row["unexcused"]
        row["right"] = row["verdict_right"] or bool(wanted and finding.startswith(wanted) and not row["unexcused"])
        busy = [it for it in path["profile"] if it["class"] != "longpole"]
        whole = sum(it["ns"] for it in busy)
        row["profiler"] = f"{busy[0]['class']}::{busy[0]['state']}" if busy else "nothing"
        row["profiler_share"] = busy[0]["ns"] / whole if busy else None
        row["profiler_right"] = is_one_of(row["profiler"], right)
        row["profiler_critical"] = shares.get(row["profiler"], (0.0, 0.0))[0]
        row["events"] = report["inputs"]["events"] + report["inputs"]["kernel_events"]
        if expected.get("change"):
            self.predict(row, recording, {**names, "left": None}, place.left)
        elif "truth" in expected:
            row.update(predicted=None, refused="what-if knows no change that would mend this")
        return row

    def predict(self, row, recording, names, left):
        change = self.expected["change"].replace("{left}", f"{left or 0:.4f}")
        del names["left"]
        row["change"] = named(change, names, quote=True)
        row["factor"] = left or self.expected.get("factor") or float(change.split(" x")[1])
        row.update(predicted=None, low=None, high=None, refused=None)
        try:
            # The prediction is for the time in which the systems count their items: without the
            # beginning.
            told = self.ask("what-if", "--json", "--begin", BEGIN, recording, row["change"])[0]
        except RuntimeError as error:
            row["refused"] = str(error)
            return
        row.update(predicted=told["gain"], low=told["gain_low"], high=told["gain_high"], refused=told["refused"])
        row["subtracted"] = 1 / max(1 - row["share"] * (1 - row["factor"]), 1e-9) - 1
        row["amdahl"] = 1 / max(1 - (row["profiler_share"] or 0) * (1 - row["factor"]), 1e-9) - 1

    def run(self):
        """Returns all repetitions as one row: the first answer of each, and medians of the numbers.
        """
        answers, before, after = [], [], []
        for _ in range(self.options.runs):
            if self.is_timed():
                before.append(self.plain(False))
                after.append(self.plain(True))
            answers.append(self.recorded())
            if answers[-1].get("predicted") is not None:
                answers[-1]["recorded"] = answers[-1]["recorded_rate"] and self.recorded(True) / answers[-1]["recorded_rate"] - 1
        middle = {key: median(answer.get(key) for answer in answers) for key in NUMBERS}
        last = next((answer for answer in answers if not answer["right"]), answers[0])
        row = {**last, **middle, "name": self.name + (f" +{self.strength:.0%}" if self.strength else ""), "scenario": self.name, "runs": len(answers)}
        row["hits"] = sum(answer["right"] for answer in answers)
        row["verdict_hits"] = sum(answer["verdict_right"] for answer in answers)
        row["verdict_right"] = row["verdict_hits"] == len(answers)
        row["right"] = row["hits"] == len(answers)
        row["profiler_right"] = all(answer["profiler_right"] for answer in answers)
        row["answers"] = answers
        row["unknown_worst"] = max(answer["unknown"] for answer in answers)
        row["refusals"] = [answer["refused"] or "no gain" for answer in answers if "predicted" in answer and answer["predicted"] is None]
        row["before"], row["after"] = median(before), median(after)
        if row["before"] and row["after"]:
            gains = sorted(b / a - 1 for a, b in zip(before, after))
            row["real"], row["real_low"], row["real_high"] = statistics.median(gains), gains[0], gains[-1]
            if row["predicted"] is not None:
                row["predicted_error"] = (1 + row["real"]) / (1 + row["predicted"]) - 1
            errors = [(1 + row["real"]) / (1 + answer["predicted"]) - 1 for answer in answers if answer.get("predicted") is not None]
            row["error_worst"] = max(errors, key=abs, default=None)
        return row


NUMBERS = ["share", "error", "unknown", "profiler_share", "profiler_critical", "predicted", "low", "high", "subtracted", "amdahl", "recorded", "events"]


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def percent(value, sign=""):
    return "-" if value is None else f"{100 * value:{sign}.1f}"


COLUMNS = {
    "scenario": lambda r: r["name"],
    "truth": lambda r: r["truth"],
    "first answer": lambda r: r["first"] + ("" if r["right"] else f"  WRONG {r['runs'] - r['hits']} of {r['runs']}"),
    "right by": lambda r: "verdict" if r["verdict_right"] else f"finding, verdict {r['verdict_hits']} of {r['runs']}" if r["right"] else "",
    # If the answer is no state of the path, the share is that of the path's first state.
    "critical": lambda r: f"{percent(r['share'])} ± {percent(r['error'])}" + ("" if r.get("is_on_path", True) else f" ({r['top']})"),
    "profiler": lambda r: r["profiler"] + ("" if r["profiler_right"] else " x"),
    "its crit.": lambda r: percent(r["profiler_critical"]),
    "unknown": lambda r: percent(r["unknown"]),
    "worst": lambda r: percent(r.get("unknown_worst")),
    "predicted": lambda r: percent(r.get("predicted"), "+") + (f" refused {len(r['refusals'])} of {r['runs']}" if r.get("refusals") else ""),
    "subtract": lambda r: percent(r.get("subtracted"), "+"),
    "Amdahl": lambda r: percent(r.get("amdahl"), "+"),
    "recorded": lambda r: percent(r.get("recorded"), "+"),
    "real": lambda r: percent(r.get("real"), "+"),
    "error": lambda r: percent(r.get("predicted_error"), "+"),
    "its worst": lambda r: percent(r.get("error_worst"), "+"),
    "lines": lambda r: f"{r.get('rule_lines', 0)}+{r.get('probe_lines', 0)}" if r["truth"] != "nothing" else "",
}


def table(rows):
    cells = [list(COLUMNS), *([show(row) for show in COLUMNS.values()] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(COLUMNS))]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def sums(rows):
    """Prints the sums. Returns True if all thresholds are met.

    A scenario is right if it is right at all its strengths and in all its runs, and it is the
    verdict that must be right. A scenario counts as refused if a prediction was refused in one of
    its runs, or if no change can be predicted. The thresholds of the unknown share and of errors
    apply to the medians of each scenario; the worst single run is printed as well.
    """
    bar = THRESHOLDS["real"]
    faults = [row for row in rows if row["truth"] != "nothing"]
    controls = [row for row in rows if row["truth"] == "nothing"]
    names = sorted({row["scenario"] for row in faults})
    all_of = lambda key: sum(all(row[key] for row in faults if row["scenario"] == name) for name in names)
    hits, runs = sum(row["hits"] for row in faults), sum(row["runs"] for row in faults)
    alarms, quiet = sum(row["runs"] - row["hits"] for row in controls), sum(row["runs"] for row in controls)
    verdicts = sum(row["verdict_hits"] for row in faults)
    others = sorted({row["scenario"] for row in faults if row["right"] and not row["verdict_right"]})
    unknown = max(row["unknown"] for row in rows)
    unknowns = worst_of(rows, "unknown_worst")
    refusals = sum(len(row.get("refusals", [])) for row in faults)
    refused = sorted({row["scenario"] for row in faults if row.get("refusals")})
    lines = [
        ("scenarios right in all runs by the verdict", f"{all_of('verdict_right')} of {len(names)} ({verdicts} of {runs} runs), the profiler's {all_of('profiler_right')}", all_of("verdict_right") >= bar["hits"] * len(names)),
        ("by verdict or first finding", f"{all_of('right')} of {len(names)} ({hits} of {runs} runs); by the finding: {', '.join(others) or 'none'}", all_of("right") >= bar["hits"] * len(names)),
        ("false alarms", f"{alarms} of {quiet} runs on {len(controls)} controls", alarms <= bar["false_alarms"]),
        ("unknown, worst median", f"{percent(unknown)} %; worst single run {unknowns}", unknown <= bar["unknown_share"]),
        ("refused predictions", f"{refusals} of all runs; scenarios: {', '.join(refused) or 'none'}", len(refused) <= bar["refusals"]),
    ]
    errors = [(abs(row["predicted_error"]), row["name"]) for row in faults if row.get("predicted_error") is not None]
    if errors:
        worst, where = max(errors)
        lines.append(("error of what-if, worst median", f"{percent(worst)} % ({where}); worst single run {worst_of(faults, 'error_worst')}", worst <= bar["what_if_error"]))
    print()
    for what, value, good in lines:
        print(f"{'met   ' if good else 'MISSED'}  {what}: {value}")
    return all(good for _, _, good in lines)


def worst_of(rows, key):
    value, where = max(((abs(row[key]), row["name"]) for row in rows if row.get(key) is not None), default=(None, "-"))
    return f"{percent(value)} % ({where})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one run of each")
    parser.add_argument("--seed", type=int, default=0, help="draw names and parameters; 0: as they stand")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--json", help="all rows, one a line, with every answer; default: a file beside the measurements of the target folder")
    parser.add_argument("--keep", help="folder for the recordings")
    parser.add_argument("--longpole", default=str(TARGET / "longpole"))
    options = parser.parse_args()
    options.longpole = shutil.which(options.longpole) or options.longpole
    options.runs = 1 if options.quick else options.runs
    wanted = [row for row in EXPECTED["scenario"] + EXPECTED["control"] if not options.names or row["name"] in options.names]
    unknown = set(options.names) - {row["name"] for row in wanted}
    if unknown or not wanted:
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    if lacking := missing():
        print(f"skipped: the real part of the truth suite needs {lacking}")
        return 0
    to = pathlib.Path(options.json or TARGET.parent / "truth" / "real.jsonl")
    to.parent.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(["git", "-C", str(ROOT), "log", "-1", "--format=%h", "--", str(HERE / "real.toml")], capture_output=True, text=True).stdout.strip() or "(none)"
    rows = []
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with systems.alone(), tempfile.TemporaryDirectory(prefix="longpole-truth-", dir="/var/tmp") as scratch, to.open("w") as out:
        folder = pathlib.Path(scratch)
        (folder / "run").mkdir(mode=0o700)
        program = systems.compiled(folder)
        for expected in wanted:
            for strength in expected.get("strengths", [None]):
                print(f"{expected['name']} {strength or ''}", file=sys.stderr)
                try:
                    row = Trial(options, folder, program, expected, strength).run()
                except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                    row = broken(expected, strength, options.runs, str(error))
                row.update({key: expected.get(key, 0) for key in ("rule_lines", "probe_lines")})
                rows.append(row)
                print(json.dumps({"expectations": commit, **row}), file=out, flush=True)
    print(f"real, {options.runs} runs of each, {options.seconds:g} s; expectations of commit {commit}; gains and errors in %; all rows: {to}\n")
    table(rows)
    for row in rows:
        if not row["right"]:
            print(f"\n{row['name']}: {row['text']}\n  path: " + ", ".join(f"{of} {percent(share)} ± {percent(error)}" for of, share, error in row.get("path", [])))
            if row.get("finding"):
                print(f"  first finding: {row['finding']}")
        for why in sorted(set(row.get("refusals", []))):
            print(f"\n{row['name']}: {why}")
    return 0 if sums(rows) else 1


def broken(expected, strength, runs, why):
    """Returns the row of a system that did not run, which is a wrong answer."""
    row = dict.fromkeys(NUMBERS) | {"unknown": 0.0, "profiler_right": False, "profiler": "-", "verdict_right": False, "verdict_hits": 0, "right": False, "hits": 0, "runs": runs, "first": "FAILED", "text": why}
    return row | {"name": expected["name"] + (f" +{strength:.0%}" if strength else ""), "scenario": expected["name"], "truth": expected.get("truth", "nothing")}


if __name__ == "__main__":
    sys.exit(main())

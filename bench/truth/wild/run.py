#!/usr/bin/env python3
"""The truth suite, wild part: real software with a bottleneck that was added and can be removed.

    bench/truth/wild/run.py [NAME…] [--unseen] [--keep DIR [--again|--gains]] [--json FILE]
                            [--longpole PROGRAM]

Each system (a file in seen/ or unseen/, see system.py) runs three times: with its fault, without
it, and with it under `longpole record`. The first sentence of `longpole report` is compared with
the truth:

    right              it names the component and the mechanism
    vague              it names nothing, or the component without the mechanism
    wrong              it names something else, with a caveat
    confidently wrong  it names something else without a caveat
    failed             the system did not run, or longpole did not end with status 0

A run is repeated if other work had a tenth of the CPUs or more meanwhile; `others` is the worst
remaining share. A control has no relevant bottleneck: it is right if nothing is named, or only
something that the control declares as acceptable. The gain is the rate without the fault divided by
that with it, minus 1, both without a recording. The prediction is that of `longpole what-if` for
the system's own `change` on the recording. A system with `halves` also runs with half of its fault,
and the measured gain is compared with the prediction for the verdict's own change.

Needs root, tracefs, and the programs of `scripts/setup wild`; a system whose programs are missing
is skipped. With --keep each recording remains in DIR/NAME, with a line in DIR/index.tsv and the
measured rates in DIR/gains.json. The exit status is 1 if a system is not right.
"""
import argparse
import contextlib
import importlib.util
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import system  # noqa: E402

ROOT = HERE.parent.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
# Permitted CPU share of other work during a run, and the number of seconds to wait until there is
# less.
QUIET, PATIENCE = 0.1, 60
LIMIT = 120
# Minimum gain of removing a fault; a smaller one means that the fault has no effect.
MIN_GAIN = 0.2


def declared(folder):
    """Returns all systems of a folder, in the order of the file names."""
    systems = []
    for path in sorted(folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"{folder.name}_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        systems += module.SYSTEMS
    return systems


def cpu_times():
    """Returns the total time of all CPUs since boot in seconds, and the part that was not idle."""
    values = [int(value) / os.sysconf("SC_CLK_TCK") for value in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(values), sum(values) - values[3] - values[4]


def wait_for_quiet():
    end = time.monotonic() + PATIENCE
    while True:
        all_before, busy_before = cpu_times()
        time.sleep(0.5)
        all_after, busy_after = cpu_times()
        if busy_after - busy_before < QUIET * (all_after - all_before) or time.monotonic() > end:
            return


@contextlib.contextmanager
def others(into):
    """Appends the CPU share of other work: that of neither this program nor its ended children."""
    def own():
        return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    all_before, busy_before = cpu_times()
    own_before = own()
    yield
    all_after, busy_after = cpu_times()
    into.append(max(0, busy_after - busy_before - own() + own_before) / max(all_after - all_before, 1e-9))


def finished(words, **options):
    """Runs a command and returns its output. Its whole session is ended with it."""
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **options)
    try:
        out, error = process.communicate(timeout=LIMIT)
    finally:
        system.ended(process, signal.SIGKILL) if process.poll() is None else None
    if process.returncode:
        raise RuntimeError(f"{Path(words[0]).name} {words[1] if len(words) > 1 else ''}: status {process.returncode}: {(error or out).strip()[-400:]}")
    return out


class Trial:
    """One system, run as often as its row of the table needs."""

    def __init__(self, options, scratch, of):
        self.options, self.scratch, self.of = options, scratch, of
        self.count, self.disturbed = 0, 0
        self.environment = dict(os.environ, LONGPOLE_RUNTIME_DIR=str(scratch / "run"))

    def place(self, fault):
        self.count += 1
        return system.Place(self.scratch / f"{self.of.name}-{self.count}", fault)

    def rate(self, output, seconds):
        return self.of.rate(output) if self.of.rate else 1 / seconds

    def undisturbed(self, run):
        """Returns the result of a run without much other work on the host; that of the last run if
        there was none.
        """
        for _ in range(max(self.options.tries, 1)):
            if self.options.tries:
                wait_for_quiet()
            shares = []
            with others(shares):
                result = run()
            if shares[0] < QUIET:
                break
            print(f"  {self.of.name}: something else had {shares[0]:.0%} of the CPUs", file=sys.stderr)
        self.disturbed = max(self.disturbed, shares[0])
        return result

    def plain(self, fault):
        """Returns the rate without a recording."""
        with self.place(fault) as place:
            command = self.of.load(place)
            begin = time.monotonic()
            output = finished(command, cwd=place.folder)
            return self.rate(output, time.monotonic() - begin)

    def gains(self):
        """Returns the rates with the fault (before), without it (after) and with half of it, all
        without a recording, and the two gains.
        """
        rates = {"before": self.undisturbed(lambda: self.plain(1.0))}
        if not self.of.control:
            rates["after"] = self.undisturbed(lambda: self.plain(0.0))
            rates["gain"] = rates["after"] / rates["before"] - 1
        if self.of.halves:
            rates["half"] = self.undisturbed(lambda: self.plain(0.5))
            rates["half_gain"] = rates["half"] / rates["before"] - 1
        return rates | {"disturbed": self.disturbed}

    def recorded(self, into):
        """Returns the rate during a recording, which is moved to `into`."""
        with self.place(1.0) as place:
            if self.of.running:
                place.seconds += 3
            command = self.of.load(place)
            traces = place.folder / "traces"
            record = [self.options.longpole, "record", *self.of.record, "-o", traces]
            begin = time.monotonic()
            if self.of.running:
                output = self.attached(place, command, record)
            else:
                output = finished([*record, "--", *command], cwd=place.folder, env=self.environment)
            rate = self.rate(output, time.monotonic() - begin)
            shutil.rmtree(into, ignore_errors=True)
            shutil.move(max(path for path in traces.iterdir() if path.is_dir()), into)
        return rate

    def attached(self, place, command, record):
        """Returns the output of a load of which a part is recorded."""
        path = place.folder / "load.out"
        with path.open("w") as out:
            load = subprocess.Popen(command, stdout=out, stderr=out, cwd=place.folder, start_new_session=True)
        place.stack.callback(system.ended, load, signal.SIGTERM)
        time.sleep(1)
        finished([*record, "--for", f"{system.SECONDS}s"], env=self.environment)
        load.wait(LIMIT)
        return path.read_text()

    def run(self):
        of = self.of
        row = {"name": of.name, "class": of.kind, "truth": of.truth, "score": "failed", "sentence": ""}
        folder = Path(self.options.keep) if self.options.keep else self.scratch / "recordings"
        folder.mkdir(parents=True, exist_ok=True)
        recording = folder / of.name
        try:
            row.update(gains := self.gains())
            if self.options.keep and not of.control:
                keep_gains(folder, of.name, gains)
            if not of.control:
                if row["gain"] < MIN_GAIN:
                    raise RuntimeError(f"without its fault the system is only {percent(row['gain'])} % faster")
            row["recorded"] = self.undisturbed(lambda: self.recorded(recording))
            row["disturbed"] = self.disturbed
            row.update(judged(self.options.longpole, recording, of))
        except (RuntimeError, OSError, subprocess.TimeoutExpired, json.JSONDecodeError) as error:
            row["sentence"] = f"FAILED: {error}"
        if self.options.keep and recording.exists():
            noted(folder, recording, row)
        return row


def judged(longpole, recording, of):
    """Returns longpole's answers on the recording and their score."""
    begin = time.monotonic()
    text = finished([longpole, "report", recording])
    row = {"report_seconds": time.monotonic() - begin, "report": text}
    told = json.loads(finished([longpole, "report", "--json", recording]))
    verdict = told["verdict"]
    row["line"] = next((line for line in text.splitlines() if line.strip()), "")
    # The sentence without remedies and caveats, which also name possible causes.
    row["sentence"] = re.split(r"(?<=[a-z)%]\.) (?=[A-Z])", row["line"])[0]
    row["verdict"] = verdict
    row["score"] = score(row["sentence"], verdict, of)
    if of.code:
        row["code"] = "right" if any(re.search(name, text) for name in of.code) else "missing"
    row["change"] = scenario(of.change, told)
    row.update(predictions(longpole, recording, row["change"], ""))
    if of.halves:
        row["half_change"] = half_of_state(told)
        row.update(predictions(longpole, recording, row["half_change"], "half_"))
    return row


def predictions(longpole, recording, change, prefix):
    """Returns the answer of what-if as part of a row; empty if there is no change."""
    if not change:
        return {}
    try:
        told = json.loads(finished([longpole, "what-if", "--json", recording, change]))[0]
    except RuntimeError as error:
        return {f"{prefix}refused": str(error)}
    names = {"predicted": "gain", "low": "gain_low", "high": "gain_high", "refused": "refused"}
    return {prefix + name: told[of] for name, of in names.items()}


def scenario(change, told):
    """Returns the declared change in the syntax of what-if; None if the verdict has no state that
    can be changed.

    If the verdict offers a change to do more work in parallel, that is the effect of removing the
    fault, unless the fault's removal means that the time of one piece vanishes (x0).
    """
    if not change or not change.startswith("x"):
        return change
    offered = (told["verdict"].get("gain") or {}).get("change") or ""
    if change != "x0" and offered.startswith(("concurrency ", "lock ")) and not offered.endswith(" x0.5"):
        return offered
    halved = half_of_state(told)
    return halved and re.sub(r" x0\.5$", f" {change}", halved)


def half_of_state(told):
    """Returns the change that halves the verdict's state: the verdict's own change, or of those
    that were tried the one with the largest gain.
    """
    offered = (told["verdict"].get("gain") or {}).get("change") or ""
    if offered and not offered.startswith(("concurrency ", "lock ")):
        return offered if offered.endswith(" x0.5") else None
    tried = [it for it in told.get("predictions") or [] if it["change"].endswith(" x0.5") and it["gain"] is not None]
    return max(tried, key=lambda it: it["gain"])["change"] if offered and tried else None


def score(sentence, verdict, of):
    def matches(patterns, text=sentence):
        return any(re.search(pattern, text, re.I) for pattern in patterns)
    if verdict["outcome"] in ("spread", "unknown"):
        return "right" if of.control else "vague"
    if of.control:
        good = matches(of.acceptable)
    else:
        # The clauses after the first one also name others, namely the threads that wait.
        good = matches(of.component, sentence.split(";")[0]) and not matches(of.never)
    if good:
        return "right" if of.control or matches(of.mechanism) else "vague"
    return "wrong" if verdict["caveats"] else "confidently wrong"


def noted(folder, recording, row):
    """Writes a line of the index, which replaces an older one for the same system."""
    index = folder / "index.tsv"
    lines = index.read_text().splitlines() if index.exists() else []
    lines = [line for line in lines if line.split("\t")[0] != row["name"]]
    fields = [row["name"], row["class"], str(recording), row["truth"], percent(row.get("gain")) + " %", row.get("line", row["sentence"])]
    lines.append("\t".join(" ".join(field.split()) for field in fields))
    index.write_text("\n".join(lines) + "\n")


def keep_gains(folder, name, gains):
    """Stores the measured rates of a system, replacing older ones."""
    path = folder / "gains.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(kept | {name: gains}, indent=1) + "\n")


def kept_gains(folder, name):
    """Returns the stored rates of a system; for a recording older than gains.json the gain in the
    index.
    """
    path, index = folder / "gains.json", folder / "index.tsv"
    kept = json.loads(path.read_text()) if path.exists() else {}
    if name in kept:
        return kept[name]
    for line in index.read_text().splitlines() if index.exists() else []:
        fields = line.split("\t")
        if fields[0] == name and fields[4] != "- %":
            return {"gain": float(fields[4].split()[0]) / 100}
    return {}


def percent(value):
    return "-" if value is None else f"{100 * value:+.0f}"


def prediction(row, prefix=""):
    if row.get(f"{prefix}predicted") is None:
        return "refused" if row.get(f"{prefix}refused") else "-"
    value, low, high = (percent(row[prefix + name]) for name in ("predicted", "low", "high"))
    return f"{value} ({low} to {high})"


def held(rows):
    """Returns a sentence with the number of predictions (for the whole fault or half of it) whose
    interval contains the measured gain.
    """
    asked, good, refused = 0, 0, 0
    for row in rows:
        for prefix, gain in ("", "gain"), ("half_", "half_gain"):
            if row.get(gain) is None or f"{prefix}refused" not in row:
                continue
            asked += 1
            if row.get(f"{prefix}predicted") is None:
                refused += 1
            else:
                good += row[f"{prefix}low"] <= row[gain] <= row[f"{prefix}high"]
    return f"{asked} predictions: {good} intervals hold the measured gain, {asked - good - refused} do not, {refused} refused"


def cost(row):
    return percent(row["recorded"] / row["before"] - 1) if row.get("recorded") and row.get("before") else "-"


COLUMNS = {
    "system": lambda row: row["name"],
    "class": lambda row: row["class"],
    "score": lambda row: row["score"],
    "code": lambda row: row.get("code", "-"),
    "gain": lambda row: percent(row.get("gain")),
    "predicted": prediction,
    "half": lambda row: percent(row.get("half_gain")),
    "half predicted": lambda row: prediction(row, "half_"),
    "recorder": cost,
    "others": lambda row: f"{100 * row.get('disturbed', 0):.0f}",
}


def table(rows):
    """Prints one line of figures for each system, and below it the truth and the first sentence."""
    cells = [list(COLUMNS), *([show(row) for show in COLUMNS.values()] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(COLUMNS))]
    for at, line in enumerate(cells):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
        if at:
            print(f"    truth: {rows[at - 1]['truth']}\n    first: {rows[at - 1]['sentence']}")
    scores = [row["score"] for row in rows if row["class"] != "control"]
    alarms = sum(row["score"] != "right" for row in rows if row["class"] == "control")
    print(f"\n{len(scores)} faults: " + ", ".join(f"{scores.count(name)} {name}" for name in SCORES))
    print(f"{len(rows) - len(scores)} controls: {alarms} false alarms or failures")
    print(held(rows))
    named = [row["code"] for row in rows if "code" in row]
    print(f"{len(named)} systems with a known function: {named.count('right')} first screens name it")


SCORES = ["right", "vague", "wrong", "confidently wrong", "failed"]


def missing(of):
    """Returns a program that the system needs and that is not installed."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    return next((name for name in of.needs if shutil.which(name, path=path) is None), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--unseen", action="store_true", help="the systems of unseen/ in place of those of seen/")
    parser.add_argument("--list", action="store_true", help="print names, classes and truths, and run nothing")
    parser.add_argument("--json", help="file for all rows, one a line, with the whole report")
    parser.add_argument("--keep", help="folder for the recordings and their index")
    parser.add_argument("--again", action="store_true", help="run nothing: judge the recordings of --keep")
    parser.add_argument("--gains", action="store_true", help="record and judge nothing: measure what half the fault and its removal gain, into gains.json of --keep")
    parser.add_argument("--tries", type=int, default=3, help="runs until one is undisturbed; 0: one, without waiting for a quiet machine")
    parser.add_argument("--longpole", default=str(TARGET / "longpole"))
    options = parser.parse_args()
    options.longpole = shutil.which(options.longpole) or options.longpole
    known = declared(HERE / ("unseen" if options.unseen else "seen"))
    if unknown := set(options.names) - {of.name for of in known}:
        parser.error(f"no such system: {', '.join(sorted(unknown))}")
    if options.again and options.gains:
        parser.error("--again runs nothing, --gains judges nothing")
    if (options.again or options.gains) and not options.keep:
        parser.error("--again and --gains need --keep")
    wanted = [of for of in known if (not options.names or of.name in options.names) and (of.halves or not options.gains)]
    if options.list:
        for of in wanted:
            print(f"{of.name}\t{of.kind}\t{of.truth}")
        return 0
    if os.geteuid() != 0 or not Path("/sys/kernel/tracing/instances").is_dir():
        print("skipped: the wild part of the truth suite needs root and tracefs")
        return 0
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    rows, failures = [], 0
    with tempfile.TemporaryDirectory(prefix="longpole-wild-", dir="/var/tmp") as scratch:
        scratch = Path(scratch)
        scratch.chmod(0o755)
        (scratch / "run").mkdir(mode=0o700)
        for of in wanted:
            if lacking := missing(of):
                print(f"skipped: {of.name} needs {lacking}")
                continue
            if options.gains:
                failures += not measured(options, scratch, of)
                continue
            row = again(options, of) if options.again else Trial(options, scratch, of).run()
            if row is None:
                print(f"skipped: {of.name} has no recording in {options.keep}")
                continue
            rows.append(row)
            print(f"{of.name}: {row['score']}: {row['sentence']}", file=sys.stderr)
            if options.json:
                with open(options.json, "a") as out:
                    print(json.dumps(row), file=out)
    if options.gains:
        return 1 if failures else 0
    table(rows)
    return 0 if all(row["score"] == "right" for row in rows) else 1


def measured(options, scratch, of):
    """Measures one system for gains.json. Returns False if it did not run."""
    try:
        gains = Trial(options, scratch, of).gains()
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        print(f"{of.name}: FAILED: {error}")
        return False
    Path(options.keep).mkdir(parents=True, exist_ok=True)
    keep_gains(Path(options.keep), of.name, gains)
    rates = ", ".join(f"{name} {gains[name]:.4g}" for name in ("before", "after", "half"))
    print(f"{of.name}: {rates}; gain {percent(gains['gain'])} %, of half the fault {percent(gains['half_gain'])} %", flush=True)
    return True


def again(options, of):
    """Returns the row of a stored recording, with the gain measured at that time."""
    recording = Path(options.keep) / of.name
    if not recording.exists():
        return None
    row = {"name": of.name, "class": of.kind, "truth": of.truth, "score": "failed", "sentence": ""}
    row |= kept_gains(Path(options.keep), of.name)
    try:
        return row | judged(options.longpole, recording, of)
    except (RuntimeError, subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        return row | {"sentence": f"FAILED: {error}"}


if __name__ == "__main__":
    sys.exit(main())

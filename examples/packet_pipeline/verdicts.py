#!/usr/bin/env python3
"""Records the pipeline with each fault alone, and without a fault, and compares the reports with
expected.tsv.

With --seed the pipeline is built with random words for all names and starts its processes in random
order, and the table is translated. Exits with 1 if a row does not hold in all runs, or if a row's
answer appears without a fault.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import build  # noqa: E402

# Share of the CPUs that other programs may have while a run without a fault counts.
BUSY = 0.25


def table():
    rows = []
    for line in (build.HERE / "expected.tsv").read_text().splitlines():
        if line and not line.startswith("#"):
            fault, size, arguments, machine, state, kind, subject = line.split("\t")
            rows.append({"fault": fault, "bytes": size, "arguments": arguments.split(), "verdict": (machine, state), "finding": (kind, subject)})
    return rows


def translate(rows, words):
    def name(text):
        return "::".join(words.get(part, part) for part in text.split("::"))

    for row in rows:
        row["verdict"] = tuple(name(text) for text in row["verdict"])
        row["finding"] = (row["finding"][0], name(row["finding"][1]))
    return rows


def report(longpole, program, arguments, folder, keep):
    """Records one run and returns the report."""
    subprocess.run([longpole, "record", "--kernel", "none", "-o", folder, "--", program, *arguments], check=True, stdout=subprocess.DEVNULL)
    recording = max(Path(folder).iterdir()) # Recordings are named by their time.
    run = subprocess.run([longpole, "report", "--json", str(recording)], check=True, stdout=subprocess.PIPE, text=True)
    if not keep:
        shutil.rmtree(recording)
    return json.loads(run.stdout)


def cpu_seconds():
    """Returns the CPU time since boot in seconds: all of it, and that of other programs."""
    values = [int(value) / os.sysconf("SC_CLK_TCK") for value in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    own = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(values), sum(values) - values[3] - values[4] - own


def roomy():
    """Folder for recordings: in memory if there is room, because a slow disk costs events."""
    memory = "/dev/shm"
    return memory if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= 2 << 30 else None


def verdict_of(answer):
    verdict = answer["verdict"]
    if verdict["outcome"] != "bottleneck":
        return "nothing", ""
    return verdict["subject"]["name"], (verdict["state"] or {}).get("name", "")


def finding_of(finding):
    return finding["kind"], finding["subject"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--longpole", default=str(build.HERE.parent.parent / "target/release/longpole"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", default="2")
    parser.add_argument("--seed", type=int, help="scramble all names")
    parser.add_argument("--only", help="faults, separated by commas; `none` is the run without")
    parser.add_argument("--any", action="store_true", help="a machine that others use, too: a fault must be named in one of its runs, a control be clean in most of those in which other programs took few CPUs")
    parser.add_argument("--keep", help="folder for programs and recordings")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory(dir=roomy()) as traces:
        folder = Path(options.keep or scratch)
        traces = Path(options.keep or traces)
        rows = table()
        order = []
        if options.seed is None:
            program = build.build(folder / "build")
        else:
            program = build.build_scrambled(folder / "build", options.seed)
            rows = translate(rows, json.loads((folder / "build" / "names.json").read_text()))
            order = [f"--start-order={options.seed + 1}"]
        only = options.only.split(",") if options.only else None
        all_good = True

        def each_run(name, arguments):
            """Yields the report of each run, and the share of the CPUs that other programs had."""
            for run in range(options.runs):
                all_before, others_before = cpu_seconds()
                answer = report(options.longpole, str(program), [f"--seconds={options.seconds}", *order, *arguments], str(traces / f"{name}-{run}"), options.keep)
                all_after, others_after = cpu_seconds()
                yield answer, (others_after - others_before) / max(all_after - all_before, 1e-9)

        for row in rows:
            if only and row["fault"] not in only:
                continue
            held = []
            for answer, _ in each_run(row["fault"], [f"--bytes={row['bytes']}", *row["arguments"]]):
                verdict = verdict_of(answer)
                first = next(map(finding_of, answer["findings"]), None)
                good = row["verdict"] == verdict or row["finding"] == first
                held.append(good)
                print(f"{'holds' if good else 'FAILS'}\t{row['fault']}\tverdict {'::'.join(verdict)}\tfirst finding {first}", flush=True)
                if options.any and good:
                    break
            all_good &= any(held) if options.any else all(held)

        if not only or "none" in only:
            # For packets of 64 bytes even a batch of 150 takes so little time that a quarter of the
            # router's work is fetching the next batch. That is a limit too, so the control uses
            # larger batches.
            for size, batch in (("64", "1000"), ("1400", "150")):
                held = []
                for answer, others in each_run(f"none-{size}", [f"--bytes={size}", f"--batch={batch}"]):
                    verdict = verdict_of(answer)
                    findings = list(map(finding_of, answer["findings"]))
                    good = all(verdict != row["verdict"] and row["finding"] not in findings for row in rows)
                    # If other programs take the CPUs, a stage may be the slowest although it has
                    # no fault.
                    is_quiet = good or others < BUSY or not options.any
                    if is_quiet:
                        held.append(good)
                    print(f"{'holds' if good else 'FAILS' if is_quiet else 'skipped (busy host)'}\tnone, {size} bytes\tverdict {'::'.join(verdict)}\tfindings {findings}", flush=True)
                    if options.any and sum(held) == 2:
                        break
                all_good &= 2 * sum(held) > len(held) or not held if options.any else all(held)
        return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())

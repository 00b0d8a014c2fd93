#!/usr/bin/env python3
"""Runs the pipeline without its probes, but with its functions recorded (longpole/auto.h): the
verdict must name the function that is the bottleneck.

With the fault that rules are looked up by exceptions, at least one of up to eight runs must name
the function that throws, and none may name another one; a run without a verdict is allowed, because
other programs may use the host. Without the fault most runs must not name this function. The test
needs the kernel's events, because functions do not show why a thread waits; it is skipped without
root.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import build  # noqa: E402
import verdicts  # noqa: E402

FUNCTION = "match_or_throw"
ENOUGH = 8
# Functions of the standard library. The pipeline's own accessors of a few instructions are left out
# by auto.h itself.
LEFT_OUT = ["-finstrument-functions-exclude-file-list=/usr/"]


def program(folder):
    """Builds the pipeline. Only one object includes a header of Longpole."""
    hooks = folder / "hooks.cc"
    hooks.write_text("#include <longpole/auto.h>\n")
    subprocess.run(["g++", "-std=c++17", "-O2", f"-I{build.INCLUDE}", "-c", str(hooks), "-o", str(folder / "hooks.o")], check=True)
    return build.build(folder / "build", ["-DLONGPOLE_DISABLE", "-finstrument-functions", *LEFT_OUT], "g++", [str(folder / "hooks.o")])


def verdict(longpole, path, arguments, folder):
    # A timer ends the run. The buffers hold all calls of this time, which come too fast to be stored.
    how = ["--kernel", "sched,irq,timer", "--stacks", "none", "--buffer", "64MiB", "--steady=fifo", "-o", str(folder)]
    subprocess.run([longpole, "record", *how, "--", str(path), "--seconds=0.3", *arguments], check=True, stdout=subprocess.DEVNULL)
    recording = max(folder.iterdir())
    run = subprocess.run([longpole, "report", "--json", str(recording)], check=True, stdout=subprocess.PIPE, text=True)
    shutil.rmtree(recording)
    answer = json.loads(run.stdout)
    told = answer["verdict"]
    print(told["text"], f"{len(answer['inputs']['left_out'])} functions left out.", flush=True)
    return verdicts.verdict_of(answer)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--longpole", default=str(build.HERE.parent.parent / "target/release/longpole"))
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if os.geteuid() != 0 or not os.access("/sys/kernel/tracing/instances", os.W_OK):
        print("skipped: the function that is the bottleneck (needs root and tracefs)")
        return 0
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory(dir=verdicts.roomy()) as traces:
        path = program(Path(scratch))
        named, others, runs, needed = 0, 0, 0, options.runs // 2 + 1
        while not named and not others and runs < ENOUGH:
            told = verdict(options.longpole, path, ["--bytes=64", "--lookup=exceptions"], Path(traces))
            named += told.endswith(FUNCTION)
            others += bool(told) and not told.endswith(FUNCTION)
            runs += 1
        clean, controls = 0, 0
        while clean < needed and controls - clean <= options.runs - needed:
            clean += not verdict(options.longpole, path, ["--bytes=64"], Path(traces)).endswith(FUNCTION)
            controls += 1
    holds = named > 0 and not others and clean == needed
    print(f"{'holds' if holds else 'FAILS'}\tfunctions alone\tnamed in {named} of {runs} runs, another in {others}, not named in {clean} of {controls} without the fault")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())

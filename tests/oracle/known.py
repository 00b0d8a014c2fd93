#!/usr/bin/env python3
"""Compares `longpole path` with known answers: the cases worked by hand (among them wPerf's Figure
4 and Coz's toy program), and graphs of another tool with their bounded (active) and unbounded
(global) path, if LONGPOLE_CORPORA has them. Each global path is also computed in windows and with
several threads.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile

import compare
from test_oracle import AnotherToolsGraphs

HERE = pathlib.Path(__file__).resolve().parent
WINDOWS = [(), *(("--window", str(window), "--jobs", str(jobs)) for window in (1, 2, 3, 7, 64) for jobs in (1, 2, 4))]


def hand_worked():
    for log in sorted((HERE / "cases").glob("*.jsonl")):
        for asked, want in json.loads(log.with_suffix(".expected.json").read_text()).items():
            mode, _, machine = asked.partition(" ")
            if mode in ("global", "active"):
                machine, _, host = machine.partition("@")
                yield f"{log.stem}, {asked}", log.read_text().splitlines(), mode, f"{host}/{machine}" if host else machine, want["segments"]


def graphs():
    folder = os.environ.get("LONGPOLE_CORPORA")
    file = pathlib.Path(folder or "", "critical-path", "graphs.json")
    if not folder or not file.exists():
        print("skipped: the graphs of another tool against path, LONGPOLE_CORPORA does not name the folder that holds them")
        return
    tool = AnotherToolsGraphs()
    for case in json.loads(file.read_text()):
        for key, mode in (("critical_path_bounded", "active"), ("critical_path_unbounded", "global")):
            if "unsupported" not in case[key]:
                yield f"graph {case['name']}, {mode}", tool.log(case["graph"]), mode, "Actor0", tool.expected(case["graph"], case[key])


def main():
    args = argparse.ArgumentParser(description="hold `longpole path` against answers that are known")
    args.add_argument("--longpole", required=True, help="the program")
    program = args.parse_args().longpole
    asked = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, lines, mode, machine, want in [*hand_worked(), *graphs()]:
            for windows in WINDOWS if mode == "global" else WINDOWS[:1]:
                got = compare.ask_longpole(program, lines, mode, machine, folder, windows)
                if got.get("segments") != want:
                    print(f"{name} {' '.join(windows)}: expected {want}, longpole {got.get('segments', got)}")
                    return 1
            asked += 1
    print(f"{asked} paths whose answer is known: equal in every segment")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compares `longpole path` with the oracle (tests/oracle) on the logs of all scenarios: the global
path and the active path of each machine, every segment.

    bench/truth/oracle.py [--items N] [--seeds COUNT]
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests/oracle"))
import compare  # noqa: E402
import oracle  # noqa: E402
from run import EXPECTED, TARGET  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", default="12")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--longpole", default=str(TARGET / "longpole"))
    parser.add_argument("--simulator", default=str(TARGET / "longpole-sim"))
    options = parser.parse_args()
    paths = 0
    with tempfile.TemporaryDirectory() as folder:
        for expected in EXPECTED["scenario"] + EXPECTED["control"]:
            for seed in range(1, options.seeds + 1):
                command = [options.simulator, "log", expected["name"], "--seed", str(seed), "--items", options.items]
                lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
                told = oracle.answer(lines)
                assert not told["contradictions"] and not told["unknown_ns"] and not told["ignored_wakes"], (command, told["contradictions"])
                for mode, machine in [("global", None), *(("active", name) for _, name in compare.machines(lines))]:
                    part = compare.difference(options.longpole, lines, mode, machine, folder)
                    if part:
                        sys.exit(f"{' '.join(command)}: {mode} path{f' of {machine}' if machine else ''} differs in {part}")
                    paths += 1
    print(f"{paths} paths of simulated systems: equal in every nanosecond, without a contradiction")


if __name__ == "__main__":
    main()

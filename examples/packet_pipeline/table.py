#!/usr/bin/env python3
"""Measures the pipeline without recording it: the cost of each fault of the router, with the probes
compiled in and compiled out.

Rows: source to sink without the router (the baseline), the router with all five faults, each fix
added to those before, and all fixes; with --single each fix alone. A figure is the median of
several runs. The runs of all rows are interleaved, so that a slow period of the host affects all
rows alike. The rate is that of the sink.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import build  # noqa: E402

FIXES = ["--lookup=results", "--timeouts=lazy", "--signals=batched", "--batch=150", "--checksum=incremental"]
RATE = re.compile(r"^Received (\d+) packets in (\d+) ms at (\d+) Mbit/s$", re.MULTILINE)
CPU = re.compile(r"^CPU time per packet:(.*)$", re.MULTILINE)
CASE_STUDY = """\
The case study (a component OS's NIC router, 2022): baseline 13,000, 9,000 and 1,300 Mbit/s on three machines; the slow router
about 10 % of that; the lookup's fix alone made it 3 times as fast; with all fixes 45 to 55 % of the baseline."""


def rows(single):
    yield "direct (baseline)", ["--direct"]
    yield "slow: all five faults", ["--slow"]
    if single:
        for fix in FIXES:
            yield f"{fix} alone", ["--slow", fix]
        return
    for i, fix in enumerate(FIXES):
        last = i + 1 == len(FIXES)
        yield f"+ {fix}" + (" = all fixes" if last else ""), ["--slow", *FIXES[: i + 1]]


def measure(program, arguments, size, seconds, runtime):
    run = subprocess.run(
        [str(program), f"--bytes={size}", f"--seconds={seconds}", *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=seconds + 60,
        # A folder of its own, so that a recording on this host does not include the measured
        # processes.
        env={**os.environ, "LONGPOLE_RUNTIME_DIR": runtime},
    )
    packets, ms, _ = map(int, RATE.search(run.stdout).groups())
    cpu = dict(re.findall(r"(\w+) (\d+) ns", CPU.search(run.stdout).group(1)))
    return packets / (ms / 1000), {name: int(ns) for name, ns in cpu.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--bytes", default="1400,64")
    parser.add_argument("--builds", default="in,out", help="probes compiled in, out, or both")
    parser.add_argument("--single", action="store_true", help="each fix alone, instead of one after the other")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sizes = [int(size) for size in options.bytes.split(",")]
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    defines = {"in": [], "out": ["-DLONGPOLE_DISABLE"]}
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory(dir=memory) as runtime:
        programs = {kind: build.build(Path(scratch) / kind, defines[kind]) for kind in options.builds.split(",")}
        samples = {}
        for _ in range(options.runs):
            for size in sizes:
                for kind, program in programs.items():
                    for name, arguments in rows(options.single):
                        samples.setdefault((size, kind, name), []).append(measure(program, arguments, size, options.seconds, runtime))

    answer = []
    for size in sizes:
        for kind in programs:
            baseline = None
            for name, _ in rows(options.single):
                runs = samples[size, kind, name]
                rate = statistics.median(rate for rate, _ in runs)
                baseline = baseline or rate
                cpu = {process: statistics.median(c[process] for _, c in runs) for process in runs[0][1]}
                answer.append({
                    "bytes": size, "probes": kind, "row": name, "mbit_s": rate * size * 8 / 1e6, "packets_s": rate,
                    "ns_per_packet": 1e9 / rate, "share": rate / baseline, "router_cpu_ns": cpu.get(build.names()["N_ROUTER"]),
                    "lowest_packets_s": min(rate for rate, _ in runs), "highest_packets_s": max(rate for rate, _ in runs),
                })
    if options.json:
        json.dump(answer, sys.stdout, indent=1)
        print()
        return 0
    for size in sizes:
        for kind in programs:
            print(f"{size}-byte frames, probes compiled {kind}{' and off' if kind == 'in' else ''}; median of {options.runs}:")
            print(f"  {'':36}{'Mbit/s':>8}{'packets/s':>12}{'ns/packet':>11}{'of baseline':>13}{'router CPU':>12}   lowest to highest packets/s")
            for r in answer:
                if (r["bytes"], r["probes"]) == (size, kind):
                    cpu = "-" if r["router_cpu_ns"] is None else f"{r['router_cpu_ns']:,.0f} ns"
                    print(
                        f"  {r['row']:36}{r['mbit_s']:>8,.0f}{r['packets_s']:>12,.0f}{r['ns_per_packet']:>11,.0f}{r['share']:>12.1%} {cpu:>12}"
                        f"   {r['lowest_packets_s']:,.0f} to {r['highest_packets_s']:,.0f}"
                    )
            print()
    print(CASE_STUDY)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The cost of the critical path: interactions per second and peak memory, on logs that are piped
from the simulator and never stored.

    bench/truth/cost.py [--sizes 1e6,1e7] [--scenarios NAME,…] [--verbs path,what-if,report]
                        [--what-if]

CPU seconds are those of longpole only, user and system; wall seconds are those of simulator and
longpole running in parallel. Memory is VmHWM of longpole. `leak` has tokens that are never taken.
In `jobs` (which is no scenario of the simulator, and not a default) one machine after the other is
created, works and stops: the answer contains the names and states of all of them, so its memory
grows; it is printed but not compared with the limit. `what-if` predicts one change. With --what-if,
also the time of 64 changes in one run is compared with that of one.
"""
import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from run import TARGET

HWM_MIB = 512

JOBS = """
import sys
line = '{"t":%d,"machine":"%s"%s}'.__mod__
print(line((0, "shell", "")))
for n in range(int(sys.argv[1])):
    t, job = 100 * n + 10, f"job.{n}"
    print(line((t, job, ',"class":"job","forked_by":"shell","state":"work"')))
    print(line((t + 1, "shell", ',"blocked":"job"')))
    print(line((t + 80, "shell", f',"woken_by":"{job}"')))
    print(line((t + 80, "shell", ',"state":"run"')))
    print(line((t + 81, job, ',"stop":true')))
"""


def memory(pid):
    """Returns VmHWM in KiB, or 0 if the process has ended."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def lines_per_item(simulator, scenario):
    count = [subprocess.run([simulator, "log", scenario, "--items", str(n)], capture_output=True, check=True).stdout.count(b"\n") for n in (1000, 3000)]
    return (count[1] - count[0]) / 2000


def change(simulator, scenario):
    """Returns a change that applies to the scenario: a state on the path takes half of its time."""
    told = json.loads(subprocess.run([simulator, "truth", scenario, "--items", "10"], capture_output=True, check=True).stdout)
    roles = told["roles"]
    states = [role for role in sorted(roles) if role.partition(".")[0] in roles and "." in role and not role.startswith("decoy")]
    state = "slow.work" if "slow.work" in states else states[0]
    return f'"{roles[state.partition(".")[0]]}"::"{roles[state]}" x0.5'


def piped(simulator, longpole, scenario, size, verb):
    if scenario == "jobs":
        command, state = [sys.executable, "-c", JOBS, str(round(size / 5))], lambda: "job::work x0.5"
    else:
        items = max(1, round(size / lines_per_item(simulator, scenario)))
        command, state = [simulator, "log", scenario, "--items", str(items)], lambda: change(simulator, scenario)
    begin = time.monotonic()
    source = subprocess.Popen(command, stdout=subprocess.PIPE)
    # Without --json, which would store all segments.
    asked = [state()] if verb == "what-if" else []
    path = subprocess.Popen([longpole, verb, "/dev/stdin", *asked], stdin=source.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    source.stdout.close()
    peak = 0
    while True:
        peak = max(peak, memory(path.pid))
        pid, status, usage = os.wait4(path.pid, os.WNOHANG)
        if pid:
            break
        time.sleep(0.01)
    wall = time.monotonic() - begin
    source.wait()
    path.returncode = os.waitstatus_to_exitcode(status)
    printed, error = path.communicate()
    if path.returncode or source.returncode:
        raise RuntimeError(f"{scenario}: {error.strip() or source.returncode}")
    said = next(line for line in printed.splitlines() if " interactions" in line)
    count = int(said.split(" interactions")[0].replace(",", "").replace("\u202f", "").replace(" ", ""))
    cpu = usage.ru_utime + usage.ru_stime
    return {"verb": verb, "scenario": scenario, "interactions": count, "cpu_s": cpu, "wall_s": wall, "hwm_kib": peak, "said": printed.strip().splitlines()[-1]}


def predicted(simulator, longpole, folder):
    """Returns the times of one change and of 64 changes."""
    log = pathlib.Path(folder, "log.jsonl")
    with open(log, "wb") as out:
        subprocess.run([simulator, "log", "tandem_4", "--items", "100000"], stdout=out, check=True)
    told = json.loads(subprocess.run([simulator, "truth", "tandem_4", "--items", "10"], capture_output=True, check=True).stdout)
    state = f'"{told["roles"]["slow"]}"::"{told["roles"]["slow.work"]}"'
    times = {}
    for count in (1, 64):
        changes = [f"{state} x{1 - 0.01 * at:.2f}" for at in range(1, count + 1)]
        spent = []
        for _ in range(3):
            before = os.times()
            subprocess.run([longpole, "what-if", "--json", log, *changes], stdout=subprocess.DEVNULL, check=True)
            after = os.times()
            spent.append(after.children_user + after.children_system - before.children_user - before.children_system)
        times[count] = min(spent)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1e6,1e7", help="interactions; 1e8 takes minutes")
    parser.add_argument("--scenarios", default="tandem_4,rpc_chain,dma,lock_convoy,leak")
    parser.add_argument("--verbs", default="path")
    parser.add_argument("--what-if", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--longpole", default=str(TARGET / "longpole"))
    parser.add_argument("--simulator", default=str(TARGET / "longpole-sim"))
    options = parser.parse_args()
    rows, good = [], True
    print(f"{'verb':8} {'scenario':12} {'interactions':>13} {'M/s of CPU':>11} {'M/s of wall':>12} {'VmHWM MiB':>10}")
    for verb, scenario, size in itertools.product(options.verbs.split(","), options.scenarios.split(","), options.sizes.split(",")):
        row = piped(options.simulator, options.longpole, scenario, float(size), verb)
        rows.append(row)
        count, mib = row["interactions"], row["hwm_kib"] / 1024
        good &= mib <= HWM_MIB or scenario == "jobs"
        rates = f"{count / row['cpu_s'] / 1e6:11.2f} {count / row['wall_s'] / 1e6:12.2f}"
        print(f"{verb:8} {scenario:12} {count:13,} {rates} {mib:10.1f}", flush=True)
    if options.what_if:
        with tempfile.TemporaryDirectory() as folder:
            times = predicted(options.simulator, options.longpole, folder)
        print(f"\nwhat-if: 64 changes take {times[64] / times[1]:.2f} times as long as one ({times[64]:.2f} and {times[1]:.2f} s of CPU)")
        good &= times[64] <= 4 * times[1]
        rows.append({"what_if": times})
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))
    print(f"\n{'met' if good else 'MISSED'}: memory at most {HWM_MIB} MiB{', 64 changes at most 4 times one' if options.what_if else ''}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

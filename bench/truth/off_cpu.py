#!/usr/bin/env python3
"""Compares the sampled times in which programs wait with the sums that bpftrace makes of all waits.

    bench/truth/off_cpu.py [NAME…] [--longpole PROGRAM]

Each system runs once, under `longpole record` and under bpftrace at the same time. bpftrace adds up
the time off the CPU of each program by the system call in which it waits. `longpole cpu --folded
--off-cpu` estimates the same from sampled stacks. The table has both shares of a program's waiting
time, and the 95 % interval that the number of samples leaves. Needs root and the programs of the
systems; a system whose programs are missing is skipped. The exit status is 1 if more than one share
in twenty is outside of its interval.
"""
import argparse
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "wild"))
from services import at, nginx, postgres, redis  # noqa: E402
from system import Place, wrk  # noqa: E402

# Samples per second of waiting, as `record` takes them by default.
HZ = 249
# A smaller part of the waiting time of a program has too few samples to be compared.
MIN_SHARE = 0.02

# A call is its number plus 1, and 0 outside of calls, also for a thread that is in a call when this
# begins.
SUMS = """
tracepoint:raw_syscalls:sys_enter { @call[tid] = args->id + 1; }
tracepoint:raw_syscalls:sys_exit { delete(@call[tid]); }
tracepoint:sched:sched_switch {
    @left[args->prev_pid] = nsecs;
    if (@left[args->next_pid]) {
        @off[args->next_comm, @call[args->next_pid]] = sum(nsecs - @left[args->next_pid]);
    }
    delete(@left[args->next_pid]);
}
interval:ms:50 /@ready == 0/ { printf("ready\\n"); @ready = 1; }
END { clear(@call); clear(@left); clear(@ready); }
"""

# Runs a command while bpftrace runs.
BOTH = """
BPFTRACE_MAP_KEYS_MAX=65536 bpftrace {sums} > {folder}/sums 2>&1 &
until grep -q ready {folder}/sums; do kill -0 $! || exit; sleep 0.05; done
begin=$(date +%s%N)
{command}
echo $begin $(date +%s%N) > {folder}/range
kill -INT $!
wait $!
"""


def redis_benchmark(place):
    return ["redis-benchmark", "-p", str(redis(place)), "-c", "8", "-n", "200000", "-t", "get", "-q"], ("redis-server", "redis-benchmark")


def nginx_wrk(place):
    place.write("index.html", "x" * 600)
    port = nginx(place, f"root {place.folder};")
    return wrk(f"http://127.0.0.1:{port}/", 2, 4), ("nginx", "wrk")


def pgbench(place):
    port = postgres(place, "create table t (id int primary key, n int); insert into t select i, 0 from generate_series(1, 3) i")
    script = place.write("add.sql", "\\set id random(1, 3)\nbegin;\nupdate t set n = n + 1 where id = :id;\n\\sleep 2 ms\ncommit;\n")
    return ["pgbench", *at(port), "-n", "-f", str(script), "-c", "4", "-T", "4", "postgres"], ("postgres", "pgbench")


def pipeline(place):
    return ["sh", "-c", "seq 1 2000000 | sort | gzip -1 > /dev/null"], ("seq", "sort", "gzip")


SYSTEMS = {
    "redis": (redis_benchmark, ("redis-server", "redis-benchmark")),
    "nginx": (nginx_wrk, ("nginx", "wrk")),
    "postgres": (pgbench, ("pgbench", "psql")),
    "pipeline": (pipeline, ("gzip",)),
}


def call_names():
    """Returns the names of the system calls by their numbers on this machine."""
    header = subprocess.run(["cc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"], capture_output=True, text=True, check=True).stdout
    return {int(number): name for name, number in re.findall(r"#define __NR_(\w+) (\d+)\n", header)}


def recorded(longpole, place, command, folder):
    """Records a command, with bpftrace next to it. Returns the recording, the range in which both
    recorded, in Unix time, and bpftrace's sums in ns by program and call.
    """
    script = place.write("both.sh", BOTH.format(sums=place.write("sums.bt", SUMS), folder=place.folder, command=shlex.join(map(str, command))))
    subprocess.run([longpole, "record", "-o", folder, "--", "bash", script], check=True, capture_output=True)
    text = (place.folder / "sums").read_text()
    calls, sums = call_names(), defaultdict(float)
    for name, call, ns in re.findall(r"@off\[(.+), (-?\d+)\]: (\d+)", text):
        sums[name, calls.get(int(call) - 1, "")] += int(ns)
    return next(path for path in Path(folder).iterdir() if path.is_dir()), (place.folder / "range").read_text().split(), sums


def sampled(longpole, recording, begin, end):
    """Returns the estimated ns off the CPU by program and call."""
    text = subprocess.run([longpole, "cpu", "--folded", "--off-cpu", "--all", "--begin", begin, "--end", end, recording], check=True,
                          capture_output=True, text=True).stdout
    sums = defaultdict(float)
    for line in text.splitlines():
        stack, ns = line.rsplit(" ", 1)
        frames = stack.split(";")
        calls = [match[1] for frame in frames if (match := re.fullmatch(r"(?:__x64_sys_|__arm64_sys_|ksys_)(\w+)_\[k\]", frame))]
        sums[frames[0], calls[-1] if calls else ""] += int(ns)
    return sums


def compared(name, truth, told, programs):
    """Prints the shares of each program's waiting time; returns the numbers of shares, and of those
    that are outside of their intervals.
    """
    shares, outside = 0, 0
    for program in programs:
        of = {call: ns for (other, call), ns in truth.items() if other == program[:15]}
        ours = {call: ns for (other, call), ns in told.items() if other[:15] == program[:15]}
        whole, estimated = sum(of.values()), max(sum(ours.values()), 1)
        for call in sorted(of, key=of.get, reverse=True):
            share = of[call] / whole
            if share < MIN_SHARE:
                continue
            ns = ours.get(call, 0.0)
            # A sample stands for the period if the wait is shorter, else for itself. So this error
            # is the largest that samples of so much waiting have.
            error = 1.96 * math.sqrt(max(ns, share * estimated) * 1e9 / HZ) / estimated
            told_share = ns / estimated
            holds = abs(told_share - share) <= error
            shares += 1
            outside += not holds
            print(f"{name:10} {program:16} {call or '(none)':18} {100 * share:6.1f} % {100 * told_share:6.1f} % ± {100 * error:4.1f}  {'' if holds else 'OUTSIDE'}", flush=True)
        print(f"{name:10} {program:16} {'all waits':18} {whole / 1e9:6.2f} s {estimated / 1e9:6.2f} s")
    return shares, outside


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *SYSTEMS])
    parser.add_argument("--longpole", default=str(HERE.parents[1] / "target/release/longpole"))
    options = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("bpftrace"):
        print("skipped: needs root and bpftrace")
        return 0
    shares, outside = 0, 0
    print(f"{'system':10} {'program':16} {'call':18} {'bpftrace':>8} {'longpole':>8}")
    for name in options.names or SYSTEMS:
        load, needs = SYSTEMS[name]
        if missing := [need for need in needs if not shutil.which(need, path=os.environ["PATH"] + ":/usr/sbin")]:
            print(f"skipped: {name} needs {missing[0]}")
            continue
        with tempfile.TemporaryDirectory(prefix="longpole-off-cpu-", dir="/var/tmp") as scratch:
            os.chmod(scratch, 0o755)
            with Place(Path(scratch) / "place") as place:
                command, programs = load(place)
                time.sleep(0.5)
                recording, between, truth = recorded(options.longpole, place, command, Path(scratch) / "traces")
                row = compared(name, truth, sampled(options.longpole, recording, *between), programs)
        shares, outside = shares + row[0], outside + row[1]
    print(f"{shares} shares, {outside} outside of their intervals")
    return 1 if outside > shares / 20 else 0


if __name__ == "__main__":
    sys.exit(main())

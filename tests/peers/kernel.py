#!/usr/bin/env python3
"""Compares the answers of cpu, sched and syscalls, and the wakers of threads, with /proc, perf and
bpftrace, which all observe the same load.

Every figure is printed with that of the other tool, and every difference with its reason, if one is
known. The exit status is 1 if a difference exceeds the printed limit. Needs root, tracefs, bpftrace
and perf; prints what is missing.
"""

import argparse
import bisect
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict, namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "release"
LOADS = ["pipes", "sleeps", "spins", "datagrams"]
GROUPS = "sched,irq,softirq,ipi,syscall,fault"
# The possible reasons of waits for each load, from its source code.
REASONS = {
    "pipes": {"read: pipe", "sleep: clock_nanosleep"},
    "pipes, its child": {"read: pipe"},
    "sleeps": {"sleep: clock_nanosleep", "futex", "signal: pause"},
    "spins": {"sleep: clock_nanosleep", "futex", "signal: pause"},
    "datagrams": {"sleep: clock_nanosleep"},
    "datagrams, its child": {"poll"},
    "cc 1": {"child: wait4", "vfork", "read: pipe"},
    "cc 2": {"child: wait4", "vfork", "read: pipe"},
}
MIN_NS = 100_000
failures = []


def missing():
    if os.geteuid() != 0:
        return "root"
    if not Path("/sys/kernel/tracing/instances").is_dir():
        return "tracefs"
    return next((tool for tool in ["bpftrace", "perf", "cc"] if shutil.which(tool) is None), None)


def verdict(holds, text):
    print(f"  {'ok   ' if holds else 'WRONG'}  {text}")
    if not holds:
        failures.append(text)


class Load:
    """The programs of tests/programs/load.c and a loop of compilations. After `finish` all threads
    are blocked and their accounts are complete.
    """

    def __init__(self, folder, seconds):
        program = folder / "load"
        source = REPOSITORY / "tests/programs/load.c"
        subprocess.run(["cc", "-std=gnu11", "-O2", "-pthread", source, "-o", program], check=True)
        self.children = {}
        for name in LOADS:
            command = [program, name, str(seconds)]
            self.children[name] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        (folder / "small.c").write_text("int square(int x) { return x * x; }\n")
        loop = f'while [ $(date +%s%N) -lt $(({time.time_ns()} + {int(seconds * 1e9)})) ]; do cc -O2 -c small.c -o $1.o; done; echo done; read line'
        for number in ["1", "2"]:
            command = ["sh", "-c", loop, "sh", number]
            self.children[f"cc {number}"] = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def finish(self):
        for child in self.children.values():
            assert child.stdout.readline() == b"done\n"
        time.sleep(0.3)

    def processes(self):
        """Returns the name for the pid of each process and of its children."""
        found = {}
        for name, child in self.children.items():
            found[child.pid] = name
            for pid in Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split():
                found[int(pid)] = f"{name}, its child"
        return found

    def end(self):
        for child in self.children.values():
            child.stdin.close()
            child.wait()


def threads_of(pid):
    return [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]


def schedstat(pid, tid):
    running, waiting, _ = map(int, Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split())
    return running, waiting


def faults(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[7]) + int(fields[9])


def affinity(tid):
    try:
        return sorted(os.sched_getaffinity(tid))
    except OSError:
        return None


def proc_stat():
    """Per CPU: user, nice, system, idle, iowait, irq, softirq, steal in ticks."""
    rows = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    return {int(row[0][3:]): [int(cell) for cell in row[1:9]] for row in rows if re.fullmatch(r"cpu\d+", row[0])}


class Watchers:
    """The recorder and one other tool. Two other tools at once would cost each other events: the
    kernel does not let one BPF program interrupt another, and perf does not get an event that a BPF
    program should have got and did not.
    """

    def __init__(self, folder, peer):
        self.folder, self.peer = folder, peer
        folder.mkdir()
        self.environment = dict(os.environ, LONGPOLE_RUNTIME_DIR=str(folder / "runtime"), LONGPOLE_ROOT=str(folder / "traces"))
        (folder / "runtime").mkdir(mode=0o700)
        # Without stacks: reading a program's stack can fault, and the kernel traces such faults but
        # does not count them.
        self.processes = [self.start([TARGET / "longpole", "record", "--kernel", GROUPS, "--stacks", "none"], "record", self.environment)]
        self.until(lambda: any((folder / "traces").glob("*/kernel/raw/cpu*")))
        if peer == "perf":
            events = [f"sched:sched_{name}" for name in ["switch", "waking", "wakeup", "wakeup_new"]]
            command = ["perf", "record", "-q", "-a", "-R", "-c", "1", "-m", "4096", "-e", ",".join(events), "-o", folder / "perf.data"]
            self.processes.append(self.start(command, "perf", os.environ))
            self.until(lambda: (folder / "perf.data").exists())
        else:
            settings = dict(os.environ, BPFTRACE_PERF_RB_PAGES="4096", BPFTRACE_MAP_KEYS_MAX="65536")
            self.processes.append(self.start(["bpftrace", "-B", "line", HERE / f"{peer}.bt"], "bpftrace", settings))
            # bpftrace attaches one probe after the other, and gets no event before it has attached
            # all.
            seen = re.compile(r"^(w |sees)", re.MULTILINE)
            self.until(lambda: seen.search((folder / "bpftrace.log").read_text()))
        time.sleep(0.5)

    def start(self, command, name, environment):
        log = (self.folder / f"{name}.log").open("w")
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def logs(self):
        return "\n".join(path.read_text().strip() for path in sorted(self.folder.glob("*.log")))

    def until(self, condition):
        for _ in range(600):
            if condition():
                return
            if self.processes[-1].poll() is not None:
                break
            time.sleep(0.1)
        sys.exit(f"kernel.py: {self.processes[-1].args[0]} does not begin\n{self.logs()}")

    def stop(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGINT)
        for process in self.processes:
            process.wait()
        self.recording = next((self.folder / "traces").iterdir())

    def longpole(self, verb, *arguments, trace=None):
        command = [TARGET / "longpole", verb, "--json", *arguments, trace or self.recording]
        return json.loads(subprocess.run(command, env=self.environment, check=True, stdout=subprocess.PIPE).stdout)


class Run:
    """One load with one other tool, from begin to end."""

    def __init__(self, folder, peer, seconds):
        print(f"\n== {seconds:g} s next to {peer}")
        watchers = self.watchers = Watchers(folder / peer, peer)
        try:
            self.begin_ns, self.ticks_before = time.time_ns(), proc_stat()
            load = Load(folder / peer, seconds)
            time.sleep(max(0, seconds - 0.1))
            self.over_ns = time.time_ns()
            load.finish()
            self.end_ns, self.ticks_after = time.time_ns(), proc_stat()
            self.pids = load.processes()
            self.accounts = {(pid, name): {tid: schedstat(pid, tid) for tid in threads_of(pid)} for pid, name in self.pids.items()}
            self.faults = {(pid, name): faults(pid) for pid, name in self.pids.items()}
            tids = [int(path.name) for path in Path("/proc").glob("[0-9]*/task/[0-9]*")]
            self.masks = {tid: mask for tid in tids if (mask := affinity(tid))}
        finally:
            watchers.stop()
        load.end()
        self.log = watchers.logs()
        print((folder / peer / "record.log").read_text().strip())
        self.cpu = watchers.longpole("cpu", "--begin", str(self.begin_ns), "--end", str(self.end_ns))
        verdict(self.cpu["lost"] == 0, f"longpole lost {self.cpu['lost']} events")
        lost = [line for line in self.log.splitlines() if re.search(r"ost \d+ (events|chunks)|LOST", line)]
        verdict(not lost, f"{peer} lost nothing {lost}")


Peer = namedtuple("Peer", "wakes calls stolen late outs again")


def read_bpftrace(text):
    wakes, calls, sums, least = defaultdict(list), {}, defaultdict(Counter), 0
    for line in text.splitlines():
        if line.startswith("w "):
            tid, begin, end, waker, hard, soft = map(int, line.split()[1:])
            wakes[tid].append((end, begin, waker, "context" if hard or soft or waker == 0 else "thread"))
        elif match := re.fullmatch(r"@calls\[(\d+), (-?\d+)\]: (\d+)", line):
            calls[int(match[1]), int(match[2])] = int(match[3])
        elif match := re.fullmatch(r"@(stolen|late_in|late_out|ins|outs|again)\[(\d+)\]: (\d+)", line):
            sums[match[1]][int(match[2])] = int(match[3])
        elif match := re.fullmatch(r"@least: (-?\d+)", line):
            least = int(match[1])

    def late(tid):
        """Time that the scheduler's late clock left out of the thread's account, or (negative)
        added to it.
        """
        return (sums["late_out"][tid] - sums["outs"][tid] * least) - (sums["late_in"][tid] - sums["ins"][tid] * least)

    return Peer(wakes, calls, sums["stolen"], late, sums["outs"], sums["again"])


def check_accounts(cpu, accounts, stolen, late, outs):
    print("\ncpu: running time and the interrupts on top of it, next to /proc/PID/task/*/schedstat (limit 1 %, or 0.15 us a switch, and a third of what was stolen)")
    ours = {thread["tid"]: thread for thread in cpu["threads"] if thread["kernel"]}
    for (pid, name), threads in accounts.items():
        theirs = sum(running for running, _ in threads.values())
        found = [ours[tid] for tid in threads if tid in ours]
        ran = sum(thread["running_ns"] + thread["kernel"]["interrupted_ns"] for thread in found)
        unknown = sum(thread["kernel"]["unknown_ns"] for thread in found)
        # The scheduler's clock stops while the hypervisor has the CPU. It is not updated at a
        # switch that a wake-up has just requested (rq_clock_skip_update): then the time since the
        # wake-up is added to the woken thread's account.
        switches = sum(outs[tid] for tid in threads)
        taken, skipped = sum(stolen[tid] for tid in threads), sum(late(tid) for tid in threads)
        plain, off = ran - theirs, ran - taken - skipped - theirs
        share = off / theirs if theirs else 0
        text = (
            f"{name} ({pid}): ours {ran / 1e6:.3f} ms, theirs {theirs / 1e6:.3f} ms: {plain / 1e6:+.3f} ms = {plain / max(theirs, 1):+.2%}; of this stolen by the host "
            f"{taken / 1e6:+.3f}, by the scheduler's late clock {skipped / 1e6:+.3f}; left {off / 1e6:+.3f} ms = {share:+.2%} (unknown {unknown / 1e6:.3f} ms)"
        )
        # Time that the hypervisor took at a switch is in the account of one of the two threads,
        # depending on which of them ran later.
        verdict(abs(off) <= max(0.01 * theirs, 150 * switches) + taken / 3, text)


def check_ticks(cpu, before, after):
    print("\ncpu: the parts of each CPU, next to the ticks of /proc/stat (limit 3 points of 100)")
    for part in cpu["cpus"]:
        ticks = [b - a for a, b in zip(before[part["cpu"]], after[part["cpu"]])]
        total = sum(ticks)
        user, nice, system, idle, iowait, irq, softirq, steal = ticks
        # A tick during an interrupt handler counts for the code that was interrupted; only softirqs
        # have ticks of their own.
        theirs = {"idle": idle + iowait, "busy": user + nice + system + irq + softirq + steal}
        ours = {"idle": part["idle_ns"], "busy": part["thread_ns"] + part["irq_ns"] + part["softirq_ns"]}
        whole = part["idle_ns"] + part["irq_ns"] + part["softirq_ns"] + part["thread_ns"] + part["unknown_ns"]
        verdict(whole == part["total_ns"], f"CPU {part['cpu']}: the parts sum to the whole, {whole} ns of {part['total_ns']}")
        for key in theirs:
            mine, other = 100 * ours[key] / part["total_ns"], 100 * theirs[key] / total
            verdict(abs(mine - other) <= 3, f"CPU {part['cpu']} {key}: ours {mine:.2f}, theirs {other:.2f} (steal {100 * steal / total:.2f})")


def perf_latency(data):
    out = subprocess.run(["perf", "sched", "latency", "-p", "-i", data], capture_output=True, text=True).stdout
    found = {}
    for line in out.splitlines():
        if match := re.match(r"\s*(.+):(\d+)\s*\|\s*([\d.]+) ms \|\s*(\d+) \| avg:\s*([\d.]+) ms \| max:\s*([\d.]+) ms", line):
            found[int(match[2])] = (int(match[4]), float(match[5]) * 1e6, float(match[6]) * 1e6)
    return found


SWITCH = re.compile(r"prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> next_comm=.* next_pid=(\d+) next_prio")
WAKING = re.compile(r" pid=(\d+) prio=")


class Delays:
    """Scheduling delays of one thread, computed from perf's events."""

    def __init__(self):
        self.state, self.since, self.hasty, self.in_kernel = None, 0, False, False
        self.woken, self.put_off = [], []
        # Number of starts of a blocked thread without a wake-up: perf has missed the wake-up.
        self.missed = 0
        # Delays after a waker's decision whose enqueueing perf has missed. `perf sched latency`
        # uses only the time of the enqueueing.
        self.unqueued = []
        # Delays after a preemption inside the kernel (R+), a state that `perf sched latency` does
        # not know.
        self.inside = []
        # Times from the waker's decision to the enqueueing, which `perf sched latency` leaves out.
        self.queued = []
        self.in_queue = False

    def out(self, t, how):
        self.state, self.since = "put off" if how.startswith("R") else "early" if self.hasty else "blocked", t
        self.in_kernel = how == "R+"
        self.hasty = self.in_queue = False

    def into(self, t):
        if self.state in ("woken", "early"):
            self.woken.append(t - self.since)
            if not self.in_queue:
                self.unqueued.append(t - self.since)
        elif self.state == "put off":
            self.put_off.append(t - self.since)
            if self.in_kernel:
                self.inside.append(t - self.since)
        elif self.state == "blocked":
            self.missed += 1
        self.state, self.hasty = "running", False

    def waking(self, t):
        if self.state in ("blocked", None):
            self.state, self.since = "woken", t
        elif self.state == "running":
            self.hasty = True

    def wakeup(self, t, new):
        if self.state == "early" or (new and self.state is None):
            self.state, self.since = "woken", t
        if self.state == "woken":
            self.queued.append(t - self.since)
            self.in_queue = True
        self.hasty = False


def perf_events(data):
    command = ["perf", "script", "--ns", "-F", "time,event,trace", "-i", data]
    script = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace")
    threads = defaultdict(Delays)
    for line in script.stdout:
        head, _, rest = line.strip().partition(": ")
        name, _, fields = rest.strip().partition(": ")
        t = int(head.replace(".", "")) if head.replace(".", "").isdigit() else None
        if t is None:
            continue
        if name == "sched:sched_switch":
            if match := SWITCH.search(fields):
                threads[int(match[1])].out(t, match[2])
                threads[int(match[3])].into(t)
        elif match := WAKING.search(fields):
            thread = threads[int(match[1])]
            thread.waking(t) if name == "sched:sched_waking" else thread.wakeup(t, name.endswith("_new"))
    script.wait()
    return threads


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, max(0, -(-len(values) * share // 100) - 1))] if values else 0


# Resolution of `perf script --ns`, and of the table of `perf sched latency`.
SCRIPT_NS, TABLE_NS = 1, 1000


# Percentiles are known to within 1 %.
HISTOGRAM = 0.01


def near(ours, theirs, same, printed=0, share=0.001):
    """True if two figures agree. If both are from the same file (`same`), only the rounding of
    perf's output (`printed` ns) and `share` may differ. With two recorders, the cost of one
    recorder's probe is between the two times.
    """
    return abs(ours - theirs) <= (max(share * theirs, printed) if same else max(0.05 * theirs, 2000))


def check_delays(sched, tids, table, events, untraced=None):
    """`untraced` is the number of untraced switches in the recording of `sched`; None if `sched` is
    about the perf.data itself.
    """
    same = untraced is None
    print(f"\nsched: delays next to a reckoning from `perf script`, and next to `perf sched latency` (limit: count equal; mean and p99 within {'0.1 %' if same else '5 % or 2 us, unless perf lacks more than 1 of 1,000'})")
    if same:
        print("  all of one perf.data, whatever it lacks")
        untraced = 0
    else:
        # A thread that ran untraced was woken or preempted once more or less than the switches
        # show.
        print(f"  {untraced} switches of the whole machine were not traced; a thread's counts may differ for them by 1 of 1,000")

    def alike(mine, other):
        return mine == other or (untraced > 0 and abs(mine - other) <= max(1, 0.001 * other))

    ours = {line["tid"]: line for line in sched}
    for tid in sorted(tids):
        theirs, line = events[tid], ours.get(tid)
        if line is None:
            verdict(not theirs.woken and not theirs.put_off, f"{tid}: never waited, theirs {len(theirs.woken)} + {len(theirs.put_off)}")
            continue
        # Wake-ups that perf missed are in the recording made at the same time, but not in
        # perf.data.
        missed = 0 if same else theirs.missed
        for kind, mine, times, lacking in [("woken", line, theirs.woken, missed), ("put off", line["preempted"], theirs.put_off, 0)]:
            if not times and mine["count"] == 0:
                continue
            mean, p99 = (statistics.fmean(times), percentile(times, 99)) if times else (0, 0)
            text = (
                f"{line['name']} {tid} {kind}: count {mine['count']} and {len(times)}{f' + {lacking} starts whose wake-up perf missed' if lacking else ''}, mean {(mine['mean_ns'] or 0) / 1e3:.2f} and {mean / 1e3:.2f} us, "
                f"p99 {(mine['p99_ns'] or 0) / 1e3:.2f} and {p99 / 1e3:.2f} us"
            )
            close = near(mine["mean_ns"] or 0, mean, same, SCRIPT_NS) and near(mine["p99_ns"] or 0, p99, same, SCRIPT_NS, HISTOGRAM)
            verdict(alike(mine["count"], len(times) + lacking) and (close or lacking > 0.001 * len(times)), text)
        if tid in table:
            count, mean, _ = table[tid]
            both = line["count"] + line["preempted"]["count"]
            # `perf sched latency` counts a wake-up from the enqueueing on.
            left_out = theirs.unqueued + theirs.inside
            total = line["total_ns"] + line["preempted"]["total_ns"] - sum(theirs.queued) - sum(left_out)
            counted = both - len(left_out)
            known = f"{count} + {missed} missed + {len(theirs.unqueued)} whose place in the queue perf missed + {len(theirs.inside)} put off inside the kernel"
            text = f"{line['name']} {tid} `perf sched latency`: count {both} and {known}, mean {total / max(counted, 1) / 1e3:.2f} and {mean / 1e3:.2f} us"
            close = near(total / max(counted, 1), mean, same, TABLE_NS) or missed > 0.001 * both
            verdict(alike(counted, count + missed) and close, text)


def check_reasons(cpu, accounts, masks):
    print("\ncpu: what threads wait in, by the source of the load (limit: 99 % of the time until it was over); where they may run, by the scheduler (limit: equal)")
    ours = {thread["tid"]: thread for thread in cpu["threads"] if thread["kernel"]}
    for (pid, name), threads in accounts.items():
        found = [ours[tid] for tid in threads if tid in ours]
        reasons = Counter()
        for thread in found:
            for blocked in thread["blocked"]:
                reasons[blocked["reason"]] += blocked["ns"]
        total = sum(reasons.values())
        known = sum(ns for reason, ns in reasons.items() if reason in REASONS[name])
        text = ", ".join(f"{reason} {ns / total:.1%}" for reason, ns in reasons.most_common(4))
        verdict(known >= 0.99 * total and total == sum(thread["blocked_ns"] for thread in found), f"{name} ({pid}): {text}")
    wrong = [tid for tid, mask in masks.items() if tid in ours and ours[tid]["allowed_cpus"] not in (None, mask)]
    known = [tid for tid in masks if tid in ours and ours[tid]["allowed_cpus"] is not None]
    verdict(not wrong and known, f"the masks of {len(known)} of {len(masks)} threads are known and are those of sched_getaffinity {wrong}")
    irqs = {waker["name"]: waker["allowed_cpus"] for thread in ours.values() for waker in thread["kernel"]["wakers"] if waker["name"].startswith("irq ")}
    for name, mask in irqs.items():
        theirs = Path(f"/proc/irq/{name.split()[1]}/smp_affinity_list").read_text().strip()
        verdict(mask == spread(theirs), f"{name}: affinity {mask}, the kernel says {theirs}")


def spread(text):
    """Returns the CPUs of a list such as 0-2,5."""
    parts = [part.split("-") for part in text.split(",")]
    return [cpu for part in parts for cpu in range(int(part[0]), int(part[-1]) + 1)]


def check_faults(syscalls, faults, again):
    print("\nsyscalls: page faults per process, next to minflt + majflt of /proc/PID/stat and bpftrace's count of those that the kernel meets with faults disabled (limit: 2 % or 5)")
    ours = Counter()
    for line in syscalls:
        if line["kind"] == "fault":
            ours[line["pid"]] += line["count"]
    for (pid, name), theirs in faults.items():
        known = theirs + again[pid]
        verdict(abs(ours[pid] - known) <= max(0.02 * known, 5), f"{name} ({pid}): ours {ours[pid]}, theirs {theirs} + {again[pid]}")


def call_numbers():
    names = {}
    for line in subprocess.run(["cc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"], capture_output=True, text=True).stdout.splitlines():
        if match := re.fullmatch(r"#define __NR_(\w+) (\d+)", line):
            names[int(match[2])] = match[1]
    return names


def check_calls(syscalls, calls, pids):
    print("\nsyscalls: entries per process and call, next to a map of bpftrace on raw_syscalls (limit: equal)")
    names = call_numbers()
    mine = Counter()
    for line in syscalls:
        if line["kind"] == "call" and line["pid"] in pids:
            mine[line["pid"], line["name"]] += line["count"]
    theirs = Counter()
    for (pid, number), count in calls.items():
        if pid in pids:
            theirs[pid, names.get(number, f"syscall {number}")] += count
    same = [key for key in mine | theirs if mine[key] == theirs[key]]
    verdict(len(same) == len(mine | theirs), f"{len(same)} of {len(mine | theirs)} pairs of process and call are equal, {sum(mine.values())} and {sum(theirs.values())} calls")
    for pid, name in sorted((mine | theirs).keys() - set(same)):
        print(f"         {pids[pid]} ({pid}) {name}: ours {mine[pid, name]}, theirs {theirs[pid, name]}")


def check_wakers(lines, wakes, begin_ns, end_ns, offset_ns):
    print(f"\nwakers of blocked intervals of {MIN_NS // 1000} us and more, next to bpftrace's (limit: 99.9 % alike)")
    ours = defaultdict(list)
    for line in lines:
        tid, begin, end, kind, waker, name = line.split("\t")
        ours[int(tid)].append((int(end), int(begin), kind, int(waker), name))
    ends = {tid: sorted(interval[0] for interval in intervals) for tid, intervals in ours.items()}
    for intervals in ours.values():
        intervals.sort()

    def same(tid, begin, end):
        """Returns our interval with the largest overlap."""
        at = bisect.bisect_left(ends.get(tid, []), end)
        near_by = ours[tid][max(at - 3, 0) : at + 3]
        best = max(near_by, key=lambda interval: min(interval[0], end) - max(interval[1], begin), default=None)
        return best if best and min(best[0], end) - max(best[1], begin) > 0 else None

    # The system's clocks were read at one moment and may have been slewed since, so the offset is
    # corrected with the intervals themselves.
    for _ in range(5):
        found = [(same(tid, begin + offset_ns, end + offset_ns), end) for tid, theirs in wakes.items() for end, begin, *_ in theirs]
        apart = sorted(best[0] - end - offset_ns for best, end in found if best)
        offset_ns += apart[len(apart) // 2] if apart else 0
    alike, differences = 0, []
    for tid, theirs in wakes.items():
        for end, begin, waker, kind in theirs:
            end, begin = end + offset_ns, begin + offset_ns
            if not begin_ns <= end <= end_ns:
                continue
            best = same(tid, begin, end)
            if best is None:
                differences.append((tid, begin, end, f"{kind} {waker}", "no such interval"))
            elif (kind == "context" and best[2] in ("context", "idle")) or (kind, waker) == (best[2], best[3]):
                alike += 1
            else:
                differences.append((tid, begin, end, f"{kind} {waker}", f"{best[2]} {best[3]} {best[4]}"))
    # perf_event_open refuses irq_work_exit, so bpftrace attributes such an interrupt to the thread
    # below it.
    refused = [difference for difference in differences if difference[4].endswith(" irq_work")]
    total = alike + len(differences) - len(refused)
    verdict(total > 0 and alike >= 0.999 * total, f"{alike} of {total} intervals alike, and {len(refused)} that irq_work ended, which bpftrace cannot see")
    for tid, begin, end, theirs, mine in differences:
        print(f"         {tid} blocked until {end} for {(end - begin) / 1e3:.0f} us: theirs {theirs}, ours {mine}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=10)
    arguments.add_argument("--keep", type=Path, help="leave recordings and peers' files in this folder")
    options = arguments.parse_args()
    lacks = missing()
    if lacks:
        print(f"skipped: the kernel's answers next to /proc, perf and bpftrace (needs {lacks})")
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(exist_ok=True)

        run = Run(folder, "perf", options.seconds)
        check_ticks(run.cpu, run.ticks_before, run.ticks_after)
        data = folder / "perf" / "perf.data"
        tids = {tid for threads in run.accounts.values() for tid in threads}
        check_reasons(run.watchers.longpole("cpu", "--end", str(run.over_ns)), run.accounts, run.masks)
        untraced = run.watchers.longpole("info")["names"].get("longpole_running", 0)
        table, events = perf_latency(data), perf_events(data)
        check_delays(run.watchers.longpole("sched"), tids, table, events, untraced)
        check_delays(run.watchers.longpole("sched", trace=data), tids, table, events)

        offset_ns = time.time_ns() - time.monotonic_ns()
        run = Run(folder, "wakers", options.seconds)
        peer = read_bpftrace(run.log)
        check_accounts(run.watchers.longpole("cpu"), run.accounts, peer.stolen, peer.late, peer.outs)
        command = [TARGET / "examples/wakers", "--least", str(MIN_NS // 2), run.watchers.recording]
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        check_wakers(lines, peer.wakes, run.begin_ns, run.end_ns, offset_ns)

        run = Run(folder, "calls", options.seconds)
        syscalls = run.watchers.longpole("syscalls", "--by", "process")
        peer = read_bpftrace(run.log)
        check_calls(syscalls, peer.calls, run.pids)
        check_faults(syscalls, run.faults, peer.again)
    print(f"\n{len(failures)} differences beyond the limits")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Reading CTF, compared with babeltrace2: `bench/run reading`.

The traces are those of three tracers: LTTng-UST's compact events, barectf's events, and ours in one
stream and in 16. Each reader is a whole process over the same trace; the readers alternate, and
their CPU time is measured. Ours reads every field of every event, by columns and event by event,
and both must compute the same sum; babeltrace2's `dummy` sink gets each event and reads none of its
fields. The verbs `info` and `print` are compared with babeltrace2's `dummy` and text output on the
same traces and on the demo system's, with the kernel's events if they can be recorded. All output
is to /dev/null; the commands are shown with the ratio. `report` is measured on the demo system's
recording and on one of `perf bench sched pipe`.
"""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import recorder
from common import HERE, Lttng, Open, ROOT, TARGET, build, interval, outcome, run, shown
from peers import BUILT, barectf_made, counted

COUNT = TARGET / "examples/count"
LONGPOLE = TARGET / "longpole"
# For each verb, the minimum ratio to babeltrace2 and its options for the same task.
VERBS = {"info": (15, ["--output-format=dummy"]), "print": (10, [])}
# Minimum number of million events that `report` processes per second of elapsed time on two CPUs.
REPORT_LEAST = 4
KERNEL = "sched,irq,softirq,timer,syscall,futex"
MIB = 1 << 20


def lttng(work, events):
    load = build(HERE / "recorder/load.c", work / "load-lttng", "-DLTTNG", "-lpthread", "-llttng-ust", "-ldl")
    trace = work / "lttng"
    with Lttng(work) as daemon:
        daemon.lttng("create", "bench", "--output", trace)
        daemon.lttng("enable-channel", "-u", "ch", "--subbuf-size=4M", "--num-subbuf=8")
        daemon.lttng("enable-event", "-u", "-c", "ch", "longpole_bench:one")
        daemon.lttng("start")
        run(load, 1, events, 1_500_000, "now", env=daemon.environment)
        daemon.lttng("stop")
        daemon.lttng("destroy")
    return trace


def barectf(work, events):
    made = barectf_made()
    program = work / "barectf"
    run(os.environ.get("CC", "cc"), "-O2", "-I", made, made / "barectf.c", HERE / "reading/barectf.c", "-o", program)
    trace = work / "barectf-trace"
    trace.mkdir()
    shutil.copy(made / "metadata", trace)
    run(program, trace / "stream", events)
    return trace


def ours(work, threads, events):
    load = build(HERE / "recorder/load.c", work / f"load-{threads}-{events}", "-lpthread")
    output = pathlib.Path(tempfile.mkdtemp(prefix="ours-", dir=work))
    session = recorder.Ours(output, "--buffer", "32MiB")
    with session:
        # With `now` the load would not wait until it is recorded.
        run(load, threads, events // threads, 3_000_000 // threads, env=session.environment)
    return session.trace / "user"


def demo(work, seconds):
    """Records the demo system: four processes, and as root the kernel's events."""
    program, output = work / "packet_pipeline", work / "demo"
    sources = sorted((ROOT / "examples/packet_pipeline").glob("*.cc"))
    run(os.environ.get("CXX", "g++"), "-O2", "-std=c++17", "-I", ROOT / "include", *sources, "-o", program)
    kernel = ["--keep-all", "--kernel", KERNEL] if os.geteuid() == 0 else ["--kernel", "none"]
    system = [program, f"--seconds={seconds}", "--bytes=64", "--lookup=exceptions", "--timeouts=exact", "--batch=8", "--signals=eager", "--checksum=full"]
    with tempfile.TemporaryDirectory(dir=work) as runtime:
        run(LONGPOLE, "record", *kernel, "--buffer", "4MiB", "-o", output, "--", *system, env={**os.environ, "LONGPOLE_RUNTIME_DIR": runtime})
    return max(output.iterdir())


def pipe(work, items):
    """Records two processes that pass a byte to and fro, with the default groups of kernel events."""
    if os.geteuid() != 0:
        raise Open("only root can record the kernel's events")
    output = work / "pipe"
    with tempfile.TemporaryDirectory(dir=work) as runtime:
        run(LONGPOLE, "record", "-o", output, "--", "perf", "bench", "sched", "pipe", "-l", items, env={**os.environ, "LONGPOLE_RUNTIME_DIR": runtime})
    return max(output.iterdir())


def peak(*command):
    """Returns the peak memory of a process in bytes, from its own status while it runs. The figure
    of wait4 would include that of the process that started it.
    """
    child = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = 0
    while child.poll() is None:
        with contextlib.suppress(OSError, IndexError):
            most = max(most, int(pathlib.Path(f"/proc/{child.pid}/status").read_text().split("VmHWM:")[1].split()[0]) * 1024)
        time.sleep(0.002)
    if child.returncode != 0:
        raise Open(f"{command[0]}: status {child.returncode}")
    return most


def spent(*command):
    """Returns the CPU seconds of a process, and its output; output to /dev/null is not read."""
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen([str(c) for c in command], stdout=said if "count" in str(command[0]) else subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        error = child.stderr.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise Open(f"{pathlib.Path(str(command[0])).name}: {(error.strip() or 'failed').splitlines()[-1]}")
        said.seek(0)
        return used.ru_utime + used.ru_stime, said.read()


def told(printed, key):
    words = printed.split()
    return int(words[words.index(key) + 1])


def reading(results, work, quick):
    if not COUNT.exists():
        run("cargo", "build", "--release", "-p", "longpole-ctf", "--example", "count", cwd=ROOT)
    rounds = 3 if quick else 7
    tenth = 10 if quick else 1
    traces = [
        ("LTTng-UST", 12, 5_000_000 // tenth, lambda n: lttng(work, n)),
        ("barectf", 20, 10_000_000 // tenth, lambda n: barectf(work, n)),
        ("Longpole, one stream", 20, 50_000_000 // tenth, lambda n: ours(work, 1, n)),
        ("Longpole, 16 streams", 20, 50_000_000 // tenth, lambda n: ours(work, 16, n)),
    ]
    for name, least, wanted, make in traces:
        try:
            trace = make(wanted)
            compare(results, name, trace, least, rounds)
            if name != "Longpole, one stream":
                compare_verbs(results, name, trace, 1 if quick else 3)
        except Open as error:
            results.open("reading", name, error)
    try:
        trace = demo(work, 2 if quick else 15)
        compare_verbs(results, "demo", trace, 1 if quick else 3)
        report(results, "demo", trace, rounds)
    except Open as error:
        results.open("reading", "demo", error)
    try:
        report(results, "pipe", pipe(work, 25_000 if quick else 250_000), rounds)
    except Open as error:
        results.open("reading", "pipe", error)
    memory(results, work, tenth)


def compare(results, name, trace, least, rounds):
    commands = {
        "babeltrace2": ["babeltrace2", "--output-format=dummy", trace],
        "by columns": [COUNT, "--columns", "--pread", trace],
        "by events": [COUNT, "--fields", "--pread", trace],
    }
    measured = {reader: [] for reader in commands}
    for n in range(rounds):
        order = list(commands)
        for reader in order if n % 2 == 0 else reversed(order):
            measured[reader].append(spent(*commands[reader]))
    columns, rows = measured["by columns"][0][1], measured["by events"][0][1]
    events = told(columns, "events")
    if events != told(rows, "events") or told(columns, "sum") != told(rows, "sum"):
        raise Open("columns and single events differ")
    theirs = counted(trace)
    if events != theirs:
        raise Open(f"{events} events, of which babeltrace2 counts {theirs}")
    for reader, runs in measured.items():
        rate = interval([events / max(cpu, 1e-6) / 1e6 for cpu, *_ in runs])
        results.add("reading", f"{name}, {reader}, M events/s", shown(rate), events=events)
    for reader, bound in (("by columns", least), ("by events", None)):
        ratio = interval([t[0] / max(o[0], 1e-6) for t, o in zip(measured["babeltrace2"], measured[reader])])
        budget = f">= {bound} x" if bound else ""
        results.add("reading", f"{name}, {reader}, to babeltrace2", shown(ratio, " x"), budget, outcome(ratio, least=bound) if bound else "")


def compare_verbs(results, name, trace, rounds):
    folders = sorted({metadata.parent for metadata in trace.rglob("metadata")})
    for verb, (least, options) in VERBS.items():
        theirs, ours = ["babeltrace2", *options, *folders], [LONGPOLE, verb, trace]
        spent_theirs, spent_ours = [], []
        for n in range(rounds):
            turns = [(spent_theirs, theirs), (spent_ours, ours)]
            for measured, command in turns if n % 2 == 0 else reversed(turns):
                measured.append(spent(*command)[0])
        ratios = [t / max(o, 1e-6) for t, o in zip(spent_theirs, spent_ours)]
        told = outcome(interval(ratios), least=least)
        if told == "not resolved" and min(ratios) >= least:
            told = "met in each round"
        fastest = min(spent_theirs) / max(min(spent_ours), 1e-6)
        what = f"{name}: longpole {verb} TRACE, to {' '.join(['babeltrace2', *options, 'TRACE'])}"
        results.add("reading", what, f"{shown(interval(ratios), ' x')}, of the fastest rounds {fastest:.1f} x", f">= {least} x", told)


def report(results, name, trace, rounds):
    """Measures how many events `longpole report` processes per second of elapsed time, on all CPUs,
    and how many per second of CPU time.
    """
    events = json.loads(run(LONGPOLE, "info", "--json", trace))["events"]
    elapsed, cpu = [], []
    for _ in range(rounds):
        began = time.monotonic()
        cpu.append(events / max(spent(LONGPOLE, "report", trace)[0], 1e-6) / 1e6)
        elapsed.append(events / (time.monotonic() - began) / 1e6)
    what = f"{name}: longpole report, M events/s"
    results.add("reading", what, f"{shown(interval(elapsed))}, {shown(interval(cpu))} per CPU second", f">= {REPORT_LEAST}", outcome(interval(elapsed), least=REPORT_LEAST), events=events)


def memory(results, work, tenth):
    """Compares the memory for a trace with that for a hundred times as many events, which must be
    equal.
    """
    sizes = (1_000_000 // tenth, 100_000_000 // tenth)
    try:
        small, large = (ours(work, 1, events) for events in sizes)
        for what, command in (("info", [LONGPOLE, "info"]), ("print", [LONGPOLE, "print"]), ("check", [LONGPOLE, "check"]), ("columns", [COUNT, "--columns", "--pread"])):
            little, much = (peak(*command, trace) for trace in (small, large))
            change = much / little
            results.add("reading", f"memory of {what}, {sizes[0]:,} and {sizes[1]:,} events", f"{little / MIB:.1f} and {much / MIB:.1f} MiB", "within 10 %",
                        "met" if 0.9 <= change <= 1.1 else "missed")
    except Open as error:
        results.open("reading", "memory", error)

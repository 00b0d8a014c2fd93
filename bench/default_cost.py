"""The cost of root's default recording for programs with many system calls, compared with no
recording and with other tools: `bench/run default-cost`. The cost of the stacks of waits in it,
compared with a recording without them and with perf: `bench/run wait-stacks`.

Each round runs every program without a recorder (or without stacks of waits), and then under each
one. Two ratios are formed within a round: that of the rates that the program reports (the user's
view, including the recorder's own CPU time), and that of the CPU times of its processes for the
same work (which is meaningful also on a host that does other work).
"""
import glob
import os
import pathlib
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time

from common import Open, TARGET, interval, outcome, shown

ROUNDS, QUICK = 7, 3
# Largest slowdown by the default recording, and by its stacks of waits alone.
BUDGET, STACKS_BUDGET = 1.3, 1.02


def ours(work):
    return [str(TARGET / "longpole"), "record", "-o", str(work / "recording")]


def recorders(work):
    """Name of each recorder, and the words before the recorded command."""
    around = ["python3", str(pathlib.Path(__file__).parent / "kernel" / "around.py")]
    full = "sched,irq,softirq,net,block,workqueue,syscall"
    return {
        "default": [*ours(work), "--"],
        "full groups": [*ours(work), "--kernel", full, "--"],
        "bpftrace, sums": [*around, "bpftrace", str(work)],
        "LTTng, sched and system calls": [*around, "lttng", str(work)],
        "perf sched, raw_syscalls": ["perf", "record", "-q", "-m", "8M", "-e", "sched:*,raw_syscalls:*", "-a", "-o", str(work / "perf.data"), "--"],
    }


def recorders_of_stacks(work):
    return {
        "default": [*ours(work), "--"],
        "perf, stack at each switch": ["perf", "record", "-q", "-m", "8M", "-e", "sched:sched_switch", "--call-graph", "dwarf", "-a",
                                       "-o", str(work / "perf.data"), "--"],
    }


def cpu_s(pids):
    """CPU time of all living threads of the processes, in seconds."""
    files = [path for pid in pids for path in glob.glob(f"/proc/{pid}/task/*/schedstat")]
    total = 0
    for path in files:
        try:
            total += int(pathlib.Path(path).read_text().split()[0])
        except OSError:
            pass
    return total / 1e9


def family(pid):
    found = [pid]
    for parent in found:
        for path in glob.glob(f"/proc/{parent}/task/*/children"):
            found += [int(child) for child in pathlib.Path(path).read_text().split()]
    return found


class Program:
    """A command whose output contains its rate (`higher`) or its time, and the server that it uses,
    if any.
    """

    def __init__(self, name, command, pattern, higher, server=None, fixed=True):
        self.name, self.command, self.pattern, self.higher, self.server = name, command, re.compile(pattern), higher, server
        # True if its work is fixed and the CPU times of all its processes can be read, so that they
        # can be compared.
        self.fixed = fixed

    def once(self, before, work):
        usage = work / "usage"
        tell = ("import resource,subprocess,sys;p=subprocess.run(sys.argv[2:]);r=resource.getrusage(resource.RUSAGE_CHILDREN);"
                "open(sys.argv[1],'w').write(str(r.ru_utime+r.ru_stime));sys.exit(p.returncode)")
        of_server = family(self.server.pid) if self.server else []
        begin = cpu_s(of_server)
        result = subprocess.run([*before, "python3", "-c", tell, str(usage), *self.command], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        found = self.pattern.findall(result.stdout.replace("\r", "\n"))
        if not found:
            raise Open(f"{self.name}: {(result.stdout.strip() or 'no output').splitlines()[-1]}")
        rate = float(found[-1]) if self.higher else 1 / float(found[-1])
        cpu = cpu_s(family(self.server.pid)) - begin if self.server else 0.0
        return rate, cpu + float(usage.read_text())


def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def started(command, at, **options):
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", at)) == 0:
                return server
        time.sleep(0.05)
    server.terminate()
    raise Open(f"{command[0]} does not answer")


def redis(work):
    at = port()
    server = started(["redis-server", "--port", str(at), "--save", "", "--appendonly", "no"], at)
    command = ["redis-benchmark", "-p", str(at), "-c", "50", "-n", "100000", "-t", "get"]
    return Program("redis-benchmark, GET, 50 clients", command, r"throughput summary: ([0-9.]+)", True, server)


def nginx(work):
    at, root = port(), work / "www"
    root.mkdir()
    (root / "index.html").write_text("x" * 600)
    (work / "nginx.conf").write_text(f"daemon off; pid {work}/nginx.pid; error_log /dev/null; worker_processes 1; user root; events {{ }}\n"
                                     f"http {{ access_log off; server {{ listen 127.0.0.1:{at}; root {root}; }} }}\n")
    server = started(["nginx", "-c", str(work / "nginx.conf")], at)
    return Program("nginx, wrk -c 20 -t 1", ["wrk", "-c", "20", "-t", "1", "-d", "2", f"http://127.0.0.1:{at}/"], r"Requests/sec:\s+([0-9.]+)", True, server,
                   fixed=False)


def postgres(work):
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not found:
        raise Open("no PostgreSQL")
    bin, data, at = pathlib.Path(found[-1]), work / "pg", port()
    user = pwd.getpwnam("postgres")
    work.chmod(0o755)
    data.mkdir()
    os.chown(data, user.pw_uid, user.pw_gid)
    options = {"user": user.pw_uid, "group": user.pw_gid, "cwd": "/"}
    subprocess.run([bin / "initdb", "-D", data, "-A", "trust", "-U", "bench"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    server = started([str(bin / "postgres"), "-D", str(data), "-p", str(at), "-k", str(data), "-c", "fsync=off"], at, **options)
    to = ["-h", "127.0.0.1", "-p", str(at), "-U", "bench"]
    deadline = time.monotonic() + 20
    while subprocess.run(["pgbench", *to, "-i", "-q", "postgres"], capture_output=True).returncode != 0 and time.monotonic() < deadline:
        time.sleep(0.2)
    return Program("pgbench -S, 2 clients", ["pgbench", *to, "-S", "-c", "2", "-t", "10000", "postgres"], r"tps = ([0-9.]+)", True, server,
                   fixed=False)


def make(work):
    folder = work / "make"
    folder.mkdir()
    for n in range(12):
        (folder / f"f{n}.c").write_text(f"#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint f{n}(int a) {{ return printf(\"%d\", a); }}\n")
    (folder / "Makefile").write_text("all: $(patsubst %.c,%.o,$(wildcard *.c))\n%.o: %.c\n\t@cc -O2 -c $< -o $@\n")
    script = f"cd {folder}; rm -f *.o; s=$(date +%s%N); make -s -j2; e=$(date +%s%N); echo ns $((e-s))"
    return Program("make -j2, 12 files of C", ["sh", "-c", script], r"ns ([0-9]+)", False)


def pipe(work):
    return Program("perf bench sched pipe", ["perf", "bench", "sched", "pipe", "-l", "100000"], r"Total time: ([0-9.]+)", False)


def pipe_on_one_cpu(work):
    """The most switches per second; on two CPUs their number changes from run to run."""
    return Program("perf bench sched pipe on one CPU", ["taskset", "-c", "1", "perf", "bench", "sched", "pipe", "-l", "300000"],
                   r"Total time: ([0-9.]+)", False)


def remove_recordings(work):
    """Removes what a recorder wrote, and returns its bytes."""
    size = 0
    for path in (work / "recording", work / "perf.data", work / "lttng"):
        size += sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    return size


def measure(results, part, work, program, rounds, *, baseline, ways, budget):
    """Compares a program under each recorder of `ways` with it under `baseline`."""
    rates, cpus, sizes = ({way: [] for way in ways} for _ in range(3))
    failed = {}
    for _ in range(rounds):
        rate, cpu = program.once(baseline, work)
        least = remove_recordings(work)
        for way, before in ways.items():
            try:
                with_it = program.once(before, work)
                rates[way].append(rate / with_it[0])
                cpus[way].append(with_it[1] / cpu)
            except Open as why:
                failed[way] = why
            sizes[way].append((remove_recordings(work) - least) / 1e6)
    for way in ways:
        if not rates[way]:
            results.open(part, f"{program.name}: {way}", failed[way])
            continue
        slower = interval(rates[way])
        limit = f"{budget} x" if way == "default" else ""
        held = outcome(slower, most=budget) if limit else ""
        cpu = "" if not program.fixed else f"; CPU of its processes {shown(interval(cpus[way]), ' x')}"
        size = f"; {shown(interval(sizes[way]), ' MB')} more" if baseline else ""
        results.add(part, f"{program.name}: {way}", f"slower {shown(slower, ' x')}{cpu}{size}", limit, held)


def default_cost(results, work, quick):
    programs = (redis, postgres, nginx, make, pipe)
    compare(results, "default-cost", work, programs, QUICK if quick else ROUNDS, baseline=[], ways=recorders(work), budget=BUDGET)


def wait_stacks(results, work, quick):
    baseline = [*ours(work), "--stacks-waiting", "none", "--"]
    programs = (pipe_on_one_cpu, redis, postgres)
    compare(results, "wait-stacks", work, programs, QUICK if quick else ROUNDS, baseline=baseline, ways=recorders_of_stacks(work), budget=STACKS_BUDGET)


def compare(results, part, work, programs, rounds, **how):
    if os.geteuid() != 0:
        raise Open("needs root")
    runtime = pathlib.Path(tempfile.mkdtemp(prefix="longpole-bench-", dir="/dev/shm"))
    os.environ["LONGPOLE_RUNTIME_DIR"] = str(runtime)
    try:
        for make_program in programs:
            program = None
            try:
                program = make_program(work)
                measure(results, part, work, program, rounds, **how)
            except (Open, OSError, KeyError, subprocess.SubprocessError) as why:
                results.open(part, make_program.__name__, why)
            finally:
                if program and program.server:
                    program.server.terminate()
                    program.server.wait(timeout=30)
    finally:
        shutil.rmtree(runtime, ignore_errors=True)


PARTS = {"default-cost": default_cost, "wait-stacks": wait_stacks}

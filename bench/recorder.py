"""The recorder, compared with LTTng's consumer, and the cost of a recording: `bench/run sustained`,
`consumer`, `memory`, `modes`.

Both record the same load (recorder/load.c: threads that emit events of one u64) into buffers of the
same total size. The load reports the number of events tried; a reader counts the recorded events in
the finished trace; the streams of the trace contain the number of lost events.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

from common import HERE, Lttng, Open, TARGET, build, cpu_ns, interval, measured, run, shown

LONGPOLE = TARGET / "longpole"
CPUS = os.cpu_count() or 1
MIB = 1 << 20
EVENT = 16


class Session:
    """A recording session. It ends with its `with` block, and then has `recorded`, `lost`, `bytes`
    and `cpu` (ns).
    """

    def count(self):
        """Returns the events and lost events that a reader of the finished trace counts."""
        told = json.loads(run(LONGPOLE, "info", self.trace, "--json"))
        return told["events"] or 0, told["lost"]

    def used(self):
        return sum(cpu_ns(pid) for pid in self.pids)

    def wakeups(self):
        """Returns how often threads of the recorder went to sleep voluntarily."""
        total = 0
        for pid in self.pids:
            for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
                with contextlib.suppress(OSError):
                    total += int(status.read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0])
        return total


class Ours(Session):
    """`longpole record`, with rings in memory as in real recordings."""

    name = "longpole"

    def __init__(self, output, *options):
        self.output = pathlib.Path(tempfile.mkdtemp(prefix="longpole-bench-", dir=output))
        self.runtime = pathlib.Path(tempfile.mkdtemp(prefix="longpole-bench-", dir="/dev/shm"))
        self.environment = {**os.environ, "LONGPOLE_RUNTIME_DIR": str(self.runtime)}
        self.command = [LONGPOLE, "record", "--kernel", "none", "-o", self.output, "--for", "1h", *options]

    def __enter__(self):
        self.process = subprocess.Popen([str(c) for c in self.command], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.pids = [self.process.pid]
        # The recorder publishes the recording as the last step of its start, after the orders to
        # the processes.
        for _ in range(2000):
            if self.process.poll() is not None:
                raise Open(f"longpole record: {(self.process.stderr.read().strip() or 'failed').splitlines()[-1]}")
            if json.loads(run(LONGPOLE, "status", "--json", env=self.environment))["recording"] is not None:
                break
            time.sleep(0.01)
        self.before = self.used()
        return self

    def buffers(self):
        return sum(f.stat().st_blocks * 512 for f in self.runtime.iterdir())

    def __exit__(self, *_):
        begin = time.monotonic()
        self.cpu = self.used() - self.before if self.process.poll() is None else 0
        self.process.send_signal(signal.SIGINT)
        try:
            error = self.process.communicate(timeout=120)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            error = self.process.communicate()[1]
        self.took = time.monotonic() - begin
        shutil.rmtree(self.runtime, ignore_errors=True)
        recordings = sorted(self.output.iterdir())
        # Status 1 means that nothing was recorded, which is permitted.
        if self.process.returncode not in (0, 1) or not recordings:
            raise Open(f"longpole record: {(error.strip() or 'failed').splitlines()[-1]}")
        self.trace = recordings[-1]
        told = json.loads((self.trace / "longpole.json").read_text())
        self.recorded = sum(lane["recorded_bytes"] for lane in told["lanes"]) // EVENT
        self.lost = told["loss"]["events"] + told["loss"]["refused"]
        self.bytes = self.recorded * EVENT
        self.chunks = len(recordings)

    def remove(self):
        shutil.rmtree(self.output, ignore_errors=True)


class Theirs(Session):
    """A session of LTTng-UST: buffers per CPU and user, which is the default."""

    name = "LTTng-UST"

    def __init__(self, daemon, output, *channel):
        self.output = pathlib.Path(tempfile.mkdtemp(prefix="longpole-bench-", dir=output))
        self.daemon, self.channel = daemon, channel
        self.environment = daemon.environment

    def __enter__(self):
        self.daemon.lttng("create", "bench", "--output", self.output / "trace")
        self.daemon.lttng("enable-channel", "-u", "ch", *self.channel)
        self.daemon.lttng("enable-event", "-u", "-c", "ch", "longpole_bench:one")
        self.daemon.lttng("start")
        self.trace = self.output / "trace"
        self.pids = [self.daemon.daemon, *consumers(self.daemon.daemon)]
        self.before = self.used()
        return self

    def buffers(self):
        seen = {}
        for pid in self.pids:
            for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(entry).startswith(("/dev/shm/", "/memfd:")):
                        found = os.stat(entry)
                        seen[found.st_dev, found.st_ino] = found.st_blocks * 512
        return sum(seen.values())

    def __exit__(self, *_):
        begin = time.monotonic()
        self.daemon.lttng("stop")
        self.pids = [self.daemon.daemon, *consumers(self.daemon.daemon)]
        self.cpu = self.used() - self.before
        listed = self.daemon.lttng("list", "bench")
        self.daemon.lttng("destroy")
        self.took = time.monotonic() - begin
        self.lost = sum(int(line.split(":")[1]) for line in listed.splitlines() if "Discarded events:" in line)
        self.bytes = sum(f.stat().st_size for f in self.trace.rglob("*") if f.is_file() and "metadata" not in f.name and "index" not in str(f))

    def remove(self):
        shutil.rmtree(self.output, ignore_errors=True)


def consumers(pid):
    """Returns the processes that a session daemon has started."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(stat.parent.name))
    return found


class Loads:
    """The load program, built once for each recorder."""

    def __init__(self, work):
        source = HERE / "recorder/load.c"
        self.programs = {Ours: build(source, work / "load", "-pthread")}
        try:
            self.programs[Theirs] = build(source, work / "load-lttng", "-DLTTNG", "-pthread", "-llttng-ust", "-ldl")
        except Open as why:
            self.missing = why

    def __call__(self, session, threads, events, rate, *how):
        """Returns events tried, seconds, and CPU ns per event."""
        printed = run(self.programs[type(session)], threads, events, f"{rate:.0f}", *how, env=session.environment)
        tried, seconds, ns = printed.split()
        return int(tried), float(seconds), float(ns)

    @contextlib.contextmanager
    def staying(self, session, threads, events, rate, how="stay"):
        """Runs the load until the end of the block. Its threads have emitted their events and are
        then silent.
        """
        command = [self.programs[type(session)], threads, events, f"{rate:.0f}", how]
        process = subprocess.Popen([str(c) for c in command], env=session.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            if how == "stay" and not process.stdout.readline():
                raise Open(f"the load of {threads} threads failed")
            yield process.pid
        finally:
            process.stdin.close()
            if how != "stay":
                process.terminate()
            process.wait(timeout=60)


@contextlib.contextmanager
def peers(results, part, work, loads, output):
    """Yields makers of sessions by name: (buffer bytes per thread, threads, our options) → session.
    LTTng's buffers have the same total size.
    """
    makers = {"longpole": lambda size, threads, *options: Ours(output(), *(["--buffer", size] if size else []), *options)}
    with contextlib.ExitStack() as stack:
        try:
            if Theirs not in loads.programs:
                raise loads.missing
            daemon = stack.enter_context(Lttng(work))

            def theirs(size, threads, *_):
                channel = [f"--subbuf-size={max(size * threads // CPUS // 4, 4096)}", "--num-subbuf=4"] if size else []
                return Theirs(daemon, output(), *channel)

            makers["LTTng-UST"] = theirs
        except Open as why:
            results.open(part, "LTTng-UST", why)
        yield makers


@contextlib.contextmanager
def places():
    """Yields the folders for traces by the name of the medium: the disk that contains the build,
    and memory.
    """
    with tempfile.TemporaryDirectory(prefix="bench-", dir=TARGET) as disk, tempfile.TemporaryDirectory(prefix="longpole-bench-", dir="/dev/shm") as memory:
        yield {"disk": disk, "tmpfs": memory}


def sustained(results, work, quick):
    """Measures the highest rate without loss, by bisection; the lost share if threads do nothing
    but emit; and the CPU time of the recorders.
    """
    loads, rings = Loads(work), 4 * MIB
    repeated, steps, seconds, most = (1, 4, 0.5, 8_000_000) if quick else (7, 6, 1.0, 20_000_000)
    with places() as where:
        at = [None]
        with peers(results, "sustained", work, loads, lambda: where[at[0]]) as makers:

            def trial(maker, threads, rate, events):
                with maker(rings, threads) as session:
                    tried, took, ns = loads(session, threads, events, rate / threads)
                return session, tried, took, ns

            for place in where:
                at[0] = place
                for threads in (1, 2, 4):
                    rates, saturated = {name: [] for name in makers}, {name: [] for name in makers}
                    for _ in range(repeated):
                        for name, maker in makers.items():
                            session, tried, took, _ns = trial(maker, threads, 0, most // threads if name == "longpole" else most // threads // 4)
                            recorded, lost = session.count()
                            session.remove()
                            saturated[name].append((lost / tried, tried / took, tried - recorded - lost, recorded / took))
                            rates[name].append(bisected(trial, maker, threads, tried / took if lost else None, steps, seconds) or tried / took)
                    for name in makers:
                        what = f"{name}, {threads} thread{'s' * (threads > 1)}, {place}"
                        results.add("sustained", f"{what}: M events/s without loss", spread([r / 1e6 for r in rates[name]]))
                        share, tried, gap, kept = map(list, zip(*saturated[name]))
                        results.add("sustained", f"{what}: flat out, % lost", spread([100 * s for s in share]),
                                    outcome="tried = recorded + lost" if not any(gap) else f"tried - recorded - lost = {gap}",
                                    tried_per_s=tried, recorded_per_s=kept)
                    if len(makers) == 2:
                        ratio = [ours / theirs for ours, theirs in zip(rates["longpole"], rates["LTTng-UST"])]
                        results.add("sustained", f"longpole to LTTng-UST, {threads} thread{'s' * (threads > 1)}, {place}: rate without loss", spread(ratio, " x"))


def bisected(trial, maker, threads, high, steps, seconds):
    """Returns the highest rate without loss, in events per second of all threads; None if nothing
    was lost at full speed.
    """
    if high is None:
        return None
    low, best = min(1e5, high / 4), 0.0
    for _ in range(steps):
        rate = (low * high) ** 0.5
        session, tried, took, _ns = trial(maker, threads, rate, int(rate * seconds / threads) + 1)
        session.remove()
        if session.lost == 0:
            # The rate that was reached counts, not the requested one.
            low, best = rate, max(best, tried / took)
        else:
            high = rate
    return best or low


def spread(values, unit=""):
    """Median and range, which is all that a few repetitions can show."""
    middle = statistics.median(values)
    digits = 2 if middle < 100 else 0
    text = f"{middle:.{digits}f}{unit}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def consumers_cpu(results, work, quick):
    """Measures the CPU time of both recorders per event and per byte written, at rates that both
    keep up with.
    """
    loads = Loads(work)
    times, seconds = (3, 0.5) if quick else (7, 2.0)
    with places() as where, peers(results, "consumer", work, loads, lambda: where["disk"]) as makers:
        for rate in (100_000, 1_000_000, 4_000_000):
            each, byte, lost = ({name: [] for name in makers} for _ in range(3))
            for n in range(times):
                for name in list(makers)[:: 1 if n % 2 == 0 else -1]:
                    with makers[name](4 * MIB, 2) as session:
                        tried, _took, _ns = loads(session, 2, int(rate * seconds / 2), rate / 2)
                        # Late events are read within one period.
                        time.sleep(0.3)
                    session.remove()
                    each[name].append(session.cpu / max(tried - session.lost, 1))
                    byte[name].append(session.cpu / max(session.bytes, 1))
                    lost[name].append(session.lost)
            for name in makers:
                what = f"{name}, 2 threads, {rate / 1e6:g} M events/s"
                results.add("consumer", f"{what}: CPU ns an event", measured(each[name]), lost=sum(lost[name]))
                results.add("consumer", f"{what}: CPU ns of 16 bytes", measured([16 * ns for ns in byte[name]]))
            if len(makers) == 2:
                ratio = interval([theirs / ours for ours, theirs in zip(each["longpole"], each["LTTng-UST"])])
                results.add("consumer", f"LTTng-UST to longpole, {rate / 1e6:g} M events/s: CPU of an event", shown(ratio, " x"))


def memory(results, work, quick):
    """Measures a recording of silent threads: memory, CPU time, and the time until it begins and
    ends.
    """
    loads = Loads(work)
    times = 1 if quick else 7
    with places() as where, peers(results, "memory", work, loads, lambda: where["disk"]) as makers:
        for threads in (1, 10, 100, 1000):
            taken = {name: [] for name in makers}
            for _ in range(times):
                for name, maker in makers.items():
                    taken[name].append(taken_by(loads, maker, threads))
            for name, all_ in taken.items():
                data = {key: [one[key] for one in all_] for key in all_[0]}
                results.add("memory", f"{name}, {threads} thread{'s' * (threads > 1)}: KiB of each", spread(data.pop("kib")), **data)
        idle(results, loads, makers, times)
        latency(results, loads, makers, 3 if quick else 7)


def taken_by(loads, maker, threads):
    """Returns the memory of a recording of `threads` silent threads: KiB per thread, and its parts.
    """
    with maker(None, threads) as session:
        empty = sum(map(private, session.pids))
        with loads.staying(session, threads, 1, 0) as pid:
            time.sleep(1)
            buffers, own, program = session.buffers(), sum(map(private, session.pids)), private(pid)
    session.remove()
    bare = bare_load(loads, session, threads)
    kib = (buffers + own + max(program - bare, 0)) / threads / 1024
    return {"kib": kib, "buffers": buffers, "recorder": own, "recorder_before": empty, "program": program, "program_unrecorded": bare}


def private(pid):
    """Returns the bytes of a process's memory, shared memory in proportion, without shared buffers,
    which are counted separately.
    """
    words = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().split()
    sizes = {words[at][:-1]: int(words[at + 1]) * 1024 for at in range(len(words) - 1) if words[at].startswith("Pss_")}
    return sizes["Pss_Anon"] + sizes["Pss_File"]


def bare_load(loads, session, threads):
    """Returns the memory of the load if it is not recorded."""
    with tempfile.TemporaryDirectory(prefix="longpole-bench-", dir="/dev/shm") as runtime:
        environment = {**session.environment, "LONGPOLE_RUNTIME_DIR": runtime}
        process = subprocess.Popen([str(loads.programs[type(session)]), str(threads), "1", "0", "now-stay"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            if not process.stdout.readline():
                raise Open("the load failed where nobody records")
            time.sleep(0.2)
            return private(process.pid)
        finally:
            process.stdin.close()
            process.wait(timeout=60)


def idle(results, loads, makers, times):
    used, wakeups = {name: [] for name in makers}, {name: [] for name in makers}
    for _ in range(times):
        for name, maker in makers.items():
            with maker(None, 100) as session, loads.staying(session, 100, 1, 0):
                time.sleep(2)
                cpu, woken, begin = session.used(), session.wakeups(), time.monotonic()
                time.sleep(3)
                took = time.monotonic() - begin
                used[name].append((session.used() - cpu) / took / 1e6)
                wakeups[name].append((session.wakeups() - woken) / took)
            session.remove()
    for name in makers:
        results.add("memory", f"{name}, 100 silent threads: CPU of the recorder, ms a second", spread(used[name]))
        results.add("memory", f"{name}, 100 silent threads: wake-ups a second", spread(wakeups[name]))


def latency(results, loads, makers, times):
    """The program runs already when the recording begins, and emits 10,000 events per second."""
    first, last = {name: [] for name in makers}, {name: [] for name in makers}
    for _ in range(times):
        for name, maker in makers.items():
            session = maker(None, 1)
            with loads.staying(session, 1, 10_000_000, 10_000, "now"):
                time.sleep(0.3)
                begin = time.time_ns()
                with session:
                    time.sleep(0.7)
            last[name].append(session.took * 1e3)
            if run("babeltrace2", "--output-format=dummy", session.trace / "user" if name == "longpole" else session.trace) != "":
                raise Open("babeltrace2 did not read the trace")
            line = subprocess.Popen([str(LONGPOLE), "print", "--json", str(session.trace)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            told = json.loads(line.stdout.readline() or "{}")
            line.stdout.close()
            line.wait()
            session.remove()
            if "t_ns" not in told:
                raise Open(f"{name} recorded no event")
            first[name].append((told["t_ns"] - begin) / 1e6)
    for name in makers:
        results.add("memory", f"{name}: ms from the command to the first event", measured(first[name]))
        results.add("memory", f"{name}: ms from its end to a complete trace", measured(last[name]))


def modes(results, work, quick):
    """Measures a full ring in each mode, snapshots, and a recording in chunks."""
    loads = Loads(work)
    times = 3 if quick else 7
    with places() as where:
        disk = where["disk"]
        names = ("discard", "overwrite", "block")
        ns, rate, cpu, share = ({name: [] for name in names} for _ in range(4))
        for n in range(times):
            for name in names[n % 3:] + names[:n % 3]:
                with Ours(disk, "--buffer", 4 * MIB, "--mode", name) as session:
                    tried, took, each = loads(session, 1, 4_000_000 if quick else 20_000_000, 0)
                recorded, lost = session.count()
                session.remove()
                if tried != recorded + lost:
                    raise Open(f"{name}: {tried} events tried, {recorded} recorded, {lost} lost")
                ns[name].append(each)
                rate[name].append(tried / took / 1e6)
                cpu[name].append(session.cpu / tried)
                share[name].append(100 * lost / tried)
        for name in names:
            what = f"{name}, 1 thread flat out"
            results.add("modes", f"{what}: CPU ns of an event in its thread", measured(ns[name]))
            results.add("modes", f"{what}: M events/s tried", shown(interval(rate[name])))
            results.add("modes", f"{what}: CPU ns of an event in the recorder", shown(interval(cpu[name])))
            results.add("modes", f"{what}: % lost", shown(interval(share[name])))
        for name in names[1:]:
            ratio = interval([one / other for one, other in zip(ns[name], ns["discard"])])
            results.add("modes", f"{name} to discard: CPU of an event in its thread", shown(ratio, " x"))
        snapshots(results, loads, disk, times)
        chunks(results, loads, disk, times, quick)


def snapshots(results, loads, disk, times):
    for size in (256 << 10, 4 * MIB, 64 * MIB):
        whole, inside, written = [], [], []
        with Ours(disk, "--buffer", size, "--mode", "overwrite") as session, loads.staying(session, 1, 2 * size // EVENT, 0):
            for _ in range(times):
                begin = time.monotonic()
                made = pathlib.Path(run(LONGPOLE, "snapshot", env=session.environment).strip())
                whole.append((time.monotonic() - begin) * 1e3)
                told = json.loads((made / "longpole.json").read_text())
                inside.append(told["snapshot"]["took_ns"] / 1e6)
                written.append(sum(f.stat().st_size for f in made.rglob("*") if f.is_file()) / MIB)
                shutil.rmtree(made)
        session.remove()
        what = f"snapshot of a ring of {size / MIB:g} MiB"
        results.add("modes", f"{what}: ms in the recorder", measured(inside), mib=statistics.median(written))
        results.add("modes", f"{what}: ms of the whole command", measured(whole))


def chunks(results, loads, disk, times, quick):
    rate = 5_000_000
    ways = {"no limit": [], "--max-size 64MiB": ["--max-size", "64MiB"]}
    cpu, lost, number = ({name: [] for name in ways} for _ in range(3))
    for n in range(times):
        for name in list(ways)[:: 1 if n % 2 == 0 else -1]:
            with Ours(disk, "--buffer", 4 * MIB, *ways[name]) as session:
                tried, _took, _ns = loads(session, 1, rate if quick else 3 * rate, rate)
                time.sleep(0.3)
            session.remove()
            cpu[name].append(session.cpu / tried)
            number[name].append(session.chunks)
    for name in ways:
        results.add("modes", f"{name}, {rate / 1e6:g} M events/s: CPU ns of an event in the recorder", measured(cpu[name]), chunks=number[name])
    ratio = interval([limited / free for limited, free in zip(cpu["--max-size 64MiB"], cpu["no limit"])])
    results.add("modes", "--max-size 64MiB to no limit: CPU of the recorder", shown(ratio, " x"))


PARTS = {"sustained": sustained, "consumer": consumers_cpu, "memory": memory, "modes": modes}

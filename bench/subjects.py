"""The programs whose loops alternate (bench/probes/subject.c): how they are built and asked, and
their answers.
"""
import functools
import os
import pathlib
import select
import shutil
import statistics
import subprocess
import tempfile

from common import HERE, Open, ROOT, TARGET, interval, run

PROBES = HERE / "probes"
PEERS = HERE / "peers"
# Folder for everything that is built for the bench. It is not removed, because the other tracers
# take minutes to build.
BUILT = TARGET.parent / "bench"
# No branch may be on a 32-byte boundary: on some processors that costs half a nanosecond, and the
# position would be accidental.
ALIGNED = "-Wa,-mbranches-within-32B-boundaries"
TURNS = 16384
# SUBJECT_BUFFER of subject.h.
BUFFER = 1 << 20
PATIENCE = 120


def compiler(language="c"):
    if language == "c":
        return [os.environ.get("CC", "cc"), "-std=gnu11"]
    return [os.environ.get("CXX", "c++"), "-std=gnu++17", "-x", "c++"]


def tool(*command):
    """Runs a compiler or linker. On failure the message is its last error, not its last line."""
    result = subprocess.run([str(c) for c in command], text=True, capture_output=True)
    if result.returncode != 0:
        said = [line for line in result.stderr.splitlines() if "error" in line] or result.stderr.splitlines() or ["failed"]
        raise Open(said[-1].strip())


def compiled(source, name, *flags, language="c"):
    """Compiles an object file."""
    BUILT.mkdir(parents=True, exist_ok=True)
    output = BUILT / f"{name}.o"
    command = [*compiler(language), "-O2", "-Wall", "-Wextra", "-I", ROOT / "include", "-I", PROBES, *flags, "-c", source, "-o", output]
    try:
        tool(*command[:-4], ALIGNED, *command[-4:])
    except Open:
        tool(*command)
    return output


@functools.cache
def main_object():
    return compiled(PROBES / "subject.c", "subject", "-fPIE")


def executable(name, *objects, libraries=()):
    output = BUILT / name
    tool(os.environ.get("CXX", "c++"), "-pie", main_object(), *objects, "-o", output, *libraries, "-ldl",
        "-lpthread")
    return output


def library(name, *objects, libraries=()):
    output = BUILT / f"{name}.so"
    tool(os.environ.get("CXX", "c++"), "-shared", *objects, "-o", output, *libraries, "-lpthread")
    return output


def crate(feature):
    """Builds the library of src/ with this feature. All features share a target folder, so that
    common dependencies are built once.
    """
    target = BUILT / "crates"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CARGO_PROFILE") and key != "CARGO_TARGET_DIR"}
    environment["CARGO_TARGET_DIR"] = str(target)
    result = subprocess.run(["cargo", "build", "--release", "--locked", "--manifest-path", str(PEERS / "Cargo.toml"), "--features", feature],
                            text=True, capture_output=True, env=environment)
    if result.returncode != 0:
        said = [line for line in result.stderr.splitlines() if line.startswith("error")] or result.stderr.strip().splitlines() or ["cargo failed"]
        raise Open(f"cargo: {said[-1]}")
    output = BUILT / f"lib{feature}.a"
    shutil.copy(target / "release/liblongpole_bench_peers.a", output)
    return output


class Subject:
    """A running program with loops. `name` is the name of its rows."""

    def __init__(self, name, program, libraries=(), before=(), environment=None, folder=None):
        self.name, self.before = name, list(before)
        self.command = [*self.before, program, None, *libraries]
        self.environment = environment or {}
        self.folder = folder
        self.process = self.runtime = None
        self.heard = ""
        self.said = {}
        self.error = None
        # `expected`: for each loop the number of events that should have been recorded. `seen`: for
        # each state and loop the turns, the events that should have been recorded, and those that
        # the subject counted at once.
        self.expected, self.seen = {}, {}
        self.bytes = {}
        self.rounds = {}

    def start(self, work):
        # Rings are in memory, as in real recordings.
        self.runtime = pathlib.Path(tempfile.mkdtemp(prefix="longpole-bench-", dir="/dev/shm"))
        if self.folder is None:
            self.folder = pathlib.Path(tempfile.mkdtemp(prefix="subject-", dir=work))
        self.command[len(self.before) + 1] = self.folder
        self.stderr = open(self.folder / "stderr", "w+", encoding="utf-8")
        self.process = subprocess.Popen([str(c) for c in self.command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr,
                                        bufsize=0, cwd=self.folder,
                                        env={**os.environ, "LONGPOLE_RUNTIME_DIR": str(self.runtime), **self.environment})
        self.loops = {}
        for line in self.ask("loops"):
            state, name, events, slow, size = line.split("\t")
            self.loops[state, name] = (int(events), int(slow), int(size))

    def last_words(self):
        self.stderr.flush()
        self.stderr.seek(0)
        return (self.stderr.read().strip() or "ended without a word").splitlines()[-1]

    def ask(self, *words):
        """Sends a request. Returns the lines of the answer."""
        try:
            self.process.stdin.write(("\t".join(str(word) for word in words) + "\n").encode())
        except OSError as error:
            raise Open(f"{self.name}: {self.last_words()}") from error
        while True:
            if self.heard.startswith(".\n") or "\n.\n" in self.heard:
                answer, _, self.heard = ("\n" + self.heard).partition("\n.\n")
                return answer.split("\n")[1:]
            if self.heard.startswith("!") and "\n" in self.heard:
                why, _, self.heard = self.heard.partition("\n")
                raise Open(f"{self.name}: {why[2:]}")
            if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
                raise Open(f"{self.name}: no answer to {words[0]}")
            piece = os.read(self.process.stdout.fileno(), 65536).decode()
            if piece == "":
                raise Open(f"{self.name}: {self.last_words()}")
            self.heard += piece

    def turns(self, state, loop):
        _, slow, _ = self.loops[state, loop]
        # Very short bodies need more turns, so that the resolution of the clock does not matter.
        return max(TURNS * (8 if state in ("off", "out") else 1) // slow, 64)

    def batch(self, number, state, loop, threads):
        """Runs one batch and stores its ns; a negative number is a warm-up round and is not stored.
        """
        turns, (events, _, size) = self.turns(state, loop), self.loops[state, loop]
        words = self.ask("run", state, loop, threads, turns)[0].split()
        if state in ("on", "overwrite"):
            # The same computation as in subject.c before it reads the clock.
            lap = 2 * (BUFFER // 2 // (size * max(events, 1))) if size else 0
            self.expected[loop] = self.expected.get(loop, 0) + (lap + turns // 8 + 1 + turns) * events * threads
        if state in ("on", "overwrite"):
            self.look(number, state, loop, turns, *(int(word) for word in words[threads:]))
        if number >= 0:
            for thread in range(threads):
                key = (state, loop, 1 if threads == 1 else 2 + thread)
                self.rounds.setdefault(key, {})[number] = float(words[thread])

    def look(self, number, state, loop, turns, size=None, count=None):
        """Stores what a batch recorded, if the subject reports it at once."""
        events = self.loops[state, loop][0]
        if size is not None and events:
            self.bytes[loop] = min(self.bytes.get(loop, size), size // (turns * events))
        # During a warm-up round, functions that are going to be excluded may still be recorded.
        if count is not None and (events or number >= 0):
            ran, wanted, seen = self.seen.get((state, loop), (0, 0, 0))
            self.seen[state, loop] = (ran + turns, wanted + turns * events, seen + count)

    def end(self):
        """Stores the final report of the subject. The process has ended afterwards."""
        try:
            for line in self.ask("end"):
                name, _, value = line.partition("\t")
                self.said[name] = int(value)
            self.process.stdin.close()
            status = self.process.wait(PATIENCE)
            if status != 0:
                raise Open(f"{self.name}: {self.last_words()}")
        finally:
            self.stop()

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.runtime is not None:
            shutil.rmtree(self.runtime, ignore_errors=True)

    # Results: series of rounds, without the cost of the loop around a probe.

    def net(self, state, loop, thread=1):
        series, empty = self.rounds.get((state, loop, thread)), self.rounds.get(("bare", "empty", thread))
        if not series or not empty:
            return {}
        return {number: ns - empty[number] for number, ns in series.items() if number in empty}

    def estimate(self, state, loop, thread=1):
        """Returns minimum, median, and the median's 95 % interval in ns."""
        values = list(self.net(state, loop, thread).values())
        return {"min": min(values), **interval(values)} if values else None

    def ratio(self, state, loop, other, other_state, other_loop, thread=1, other_thread=None):
        mine, its = self.net(state, loop, thread), other.net(other_state, other_loop, other_thread or thread)
        values = [ns / its[number] for number, ns in mine.items() if its.get(number, 0) > 0]
        return interval(values) if values else None

    def limit(self, thread=1):
        """Returns the name of the fastest of the loops whose names begin with "limit"."""
        medians = {loop: median(list(self.net("bare", loop, thread).values())) for _, loop in self.loops if loop.startswith("limit")}
        return min((loop for loop in medians if medians[loop] is not None), key=medians.get, default="limit")

    def to_limit(self, state, loop, thread=1):
        return self.ratio(state, loop, self, "bare", self.limit(thread), thread)


def median(values):
    return statistics.median(values) if values else None

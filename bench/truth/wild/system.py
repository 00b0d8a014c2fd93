"""The declaration of a system of the wild suite, and the place in which it runs.

A file in seen/ or unseen/ ends with `SYSTEMS = [System(…), …]`. `load` starts the services of the
system in its `Place` and returns the command whose end ends the run; with `place.fixed` it makes
the same system without the fault. An example is seen/proxy.py.
"""
import contextlib
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

# Not the first `python3` of $PATH, which may be a script that starts another one.
PYTHON = "/usr/bin/python3"
# Folder for compiled programs, one for each source, because a system is started five times.
CACHE = Path(os.environ.get("LONGPOLE_WILD_CACHE", "/var/tmp/longpole-wild"))
SECONDS = 4

# Patterns for mechanisms that several systems share.
SLEEPS = (r"sleep", r"timer", r"until a time")
LOCKS = (r"\block", r"mutex", r"one (\w+ )?at a time", r"wait for one another")
COMPUTES = (r"comput", r"\buser\b", r"runs its own code", r"one thread")


@dataclass
class System:
    name: str
    kind: str  # kind of fault: slow-upstream, row-lock, …; "control" without a fault
    truth: str  # the fault in one sentence
    load: Callable  # Place -> command of the load
    rate: Optional[Callable] = None  # output of the load -> items per second; None: runs per second
    component: tuple = ()  # regular expressions, one of which the first clause must match
    mechanism: tuple = ()  # likewise, for the whole first sentence
    never: tuple = ()  # regular expressions that must not match
    # Functions, one of which the first screen must name; they do not change the score.
    code: tuple = ()
    acceptable: tuple = ()  # for a control: regular expressions of acceptable verdicts
    # Argument of what-if for the fix; "x0.25" means that a quarter of the verdict's state remains.
    # N sleeps in parallel instead of one after the other are the sleep x1/N.
    change: Optional[str] = None
    # True if `load` uses `place.fault`, so that half the fault can be measured
    halves: bool = False
    running: bool = False  # record --for while the load already runs
    record: tuple = ()  # options of `longpole record`
    needs: tuple = ()  # required programs

    @property
    def control(self):
        return self.kind == "control"


class Place:
    """Temporary folder and services of one run; all are removed at the end of `with`."""

    def __init__(self, folder, fault=1.0, seconds=SECONDS):
        """`fault`: the strength of the fault, from 1 (as declared) to 0 (none)."""
        self.folder, self.fault, self.seconds = Path(folder), fault, seconds
        self.stack = contextlib.ExitStack()

    @property
    def fixed(self):
        return self.fault == 0

    @property
    def scale(self):
        """Factor for the time of the fault, in a system whose fix is another mode and not less
        time.
        """
        return self.fault or 1.0

    def __enter__(self):
        self.folder.mkdir(parents=True)
        # Services that give up root must be able to read their files.
        self.folder.chmod(0o755)
        return self

    def __exit__(self, *_):
        self.stack.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, name, text, mode=0o755):
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def port(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    def run(self, *words, **options):
        options = {"cwd": self.folder, "timeout": 120, "text": True, **options}
        done = subprocess.run([str(word) for word in words], capture_output=True, **options)
        if done.returncode:
            raise RuntimeError(f"{words[0]}: {(done.stderr or done.stdout).strip()[-400:]}")
        return done.stdout

    def start(self, *words, port=None, path=None, stop=signal.SIGTERM, **options):
        """Starts a service, and waits until it listens on `port` or has created the file `path`."""
        log = self.folder / f"service-{len(list(self.folder.glob('service-*')))}.log"
        options = {"cwd": self.folder, "start_new_session": True, **options}
        with log.open("wb") as out:
            process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=out, stderr=out, **options)
        self.stack.callback(ended, process, stop)
        for _ in range(1000):
            if process.poll() is not None:
                raise RuntimeError(f"{words[0]} does not start: {log.read_text()[-400:]}")
            if (port is None or listens(port)) and (path is None or Path(path).exists()):
                return process
            time.sleep(0.02)
        raise RuntimeError(f"{words[0]} does not listen: {log.read_text()[-400:]}")

    def built(self, source, suffix, *command):
        """Returns the program that `command` builds; {source} and {program} are replaced by the two
        files.
        """
        key = hashlib.sha256("\0".join((source, suffix, *command)).encode()).hexdigest()[:16]
        home = CACHE / key
        program = home / "program"
        if not program.exists():
            home.mkdir(parents=True, exist_ok=True)
            CACHE.chmod(0o755)
            (home / f"main{suffix}").write_text(source)
            words = [word.format(source=home / f"main{suffix}", program=program) for word in command]
            self.run(*words, cwd=home, timeout=300)
        return program

    def named(self, program, name):
        """Returns a copy with this name, which is then also the kernel's name of the process."""
        path = self.folder / name
        shutil.copy(program, path)
        path.chmod(0o755)
        return path

    def c(self, name, source, *flags):
        command = ("gcc", "-O2", "-std=gnu11", "-pthread", "-o", "{program}", "{source}", *flags)
        return self.named(self.built(source, ".c", *command), name)

    def go(self, name, source):
        return self.named(self.built(source, ".go", "go", "build", "-o", "{program}", "{source}"), name)

    def java(self, source):
        """Returns the folder with the classes; the main class is called Main."""
        return self.built(source.replace("public class Main", "class Main"), ".java", "javac", "-d", "{program}", "{source}")


def listens(port):
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ended(process, stop):
    """Ends the service and the rest of its process group."""
    for number, patience in ((stop, 5), (signal.SIGKILL, 5)):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number) if number != signal.SIGKILL else os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


# Readers of rates in outputs.

def number(pattern):
    """Returns a reader for the first number (or quotient of two numbers) that the pattern captures.
    """
    def read(output):
        found = re.search(pattern, output)
        if not found:
            raise RuntimeError(f"no rate in: {output.strip()[-300:]}")
        values = [float(value.replace(",", "")) for value in found.groups()]
        return values[0] / (values[1] if len(values) > 1 else 1)
    return read


ITEMS = number(r"items (\d+) seconds ([\d.]+)")
WRK = number(r"Requests/sec:\s+([\d.]+)")
PGBENCH = number(r"tps = ([\d.]+)")


def wrk(url, connections, seconds, threads=1):
    return ["wrk", "-t", str(threads), "-c", str(connections), "-d", f"{seconds}s", "--timeout", "10s", url]


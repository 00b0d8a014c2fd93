"""Common parts of the bench: commands, estimates with their intervals, the table, and LTTng's
session daemon.
"""
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


class Open(Exception):
    """A row that could not be measured; the text is the reason."""


def run(*command, timeout=600, **options):
    try:
        result = subprocess.run([str(c) for c in command], text=True, capture_output=True, timeout=timeout, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Open(str(error)) from error
    if result.returncode != 0:
        lines = (result.stderr.strip() or result.stdout.strip() or f"status {result.returncode}").splitlines()
        raise Open(f"{pathlib.Path(command[0]).name}: {lines[-1]}")
    return result.stdout


def build(source, output, *libraries):
    run(os.environ.get("CC", "cc"), "-O2", "-I", ROOT / "include", "-I", source.parent, source, "-o", output, *libraries)
    return output


def interval(values):
    """Median, and the order statistics that enclose it with a probability of 95 %."""
    values = sorted(values)
    n = len(values)
    total, chance, outside = 0.0, 0.5**n, None
    for k in range(n):
        total += chance
        if total > 0.025:
            break
        outside = k
        chance *= (n - k) / (k + 1)
    middle = statistics.median(values)
    if outside is None:
        return {"median": middle, "low": None, "high": None}
    return {"median": middle, "low": values[outside], "high": values[n - 1 - outside]}


def shown(estimate, unit=""):
    text = f"{estimate['median']:.2f}{unit}"
    if estimate["low"] is not None and estimate["low"] != estimate["high"]:
        text += f" ({estimate['low']:.2f}-{estimate['high']:.2f})"
    return text


def measured(values, unit=""):
    """Median, its interval, and the minimum."""
    return f"{shown(interval(values), unit)}, min {min(values):.2f}{unit}"


class Results:
    def __init__(self):
        self.rows = []

    def add(self, part, what, measured, budget="", outcome="", **data):
        self.rows.append({"part": part, "what": what, "measured": measured, "budget": budget, "outcome": outcome, **data})

    def open(self, part, what, why):
        self.add(part, what, "", "", f"open: {why}")

    def print(self):
        columns = ["part", "what", "measured", "budget", "outcome"]
        widths = [max(len(str(row[c])) for row in self.rows + [dict(zip(columns, columns))]) for c in columns]
        for row in [dict(zip(columns, columns))] + self.rows:
            print("  ".join(str(row[c]).ljust(width) for c, width in zip(columns, widths)).rstrip())


def outcome(estimate, most=None, least=None):
    low, high = estimate["low"], estimate["high"]
    if low is None:
        return "not resolved"
    if (most is None or high <= most) and (least is None or low >= least):
        return "met"
    if (most is not None and low > most) or (least is not None and high < least):
        return "missed"
    return "not resolved"


def somebody_elses():
    """True if root has a session daemon already."""
    try:
        pid = pathlib.Path("/var/run/lttng/sessiond.pid").read_text().strip() if os.geteuid() == 0 else ""
    except OSError:
        return False
    return pid != "" and pathlib.Path(f"/proc/{pid}").exists()


class Lttng:
    """A session daemon of the bench, with a home directory of its own."""

    def __init__(self, work):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="lttng-", dir=work))
        self.environment = {**os.environ, "LTTNG_HOME": str(self.home), "HOME": str(self.home), "LTTNG_UST_REGISTER_TIMEOUT": "5000"}
        self.daemon = None

    def __enter__(self):
        # As root there is one global socket for all daemons, independent of LTTNG_HOME. A daemon
        # that somebody else started must not be used.
        for _ in range(60):
            if not somebody_elses():
                break
            time.sleep(1)
        else:
            raise Open("a session daemon of this user runs already")
        pid_file = self.home / "pid"
        run("lttng-sessiond", "--no-kernel", "--daemonize", "--pidfile", pid_file, env=self.environment)
        self.daemon = int(pid_file.read_text())
        return self

    def __exit__(self, *_):
        if self.daemon is not None:
            os.kill(self.daemon, signal.SIGTERM)
            for _ in range(100):
                if not pathlib.Path(f"/proc/{self.daemon}").exists():
                    break
                time.sleep(0.1)

    def lttng(self, *arguments):
        return run("lttng", "--no-sessiond", *arguments, env=self.environment)


def cpu_ns(pid):
    """CPU time of all threads of a process in ns, according to the scheduler."""
    return sum(int(f.read_text().split()[0]) for f in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))

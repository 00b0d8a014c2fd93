#!/usr/bin/env python3
"""Records programs without probes, each with `longpole record -- CMD` and no option, and compares
the recordings with the kernel's counters and babeltrace2.

The programs are iperf3 between two network namespaces, nginx under wrk, redis-server under
redis-benchmark, and a parallel compilation. For each recording: the event groups are the default
ones; the trace contains as many events, and as many lost events, as the kernel counted; babeltrace2
reads it without an error or a warning and counts the same. Needs root, tracefs and these programs.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
GROUPS = ["sched", "irq", "softirq", "net", "block", "workqueue", "syscall", "fault"]


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True, **options).stdout


@contextlib.contextmanager
def server(*words, port, folder, within=()):
    """Runs a server in its own folder; it and its children are ended with this block. `within`: a
    command that runs another one in the place where the server listens.
    """
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen([str(word) for word in (*within, *words)], stdout=log, stderr=log, cwd=folder, start_new_session=True)
    try:
        for _ in range(1000):
            if f":{port} " in run(*within, "ss", "-Hltn") or process.poll() is not None:
                break
            time.sleep(0.02)
        if process.poll() is not None:
            raise SystemExit(f"{words[0]} does not start: {(folder / 'server.log').read_text()}")
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


@contextlib.contextmanager
def iperf3(folder, seconds):
    names = [f"unmodified-{os.getpid()}-{side}" for side in "ab"]
    made = []
    try:
        for name in names:
            run("ip", "netns", "add", name)
            made.append(name)
        run("ip", "link", "add", "veth0", "netns", names[0], "type", "veth", "peer", "name", "veth0", "netns", names[1])
        for name, address in zip(names, ("198.18.1.1/30", "198.18.1.2/30")):
            run("ip", "-n", name, "address", "add", address, "dev", "veth0")
            run("ip", "-n", name, "link", "set", "veth0", "up")
        with server("iperf3", "-s", "-1", port=5201, folder=folder, within=("ip", "netns", "exec", names[1])):
            yield ["ip", "netns", "exec", names[0], "iperf3", "-c", "198.18.1.2", "-t", seconds]
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], check=False)


@contextlib.contextmanager
def nginx(folder, seconds):
    (folder / "index.html").write_text("x" * 600)
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 2; user root;\n"
        "events { worker_connections 256; }\n"
        f"http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder};\n"
        f" scgi_temp_path {folder}; server {{ listen 127.0.0.1:18080; root {folder}; }} }}\n")
    with server("nginx", "-p", folder, "-c", folder / "nginx.conf", port=18080, folder=folder):
        yield ["wrk", "-t", 2, "-c", 16, "-d", f"{seconds}s", "http://127.0.0.1:18080/index.html"]


@contextlib.contextmanager
def redis(folder, seconds):
    with server("redis-server", "--port", 17777, "--bind", "127.0.0.1", "--save", "", port=17777, folder=folder):
        yield ["redis-benchmark", "-p", 17777, "-n", 12000 * seconds, "-c", 20, "-t", "set", "-q"]


@contextlib.contextmanager
def compilation(folder, seconds):
    for number in range(20 * seconds):
        (folder / f"part{number}.c").write_text("#include <stdio.h>\n#include <stdlib.h>\n#include <pthread.h>\nint f%d(void) { return printf(\"x\"); }\n" % number)
    (folder / "Makefile").write_text("all: $(patsubst %.c,%.o,$(wildcard *.c))\n")
    yield ["make", "-s", "-j4", "-C", folder, "CFLAGS=-O2"]


LOADS = {"iperf3": (iperf3, ["iperf3", "ip", "ss"]), "nginx under wrk": (nginx, ["nginx", "wrk", "ss"]),
         "redis-benchmark": (redis, ["redis-server", "redis-benchmark", "ss"]), "a parallel compilation": (compilation, ["make", "cc"])}


def check(longpole, command, folder):
    """Returns a line of figures, or raises AssertionError."""
    environment = {**os.environ, "LONGPOLE_RUNTIME_DIR": str(folder / "runtime")}
    (folder / "runtime").mkdir(mode=0o700)
    run(longpole, "record", "-o", folder / "traces", "--", *command, env=environment)
    recording = next((folder / "traces").iterdir())
    told = json.loads((recording / "longpole.json").read_text())["kernel_events"]
    assert told["groups"] == GROUPS, told["groups"]
    info = json.loads(run(longpole, "info", "--json", recording))
    kernel = sum(stream["events"] for stream in info["streams"] if stream["kind"] == "kernel")
    # Events of the initial state, and of threads without any switch, were added by the recorder and
    # were in no page of the kernel's buffers.
    own = sum(count for name, count in info["names"].items() if name.startswith(("lttng_statedump_", "longpole_")) and not name.startswith("longpole_affinity"))
    events = kernel - own
    lost = sum(stream["lost"] for stream in info["streams"] if stream["kind"] == "kernel")
    # The kernel's own counters, which are independent of the conversion.
    handed_out = sum(cpu["read"] for cpu in told["cpus"])
    missed = sum(cpu[name] for cpu in told["cpus"] for name in ("overrun", "commit_overrun", "dropped", "entries"))
    assert (events, lost) == (handed_out, missed), (events, handed_out, lost, missed)
    assert (events, lost) == (told["events"], told["lost"]), (events, told["events"], lost, told["lost"])
    assert told["damaged_pages"] == 0, told["damaged_pages"]
    line = f"{kernel:>10,} events  {lost:>6,} lost"
    if shutil.which("babeltrace2"):
        reader = subprocess.Popen(["babeltrace2", recording], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        counted = sum(block.count(b"\n") for block in iter(lambda: reader.stdout.read(1 << 20), b""))
        said = reader.stderr.read().decode()
        assert reader.wait() == 0, said
        # The whole recording, including the stacks.
        assert counted == info["events"], (counted, info["events"])
        # The only allowed warning is that about lost events.
        other = [text for text in said.splitlines() if "WARNING" in text and "discarded" not in text]
        assert not other and (lost > 0 or not said.strip()), said
        discarded = sum(int(count) for count in re.findall(r"discarded (\d+) event", said))
        assert discarded == info["lost"], (discarded, info["lost"], said)
        line += "  babeltrace2 alike"
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longpole", default=str(ROOT / "target/release/longpole"))
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--only", help="one of: " + ", ".join(LOADS))
    options = parser.parse_args()
    if os.geteuid() != 0 or not Path("/sys/kernel/tracing/instances").is_dir():
        print("skipped: recordings of unmodified programs (needs root and tracefs)")
        return 0
    failed = 0
    for name, (load, tools) in LOADS.items():
        if options.only and name != options.only:
            continue
        missing = [tool for tool in tools if not shutil.which(tool)]
        if missing:
            print(f"skipped: a recording of {name} (missing: {', '.join(missing)})")
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "load").mkdir()
            try:
                with load(folder / "load", options.seconds) as command:
                    print(f"{name:24}{check(options.longpole, command, folder)}", flush=True)
            except (AssertionError, subprocess.CalledProcessError) as error:
                print(f"{name}: {error}", flush=True)
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

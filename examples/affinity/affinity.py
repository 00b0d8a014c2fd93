#!/usr/bin/env python3
"""How soon a receiver runs after the packet that wakes it: pinned to a CPU or not, on an idle host
or under stress.

iperf3 sends from one network namespace to another through a pair of virtual interfaces. The script
makes both and removes them at the end. Each run is recorded by
`longpole record --kernel sched,irq,softirq`; `longpole irq` and `longpole cpu` give the columns of
the table. Needs root, iperf3 and stress.
"""

import argparse
import collections
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SENDER, RECEIVER = "198.18.0.1", "198.18.0.2"
PORT = "5201"


def run(*words, **options):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


@contextlib.contextmanager
def namespaces():
    """Two network namespaces, connected by a pair of virtual interfaces."""
    names = [f"affinity-{os.getpid()}-{side}" for side in ("send", "receive")]
    made = []
    try:
        for name in names:
            run("ip", "netns", "add", name)
            made.append(name)
        run("ip", "link", "add", "veth0", "netns", names[0], "type", "veth", "peer", "name", "veth0", "netns", names[1])
        for name, address in zip(names, (SENDER, RECEIVER)):
            run("ip", "-n", name, "address", "add", f"{address}/30", "dev", "veth0")
            run("ip", "-n", name, "link", "set", "veth0", "up")
        yield names
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], check=False)


@contextlib.contextmanager
def child(*words):
    """Runs a command. At the end of the block it is killed together with its own children."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def wait_for_listener(namespace):
    for _ in range(200):
        if f":{PORT}" in run("ip", "netns", "exec", namespace, "ss", "-Hltn"):
            return
        time.sleep(0.02)
    raise SystemExit("iperf3 does not listen")


def measure(longpole, names, pinned, stressed, seconds, cpus, folder):
    """One run: throughput, delays of the receiver, and the CPUs on which it ran."""
    sender, receiver = names
    server = ["ip", "netns", "exec", receiver]
    if pinned:
        server += ["taskset", "-c", str(max(cpus))]
    # ip and taskset execute the command in their own process, so the pid stays the same.
    server += ["iperf3", "-s", "-1", "-p", PORT]
    with contextlib.ExitStack() as stack:
        if stressed:
            stack.enter_context(child("stress", "--cpu", str(len(cpus))))
        process = stack.enter_context(child(*server))
        wait_for_listener(receiver)
        output = run(longpole, "record", "--kernel", "sched,irq,softirq", "-o", folder, "--",
                     "ip", "netns", "exec", sender, "iperf3", "-c", RECEIVER, "-p", PORT, "-t", str(seconds), "--json")
        pid = process.pid
    rate = json.loads(output)["end"]["sum_received"]["bits_per_second"] / 1e9
    recording = str(max(Path(folder).iterdir()))
    woken = [
        (thread["count"], line["name"], thread)
        for line in json.loads(run(longpole, "irq", "--json", recording))
        for thread in line["threads"]
        if thread["pid"] == pid
    ]
    if not woken:
        raise SystemExit("no interrupt woke the receiver: the recording does not show what is measured here")
    _, name, delay = max(woken, key=lambda entry: entry[0])
    threads = [thread for thread in json.loads(run(longpole, "cpu", "--json", recording))["threads"] if thread["pid"] == pid]
    receiving = max(threads, key=lambda thread: thread["running_ns"])
    return {
        "gbit_s": rate,
        "waker": name,
        "count": delay["count"],
        "min_us": delay["min_ns"] / 1e3,
        "p50_us": delay["p50_ns"] / 1e3,
        "p99_us": delay["p99_ns"] / 1e3,
        "irq_cpus": delay["irq_cpus"],
        "used_cpus": receiving["used_cpus"],
        "migrations": receiving["migrations"],
        "running": receiving["running_ns"] / 1e9 / seconds,
        "runnable": (receiving["runnable_ns"] or 0) / 1e9 / seconds,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longpole", default=str(ROOT / "target/release/longpole"))
    parser.add_argument("--runs", type=int, default=3, help="of each kind; the table shows the median")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="every run, for programs")
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("affinity: needs root, for the kernel's events and the network namespaces")
    missing = [tool for tool in ("iperf3", "stress", "taskset", "ip", "ss") if not shutil.which(tool)]
    if missing:
        raise SystemExit(f"affinity: missing: {', '.join(missing)} (on Debian: apt-get install iperf3 stress util-linux iproute2)")
    cpus = sorted(os.sched_getaffinity(0))
    results = {}
    with namespaces() as names, tempfile.TemporaryDirectory() as folder:
        # The kinds alternate in each round, so that other activity of the host affects all kinds
        # alike.
        for number in range(options.runs):
            for stressed in (False, True):
                for pinned in (False, True):
                    place = str(Path(folder) / f"{number}-{stressed}-{pinned}")
                    found = measure(options.longpole, names, pinned, stressed, options.seconds, cpus, place)
                    results.setdefault((stressed, pinned), []).append(found)
                    shutil.rmtree(place)
                    print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if options.json:
        print(json.dumps([{"stressed": s, "pinned": p, **entry} for (s, p), entries in results.items() for entry in entries], indent=1))
        return
    print(f"{'machine':8} {'receiver':10} {'Gbit/s':>7} {'woken by':16} {'times':>8} {'min us':>7} {'p50 us':>7} {'p99 us':>8} "
          f"{'softirq on':10} {'ran on':8} {'migrations':>10} {'running':>8} {'ready':>7}")
    for (stressed, pinned), entries in results.items():
        median = {key: statistics.median(entry[key] for entry in entries) for key in
                  ("gbit_s", "count", "min_us", "p50_us", "p99_us", "migrations", "running", "runnable")}
        wakers = ",".join(waker for waker, _ in collections.Counter(entry["waker"] for entry in entries).most_common())
        every = {key: ",".join(map(str, sorted({cpu for entry in entries for cpu in entry[key]}))) for key in ("irq_cpus", "used_cpus")}
        print(f"{'stress' if stressed else 'idle':8} {f'CPU {max(cpus)}' if pinned else 'any CPU':10} {median['gbit_s']:7.2f} {wakers:16} "
              f"{median['count']:8.0f} {median['min_us']:7.2f} {median['p50_us']:7.2f} {median['p99_us']:8.1f} "
              f"{every['irq_cpus']:10} {every['used_cpus']:8} {median['migrations']:10.0f} {median['running']:8.1%} {median['runnable']:7.1%}")


if __name__ == "__main__":
    main()

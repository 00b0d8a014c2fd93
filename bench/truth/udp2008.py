#!/usr/bin/env python3
"""The UDP experiment of 2008 (Saidi et al., ISPASS) on a current kernel. iperf3 sends UDP as fast
as it can from one network namespace to another, with small and with large datagrams, without a
packet filter, with an empty one, and with one of 1,000 rules.

    bench/truth/udp2008.py [--seconds S] [--longpole PROGRAM] [--rows N]

Prints for each run the throughput and the functions on the critical path, from sampled stacks:
State | Criticality | Profiler rank. Needs root, tracefs, iperf3, ip and nft.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import systems  # noqa: E402
from real import TARGET, missing  # noqa: E402

FILTERS = {"off": None, "empty": 0, "1,000 rules": 1000}
PAYLOADS = [1480, 16384]


def rules(count):
    return "add table ip t\nadd chain ip t in { type filter hook input priority 0 ; }\n" + "".join(f"add rule ip t in udp dport {20000 + at} drop\n" for at in range(count))


def measured(options, folder, payload, count):
    """Returns the throughput in Mbit/s and the rows of `path --functions`."""
    environment = dict(os.environ, LONGPOLE_RUNTIME_DIR=str(folder / "run"))
    with systems.Place(None, folder / f"{payload}-{count}", 0, options.seconds, False, None, environment) as place:
        left, right = place.namespaces("a", "b")
        place.cable(left, right, 1)
        if count is not None:
            table = place.folder / "rules.nft"
            table.write_text(rules(count))
            systems.sh(*systems.inside(right, "nft", "-f", table))
        server = place.start(*systems.inside(right, "iperf3", "-s", "-1"))
        while "5201" not in systems.sh(*systems.inside(right, "ss", "-Hltn")):
            if server.poll() is not None:
                raise SystemExit("iperf3 does not listen")
        client = systems.inside(left, "iperf3", "-c", "10.78.1.2", "-u", "-b", "0", "-l", str(payload), "-t", str(options.seconds), "-J")
        traces = place.folder / "traces"
        done = subprocess.run([options.longpole, "record", "--stacks", "999", "-o", traces, "--", *client], capture_output=True, text=True, timeout=120, env=environment)
        if done.returncode:
            raise SystemExit(f"record: {done.stderr.strip()}")
        recording = max(path for path in traces.iterdir() if path.is_dir())
        told = json.loads(systems.sh(options.longpole, "path", "--functions", "--json", recording))
        received = json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e6
        return received, told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=5, help="functions of each run")
    parser.add_argument("--longpole", default=str(TARGET / "longpole"))
    options = parser.parse_args()
    if lacking := missing():
        print(f"skipped: the UDP experiment needs {lacking}")
        return
    with systems.alone(), tempfile.TemporaryDirectory(prefix="longpole-udp-", dir="/var/tmp") as scratch:
        folder = pathlib.Path(scratch)
        (folder / "run").mkdir(mode=0o700)
        print("| payload | filter | Mbit/s | state | criticality | profiler rank |\n|---|---|---|---|---|---|")
        for payload in PAYLOADS:
            for name, count in FILTERS.items():
                rate, told = measured(options, folder, payload, count)
                head = f"| {payload:,} | {name} | {rate:,.0f} |"
                for row in told["functions"][: options.rows]:
                    share = f"{100 * row['share']:.1f} % ({100 * row['low']:.1f} to {100 * row['high']:.1f})"
                    print(f"{head} {row['process']}::{row['function']} | {share} | {row['profile_rank']} |", flush=True)
                    head = "| | | |"


if __name__ == "__main__":
    main()

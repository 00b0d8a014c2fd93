#!/usr/bin/env python3
"""Compares the answer of `packets` with iperf3's own counts, on iperf3's UDP at 200 Mbit/s between
two network namespaces: without losses, with a receive buffer that is too small, and through a token
bucket.

The exit status is 1 if less than 99 % of the datagrams have a complete packet path, if less than 99
% of the lost ones have the right place, or if the report does not begin with the losses. Needs
root, tracefs, iperf3, ip and tc; prints what is missing.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "release"
LEAST = 0.99
failures = []


def missing():
    if os.geteuid() != 0:
        return "root"
    if not Path("/sys/kernel/tracing/instances").is_dir():
        return "tracefs"
    return next((tool for tool in ["iperf3", "ip", "tc"] if shutil.which(tool) is None), None)


def verdict(holds, text):
    print(f"  {'ok   ' if holds else 'WRONG'}  {text}")
    if not holds:
        failures.append(text)


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


class Net:
    """Two network namespaces with a pair of devices; removed at the end."""

    def __enter__(self):
        own = os.getpid()
        self.names, self.devices = [f"lpj{own}a", f"lpj{own}b"], [f"ja{own}", f"jb{own}"]
        try:
            for name in self.names:
                run("ip", "netns", "add", name)
            left, right = zip(self.names, self.devices)
            run("ip", "link", "add", left[1], "netns", left[0], "type", "veth", "peer", "name", right[1], "netns", right[0])
            hardware = ["02:00:00:00:77:01", "02:00:00:00:77:02"]
            for at, (name, device) in enumerate([left, right]):
                run("ip", "-n", name, "addr", "add", f"10.77.0.{at + 1}/24", "dev", device)
                run("ip", "-n", name, "link", "set", device, "address", hardware[at], "up")
                # With a permanent neighbour entry no address resolution is needed. A datagram that
                # waited for it would be sent by the kernel and not by its sender.
                run("ip", "-n", name, "neigh", "replace", f"10.77.0.{2 - at}", "lladdr", hardware[1 - at], "dev", device, "nud", "permanent")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def measured(folder, net, seconds, client=()):
    """Records one run. Returns iperf3's own counts, the answer of `packets`, and the first line of
    the report.
    """
    environment = dict(os.environ, LONGPOLE_RUNTIME_DIR=str(folder / "run"), LONGPOLE_ROOT=str(folder / "traces"))
    longpole = TARGET / "longpole"
    server = subprocess.Popen(["ip", "netns", "exec", net.names[1], "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.3)
        recording = folder / f"recording-{time.time_ns()}"
        iperf = ["ip", "netns", "exec", net.names[0], "iperf3", "-c", "10.77.0.2", "-u", "-b", "200M", "-t", str(seconds), "-J", *client]
        options = ["--kernel", "sched,irq,softirq,net,syscall", "--stacks", "none", "-o", str(recording)]
        out = subprocess.run([longpole, "record", *options, "--", *iperf], env=environment, capture_output=True, text=True)
        assert out.returncode == 0, out.stderr + out.stdout
        server.wait(10)
    finally:
        server.kill()
    sums = json.loads(out.stdout)["end"]["sum"]
    answer = json.loads(subprocess.run([longpole, "packets", "--json", recording], env=environment, check=True, capture_output=True).stdout)
    report = subprocess.run([longpole, "report", recording], env=environment, capture_output=True, text=True).stdout
    return sums["packets"], sums["lost_packets"], answer, (report.splitlines() or [""])[0]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=int, default=3)
    options = arguments.parse_args()
    lacks = missing()
    if lacks:
        print(f"skipped: journeys and losses next to iperf3 (needs {lacks})")
        return 0
    with tempfile.TemporaryDirectory() as temporary, Net() as net:
        folder = Path(temporary)
        (folder / "run").mkdir(mode=0o700)
        variants = [
            ("all of it", None, (), None),
            ("a small receive buffer", None, ("-w", "16K"), "socket_buffer"),
            ("a token bucket", ["tbf", "rate", "100mbit", "burst", "32kb", "limit", "64kb"], (), "qdisc"),
        ]
        for name, discipline, client, place in variants:
            print(f"{name}:")
            at = ["ip", "netns", "exec", net.names[0], "tc", "qdisc"]
            if discipline:
                run(*at, "add", "dev", net.devices[0], "root", *discipline)
            sent, lost, answer, first = measured(folder, net, options.seconds, client)
            if discipline:
                run(*at, "del", "dev", net.devices[0], "root")
            flows = [flow for flow in answer["journeys"]["flows"] if flow["from"] and flow["from"]["name"].startswith("iperf3")]
            datagrams = [flow for flow in flows if flow["protocol"] == "UDP" or flow["device"] == net.devices[0]]
            complete = sum(flow["complete"] for flow in datagrams)
            verdict(complete >= LEAST * sent, f"{complete} of {sent} datagrams have a complete journey")
            if place is None:
                continue
            named = sum(row["datagrams"] for row in answer["losses"] if row["lost"] and row["place"] == place)
            # iperf3 does not count datagrams that are lost after the last one that arrived.
            verdict(lost > 0 and LEAST * lost <= named <= lost + (1 - LEAST) * sent, f"{named} lost at {place}; iperf3 missed {lost}")
            words = {"socket_buffer": "packets lost: socket buffer full", "qdisc": "packets lost: qdisc"}[place]
            verdict(words in first, f"the report begins: {first}")
    print("all figures agree" if not failures else f"{len(failures)} figures are wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

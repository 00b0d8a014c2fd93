#!/usr/bin/env bash
# One short run of each kind. Pinned receivers must stay on their CPU, and each kind must have
# delays. The numbers themselves need a quiet host.
set -euo pipefail
cd "$(dirname "$0")"
export PYTHONDONTWRITEBYTECODE=1
for tool in iperf3 stress; do
	if ! command -v "$tool" >/dev/null || [ "$(id -u)" -ne 0 ] || [ ! -d /sys/kernel/tracing/instances ]; then
		echo "skipped: the affinity example (needs root, tracefs, iperf3 and stress)"
		exit 0
	fi
done
python3 affinity.py --runs 1 --seconds 1 --json | python3 -c '
import json, os, sys
rows = json.load(sys.stdin)
last = max(os.sched_getaffinity(0))
assert len(rows) == 4, rows
for row in rows:
    assert row["count"] > 0 and 0 < row["min_us"] <= row["p50_us"] <= row["p99_us"], row
    assert row["gbit_s"] > 0 and row["running"] > 0, row
    if row["pinned"]:
        assert row["used_cpus"] == [last] and row["migrations"] == 0, row
print("pinned: on CPU", last, "alone; four kinds with delays")
'

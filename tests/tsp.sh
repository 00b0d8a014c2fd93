#!/usr/bin/env bash
# Asks `longpole serve` with the client of VS Code and Theia: everything that the client offers, and
# the sequence of the VS Code viewer, on a recording of probes, on one of the kernel, and on a trace
# of LTTng.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	echo "skipped: the trace server with the client of VS Code (Node is not here)"
	exit 0
fi
target=${CARGO_TARGET_DIR:-target}/release
[ -x "$target/longpole" ] || cargo build --release -p longpole
longpole=$(realpath "$target/longpole")

place=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$place"' EXIT
export LONGPOLE_RUNTIME_DIR=$place/runtime

# The versions in the lock file; nothing of the packages is executed while they are installed.
mkdir "$place/client" "$place/traces"
cp tests/tsp/package.json tests/tsp/package-lock.json tests/tsp/client.js "$place/client"
(cd "$place/client" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)

cc -O2 -std=gnu11 -Iinclude -pthread -o "$place/handover" tests/programs/handover.c
echo "no trace" >"$place/traces/text"
"$longpole" serve --root "$place/traces" >"$place/address" &
server=$!
for _ in $(seq 100); do
	[ -s "$place/address" ] && break
	sleep 0.1
done
address=$(head -n 1 "$place/address")

# Wrong usage, and a root that does not exist.
status=0
"$longpole" serve 2>/dev/null || status=$?
[ "$status" -eq 2 ] || { echo "serve without --root ended with $status" >&2; exit 1; }
! "$longpole" serve --root "$place/missing" 2>"$place/said" || exit 1
grep -q 'roots cannot be used' "$place/said" || { cat "$place/said" >&2; exit 1; }

# Records a command, and asks the server about the recording.
ask() {
	local kind=$1 recording
	shift
	"$longpole" record -o "$place/$kind" "$@" >"$place/said" 2>&1 || { cat "$place/said" >&2; exit 1; }
	recording=("$place/$kind"/*/)
	mv "${recording[0]%/}" "$place/traces/$kind"
	(cd "$place/client" && node client.js "$address" "$place/traces/$kind" "$kind")
}

ask probe --kernel none -- "$place/handover"
if [ "$(id -u)" -eq 0 ] && [ -d /sys/kernel/tracing/instances ]; then
	# Without probes: a feeder and a worker with two pipes between them.
	ask kernel --kernel sched,irq,softirq,syscall -- "$place/handover" pipes
else
	echo "skipped: the trace server on a recording of the kernel (this needs root and tracefs)"
fi

lttng=${LONGPOLE_CORPORA:-}/tracecompass-test-traces/flipping-endianness
if [ -d "$lttng" ]; then
	cp -r "$lttng" "$place/traces/lttng"
	(cd "$place/client" && node client.js "$address" "$place/traces/lttng" kernel)
else
	echo "not at hand: traces of other tools (LONGPOLE_CORPORA): the trace server on a trace of LTTng"
fi

# The script of the documentation prints the ten longest segments.
awk '/^```python$/ { inside = 1; next } /^```$/ { inside = 0 } inside' docs/reference/trace-server.md >"$place/longest.py"
python3 "$place/longest.py" "$address" "$place/traces/probe" >"$place/longest"
[ "$(grep -cE '^[0-9]{19} [0-9]+ ' "$place/longest")" -eq 10 ] || { cat "$place/longest" >&2; exit 1; }
kill -0 "$server"

#!/usr/bin/env bash
# Uses the page of `longpole view` in Chromium, and files of `longpole report --html`: on recordings
# of probes that it makes itself, also while they grow, on the first one of the demo, and on
# extreme traces.
# SCREENSHOTS names a folder for pictures of the page.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	echo "skipped: the viewer in a browser (Node is not here)"
	exit 0
fi
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$chromium" ]; then
	echo "skipped: the viewer in a browser (chromium is not installed)"
	exit 0
fi
target=${CARGO_TARGET_DIR:-target}/release
[ -x "$target/longpole" ] || cargo build --release -p longpole
longpole=$(realpath "$target/longpole")

screenshots=${SCREENSHOTS:+$(realpath "$SCREENSHOTS")}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export LONGPOLE_RUNTIME_DIR=$place/runtime
mkdir "$place/test"
cp tests/viewer/package.json tests/viewer/package-lock.json tests/viewer/*.js "$place/test"
(cd "$place/test" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)

# Stack samples need root; without them, their case is skipped.
stacks=()
[ "$(id -u)" = 0 ] && stacks=(--stacks 1999)

# Records the program with a worker that needs this many units per item, and prints the recording.
record() {
	mkdir "$place/$1"
	cc -O2 -std=gnu11 -DWORKER_UNITS="$1" -Iinclude -pthread -o "$place/$1/handover" tests/programs/handover.c
	"$longpole" record --kernel none "${stacks[@]}" -o "$place/$1/recordings" -- "$place/$1/handover" >"$place/said" 2>&1 || { cat "$place/said" >&2; exit 1; }
	echo "$place/$1/recordings"/*
}

slow=$(record 3)
fast=$(record 1)
"$longpole" demo -o "$place/demo" >"$place/said" 2>&1 || { cat "$place/said" >&2; exit 1; }
demo=("$place/demo"/*/)
# The paths of packets need the kernel's events, and so root.
datagrams=
if [ "$(id -u)" = 0 ]; then
	"$longpole" record --kernel sched,irq,softirq,net,syscall --packets lo -o "$place/datagrams" -- python3 tests/programs/datagrams.py >"$place/said" 2>&1 || { cat "$place/said" >&2; exit 1; }
	datagrams=$(echo "$place"/datagrams/*)
fi
# Stacks of waits need root, too.
waits=
if [ "$(id -u)" = 0 ]; then
	cc -O2 -g -std=gnu11 -pthread -fno-optimize-sibling-calls -o "$place/places" tests/programs/places.c
	"$longpole" record --kernel sched,irq,softirq,timer,syscall --stacks-waiting 999 -o "$place/waits" -- "$place/places" lock 2 >"$place/said" 2>&1 || { cat "$place/said" >&2; exit 1; }
	waits=$(echo "$place"/waits/*)
fi
mkdir "$place/html" "$place/live" "$place/packets"
cc -O2 -std=gnu11 -Iinclude -pthread -o "$place/until_closed" tests/programs/until_closed.c
cd "$place/test"
node viewer.js "$longpole" "$chromium" "$slow" ${screenshots:+"$screenshots"}
if [ -n "$waits" ]; then
	node waits.js "$longpole" "$chromium" "$waits" ${screenshots:+"$screenshots"}
else
	echo "skipped: stacks of waits in the viewer (not root)"
fi
node comparison.js "$longpole" "$chromium" "$slow" "$fast" ${screenshots:+"$screenshots"}
node packets.js "$longpole" "$chromium" "$place/packets" "$datagrams" ${screenshots:+"$screenshots"}
node live.js "$longpole" "$chromium" "$place/until_closed" "$place/live" ${screenshots:+"$screenshots"}
node extreme_traces.js "$longpole" "$chromium" "$slow" "$place/extreme" ${screenshots:+"$screenshots"}
node html_report.js "$longpole" "$chromium" "${demo[0]%/}" "$slow" "$place/html" ${screenshots:+"$screenshots"}

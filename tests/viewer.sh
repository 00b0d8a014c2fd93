#!/usr/bin/env bash
# Uses the page of `longpole view` in Chromium: on a recording of probes that it makes itself.
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

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export LONGPOLE_RUNTIME_DIR=$place/runtime
mkdir "$place/test"
cp tests/viewer/package.json tests/viewer/package-lock.json tests/viewer/viewer.js "$place/test"
(cd "$place/test" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)

cc -O2 -std=gnu11 -Iinclude -pthread -o "$place/handover" tests/programs/handover.c
# Stack samples need root, or a lower kernel.perf_event_paranoid; without them, their case is skipped.
stacks=()
[ "$(id -u)" = 0 ] && stacks=(--stacks 1999)
"$longpole" record --kernel none "${stacks[@]}" -o "$place/recordings" -- "$place/handover" >"$place/said" 2>&1 || { cat "$place/said" >&2; exit 1; }
recording=("$place/recordings"/*/)
(cd "$place/test" && node viewer.js "$longpole" "$chromium" "${recording[0]%/}" ${SCREENSHOTS:+"$(realpath "$SCREENSHOTS")"})

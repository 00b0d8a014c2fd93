#!/usr/bin/env bash
# Uses the screen of `longpole top` under tmux, at 80×24 and 200×60, next to a program that computes
# without pause; then checks that it restores the terminal, leaves nothing behind, and costs a
# recording in progress no event.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v tmux >/dev/null; then
	echo "skipped: the screen of top (tmux is not installed)"
	exit 0
fi
target=${LONGPOLE_TARGET:-${CARGO_TARGET_DIR:-target}/release}
[ -x "$target/longpole" ] || cargo build --release -p longpole
longpole=$(realpath "$target/longpole")

place=$(mktemp -d)
export LONGPOLE_RUNTIME_DIR=$place/runtime
mkdir -m 700 "$LONGPOLE_RUNTIME_DIR"
# Each terminal has a server of its own: one that ends may refuse the next session.
terminals=0
tmux="tmux -S $place/tmux-0 -f /dev/null"
started=()
end() {
	$tmux kill-server 2>/dev/null || true
	end_live
	rm -rf "$place"
}
trap end EXIT

end_live() {
	[ ${#started[@]} -eq 0 ] || kill -9 "${started[@]}" 2>/dev/null || true
	wait "${started[@]}" 2>/dev/null || true
	started=()
}

fail() {
	echo "FAILED: $*" >&2
	$tmux capture-pane -p -t top >&2 2>/dev/null || true
	exit 1
}

start_live() {
	"$place/live" "$@" &
	started+=($!)
}

screen() {
	$tmux capture-pane -p -t top
}

# Waits until the screen contains a text; reading a period takes longer on a busy host.
shows() {
	for _ in $(seq 600); do
		if screen | grep -qE -- "$1"; then
			return
		fi
		sleep 0.1
	done
	fail "the screen never shows: $1"
}

hides() {
	for _ in $(seq 600); do
		if ! screen | grep -qE -- "$1"; then
			return
		fi
		sleep 0.1
	done
	fail "the screen always shows: $1"
}

keys() {
	$tmux send-keys -t top "$@"
}

# Opens a terminal of this size and runs top in it, below a line that must still be there afterwards.
open_top() {
	local columns=$1 rows=$2
	shift 2
	$tmux kill-server 2>/dev/null || true
	terminals=$((terminals + 1))
	tmux="tmux -S $place/tmux-$terminals -f /dev/null"
	$tmux new-session -d -s top -x "$columns" -y "$rows" "env PS1='$ ' bash --norc"
	keys "stty -a > $place/stty-before; echo before; $longpole top $*; echo ended with \$?; stty -a > $place/stty-after" Enter
	shows 'longpole top .*(sort running|needs 80 columns)'
}

# The terminal is as it was, and the line from before is there again.
is_restored() {
	shows "ended with $1"
	screen | grep -q '^before' || fail "the screen from before is gone"
	for _ in $(seq 50); do
		[ -s "$place/stty-after" ] && break
		sleep 0.1
	done
	diff "$place/stty-before" "$place/stty-after" || fail "the terminal has other settings"
	rm "$place/stty-after"
}

# The process of top in the terminal, and its folder in memory.
pid_of_top() {
	pgrep -P "$($tmux list-panes -t top -F '#{pane_pid}')" | head -n 1
}

folder_of() {
	find "/proc/$1/fd" -lname '*/longpole-scratch-*' -printf '%l\n' 2>/dev/null | sed -nE 's|(.*/longpole-scratch-[^/]*).*|\1|p' | head -n 1
}

cc -O2 -std=gnu11 -Iinclude -pthread -o "$place/live" tests/programs/live.c

# Root sees all threads; other users, and hosts without a tracer, those with probes.
kernel=(--kernel sched,irq,softirq,syscall)
if [ "$(id -u)" -ne 0 ] || [ ! -d /sys/kernel/tracing/instances ]; then
	echo "skipped: top with the kernel's events (needs root and tracefs)"
	kernel=()
fi

start_live
for size in "80 24" "200 60"; do
	read -r columns rows <<<"$size"
	open_top "$columns" "$rows" --kernel none --period 500ms
	shows 'QUEUE .*level'
	shows 'parcels '
	shows 'grind \(span of live/worker\)'
	shows 'live/worker +[0-9]+'
	shows 'CPUs, other programs, calls'
	keys '?'
	shows 'KEYS'
	keys x
	hides 'KEYS'
	keys s
	shows 'sort runnable'
	keys n
	shows 'sort name'
	keys '/worker' Enter
	shows 'filter worker'
	shows 'THREAD \(1\)|THREAD↓ \(1\)|THREAD \(1\)↓'
	keys Escape
	hides 'filter worker'
	keys Space
	shows 'PAUSED'
	before=$(screen | sed -n '1s/.*period \([0-9,]*\),.*/\1/p')
	sleep 2
	[ "$(screen | sed -n '1s/.*period \([0-9,]*\),.*/\1/p')" = "$before" ] || fail "it is paused and shows another period"
	keys Space
	hides 'PAUSED'
	keys q
	is_restored 0
done

open_top 60 20 --kernel none
shows 'this terminal'
keys q
is_restored 0

# A signal ends it, and it leaves nothing behind.
open_top 80 24 --kernel none --period 500ms
shows 'parcels '
top=$(pid_of_top)
folder=$(folder_of "$top")
[ -d "$folder" ] || fail "top $top has no folder: $folder"
kill -TERM "$top"
is_restored 0
[ ! -e "$folder" ] || fail "$folder was left"

# It ends when its terminal is closed.
open_top 80 24 --kernel none --period 500ms
shows 'parcels '
top=$(pid_of_top)
$tmux kill-server
for _ in $(seq 300); do
	[ -e "/proc/$top" ] || break
	sleep 0.1
done
[ ! -e "/proc/$top" ] || fail "top does not end without a terminal"

# What a killed one leaves, the next one removes.
open_top 80 24 --kernel none --period 500ms
shows 'parcels '
top=$(pid_of_top)
folder=$(folder_of "$top")
kill -KILL "$top"
shows 'ended with 137'
[ -d "$folder" ] || fail "the test does not find the folder of a killed top"
"$longpole" top --batch --kernel none --period 300ms --count 1 >/dev/null
[ ! -e "$folder" ] || fail "$folder was left"

# As text and JSON, without a terminal.
"$longpole" top --batch --kernel none --period 1s --count 2 </dev/null >"$place/text" 2>"$place/said"
[ "$(grep -c '^PERIOD ' "$place/text")" -eq 2 ] || { cat "$place/text" "$place/said"; fail "not two periods"; }
grep -q 'live/worker' "$place/text" && grep -q 'parcels' "$place/text" || { cat "$place/text"; fail "the program is not in the text"; }
"$longpole" top --json --kernel none --period 1s --count 1 </dev/null >"$place/json" 2>"$place/said"
python3 - "$place/json" <<'PYTHON' || fail "the JSON is wrong"
import json, sys
(line,) = open(sys.argv[1])
period = json.loads(line)
assert period["cpus"] is None and period["events"]["kernel"] == 0, period
assert any(thread["name"] == "live/worker" for thread in period["threads"]), period["threads"]
assert [queue["name"] for queue in period["queues"]] == ["parcels"], period["queues"]
PYTHON
"$longpole" top </dev/null >/dev/null 2>"$place/said" && fail "it draws without a terminal"
grep -q -- '--batch' "$place/said" || fail "it does not name --batch"

# With the kernel's events, the thread that computes without pause is the first of one CPU.
if [ ${#kernel[@]} -gt 0 ]; then
	end_live
	# On a host with one CPU, nothing else would run.
	[ "$(nproc)" -eq 1 ] && start_live 0 || start_live 0 first
	"$longpole" top --batch "${kernel[@]}" --period 2s --count 1 </dev/null >"$place/text" 2>"$place/said"
	grep -E '^ +[0-9]+ +[0-9.]+ %.* live/busy_one +[0-9]+$' "$place/text" >/dev/null || { cat "$place/text" "$place/said"; fail "busy_one is the first of no CPU"; }
	for size in "80 24" "200 60"; do
		read -r columns rows <<<"$size"
		# Other programs may keep the CPUs as busy.
		open_top "$columns" "$rows" "${kernel[@]}" --period 2s --filter live
		shows 'CPU +busy%'
		shows 'THREAD'
		first=$(screen | grep -A 1 'THREAD (' | tail -n 1)
		[[ $first == live/busy_one* ]] || fail "the first thread is: $first"
		keys q
		is_restored 0
	done
fi

# A recording in progress loses no event to top, and top shows its probes.
end_live
lost() {
	"$longpole" record --kernel none --buffer 4MiB -o "$place/recordings-$1" >/dev/null 2>"$place/said-$1" &
	local recorder=$!
	for _ in $(seq 300); do
		grep -q 'writing to' "$place/said-$1" && break
		sleep 0.1
	done
	if [ "$1" = without ]; then
		sleep 5
	else
		"$longpole" top --json "${kernel[@]}" --period 1s --count 3 </dev/null >"$place/json" 2>"$place/said"
		grep -q 'recording in progress' "$place/said" || { cat "$place/said"; fail "it does not name the recording in progress"; }
		grep -q '"name":"parcels"' "$place/json" || { cut -c 1-2000 "$place/json"; cat "$place/said"; fail "no period has the probes of the recording in progress"; }
	fi
	kill -INT "$recorder"
	wait "$recorder"
	"$longpole" info --json "$place/recordings-$1"/*/ | python3 -c 'import json, sys; print(json.load(sys.stdin)["lost"])'
}
start_live 20
without=$(lost without)
with=$(lost with)
[ "$with" -le "$without" ] || fail "$with events are lost with top, $without without it"
echo "top: the screen, its keys, text and JSON; $with events lost with it, $without without"

#!/usr/bin/env bash
# Compares `print` with babeltrace2, event by event and value by value, on the golden cases of
# crates/ctf and, if LONGPOLE_CORPORA is set, on traces of other tools.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
if ! /usr/bin/python3 -c 'import bt2' 2>/dev/null; then
	echo "skipped: comparison of every value with babeltrace2 (python3-bt2 is not installed)"
	exit 0
fi
target=${CARGO_TARGET_DIR:-target}/release
[ -x "$target/longpole" ] || cargo build --release -p longpole
compare=(tests/babeltrace2/compare.py --longpole "$target/longpole")
"${compare[@]}" --golden crates/ctf/tests/golden
if [ -n "${LONGPOLE_CORPORA:-}" ]; then
	"${compare[@]}" --rewritten --expected "$LONGPOLE_CORPORA/expected.tsv" "$LONGPOLE_CORPORA"/genode/{ctf,nm,tree}
else
	echo "not at hand: traces of other tools (LONGPOLE_CORPORA): comparison of every value with babeltrace2"
fi
if command -v lttng-sessiond >/dev/null && pkg-config --exists lttng-ust; then
	tests/babeltrace2/lttng.py --longpole "$target/longpole"
else
	echo "skipped: recordings of LTTng-UST next to babeltrace2 (lttng-tools and liblttng-ust-dev are not installed)"
fi

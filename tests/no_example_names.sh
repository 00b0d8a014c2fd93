#!/usr/bin/env bash
# No name that the examples' probes write occurs in the program or in a rule file: whatever a report says, it was not told.
set -euo pipefail
cd "$(dirname "$0")/.."
names=$(grep -rhoE '^#define [A-Z_0-9]+ "[^"]+"' examples/*/names.h | sed -E 's/^[^"]*"([^"]+)"$/\1/' | sort -u)
[ -n "$names" ]
found=0
while IFS= read -r name; do
	if grep -rnF --include='*.rs' --include='*.toml' --include='*.c' "\"$name\"" crates/*/src crates/*/rules 2>/dev/null; then
		echo "a name of an example: $name"
		found=1
	fi
done <<<"$names"
exit "$found"

#!/usr/bin/env bash
# Checks that no name of the examples' probes occurs in the program, its tests or a rule file, so
# that a report on an example cannot contain built-in knowledge. A few names are ordinary words of
# any program; only as quoted texts must they not occur.
set -euo pipefail
cd "$(dirname "$0")/.."
ordinary=" checksum consume copy forward generate lookup source.start "
names=$(grep -rhoE '^#define [A-Z_0-9]+ "[^"]+"' examples/*/names.h | sed -E 's/^[^"]*"([^"]+)"$/\1/' | sort -u)
[ -n "$names" ]
files=(--include='*.rs' --include='*.toml' --include='*.c' --include='*.h' --include='*.cc')
found=0
while IFS= read -r name; do
	if [[ "$ordinary" == *" $name "* ]]; then
		hits=$(grep -rnF "${files[@]}" -e "\"$name\"" -e "::$name\"" crates/*/src crates/*/rules || true)
	else
		hits=$(grep -rnwF "${files[@]}" -e "$name" crates || true)
	fi
	if [ -n "$hits" ]; then
		echo "a name of an example: $name"
		echo "$hits"
		found=1
	fi
done <<<"$names"
exit "$found"

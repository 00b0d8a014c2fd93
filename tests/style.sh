#!/usr/bin/env bash
# Runs scripts/style in a small repository that violates each of its rules, and checks that each
# violation is found at its line and nothing else is. A split word is no violation in
# this file.
set -euo pipefail
cd "$(dirname "$0")/.."
style=$PWD/scripts/style

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
git init -q .
mkdir -p crates/small/src/first include
{
	echo "mod first;"
	echo "mod second;"
	echo "pub use second::Second;"
} >crates/small/src/lib.rs
{
	printf '// %0120d\n' 0
	printf '// https://example.org/%0120d\n' 0
	echo "use crate::{first::inner::Inner as Other, Third};"
	echo "fn its_d""eed() {}"
} >crates/small/src/second.rs
{
	echo "// crate::second is only mentioned here: \"crate::second\""
	echo "use super::super::Second;"
	echo "pub struct Inner;"
	echo "#[cfg(test)]"
	echo "mod tests {"
	echo "}"
} >crates/small/src/first/inner.rs
echo "pub mod inner;" >crates/small/src/first.rs
{
	echo "/* A comment of C"
	printf ' * %0120d */\n' 0
	printf 'int value_%0120d;\n' 0
	echo "/* Nothing stands out, and * stands for any text. */"
} >include/small.h
mkdir -p crates/small/tests/suite
echo "mod named;" >crates/small/tests/suite/main.rs
echo "mod inner;" >crates/small/tests/suite/named.rs
mkdir crates/small/tests/suite/named crates/small/tests/suite/unnamed crates/small/src/full crates/small/src/large
touch crates/small/tests/suite/left_out.rs crates/small/tests/suite/named/{inner,left_out}.rs
touch crates/small/tests/suite/unnamed/inner.rs
touch crates/small/src/full/{1..20}.rs crates/small/src/large/{1..21}.rs
git add .

expected='crates/small/src/first/inner.rs:2: crate small: `first` imports `second`
crates/small/src/large: 21 files of Rust
crates/small/src/second.rs:1: 123 columns
crates/small/src/second.rs:3: crate small: `second` imports `first`
crates/small/src/second.rs:4: `d''eed`
crates/small/tests/suite/left_out.rs:1: no module of crates/small/tests/suite/main.rs, so its tests do not run
crates/small/tests/suite/named/left_out.rs:1: no module of crates/small/tests/suite/named.rs, so its tests do not run
crates/small/tests/suite/unnamed/inner.rs:1: no module of crates/small/tests/suite/unnamed.rs, so its tests do not run
include/small.h:2: 126 columns'
status=0
found=$("$style" 2>&1) || status=$?
# The lists of known violations name files that this repository does not have.
found=$(grep -v '^scripts/style: ' <<<"$found" | sed -E 's/(`|columns|files of Rust)[,;] .*/\1/' | sort)
if [ "$status" -ne 1 ] || [ "$found" != "$expected" ]; then
	printf 'scripts/style ended with %s and reported:\n%s\ninstead of:\n%s\n' "$status" "$found" "$expected" >&2
	exit 1
fi

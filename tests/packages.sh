#!/usr/bin/env bash
# Checks that each format crate can be published alone: cargo packages it, it has what a registry
# shows, its README is its documentation with an example that is tested, and it depends on no other
# crate of this repository.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
	echo "$*" >&2
	exit 1
}

cargo metadata --format-version 1 --no-deps --offline >"$folder/metadata"
for crate in ctf pcapng ftrace machine_log; do
	name=longpole-${crate/_/-}
	python3 - "$name" "$folder/metadata" <<'PROGRAM' || fail "crates/$crate/Cargo.toml is not complete"
import json, sys

name, path = sys.argv[1:]
package = next(package for package in json.load(open(path))["packages"] if package["name"] == name)
for key in ("description", "license", "repository", "readme", "keywords", "categories", "rust_version"):
    if not package[key]:
        sys.exit(f"{name} has no `{key}`; add it to its Cargo.toml")
if len(package["keywords"]) > 5 or len(package["categories"]) > 5:
    sys.exit(f"{name} has more than 5 keywords or categories, which crates.io refuses")
product = [dependency["name"] for dependency in package["dependencies"] if dependency["name"].startswith("longpole") and dependency["kind"] != "dev"]
if product:
    sys.exit(f"{name} depends on {', '.join(product)}; a format crate depends on no crate of the product")
PROGRAM
	root=crates/$crate/src/lib.rs
	grep -qxF '#![doc = include_str!("../README.md")]' "$root" || fail "$root does not include README.md, so its example is not tested"
	grep -qxF '#![warn(missing_docs)]' "$root" || fail "$root does not warn of public items without a comment"
	grep -qE '^```(rust|no_run|rust,no_run)?$' "crates/$crate/README.md" || fail "crates/$crate/README.md has no example"
	! grep -nE '\]\(\.\./' "crates/$crate/README.md" || fail "crates/$crate/README.md links to a file that its package does not have"
	CARGO_TARGET_DIR=$folder/target cargo package --quiet --allow-dirty --no-verify --offline -p "$name" 2>"$folder/said" ||
		fail "cargo package -p $name: $(cat "$folder/said")"
	[ ! -s "$folder/said" ] || fail "cargo package -p $name warns: $(cat "$folder/said")"
	listed=$(tar -tzf "$folder/target/package/$name"-*.crate)
	for file in README.md LICENSE-MIT LICENSE-APACHE src/lib.rs; do
		grep -q "/$file\$" <<<"$listed" || fail "the package of $name has no $file"
	done
done

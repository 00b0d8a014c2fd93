#!/usr/bin/env bash
# Part of `make test`. The routing must be right in every mode, also with random names, and each
# fault must be named, by its random name.
set -euo pipefail
cd "$(dirname "$0")"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export PYTHONDONTWRITEBYTECODE=1
python3 test_routing.py
python3 scramble.py --seed 1 -o "$out"
"$out/packet_pipeline" --packets=1000 --start-order=1 --slow
"$out/packet_pipeline" --packets=1000 --start-order=2 --direct
python3 verdicts.py --runs 4 --any --seed 1
python3 functions.py

#!/usr/bin/env bash
# The simulated part of the truth suite: `path` against the oracle on the simulator's logs, and the bottleneck that was put in is the one that is named.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
target=${CARGO_TARGET_DIR:-target}/release
[ -x "$target/longpole" ] && [ -x "$target/longpole-sim" ] || cargo build --release -p longpole -p longpole-sim
bench/truth/oracle.py
bench/truth/run.py --seed "${SEED:-1}"
bench/truth/run.py --seed "${SEED:-1}" --ctf

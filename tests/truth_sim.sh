#!/usr/bin/env bash
# The simulated part of the truth suite: compares `path` with the oracle on logs of the simulator,
# and checks that the verdict is the bottleneck that the simulated system has.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
target=${CARGO_TARGET_DIR:-target}/release
[ -x "$target/longpole" ] && [ -x "$target/longpole-sim" ] || cargo build --release -p longpole -p longpole-sim
bench/truth/oracle.py
bench/truth/run.py --seed "${SEED:-1}"
bench/truth/run.py --seed "${SEED:-1}" --ctf

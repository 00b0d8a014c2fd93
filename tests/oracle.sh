#!/usr/bin/env bash
# Checks the oracle of the critical path, which was written from the definition only, with its
# hand-worked cases. Then compares `path` and `graph --waits` with the oracle on random systems,
# every segment to the nanosecond.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
python3 tests/oracle/test_oracle.py
longpole=${CARGO_TARGET_DIR:-target}/release/longpole
[ -x "$longpole" ] || cargo build --release -p longpole
python3 tests/oracle/known.py --longpole "$longpole"
python3 tests/oracle/compare.py --longpole "$longpole" --systems "${ORACLE_SYSTEMS:-300}" --seed "${ORACLE_SEED:-1}"
python3 tests/oracle/waits.py --longpole "$longpole" --systems "$((${ORACLE_SYSTEMS:-300} / 5))" --seed "${ORACLE_SEED:-1}"

#!/usr/bin/env bash
# The oracle of the critical path: against its hand-worked cases, and the command against the oracle on random systems.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
python3 tests/oracle/test_oracle.py
longpole=${CARGO_TARGET_DIR:-target}/release/longpole
if "$longpole" path --help >/dev/null 2>&1; then
	python3 tests/oracle/compare.py --longpole "$longpole" --systems "${ORACLE_COMPARED:-200}" --seed "${ORACLE_SEED:-1}"
else
	echo "skipped: random systems against the oracle, $longpole has no verb path"
fi

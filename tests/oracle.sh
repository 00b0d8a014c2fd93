#!/usr/bin/env bash
# The critical path against an oracle that was written from the definition alone: random systems, every segment in every nanosecond.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -e tests/oracle/compare.py ]; then
	echo "skipped: the critical path against the oracle (tests/oracle is not there)"
	exit 0
fi
if ! command -v python3 >/dev/null; then
	echo "skipped: the critical path against the oracle (python3 is not there)"
	exit 0
fi
export PYTHONDONTWRITEBYTECODE=1
[ -x target/release/longpole ] || cargo build --release -p longpole
python3 tests/oracle/compare.py --longpole "$PWD/target/release/longpole" --systems "${ORACLE_SYSTEMS:-300}" --seed "${ORACLE_SEED:-1}"

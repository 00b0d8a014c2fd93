#!/usr/bin/env bash
# One recording per injection, held against the table; the numbers want a quiet machine, the answers do not.
set -euo pipefail
cd "$(dirname "$0")"
export PYTHONDONTWRITEBYTECODE=1
python3 verdicts.py --runs 4 --any

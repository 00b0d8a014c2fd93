#!/usr/bin/env bash
# Makes runs with each injection and compares the reports with the table. The figures need a quiet
# host, the answers do not.
set -euo pipefail
cd "$(dirname "$0")"
export PYTHONDONTWRITEBYTECODE=1
python3 verdicts.py --runs 4 --any

#!/usr/bin/env bash
# Records programs without probes as a user would. `make truth` runs the longer form.
set -euo pipefail
cd "$(dirname "$0")/unmodified"
export PYTHONDONTWRITEBYTECODE=1
python3 check.py --seconds 1

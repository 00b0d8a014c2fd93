#!/usr/bin/env bash
# Compiles the complete programs of the guides and runs the commands that follow them there.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 tests/doc_examples.py docs/guides/probes.md

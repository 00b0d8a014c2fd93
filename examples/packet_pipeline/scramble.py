#!/usr/bin/env python3
"""Builds the pipeline with random words for all of its names, and writes names.json next to it:
real name -> random word."""

import argparse
import sys

sys.dont_write_bytecode = True
import build  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("-o", "--output", required=True, help="folder")
options = parser.parse_args()
print(build.build_scrambled(options.output, options.seed))

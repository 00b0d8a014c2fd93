"""Builds the pipeline: with its own names, with the probes compiled out, or with random names.

This module does not know the meaning of any name. For random names it replaces every name that
names.h defines.
"""

import json
import os
import random
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parent.parent / "include"
DEFINITION = re.compile(r'^#define (N_\w+) "([^"]*)"$', re.MULTILINE)


def names():
    """All names, as a map from macro to text."""
    found = dict(DEFINITION.findall((HERE / "names.h").read_text()))
    if not found:
        raise SystemExit("names.h defines no names")
    return found


def scramble(seed):
    """A random word for each name. All words differ from each other and from the real names."""
    rng = random.Random(seed)
    real = names()
    taken = set(real.values())
    words = {}
    for macro in real:
        word = None
        while word is None or word in taken:
            # The name of a thread has at most 15 bytes; the longest word has 12.
            word = "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(rng.randint(3, 6)))
        taken.add(word)
        words[macro] = word
    return words


def build(folder, defines=(), compiler=None, others=()):
    """Compiles the sources in parallel into `folder` and links them with the objects `others`.

    Returns the path of the program.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    compiler = compiler or os.environ.get("CXX", "g++")
    flags = ["-O2", "-std=c++17", "-Wall", "-Wextra", f"-I{INCLUDE}", *defines]
    objects, running = list(others), []
    for source in sorted(HERE.glob("*.cc")):
        target = folder / (source.stem + ".o")
        objects.append(str(target))
        running.append(subprocess.Popen([compiler, *flags, "-c", str(source), "-o", str(target)]))
    if any([process.wait() for process in running]):
        raise SystemExit("the pipeline does not compile")
    program = folder / "packet_pipeline"
    subprocess.run([compiler, *objects, "-o", str(program)], check=True)
    return program


def build_scrambled(folder, seed):
    """Builds with random names, and writes names.json next to it: real name -> random word."""
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    words, real = scramble(seed), names()
    header = folder / "scrambled_names.h"
    header.write_text("".join(f'#define {macro} "{word}"\n' for macro, word in words.items()))
    (folder / "names.json").write_text(json.dumps({real[macro]: word for macro, word in words.items()}, indent=1) + "\n")
    return build(folder, [f'-DPIPELINE_NAMES="{header}"'])

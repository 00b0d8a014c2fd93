#!/usr/bin/env python3
"""Compiles the complete programs of a page and runs the commands that follow them there.

    tests/doc_examples.py PAGE...

A program is an indented block that contains `main`, followed by an indented block of its commands.
The first command is a compiler with the file's name as an argument. The commands run in an empty
folder in which `include` is that of the repository, with `target/release` in front of the PATH, and
each must end with status 0. The compiler gets all warnings as errors, and also compiles the program
with -DLONGPOLE_DISABLE. Exits with 1 at the first command that fails.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def blocks(page):
    """The indented blocks of a page, without the indentation."""
    text = []
    for line in [*page.read_text().splitlines(), "end"]:
        if line.startswith("    ") or (text and not line):
            text.append(line[4:])
        elif text:
            yield "\n".join(text).strip("\n") + "\n"
            text = []


def run(command, folder, environment):
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"`{command}` ends with status {done.returncode}:\n{done.stdout}{done.stderr}")


def main():
    environment = {**os.environ, "PATH": f"{ROOT}/target/release:{os.environ['PATH']}"}
    environment.pop("LONGPOLE_ROOT", None)
    programs = 0
    for page in map(Path, sys.argv[1:]):
        for block in blocks(page):
            program = re.fullmatch(r"(.*^int main\(.*?^}\n)\n((?:gcc|g\+\+) .*)", block, re.M | re.S)
            if program is None:
                continue
            source, commands = program[1], program[2].split("\n\n")[0].splitlines()
            file = next(word for word in commands[0].split() if re.search(r"\.(c|cc)$", word))
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, file).write_text(source)
                Path(folder, "include").symlink_to(ROOT / "include")
                run(f"{commands[0]} -Wall -Wextra -Werror -DLONGPOLE_DISABLE", folder, environment)
                run(f"{commands[0]} -Wall -Wextra -Werror", folder, environment)
                for command in commands[1:]:
                    run(command, folder, environment)
            programs += 1
            print(f"{page}: {file}")
    if not programs:
        sys.exit("no page has a complete program")


main()

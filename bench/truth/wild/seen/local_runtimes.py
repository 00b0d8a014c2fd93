"""Single runtimes and tools: a watcher that waits for a quiet period, a sort that compresses
temporary files, memory dumps.
"""
import os

from system import COMPUTES, ITEMS, SLEEPS, System

WATCHER = """#!/usr/bin/node
// Builds the page when its source has not changed for a while.
const fs = require('fs'), crypto = require('crypto')
const built = fs.openSync('built', 'r+')
let timer
fs.watch('sources', () => {
  clearTimeout(timer)
  timer = setTimeout(() => {
    const text = fs.readFileSync('sources/page.md', 'utf8')
    fs.writeFileSync('page.html', `<p>${text.toUpperCase()}</p>`)
    fs.writeSync(built, crypto.createHash('sha1').update(text).digest('hex') + '\\n')
  }, PAUSE)
})
fs.writeFileSync('ready', '')
"""

WRITER = """#!/usr/bin/php
<?php
// Saves the page, and waits until it is built.
$built = fopen('built', 'r+');
$begin = microtime(true);
for ($items = 0; microtime(true) < $begin + $argv[1]; $items++) {
    $text = str_repeat("line $items of the page\\n", 200);
    file_put_contents('sources/page.md', $text);
    while (trim(fgets($built)) != sha1($text));
}
printf("items %d seconds %.3f\\n", $items, microtime(true) - $begin);
"""


def debounced(place):
    (place.folder / "sources").mkdir()
    os.mkfifo(place.folder / "built")
    place.start(place.write("livebuild", WATCHER.replace("PAUSE", f"{90 * place.fault:.0f}")), path=place.folder / "ready")
    return [str(place.write("writer", WRITER)), str(place.seconds)]


def packed_runs(place):
    """With a buffer of 1 MB, sort makes many temporary files, and runs gzip to pack and to unpack
    each. Without it, sort works in memory.
    """
    text = "".join(f"{i * 7919 % 1000003} {i * 31:x} order\n" for i in range(LINES))
    place.write("orders", text, 0o644)
    size = "300M" if place.fixed else "600K"
    return ["sort", "-n", "-S", size, "--parallel=1", "-T", str(place.folder), "--compress-program=gzip", "-o", "sorted", "orders"]


# A job that a signal ends writes all its memory to a file.
JOBS = """#!/bin/bash
# Renders one tile after the other; the first reader crashes on each, as is known, and another takes over.
ulimit -c "$1"
for tile in $(seq 8); do
    ./tilereader native || ./tilereader portable
    rm -f core*
done 2>crashes
exit 0
"""

READER = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(int count, char **words)
{
    size_t size = 192 << 20;
    if (strcmp(words[1], "native")) return 0;
    char *pixels = aligned_alloc(2 << 20, size);
    madvise(pixels, size, MADV_HUGEPAGE);
    for (size_t i = 0; i < size; i += 4096) pixels[i] = (char)(i >> 12) + 1;
    abort();
}
"""


def dumps(place):
    place.c("tilereader", READER)
    return [str(place.write("render", JOBS)), "0" if place.fixed else "unlimited"]


SYSTEMS = [
    System(
        name="node_waits_for_quiet",
        kind="debounce-timer",
        truth="livebuild, a watcher of node, waits by a timer until its source has not changed for 90 ms before it builds",
        load=debounced,
        rate=ITEMS,
        component=(r"livebuild", r"\bnode\b"),
        mechanism=SLEEPS,
        never=(r"\bdisk\b", r"writer (sleeps|comput|runs)", r"php (sleeps|comput|runs)"),
        change="x0",
        halves=True,
        needs=("node", "php"),
    ),
    System(
        name="sort_packs_small_runs",
        kind="small-sort-buffer",
        truth="the buffer of sort is so small that it writes many temporary files, which gzip packs and unpacks",
        load=packed_runs,
        component=(r"\bsort\b", r"gzip"),
        mechanism=(*COMPUTES, r"starts? (a |many |new |one )?(\w+ )?process", r"temporary", r"\bfork", r"\bexec"),
        never=(r"\bdisk\b", r"\bsleeps"),
        needs=("sort", "gzip"),
    ),
    System(
        name="bash_core_dumps",
        kind="core-dump",
        truth="the kernel writes the memory of each tilereader that crashes to a file",
        load=dumps,
        component=(r"tilereader",),
        mechanism=(r"core", r"dump", r"\bwrit", r"\bdisk\b", r"in the kernel", r"\bkernel\b", r"\bfiles?\b", r"signal", r"crash"),
        never=(r"\bsleeps",),
        needs=("gcc", "bash"),
    ),
]

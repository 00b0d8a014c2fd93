"""Memory that is requested from the kernel again each time."""
from system import ITEMS, PYTHON, System

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }

int main(int count, char **words)
{
    int again = !strcmp(words[1], "again");
    size_t size = 8 << 20;
    double begin = now(), seconds = atof(words[2]);
    long items = 0, sum = 0;
    char *frame = 0;
    while (now() < begin + seconds) {
        if (!frame) {
            frame = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            madvise(frame, size, MADV_NOHUGEPAGE);
        }
        for (size_t at = 0; at < size; at += 256) frame[at] += 1;
        sum += frame[items % size];
        if (again) { munmap(frame, size); frame = 0; }
        items++;
    }
    printf("items %ld seconds %.3f sum %ld\n", items, now() - begin, sum);
}
"""

# Two processes with a pipe between them; each block is a fresh mapping of malloc.
SCRIPT = """
import os, sys, time

items = int(sys.argv[1])
read, write = os.pipe()
begin = time.monotonic()
if os.fork() == 0:
    for i in range(items):
        block = bytearray(3 << 20)
        block[::4096] = b"x" * (3 << 8)
        os.write(write, b"%08d" % i)
        del block
    os._exit(0)
for i in range(items):
    os.read(read, 8)
os.wait()
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def frames(place):
    return [str(place.c("frames", SOURCE)), "once" if place.fixed else "again", str(place.seconds)]


def blocks(place):
    limits = ["MALLOC_MMAP_THRESHOLD_=1000000000", "MALLOC_TRIM_THRESHOLD_=1000000000", "MALLOC_TOP_PAD_=16000000"] if place.fixed else ["MALLOC_MMAP_THRESHOLD_=131072"]
    return ["env", *limits, PYTHON, str(place.write("blocks.py", SCRIPT)), "9000" if place.fixed else "3000"]


MECHANISM = (r"page.?fault", r"fault", r"mmap", r"munmap", r"memory", r"clear_page")
SYSTEMS = [
    System(
        name="mmap_frames",
        kind="page-faults",
        truth="frames maps and unmaps 8 MiB for each item, so that the kernel clears pages most of the time",
        load=frames,
        rate=ITEMS,
        component=(r"frames",),
        mechanism=MECHANISM,
        needs=("gcc",),
    ),
    System(
        name="malloc_blocks_work",
        kind="page-faults",
        truth="malloc gives each block of Python back to the kernel and takes it again",
        load=blocks,
        rate=ITEMS,
        component=(r"python", r"blocks\.py"),
        mechanism=MECHANISM,
        needs=(PYTHON,),
    ),
]

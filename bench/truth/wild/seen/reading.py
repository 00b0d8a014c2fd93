"""A file that is read from the disk in pieces that are too small."""
from system import ITEMS, System

SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }

/* Adds up the file until the time is over; what the page cache has is thrown away before. */
int main(int count, char **words)
{
    int fd = open(words[1], O_RDONLY);
    static char block[4096];
    long items = 0, sum = 0;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(fd, 0, 0, strcmp(words[2], "random") ? POSIX_FADV_SEQUENTIAL : POSIX_FADV_RANDOM);
    double begin = now(), seconds = atof(words[3]);
    while (now() < begin + seconds) {
        ssize_t got = read(fd, block, sizeof block);
        if (got <= 0) {
            lseek(fd, 0, SEEK_SET);
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
            continue;
        }
        for (ssize_t i = 0; i < got; i += 64) sum += block[i];
        items++;
    }
    printf("items %ld seconds %.3f sum %ld\n", items, now() - begin, sum);
}
"""


def load(place):
    data = place.folder / "archive"
    place.run("sh", "-c", f"head -c 250000000 /dev/urandom > {data} && sync {data}")
    return [str(place.c("indexer", SOURCE)), str(data), "sequential" if place.fixed else "random", str(place.seconds)]


SYSTEMS = [
    System(
        name="no_readahead",
        kind="readahead-misses",
        truth="the kernel does not read ahead for indexer, which waits for the disk at every 4 KiB",
        load=load,
        rate=ITEMS,
        component=(r"indexer", r"disk"),
        mechanism=(r"disk", r"\bread", r"readahead", r"\bI/?O\b"),
        needs=("gcc",),
    ),
]

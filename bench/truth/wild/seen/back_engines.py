"""A storage engine inside a program: LevelDB, which stalls writes."""
from services import private_network
from system import ITEMS, System

METERS = r"""
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

/* usage: meters FOLDER SECONDS BUFFER: stores readings of meters, in random order. */
int main(int count, char **words)
{
    char *error = NULL, key[32], value[400];
    leveldb_options_t *options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_compression(options, leveldb_no_compression);
    leveldb_options_set_write_buffer_size(options, atol(words[3]));
    leveldb_t *store = leveldb_open(options, words[1], &error);
    leveldb_writeoptions_t *how = leveldb_writeoptions_create();
    if (error) return fprintf(stderr, "%s\n", error), 1;
    long items = 0;
    unsigned long state = 88172645463325252ul;
    double begin = now();
    while (now() < begin + atof(words[2])) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        sprintf(key, "meter%010lu", state % 300000);
        for (int at = 0; at < 400; at++) value[at] = 'a' + (state >> (at % 48)) % 26;
        leveldb_put(store, how, key, strlen(key), value, sizeof value, &error);
        if (error) return fprintf(stderr, "%s\n", error), 1;
        items++;
    }
    printf("items %ld seconds %.3f\n", items, now() - begin);
    leveldb_close(store);
    return 0;
}
"""


def write_stall(place):
    """Uses a file system in memory, so that no disk is involved."""
    (place.folder / "store").mkdir()
    meters = place.c("meters", METERS, "-lleveldb")
    inside = private_network(place, f"mount -t tmpfs tmpfs {place.folder}/store")
    buffer = 64 << 20 if place.fixed else 64 << 10
    return [*inside, str(meters), f"{place.folder}/store/db", str(place.seconds), str(buffer)]


DISK = (r"f(data)?sync", r"waits? for (the |a )?(disk|storage|block device)")

SYSTEMS = [
    System(
        name="leveldb_write_stall",
        kind="write-stall",
        truth=("the write buffer of LevelDB in meters is so small that its compactions do not keep "
               "up: meters waits for the thread of LevelDB that writes the tables anew, and sleeps "
               "for it"),
        load=write_stall,
        rate=ITEMS,
        component=(r"meters", r"leveldb"),
        mechanism=(r"\bsleep", r"\block(s|ed)?\b", r"mutex", r"futex", r"compact", r"flush",
                   r"until a time", r"background", r"BGWork", r"\bwrites?\b",
                   r"(other|another|second|own) thread", r"condition"),
        never=(*DISK, r"page faults?", r"network"),
        needs=("gcc", "mount", "unshare", "nsenter"),
    ),
]

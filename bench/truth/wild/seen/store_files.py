"""Files: a cache that spills, a directory without an index, an archive that is read from its beginning for each member."""
import os

from services import private_network
from system import COMPUTES, PYTHON, System

# Runs one transaction. Pages that do not fit into the cache are written to the database, and the
# journal is synced before that.
IMPORTER = """#!/usr/bin/python3
# usage: importer PAGES ROWS: puts rows in random order into an index, with a cache of so many pages.
import random, sqlite3, sys

connection = sqlite3.connect("stations.db", isolation_level=None)
connection.execute(f"pragma cache_size = {sys.argv[1]}")
order = random.Random(7)
connection.execute("begin")
for number in range(int(sys.argv[2])):
    connection.execute("insert or replace into stations values (?, ?)", (order.randrange(10**9), "station " * 20))
connection.execute("commit")
print(connection.execute("select count(*) from stations").fetchone()[0])
"""


def spilling_cache(place):
    place.write("fill.sql", """
        create table stations (id integer primary key, name text);
        insert into stations select value * 3000, printf("%.160c", "x") from generate_series(1, 300000);
    """)
    place.run("sh", "-c", "sqlite3 stations.db <fill.sql && sync -f .")
    return [str(place.write("importer", IMPORTER)), str(10000 if place.fixed else 3), "7000"]


POSTBOX = """#!/usr/bin/perl
# usage: postbox FOLDER COUNT: puts letters into one folder.
use strict;
my ($folder, $count) = @ARGV;
for my $number (1 .. $count) {
    open(my $letter, '>', sprintf('%s/letter-of-district-%08d.eml', $folder, $number)) or die $!;
    print $letter "Dear district, " x 400;
    close($letter);
}
"""


def unindexed_directory(place):
    """Makes an ext4 whose directories are lists, as in ext2, or hashed."""
    (place.folder / "spool").mkdir()
    feature = "dir_index" if place.fixed else "^dir_index"
    inside = private_network(place, f"truncate -s 400M {place.folder}/disk", f"mkfs.ext4 -q -N 60000 -O {feature} {place.folder}/disk",
                             f"mount -o loop {place.folder}/disk {place.folder}/spool")
    return [*inside, str(place.write("postbox", POSTBOX)), f"{place.folder}/spool", "8500"]


RESTORE = """#!/bin/bash
# usage: restore each|all: gets the files of a list from the archive of last night.
set -e
if [ "$1" = each ]; then
    while read -r name; do
        tar -xzf night.tar.gz "$name"
    done <wanted
else
    tar -xzf night.tar.gz -T wanted
fi
cat $(<wanted) | cksum
"""


def member_by_member(place):
    (place.folder / "home").mkdir()
    words = [f"word{number * 7919 % 100003}" for number in range(20000)]
    for number in range(80):
        text = " ".join(words[number * 50:] + words[:number * 50]) + os.urandom(120000).hex()
        (place.folder / f"home/notes{number}.txt").write_text(text)
    place.run("tar", "-czf", "night.tar.gz", "home")
    place.write("wanted", "".join(f"home/notes{number}.txt\n" for number in range(3, 80, 12)))
    place.run("rm", "-r", "home")
    return [str(place.write("restore", RESTORE)), "all" if place.fixed else "each"]


SYSTEMS = [
    System(
        name="sqlite_spilling_cache",
        kind="cache-spill",
        truth="the cache of SQLite in importer is so small that it writes pages to the database within the transaction, for each of which it syncs its journal to the disk first",
        load=spilling_cache,
        component=(r"importer", r"\bdisk\b", r"block device", r"\b[vs]d[a-z]\d*\b", r"nvme", r"stations\.db"),
        mechanism=(r"f(data)?sync", r"\bsync", r"\bdisk\b", r"block device", r"ext4", r"jbd2", r"journal", r"flush", r"storage", r"\bI/O\b"),
        never=(r"importer comput", r"\bsleeps"),
        needs=("sqlite3", PYTHON),
    ),
    System(
        name="ext4_unindexed_directory",
        kind="unindexed-directory",
        truth="the file system has no index of its directories, so that the kernel looks through all names of the spool for each letter of postbox",
        load=unindexed_directory,
        component=(r"postbox", r"perl"),
        mechanism=(r"\bkernel\b", r"system calls?", r"\bopen(at)?\b", r"director", r"ext4", r"file system", r"\bcreat", r"comput", r"\bcpu"),
        never=(r"\bdisk\b", r"f(data)?sync", r"\bsleeps"),
        needs=("perl", "mkfs.ext4", "mount", "unshare", "nsenter"),
    ),
    System(
        name="tar_member_by_member",
        kind="archive-scan",
        truth="restore has tar read the archive for each file anew, so that gzip computes all of it again each time",
        load=member_by_member,
        component=(r"gzip", r"\btar\b"),
        mechanism=(*COMPUTES, r"\bcpu", r"\bruns\b", r"decompress", r"unpack"),
        never=(r"\bdisk\b", r"\bsleeps", r"bash comput", r"restore comput", r"tar comput"),
        needs=("tar", "gzip", "bash"),
    ),
]

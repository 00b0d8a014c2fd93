"""Copies of whole stocks: a catalogue read page by page, an archive of versions, and a backup of a store."""
from services import mariadb, redis
from system import COMPUTES, PYTHON, SLEEPS, System

CATALOGUE = """#!/usr/bin/python3
# usage: catalogue PORT WAY: prints all parts, 200 on a page.
import hashlib, sys
import pymysql

store = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", database="test").cursor()
pages, last = hashlib.sha256(), 0
for page in range(260):
    if sys.argv[2] == "pages":
        store.execute("select id, name, price, maker from parts order by id limit 200 offset %s", (page * 200,))
    else:
        store.execute("select id, name, price, maker from parts where id > %s order by id limit 200", (last,))
    for number, name, price, maker in store.fetchall():
        pages.update(f"{number:08} {name} {price} {maker}\\n".encode())
        last = number
print(pages.hexdigest(), last)
"""


def catalogue(place):
    port = mariadb(place, """
create table parts (id int primary key, name varchar(60), price int, maker varchar(40)) engine=innodb;
insert into parts select seq * 3, concat('part of the kind ', seq), seq * 37 % 1000, md5(seq) from seq_1_to_60000;
""")
    return [str(place.write("catalogue", CATALOGUE)), str(port), "marks" if place.fixed else "pages"]


def versions(count):
    """Returns versions of a few long lists, as input of git fast-import."""
    lists = [[f"shelf {shelf} place {row} book {shelf * 7919 + row * 104729 % 100003}" for row in range(260)] for shelf in range(12)]
    out = []
    for version in range(count):
        rows = lists[version % 12]
        for change in range(3):
            rows[(version * 31 + change * 97) % 260] = f"lent to reader {version * 7 + change}, back in week {version % 52}"
        text = "\n".join(rows)
        note = f"day {version}"
        out.append(f"commit refs/heads/main\ncommitter Desk <desk@library> {1700000000 + version * 60} +0000\ndata {len(note)}\n{note}\n"
                   f"M 100644 inline lists/{version % 12}\ndata {len(text)}\n{text}\n")
    return "".join(out)


def archive(place):
    port, home = place.port(), place.folder / "library.git"
    place.run("git", "init", "-q", "--bare", "-b", "main", home)
    place.run("git", "-C", home, "-c", "fastimport.unpackLimit=1", "fast-import", "--quiet", input=versions(1100))
    place.run("git", "-C", home, "config", "gc.auto", "0")
    if not place.fixed:
        place.run("sh", "-c", f"mv {home}/objects/pack/*.pack all.pack && rm -f {home}/objects/pack/* && git -C {home} unpack-objects -q <all.pack && rm all.pack")
    else:
        place.run("git", "-C", home, "repack", "-adfq")
    place.start("git", "daemon", f"--base-path={place.folder}", "--export-all", "--listen=127.0.0.1", f"--port={port}", port=port)
    return ["bash", "-c", f"set -e; for i in 1 2 3; do git clone -q --bare git://127.0.0.1:{port}/library.git copy$i; done"]


def nightly(place):
    port = redis(place, "--enable-debug-command", "local", "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", 0 if place.fixed else 1)
    place.run("redis-cli", "-p", port, "debug", "populate", 250000, "article", 60)
    script = f"#!/bin/bash\nset -e\nfor part in 1 2; do redis-cli -p {port} --rdb stock.$part; done\n"
    return [str(place.write("nightly", script))]


SYSTEMS = [
    System(
        name="mariadb_catalogue_pages",
        kind="offset-paging",
        truth="mariadbd computes, because each page that catalogue asks for is found by an offset: it walks over all rows of the pages before it",
        load=catalogue,
        component=(r"mariadb", r"mysql", r"port \d+", r"one_connection"),
        mechanism=(*COMPUTES, r"\bcpu", r"\bruns\b"),
        never=(r"(catalogue|python\S*) (comput|sleeps)", r"\bdisk\b", r"\bsleeps"),
        needs=("mariadbd", "mariadb-install-db", PYTHON),
    ),
    System(
        name="git_archive_of_versions",
        kind="loose-objects",
        truth="git reads, compares and compresses all objects anew for each clone, because the archive was never packed",
        load=archive,
        component=(r"\bgit\b", r"pack-objects", r"upload-pack", r"port \d+"),
        mechanism=(*COMPUTES, r"\bcpu", r"\bruns\b", r"compress", r"\bfiles?\b", r"\bopens?\b", r"\bpack",
                   r"kernel", r"system calls?", r"\breads?\b"),
        never=(r"bash (comput|sleep)", r"git sleeps", r"\bdisk\b"),
        needs=("git", "bash"),
    ),
    System(
        name="redis_nightly_copy",
        kind="replica-sync-delay",
        truth="redis-server lets a second pass (repl-diskless-sync-delay) in which others might ask for a copy, too, before it makes the one that nightly waits for",
        load=nightly,
        component=(r"redis-server", r"\bredis\b(?!-cli)", r"port \d+"),
        mechanism=(*SLEEPS, r"delay", r"\bpaus", r"time-?out", r"timed out", r"periodic", r"\btick"),
        never=(r"(redis-cli|nightly|bash) (comput|sleeps)", r"redis-server comput", r"\bdisk\b", r"\block"),
        needs=("redis-server", "redis-cli", "bash"),
    ),
]

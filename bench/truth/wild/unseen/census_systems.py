"""The systems of a bureau of statistics: five frequent faults of imports, nightly jobs, maps and
transfers, and two healthy parts of the same bureau.
"""
import os
import time

from services import mariadb, nginx, postgres
from system import ITEMS, LOCKS, PYTHON, SLEEPS, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Loads the returns of the field offices. All importers fill the same staging table, which each
# of them empties first; or each has one of its own.
IMPORT_RETURNS = """#!/usr/bin/python3
import multiprocessing, sys, time, urllib.request
import psycopg2

port, offices, files, staging = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]

def connect():
    global base
    base = psycopg2.connect(host="127.0.0.1", port=port, user="postgres")
    if staging == "own":
        base.cursor().execute("create temp table staging (like public.staging)")
        base.commit()

def load(number):
    cursor = base.cursor()
    cursor.execute("truncate staging")
    with urllib.request.urlopen(f"http://127.0.0.1:{offices}/returns/{number}.csv") as answer:
        cursor.copy_expert("copy staging from stdin csv", answer)
    cursor.execute("insert into returns select %s, district, occupation, count(*), sum(income) from staging "
                   "where age between 0 and 120 group by district, occupation", (number,))
    base.commit()

with multiprocessing.Pool(8, connect) as pool:
    start = time.monotonic()
    for _ in pool.imap_unordered(load, range(files)):
        pass
    print("items", files, "seconds", round(time.monotonic() - start, 3))
"""
# The gateway to the field offices, whose lines are slow.
OFFICES = """
const http = require("http");
const [port, pause] = process.argv.slice(2).map(Number);

function returns(office, part) {
  let text = "";
  for (let i = 0; i < 800; i++) {
    const person = part * 800 + i;
    text += `${office},${person},${person % 12},${(person * 7) % 40},${(person * 13) % 97},${9000 + (person * 31) % 60000}\\n`;
  }
  return text;
}

http.createServer((request, response) => {
  const office = parseInt(request.url.split("/")[2]);
  let part = 0;
  const next = () => {
    response.write(returns(office, part++));
    if (part < 5) setTimeout(next, pause);
    else response.end();
  };
  next();
}).listen(port, "127.0.0.1");
"""


def staging(place):
    base = postgres(place, """
        create table staging (office int, person int, district int, occupation int, age int, income int);
        create table returns (office int, district int, occupation int, persons int, income bigint);
        checkpoint""", synchronous_commit="off")
    offices = place.port()
    place.start("node", place.write("offices.js", OFFICES), offices, 12, port=offices)
    mode = "own" if place.fixed else "shared"
    return [str(place.write("import_returns", IMPORT_RETURNS)), str(base), str(offices), "60", mode]


# Applies the corrections of one night to each district, and publishes a table of it.
NIGHTLY = """#!/bin/bash
set -e -o pipefail
port=$1
districts=$2
for district in $(seq $districts); do
  mawk -v seed=$district 'BEGIN {
    srand(seed)
    for (i = 0; i < 2000; i++) print int(20000 * rand()) "," int(90000 * rand())
  }' > corrections.csv
  psql -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p $port -U postgres <<END
create temp table corrections (person int, income int);
\\\\copy corrections from corrections.csv csv
update district_$district d set income = c.income from corrections c where d.person = c.person;
vacuum analyze district_$district;
END
  psql -h 127.0.0.1 -p $port -U postgres -A -t -F, -c "select occupation, sex, age / 5, count(*), avg(income)
    from district_$district group by 1, 2, 3" | sort -t, -k1,1n -k2,2 -k3,3n | gzip > district_$district.csv.gz
done
"""


def vacuum(place):
    districts = 7
    tables = "".join(f"""
        create table district_{i} (person int primary key, occupation int, sex text, age int, income int, street text);
        insert into district_{i}
        select p, p * 7 % 60, chr(102 + p % 2 * 7), p * 13 % 97, p % 60000, repeat('number ' || p || ' of a street, ', 10)
        from generate_series(0, 19999) p;""" for i in range(1, districts + 1))
    delay = f"{20 * place.fault}ms"
    base = postgres(place, f"{tables} checkpoint", synchronous_commit="off", vacuum_cost_delay=delay)
    return [str(place.write("nightly", NIGHTLY)), str(base), str(districts)]


# Draws the map of a district with the boundaries of its municipalities, which each worker reads
# when it starts.
MAPS = """
import xml.etree.ElementTree as tree
from flask import Flask, Response

app = Flask(__name__)

def boundaries():
    districts = {}
    for place in tree.parse("boundaries.gml").getroot().iter("municipality"):
        points = [tuple(map(float, pair.text.split(","))) for pair in place.iter("pos")]
        districts.setdefault(place.get("district"), []).append((place.get("name"), points))
    return districts

DISTRICTS = boundaries()

@app.get("/map/<district>.svg")
def chart(district):
    parts = ["<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 400 400'>"]
    for number, (name, points) in enumerate(DISTRICTS[district]):
        path = " ".join(f"{400 * x:.1f},{400 * y:.1f}" for x, y in points)
        parts.append(f"<polygon fill='hsl({number * 7 % 120},60%,60%)' points='{path}'><title>{name}</title></polygon>")
    return Response("".join(parts) + "</svg>", mimetype="image/svg+xml")
"""


def recycled(place):
    with (place.folder / "boundaries.gml").open("w") as file:
        file.write("<boundaries>\n")
        for number in range(4800):
            points = "".join(f"<pos>0.{(number * 37 + i * 11) % 9973:04},0.{(number * 53 + i * 17) % 9941:04}</pos>" for i in range(40))
            file.write(f'<municipality district="{number % 120}" name="municipality {number}">{points}</municipality>\n')
        file.write("</boundaries>\n")
    place.write("maps.py", MAPS)
    port = place.port()
    # Somebody limited the requests of a worker when an old release had a leak.
    limit = 0 if place.fixed else 100
    place.start("/usr/bin/gunicorn", "-w", "2", "-b", f"127.0.0.1:{port}", "--max-requests", limit, "--max-requests-jitter", "10",
                "--chdir", place.folder, "maps:app", port=port)
    front = nginx(place, f"location / {{ proxy_pass http://127.0.0.1:{port}; }}")
    # The first map is there when a worker has read the boundaries.
    place.run("curl", "-sf", "-o", "/dev/null", f"http://127.0.0.1:{front}/map/17.svg")
    return wrk(f"http://127.0.0.1:{front}/map/17.svg", 4, place.seconds)


# Applies corrections to the register of persons, one process for each district.
CORRECTIONS = """#!/usr/bin/python3
import os, sys, time
import pymysql

port, seconds, districts = int(sys.argv[1]), float(sys.argv[2]), 4

def apply(district):
    base = pymysql.connect(host="127.0.0.1", port=port, user="root", database="test", autocommit=True)
    cursor = base.cursor()
    rows = 0
    while time.monotonic() < start + seconds:
        cursor.execute("update persons join (select floor(%s + 20000 * rand()) person from seq_1_to_200) c using (person) "
                       "set income = floor(90000 * rand()), answers = repeat(char(97 + floor(26 * rand())), 120)", (district * 20000,))
        rows += cursor.rowcount
    return rows

start = time.monotonic()
reader, writer = os.pipe()
for district in range(districts):
    if os.fork() == 0:
        os.write(writer, b"%d\\n" % apply(district))
        os._exit(0)
os.close(writer)
for _ in range(districts):
    os.wait()
with os.fdopen(reader) as totals:
    rows = sum(map(int, totals))
print("items", rows, "seconds", round(time.monotonic() - start, 3))
"""


def redo(place):
    base = mariadb(place, """
        create table persons (person int primary key, income int, answers varchar(400), address varchar(400)) engine=innodb;
        insert into persons select seq, seq % 60000, repeat('n', 120), repeat('street ', 40) from seq_0_to_79999""",
        "--innodb-buffer-pool-size=256M", "--innodb-flush-log-at-trx-commit=2", f"--innodb-log-file-size={'256M' if place.fixed else '4M'}")
    return [str(place.write("corrections", CORRECTIONS)), str(base), str(place.seconds)]


# Draws the map tiles of the districts that changed, and copies what changed to the mirror.
PUBLISH = """#!/bin/bash
set -e
mirror=$1
editions=$2
options=$3
for edition in $(seq $editions); do
  for district in $((edition * 2)) $((edition * 2 + 1)); do
    mawk -v seed=$edition -v folder=tiles/$district -f draw.awk
  done
  rsync $options tiles/ rsync://127.0.0.1:$mirror/tiles/
done
"""
DRAW = """
BEGIN {
  srand(seed)
  for (tile = 0; tile < 100; tile++) {
    file = folder "/" tile ".svg"
    print "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 256 256'>" > file
    for (block = 0; block < 100; block++)
      printf "<rect x='%03d' y='%03d' width='9' height='9' fill='#%06x'/>\\n", 256 * rand(), 256 * rand(), 16777215 * rand() > file
    print "</svg>" > file
    close(file)
  }
}
"""


def mirror(place):
    port, folder = place.port(), place.folder
    (folder / "mirror").mkdir()
    yesterday = time.time() - 86400
    for district in range(20):
        (folder / "tiles" / str(district)).mkdir(parents=True)
        for tile in range(100):
            blocks = [f"<rect x='{(i * 37 + tile) % 256:03}' y='{i * (district + 7) % 256:03}' width='9' height='9' fill='#{i:06x}'/>\n"
                      for i in range(100)]
            path = folder / "tiles" / str(district) / f"{tile}.svg"
            path.write_text("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 256 256'>\n" + "".join(blocks) + "</svg>\n")
            os.utime(path, (yesterday, yesterday))
    config = place.write("rsyncd.conf", f"""
use chroot = no
reverse lookup = no
log file = {folder}/rsyncd.log
lock file = {folder}/rsyncd.lock
[tiles]
path = {folder}/mirror
read only = no
uid = root
gid = root
""", mode=0o644)
    place.start("rsync", "--daemon", "--no-detach", f"--config={config}", "--address=127.0.0.1", f"--port={port}", port=port)
    # Without -t the copies have the time of their transfer, and never look like their sources.
    options = "-rt" if place.fixed else "-r"
    place.run("rsync", options, "tiles/", f"rsync://127.0.0.1:{port}/tiles/")
    place.write("draw.awk", DRAW, mode=0o644)
    return [str(place.write("publish", PUBLISH)), str(port), "3", options]


# The interviewers send about 70 questionnaires in each second, by their own clock.
FIELDWORK = """#!/usr/bin/python3
import asyncio, sys, time
import aiohttp

port, seconds = sys.argv[1], float(sys.argv[2])

async def send(session, number):
    answers = {"household": number, "persons": number % 6 + 1, "rooms": number % 8 + 1, "heating": "gas"}
    async with session.post(f"http://127.0.0.1:{port}/questionnaire", json=answers) as reply:
        assert reply.status == 201, await reply.text()

async def main():
    start = time.monotonic()
    sent = []
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < start + seconds:
            sent.append(asyncio.create_task(send(session, len(sent))))
            await asyncio.sleep(start + 0.014 * len(sent) - time.monotonic())
        await asyncio.gather(*sent)
    print("items", len(sent), "seconds", round(time.monotonic() - start, 3))

asyncio.run(main())
"""
# Checks a questionnaire, and stores it in sqlite by one of four threads.
INTAKE = """#!/usr/bin/python3
import json, sqlite3, sys, threading
from flask import Flask, request

app = Flask(__name__)
local = threading.local()

@app.post("/questionnaire")
def questionnaire():
    answers = request.get_json()
    if not 1 <= answers["persons"] <= 30:
        return "how many persons?", 400
    if not hasattr(local, "base"):
        local.base = sqlite3.connect("answers.db", timeout=5, isolation_level=None)
        local.base.execute("pragma synchronous = off")
    local.base.execute("insert into answers values (?, ?)", (answers["household"], json.dumps(answers)))
    return {"received": answers["household"]}, 201
"""


def questionnaire(place):
    place.run("sqlite3", "answers.db", "pragma journal_mode = wal; create table answers (household int, answers text)")
    place.write("intake.py", INTAKE)
    port = place.port()
    place.start("/usr/bin/gunicorn", "-w", "1", "-k", "gthread", "--threads", "4", "--keep-alive", "60", "-b", f"127.0.0.1:{port}",
                "--chdir", place.folder, "intake:app", port=port)
    front = nginx(place, 'location / { proxy_pass http://intake; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  http=f"upstream intake {{ server 127.0.0.1:{port}; keepalive 8; }}")
    return [str(place.write("fieldwork", FIELDWORK)), str(front), str(place.seconds)]


# Tabulates the returns of each district by occupation and age; make runs two at a time.
MAKEFILE = """
tables := $(patsubst returns/%.csv.gz,tables/%.csv,$(wildcard returns/*.csv.gz))

all: $(tables)

tables/%.csv: returns/%.csv.gz
	zcat $< | gawk -F, '{ key = $$3 "," int($$4 / 5); persons[key]++; income[key] += $$5 } \\
	  END { for (key in persons) print key "," persons[key] "," income[key] / persons[key] }' | sort > $@
"""


def tabulation(place):
    for name in ("returns", "tables"):
        (place.folder / name).mkdir()
    place.write("sample.awk", """BEGIN {
  for (i = 0; i < 120000; i++) print i "," i % 12 "," i * 7 % 90 "," i * 13 % 97 "," i * 31 % 60000
}""")
    place.run("sh", "-c", "cd returns; mawk -f ../sample.awk | gzip -1 > 1.csv.gz; for i in $(seq 2 48); do cp 1.csv.gz $i.csv.gz; done")
    place.write("Makefile", MAKEFILE)
    return ["make", "-s", "-j2", "-C", str(place.folder), "all"]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="census_shared_staging_table",
        kind="shared-staging-table",
        truth="the sessions of postgres wait for one another's lock of the table staging, which "
              "import_returns truncates and then keeps locked until it has the whole file from "
              "the slow field office, so that one of eight importers works at a time",
        load=staging,
        rate=ITEMS,
        component=(r"postgres", r"\bstaging\b", r"import_returns[^;]*(\block|wait for one another|truncat)"),
        mechanism=(*LOCKS, r"truncat", r"staging", r"for one another", r"\bholds?\b", r"\bheld\b",
                   r"one (\w+ )?(session|transaction|importer|process|backend)"),
        never=DISK,
        needs=("psql", "node", PYTHON),
    ),
    System(
        name="census_throttled_vacuum",
        kind="cost-delayed-vacuum",
        truth="postgres sleeps in the vacuum of each district, because vacuum_cost_delay is set "
              "for all sessions and not only for autovacuum",
        load=vacuum,
        component=(r"postgres", r"vacuum"),
        mechanism=(*SLEEPS, r"cost.?delay", r"throttl", r"\bpaced\b", r"\bselect\b", r"pauses?"),
        never=(*DISK, r"postgres (\([^)]*\) )?comput"),
        change="x0",
        halves=True,
        needs=("psql", "mawk", "bash"),
    ),
    System(
        name="census_recycled_workers",
        kind="workers-recycled-too-soon",
        truth="the workers of gunicorn exit after 100 requests (max_requests), and the new ones "
              "compute most of the time: they import their modules and parse the boundaries in XML",
        load=recycled,
        rate=WRK,
        component=(r"gunicorn", r"\bmaps\b"),
        # That gunicorn computes is also true without the fault.
        mechanism=(r"start(s|ed|ing)?\b.*(again|anew|new|each|every|process|worker)", r"start-?up", r"restart", r"respawn", r"recycl",
                   r"max.?requests", r"(short-lived|new) (process|worker|child)", r"\bexits?\b", r"\bforks?\b", r"\bclone",
                   r"expat", r"\bXML", r"\bxml", r"pars(es|ing)", r"boundaries", r"\bgml\b", r"import(s|ing)?\b.*module",
                   r"loads? (its|the) (modules|app|program|boundar)", r"unmarshal", r"marshal_load", r"TreeBuilder|treebuilder"),
        never=(*DISK, r"gunicorn (\([^)]*\) )?sleeps"),
        running=True,
        needs=("/usr/bin/gunicorn", "nginx", "curl", "wrk"),
    ),
    System(
        name="census_small_redo_log",
        kind="redo-log-too-small",
        truth="mariadbd has a redo log of 4 MB, which is always full, so that the corrections wait "
              "until its page cleaner has written the changed pages to the disk",
        load=redo,
        rate=ITEMS,
        component=(r"mariadb", r"mysqld", r"redo log", r"page.?cleaner"),
        mechanism=(r"\bdisk\b", r"\bsync", r"\bf(data)?sync", r"flush", r"writes? (to|out|back|pages)", r"writeback", r"pwrite", r"redo",
                   r"checkpoint", r"page.?cleaner", r"io_uring|io_getevents|\baio\b", r"doublewrite", r"log_free_check",
                   r"\blog (file|space)", r"\bI/O\b", r"dirty", r"\bbuf_", r"block (layer|device)"),
        never=(r"(mariadbd?|mysqld) (\([^)]*\) )?sleeps",),
        needs=("mariadbd", "mariadb", PYTHON),
    ),
    System(
        name="census_mirror_without_times",
        kind="modification-times-not-kept",
        truth="rsync reads, compares and rewrites all 2000 tiles for each edition, of which 200 "
              "changed, because publish does not keep the times of the files on the mirror (-t)",
        load=mirror,
        component=(r"rsync",),
        mechanism=(*RUNS, r"checksum", r"\bmd[45]", r"\bxxh", r"\bsums?\b", r"\bdelta", r"match", r"\bhash", r"compar(es|ing)",
                   r"\breads?\b", r"\bwrites?\b", r"\bopen(s|at)?\b", r"creat(es|ing)", r"\bcop(y|ies)\b", r"transfers?", r"unchanged",
                   r"\bm?times?tamp", r"rename", r"kernel"),
        never=(r"rsync (\([^)]*\) )?sleeps",),
        needs=("rsync", "mawk", "bash"),
    ),
    System(
        name="census_questionnaire_control",
        kind="control",
        truth="fieldwork sends a questionnaire each 14 ms by intention; nginx and gunicorn, with "
              "sqlite, answer long before the next one, and all are idle most of the time",
        load=questionnaire,
        rate=ITEMS,
        acceptable=(*NOTHING, r"\b[Pp]aced\b", r"fieldwork.*(sleep|timer|until a time)", r"\bidle\b", r"load generator", r"[Cc]lient"),
        needs=("/usr/bin/gunicorn", "nginx", "sqlite3", PYTHON),
    ),
    System(
        name="census_tabulation_control",
        kind="control",
        truth="make tabulates two districts at a time with zcat, gawk and sort, of which gawk "
              "computes most, and both CPUs are full",
        load=tabulation,
        acceptable=(*NOTHING, rf"(gawk|awk|zcat|gzip|sort|make).*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("make", "gawk", "mawk", "gzip"),
    ),
]

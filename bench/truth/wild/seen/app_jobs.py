"""Jobs and services that wait for something that an earlier run left behind: leases, workers that
ignore signals, descriptors, breakers, rotated logs.
"""
from services import redis
from system import COMPUTES, ITEMS, PYTHON, SLEEPS, System

# A lock in redis that is never released, so the next job waits until it expires.
IMPORTER = """#!/usr/bin/python3
import socket, sys, time
port, seconds, lease, release = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4] == "yes"
link = socket.create_connection(("127.0.0.1", port))
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

def ask(*words):
    link.sendall(b"".join([b"*%d\\r\\n" % len(words)] + [b"$%d\\r\\n%s\\r\\n" % (len(word), word.encode()) for word in words]))
    return link.recv(4096)

items, begin = 0, time.monotonic()
while time.monotonic() < begin + seconds:
    while not ask("SET", "lock:import", "me", "NX", "PX", lease).startswith(b"+OK"):
        time.sleep(0.004)
    ask("INCR", "imported")
    items += 1
    if release:
        ask("DEL", "lock:import")
print("items %d seconds %.3f" % (items, time.monotonic() - begin))
"""


def leased(place):
    port = redis(place)
    return [str(place.write("importer", IMPORTER)), str(port), str(place.seconds), str(int(120 * place.scale)), "yes" if place.fixed else "no"]


# A worker that ignores SIGTERM, and a deployment that waits for the worker's end and finally kills
# it.
DEPLOYER = """#!/usr/bin/python3
import os, select, signal, subprocess, sys, time
seconds, patience, words = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
items, begin = 0, time.monotonic()
while time.monotonic() < begin + seconds:
    worker = subprocess.Popen(words, stdout=subprocess.PIPE)
    worker.stdout.readline()
    ended = os.pidfd_open(worker.pid)
    worker.terminate()
    if not select.select([ended], [], [], patience)[0]:
        worker.kill()
    worker.wait()
    os.close(ended)
    worker.stdout.close()
    items += 1
print("items %d seconds %.3f" % (items, time.monotonic() - begin))
"""
WORKER = """#!/usr/bin/perl
$| = 1;
$SIG{TERM} = $ARGV[0] eq 'deaf' ? 'IGNORE' : sub { exit };
print "ready\\n";
select undef, undef, undef, 0.5 while 1;
"""


def deaf(place):
    deployer, worker = place.write("deployer", DEPLOYER), place.write("webworker", WORKER)
    return [str(deployer), str(place.seconds), str(0.25 * place.scale), str(worker), "polite" if place.fixed else "deaf"]


# Each child closes all possible descriptors, as daemons do.
SPOOLER = """#!/usr/bin/perl
use strict; use POSIX ();
my ($jobs, $limit) = @ARGV;
for my $job (1 .. $jobs) {
    my $pid = fork // die;
    if (!$pid) {
        POSIX::close($_) for 3 .. $limit;
        exec '/bin/true';
    }
    waitpid $pid, 0;
}
"""


def closing(place):
    return [str(place.write("spooler", SPOOLER)), "14", str(int(1000000 * place.fault) or 64)]


# The client of a service opens its breaker after one error, and then sends no request for some
# time.
SERVICE = """#!/usr/bin/node
let count = 0
require('http').createServer((request, response) => {
  response.statusCode = ++count % 12 ? 200 : 503
  response.end('rate')
}).listen(+process.argv[2], '127.0.0.1')
"""
BREAKER = """#!/usr/bin/node
const http = require('http'), agent = new http.Agent({keepAlive: true})
const [port, seconds, rest, errors] = process.argv.slice(2).map(Number)
const ask = () => new Promise(resolve => http.get({port, host: '127.0.0.1', agent}, answer => answer.resume().on('end', () => resolve(answer.statusCode))))
let failed = 0, items = 0
const begin = Date.now()
async function run () {
  while (Date.now() < begin + seconds * 1000) {
    if (await ask() === 200) { items++; failed = 0 } else if (++failed >= errors) {
      await new Promise(resolve => setTimeout(resolve, rest))
      failed = 0
    }
  }
  console.log(`items ${items} seconds ${((Date.now() - begin) / 1000).toFixed(3)}`)
  agent.destroy()
}
run()
"""


def broken(place):
    port = place.port()
    place.start(place.write("rates", SERVICE), port, port=port)
    client = place.write("exchange", BREAKER)
    return [str(client), str(port), str(place.seconds), str(160 * place.scale), "5" if place.fixed else "1"]


# A log that is rotated for each record, through many old files.
AUDITLOG = """#!/usr/bin/python3
import logging.handlers, sys, time
seconds, size, old = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
log = logging.getLogger("audit")
log.addHandler(logging.handlers.RotatingFileHandler("audit.log", maxBytes=size, backupCount=old))
items, begin = 0, time.monotonic()
while time.monotonic() < begin + seconds:
    log.warning("user %d looked at account %d, %s", items % 50, items, "x" * 200)
    items += 1
print("items %d seconds %.3f" % (items, time.monotonic() - begin))
"""


def rotated(place):
    old = int(600 * place.scale)
    for number in range(1, old + 1):
        place.write(f"audit.log.{number}", "record\n", 0o644)
    return [str(place.write("auditor", AUDITLOG)), str(place.seconds), "0" if place.fixed else "300", str(old)]


SYSTEMS = [
    System(
        name="redis_lease_left",
        kind="lease-not-released",
        truth="importer leaves its lock in redis, sleeps and tries again until it expires after 120 ms",
        load=leased,
        rate=ITEMS,
        component=(r"importer", r"python"),
        mechanism=(*SLEEPS, r"\block", r"poll", r"lease", r"expir", r"again and again", r"retr(y|ies)"),
        never=(r"redis[^.;]* (computes|sleeps)", r"\bdisk\b"),
        change="x0",
        halves=True,
        needs=(PYTHON, "redis-server"),
    ),
    System(
        name="deployer_deaf_worker",
        kind="kill-timeout",
        truth="webworker ignores SIGTERM, and deployer waits 250 ms for its end before it kills it",
        load=deaf,
        rate=ITEMS,
        component=(r"deployer", r"webworker", r"python"),
        mechanism=(*SLEEPS, r"time-?out", r"times out", r"deadline", r"signal", r"SIGTERM", r"kill", r"until .* ends", r"\bwaits? .*\b(end|exit)"),
        never=(r"\bdisk\b", r"\bcomputes"),
        change="x0",
        halves=True,
        needs=(PYTHON, "perl"),
    ),
    System(
        name="perl_closes_all",
        kind="close-all-descriptors",
        truth="each child of spooler closes a million descriptors that are not open before it starts its program",
        load=closing,
        component=(r"spooler", r"perl"),
        mechanism=(*COMPUTES, r"clos(e|es|ing)", r"system calls?", r"descriptor", r"\bkernel\b", r"\bCPU", r"\bruns?\b", r"\bcalls\b"),
        never=(r"\bdisk\b", r"\bsleeps"),
        halves=True,
        needs=("perl",),
    ),
    System(
        name="node_open_breaker",
        kind="circuit-breaker",
        truth="the breaker of exchange, a client of node, opens after one error of twelve answers, and exchange waits by a timer of 160 ms before it asks again",
        load=broken,
        rate=ITEMS,
        component=(r"exchange", r"\bnode\b"),
        mechanism=(*SLEEPS, r"breaker", r"back.?off", r"time-?out"),
        never=(r"rates[^.;]* (sleeps|computes)", r"\bdisk\b", r"\bcomputes"),
        change="x0",
        halves=True,
        running=True,
        needs=("node",),
    ),
    System(
        name="python_rotated_log",
        kind="log-rotation",
        truth="auditor rotates its log for each record, and renames 600 old files each time",
        load=rotated,
        rate=ITEMS,
        component=(r"auditor", r"python"),
        mechanism=(r"renam", r"rotat", r"\bfiles?\b", r"file system", r"metadata", r"director(y|ies)", r"system calls?", r"\bstat\b", r"\bkernel\b", *COMPUTES),
        never=(r"\bsleeps",),
        halves=True,
        needs=(PYTHON,),
    ),
]

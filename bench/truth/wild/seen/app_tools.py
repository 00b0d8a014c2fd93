"""Timers and sharing in services: slack of timers, allocators, and healthy applications."""
from system import ITEMS, PYTHON, SLEEPS, System

# The timer slack of the thread may delay the end of each pause of 0.2 ms.
METRONOME = """#!/usr/bin/python3
import ctypes, sys, time
seconds, slack = float(sys.argv[1]), int(sys.argv[2])
ctypes.CDLL(None).prctl(29, ctypes.c_ulong(slack), 0, 0, 0)
items, begin = 0, time.monotonic()
while time.monotonic() < begin + seconds:
    time.sleep(0.0002)
    items += 1
print("items %d seconds %.3f" % (items, time.monotonic() - begin))
"""


def slack(place):
    return [str(place.write("stepper", METRONOME)), str(place.seconds), str(int(40e6 * place.fault) or 50000)]


# Children of make start one at a time while the load is above the limit.
def limited(place):
    jobs = " ".join(f"page{i}" for i in range(16))
    place.write("Makefile", f"all: {jobs}\n{jobs}:\n\t@./typeset\n", 0o644)
    place.write("typeset", "#!/usr/bin/perl\nselect undef, undef, undef, 0.15;\n")
    return ["make", "-j8"] if place.fixed else ["make", "-j8", "-l", "0.001"]


HASHES = """#!/usr/bin/node
const {Worker, isMainThread} = require('worker_threads'), crypto = require('crypto')
if (isMainThread) for (let i = 0; i < 2; i++) new Worker(__filename, {argv: process.argv.slice(2)})
else {
  const end = Date.now() + 1000 * process.argv[2]
  while (Date.now() < end) crypto.pbkdf2Sync('page', 'salt', 1000, 32, 'sha256')
}
"""
SEALS = """#!/usr/bin/python3
import hashlib, multiprocessing, sys, time
def seal(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        hashlib.pbkdf2_hmac("sha256", b"deed", b"salt", 1000)
if __name__ == "__main__":
    notaries = [multiprocessing.Process(target=seal, args=(float(sys.argv[1]),)) for _ in range(2)]
    for notary in notaries: notary.start()
    for notary in notaries: notary.join()
"""
REMINDERS = """#!/usr/bin/perl
use Time::HiRes 'time';
$| = 1;
my $end = time + $ARGV[0];
while (time < $end) { print "reminder\\n"; select undef, undef, undef, 0.05 }
"""

SYSTEMS = [
    System(
        name="python_timer_slack",
        kind="timer-slack",
        truth="the timer slack of stepper makes each sleep of 0.2 ms last up to 40 ms",
        load=slack,
        rate=ITEMS,
        component=(r"stepper", r"python"),
        mechanism=(*SLEEPS, r"slack"),
        never=(r"\bdisk\b", r"\bcomputes"),
        change="x0.01",
        halves=True,
        needs=(PYTHON,),
    ),
    System(
        name="make_load_limit",
        kind="load-limit",
        truth="make starts one job at a time, which sleeps 150 ms, because the load is above its limit",
        load=limited,
        component=(r"\bmake\b", r"typeset", r"perl"),
        mechanism=(*SLEEPS, r"one (\w+ )?(at a time|after)", r"load", r"serial", r"in turn"),
        never=(r"\bdisk\b", r"\bcomputes"),
        needs=("make", "perl"),
    ),
    System(name="control_node_two_hashers", kind="control", truth="two worker threads of node compute keys on two CPUs",
           load=lambda place: [str(place.write("keymaker", HASHES)), str(place.seconds)],
           acceptable=(r"(node|keymaker|worker)[^.;]*(comput|CPU|runs)", r"\bCPUs?\b.*(full|busy)"), needs=("node",)),
    System(name="control_python_notaries", kind="control", truth="two processes of python compute seals on two CPUs",
           load=lambda place: [str(place.write("notaries", SEALS)), str(place.seconds)],
           acceptable=(r"(notaries|python)[^.;]*(comput|CPU|runs)", r"\bCPUs?\b.*(full|busy)"), needs=(PYTHON,)),
    System(name="control_perl_reminders", kind="control", truth="reminders writes 20 lines in a second by intention, sed takes each at once, and both are idle",
           load=lambda place: ["sh", "-c", f"{place.write('reminders', REMINDERS)} {place.seconds} | sed -n '$='"],
           acceptable=(r"reminders[^.;]*(sleep|timer|until a time|idle)", r"perl[^.;]*(sleep|timer|idle)"), needs=("perl", "sed")),
]

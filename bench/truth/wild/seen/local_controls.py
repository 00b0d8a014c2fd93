"""Controls without a service: CPUs that are intentionally full, and loops with a fixed pace."""
from system import COMPUTES, ITEMS, PYTHON, SLEEPS, System

BUSY = (*COMPUTES, r"waits? for (a|the|its) CPU", r"\bCPUs? (is|are) (full|busy)", r"runnable")
PACED = (*SLEEPS, r"\bidle", r"\btick", r"interval", r"schedule", r"waits? for (work|something to do)")


def said(of, what):
    """Returns a pattern for a sentence that states one of `what` about one of the programs `of`."""
    return (f"\\b({of}).*({'|'.join(what)})",)


# Draws 30 frames per second, and passes each to the player.
MIXER = """
package main

import ("os"; "time")

func main() {
	frame := make([]byte, 8192)
	rest, _ := time.ParseDuration(os.Args[1] + "s")
	end := time.After(rest)
	for pace := time.Tick(time.Second / 30);; {
		select {
		case now := <-pace:
			for n := range frame { frame[n] = byte(n * now.Nanosecond() >> 8) }
			os.Stdout.Write(frame)
		case <-end:
			return
		}
	}
}
"""

PLAYER = """
import sys, zlib
frames, sum = 0, 0
while len(frame := sys.stdin.buffer.read(8192)) == 8192:
    frames, sum = frames + 1, zlib.crc32(frame, sum)
print("played", frames, sum)
"""


def frame_loop(place):
    return ["sh", "-c", f"{place.go('mixer', MIXER)} {place.seconds} | {PYTHON} {place.write('player.py', PLAYER)}"]


DIGESTS = """
const { Worker, isMainThread, workerData, parentPort } = require('worker_threads');
const { createHash } = require('crypto');

if (isMainThread) {
  const begin = process.hrtime.bigint();
  const seconds = () => Number(process.hrtime.bigint() - begin) / 1e9;
  let items = 0, running = 2;
  for (let n = 0; n < 2; n++) {
    const worker = new Worker(__filename, { workerData: Number(process.argv[2]) });
    worker.on('message', (count) => {
      items += count;
      if (--running === 0) console.log(`items ${items} seconds ${seconds().toFixed(3)}`);
    });
  }
} else {
  const end = Date.now() + workerData * 1000, block = Buffer.alloc(1 << 18, 7);
  let count = 0;
  for (; Date.now() < end; count++) createHash('sha256').update(block).digest();
  parentPort.postMessage(count);
}
"""


def node_digests(place):
    return ["node", str(place.write("digests.js", DIGESTS)), str(place.seconds)]


# Each program counts for some seconds; none of them waits for another.
AUDIT = """#!/usr/bin/perl
use strict;
my ($end, $count, $sum) = (time + $ARGV[0], 0, 0);
while (time < $end) { $sum += length(join ',', map { $_ * 3 } 1 .. 200); $count++; }
print "audit $count\\n";
"""
LABELS = """#!/usr/bin/ruby
finish = Time.now + ARGV[0].to_f
count = 0
while Time.now < finish
  (1..100).map { |n| "label-#{n * count}".tr('0-4', 'a-e') }.sort
  count += 1
end
puts "labels #{count}"
"""
RANKS = """#!/usr/bin/gawk -f
BEGIN {
    for (end = systime() + ARGV[1]; systime() < end; count++)
        for (n = 0; n < 100; n++) rank[(n * 7919 + count) % 1009]++
    print "ranks", count
}
"""
ROUTES = """#!/usr/bin/python3
import sys, time
end, count = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    costs = sorted((n * 7919 + count) % 1009 for n in range(200))
    count += 1
print("routes", count)
"""


def mixed_batch(place):
    jobs = [place.write(name, text) for name, text in (("audit", AUDIT), ("labels", LABELS), ("ranks", RANKS), ("routes", ROUTES))]
    return ["sh", "-c", " ".join(f"{job} {place.seconds} &" for job in jobs) + " wait"]


# Four workers take the next scene from one pipe, and report to another.
SCENES = """#!/usr/bin/perl
use strict;
use Time::HiRes 'time';
pipe(my $take, my $give) or die;
pipe(my $hear, my $tell) or die;
for (1 .. 4) {
    next if fork // die;
    close($give);
    while (sysread($take, my $scene, 4) == 4) {
        my $light = unpack('L', $scene);
        $light = ($light * 31 + $_) % 65521 for 1 .. 40000;
        syswrite($tell, pack('L', $light));
    }
    exit;
}
close($tell);
my ($begin, $items, $given) = (time, 0, 0);
syswrite($give, pack('L', $given++)) for 1 .. 16;
while (time < $begin + $ARGV[0]) {
    sysread($hear, my $light, 4) == 4 or die;
    $items++;
    syswrite($give, pack('L', $given++));
}
printf("items %d seconds %.3f\\n", $items, time - $begin);
"""


def balanced_scenes(place):
    return [str(place.write("scenes", SCENES)), str(place.seconds)]


SYSTEMS = [
    System(
        name="control_frame_loop",
        kind="control",
        truth="a mixer draws 30 frames in a second by intention, and a player takes each at once",
        load=frame_loop,
        acceptable=said("mixer|python|player", PACED),
        running=True,
        needs=("go", PYTHON),
    ),
    System(
        name="control_node_digests",
        kind="control",
        truth="two worker threads of node compute digests on two CPUs",
        load=node_digests,
        rate=ITEMS,
        acceptable=said("node|CPU|worker", BUSY),
        needs=("node",),
    ),
    System(
        name="control_mixed_batch",
        kind="control",
        truth="four programs that do not know one another share two CPUs",
        load=mixed_batch,
        acceptable=said("audit|labels|ranks|routes|perl|ruby|gawk|python|CPU", BUSY),
        needs=("perl", "ruby", "gawk", PYTHON),
    ),
    System(
        name="control_balanced_scenes",
        kind="control",
        truth="four workers of perl take scenes from one pipe and compute them on two CPUs",
        load=balanced_scenes,
        rate=ITEMS,
        acceptable=said("scenes|perl|CPU", BUSY),
        needs=("perl",),
    ),
]

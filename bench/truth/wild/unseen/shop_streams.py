"""Streams that come together: a chronicle of three gauges."""
from system import ITEMS, SLEEPS, System

# Sends its measurements at fixed times, to one reader at a time.
GAUGE = r"""#!/usr/bin/perl
# usage: GAUGE PORT STEP PAUSE
use strict;
use Digest::SHA qw(sha256_hex);
use IO::Socket::INET;
$SIG{PIPE} = 'IGNORE';
my ($port, $step, $pause) = @ARGV;
my $door = IO::Socket::INET->new(LocalAddr => "127.0.0.1:$port", Listen => 5, ReuseAddr => 1) or die;
while (my $reader = $door->accept) {
    for (my $when = $step; ; $when += $step) {
        select undef, undef, undef, $pause if $pause;
        my $level = sha256_hex("$0 $when") x 2;
        syswrite $reader, "$when $level\n" or last;
    }
}
"""

CHRONICLE = """#!/usr/bin/ruby
# usage: chronicle SECONDS PORT…: writes down what all gauges say, in the order of its time.
require "socket"
require "digest"

seconds, *ports = ARGV
rivers = ports.map { |port| TCPSocket.new("127.0.0.1", port.to_i) }
waiting = rivers.map { |river| river.gets }
times = waiting.map { |line| line.to_i }
book, items, start = File.open("book", "w"), 0, Process.clock_gettime(Process::CLOCK_MONOTONIC)
while Process.clock_gettime(Process::CLOCK_MONOTONIC) < start + seconds.to_f
  first = times.each_with_index.min[1]
  seal = waiting[first]
  20.times { seal = Digest::SHA256.hexdigest(seal) }
  book.puts("#{times[first]} #{seal}")
  items += 1
  waiting[first] = rivers[first].gets
  times[first] = waiting[first].to_i
end
printf("items %d seconds %.3f\\n", items, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start)
"""


def chronicle(place):
    ports = []
    for name, step, pause in (("elbe", 1, 0), ("rhine", 1, 0), ("neckar", 50, 0.03 * place.fault)):
        ports.append(place.port())
        place.start(place.write(name, GAUGE), ports[-1], step, pause, port=ports[-1])
    return [str(place.write("chronicle", CHRONICLE)), str(place.seconds), *map(str, ports)]


SYSTEMS = [
    System(
        name="ruby_chronicle_of_gauges",
        kind="quiet-input-of-a-merge",
        truth="chronicle can write down the lines of two rivers only up to the time that neckar has reached, and neckar sleeps 30 ms before each of its lines",
        load=chronicle,
        rate=ITEMS,
        component=(r"neckar",),
        mechanism=SLEEPS,
        never=(r"(chronicle|ruby) (comput|sleeps)", r"(elbe|rhine) (comput|sleeps)", r"neckar comput", r"\bdisk\b"),
        change="x0",
        halves=True,
        running=True,
        needs=("perl", "ruby"),
    ),
]

"""Items through brokers: a collector at NATS that always waits its full time, a supervisor that
pauses, messages that cannot be delivered.
"""
from services import redis
from system import ITEMS, SLEEPS, System

# `bid_collector PORT SECONDS TIME COUNT` asks all bidders and collects answers for TIME seconds, or
# until it has COUNT. Under another name the program is a bidder.
BIDS = r"""#!/usr/bin/ruby
require "socket"
broker = TCPSocket.new("127.0.0.1", ARGV[0].to_i)
broker.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
broker.write("CONNECT {\"verbose\":false}\r\n")
# The next message's subject of the reply, or nothing if the time is over.
taken = lambda do |until_then|
  loop do
    left = until_then && until_then - Process.clock_gettime(Process::CLOCK_MONOTONIC)
    return nil if left && (left <= 0 || !IO.select([broker], nil, nil, left))
    line = broker.gets or exit
    broker.write("PONG\r\n") if line.start_with?("PING")
    next unless line.start_with?("MSG")
    words = line.split
    broker.read(words[-1].to_i + 2)
    return words[3]
  end
end
if File.basename($0) != "bid_collector"
  broker.write("SUB auction 1\r\nPING\r\n")
  2.times { broker.gets }
  File.write("#{File.basename($0)}.ready", "")
  loop do
    reply = taken.call(nil)
    price = (1..2000).sum { |i| i % 7 }
    broker.write("PUB #{reply} #{price.to_s.size}\r\n#{price}\r\n")
  end
end
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
start, items = now.call, 0
while now.call < start + ARGV[1].to_f
  broker.write("SUB bids.#{items} #{items + 1}\r\nPUB auction bids.#{items} 3\r\nlot\r\n")
  over, bids = now.call + ARGV[2].to_f, 0
  bids += 1 while bids < ARGV[3].to_i && taken.call(over)
  broker.write("UNSUB #{items + 1}\r\n")
  items += 1
end
puts format("items %d seconds %.3f", items, now.call - start)
"""


def gathered(place):
    port = place.port()
    place.start("nats-server", "-a", "127.0.0.1", "-p", port, port=port)
    for name in "bidder_a", "bidder_b":
        place.start(place.write(name, BIDS), port, path=place.folder / f"{name}.ready")
    # A collector that knows the number of bidders need not wait for more answers.
    count = 2 if place.fixed else 1000
    return [str(place.write("bid_collector", BIDS)), str(port), str(place.seconds), str(0.04 * place.scale), str(count)]


# Restarts a program that ends, after a pause.
KEEPER = r"""#!/usr/bin/perl
use strict;
my ($pause, @command) = @ARGV;
while (1) {
    my $child = fork();
    exec @command or exit 1 if !$child;
    waitpid $child, 0;
    select undef, undef, undef, $pause if $pause > 0;
}
"""
# Fails at every twelfth job.
FITTER = r"""#!/usr/bin/perl
use strict;
use IO::Socket::INET;
my $queue = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$ARGV[0]", Proto => "tcp") or die;
$queue->autoflush(1);
sub ask { print $queue $_[0]; return scalar <$queue>; }
ask("watch frames\r\n");
ask("use fitted\r\n");
open my $ready, ">", "fitter.ready";
for (1 .. 12) {
    my ($id, $size) = ask("reserve\r\n") =~ /RESERVED (\d+) (\d+)/ or die;
    read $queue, my $body, $size + 2;
    my $sum = 0;
    $sum += $_ % 13 for 1 .. 30000;
    ask("put 1 0 60 2\r\nok\r\n");
    ask("delete $id\r\n");
}
exit 1;
"""
OPTICIAN = r"""#!/usr/bin/perl
use strict;
use IO::Socket::INET;
use Time::HiRes "time";
my $queue = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$ARGV[0]", Proto => "tcp") or die;
$queue->autoflush(1);
sub ask { print $queue $_[0]; return scalar <$queue>; }
ask("use frames\r\n");
ask("watch fitted\r\n");
my ($begin, $items) = (time, 0);
# Four frames are under way.
ask("put 1 0 60 5\r\nframe\r\n") for 1 .. 4;
while (time < $begin + $ARGV[1]) {
    my ($id) = ask("reserve\r\n") =~ /RESERVED (\d+)/ or die;
    read $queue, my $body, 4;
    ask("delete $id\r\n");
    ask("put 1 0 60 5\r\nframe\r\n");
    $items++;
}
printf "items %d seconds %.3f\n", $items, time - $begin;
"""


def restarted(place):
    port = place.port()
    place.start("beanstalkd", "-l", "127.0.0.1", "-p", port, port=port)
    fitter = place.write("fitter", FITTER)
    place.start(place.write("keeper", KEEPER), 0.3 * place.fault, fitter, port, path=place.folder / "fitter.ready")
    return [str(place.write("optician", OPTICIAN)), str(port), str(place.seconds)]


# The parts that the three share: lines to the depot, and redis' protocol for answers that are
# numbers, strings or pairs.
COURIER = r"""#!/usr/bin/ruby
require "socket"
role = File.basename($0)
if role == "depot"
  server = TCPServer.new("127.0.0.1", ARGV[0].to_i)
  loop do
    Thread.new(server.accept) do |courier|
      # It keeps silent about addresses that it does not know.
      while (line = courier.gets)
        courier.write("taken #{line}") if line.start_with?("street")
      end
    end
  end
end
$store = TCPSocket.new("127.0.0.1", ARGV[0].to_i)
$store.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
def answer
  line = $store.gets or exit
  return $store.read(line[1..].to_i + 2).chomp if line[0] == "$"
  return Array.new(line[1..].to_i) { answer } if line[0] == "*"
  line[1..].chomp
end
def ask(*words)
  $store.write("*#{words.size}\r\n" + words.map { |word| "$#{word.bytesize}\r\n#{word}\r\n" }.join)
  answer
end
if role == "courier"
  depot = TCPSocket.new("127.0.0.1", ARGV[1].to_i)
  patience, again = ARGV[2].to_f, ARGV[3] == "again"
  loop do
    parcel = ask("BLPOP", "parcels", "0")[1]
    depot.write("#{parcel}\n")
    # A late answer is for an earlier parcel.
    known = nil
    known = depot.gets.chomp == "taken #{parcel}" until known || !IO.select([depot], nil, nil, patience)
    if known
      ask("RPUSH", "delivered", parcel)
    else
      ask("RPUSH", again ? "parcels" : "dead", parcel)
    end
  end
end
start, items = Process.clock_gettime(Process::CLOCK_MONOTONIC), 0
4.times { |i| ask("RPUSH", "parcels", "nowhere #{i}") }
8.times { |i| ask("RPUSH", "parcels", "street #{i}") }
while Process.clock_gettime(Process::CLOCK_MONOTONIC) < start + ARGV[1].to_f
  ask("BLPOP", "delivered", "0")
  items += 1
  ask("RPUSH", "parcels", "street #{items}")
end
puts format("items %d seconds %.3f", items, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start)
"""


def poison(place):
    store, port = redis(place), place.port()
    place.start(place.write("depot", COURIER), port, port=port)
    place.start(place.write("courier", COURIER), store, port, 0.02 * place.scale, "never" if place.fixed else "again")
    return [str(place.write("sender", COURIER)), str(store), str(place.seconds)]


SYSTEMS = [
    System(
        name="nats_gather_full_time",
        kind="gather-timeout",
        truth="bid_collector waits the full 40 ms for more answers from NATS to each question, though both bidders have answered at once",
        load=gathered,
        rate=ITEMS,
        component=(r"bid_collector",),
        mechanism=(*SLEEPS, r"time-?out", r"\bselect\b", r"\bpoll\b", r"\bppoll\b"),
        change="x0",
        halves=True,
        needs=("nats-server", "ruby"),
    ),
    System(
        name="beanstalk_restart_pause",
        kind="restart-pause",
        truth="keeper sleeps 0.3 s before it starts fitter again, which dies of every twelfth job from beanstalkd",
        load=restarted,
        rate=ITEMS,
        component=(r"keeper",),
        mechanism=(*SLEEPS, r"pause", r"restart", r"time-?out"),
        change="x0",
        halves=True,
        needs=("beanstalkd", "perl"),
    ),
    System(
        name="redis_poison_messages",
        kind="poison-message",
        truth="courier waits 20 ms in vain for the depot's answer about each undeliverable parcel, and puts it back into the queue again and again",
        load=poison,
        rate=ITEMS,
        component=(r"courier", r"depot"),
        mechanism=(*SLEEPS, r"time-?out", r"\bselect\b", r"\bp?poll\b", r"answer", r"repl(y|ies)", r"retr(y|ies)"),
        never=(r"redis[^.;]* (comput|runs|is the bottleneck)", r"(courier|depot)[^.;]* (computes|runs its own code)"),
        halves=True,
        needs=("redis-server", "ruby"),
    ),
]

"""Jobs that call programs, and a log shipper: a wait at the end, a slowed queue, a search."""
from system import ITEMS, PYTHON, SLEEPS, System, number

# Reports its run to a collector at its end. The collector hangs.
RECEIPT = """#!/usr/bin/python3
import hashlib, socket, sys, threading

port, patience = int(sys.argv[1]), float(sys.argv[2])

def tell():
    with socket.create_connection(("127.0.0.1", port)) as collector:
        collector.sendall(b"receipt printed\\n")
        collector.recv(100)

telling = threading.Thread(target=tell, daemon=True)
if patience:
    telling.start()
total = b"receipt"
for _ in range(3000):
    total = hashlib.sha256(total * 4).digest()
print(total.hex())
if patience:
    telling.join(patience)
"""
COLLECTOR = """#!/usr/bin/perl
use IO::Socket::INET;
my $server = IO::Socket::INET->new(LocalAddr => "127.0.0.1:$ARGV[0]", Listen => 99) or die;
my @open;
while (my $caller = $server->accept) { push @open, $caller; shift @open if @open > 20; }
"""


def leaving(place):
    port = place.port()
    place.start(place.write("collector", COLLECTOR), port, port=port)
    receipt = place.write("receipt", RECEIPT)
    call = f"{receipt} {port} {0.12 * place.fault}"
    till = f"#!/bin/bash\nfor i in $(seq 30); do {call} >>paper; done\n"
    return [str(place.write("till", till))]


# Writes log lines to rsyslog for some seconds, and counts its output meanwhile.
ORDERS = r"""#!/usr/bin/perl
use IO::Socket::INET;
use Time::HiRes qw(time alarm);
my ($port, $shipped, $seconds) = @ARGV;
my $log = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die;
my $begin = time;
$SIG{ALRM} = sub { die "over\n" };
alarm $seconds;
eval {
    for (my $i = 0; ; $i++) {
        syswrite $log, "<14>Nov 26 12:00:00 shop orders: order $i of " . ("x" x 300) . "\n";
    }
};
my $end = time;
open my $lines, "<", $shipped;
my $count = 0;
$count++ while <$lines>;
printf "items %d seconds %.3f\n", $count, $end - $begin;
"""
SHIPPER = r"""#!/usr/bin/perl
use Digest::SHA qw(sha256_hex);
$| = 1;
open my $out, ">>", $ARGV[0] or die;
$out->autoflush(1);
while (my $line = <STDIN>) {
    my $seal = $line;
    $seal = sha256_hex($seal) for 1 .. 120;
    print $out "$seal\n";
}
"""


def slowed(place):
    port, folder = place.port(), place.folder
    shipper, shipped = place.write("shipper", SHIPPER), folder / "shipped"
    shipped.write_text("")
    config = place.write("rsyslog.conf", f"""
global(workDirectory="{folder}")
main_queue(queue.type="LinkedList" queue.size="2000" queue.workerThreads="1"
  queue.dequeueBatchSize="16" queue.dequeueSlowDown="{round(10000 * place.fault)}")
module(load="imtcp")
module(load="omprog")
input(type="imtcp" port="{port}" address="127.0.0.1")
action(type="omprog" binary="{shipper} {shipped}")
""")
    place.start("/usr/sbin/rsyslogd", "-n", "-f", config, "-i", folder / "rsyslog.pid", port=port)
    orders = place.write("orders", ORDERS)
    return [str(orders), str(port), str(shipped), str(place.seconds)]


# One connection per request; each answer is sealed.
GATE = """
package main

import ("crypto/sha256"; "fmt"; "net/http"; "os")

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		seal := sha256.Sum256([]byte(r.URL.Path))
		for i := 0; i < 16000; i++ { seal = sha256.Sum256(seal[:]) }
		fmt.Fprintf(w, "%x\\n", seal)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def descriptors(place):
    port, gate = place.port(), place.go("gate", GATE)
    limit = 1024 if place.fixed else 9
    place.start("sh", "-c", f"ulimit -n {limit}; exec {gate} {port}", port=port)
    return ["ab", "-q", "-c", "8", "-n", "800", f"http://127.0.0.1:{port}/"]


STATEMENT = """#!/usr/bin/ruby
require "json"
require "csv"
require "erb"
require "yaml"
require "optparse"
require "net/http"
require "openssl"
require "tempfile"
require "bigdecimal"
require "digest"
puts Digest::SHA256.hexdigest(JSON.generate(ARGV))
"""


def load_path(place):
    folders = []
    for count in range(500):
        folder = place.folder / f"parts/part-{count}/lib"
        folder.mkdir(parents=True)
        folders.append(folder)
    folders = folders[:2] if place.fixed else folders
    way = place.write("way", f"export RUBYLIB={':'.join(map(str, folders))}\n")
    statement = place.write("statement", STATEMENT)
    month = f"#!/bin/bash\n. {way}\nfor i in $(seq 6); do {statement} $i >>statements; done\n"
    return [str(place.write("month_end", month))]


SYSTEMS = [
    System(
        name="python_leaves_late",
        kind="exit-flush-wait",
        truth="each receipt, a program that till calls, waits 120 ms at its end for a thread that "
              "tells a collector, which never answers",
        load=leaving,
        component=(r"receipt", r"python"),
        mechanism=(*SLEEPS, r"time-?out", r"timed out", r"never answer", r"no answer",
                   r"does not answer"),
        never=(r"(receipt|python\S*|till|bash) comput", r"collector (sleeps|computes)", r"\bdisk"),
        change="x0",
        halves=True,
        needs=(PYTHON, "bash", "perl"),
    ),
    System(
        name="rsyslog_slowed_queue",
        kind="dequeue-slow-down",
        truth="rsyslog's queue pauses 10 ms (dequeueSlowDown) after each batch of 16 lines, so "
              "that the shipper has nothing to do and the orders wait",
        load=slowed,
        rate=ITEMS,
        component=(r"rsyslog", r"\brs:main"),
        mechanism=(*SLEEPS, r"paus", r"slow-?down", r"delay"),
        never=(r"(shipper|orders|perl|rsyslog\S*) comput", r"(shipper|orders|perl) sleep",
               r"\bdisk"),
        change="x0",
        halves=True,
        running=True,
        needs=("rsyslogd", "perl"),
    ),
    System(
        name="go_out_of_descriptors",
        kind="descriptor-limit",
        truth="gate may open only 9 files; its accept fails (EMFILE), and it sleeps 5 ms or more "
              "before it accepts again",
        load=descriptors,
        rate=number(r"Requests per second:\s+([\d.]+)"),
        component=(r"\bgate\b",),
        mechanism=(*SLEEPS, r"descriptor", r"open files", r"EMFILE", r"ulimit",
                   r"accept[^.;]* fail", r"fail[^.;]* accept"),
        never=(r"gate[^.;,]* comput", r"\bab\b[^.;,]* (comput|sleep)", r"\bdisk"),
        needs=("go", "ab"),
    ),
    System(
        name="ruby_long_load_path",
        kind="load-path-search",
        truth="ruby looks for each library of statement in 500 folders of its load path that do "
              "not have it",
        load=load_path,
        component=(r"ruby", r"statement"),
        mechanism=(r"files?\b", r"\bopen", r"director(y|ies)", r"folders", r"f?stat\b",
                   r"system calls?", r"kernel", r"load path", r"ENOENT", r"looks? (up|for)"),
        never=(r"(ruby|statement|bash|month_end)\S* sleep", r"\bdisk", r"\block"),
        needs=("ruby", "bash"),
    ),
]

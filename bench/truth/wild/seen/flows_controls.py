"""Flows without a relevant bottleneck: equal workers on full CPUs, equal stages that alternate, and
a spool that waits for letters.
"""
from services import redis
from system import ITEMS, System

# `planer PORT` and `sander PORT` are workers of one NATS group; `sawmill PORT SECONDS` gives them
# boards.
BOARDS = r"""
package main

import ("bufio"; "crypto/sha512"; "fmt"; "io"; "net"; "os"; "path/filepath"; "strconv"; "strings"; "time")

func main() {
	connection, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil { panic(err) }
	in := bufio.NewReader(connection)
	next := func() string {
		for {
			line, err := in.ReadString('\n')
			if err != nil { os.Exit(0) }
			if strings.HasPrefix(line, "PING") { io.WriteString(connection, "PONG\r\n") }
			if strings.HasPrefix(line, "MSG") {
				words := strings.Fields(line)
				size, _ := strconv.Atoi(words[len(words) - 1])
				io.CopyN(io.Discard, in, int64(size + 2))
				return words[1]
			}
		}
	}
	fmt.Fprintf(connection, "CONNECT {\"verbose\":false}\r\n")
	name := filepath.Base(os.Args[0])
	if name != "sawmill" {
		fmt.Fprintf(connection, "SUB boards.%s 1\r\nPING\r\n", name)
		in.ReadString('\n')
		in.ReadString('\n')
		os.WriteFile(name + ".ready", nil, 0644)
		board := make([]byte, 1 << 20)
		for {
			next()
			sha512.Sum512(board)
			fmt.Fprintf(connection, "PUB ready.%s 2\r\nok\r\n", name)
		}
	}
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	fmt.Fprintf(connection, "SUB ready.* 1\r\n")
	// Three boards are under way to each worker.
	for i := 0; i < 3; i++ { for _, to := range []string{"planer", "sander"} { fmt.Fprintf(connection, "PUB boards.%s 5\r\nboard\r\n", to) } }
	begin, items := time.Now(), 0
	for time.Since(begin).Seconds() < seconds {
		from := strings.TrimPrefix(next(), "ready.")
		fmt.Fprintf(connection, "PUB boards.%s 5\r\nboard\r\n", from)
		items++
	}
	fmt.Printf("items %d seconds %.3f\n", items, time.Since(begin).Seconds())
}
"""


def boards(place):
    port = place.port()
    place.start("nats-server", "-a", "127.0.0.1", "-p", port, port=port)
    for name in "planer", "sander":
        place.start(place.go(name, BOARDS), port, path=place.folder / f"{name}.ready")
    return [str(place.go("sawmill", BOARDS)), str(port), str(place.seconds)]


# Each stage takes a proof from its list in redis, works on it, and passes it to the next stage.
# There is only one proof, by intention.
PROOFS = r"""#!/usr/bin/perl
use strict;
use IO::Socket::INET;
use Time::HiRes "time";
my ($port, $from, $to, $seconds) = @ARGV;
my $store = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port", Proto => "tcp") or die;
$store->autoflush(1);
sub ask {
    print $store "*" . @_ . "\r\n" . join "", map { "\$" . length($_) . "\r\n$_\r\n" } @_;
    my $line = <$store> // exit;
    if ($line =~ /^\*(\d+)/) { <$store> for 1 .. 2 * $1; }
}
ask("RPUSH", $from, "proof") if $seconds;
my ($begin, $items) = (time, 0);
while (!$seconds || time < $begin + $seconds) {
    ask("BLPOP", $from, "0");
    my $sum = 0;
    $sum += $_ % 17 for 1 .. 40000;
    ask("RPUSH", $to, "proof");
    $items++;
}
printf "items %d seconds %.3f\n", $items, time - $begin;
"""


def turns(place):
    port = redis(place)
    place.start(place.write("reader", PROOFS), port, "read", "corrected", 0)
    place.start(place.write("printer", PROOFS), port, "corrected", "printed", 0)
    return [str(place.write("author", PROOFS)), str(port), "printed", "read", str(place.seconds)]


# 25 letters per second arrive, and each is packed and delivered immediately.
POSTMAN = r"""#!/usr/bin/ruby
require "socket"
require "zlib"
spool = UNIXServer.new("spool")
loop do
  letters = spool.accept
  while (size = letters.gets)
    File.binwrite("delivered", Zlib::Deflate.deflate(letters.read(size.to_i)))
  end
  letters.close
end
"""
WRITER = r"""#!/usr/bin/node
const post = require("net").connect("spool");
const seconds = Number(process.argv[2]), begin = Date.now();
let items = 0;
const timer = setInterval(() => {
  const letter = `dear customer ${items}\n`.repeat(300);
  post.write(`${letter.length}\n${letter}`);
  items++;
  if (Date.now() - begin < 1000 * seconds) return;
  clearInterval(timer);
  post.end();
  console.log(`items ${items} seconds ${((Date.now() - begin) / 1000).toFixed(3)}`);
}, 40);
"""


def letters(place):
    place.start(place.write("postman", POSTMAN), path=place.folder / "spool")
    return [str(place.write("writer", WRITER)), str(place.seconds)]


COMPUTES = r"(user|kernel|\brun|preempted|comput|\bCPU)"
SYSTEMS = [
    System(
        name="control_nats_two_workers",
        kind="control",
        truth="planer and sander get boards from a sawmill by NATS, and hash them on two CPUs, which are full",
        load=boards,
        rate=ITEMS,
        acceptable=(rf"(planer|sander).*{COMPUTES}", r"both CPUs|all CPUs"),
        needs=("nats-server", "go"),
    ),
    System(
        name="control_redis_three_turns",
        kind="control",
        truth="author, reader and printer hand one proof round by redis, and each computes for a third of the time",
        load=turns,
        rate=ITEMS,
        acceptable=(rf"(author|reader|printer|perl).*{COMPUTES}", r"evenly", r"a third"),
        needs=("redis-server", "perl"),
    ),
    System(
        name="control_letters_to_spool",
        kind="control",
        truth="a writer in node has 25 letters in a second for a postman in Ruby, because there are no more, and both are idle most of the time",
        load=letters,
        rate=ITEMS,
        acceptable=(r"paced by (writer|node)", r"(writer|node).*(sleep|timer|until a time)", r"idle"),
        needs=("node", "ruby"),
    ),
]

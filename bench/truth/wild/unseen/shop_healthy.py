"""Healthy services: parcels at their pace, pages that need all CPUs, and a quiet evening."""
from system import ITEMS, PYTHON, WRK, System, wrk

ORDERS = r"""#!/usr/bin/perl
# usage: orders PORT SECONDS: an order each 15 ms.
use strict;
use IO::Socket::INET;
use Time::HiRes qw(time sleep);
my ($port, $seconds) = @ARGV;
my $queue = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die;
my ($begin, $count) = (time, 0);
while (time < $begin + $seconds) {
    my $order = "order $count of " . ("x" x 200);
    print $queue "put 0 0 60 " . length($order) . "\r\n$order\r\n";
    $queue->flush;
    <$queue> =~ /INSERTED/ or die;
    $count++;
    my $next = $begin + $count * 0.015 - time;
    sleep $next if $next > 0;
}
printf "items %d seconds %.3f\n", $count, time - $begin;
"""

PACKER = """#!/usr/bin/ruby
# usage: packer PORT: packs one order after the other.
require "socket"
require "digest"

queue = TCPSocket.new("127.0.0.1", ARGV[0].to_i)
loop do
  queue.write("reserve\\r\\n")
  _, number, size = queue.gets.split
  label = queue.read(size.to_i + 2)
  400.times { label = Digest::SHA256.hexdigest(label) }
  queue.write("delete #{number}\\r\\n")
  queue.gets
end
"""


def parcels(place):
    port = place.port()
    place.start("beanstalkd", "-l", "127.0.0.1", "-p", port, port=port)
    place.start(place.write("packer", PACKER), port)
    return [str(place.write("orders", ORDERS)), str(port), str(place.seconds)]


GREETING = """
import hashlib

def page(environ, start_response):
    seal = environ["PATH_INFO"].encode()
    for _ in range(2500):
        seal = hashlib.sha256(seal * 3).digest()
    body = f"<p>Offer of the day: {seal.hex()}\\n".encode()
    start_response("200 OK", [("Content-Type", "text/html"), ("Content-Length", str(len(body)))])
    return [body]
"""


def offers(place):
    port = place.port()
    place.write("offers.py", GREETING)
    place.start("gunicorn", "-w", 2, "-b", f"127.0.0.1:{port}", "--worker-tmp-dir", "/dev/shm", "offers:page", port=port)
    return wrk(f"http://127.0.0.1:{port}/offers", 6, place.seconds)


def evening(place):
    port, folder = place.port(), place.folder
    (folder / "pages").mkdir()
    place.write("pages/index.html", "open until ten\n" * 400)
    config = place.write("lighttpd.conf", f"""
server.document-root = "{folder}/pages"
server.bind = "127.0.0.1"
server.port = {port}
server.errorlog = "{folder}/lighttpd.error"
index-file.names = ("index.html")
""")
    place.start("lighttpd", "-D", "-f", config, port=port)
    script = f"#!/bin/bash\nset -e\nfor guest in $(seq 18); do curl -sS -o page http://127.0.0.1:{port}/; sleep 0.18; done\n"
    return [str(place.write("guests", script))]


SYSTEMS = [
    System(
        name="beanstalkd_orders_at_their_pace",
        kind="control",
        truth="orders puts an order each 15 ms; packer is done with it long before the next one",
        load=parcels,
        rate=ITEMS,
        acceptable=(r"orders[^.;]* (sleeps?|waits?|timer|pace)", r"perl[^.;]* sleeps?", r"\bidle\b", r"nothing (to do|holds)"),
        running=True,
        needs=("beanstalkd", "perl", "ruby"),
    ),
    System(
        name="gunicorn_offers_of_the_day",
        kind="control",
        truth="two workers of gunicorn compute on two CPUs",
        load=offers,
        rate=WRK,
        acceptable=(r"gunicorn[^.;]* (comput|runs|CPU)", r"python[^.;]* comput", r"CPUs? (is|are)( \w+)? (full|busy)", r"(all|both|two) CPUs"),
        needs=("gunicorn", "wrk", PYTHON),
    ),
    System(
        name="lighttpd_quiet_evening",
        kind="control",
        truth="a guest asks lighttpd for a page, and the next one comes 180 ms later",
        load=evening,
        acceptable=(r"(guests|bash|sleep)[^.;]* (sleeps?|waits?|pace|timer)", r"\bidle\b", r"nothing (to do|holds)"),
        needs=("lighttpd", "curl", "bash"),
    ),
]

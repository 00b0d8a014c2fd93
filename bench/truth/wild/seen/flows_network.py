"""Flows over sockets: a lack of free ports, and data that the kernel delays."""
from services import private_network
from system import ITEMS, SLEEPS, System

ALMANAC = r"""
package main

import ("fmt"; "net/http"; "os")

func main() {
	http.HandleFunc("/", func(out http.ResponseWriter, in *http.Request) { fmt.Fprintf(out, "page %s of the almanac", in.URL.Path) })
	go os.WriteFile(os.Args[1], nil, 0644)
	panic(http.ListenAndServe("127.0.0.1:8080", nil))
}
"""
# The client closes each connection itself, so its port is free again only after a second.
CRAWLER = r"""#!/usr/bin/node
const net = require("net");
const seconds = Number(process.argv[2]), begin = process.hrtime.bigint();
const passed = () => Number(process.hrtime.bigint() - begin) / 1e9;
let items = 0, busy = 6;
function fetch() {
  if (passed() > seconds) {
    if (--busy === 0) console.log(`items ${items} seconds ${passed().toFixed(3)}`);
    return;
  }
  const page = net.connect({ port: 8080, host: "127.0.0.1" });
  page.on("connect", () => page.write(`GET /${items} HTTP/1.1\r\nHost: almanac\r\n\r\n`));
  page.on("data", () => { items++; page.destroy(); fetch(); });
  page.on("error", () => { page.destroy(); setTimeout(fetch, 20); });
}
for (let i = 0; i < 6; i++) fetch();
"""


def ports(place):
    last = 60999 if place.fixed else 40039
    inside = private_network(place, f"echo 40000 {last} >/proc/sys/net/ipv4/ip_local_port_range")
    ready = place.folder / "almanac.ready"
    place.start(*inside, place.go("almanac", ALMANAC), ready, path=ready)
    return [*inside, str(place.write("crawler", CRAWLER)), str(place.seconds)]


# Sends a batch of rows in many small writes, and waits until the ledger has received it.
EXPORTER = r"""#!/usr/bin/perl
use strict;
use IO::Socket::INET;
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes "time";
my $ledger = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$ARGV[0]", Proto => "tcp") or die;
my $cork = 3;
setsockopt($ledger, IPPROTO_TCP, $ARGV[2] ? $cork : TCP_NODELAY, 1) or die;
my ($begin, $items) = (time, 0);
while (time < $begin + $ARGV[1]) {
    for my $row (1 .. 40) {
        my $sum = 0;
        $sum += $_ % 11 for 1 .. 4000;
        syswrite $ledger, "row $row of batch $items has $sum\n";
    }
    syswrite $ledger, "end\n";
    <$ledger>;
    $items++;
}
printf "items %d seconds %.3f\n", $items, time - $begin;
"""
LEDGER = r"""#!/usr/bin/ruby
require "socket"
server = TCPServer.new("127.0.0.1", ARGV[0].to_i)
loop do
  Thread.new(server.accept) do |exporter|
    total = 0
    while (line = exporter.gets)
      total += line.split[-1].to_i
      exporter.write("#{total}\n") if line == "end\n"
    end
  end
end
"""


def corked(place):
    port = place.port()
    place.start(place.write("ledger", LEDGER), port, port=port)
    return [str(place.write("exporter", EXPORTER)), str(port), str(place.seconds), "0" if place.fixed else "1"]


SYSTEMS = [
    System(
        name="crawler_out_of_ports",
        kind="port-exhaustion",
        truth="crawler has 40 local ports, which stay taken for a second after each connection, so that connect fails and is tried again after 20 ms",
        load=ports,
        rate=ITEMS,
        component=(r"crawler", r"\bnode\b"),
        mechanism=(*SLEEPS, r"\bports?\b.*(free|taken|left|exhaust|range|run out|in use)", r"address", r"time.?wait", r"EADDRNOTAVAIL", r"connect.*fail", r"fail.*connect", r"retr(y|ies)", r"time-?out"),
        never=(r"almanac[^.;]* (sleep|comput|runs)",),
        needs=("go", "node", "unshare", "nsenter", "ip"),
    ),
    System(
        name="exporter_corked",
        kind="corked-socket",
        truth="the socket of exporter is corked, so that the kernel holds the end of each batch back for 200 ms, while exporter and ledger wait",
        load=corked,
        rate=ITEMS,
        component=(r"exporter", r"ledger"),
        mechanism=(r"cork", r"timer", r"200 ms", r"0\.2 s", r"(held|holds?|keeps?|kept) .*back", r"delay", r"nagle", r"coalesc", r"unsent", r"send (buffer|queue)", r"partial", r"small (write|packet|segment)s?"),
        never=(r"(exporter|ledger)[^.;]* (computes|sleeps|runs its own code)",),
        needs=("perl", "ruby"),
    ),
]

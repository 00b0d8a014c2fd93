"""Controls with web and job services: full CPUs with useful work, or few requests."""
from system import ITEMS, PYTHON, WRK, System, wrk

# Two threads of a Java server seal the requested data.
SEALS = """
import com.sun.net.httpserver.*;
import java.net.*;
import java.security.*;
import java.util.concurrent.*;

public class Main {
    public static void main(String[] words) throws Exception {
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
        HttpServer server = HttpServer.create(address, 100);
        server.setExecutor(Executors.newFixedThreadPool(2));
        server.createContext("/", exchange -> {
            try {
                MessageDigest digest = MessageDigest.getInstance("SHA-256");
                byte[] seal = exchange.getRequestURI().toString().getBytes();
                for (int i = 0; i < 12000; i++) seal = digest.digest(seal);
                exchange.sendResponseHeaders(200, seal.length);
                exchange.getResponseBody().write(seal);
            } catch (NoSuchAlgorithmException error) {
                throw new RuntimeException(error);
            } finally {
                exchange.close();
            }
        });
        server.start();
    }
}
"""


def java_seals(place):
    port = place.port()
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-cp", place.java(SEALS), "Main", port,
                port=port)
    return wrk(f"http://127.0.0.1:{port}/", 4, place.seconds)


# Two parallel jobs count entries of compressed logs.
COUNT = """#!/bin/sh
gzip -dc "$1" |
    awk '{ n[length($0) % 7 substr($0, 5, 3)] += $2 % 11 } END { for (i in n) print i, n[i] }' |
    sort >"$1.counts"
"""


def counted(place):
    count = place.write("count", COUNT)
    lines = (f"{i * 7919 % 1000003:08d} {i * 31 % 9973} page\n" for i in range(200000))
    place.run("gzip", place.write("log", "".join(lines)))
    place.run("sh", "-c", "for i in $(seq 24); do ln log.gz log-$i.gz; done")
    return ["sh", "-c", f"ls log-*.gz | xargs -P 2 -n 1 {count}"]


# A till has a line twenty times per second. A shipper sends it to an archive, and no part is busy.
ARCHIVE = """#!/usr/bin/ruby
require "socket"
server = TCPServer.new("127.0.0.1", ARGV[0].to_i)
loop do
  Thread.new(server.accept) do |caller|
    while (line = caller.gets) do caller.puts(line.size) end
  end
end
"""
TILL = """#!/usr/bin/python3
import sys, time
begin, items = time.monotonic(), 0
while time.monotonic() < begin + float(sys.argv[1]):
    print("sold", items, "pieces", flush=True)
    items += 1
    time.sleep(max(0, begin + items * 0.05 - time.monotonic()))
print(f"items {items} seconds {time.monotonic() - begin:.3f}", file=sys.stderr)
"""
SHIP = """#!/usr/bin/perl
use IO::Socket::INET;
my $archive = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$ARGV[0]") or die;
$archive->autoflush(1);
while (my $line = <STDIN>) { print $archive $line; my $size = <$archive>; }
"""


def shipped(place):
    port = place.port()
    place.start(place.write("archive", ARCHIVE), port, port=port)
    place.run("mkfifo", "pipe.fifo")
    till, ship = place.write("till", TILL), place.write("ship", SHIP)
    begin = f"{till} {place.seconds} 2>&1 >pipe.fifo | cat"
    return ["sh", "-c", f"{begin} & {ship} {port} <pipe.fifo; wait"]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
SYSTEMS = [
    System(
        name="control_java_seals",
        kind="control",
        truth="two threads of a Java server compute on both CPUs for what wrk asks",
        load=java_seals,
        rate=WRK,
        acceptable=(rf"(java|HTTP|pool).*{COMPUTES}", r"both CPUs|all CPUs"),
        running=True,
        needs=("java", "javac", "wrk"),
    ),
    System(
        name="control_counted_logs",
        kind="control",
        truth="xargs has two pipelines of gzip, awk and sort at once, which fill both CPUs",
        load=counted,
        acceptable=(rf"(awk|gzip|sort|count).*{COMPUTES}", r"both CPUs|all CPUs"),
        needs=("gzip", "awk", "sort", "xargs"),
    ),
    System(
        name="control_till_shipper",
        kind="control",
        truth="a till has a line each 50 ms, because it has no more, which a shipper sends to an "
              "archive; all are idle most of the time",
        load=shipped,
        rate=ITEMS,
        acceptable=(r"paced by (till|python)", r"till.*(sleep|timer|until a time)", r"idle"),
        needs=(PYTHON, "perl", "ruby", "mkfifo"),
    ),
]

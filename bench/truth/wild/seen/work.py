"""Needless or badly distributed work: in Ruby, PHP, Perl, Python, Java, OpenMP, and through D-Bus.
"""
import random

from services import PHP_FPM, nginx, php
from system import COMPUTES, ITEMS, PYTHON, WRK, System, wrk

# For addresses with many letters and no @, the regular expression tries all ways to split them.
SIGNUP = r"""
require "socket"
PATTERN = /\A([a-z]+)*@[a-z]+\.test\z/
server = TCPServer.new("127.0.0.1", ARGV[0].to_i)
loop do
  Thread.new(server.accept) do |client|
    client.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    while (line = client.gets)
      while (head = client.gets) && head != "\r\n"; end
      mail = line[/mail=([^ ]*)/, 1]
      answer = PATTERN.match?(mail) ? "yes" : "no"
      20.times { answer.hash }
      client.write("HTTP/1.1 200 OK\r\nContent-Length: #{answer.size}\r\n\r\n#{answer}")
    end
    client.close
  end
end
"""


def ruby_backtracking(place):
    """nginx passes sign-ups to the Ruby server, and some of them are expensive."""
    port = place.port()
    place.start("ruby", place.write("signup.rb", SIGNUP), port, port=port)
    front = nginx(place, 'location / { proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream behind {{ server 127.0.0.1:{port}; keepalive 16; }}")
    script = place.write("signups.lua", f"""
local n = 0
request = function()
  n = n + 1
  local bad = math.floor(n * {place.fault}) > math.floor((n - 1) * {place.fault})
  return wrk.format(nil, "/?mail=" .. (bad and "{'a' * 13}!@shop.test" or "{'a' * 13}@shop.test"))
end
""")
    command = wrk(f"http://127.0.0.1:{front}/", 4, place.seconds)
    return [*command[:-1], "-s", str(script), command[-1]]


# PHP's hash table uses the last bits of a number as its slot.
IMPORT = """<?php
$stock = [];
while (($line = fgets(STDIN)) !== false) {
    $id = (int) $line;
    $stock[$id] = ($stock[$id] ?? 0) + 1;
}
ksort($stock);
foreach ($stock as $id => $count) echo "$id $count\n";
"""


def php_collisions(place):
    count = 40000
    bad = int(count * place.fault**0.5)
    ids = [number_ << 17 for number_ in range(bad)] + [number_ % 50000 * 2 + 1 for number_ in range(600000)]
    random.Random(5).shuffle(ids)
    place.write("stock.txt", "".join(f"{id_}\n" for id_ in ids))
    return ["sh", "-c", f"gzip -c stock.txt | gzip -dc | php -n {place.write('import.php', IMPORT)} | cut -d ' ' -f 2 | sort -n | uniq -c >counts"]


DEDUP = """
use strict;
my $limit = shift;
my (@seen, %seen);
LINE: while (my $line = <STDIN>) {
    chomp $line;
    if (@seen < $limit) {
        for my $other (@seen) { next LINE if $other eq $line; }
        push @seen, $line;
    } else {
        next if $seen{$line}++;
    }
    print "$line\\n";
}
"""


def perl_quadratic(place):
    """The list has the names of the first `limit` lines."""
    chance = random.Random(11)
    place.write("names.txt", "".join(f"customer-{chance.randrange(10**9):09}\n" for _ in range(150000)))
    limit = int(17000 * place.fault**0.5)
    return ["sh", "-c", f"cat names.txt | tr a-z A-Z | perl {place.write('dedup.pl', DEDUP)} {limit} | sqlite3 names.db 'create table names (name)' '.import /dev/stdin names'"]


PLANNER = """
import json, sys, socketserver
import yaml

share = float(sys.argv[2])
document = yaml.dump({"steps": [{"name": "step %d" % n, "cost": n * 3, "after": [n - 1, n - 2]} for n in range(8)]})
count = 0

class Session(socketserver.StreamRequestHandler):
    def handle(self):
        global count
        while self.rfile.readline():
            while self.rfile.readline() not in (b"\\r\\n", b""):
                pass
            count += 1
            slow = int(count * share) > int((count - 1) * share)
            plan = yaml.load(document, yaml.SafeLoader if slow else yaml.CSafeLoader)
            body = json.dumps(sum(step["cost"] for step in plan["steps"])).encode()
            self.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body))

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True

Server(("127.0.0.1", int(sys.argv[1])), Session).serve_forever()
"""


def yaml_in_python(place):
    port = place.port()
    place.start(PYTHON, place.write("planner.py", PLANNER), port, place.fault, port=port)
    return wrk(f"http://127.0.0.1:{port}/", 3, place.seconds)


# A loop with growing passes: its second half is seven eighths of the work.
HEAT = r"""
#include <stdio.h>
#include <stdlib.h>
#include <omp.h>

int main(int count, char **words)
{
    double begin = omp_get_wtime(), sum = 0, share = atof(words[1]);
    int rows = 3000, steps = atoi(words[2]);
    for (int step = 0; step < steps; step++) {
        #pragma omp parallel for schedule(static) reduction(+:sum)
        for (int row = 0; row < rows; row++) {
            double value = row, even = rows / 3, steep = (double) row * row / rows;
            int cost = 4 * (share * steep + (1 - share) * even);
            for (int i = 0; i < cost; i++) value = value * 0.999 + 1;
            sum += value;
        }
    }
    printf("items %d seconds %.3f\n", steps, omp_get_wtime() - begin);
    return sum == 0;
}
"""


def openmp_imbalance(place):
    program = place.c("heatmap", HEAT, "-fopenmp")
    return ["env", "OMP_NUM_THREADS=2", "OMP_WAIT_POLICY=passive", str(program), str(place.fault), "150"]


# The effect of a systemd unit with `CPUAffinity=0` on all processes of a service.
TAX = """<?php
$sum = 0;
for ($n = 0; $n < 60000; $n++) $sum += intdiv($n * 19, 119) % 7;
echo "$sum\n";
"""


def php_one_cpu(place):
    front = php(place, TAX, children=4, bound=() if place.fixed else ("taskset", "--cpu-list", "0"))
    return wrk(f"http://127.0.0.1:{front}/", 6, place.seconds)


# A server that runs the collector for each batch of requests, without need.
ORDERS = """
import com.sun.net.httpserver.*;
import java.net.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;

public class Main {
    static final Map<Integer, byte[]> kept = new ConcurrentHashMap<>();

    public static void main(String[] words) throws Exception {
        double share = Double.parseDouble(words[1]);
        for (int i = 0; i < 300000; i++) kept.put(i, new byte[40]);
        AtomicLong count = new AtomicLong();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 100);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            long n = count.incrementAndGet();
            if (n / 50 != (n - 1) / 50) {
                long batch = n / 50;
                if ((long) (batch * share) > (long) ((batch - 1) * share)) System.gc();
            }
            byte[] page = ("order " + kept.get((int) (n % 300000)).length + "\\n").getBytes();
            exchange.sendResponseHeaders(200, page.length);
            exchange.getResponseBody().write(page);
            exchange.close();
        });
        server.start();
    }
}
"""


def java_explicit_gc(place):
    port = place.port()
    place.start("java", "-Xmx512m", "-XX:+UseSerialGC", "-Dsun.net.httpserver.nodelay=true", "-cp", place.java(ORDERS), "Main", port, place.fault, port=port)
    return wrk(f"http://127.0.0.1:{port}/", 4, place.seconds)


BUS = """
<busconfig>
  <type>custom</type>
  <listen>unix:path={folder}/bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>
"""
SETTINGS = """
import dbus, dbus.service, dbus.mainloop.glib
from gi.repository import GLib
import sys
dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
bus = dbus.bus.BusConnection("unix:path=" + sys.argv[1])

class Settings(dbus.service.Object):
    values = {"key%d" % n: "value %d" % n for n in range(20)}

    @dbus.service.method("shop.Settings", in_signature="s", out_signature="s")
    def Get(self, key):
        return self.values[key]

    @dbus.service.method("shop.Settings", out_signature="a{ss}")
    def GetAll(self):
        return self.values

name = dbus.service.BusName("shop.Settings", bus)
Settings(bus, "/settings")
open(sys.argv[1] + "-ready", "w").close()
GLib.MainLoop().run()
"""
PANEL = """
import sys, time
import dbus
bus = dbus.bus.BusConnection("unix:path=" + sys.argv[1])
settings = dbus.Interface(bus.get_object("shop.Settings", "/settings", introspect=False), "shop.Settings")
share, count, begin = float(sys.argv[3]), 0, time.monotonic()
while time.monotonic() < begin + float(sys.argv[2]):
    shown = dict(settings.GetAll())
    for key in list(shown)[:int(20 * share)]:
        shown[key] = str(settings.Get(key))
    count += 1
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""


def dbus_key_by_key(place):
    bus = place.folder / "bus"
    place.start("dbus-daemon", "--nofork", "--config-file", place.write("bus.conf", BUS.format(folder=place.folder)), path=bus)
    place.start(PYTHON, place.write("settingsd.py", SETTINGS), bus, path=f"{bus}-ready")
    return [PYTHON, str(place.write("panel.py", PANEL)), str(bus), str(place.seconds), str(place.fault)]


SYSTEMS = [
    System(
        name="ruby_backtracking",
        kind="regex-backtracking",
        truth="the Ruby server behind nginx matches an expression that tries all ways to split a wrong address, in one thread at a time",
        load=ruby_backtracking,
        rate=WRK,
        component=(r"ruby", r"signup"),
        mechanism=COMPUTES,
        never=(r"\bsleep", r"\bdisk\b", r"network"),
        halves=True,
        needs=("ruby", "nginx", "wrk"),
    ),
    System(
        name="php_hash_collisions",
        kind="hash-collisions",
        truth="php computes in a pipe, because all its keys fall into one slot of the hash table",
        load=php_collisions,
        component=(r"\bphp\b",),
        mechanism=COMPUTES,
        never=(r"\bsleep", r"\bdisk\b"),
        halves=True,
        needs=("php", "gzip", "cut", "sort"),
    ),
    System(
        name="perl_quadratic",
        kind="quadratic-algorithm",
        truth="perl looks for each line through the list of all earlier ones, in the middle of a pipe to sqlite3",
        load=perl_quadratic,
        component=(r"\bperl\b", r"dedup"),
        mechanism=COMPUTES,
        never=(r"\bsleep", r"\bdisk\b"),
        halves=True,
        needs=("perl", "sqlite3", "tr"),
    ),
    System(
        name="python_yaml",
        kind="deserialisation",
        truth="planner parses YAML in Python for each request, though a parser in C is there",
        load=yaml_in_python,
        rate=WRK,
        component=(r"python", r"planner"),
        mechanism=(*COMPUTES, r"interpreter.*lock", r"\bGIL\b"),
        never=(r"\bsleep", r"\bdisk\b"),
        halves=True,
        running=True,
        needs=(PYTHON, "wrk"),
    ),
    System(
        name="openmp_imbalance",
        kind="load-imbalance",
        truth="the second thread of heatmap has seven eighths of each loop, and the first waits for it at the barrier",
        load=openmp_imbalance,
        rate=ITEMS,
        component=(r"heatmap",),
        mechanism=(r"one thread", r"barrier", r"balance", r"waits? for", r"other thread", r"unequal", r"idle"),
        never=(r"\bsleeps\b", r"\bdisk\b"),
        halves=True,
        needs=("gcc",),
    ),
    System(
        name="php_one_cpu",
        kind="cpu-affinity",
        truth="the processes of php-fpm are bound to the first CPU and wait for each other there, while the second is idle",
        load=php_one_cpu,
        rate=WRK,
        component=(r"\bphp", r"cpu ?0"),
        mechanism=(r"affinity", r"bound", r"pinned", r"waits? for (a|the|its) CPU", r"waits? for cpu", r"runnable", r"one CPU", r"same CPU", r"allowed", r"\bcpu ?0"),
        never=(r"\bsleep", r"\bdisk\b"),
        needs=("nginx", PHP_FPM, "taskset", "wrk"),
    ),
    System(
        name="java_explicit_gc",
        kind="explicit-collection",
        truth="the Java server calls System.gc() for every 50th order, and all its threads wait for the collection",
        load=java_explicit_gc,
        rate=WRK,
        component=(r"\bjava", r"VM thread", r"\bGC\b"),
        mechanism=(r"collect", r"\bGC\b", r"VM thread", r"safepoint", r"stop.the.world"),
        never=(r"\bsleep", r"\bdisk\b"),
        halves=True,
        running=True,
        needs=("java", "javac", "wrk"),
    ),
    System(
        name="dbus_key_by_key",
        kind="chatty-protocol",
        truth="panel asks settingsd for each of 20 keys by a call of its own through dbus-daemon, though it has them all",
        load=dbus_key_by_key,
        rate=ITEMS,
        component=(r"panel", r"settingsd", r"dbus-daemon", r"python"),
        mechanism=(r"round.?trip", r"request", r"\bcalls?\b", r"repl", r"answer", r"wake", r"one (\w+ )*(at a time|after)", r"back and forth", r"messages?", r"small", r"one another", r"each other", r"in turn"),
        never=(r"\bdisk\b", r"\bsleep", r"\block"),
        halves=True,
        needs=(PYTHON, "dbus-daemon"),
    ),
]

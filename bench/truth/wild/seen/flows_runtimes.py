"""Flows that wait for a CPU: a mailbox that is searched, a branch that delays a stream, a consumer
without a CPU.
"""
from system import COMPUTES, ITEMS, PYTHON, System

# Connections ask `router`. Its mailbox has thousands of messages that it never takes, and it scans
# all of them for each question.
ROUTER = r"""
-module(router).
-export([main/1]).

main([Port, Unread, Ready]) ->
    Self = self(),
    spawn(fun() -> register(router, self()), [self() ! {notice, N} || N <- lists:seq(1, list_to_integer(atom_to_list(Unread)))], Self ! go, route() end),
    receive go -> ok end,
    {ok, Listen} = gen_tcp:listen(list_to_integer(atom_to_list(Port)), [binary, {packet, line}, {active, false}, {nodelay, true}, {ip, {127, 0, 0, 1}}]),
    ok = file:write_file(atom_to_list(Ready), <<>>),
    accept(Listen).

accept(Listen) ->
    {ok, Socket} = gen_tcp:accept(Listen),
    Pid = spawn(fun() -> receive go -> serve(Socket) end end),
    ok = gen_tcp:controlling_process(Socket, Pid),
    Pid ! go,
    accept(Listen).

serve(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Line} ->
            router ! {ask, self(), Line},
            receive {route, Hop} -> gen_tcp:send(Socket, Hop) end,
            serve(Socket);
        _ -> gen_tcp:close(Socket)
    end.

route() ->
    receive {ask, From, Line} -> From ! {route, [<<"hop ">>, Line]} end,
    route().
"""
PROBES = r"""#!/usr/bin/ruby
require "socket"
4.times.map do
  Thread.new do
    router = TCPSocket.new("127.0.0.1", ARGV[0].to_i)
    router.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    ARGV[1].to_i.times do |i|
      router.write("network #{i}\n")
      router.gets
    end
  end
end.each(&:join)
"""


def mailbox(place):
    port, ready = place.port(), place.folder / "router.ready"
    place.run("erlc", place.write("router.erl", ROUTER))
    place.start("erl", "-noshell", "-noinput", "+sbwt", "none", "-pa", place.folder, "-run", "-s", "router", "main", port, 0 if place.fixed else 45000, ready,
                path=ready, env={"PATH": "/usr/bin:/bin", "HOME": str(place.folder), "LANG": "C.UTF-8"})
    return [str(place.write("probes", PROBES)), str(port), "1500"]


METERS = r"""#!/usr/bin/perl
my $seed = 5;
for my $i (1 .. $ARGV[0]) {
    $seed = ($seed * 16807) % 2147483647;
    print "meter $i reads $seed at hour ", $i % 24, "\n";
}
"""
# The audit checks every character of a line.
AUDIT = r"""#!/usr/bin/gawk -f
{ for (i = 1; i <= length($0); i++) n += index("theft", substr($0, i, 1)) }
END { print n + 0 }
"""
TOTALS = r"""#!/usr/bin/gawk -f
{ sum[$7] += $4 }
END { for (hour in sum) print hour, sum[hour] }
"""


def branch(place):
    meters, audit, totals = place.write("meters", METERS), place.write("audit", AUDIT), place.write("totals", TOTALS)
    aside = "" if place.fixed else " | tee audit.fifo"
    start = "" if place.fixed else f"mkfifo audit.fifo\n{audit} <audit.fifo >audited &\n"
    return [str(place.write("readings", f"#!/bin/sh\n{start}{meters} 320000{aside} | {totals} >sums\nwait\n"))]


# Two renderers compute all the time. The program that takes the orders has the lowest priority.
RENDER = r"""
#include <unistd.h>
int main() { for (volatile unsigned long n = 0; getppid() != 1; ) for (int i = 0; i < 50000000; i++) n += i; }
"""
CLERK = r"""#!/usr/bin/python3
import hashlib, socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    orders, _ = server.accept()
    while order := orders.recv(100):
        orders.sendall(hashlib.pbkdf2_hmac("sha256", order, b"salt", 2000)[:8])
"""
SHOP = r"""#!/usr/bin/ruby
require "socket"
clerk = TCPSocket.new("127.0.0.1", ARGV[0].to_i)
start, items = Process.clock_gettime(Process::CLOCK_MONOTONIC), 0
while Process.clock_gettime(Process::CLOCK_MONOTONIC) < start + ARGV[1].to_f
  clerk.write("order #{items}")
  clerk.read(8)
  items += 1
end
puts format("items %d seconds %.3f", items, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start)
"""


def niced(place):
    port = place.port()
    render, clerk = place.c("render", RENDER), place.write("clerk", CLERK)
    # All programs run in one session, so that the kernel's scheduling groups of sessions have no
    # effect.
    nice = 0 if place.fixed else 19
    office = place.write("office", f"""#!/bin/sh
{render} & all=$!
{render} & all="$all $!"
nice -n {nice} {clerk} {port} & all="$all $!"
trap 'kill -9 $all; wait; exit' TERM
wait
""")
    place.start(office, port=port)
    return [str(place.write("shop", SHOP)), str(port), str(place.seconds)]


SYSTEMS = [
    System(
        name="erlang_full_mailbox",
        kind="mailbox-scan",
        truth="a process of Erlang looks through 45,000 messages in its mailbox, which nobody takes, for each question of the probes",
        load=mailbox,
        component=(r"\berl", r"beam", r"router"),
        mechanism=(*COMPUTES, r"\bCPU", r"\bruns?\b"),
        never=(r"(probes|ruby)[^.;]* comput",),
        needs=("erl", "erlc", "ruby"),
    ),
    System(
        name="tee_slow_branch",
        kind="slow-branch",
        truth="audit, a branch beside the stream, computes so long for each line that tee waits for it, and the totals behind tee, too",
        load=branch,
        component=(r"audit",),
        mechanism=(*COMPUTES, r"\bCPU", r"\bruns?\b"),
        never=(r"(meters|totals|\btee)[^.;]* comput",),
        needs=("gawk", "perl", "tee", "mkfifo"),
    ),
    System(
        name="clerk_of_low_priority",
        kind="low-priority-consumer",
        truth="clerk, which answers the shop, has the lowest priority and waits for a CPU, because two renders have them",
        load=niced,
        rate=ITEMS,
        component=(r"clerk", r"render"),
        mechanism=(r"wait.*\bCPU", r"\bCPU.*(wait|full|taken|busy|shar|compet)", r"runnable", r"preempt", r"priority", r"\bnice", r"schedul", r"run queue", r"ready to run", r"does not get"),
        never=(r"clerk[^.;]* (computes|sleeps)",),
        needs=(PYTHON, "ruby", "nice"),
    ),
]

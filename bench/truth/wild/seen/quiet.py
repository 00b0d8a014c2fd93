"""Controls: all CPUs do requested work, or all programs wait because there are no more requests."""
import random

from services import PHP_FPM, mariadb, nginx, php
from system import COMPUTES, ITEMS, PYTHON, SLEEPS, WRK, System, wrk

BUSY = (*COMPUTES, r"waits? for (a|the|its) CPU", r"\bCPUs? (is|are) (full|busy)", r"runnable")
PACED = (*SLEEPS, r"\bidle", r"schedule", r"waits? for (requests|work|something to do)")


def said(of, what):
    """Returns a pattern for a sentence that states one of `what` about one of the programs `of`."""
    return (f"\\b({of}).*({'|'.join(what)})",)



def pigz(place):
    chance = random.Random(3)
    words = [bytes(chance.randrange(97, 123) for _ in range(chance.randrange(2, 9))) for _ in range(3000)]
    (place.folder / "text").write_bytes(b" ".join(chance.choice(words) for _ in range(1000000)) * 24)
    return ["sh", "-c", "pigz -p 2 -9 -c text >text.gz"]


RENDER = """<?php
$rows = [];
for ($n = 0; $n < 300; $n++) $rows[] = "<tr><td>" . htmlspecialchars("item <$n>") . "</td><td>" . md5((string) $n) . "</td></tr>";
echo implode("\\n", $rows);
"""


def php_render(place):
    front = php(place, RENDER, children=4, workers=2)
    return wrk(f"http://127.0.0.1:{front}/", 8, place.seconds)


SLAP = ["--no-defaults", "-h", "127.0.0.1", "-u", "root", "--create-schema=test", "--no-drop", "--concurrency=4", "--number-of-queries=12000"]


def mariadb_selects(place):
    port = mariadb(place, "create table items (id int primary key, name varchar(40)) engine=innodb; insert into items select seq, md5(seq) from seq_1_to_20000")
    query = "select count(*), max(name) from items where id between 3000 and 6000"
    return ["mariadb-slap", *SLAP, "-P", str(port), f"--query={query}", "--csv"]


WORKERS = """
-module(main).
-export([main/1]).

main([Count]) ->
    Self = self(),
    Begin = erlang:monotonic_time(microsecond),
    Workers = [spawn(fun() -> Self ! {self(), work(list_to_integer(Count), <<"seed">>)} end) || _ <- lists:seq(1, 2)],
    [receive {Worker, _} -> ok end || Worker <- Workers],
    io:format("items ~p seconds ~.3f~n", [2 * list_to_integer(Count), (erlang:monotonic_time(microsecond) - Begin) / 1.0e6]),
    halt().

work(0, Sum) -> Sum;
work(N, Sum) -> work(N - 1, mix(200, Sum)).

mix(0, Sum) -> Sum;
mix(N, Sum) -> mix(N - 1, integer_to_binary(erlang:phash2(Sum) * N)).
"""


def erlang_workers(place):
    classes = place.built(WORKERS, ".erl", "sh", "-c", "mkdir -p {program} && erlc -o {program} {source}")
    return ["erl", "-noinput", "+sbwt", "none", "-pa", str(classes), "-run", "main", "main", "140000"]


PRIMES = """
import java.util.*;
import java.util.stream.*;

public class Main {
    public static void main(String[] words) {
        long begin = System.nanoTime(), count = LongStream.range(2, Long.parseLong(words[0])).parallel()
            .filter(n -> LongStream.rangeClosed(2, (long) Math.sqrt(n)).noneMatch(m -> n % m == 0)).count();
        System.out.printf(Locale.ROOT, "items %d seconds %.3f%n", count, (System.nanoTime() - begin) / 1e9);
    }
}
"""


def java_streams(place):
    return ["java", "-Xmx128m", "-cp", str(place.java(PRIMES)), "Main", "12000000"]


def socat_telemetry(place):
    """A probe reports ten times per second through a relay to a file."""
    collector, relay = place.port(), place.port()
    place.start("socat", "-u", f"TCP-LISTEN:{collector},bind=127.0.0.1,reuseaddr,fork", f"OPEN:{place.folder}/telemetry,creat,append", port=collector)
    place.start("socat", f"TCP-LISTEN:{relay},bind=127.0.0.1,reuseaddr,fork", f"TCP:127.0.0.1:{collector}", port=relay)
    script = place.write("probe.tcl", f"""
set out [socket 127.0.0.1 {relay}]
for {{set n 0}} {{$n < 40}} {{incr n}} {{
    puts $out "temperature [expr {{20 + $n % 3}}]"
    flush $out
    after 100
}}
close $out
""")
    return ["tclsh", str(script)]


def curl_monitor(place):
    """Checks four times per second if a site is available. No program waits for it."""
    front = nginx(place, "location / { return 200 fine; }")
    return ["sh", "-c", f"for n in $(seq {4 * place.seconds}); do curl -s -S -o /dev/null http://127.0.0.1:{front}/ || exit 1; sleep 0.25; done"]


METER = """
import logging.handlers, sys, time
log = logging.getLogger("meter")
log.addHandler(logging.handlers.WatchedFileHandler(sys.argv[1]))
log.setLevel(logging.INFO)
begin = time.monotonic()
for n in range(80):
    log.info("reading %d is %s", n, n * 7919 % 1000)
    time.sleep(max(0, begin + n * 0.05 - time.monotonic()))
"""


def tail_meter(place):
    """A meter writes a line each 50 ms, which tail and awk read."""
    log, script = place.write("meter.log", ""), place.write("meter.py", METER)
    return ["sh", "-c", f"{PYTHON} {script} {log} & tail -q -n +1 --pid=$! -f {log} | awk '{{ sum += $NF }} END {{ print sum }}'"]


def xargs_perl(place):
    """xargs keeps two checks of scripts running."""
    (place.folder / "scripts").mkdir()
    for number_ in range(200):
        place.write(f"scripts/part{number_}.pl", "use strict;\n" + "".join(f"sub f{n} {{ my ($x) = @_; return $x * {n} + {number_}; }}\n" for n in range(3000)))
    return ["sh", "-c", "ls scripts/*.pl | xargs -P 2 -n 1 perl -c 2>/dev/null"]


SYSTEMS = [
    System(
        name="control_pigz",
        kind="control",
        truth="pigz compresses with two threads on two CPUs",
        load=pigz,
        acceptable=said("pigz", BUSY),
        needs=("pigz",),
    ),
    System(
        name="control_php_render",
        kind="control",
        truth="four processes of php-fpm render pages for nginx and wrk, and both CPUs are full",
        load=php_render,
        rate=WRK,
        acceptable=said("php|CPU", BUSY),
        needs=("nginx", PHP_FPM, "wrk"),
    ),
    System(
        name="control_mariadb_selects",
        kind="control",
        truth="mariadbd reads ranges by the primary key for four clients on two CPUs",
        load=mariadb_selects,
        acceptable=said("mariadb|CPU", BUSY),
        needs=("mariadbd", "mariadb-slap"),
    ),
    System(
        name="control_erlang_workers",
        kind="control",
        truth="two processes of Erlang compute on two CPUs",
        load=erlang_workers,
        rate=ITEMS,
        acceptable=said("beam|erl|erts|CPU", BUSY),
        needs=("erl", "erlc"),
    ),
    System(
        name="control_java_streams",
        kind="control",
        truth="a parallel stream of Java looks for primes on all CPUs",
        load=java_streams,
        rate=ITEMS,
        acceptable=said("java|ForkJoin|CPU", BUSY),
        needs=("java", "javac"),
    ),
    System(
        name="control_xargs_perl",
        kind="control",
        truth="xargs keeps two perl running, which check scripts, on two CPUs",
        load=xargs_perl,
        acceptable=said("perl|xargs|CPU", BUSY),
        needs=("xargs", "perl"),
    ),
    System(
        name="control_socat_telemetry",
        kind="control",
        truth="a probe reports ten times in a second through socat, because it has no more to report",
        load=socat_telemetry,
        acceptable=said("tclsh|probe|socat", PACED),
        needs=("socat", "tclsh"),
    ),
    System(
        name="control_curl_monitor",
        kind="control",
        truth="a monitor asks nginx four times in a second whether it is there, and sleeps in between by intention",
        load=curl_monitor,
        acceptable=said("sleep|sh|dash|curl", PACED),
        running=True,
        needs=("curl", "nginx"),
    ),
    System(
        name="control_tail_meter",
        kind="control",
        truth="a meter writes a line each 50 ms, which tail and awk follow at once",
        load=tail_meter,
        acceptable=said("python|meter|tail", PACED),
        needs=(PYTHON, "tail", "awk"),
    ),
]

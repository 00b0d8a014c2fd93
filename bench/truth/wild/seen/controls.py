"""Systems without a relevant bottleneck: all CPUs are busy with evenly distributed work, or the
load is light.

`acceptable` has true and harmless statements: for example, that a computing program computes on a
host whose CPUs are all busy.
"""
from services import nginx, redis
from system import ITEMS, PYTHON, System, WRK, number, wrk

STAGES = """
import os, sys, time

# Two stages that do the same work for each item, eight of which are under way.
def work(n):
    sum(range(n))

seconds = float(sys.argv[1])
there, back = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(there[1])
    while os.read(there[0], 1):
        work(6000)
        os.write(back[1], b"-")
    os._exit(0)
begin, items = time.monotonic(), 0
for _ in range(8):
    os.write(there[1], b"-")
while time.monotonic() < begin + seconds:
    work(6000)
    os.read(back[0], 1)
    os.write(there[1], b"-")
    items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
os.close(there[1])
"""

LIGHT = """
package main

import ("net/http"; "os")

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("fine\\n")) })
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

# The client sends fifty requests per second, because it has no more.
ASKS = """
import http.client, sys, time

client, begin, items = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1])), time.monotonic(), 0
while time.monotonic() < begin + float(sys.argv[2]):
    client.request("GET", "/")
    client.getresponse().read()
    items += 1
    time.sleep(max(0, begin + items * 0.020 - time.monotonic()))
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def static(place):
    (place.folder / "www").mkdir()
    place.write("www/index.html", "x" * 600)
    port = nginx(place, f"root {place.folder}/www;", "open_file_cache max=100;", workers=2)
    return wrk(f"http://127.0.0.1:{port}/index.html", 16, place.seconds)


def iperf3(place):
    port = place.port()
    place.start("iperf3", "-s", "-p", port, port=port)
    return ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t", str(place.seconds), "-f", "m", "-i", "0"]


def pipelined(place):
    return ["redis-benchmark", "-p", str(redis(place)), "-t", "set", "-P", "16", "-n", "2000000", "-c", "50", "-q", "--precision", "3"]


def make(place):
    for unit in range(40):
        place.write(f"unit{unit}.c", "\n".join(f"#include <{name}.h>" for name in ("stdio", "stdlib", "string", "math"))
                    + "\n".join(f"\nint part{unit}_{i}(char *to, int n) {{ for (int k = 0; k < n; k++) n += snprintf(to, n, \"%d\", k); return n; }}" for i in range(40)))
    objects = " ".join(f"unit{unit}.o" for unit in range(40))
    place.write("Makefile", f"all: {objects}\n%.o: %.c\n\tgcc -O2 -c $< -o $@\n")
    return ["make", "-s", "-j2"]


def stages(place):
    return [PYTHON, str(place.write("stages.py", STAGES)), str(place.seconds)]


def light(place):
    port = place.port()
    place.start(place.go("status", LIGHT), port, port=port)
    return [PYTHON, str(place.write("asks.py", ASKS)), str(port), str(place.seconds)]


COMPUTES = r"(user|kernel|\brun\b|runnable|preempted|interrupted|comput|\bCPU)"
SYSTEMS = [
    System(
        name="control_nginx_static",
        kind="control",
        truth="two nginx workers serve a cached file to wrk, and both CPUs are full",
        load=static,
        rate=WRK,
        acceptable=(rf"(nginx|wrk).*{COMPUTES}", r"both CPUs|all CPUs"),
        needs=("nginx", "wrk"),
    ),
    System(
        name="control_iperf3",
        kind="control",
        truth="iperf3 sends as fast as the kernel copies",
        load=iperf3,
        rate=number(r"([\d.]+) Mbits/sec.*receiver"),
        acceptable=(rf"iperf3.*({COMPUTES}|write|read|cop(y|ies))",),
        needs=("iperf3",),
    ),
    System(
        name="control_redis_pipelined",
        kind="control",
        truth="redis-benchmark -P 16 keeps redis and itself busy",
        load=pipelined,
        rate=number(r"SET: ([\d.]+) requests"),
        acceptable=(rf"redis.*{COMPUTES}",),
        needs=("redis-server", "redis-benchmark"),
    ),
    System(
        name="control_make",
        kind="control",
        truth="make -j2 compiles 40 files on two CPUs",
        load=make,
        acceptable=(rf"(cc1|gcc|\bas\b|make).*{COMPUTES}",),
        needs=("gcc", "make"),
    ),
    System(
        name="control_stages",
        kind="control",
        truth="two Python stages take equally long, each on a CPU of its own",
        load=stages,
        rate=ITEMS,
        acceptable=(rf"python.*{COMPUTES}",),
        needs=(PYTHON,),
    ),
    System(
        name="control_light",
        kind="control",
        truth="a client asks a Go server 50 times in a second, and both are idle most of the time",
        load=light,
        rate=ITEMS,
        acceptable=(r"paced by (python|asks)",),
        needs=("go", PYTHON),
    ),
]

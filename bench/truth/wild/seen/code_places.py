"""Systems whose bottleneck is in a known function of a program that is not the load."""
import glob
import os
import shutil

from services import redis
from system import LOCKS, SLEEPS, WRK, System, number, wrk


def python():
    """Returns a Python that can name its functions to a recorder, which is 3.12 or newer."""
    installed = glob.glob(os.path.expanduser("~/.pyenv/versions/3.1[2-9]*/bin/python3"))
    found = [shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") for name in ("python3.14", "python3.13", "python3.12")]
    return next((path for path in found + sorted(installed) if path), "python3.12")


PYTHON = python()

# A web application whose handler holds a lock while it asks a slow service.
WEB = """
import sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

bookings = threading.Lock()

def reserve_seat():
    if sys.argv[2] == "apart":
        time.sleep(float(sys.argv[3]))
    else:
        with bookings:
            time.sleep(float(sys.argv[3]))

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # the head and the body in one packet

    def do_GET(self):
        reserve_seat()
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *words):
        pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

# Starts a server, waits until it listens, and runs the load, so that the recorder starts both.
BOTH = """
"$@" &
server=$!
until (exec 3<> /dev/tcp/127.0.0.1/PORT) 2> /dev/null; do kill -0 $server || exit; sleep 0.05; done
LOAD
status=$?
kill $server
wait $server 2> /dev/null
exit $status
"""

POOL = """
import com.sun.net.httpserver.*;
import java.net.InetSocketAddress;
import java.util.concurrent.*;

public class Main {
    static double pause;

    static void askWarehouse() {
        try {
            TimeUnit.MICROSECONDS.sleep((long) (pause * 1e6));
        } catch (InterruptedException error) {
            throw new RuntimeException(error);
        }
    }

    public static void main(String[] words) throws Exception {
        pause = Double.parseDouble(words[2]);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 64);
        server.setExecutor(Executors.newFixedThreadPool(Integer.parseInt(words[1])));
        server.createContext("/", exchange -> {
            askWarehouse();
            exchange.sendResponseHeaders(200, 3);
            exchange.getResponseBody().write("yes".getBytes());
            exchange.close();
        });
        server.start();
    }
}
"""


def started_with(place, server, port, load):
    """Returns the command that runs `load` against a server that it starts itself."""
    script = BOTH.replace("PORT", str(port)).replace("LOAD", " ".join(f"'{word}'" for word in load))
    return ["bash", place.write("both.sh", script), *server]


def python_web(place):
    port = place.port()
    server = [PYTHON, place.write("seats.py", WEB), port, "apart" if place.fixed else "locked", 0.006 * place.scale]
    return started_with(place, server, port, wrk(f"http://127.0.0.1:{port}/", 8, place.seconds))


def java_web(place):
    port = place.port()
    server = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", place.java(POOL), "Main", port, 16 if place.fixed else 2, 0.020 * place.scale]
    return started_with(place, server, port, wrk(f"http://127.0.0.1:{port}/", 16, place.seconds))


def redis_syncs(place):
    port = redis(place, "--appendonly", "yes", "--appendfsync", "no" if place.fixed else "always")
    return ["redis-benchmark", "-p", str(port), "-c", "4", "-n", "30000", "-t", "set", "-q"]


SYSTEMS = [
    System(
        name="python_web_lock",
        kind="mutex-around-slow-call",
        truth="each request of the Python application sleeps 6 ms while it holds the lock of the bookings",
        load=python_web,
        rate=WRK,
        component=(r"seats", r"python"),
        mechanism=(*LOCKS, *SLEEPS),
        code=(r"reserve_seat",),
        change="x0.125",
        halves=True,
        record=("--runtimes",),
        needs=(PYTHON, "wrk", "bash"),
    ),
    System(
        name="java_two_workers",
        kind="pool-too-small",
        truth="two threads of the Java service answer sixteen clients, and each asks the warehouse for 20 ms",
        load=java_web,
        rate=WRK,
        component=(r"java", r"\bMain\b", r"pool-\d"),
        mechanism=(r"\bpool\b", r"threads? (are|is) busy", *SLEEPS),
        code=(r"askWarehouse",),
        change="x0.125",
        halves=True,
        record=("--runtimes",),
        needs=("java", "javac", "wrk", "bash"),
    ),
    System(
        name="redis_syncs_each",
        kind="fsync-per-item",
        truth="redis writes each SET to the disk before it answers (appendfsync always)",
        load=redis_syncs,
        rate=number(r"SET: ([\d.]+) requests"),
        component=(r"redis",),
        mechanism=(r"disk", r"sync"),
        code=(r"fdatasync|fsync",),
        needs=("redis-server", "redis-benchmark"),
    ),
]

"""Web servers whose settings cause waits, disk reads, or needless work."""
import os

from services import nginx
from system import ITEMS, SLEEPS, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"CPU")

# Reads each answer until the connection ends.
SCRAPER = """#!/usr/bin/ruby
require "socket"
port, each = ARGV.map(&:to_i)
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
4.times.map {
  Thread.new {
    each.times {
      socket = TCPSocket.new("127.0.0.1", port)
      socket.write("GET /page.html HTTP/1.1\\r\\nHost: shop\\r\\n\\r\\n")
      socket.read
      socket.close
    }
  }
}.each(&:join)
puts "items #{4 * each} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""

APP = """
import hashlib, os

# What the application prepares when it is loaded.
text = b"menu"
for _ in range(int(os.environ["ROUNDS"])):
    text = hashlib.sha256(text).digest()

def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "3"), ("Content-Type", "text/plain")])
    return [b"ok\\n"]
"""

JAVA = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

public class Main {
    static long check(int seed) {
        long sum = seed;
        for (int i = 0; i < 60000; i++) sum = sum * 31 + (sum >>> 7 ^ i);
        return sum;
    }
    public static void main(String[] arguments) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 64);
        server.setExecutor(Executors.newFixedThreadPool(2));
        server.createContext("/", exchange -> {
            byte[] body = Long.toString(check(exchange.hashCode())).getBytes();
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
"""


def keep_alive(place):
    port, folder = place.port(), place.folder
    place.write("page.html", "x" * 2000, mode=0o644)
    keep = "Off" if place.fixed else "On"
    config = place.write("apache.conf", f"""
LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
ServerRoot {folder}
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {folder}/apache.pid
ErrorLog {folder}/apache.error
DefaultRuntimeDir {folder}
Mutex posixsem
User www-data
Group www-data
StartServers 6
MinSpareServers 6
MaxSpareServers 8
MaxRequestWorkers 8
DocumentRoot {folder}
KeepAlive {keep}
KeepAliveTimeout {max(1, round(6 * place.fault))}ms
MaxKeepAliveRequests 0
""")
    place.start("apache2", "-DFOREGROUND", "-f", config, port=port)
    return [str(place.write("scraper", SCRAPER)), str(port), "650"]


def direct(place):
    with (place.folder / "film").open("wb") as film:
        for _ in range(64):
            film.write(os.urandom(1 << 20))
        film.flush()
        os.fsync(film.fileno())
    mode = "sendfile on;" if place.fixed else "directio 512; output_buffers 1 32k;"
    port = nginx(place, f"root {place.folder}; location / {{ {mode} }}")
    return ["curl", "-s", "-o", "/dev/null", "--range", "0-50331647", "-w", "items %{size_download} seconds %{time_total}\\n"] + [
        f"http://127.0.0.1:{port}/film?[1-16]"]


def recycled(place):
    port = place.port()
    place.write("menu.py", APP)
    environment = {"PATH": "/usr/bin:/bin", "ROUNDS": str(round(200000 * place.scale))}
    place.start("/usr/bin/gunicorn", "-w", "2", "--max-requests", "0" if place.fixed else "20", "-b", f"127.0.0.1:{port}", "--chdir", place.folder,
                "menu:app", port=port, env=environment)
    return wrk(f"http://127.0.0.1:{port}/", 4, place.seconds)


def interpreted(place):
    port = place.port()
    mode = [] if place.fixed else ["-Xint"]
    place.start("java", *mode, "-Dsun.net.httpserver.nodelay=true", "-cp", place.java(JAVA), "Main", port, port=port)
    return wrk(f"http://127.0.0.1:{port}/", 4, place.seconds)


SYSTEMS = [
    System(
        name="apache_keep_alive",
        kind="keep-alive-timeout",
        truth="apache2 keeps each connection open for another request until its timeout of 6 ms ends, and scraper waits for the end of the connection",
        load=keep_alive,
        rate=ITEMS,
        component=(r"apache2?", r"httpd"),
        mechanism=(*SLEEPS, r"time-?out", r"keep-?alive", r"\bpoll"),
        never=(r"\bdisk\b", r"comput"),
        change="x0",
        halves=True,
        needs=("apache2", "ruby"),
    ),
    System(
        name="nginx_direct_io",
        kind="page-cache-bypassed",
        truth="nginx reads the same film from the disk again for each download, because directio goes past the page cache",
        load=direct,
        component=(r"nginx", r"\bdisk\b", r"\bvd[a-z]", r"\bsd[a-z]", r"nvme"),
        mechanism=(r"\bdisk\b", r"\breads?\b", r"\bI/O\b", r"block (device|request)"),
        never=(r"\bsleeps", r"\block\b", r"comput"),
        needs=("nginx", "curl"),
    ),
    System(
        name="gunicorn_recycled_workers",
        kind="worker-recycling",
        truth="gunicorn ends each worker after 20 requests, and the next one computes long while it loads the application",
        load=recycled,
        rate=WRK,
        component=(r"gunicorn", r"python"),
        mechanism=(*RUNS, r"\bfork", r"new process", r"starts?\b"),
        never=(r"\bdisk\b", r"\bsleeps"),
        needs=("/usr/bin/gunicorn", "wrk"),
    ),
    System(
        name="java_interpreted",
        kind="jit-off",
        truth="the Java server was started with -Xint, so that it interprets its loops, and computes on both CPUs",
        load=interpreted,
        rate=WRK,
        component=(r"java", r"pool-1-thread", r"\bMain\b"),
        mechanism=RUNS,
        never=(r"\bdisk\b", r"\bsleeps", r"garbage"),
        needs=("java", "javac", "wrk"),
    ),
]

"""Java: a log that all request threads write to a slow pipe, and a heap with little free memory."""
import os

from system import ITEMS, SLEEPS, WRK, System, wrk

SERVER = """
import com.sun.net.httpserver.HttpServer;
import java.io.FileOutputStream;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

class Main {
    public static void main(String[] arguments) throws Exception {
        FileOutputStream log = new FileOutputStream(arguments[1]);
        byte[] line = (new String(new char[400]).replace('\\0', 'l') + "\\n").getBytes(), body = "done\\n".getBytes();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 100);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", exchange -> {
            synchronized (log) {
                log.write(line);
            }
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
"""

SHIPPER = """#!/usr/bin/perl
use Time::HiRes 'sleep';
open(my $log, '<', $ARGV[0]) or die;
my $bytes = 0;
while (my $line = <$log>) {
    $bytes += length $line;
    sleep($ARGV[1]) if $ARGV[1] > 0;
}
"""

CACHE = """
import java.util.HashMap;

class Main {
    public static void main(String[] arguments) {
        long end = System.nanoTime() + (long) (Double.parseDouble(arguments[0]) * 1e9), begin = System.nanoTime(), items = 0;
        HashMap<Integer, String[]> kept = new HashMap<>();
        int next = 12345;
        while (System.nanoTime() < end) {
            for (int i = 0; i < 100; i++) {
                next = next * 1103515245 + 12345;
                String[] words = new String[16];
                for (int word = 0; word < words.length; word++)
                    words[word] = "w" + (next + word);
                kept.put((next >>> 8) % 30000, words);
                items++;
            }
        }
        System.out.printf("items %d seconds %.3f%n", items, (System.nanoTime() - begin) / 1e9);
    }
}
"""


def slow_log(place):
    port, pipe = place.port(), place.folder / "log.pipe"
    os.mkfifo(pipe)
    place.start(place.write("logship", SHIPPER), pipe, 0.003 * place.fault)
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-cp", place.java(SERVER), "Main", port, pipe, port=port)
    return wrk(f"http://127.0.0.1:{port}/", 8, place.seconds)


def small_heap(place):
    return ["java", "-XX:+UseSerialGC", "-XX:-UseGCOverheadLimit", "-Xmx1g" if place.fixed else "-Xmx45m", "-cp", str(place.java(CACHE)), "Main", str(place.seconds)]


SYSTEMS = [
    System(
        name="java_log_to_slow_pipe",
        kind="synchronous-logging",
        truth="all request threads of the Java server write their log to a pipe whose reader, logship, sleeps 3 ms for each line",
        load=slow_log,
        rate=WRK,
        component=(r"logship", r"perl", r"java"),
        mechanism=(*SLEEPS, r"\bpipe\b", r"log\.pipe"),
        never=(r"comput", r"\bdisk\b"),
        change="x0",
        halves=True,
        needs=("java", "javac", "perl", "wrk"),
    ),
    System(
        name="java_stop_the_world",
        kind="stop-the-world",
        truth="the heap of Java is hardly greater than what lives in it, so that collections stop the program most of the time",
        load=small_heap,
        rate=ITEMS,
        component=(r"java", r"VM.?Thread"),
        mechanism=(r"\bGC\b", r"garbage", r"collect", r"VM.?Thread", r"stop-the-world", r"safepoint", r"mark"),
        needs=("java", "javac"),
    ),
]

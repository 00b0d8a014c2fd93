"""Batches: a collector that lingers, datagrams that a small buffer drops."""
from services import redis
from system import ITEMS, SLEEPS, System

# Collects events until it has 64 or the time has passed, sends them to redis, and answers all of
# them.
COLLECTOR = r"""
import java.io.*;
import java.net.*;
import java.util.*;
import java.util.concurrent.*;

public class Main {
    record Event(String text, OutputStream answer) {}
    static final BlockingQueue<Event> events = new LinkedBlockingQueue<>();

    static void reads(Socket client) {
        try (client) {
            var in = new BufferedReader(new InputStreamReader(client.getInputStream()));
            for (String line; (line = in.readLine()) != null;) events.put(new Event(line, client.getOutputStream()));
        } catch (IOException | InterruptedException end) { }
    }

    static void sends(int port, long linger) throws Exception {
        var store = new Socket("127.0.0.1", port);
        store.setTcpNoDelay(true);
        var in = new BufferedReader(new InputStreamReader(store.getInputStream()));
        while (true) {
            var batch = new ArrayList<Event>();
            batch.add(events.take());
            long end = System.nanoTime() + linger;
            while (batch.size() < 64) {
                var next = linger == 0 ? events.poll() : events.poll(end - System.nanoTime(), TimeUnit.NANOSECONDS);
                if (next == null) break;
                batch.add(next);
            }
            var words = new StringBuilder("*" + (batch.size() + 2) + "\r\n$5\r\nRPUSH\r\n$6\r\nevents\r\n");
            for (var event : batch) words.append("$" + event.text.length() + "\r\n" + event.text + "\r\n");
            store.getOutputStream().write(words.toString().getBytes());
            in.readLine();
            for (var event : batch) event.answer.write('\n');
        }
    }

    public static void main(String[] args) throws Exception {
        var batches = new Thread(() -> { try { sends(Integer.parseInt(args[1]), (long) (Double.parseDouble(args[2]) * 1e9)); } catch (Exception end) { System.exit(1); } }, "batches");
        batches.start();
        var server = new ServerSocket(Integer.parseInt(args[0]), 50, InetAddress.getByName("127.0.0.1"));
        while (true) {
            var client = server.accept();
            client.setTcpNoDelay(true);
            new Thread(() -> reads(client)).start();
        }
    }
}
"""

TURNSTILES = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strconv"; "sync"; "sync/atomic"; "time")

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	begin, all := time.Now(), sync.WaitGroup{}
	var items atomic.Int64
	for turnstile := 0; turnstile < 8; turnstile++ {
		all.Add(1)
		go func(turnstile int) {
			defer all.Done()
			connection, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
			if err != nil { panic(err) }
			in := bufio.NewReader(connection)
			for time.Since(begin).Seconds() < seconds {
				fmt.Fprintf(connection, "turnstile %d opened\\n", turnstile)
				if _, err := in.ReadString('\\n'); err != nil { panic(err) }
				items.Add(1)
			}
		}(turnstile)
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", items.Load(), time.Since(begin).Seconds())
}
"""

# Answers each datagram with its number.
INTAKE = """#!/usr/bin/python3
import socket, sys, zlib
SO_RCVBUFFORCE = 33
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, int(sys.argv[2]))
server.bind(("127.0.0.1", int(sys.argv[1])))
open("intake.ready", "w").close()
while True:
    datagram, client = server.recvfrom(2048)
    zlib.crc32(datagram)
    server.sendto(datagram[:4], client)
"""

# Sends 48 datagrams at once, and repeats those that have no answer when its timer expires.
SHIPPER = """
package main

import ("encoding/binary"; "fmt"; "net"; "os"; "strconv"; "time")

func main() {
	timeout, _ := time.ParseDuration(os.Args[2])
	batches, _ := strconv.Atoi(os.Args[3])
	connection, err := net.Dial("udp", "127.0.0.1:" + os.Args[1])
	if err != nil { panic(err) }
	begin, items := time.Now(), uint32(0)
	datagram, answer := make([]byte, 1200), make([]byte, 16)
	for batch := 0; batch < batches; batch++ {
		missing := map[uint32]bool{}
		for n := uint32(0); n < 48; n++ { missing[items + n] = true }
		for len(missing) > 0 {
			for n := range missing {
				binary.BigEndian.PutUint32(datagram, n)
				connection.Write(datagram)
			}
			connection.SetReadDeadline(time.Now().Add(timeout))
			for len(missing) > 0 {
				if _, err := connection.Read(answer); err != nil { break }
				delete(missing, binary.BigEndian.Uint32(answer))
			}
		}
		items += 48
	}
	fmt.Printf("items %d seconds %.3f\\n", items, time.Since(begin).Seconds())
}
"""


def lingering_batches(place):
    store, port = redis(place), place.port()
    place.start("java", "-Xmx64m", "-cp", place.java(COLLECTOR), "Main", port, store, 0.025 * place.fault, port=port)
    return [place.go("turnstiles", TURNSTILES), str(port), str(place.seconds)]


def small_buffer(place):
    port = place.port()
    place.start(place.write("intake", INTAKE), port, 4000000 if place.fixed else 20000, path=place.folder / "intake.ready")
    return [place.go("shipper", SHIPPER), str(port), f"{30 * place.scale}ms", {1: "60", 0.5: "120"}.get(place.fault, "2000")]


SYSTEMS = [
    System(
        name="java_lingering_batches",
        kind="batching-linger",
        truth="the Java collector waits 25 ms for more events before it sends a batch to redis, and no more come, because all eight turnstiles wait for the batch",
        load=lingering_batches,
        rate=ITEMS,
        component=(r"java", r"batches", r"collector", r"\bmain\b"),
        mechanism=(*SLEEPS, r"timeout", r"linger"),
        never=(r"(redis\S*|turnstiles) (sleep|comput)",),
        change="x0",
        halves=True,
        needs=("java", "javac", "redis-server", "go"),
    ),
    System(
        name="udp_small_buffer",
        kind="datagram-loss",
        truth="the receive buffer of intake drops most datagrams of a batch, and shipper sends them again when its timer of 30 ms ends",
        load=small_buffer,
        rate=ITEMS,
        component=(r"shipper", r"intake"),
        mechanism=(*SLEEPS, r"timeout", r"drop", r"\blost\b", r"\bloss\b", r"receive buffer", r"buffer (is|was) full", r"retransm", r"sen[dt]s? .*again"),
        never=(r"comput", r"intake\S* sleep"),
        change="x0",
        halves=True,
        needs=("go",),
    ),
]

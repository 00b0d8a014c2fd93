"""Messages through a broker: a slow replica behind NATS, and an archiver behind mosquitto that
syncs each message.
"""
from system import ITEMS, PYTHON, SLEEPS, System

# The part of NATS's text protocol that both sides need. `replica PORT PAUSE` answers, `dispatch
# PORT SECONDS` asks.
NATS = r"""
package main

import ("bufio"; "fmt"; "io"; "net"; "os"; "path/filepath"; "strconv"; "strings"; "time")

func main() {
	connection, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil { panic(err) }
	in := bufio.NewReader(connection)
	next := func() (reply string) {
		for {
			line, err := in.ReadString('\n')
			if err != nil { os.Exit(0) }
			if strings.HasPrefix(line, "PING") { io.WriteString(connection, "PONG\r\n") }
			if strings.HasPrefix(line, "MSG") {
				words := strings.Fields(line)
				size, _ := strconv.Atoi(words[len(words) - 1])
				io.CopyN(io.Discard, in, int64(size + 2))
				return words[3]
			}
		}
	}
	fmt.Fprintf(connection, "CONNECT {\"verbose\":false}\r\n")
	if strings.HasPrefix(filepath.Base(os.Args[0]), "replica") {
		pause, _ := time.ParseDuration(os.Args[2])
		fmt.Fprintf(connection, "SUB jobs workers 1\r\nPING\r\n")
		in.ReadString('\n')
		in.ReadString('\n')
		os.WriteFile(os.Args[3], nil, 0644)
		for {
			reply := next()
			time.Sleep(pause)
			fmt.Fprintf(connection, "PUB %s 4\r\ndone\r\n", reply)
		}
	}
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	fmt.Fprintf(connection, "SUB answers 1\r\n")
	begin, items := time.Now(), 0
	for time.Since(begin).Seconds() < seconds {
		// A batch is done when all of its jobs are.
		for job := 0; job < 16; job++ { fmt.Fprintf(connection, "PUB jobs answers 3\r\njob\r\n") }
		for job := 0; job < 16; job++ { next() }
		items += 16
	}
	fmt.Printf("items %d seconds %.3f\n", items, time.Since(begin).Seconds())
}
"""

ARCHIVER = """#!/usr/bin/python3
import os, sys
import paho.mqtt.client as mqtt

each, count = int(sys.argv[2]), 0
archive = open("archive", "wb", buffering=0)

def store(client, _, message):
    global count
    count += 1
    archive.write(message.payload)
    if count % each == 0:
        os.fsync(archive.fileno())
    client.publish("stored", b"1")

client = mqtt.Client()
client.on_message = store
client.on_subscribe = lambda *_: open("archiver.ready", "w").close()
client.connect("127.0.0.1", int(sys.argv[1]))
client.subscribe("values")
client.loop_forever()
"""

METER = """#!/usr/bin/python3
import sys, threading, time
import paho.mqtt.client as mqtt

# Eight values are under way.
free, items, begin = threading.Semaphore(8), 0, time.monotonic()
client = mqtt.Client()
client.on_message = lambda *_: free.release()
client.connect("127.0.0.1", int(sys.argv[1]))
client.subscribe("stored")
client.loop_start()
while time.monotonic() < begin + float(sys.argv[2]):
    if free.acquire(timeout=1):
        client.publish("values", b"v" * 200)
        items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
client.loop_stop()
"""


def slow_replica(place):
    port = place.port()
    place.start("nats-server", "-a", "127.0.0.1", "-p", port, port=port)
    for name, pause in ("replica_a", "0s"), ("replica_b", f"{4 * place.fault}ms"):
        place.start(place.go(name, NATS), port, pause, f"{name}.ready", path=place.folder / f"{name}.ready")
    return [str(place.go("dispatch", NATS)), str(port), str(place.seconds)]


def sync_each(place):
    port = place.port()
    config = place.write("mosquitto.conf", f"listener {port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\nuser root\n")
    place.start("mosquitto", "-c", config, port=port)
    place.start(place.write("archiver", ARCHIVER), port, 64 if place.fixed else 1, path=place.folder / "archiver.ready")
    return [str(place.write("meter", METER)), str(port), str(place.seconds)]


SYSTEMS = [
    System(
        name="nats_slow_replica",
        kind="slow-replica",
        truth="replica_b sleeps 4 ms for each job, and a batch is done when the slower of two replicas is",
        load=slow_replica,
        rate=ITEMS,
        component=(r"replica_b",),
        mechanism=SLEEPS,
        never=(r"replica_a",),
        change="x0",
        halves=True,
        needs=("nats-server", "go"),
    ),
    System(
        name="mosquitto_sync_each",
        kind="sync-per-message",
        truth="archiver syncs its file to the disk for each message that mosquitto delivers",
        load=sync_each,
        rate=ITEMS,
        component=(r"archiver",),
        mechanism=(r"f(data)?sync", r"\bsync", r"\bdisk\b", r"block device", r"ext4", r"jbd2", r"flush", r"storage"),
        change="x0.016",
        needs=("mosquitto", PYTHON),
    ),
]

"""Systems without a relevant bottleneck: the CPUs are busy with necessary work, or programs wait
intentionally.

`acceptable` has true and harmless statements.
"""
from services import at, postgres
from system import ITEMS, PGBENCH, PYTHON, System, number

WORKERS = """
package main

import ("crypto/sha256"; "fmt"; "os"; "runtime"; "strconv"; "sync"; "time")

// As many workers as CPUs take blocks of equal size from a channel.
func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	blocks := make(chan []byte, 64)
	var all sync.WaitGroup
	for i := 0; i < runtime.NumCPU(); i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for block := range blocks { for i := 0; i < 8; i++ { sha256.Sum256(block) } }
		}()
	}
	block, items, begin := make([]byte, 1 << 16), 0, time.Now()
	for time.Since(begin).Seconds() < seconds {
		blocks <- block
		items++
	}
	close(blocks)
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", items, time.Since(begin).Seconds())
}
"""

# A sensor has a value every 50 ms, and no program waits for further values.
SENSOR = """#!/usr/bin/python3
import sys, time
import paho.mqtt.client as mqtt

client = mqtt.Client()
client.connect("127.0.0.1", int(sys.argv[1]))
client.loop_start()
begin, items = time.monotonic(), 0
while time.monotonic() < begin + float(sys.argv[2]):
    client.publish("temperature", str(items))
    items += 1
    time.sleep(max(0, begin + items * 0.05 - time.monotonic()))
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
client.loop_stop()
"""

# Removes old entries and logs a line every half second, as a crontab would every minute.
CRON = """#!/bin/bash
end=$((SECONDS + $1))
items=0
while [ $SECONDS -lt $end ]; do
    find attic -name '*.old' -delete
    ls -l attic >>cron.log
    items=$((items + 1))
    sleep 0.5
done
echo "items $items seconds $1"
"""


def static(place):
    port, folder = place.port(), place.folder
    place.write("index.html", "x" * 600)
    config = place.write("lighttpd.conf", f'server.document-root = "{folder}"\nserver.bind = "127.0.0.1"\nserver.port = {port}\nserver.max-keep-alive-requests = 10000000\n')
    place.start("lighttpd", "-D", "-f", config, port=port)
    return ["ab", "-q", "-k", "-c", "8", "-n", "120000", f"http://127.0.0.1:{port}/index.html"]


def selects(place):
    port = postgres(place)
    place.run("pgbench", *at(port), "-i", "-q", "-s", "2", "postgres")
    return ["pgbench", *at(port), "-n", "-S", "-c", "4", "-j", "1", "-T", str(place.seconds), "postgres"]


def zstd(place):
    place.write("numbers", "\n".join(str(i * 7919 % 1000003) for i in range(6000000)))
    return ["zstd", "-q", "-T2", "-9", "numbers", "-o", "numbers.zst"]


def workers(place):
    return [str(place.go("hashers", WORKERS)), str(place.seconds)]


def sensor(place):
    port = place.port()
    config = place.write("mosquitto.conf", f"listener {port} 127.0.0.1\nallow_anonymous true\nuser root\n")
    place.start("mosquitto", "-c", config, port=port)
    place.start("mosquitto_sub", "-h", "127.0.0.1", "-p", port, "-t", "temperature")
    return [str(place.write("sensor", SENSOR)), str(port), str(place.seconds)]


def cron(place):
    (place.folder / "attic").mkdir()
    for number_ in range(50):
        place.write(f"attic/{number_}.{'old' if number_ % 2 else 'new'}", "-")
    return [str(place.write("janitor", CRON)), str(place.seconds)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
SYSTEMS = [
    System(
        name="control_lighttpd_static",
        kind="control",
        truth="lighttpd serves a small file to ab, and both compute",
        load=static,
        rate=number(r"Requests per second:\s+([\d.]+)"),
        acceptable=(rf"(lighttpd|\bab\b).*{COMPUTES}", r"both CPUs|all CPUs"),
        needs=("lighttpd", "ab"),
    ),
    System(
        name="control_pgbench_select",
        kind="control",
        truth="pgbench and four postgres processes fill both CPUs with selects by primary key",
        load=selects,
        rate=PGBENCH,
        acceptable=(rf"(postgres|pgbench).*{COMPUTES}", r"both CPUs|all CPUs"),
        needs=("psql", "pgbench"),
    ),
    System(
        name="control_zstd_two_threads",
        kind="control",
        truth="zstd compresses with two threads on two CPUs",
        load=zstd,
        acceptable=(rf"zstd.*{COMPUTES}", r"both CPUs|all CPUs"),
        needs=("zstd",),
    ),
    System(
        name="control_go_workers",
        kind="control",
        truth="two workers of a Go program hash blocks on two CPUs",
        load=workers,
        rate=ITEMS,
        acceptable=(rf"hashers.*{COMPUTES}", r"both CPUs|all CPUs"),
        needs=("go",),
    ),
    System(
        name="control_mosquitto_sensor",
        kind="control",
        truth="a sensor publishes 20 values in a second by mosquitto, because it has no more, and all are idle most of the time",
        load=sensor,
        rate=ITEMS,
        acceptable=(r"paced by (sensor|python)", r"sensor.*(sleep|timer|until a time)", r"idle"),
        needs=("mosquitto", "mosquitto_sub", PYTHON),
    ),
    System(
        name="control_cron_job",
        kind="control",
        truth="a job runs twice in a second, sleeps in between by intention, and nothing waits for it",
        load=cron,
        rate=ITEMS,
        acceptable=(r"paced by (janitor|bash|sleep)", r"(janitor|\bsleep\b).*(sleep|timer|until a time)", r"idle"),
        needs=("bash", "find"),
    ),
]

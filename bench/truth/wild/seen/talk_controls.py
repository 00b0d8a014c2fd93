"""Healthy dialogues: XML-RPC with equal work on both sides, a chain of equal relays, intentional
heartbeats.
"""
from system import ITEMS, PYTHON, System

HEADQUARTERS = """
import sys
from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer

class Handler(SimpleXMLRPCRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

server = SimpleXMLRPCServer(("127.0.0.1", int(sys.argv[1])), Handler, logRequests=False)
server.register_function(lambda stock: stock, "confirm")
server.serve_forever()
"""

# Both sides of each call write and read the same list.
BRANCHES = """#!/usr/bin/python3
import multiprocessing, sys, time
import xmlrpc.client

stock = [{"article": f"a{i}", "count": i, "price": i * 0.25} for i in range(300)]

def branch(port, calls):
    headquarters = xmlrpc.client.ServerProxy(f"http://127.0.0.1:{port}/")
    for _ in range(calls):
        assert len(headquarters.confirm(stock)) == len(stock)

begin, calls = time.monotonic(), int(sys.argv[1])
branches = [multiprocessing.Process(target=branch, args=(port, calls)) for port in sys.argv[2:]]
for it in branches:
    it.start()
for it in branches:
    it.join()
print(f"items {calls * len(branches)} seconds {time.monotonic() - begin:.3f}")
"""

COLLECTOR = """
const dgram = require('dgram'), fs = require('fs');
const seen = new Map();
const socket = dgram.createSocket('udp4');
socket.on('message', (text, peer) => {
  seen.set(String(text).split(' ')[0], Date.now());
  socket.send('seen', peer.port, peer.address);
});
socket.bind(Number(process.argv[2]), '127.0.0.1', () => fs.writeFileSync('collector.ready', ''));
"""

AGENT = """
package main

import ("fmt"; "net"; "os"; "strconv"; "time")

func main() {
	peer, err := net.Dial("udp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		os.Exit(1)
	}
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	begin, items, buffer := time.Now(), 0, make([]byte, 100)
	// Sixteen in a second: nobody wants to know more.
	for range time.Tick(62500 * time.Microsecond) {
		fmt.Fprintf(peer, "agent %d", items)
		peer.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := peer.Read(buffer); err != nil {
			os.Exit(1)
		}
		items++
		if time.Since(begin).Seconds() > seconds {
			break
		}
	}
	fmt.Printf("items %d seconds %.3f\\n", items, time.Since(begin).Seconds())
}
"""


def equal_halves(place):
    ports = []
    for _ in range(2):
        ports.append(place.port())
        place.start(PYTHON, place.write("headquarters.py", HEADQUARTERS), ports[-1], port=ports[-1])
    return [str(place.write("branches", BRANCHES)), "80", *map(str, ports)]


def equal_relays(place):
    port, first, second, size = place.port(), place.folder / "first.sock", place.folder / "second.sock", "262144"
    def relay(name, source, target, **options):
        place.start(place.named("/usr/bin/socat", name), "-b", size, "-u", source, target, **options)
    relay("shelf", f"OPEN:/dev/zero,readbytes={3 << 30}", f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork", port=port)
    relay("bridge", f"TCP:127.0.0.1:{port}", f"UNIX-LISTEN:{first}", path=first)
    relay("ferry", f"UNIX-CONNECT:{first}", f"UNIX-LISTEN:{second}", path=second)
    return [str(place.named("/usr/bin/socat", "viewer")), "-b", size, "-u", f"UNIX-CONNECT:{second}", "OPEN:/dev/null"]


def heartbeats(place):
    port = place.port()
    place.start("node", place.write("collector.js", COLLECTOR), port, path=place.folder / "collector.ready")
    return [str(place.go("heartbeat", AGENT)), str(port), str(place.seconds)]


SYSTEMS = [
    System(
        name="control_xmlrpc_halves",
        kind="control",
        truth="two branches and the headquarters of each write and read the same XML, and take both CPUs evenly",
        load=equal_halves,
        rate=ITEMS,
        acceptable=(r"(branches|headquarters|python\S*).*(comput|\bcpu\b|own code)", r"cpus? (are|is) (full|busy)"),
    ),
    System(
        name="control_socat_relays",
        kind="control",
        truth="shelf, bridge, ferry and viewer, four of socat, pass data on as fast as the kernel copies, and both CPUs are full",
        load=equal_relays,
        acceptable=(r"(shelf|bridge|ferry|viewer|socat).*(comput|\bcpu\b|kernel|system call|cop(y|ies)|writ|send|read|recv|receiv)", r"cpus? (are|is) (full|busy)"),
        needs=("socat",),
    ),
    System(
        name="control_udp_heartbeats",
        kind="control",
        truth="heartbeat tells collector sixteen times in a second by intention that it is alive, and both are idle most of the time",
        load=heartbeats,
        rate=ITEMS,
        acceptable=(r"heartbeat.*(sleep|timer|until a time|idle)", r"idle"),
        needs=("node", "go"),
    ),
]

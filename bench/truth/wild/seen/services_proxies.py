"""Proxies that wait, or search their rules, before they forward a request."""
from system import ITEMS, PYTHON, SLEEPS, WRK, System, wrk

# Sends the first message, as mail servers do.
MAILROOM = """
package main

import ("bufio"; "net"; "os")

func main() {
	listener, _ := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	for {
		connection, err := listener.Accept()
		if err != nil { return }
		go func() {
			defer connection.Close()
			connection.Write([]byte("220 mailroom\\r\\n"))
			bufio.NewReader(connection).ReadString('\\n')
			connection.Write([]byte("221 bye\\r\\n"))
		}()
	}
}
"""

POSTMAN = """#!/usr/bin/python3
import socket, sys, threading, time

def delivers(count):
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
            connection.recv(100)
            connection.sendall(b"QUIT\\r\\n")
            while connection.recv(100):
                pass

begin, each = time.monotonic(), int(sys.argv[2])
threads = [threading.Thread(target=delivers, args=(each,)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"items {4 * each} seconds {time.monotonic() - begin:.3f}")
"""

WAITS = """
package main

import ("net/http"; "os"; "time")

func main() {
	pause, _ := time.ParseDuration(os.Args[2])
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(pause)
		w.Write([]byte("42\\n"))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

GATEWAY = """
const http = require("http");
const [port, behind, sockets] = process.argv.slice(2).map(Number);
const agent = new http.Agent({ keepAlive: true, maxSockets: sockets });
http.createServer((request, response) => {
  http.get({ port: behind, host: "127.0.0.1", path: request.url, agent }, (answer) => {
    const parts = [];
    answer.on("data", (part) => parts.push(part));
    answer.on("end", () => response.end(Buffer.concat(parts)));
  });
}).listen(port, "127.0.0.1");
"""


def haproxy(place, mode, rules, top=""):
    port = place.port()
    config = place.write("haproxy.cfg", f"""
global
  nbthread 1
  {top}
defaults
  mode {mode}
  timeout client 30s
  timeout server 30s
  timeout connect 5s
listen front
  bind 127.0.0.1:{port}
{rules}
""")
    place.start("haproxy", "-db", "-f", config, port=port)
    return port


def inspect_delay(place):
    port = place.port()
    place.start(place.go("mailroom", MAILROOM), port, port=port)
    inspects = f"  tcp-request inspect-delay {round(12 * place.fault)}ms\n  tcp-request content accept if HTTP\n"
    front = haproxy(place, "tcp", f"{'' if place.fixed else inspects}  server mail 127.0.0.1:{port}")
    return [str(place.write("postman", POSTMAN)), str(front), "240"]


def rules(place):
    count, port = round(1600 * place.scale), place.port()
    place.start(place.go("shop", WAITS), port, "0s", port=port)
    ending = "" if place.fixed else "(offers|reviews)/[a-z]+[.]html$"
    place.write("blocked", "".join(f"{'' if place.fixed else '^'}/shop/{i:05}/{ending}\n" for i in range(count)))
    kind = "beg" if place.fixed else "reg"
    front = haproxy(place, "http", f"""  http-request deny if {{ path -m {kind} -f {place.folder}/blocked }}
  server shop 127.0.0.1:{port}
""", "tune.pattern.cache-size 0")
    return wrk(f"http://127.0.0.1:{front}/shop/77777/reviews/all.html", 4, place.seconds)


def one_socket(place):
    behind, port = place.port(), place.port()
    place.start(place.go("tariffs", WAITS), behind, f"{0.009 * place.scale:.4f}s", port=behind)
    place.start("node", place.write("gateway.js", GATEWAY), port, behind, 8 if place.fixed else 1, port=port)
    return wrk(f"http://127.0.0.1:{port}/", 8, place.seconds)


SYSTEMS = [
    System(
        name="haproxy_inspect_delay",
        kind="inspection-delay",
        truth="haproxy waits 12 ms for first words of each client, who says nothing, because the server behind it speaks first",
        load=inspect_delay,
        rate=ITEMS,
        component=(r"haproxy",),
        mechanism=(*SLEEPS, r"time-?out", r"delay"),
        never=(r"\bdisk\b", r"comput"),
        change="x0",
        halves=True,
        needs=("haproxy", "go", PYTHON),
    ),
    System(
        name="haproxy_regex_rules",
        kind="linear-rule-list",
        truth="haproxy computes thousands of regular expressions, one after the other, for each request in its one thread",
        load=rules,
        rate=WRK,
        component=(r"haproxy",),
        mechanism=(r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"CPU", r"regex|pcre"),
        never=(r"\bdisk\b", r"\bsleeps"),
        needs=("haproxy", "go", "wrk"),
    ),
    System(
        name="node_agent_one_socket",
        kind="client-socket-limit",
        truth="the agent of gateway.js may have one connection to tariffs, which waits 9 ms in each request, so that one request goes at a time",
        load=one_socket,
        rate=WRK,
        component=(r"tariffs", r"gateway", r"node"),
        mechanism=(*SLEEPS, r"one (\w+ )?at a time", r"one after (the other|another)", r"\bone connection", r"\bqueue", r"serial", r"concurren", r"limit"),
        never=(r"\bdisk\b", r"comput"),
        change="x0.125",
        halves=True,
        needs=("node", "go", "wrk"),
    ),
]

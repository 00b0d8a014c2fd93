"""Connections that wait in the kernel: for an address, or for the rest of an answer."""
from services import private_network
from system import ITEMS, PYTHON, SLEEPS, System

DEPOT = """
package main

import ("io"; "net"; "os")

func main() {
	listener, _ := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	os.WriteFile(os.Args[2], nil, 0644)
	for {
		connection, err := listener.Accept()
		if err != nil { return }
		go func() {
			io.Copy(connection, connection)
			connection.Close()
		}()
	}
}
"""

COURIER = """#!/usr/bin/python3
import socket, sys, threading, time

port, each = int(sys.argv[1]), int(sys.argv[2])
def connected():
    while True:
        connection = socket.socket()
        try:
            connection.connect(("127.0.0.1", port))
            return connection
        except OSError:  # no address is left
            connection.close()
            time.sleep(0.01)

def brings():
    for _ in range(each):
        with connected() as connection:
            connection.sendall(b"parcel")
            connection.recv(100)

begin = time.monotonic()
threads = [threading.Thread(target=brings) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"items {4 * each} seconds {time.monotonic() - begin:.3f}")
"""

QUOTER = """#!/usr/bin/ruby
require "socket"
server = TCPServer.new("127.0.0.1", ARGV[0].to_i)
corked = ARGV[1] == "cork"
loop do
  Thread.new(server.accept) do |client|
    client.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    client.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_CORK, 1) if corked
    while line = client.gets
      client.write("quote of #{line}")
    end
    client.close
  end
end
"""

BROKER = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strconv"; "time")

func main() {
	connection, _ := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	answers, begin, items := bufio.NewReader(connection), time.Now(), 0
	for time.Since(begin).Seconds() < seconds {
		fmt.Fprintf(connection, "share %d\\n", items)
		answers.ReadString('\\n')
		items++
	}
	fmt.Printf("items %d seconds %.3f\\n", items, time.Since(begin).Seconds())
}
"""


def few_ports(place):
    port = place.port()
    first, last = (30000, 60000) if place.fixed else (30000, 30399)
    inside = private_network(place, f"echo {first} {last} >/proc/sys/net/ipv4/ip_local_port_range")
    place.start(*inside, place.go("depot", DEPOT), "20000", place.folder / "depot.ready", path=place.folder / "depot.ready")
    return [*inside, str(place.write("courier", COURIER)), "20000", "450"]


def corked(place):
    port = place.port()
    place.start(place.write("quoter", QUOTER), port, "plain" if place.fixed else "cork", port=port)
    return [str(place.go("broker", BROKER)), str(port), str(place.seconds)]


SYSTEMS = [
    System(
        name="python_few_ports",
        kind="ephemeral-ports",
        truth="courier may use 400 local ports, which rest a second after each connection, so that it finds none and sleeps until one is free",
        load=few_ports,
        rate=ITEMS,
        component=(r"courier", r"python"),
        mechanism=(*SLEEPS, r"\bports\b", r"EADDRNOTAVAIL|cannot assign|address", r"TIME.WAIT", r"connect\w* fail"),
        never=(r"\bdisk\b", r"comput"),
        change="x0",
        needs=("unshare", "nsenter", "ip", "go", PYTHON),
    ),
    System(
        name="ruby_corked_socket",
        kind="corked-socket",
        truth="quoter leaves its socket corked, so that the kernel holds each answer back until a timer of 0.2 s ends",
        load=corked,
        rate=ITEMS,
        component=(r"quoter", r"ruby", r"port \d+", r"\btcp\b", r"kernel"),
        mechanism=(r"cork", r"timer", r"held back|holds? (it |them )?back", r"\b20\d ms", r"until a time", r"delay", r"not sent|unsent|send (queue|buffer)"),
        never=(r"\bdisk\b", r"comput", r"\block\b"),
        needs=("ruby", "go"),
    ),
]

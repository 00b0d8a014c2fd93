"""Servers at which callers wait: a clearing house for slips, and names of many parts."""
import random

from system import COMPUTES, ITEMS, PYTHON, SLEEPS, System, number

CLEARING = """#!/usr/bin/python3
# usage: clearing PORT BYTES SECONDS: takes the day's slips of branches; a list ends with a line END.
import hashlib, socket, struct, sys, threading

port, least, patience = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])

def serve(branch):
    branch.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)
    branch.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(patience), int(patience * 1e6) % 1000000))
    slips = b""
    while True:
        try:
            more = branch.recv(1 << 16)
        except BlockingIOError:
            continue
        if not more:
            return
        slips += more
        if slips.endswith(b"END\\n"):
            total = slips
            for _ in range(1500):
                total = hashlib.sha256(total * 3).digest()
            branch.sendall(total)
            slips = b""

door = socket.create_server(("127.0.0.1", port), backlog=50)
while True:
    branch, _ = door.accept()
    threading.Thread(target=serve, args=(branch,), daemon=True).start()
"""

BRANCHES = """#!/usr/bin/ruby
# usage: branches PORT SECONDS: three branches send lists of slips.
require "socket"

port, seconds = ARGV[0].to_i, ARGV[1].to_f
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
lists = [0] * 3
people = 3.times.map do |who|
  Thread.new do
    clearing = TCPSocket.new("127.0.0.1", port)
    while Process.clock_gettime(Process::CLOCK_MONOTONIC) < start + seconds
      slips = (1..40).map { |slip| "branch #{who} list #{lists[who]} slip #{slip}\\n" }
      clearing.write(slips.join + "END\\n")
      clearing.read(32) or raise "no answer"
      lists[who] += 1
    end
  end
end
people.each(&:join)
printf("items %d seconds %.3f\\n", lists.sum, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start)
"""


def clearing(place):
    port = place.port()
    # The least number of bytes for which a read waits, and the longest time.
    least, patience = (1, 10) if place.fixed else (16384, 0.03 * place.fault)
    place.start(place.write("clearing", CLEARING), port, least, patience, port=port)
    return [str(place.write("branches", BRANCHES)), str(port), str(place.seconds)]


# Answers for all names below archive.example; each answer is signed.
REGISTRY = r"""
package main

import ("crypto/sha256"; "net"; "os"; "runtime"; "strconv")

func main() {
	runtime.LockOSThread()
	port, _ := strconv.Atoi(os.Args[1])
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil { panic(err) }
	os.WriteFile(os.Args[2], nil, 0644)
	asked := make([]byte, 1500)
	for {
		size, from, err := socket.ReadFromUDP(asked)
		if err != nil || size < 17 { continue }
		end, labels := 12, 0
		for end < size && asked[end] != 0 { end += int(asked[end]) + 1; labels++ }
		end++
		kind := int(asked[end])<<8 | int(asked[end+1])
		seal := sha256.Sum256(asked[12:end])
		for i := 0; i < 900; i++ { seal = sha256.Sum256(seal[:]) }
		answer := append([]byte{asked[0], asked[1], 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0}, asked[12:end+4]...)
		if labels == 10 && kind == 1 {
			answer[7] = 1
			answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, seal[0], seal[1], seal[2])
		} else {
			answer[9] = 1
			name := []byte("\x07archive\x07example\x00")
			answer = append(answer, name...)
			data := append(append([]byte{}, name...), name...)
			data = append(data, 0, 0, 0, 1, 0, 0, 4, 0, 0, 0, 4, 0, 0, 1, 0, 0, 0, 0, 0, 60)
			answer = append(append(answer, 0, 6, 0, 1, 0, 0, 0, 60, 0, byte(len(data))), data...)
		}
		socket.WriteToUDP(answer, from)
	}
}
"""


def many_labels(place):
    registry, port, folder = place.port(), place.port(), place.folder
    place.start(place.go("registry", REGISTRY), registry, folder / "open", path=folder / "open")
    config = place.write("unbound.conf", f"""
server:
  directory: "{folder}"
  chroot: ""
  username: ""
  pidfile: "{folder}/unbound.pid"
  use-syslog: no
  do-daemonize: no
  num-threads: 1
  interface: 127.0.0.1@{port}
  access-control: 127.0.0.0/8 allow
  do-not-query-localhost: no
  do-ip6: no
  module-config: "iterator"
  qname-minimisation: {'no' if place.fixed else 'yes'}
stub-zone:
  name: "archive.example"
  stub-addr: 127.0.0.1@{registry}
remote-control:
  control-enable: no
""")
    place.start("/usr/sbin/unbound", "-d", "-c", config, port=port)
    chance = random.Random(7)
    names = (".".join(f"{chance.randrange(1 << 24):x}" for _ in range(8)) for _ in range(40000))
    place.write("names", "".join(f"{name}.archive.example A\n" for name in names))
    return ["dnsperf", "-s", "127.0.0.1", "-p", str(port), "-d", f"{folder}/names", "-l", str(place.seconds), "-q", "8", "-c", "1", "-T", "1"]


SYSTEMS = [
    System(
        name="python_clearing_of_slips",
        kind="receive-low-water-mark",
        truth="clearing does not wake for a list of slips that has come, because it is shorter than the low-water mark of its socket (SO_RCVLOWAT, 16 KiB); it waits for more until its 30 ms are over",
        load=clearing,
        rate=ITEMS,
        component=(r"clearing", r"python"),
        mechanism=(*SLEEPS, r"time-?out", r"timed out", r"time limit", r"low.?water", r"RCVLOWAT", r"more (bytes|data)"),
        never=(r"(clearing|branches|python\S*|ruby\S*) (comput|runs)", r"(branches|ruby\S*) sleeps", r"\bdisk\b", r"\block"),
        change="x0",
        halves=True,
        needs=("ruby", PYTHON),
    ),
    System(
        name="unbound_names_of_many_parts",
        kind="query-minimisation",
        truth="unbound asks registry for one label after the other of each name (qname-minimisation), so that registry signs eight answers for each name",
        load=many_labels,
        rate=number(r"Queries per second:\s+([\d.]+)"),
        component=(r"registry", r"unbound.*(asks|waits|calls|round|quer|sends)"),
        mechanism=(*COMPUTES, r"\bcpu", r"\bruns\b", r"round.?trip", r"quer(y|ies)", r"requests?", r"calls?", r"asks"),
        never=(r"(dnsperf|unbound) (comput|sleeps)", r"registry sleeps", r"\bdisk\b", r"\block"),
        needs=("unbound", "go", "dnsperf"),
    ),
]

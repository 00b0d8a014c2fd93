"""Questions to a name server, half of which go to a socket that no process reads."""
from system import ITEMS, PYTHON, SLEEPS, System

# The rest of an older server: its socket shares the port, and no process reads it.
REMNANT = """
import socket, sys, time

port = int(sys.argv[1])
left = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
left.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
left.bind(("127.0.0.1", port))
open(sys.argv[2], "w").close()
time.sleep(1000)
"""

LOOKUPS = """#!/usr/bin/ruby
require 'resolv'
port, timeout, seconds = ARGV[0].to_i, ARGV[1].to_f, ARGV[2].to_f
begun = Process.clock_gettime(Process::CLOCK_MONOTONIC)
since = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) - begun }
counts = 8.times.map do
  Thread.new do
    count = 0
    names = Resolv::DNS.new(nameserver_port: [['127.0.0.1', port]], search: [], ndots: 1)
    names.timeouts = [timeout]
    while since.call < seconds
      begin
        names.getaddress('shop.example.')
        count += 1
      rescue Resolv::ResolvError
        # Asked again, from another port.
      end
    end
    count
  end
end
puts "items #{counts.sum(&:value)} seconds #{since.call.round(3)}"
"""


def unread_socket(place):
    port = place.port()
    config = place.write("unbound.conf", f"""
server:
  interface: 127.0.0.1@{port}
  access-control: 127.0.0.0/8 allow
  username: ""
  chroot: ""
  directory: "{place.folder}"
  pidfile: ""
  use-syslog: no
  do-daemonize: no
  num-threads: 1
  so-reuseport: yes
  local-zone: "example." static
  local-data: "shop.example. A 192.0.2.7"
remote-control:
  control-enable: no
""")
    place.start("unbound", "-d", "-c", config, port=port)
    if not place.fixed:
        ready = place.folder / "left"
        place.start(PYTHON, place.write("remnant.py", REMNANT), port, ready, path=ready)
    return [str(place.write("lookups", LOOKUPS)), str(port), str(0.04 * place.scale), str(place.seconds)]


SYSTEMS = [
    System(
        name="udp_unread_socket",
        kind="unread-shared-port",
        truth="half of the questions of lookups go to the socket of remnant.py, which shares unbound's port and reads nothing, so that lookups waits for its timeout of 40 ms and asks again",
        load=unread_socket,
        rate=ITEMS,
        component=(r"lookups", r"ruby", r"remnant"),
        mechanism=(*SLEEPS, r"time-?out", r"timed out", r"(never|not|un-?) ?(read|received|taken|answered)", r"lost", r"dropp"),
        never=(r"unbound (sleep|comput)", r"(lookups|ruby\S*) comput"),
        change="x0",
        halves=True,
        needs=("ruby", "unbound"),
    ),
]

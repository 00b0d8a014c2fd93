"""Packets that a filter drops: a policer, a black hole for large packets, lost fragments, IPv6 first."""
from services import private_network
from system import ITEMS, System

ZONE = """#!/usr/bin/python3
import socket, sys, threading

port = int(sys.argv[1])
answer = b"k" * 3000

def streams():
    server = socket.create_server(("127.0.0.1", port))
    while True:
        peer, _ = server.accept()
        peer.recv(512)
        peer.sendall(answer)
        peer.close()

threading.Thread(target=streams, daemon=True).start()
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", port))
while True:
    ask, peer = server.recvfrom(512)
    most = int(ask.split()[0])
    # What does not fit is cut off, and the resolver asks again by TCP.
    server.sendto(answer if len(answer) <= most else b"cut", peer)
"""

RESOLVER = """#!/usr/bin/python3
import socket, sys, time

zone, most, patience = ("127.0.0.1", int(sys.argv[1])), sys.argv[2], float(sys.argv[3])
seconds = float(sys.argv[4])

def asked(name):
    ask = f"{most} {name}".encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(patience)
        udp.sendto(ask, zone)
        try:
            answer = udp.recv(9000)
            if answer != b"cut":
                return answer
        except TimeoutError:
            pass
    with socket.create_connection(zone) as tcp:
        tcp.sendall(ask)
        answer = b""
        while piece := tcp.recv(9000):
            answer += piece
        return answer

begin, items = time.monotonic(), 0
while time.monotonic() - begin < seconds:
    assert len(asked(f"key{items}")) == 3000
    items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""

# Downloads one after the other, each with a new curl.
FETCHES = """#!/bin/sh
begin=$(date +%s.%N)
for i in $(seq $1); do
    curl -sf -o /dev/null $2 || exit 1
done
echo "items $1 seconds $(echo "$(date +%s.%N) $begin" | awk '{ printf "%.3f", $1 - $2 }')"
"""


def rules(place, *lines):
    """Returns a file for nft whose chain sees packets before fragments are reassembled."""
    chain = "type filter hook prerouting priority -450; policy accept;"
    text = "\n".join(lines)
    return place.write("rules.nft", f"table inet shield {{\nchain before {{\n{chain}\n{text}\n}}\n}}\n")


def web(place, inside, listen, pages):
    """nginx in the network `inside` at the address `listen`."""
    folder = place.folder
    paths = " ".join(f"{kind}_temp_path {folder}/{kind};"
                     for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    config = place.write("nginx.conf", f"""
daemon off; user root; pid {folder}/nginx.pid; error_log {folder}/nginx.error;
worker_processes 1;
events {{ worker_connections 256; }}
http {{ access_log off; {paths} server {{ {listen} root {pages}; }} }}
""")
    place.start(*inside, "nginx", "-p", folder, "-c", config, path=folder / "nginx.pid")


def policed(place):
    """A policer drops packets beyond 4 MB per second. Without the fault, a queue delays them."""
    port = place.port()
    limit = int(4000 / place.scale)
    rate = () if place.fixed else (
        f"tcp sport {port} limit rate over {limit} kbytes/second burst 40 kbytes drop",)
    inside = private_network(place, "ip link set lo mtu 1500 gso_max_segs 1",
                             "sysctl -qw net.ipv4.tcp_congestion_control=reno",
                             f"nft -f {rules(place, *rate)}")
    (place.folder / "pages").mkdir()
    (place.folder / "pages/film").write_bytes(bytes(4 << 20))
    web(place, inside, f"listen 127.0.0.1:{port};", place.folder / "pages")
    fetches = place.write("fetches", FETCHES)
    return [*inside, fetches, "60" if place.fixed else "4", f"http://127.0.0.1:{port}/film"]


def black_hole(place):
    """Packets of more than 1400 bytes are dropped without an answer to the sender."""
    port = place.port()
    inside = private_network(
        place, f"ip link set lo mtu {1400 if place.fixed else 1500} gso_max_segs 1",
        "sysctl -qw net.ipv4.tcp_congestion_control=reno net.ipv4.tcp_mtu_probing=1"
        " net.ipv4.tcp_retries1=1",
        f"nft -f {rules(place, 'meta length > 1400 drop')}")
    (place.folder / "pages").mkdir()
    (place.folder / "pages/chapter").write_bytes(bytes(100_000))
    web(place, inside, f"listen 127.0.0.1:{port};", place.folder / "pages")
    fetches = place.write("fetches", FETCHES)
    return [*inside, fetches, "200" if place.fixed else "3", f"http://127.0.0.1:{port}/chapter"]


def dead_ipv6(place):
    """curl first tries IPv6, where the filter drops its SYN, and after a delay IPv4."""
    port = place.port()
    drop = () if place.fixed else (f"ip6 daddr ::1 tcp dport {port} drop",)
    inside = private_network(place, f"nft -f {rules(place, *drop)}")
    (place.folder / "pages").mkdir()
    (place.folder / "pages/prices").write_text("apple 3\n")
    web(place, inside, f"listen 127.0.0.1:{port}; listen [::1]:{port};", place.folder / "pages")
    eyes = f"--happy-eyeballs-timeout-ms {int(200 * place.scale)}"
    fetches = place.write("fetches", FETCHES.replace("curl -sf", f"curl -sf {eyes}"))
    both = f"--resolve shop.test:{port}:[::1],127.0.0.1"
    return [*inside, fetches, "150" if place.fixed else "15",
            f"{both} http://shop.test:{port}/prices"]


def fragments(place):
    """Answers come in fragments, which the filter drops; or they are truncated, and the client
    repeats the question over TCP.
    """
    port = place.port()
    inside = private_network(place, "ip link set lo mtu 1500",
                             f"nft -f {rules(place, 'ip frag-off & 0x3fff != 0 drop')}")
    place.start(*inside, place.write("keyzone", ZONE), port)
    place.run("sleep", "0.5")
    return [*inside, place.write("validator", RESOLVER), str(port),
            "1232" if place.fixed else "4096", str(0.05 * place.scale), str(place.seconds)]


PORT = (r"port \d+", r"connection", r"\btcp\b", r"network", r"packet", r"kernel")

SYSTEMS = [
    System(
        name="nginx_policed",
        kind="traffic-policer",
        truth="the packet filter drops what nginx sends above 4 MB in a second, so that TCP sends it again and nginx and curl wait for each other's packets",
        load=policed,
        rate=ITEMS,
        component=(r"nginx", r"curl", r"nft|netfilter|packet filter|firewall", *PORT),
        mechanism=(r"\blos[st]", r"\bdrop", r"retransmi", r"sen[dt]s? .*again", r"polic(e|ing)", r"congestion", r"in transit", r"rate limit", r"tcp.* timer"),
        never=(r"(nginx|curl|fetches) (sleep|comput)", r"\bdisk\b", r"\bdns\b"),
        halves=True,
        needs=("nginx", "nft", "curl"),
    ),
    System(
        name="nginx_black_hole",
        kind="path-mtu-black-hole",
        truth="the packet filter drops each packet of more than 1400 bytes without a word, so that nginx's kernel sends the same packets again after longer and longer timers before it tries smaller ones",
        load=black_hole,
        rate=ITEMS,
        component=(r"nginx", r"curl", r"nft|netfilter|packet filter|firewall", *PORT),
        mechanism=(r"\blos[st]", r"\bdrop", r"retransmi", r"sen[dt]s? .*again", r"\bmtu\b", r"in transit", r"tcp.* timer", r"timer.*tcp", r"timer of the kernel"),
        never=(r"(nginx|curl|fetches) (sleep|comput)", r"\bdisk\b", r"\bdns\b", r"receive (buffer|window)"),
        needs=("nginx", "nft", "curl"),
    ),
    System(
        name="curl_dead_ipv6",
        kind="happy-eyeballs-delay",
        truth="curl tries IPv6 first, where the packet filter drops its SYN, and waits 200 ms before it connects by IPv4",
        load=dead_ipv6,
        rate=ITEMS,
        component=(r"curl",),
        mechanism=(r"connect", r"time ?-?outs?", r"sleep", r"timer", r"\bsyn\b", r"ipv6", r"\bdrop", r"until a time", r"\blos[st]"),
        never=(r"nginx", r"\bcomput", r"\bdisk\b", r"\bdns\b", r"\block\b"),
        change="x0",
        halves=True,
        needs=("nginx", "nft", "curl"),
    ),
    System(
        name="dns_lost_fragments",
        kind="fragments-dropped",
        truth="the packet filter drops the fragments of keyzone's large datagrams, so that validator waits for its timeout of 50 ms and asks again by TCP",
        load=fragments,
        rate=ITEMS,
        component=(r"validator", r"port \d+", r"packet filter|netfilter|nft|firewall"),
        mechanism=(r"time ?-?outs?", r"sleep", r"timer", r"fragment", r"\bdrop", r"\blos[st]", r"until a time", r"never answered", r"no answer"),
        never=(r"comput", r"keyzone (sleep|comput)", r"\bdisk\b", r"\block\b"),
        change="x0",
        halves=True,
        needs=("nft",),
    ),
]

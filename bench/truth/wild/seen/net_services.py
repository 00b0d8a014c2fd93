"""Services on sockets: DNS search lists, a TLS handshake while accepting."""
from services import private_network
from system import ITEMS, SLEEPS, System

# Knows one name, and delays each answer. Questions do not wait for one another.
NAMES = """#!/usr/bin/python3
import asyncio, sys

pause = float(sys.argv[1])

class Names(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, ask, peer):
        asyncio.get_running_loop().call_later(pause, self.answer, ask, peer)

    def answer(self, ask, peer):
        end = ask.index(0, 12) + 5
        known = ask[12:end - 4] == b"\\3api\\7partner\\4test\\0"
        head = ask[:2] + (b"\\x85\\x80" if known else b"\\x85\\x83") + b"\\0\\1\\0" + bytes([known])
        record = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\5\\0\\4\\x7f\\0\\0\\1" if known else b""
        self.transport.sendto(head + bytes(4) + ask[12:end] + record, peer)

async def main():
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(Names, local_addr=("127.0.0.1", 53))
    open(sys.argv[2], "w").close()
    await asyncio.Event().wait()

asyncio.run(main())
"""

CALLER = """#!/usr/bin/python3
import socket, sys, time

begin, items = time.monotonic(), 0
while time.monotonic() - begin < float(sys.argv[1]):
    socket.gethostbyname("api.partner.test")
    items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""

# The handshake happens in accept, or in the thread of the connection.
TELLER = """#!/usr/bin/python3
import socket, ssl, sys, threading

port, inline = int(sys.argv[1]), sys.argv[2] == "accept"
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("key.pem")
listener = socket.create_server(("127.0.0.1", port), backlog=100)
# Accepted sockets inherit it.
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
if inline:
    listener = context.wrap_socket(listener, server_side=True)

def talk(peer):
    try:
        if not inline:
            peer = context.wrap_socket(peer, server_side=True)
        while peer.recv(100):
            peer.sendall(b"balance 42")
    except (OSError, ssl.SSLError):
        pass
    finally:
        peer.close()

while True:
    try:
        peer, _ = listener.accept()
    except (OSError, ssl.SSLError):
        continue
    threading.Thread(target=talk, args=(peer,), daemon=True).start()
"""

# A scale that connects, and sends its first word late, repeatedly.
LAZY = """#!/usr/bin/python3
import socket, ssl, sys, time

context = ssl._create_unverified_context()
while True:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as plain:
        time.sleep(float(sys.argv[2]))
        try:
            with context.wrap_socket(plain) as peer:
                peer.sendall(b"weight 7")
                peer.recv(100)
        except OSError:
            pass
"""

TILLS = """#!/usr/bin/python3
import socket, ssl, sys, threading, time

port, end = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
context = ssl._create_unverified_context()
counts = [0, 0]

def till(number):
    while time.monotonic() < end:
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as peer:
            peer.sendall(b"ask")
            assert peer.recv(100)
            counts[number] += 1

begin = time.monotonic()
threads = [threading.Thread(target=till, args=(number,)) for number in range(len(counts))]
for it in threads:
    it.start()
for it in threads:
    it.join()
print(f"items {sum(counts)} seconds {time.monotonic() - begin:.3f}")
"""

def search_list(place):
    """Names with fewer dots than `ndots` are first looked up in five domains."""
    domains = " ".join(f"{name}.cluster.test" for name in ("shop", "svc", "west", "ops", "lab"))
    resolv = place.write("resolv.conf", f"nameserver 127.0.0.1\nsearch {domains}\n"
                                        f"options ndots:{1 if place.fixed else 5}\n")
    inside = private_network(place, f"mount --bind {resolv} /etc/resolv.conf")
    place.start(*inside, place.write("nameserver", NAMES), 0.006 * place.scale,
                place.folder / "names-ready", path=place.folder / "names-ready")
    return [*inside, place.write("caller", CALLER), str(place.seconds)]


def inline_handshake(place):
    port = place.port()
    place.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
              "-nodes", "-subj", "/CN=teller", "-keyout", "key", "-out", "cert")
    place.run("sh", "-c", "cat key cert > key.pem")
    place.start(place.write("teller", TELLER), port, "thread" if place.fixed else "accept", port=port)
    place.start(place.write("lazyscale", LAZY), port, 0.06 * place.scale)
    return [place.write("tills", TILLS), str(port), str(place.seconds)]


SYSTEMS = [
    System(
        name="dns_search_list",
        kind="dns-search-list",
        truth="caller looks up each name in five domains of the search list first, because ndots is 5, and nameserver waits 6 ms by a timer for each of the six questions",
        load=search_list,
        rate=ITEMS,
        component=(r"caller", r"nameserver", r"port 53\b", r"\bdns\b"),
        mechanism=(*SLEEPS, r"\bdns\b", r"name ?server", r"look(s|ing|ed)? up", r"round trip", r"quer(y|ies)", r"port 53\b"),
        never=(r"comput", r"\bdisk\b", r"\block\b", r"time ?-?out (of|ends)", r"caller sleeps"),
        halves=True,
    ),
    System(
        name="tls_handshake_in_accept",
        kind="handshake-in-accept-loop",
        truth="teller makes the TLS handshake within accept, so that all tills wait while lazyscale sleeps 60 ms before its first word",
        load=inline_handshake,
        rate=ITEMS,
        component=(r"lazyscale", r"teller"),
        mechanism=(*SLEEPS, r"accept", r"handshake", r"waits? (for|to read).*(lazyscale|connection|client)", r"one (\w+ )?at a time", r"\brecv|\breads?\b|receiv"),
        never=(r"comput", r"\bdisk\b", r"tills sleep", r"teller sleep"),
        change="x0",
        halves=True,
        running=True,
        needs=("openssl",),
    ),
]

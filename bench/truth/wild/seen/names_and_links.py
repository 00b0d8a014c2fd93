"""Slow name lookups, a resolver with one port, a queue full of bulk data."""
from services import private_network
from system import ITEMS, LOCKS, PYTHON, SLEEPS, System, number

# Answers each question after a delay: addresses with 127.0.0.1, other questions with "no such
# name".
NAMES = r"""
import socket, sys, threading, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", int(sys.argv[1])))
open(sys.argv[3], "w").close()
def answer(query, client):
    time.sleep(float(sys.argv[2]))
    end = query.index(b"\0", 12) + 5
    address = query[end - 4:end] == b"\0\1\0\1"
    head = query[:2] + (b"\x85\x80\0\1\0\1\0\0\0\0" if address else b"\x85\x83\0\1\0\0\0\0\0\0")
    record = b"\xc0\x0c\0\1\0\1\0\0\1\x2c\0\4\x7f\0\0\1" if address else b""
    server.sendto(head + query[12:end] + record, client)
while True:
    threading.Thread(target=answer, args=server.recvfrom(4096)).start()
"""

ORDERS = """#!/usr/bin/python3
import sys, threading, time
import pymysql

end, items = time.monotonic() + float(sys.argv[2]), []

def worker():
    while time.monotonic() < end:
        connection = pymysql.connect(host="10.77.0.1", port=int(sys.argv[1]), user="shop", bind_address="10.77.0.2", database="shop")
        with connection.cursor() as cursor:
            cursor.execute("select sum(amount) from orders where customer = %s", (len(items) % 100,))
            items.append(cursor.fetchone())
        connection.close()

begin, workers = time.monotonic(), [threading.Thread(target=worker) for _ in range(2)]
for thread in workers: thread.start()
for thread in workers: thread.join()
print(f"items {len(items)} seconds {time.monotonic() - begin:.3f}")
"""

PANEL = """#!/usr/bin/python3
import sys, time
import redis

client = redis.Redis(port=int(sys.argv[1]))
begin, items = time.monotonic(), 0
while time.monotonic() < begin + float(sys.argv[2]):
    client.get("level")
    items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def waits_for(place, inside, address, port):
    place.run(*inside, "bash", "-c", f"for i in $(seq 400); do (exec 3<>/dev/tcp/{address}/{port}) 2>/dev/null && exit; sleep 0.05; done; exit 1")


def reverse_names(place):
    resolv = place.write("resolv.conf", "nameserver 127.0.0.1\noptions timeout:10\n")
    inside = private_network(place, "ip addr add 10.77.0.1/32 dev lo", "ip addr add 10.77.0.2/32 dev lo", f"mount --bind {resolv} /etc/resolv.conf")
    ready = place.folder / "names-ready"
    place.start(*inside, PYTHON, place.write("nameserver.py", NAMES), 53, 0.03 * place.scale, ready, path=ready)
    home, port, socket = place.folder / "mariadb", place.port(), place.folder / "mariadb.sock"
    place.run("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={home}", "--auth-root-authentication-method=normal", "--skip-name-resolve")
    place.start(*inside, "mariadbd", "--no-defaults", "--user=root", f"--datadir={home}", f"--socket={socket}", f"--port={port}", "--bind-address=10.77.0.1",
                "--host-cache-size=0", *(["--skip-name-resolve"] if place.fixed else []))
    waits_for(place, inside, "10.77.0.1", port)
    place.run("mariadb", "--no-defaults", "-S", socket, "-u", "root", "-e",
              "create database shop; use shop; create table orders (customer int, amount int, key (customer)); "
              "insert into orders select seq % 100, seq from seq_1_to_2000; create user shop@'%'; grant select on shop.* to shop@'%'")
    return [*inside, place.write("orders", ORDERS), str(port), str(place.seconds)]


def one_port(place):
    zone, resolver, ready = place.port(), place.port(), place.folder / "names-ready"
    place.start(PYTHON, place.write("zoneserver.py", NAMES), zone, 0.01 * place.scale, ready, path=ready)
    config = place.write("unbound.conf", f"""
server:
  interface: 127.0.0.1
  port: {resolver}
  access-control: 127.0.0.0/8 allow
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{place.folder}"
  pidfile: ""
  use-syslog: no
  module-config: "iterator"
  num-threads: 1
  outgoing-range: {64 if place.fixed else 1}
  num-queries-per-thread: 512
  jostle-timeout: 10000
  do-not-query-localhost: no
  do-ip6: no
  qname-minimisation: no
forward-zone:
  name: "."
  forward-addr: 127.0.0.1@{zone}
remote-control:
  control-enable: no
""")
    place.start("unbound", "-d", "-c", config, port=resolver)
    place.write("queries", "".join(f"host{number}.pages.example A\n" for number in range(40000)))
    return ["dnsperf", "-s", "127.0.0.1", "-p", str(resolver), "-d", "queries", "-l", str(place.seconds), "-q", "8", "-c", "2", "-t", "20"]


def shared_queue(place):
    """The queue of a slow device has as much bulk data as the send buffer of iperf3 allows."""
    redis, bulk = place.port(), place.port()
    shaper = ["tc qdisc add dev lo root handle 1: htb default 10",
              "tc class add dev lo parent 1: classid 1:1 htb rate 40mbit ceil 40mbit",
              "tc class add dev lo parent 1:1 classid 1:10 htb rate 30mbit ceil 40mbit prio 1",
              "tc qdisc add dev lo parent 1:10 bfifo limit 2m",
              "tc class add dev lo parent 1:1 classid 1:20 htb rate 10mbit ceil 40mbit prio 0"]
    if place.fixed:
        shaper += [f"tc filter add dev lo parent 1: protocol ip u32 match ip {side} {redis} 0xffff flowid 1:20" for side in ("sport", "dport")]
    inside = private_network(place, "ip link set lo mtu 1500", *shaper)
    place.start(*inside, "redis-server", "--port", redis, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", place.folder)
    waits_for(place, inside, "127.0.0.1", redis)
    place.start(*inside, "iperf3", "-s", "-B", "127.0.0.1", "-p", bulk)
    waits_for(place, inside, "127.0.0.1", bulk)
    place.start(*inside, "iperf3", "-c", "127.0.0.1", "-p", bulk, "-t", "100", "-u", "-b", "0", "-l", "1400", "-w", int(200000 * place.scale))
    # The queue is full after that.
    place.run("sleep", "1")
    return [*inside, place.write("panel", PANEL), str(redis), str(place.seconds)]


SYSTEMS = [
    System(
        name="mariadb_reverse_dns",
        kind="reverse-dns",
        truth="mariadbd looks up the name of the client's address for each connection, and the name server sleeps 30 ms for each question",
        load=reverse_names,
        rate=ITEMS,
        component=(r"mariadb", r"nameserver", r"python", r"name server", r"\bdns\b"),
        mechanism=(*SLEEPS, r"name server", r"nameserver", r"\bdns\b", r"look(s|ed)? ?up", r"resolv", r"port 53\b"),
        never=(r"comput", r"\bdisk\b", r"orders sleep"),
        change="x0",
        halves=True,
        needs=("mariadbd", "mariadb-install-db", "nsenter", PYTHON),
    ),
    System(
        name="unbound_one_port",
        kind="outstanding-query-limit",
        truth="unbound may have one query to the zone server under way, which sleeps 10 ms for each, while eight wait",
        load=one_port,
        rate=number(r"Queries per second:\s+([\d.]+)"),
        component=(r"unbound", r"zoneserver", r"python"),
        mechanism=(*SLEEPS, *LOCKS, r"one after the other", r"in sequence", r"outstanding", r"in flight", r"limit"),
        never=(r"comput", r"dnsperf sleep", r"unbound sleep"),
        change="x0.125",
        halves=True,
        running=True,
        needs=("unbound", "dnsperf", PYTHON),
    ),
    System(
        name="redis_behind_bulk_data",
        kind="bufferbloat",
        truth="each packet between panel and redis waits in the queue of the network device behind the bulk data of iperf3, of which 40 Mbit pass in a second",
        load=shared_queue,
        rate=ITEMS,
        component=(r"network", r"\blink\b", r"\blo\b", r"qdisc", r"htb", r"iperf3", r"packet"),
        mechanism=(r"queue", r"\blink\b", r"bandwidth", r"qdisc", r"shap", r"in flight", r"transm", r"rate limit"),
        never=(r"comput", r"\bdisk\b", r"(redis\S*|panel|iperf3) sleep"),
        halves=True,
        needs=("redis-server", "iperf3", "tc", "nsenter"),
    ),
]

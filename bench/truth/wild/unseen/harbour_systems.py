"""Messages and copies of a harbour: ssh, TFTP, rabbitmq, new IPv6 addresses, a token ring."""
import os

from services import private_network
from system import COMPUTES, ITEMS, PYTHON, SLEEPS, System

# Two sides that take turns, each idle while the other has the turn.
TURNS = (r"wait for (each other|one another)", r"round.?trip", r"in turn", r"take turns", r"alternat", r"one (\w+ )?at a time", r"ping.?pong", r"one after the other")


def inside(place, *commands):
    """Makes a private network; returns the words before a command that runs in it and in place.folder."""
    return [*private_network(place, *commands), "env", "-C", str(place.folder)]


# A copy by ssh, with a private sshd.

def sshd(place, settings=""):
    """Starts sshd for a new key of root; returns the words of an ssh client before the remote command."""
    port, folder = place.port(), place.folder
    for name in ("hostkey", "userkey"):
        place.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
    config = place.write("sshd.conf", f"""
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/hostkey
AuthorizedKeysFile {folder}/userkey.pub
StrictModes no
UsePAM no
UseDNS no
PermitRootLogin yes
PidFile none
{settings}
""")
    # sshd wants the folder /run/sshd, which exists only if the service runs.
    place.start("unshare", "-m", "sh", "-c", f"mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec /usr/sbin/sshd -D -e -f {config}", port=port)
    return (f"ssh -F none -q -p {port} -i {folder}/userkey -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
            "-o BatchMode=yes root@127.0.0.1")


def soundings(place, megabytes):
    path = place.folder / "soundings.dat"
    piece = os.urandom(1 << 20)
    with path.open("wb") as out:
        for _ in range(megabytes):
            out.write(piece)
    return path


def rekeyed(place):
    # Somebody wrote 1M for 1G.
    settings = "" if place.fixed else f"RekeyLimit {round(1048576 / place.fault)}"
    return ["sh", "-c", f"{sshd(place, settings)} cat {soundings(place, 32)} > /dev/null"]


def two_copies(place):
    client, path = sshd(place), soundings(place, 200)
    copy = f"{client} cat {path} {path} {path} > /dev/null"
    return ["sh", "-c", f"{copy} & {copy} & wait"]


# Images by TFTP: the next block goes out when the last one is acknowledged.

BOOTROOM = """
import subprocess, sys, time

size, seconds = sys.argv[1], float(sys.argv[2])
begin, images = time.monotonic(), 0
while time.monotonic() < begin + seconds:
    subprocess.run(["curl", "-sf", "--tftp-blksize", size, "-o", "/dev/null", "tftp://127.0.0.1/radar.img"], check=True)
    images += 1
print("items", images, "seconds", time.monotonic() - begin)
"""


def tftp(place):
    within = inside(place)
    (place.folder / "images").mkdir()
    (place.folder / "images/radar.img").write_bytes(os.urandom(384 << 10))
    ready = place.folder / "dnsmasq.pid"
    place.start(*within, "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root", f"--pid-file={ready}",
                "--listen-address=127.0.0.1", "--bind-interfaces", "--enable-tftp", f"--tftp-root={place.folder}/images", path=ready)
    size = 1428 if place.fixed else 64
    return [*within, PYTHON, str(place.write("bootroom.py", BOOTROOM)), str(size), str(place.seconds)]


# rabbitmq: requests rest in a queue until their time to live is over, and are dead letters for the
# queue of the consumer then.

CUSTOMS = """
import sys
import pika

link = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(sys.argv[1])))
channel = link.channel()
channel.exchange_declare("arrivals", "direct")
channel.queue_declare("clearance")
channel.queue_bind("clearance", "arrivals", "cleared")
if sys.argv[2] != "0":
    channel.queue_declare("roadstead", arguments={"x-message-ttl": int(sys.argv[2]), "x-dead-letter-exchange": "arrivals", "x-dead-letter-routing-key": "cleared"})
    channel.queue_bind("roadstead", "arrivals", "arrived")
else:
    channel.queue_bind("clearance", "arrivals", "arrived")

def clear(channel, method, properties, body):
    channel.basic_publish("", properties.reply_to, b"cleared " + body, pika.BasicProperties(correlation_id=properties.correlation_id))

channel.basic_consume("clearance", clear, auto_ack=True)
open("customs-ready", "w").close()
channel.start_consuming()
"""

QUAY = """
import sys, time
import pika

OPEN = 8
link = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(sys.argv[1])))
channel = link.channel()
answers = channel.queue_declare("", exclusive=True).method.queue
begin, cleared, seconds = time.monotonic(), 0, float(sys.argv[2])

def ask(number):
    channel.basic_publish("arrivals", "arrived", b"ship %d" % number, pika.BasicProperties(reply_to=answers, correlation_id=str(number)))

def answered(channel, method, properties, body):
    global cleared
    cleared += 1
    if time.monotonic() > begin + seconds:
        channel.stop_consuming()
    else:
        ask(cleared + OPEN)

channel.basic_consume(answers, answered, auto_ack=True)
for number in range(OPEN):
    ask(number)
channel.start_consuming()
print("items", cleared, "seconds", time.monotonic() - begin)
link.close()
"""


def rabbitmq(place):
    """Starts rabbitmq with a port mapper of its own; returns its port."""
    port, mapper, folder = place.port(), place.port(), place.folder
    plugins = place.write("plugins", "[].\n")
    place.write("rabbitmq.conf", "")
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "ERL_EPMD_PORT": str(mapper), "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"harbour{port}@localhost", "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1", "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(place.port()), "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"), "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins), "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"), "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_PID_FILE": str(folder / "rabbitmq.pid"),
    }
    place.start("epmd", "-port", mapper, "-address", "127.0.0.1", port=mapper, env=environment)
    place.start("/usr/lib/rabbitmq/bin/rabbitmq-server", port=port, env=environment)
    return port


def roadstead(place):
    port = rabbitmq(place)
    place.start(PYTHON, place.write("customs.py", CUSTOMS), port, round(40 * place.fault), path=place.folder / "customs-ready")
    return [PYTHON, str(place.write("quay.py", QUAY)), str(port), str(place.seconds)]


# Each ship gets an IPv6 address of its own, which is tentative until the kernel has asked the link
# whether somebody else has it.

BERTHD = """
import itertools, os, socket, socketserver, struct, sys

NEW, REMOVE, NODAD, TENTATIVE = 20, 21, 2, 0x40
DEVICE = socket.if_nametoindex(sys.argv[1])
FLAGS = int(sys.argv[2])
berths = itertools.count(0x1000)

def change(kind, address, flags, options):
    packed = socket.inet_pton(socket.AF_INET6, address)
    body = struct.pack("=BBBBi", socket.AF_INET6, 128, flags, 0, DEVICE) + b"".join(struct.pack("=HH", 20, of) + packed for of in (1, 2))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        link.send(struct.pack("=IHHII", 16 + len(body), kind, 5 | options, 1, 0) + body)
        error = struct.unpack_from("=i", link.recv(4096), 16)[0]
        if error:
            raise OSError(-error, os.strerror(-error))

class Desk(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            if line != b"berth\\n":
                change(REMOVE, line.decode().strip(), 0, 0)
                continue
            address = "fd00:5::%x" % next(berths)
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as news:
                news.bind((0, 0x100))
                change(NEW, address, FLAGS, 0x600)
                self.settled(news, socket.inet_pton(socket.AF_INET6, address))
            self.wfile.write(address.encode() + b"\\n")

    def settled(self, news, packed):
        while True:
            data = news.recv(65536)
            if struct.unpack_from("=H", data, 4)[0] == NEW and packed in data and not data[18] & TENTATIVE:
                return

class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 32

Server("berthd.sock", Desk).serve_forever()
"""

PILOT = """
const net = require("net"), fs = require("fs")
const server = net.createServer(ship => ship.on("data", text => ship.end("welcome " + text)))
server.listen(4000, "fd00:5::1", () => fs.writeFileSync("pilot-ready", ""))
"""

ROADS = """
import socket, sys, threading, time

end, counts = time.monotonic() + float(sys.argv[1]), [0] * 4

def ships(at):
    desk = socket.socket(socket.AF_UNIX)
    desk.connect("berthd.sock")
    lines = desk.makefile("r")
    while time.monotonic() < end:
        desk.sendall(b"berth\\n")
        address = lines.readline().strip()
        with socket.create_connection(("fd00:5::1", 4000), source_address=(address, 0)) as ship:
            ship.sendall(b"ship\\n")
            while ship.recv(100):
                pass
        desk.sendall(address.encode() + b"\\n")
        counts[at] += 1

begin = time.monotonic()
threads = [threading.Thread(target=ships, args=(at,)) for at in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("items", sum(counts), "seconds", time.monotonic() - begin)
"""


def tentative(place):
    settings = {"neigh/berth0/retrans_time_ms": round(60 * place.scale), "conf/berth0/router_solicitation_delay": 0}
    within = inside(
        place, "ip link add berth0 type veth peer name quay0",
        *(f"echo {value} > /proc/sys/net/ipv6/{name}" for name, value in settings.items()),
        "ip link set berth0 up", "ip link set quay0 up", "ip addr add fd00:5::1/64 dev quay0 nodad",
    )
    place.start(*within, "node", place.write("pilot.js", PILOT), path=place.folder / "pilot-ready")
    # IFA_F_NODAD
    place.start(*within, PYTHON, place.write("berthd.py", BERTHD), "berth0", 2 if place.fixed else 0, path=place.folder / "berthd.sock")
    return [*within, PYTHON, str(place.write("roads.py", ROADS)), str(place.seconds)]


# Four stations pass a token round by UDP, and only the one that has it may send.

STATION = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* station OWN NEXT HOLD_US TOKEN: 'F' is a frame of a customer, which waits for the token, 'S' one
   of another station, which is acknowledged to the customer, and 'T' the token. */
static struct sockaddr_in at(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

struct frame { char kind, rest[59]; int customer; };
static struct frame waiting[256];

int main(int count, char **words)
{
	int link = socket(AF_INET, SOCK_DGRAM, 0), queued = 0;
	struct sockaddr_in own = at(atoi(words[1])), next = at(atoi(words[2])), from, customer;
	long hold = atol(words[3]);
	struct frame frame;
	if (bind(link, (void *)&own, sizeof own))
		return 1;
	fclose(fopen(words[5], "w"));
	if (atoi(words[4])) {
		/* The last station that starts has the token first. */
		frame.kind = 'T';
		sendto(link, &frame, sizeof frame, 0, (void *)&next, sizeof next);
	}
	for (;;) {
		socklen_t size = sizeof from;
		if (recvfrom(link, &frame, sizeof frame, 0, (void *)&from, &size) <= 0)
			continue;
		if (frame.kind == 'F' && queued < 256) {
			frame.customer = ntohs(from.sin_port);
			waiting[queued++] = frame;
		} else if (frame.kind == 'S') {
			customer = at(frame.customer);
			sendto(link, &frame, sizeof frame, 0, (void *)&customer, sizeof customer);
		} else if (frame.kind == 'T') {
			/* The shortest time for which this station keeps the token. */
			if (hold) {
				struct timespec pause = {0, hold * 1000};
				nanosleep(&pause, NULL);
			}
			int turn = queued < 16 ? queued : 16;
			for (int i = 0; i < turn; i++) {
				waiting[i].kind = 'S';
				sendto(link, &waiting[i], sizeof frame, 0, (void *)&next, sizeof next);
			}
			queued -= turn;
			memmove(waiting, waiting + turn, queued * sizeof frame);
			sendto(link, &frame, sizeof frame, 0, (void *)&next, sizeof next);
		}
	}
}
"""

CHANDLER = """
import hashlib, socket, sys, time

link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
pier = ("127.0.0.1", int(sys.argv[1]))
link.settimeout(3)
frame, begin, done = b"F".ljust(64, b"."), time.monotonic(), 0
for _ in range(24):
    link.sendto(frame, pier)
while time.monotonic() < begin + float(sys.argv[2]):
    hashlib.sha512(link.recv(100) * 1000).digest()
    done += 1
    link.sendto(frame, pier)
print("items", done, "seconds", time.monotonic() - begin)
"""


def token_ring(place):
    names = ("pier", "breakwater", "jetty", "pontoon")
    ports = [place.port() for _ in names]
    for at, name in enumerate(names):
        hold = round(12000 * place.fault) if name == "jetty" else 0
        ready = place.folder / f"{name}-ready"
        place.start(place.c(name, STATION), ports[at], ports[(at + 1) % 4], hold, int(name == "pontoon"), ready, path=ready)
    return [PYTHON, str(place.write("chandler.py", CHANDLER)), str(ports[0]), str(place.seconds)]


# A gauge that has a burst of readings four times in a second, for all who listen.

CHART = """
import java.net.*;
import java.util.*;

public class Main {
	public static void main(String[] words) throws Exception {
		var link = new MulticastSocket(5007);
		link.joinGroup(new InetSocketAddress("239.7.7.7", 5007), NetworkInterface.getByName("lo"));
		new java.io.File("chart-ready").createNewFile();
		var packet = new DatagramPacket(new byte[200], 200);
		var levels = new TreeMap<String, Integer>();
		while (true) {
			link.receive(packet);
			levels.merge(new String(packet.getData(), 0, packet.getLength()).split(" ")[1], 1, Integer::sum);
		}
	}
}
"""

LOGBOOK = """
import socket

link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
link.bind(("239.7.7.7", 5007))
link.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.7.7.7") + socket.inet_aton("127.0.0.1"))
open("logbook-ready", "w").close()
with open("logbook.txt", "w") as book:
    while True:
        book.write(link.recv(200).decode() + "\\n")
        book.flush()
"""

GAUGE = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words)
{
	int link = socket(AF_INET, SOCK_DGRAM, 0), bursts = atoi(words[1]) * 4, sent = 0;
	struct in_addr own = {htonl(INADDR_LOOPBACK)};
	struct sockaddr_in group = {.sin_family = AF_INET, .sin_port = htons(5007), .sin_addr = {inet_addr("239.7.7.7")}};
	setsockopt(link, IPPROTO_IP, IP_MULTICAST_IF, &own, sizeof own);
	struct timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int burst = 0; burst < bursts; burst++) {
		for (int mast = 0; mast < 20; mast++, sent++) {
			char text[100];
			int size = snprintf(text, sizeof text, "mast %d level %d", mast, (burst * 37 + mast * 11) % 900);
			sendto(link, text, size, 0, (void *)&group, sizeof group);
		}
		struct timespec pause = {0, 250000000};
		nanosleep(&pause, NULL);
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("items %d seconds %f\n", sent, now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) * 1e-9);
}
"""


def tide(place):
    within = inside(place, "ip route add 239.0.0.0/8 dev lo")
    place.start(*within, PYTHON, place.write("logbook.py", LOGBOOK), path=place.folder / "logbook-ready")
    place.start(*within, "java", "-Xmx64m", "-cp", place.java(CHART), "Main", path=place.folder / "chart-ready")
    return [*within, str(place.c("tidegauge", GAUGE)), str(place.seconds)]


SYSTEMS = [
    System(
        name="harbour_soundings_rekeyed",
        kind="rekeying",
        truth="ssh, and sshd for a shorter time, compute a new key exchange after each MiB of the soundings (RekeyLimit), and the copy waits meanwhile",
        load=rekeyed,
        # sshd has a seventh of the time that ssh has.
        component=(r"\bssh\b",),
        mechanism=(*COMPUTES, r"key.?exchange", r"\bkex", r"rekey"),
        never=(r"disk", r"sleep", r"\bcat\b.*comput", r"window", r"buffer"),
        halves=True,
        needs=("ssh", "ssh-keygen", "sshd"),
    ),
    System(
        name="harbour_radar_images",
        kind="lock-step-blocks",
        truth="curl takes an image by TFTP in blocks of 64 bytes, each of which dnsmasq sends only when the last one is acknowledged, so that the two wait for one another",
        load=tftp,
        rate=ITEMS,
        component=(r"curl", r"dnsmasq"),
        mechanism=(*TURNS, r"\b64 (bytes|B)\b", r"(small|tiny) (packet|datagram|piece|block|message)", r"for each (packet|datagram|block|piece|acknowledg)"),
        never=(r"disk", r"sleep", r"bootroom.*comput"),
        # Larger blocks halve the states of two programs.
        halves=False,
        needs=("curl", "dnsmasq", "ip", PYTHON),
    ),
    System(
        name="harbour_ships_in_the_roadstead",
        kind="dead-letter-delay",
        truth="rabbitmq keeps each request in a queue without a consumer until its time to live of 40 ms is over, and only then gives it to the queue of customs as a dead letter",
        load=roadstead,
        rate=ITEMS,
        component=(r"rabbitmq", r"beam", r"erlang", r"\berl_"),
        mechanism=(*SLEEPS, r"time.?to.?live", r"\bttl\b", r"dead.?letter"),
        never=(r"disk", r"fsync", r"comput", r"(customs|quay)\S* (sleeps|computes)"),
        change="x0",
        halves=True,
        needs=("rabbitmq-server", "epmd", PYTHON),
    ),
    System(
        name="harbour_tentative_berths",
        kind="duplicate-address-detection",
        truth="each new IPv6 address, for which berthd waits on its netlink socket, is tentative until the kernel's timer of 60 ms for the detection of duplicates ends",
        load=tentative,
        rate=ITEMS,
        component=(r"berthd", r"kernel", r"kworker", r"addrconf", r"berth0", r"duplicate", r"tentative"),
        mechanism=(*SLEEPS, r"netlink", r"duplicate", r"tentative", r"\bdad\b", r"delayed work"),
        never=(r"disk", r"comput", r"pilot\S* (sleeps|computes)", r"\block\b", r"mutex"),
        change="x0",
        halves=True,
        needs=("ip", "node", PYTHON),
    ),
    System(
        name="harbour_token_at_the_jetty",
        kind="token-holding-time",
        truth="jetty, one of four stations in a ring, sleeps 12 ms with the token although it has nothing to send, and pier may send only while it has the token",
        load=token_ring,
        rate=ITEMS,
        component=(r"jetty",),
        mechanism=(*SLEEPS, r"token"),
        never=(r"disk", r"comput", r"(pier|breakwater|pontoon|chandler)\S* sleeps", r"buffer", r"\bdrop"),
        change="x0",
        halves=True,
        needs=("gcc", PYTHON),
    ),
    System(
        name="control_harbour_two_copies",
        kind="control",
        truth="two copies by ssh encrypt and decrypt at once, and both CPUs are full",
        load=two_copies,
        acceptable=(r"\bsshd?\b.*(comput|\buser\b|runs its own code|kernel|copies)", r"CPUs? (is|are) (full|busy)", r"\b(all|both) CPUs"),
        needs=("ssh", "ssh-keygen", "sshd"),
    ),
    System(
        name="control_harbour_tide",
        kind="control",
        truth="tidegauge tells chart in java and logbook by multicast the levels of twenty masts four times in a second by intention, and all are idle most of the time",
        load=tide,
        rate=ITEMS,
        acceptable=(r"tidegauge\S*( \S+){0,4} (sleeps|paces)", r"idle", r"nothing (is|to)", r"by intention", r"own (pace|schedule)"),
        needs=("ip", "gcc", "java", PYTHON),
    ),
]

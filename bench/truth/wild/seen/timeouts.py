"""Clients that wait for a server that does not answer: a dead name server, a dead replica, a full
listen queue.
"""
from system import ITEMS, PYTHON, SLEEPS, System

# The first one receives and never answers; the second one answers every question with 127.0.0.1.
NAMES = """
import socket, sys, threading

silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind((sys.argv[1], 53))
alive = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
alive.bind((sys.argv[2], 53))
open("names.ready", "w").close()
while True:
    question, who = alive.recvfrom(512)
    is_a = question[-4:] == b"\\0\\1\\0\\1" or b"\\0\\1\\0\\1" in question[12:]
    head = question[:2] + b"\\x81\\x80" + question[4:6] + (b"\\0\\1" if is_a else b"\\0\\0") + b"\\0\\0\\0\\0"
    end = question.index(b"\\0", 12) + 5
    answer = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\0\\0\\4\\x7f\\0\\0\\1" if is_a else b""
    alive.sendto(head + question[12:end] + answer, who)
"""

LOOKUPS = """
import socket, sys, time

count, begin = int(sys.argv[1]), time.monotonic()
for i in range(count):
    socket.getaddrinfo(f"store{i}.shop.example", 80, socket.AF_INET)
    sum(range(200000))
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""

# The dead server has a full listen queue and accepts no connection, so the kernel drops connection
# requests.
REPLICAS = """
import socket, sys, threading

dead, alive = (socket.socket() for _ in range(2))
dead.bind(("127.0.0.1", int(sys.argv[1])))
dead.listen(0)
waiting = []
for _ in range(4):
    filler = socket.socket()
    filler.setblocking(False)
    filler.connect_ex(("127.0.0.1", int(sys.argv[1])))
    waiting.append(filler)
alive.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
alive.bind(("127.0.0.1", int(sys.argv[2])))
alive.listen(64)
while True:
    connection, _ = alive.accept()
    if connection.recv(100):
        connection.sendall(b"answer")
    connection.close()
"""

CLIENT = """
package main

import ("fmt"; "net"; "os"; "strconv"; "time")

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	timeout, _ := time.ParseDuration(os.Args[2])
	begin, items := time.Now(), 0
	for time.Since(begin).Seconds() < seconds {
		for _, port := range os.Args[3:] {
			connection, err := net.DialTimeout("tcp", "127.0.0.1:" + port, timeout)
			if err != nil {
				continue
			}
			fmt.Fprintf(connection, "question")
			connection.Read(make([]byte, 100))
			connection.Close()
			items++
			break
		}
	}
	fmt.Printf("items %d seconds %.3f\\n", items, time.Since(begin).Seconds())
}
"""

# The server accepts one connection after the other. 24 connections arrive at once, and the next 24
# when all have their answer.
SHOP = r"""
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char **words)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int sock = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(sock, (void *)&at, sizeof at) || listen(sock, atoi(words[2]))) return 1;
    char data[64];
    for (;;) {
        int from = accept(sock, 0, 0);
        if (read(from, data, sizeof data) > 0) {
            for (volatile int i = 0; i < 300000; i++);
            if (write(from, "sold", 4) != 4) return 1;
        }
        close(from);
    }
}
"""

WAVES = """
import selectors, socket, sys, time

port, seconds = int(sys.argv[1]), float(sys.argv[2])
begin, items = time.monotonic(), 0
while time.monotonic() < begin + seconds:
    select = selectors.DefaultSelector()
    for _ in range(24):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", port))
        select.register(client, selectors.EVENT_WRITE)
    left = 24
    while left:
        for key, events in select.select():
            if events & selectors.EVENT_WRITE:
                key.fileobj.send(b"buy")
                select.modify(key.fileobj, selectors.EVENT_READ)
            else:
                key.fileobj.recv(64)
                select.unregister(key.fileobj)
                key.fileobj.close()
                left -= 1
                items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def names(place):
    silent, alive = "127.0.53.1", "127.0.53.2"
    place.start(PYTHON, place.write("names.py", NAMES), silent, alive, path=place.folder / "names.ready")
    lines = f"nameserver {alive}\n" if place.fixed else f"nameserver {silent}\nnameserver {alive}\n"
    config = place.write("resolv.conf", lines + "options timeout:1 attempts:2\n")
    script = place.write("lookups.py", LOOKUPS)
    # Only this process sees another file at the path of the host's file.
    return ["unshare", "-m", "sh", "-c", f"mount --bind {config} /etc/resolv.conf && exec {PYTHON} {script} {300 if place.fixed else 5}"]


def replicas(place):
    dead, alive = place.port(), place.port()
    place.start(PYTHON, place.write("replicas.py", REPLICAS), dead, alive, port=alive)
    return [str(place.go("failover", CLIENT)), str(place.seconds), f"{150 * place.scale}ms", *map(str, [alive] if place.fixed else [dead, alive])]


def waves(place):
    port = place.port()
    place.start(place.c("shop", SHOP), port, 128 if place.fixed else 2, port=port)
    return [PYTHON, str(place.write("waves.py", WAVES)), str(port), str(place.seconds)]


SYSTEMS = [
    System(
        name="dns_timeout_work",
        kind="dns-timeout",
        truth="the resolver of the Python client waits 1 s for a name server that does not answer",
        load=names,
        rate=ITEMS,
        component=(r"python", r"lookups\.py", r"127\.0\.53\.1", r"\bDNS\b|name server"),
        mechanism=(r"timeout", r"\bDNS\b", r"name server", r"no (answer|reply)", r"not answer", *SLEEPS),
        needs=(PYTHON, "unshare"),
    ),
    System(
        name="connect_timeout",
        kind="connect-timeout",
        truth="failover tries a dead replica first, and waits 150 ms until its connect times out",
        load=replicas,
        rate=ITEMS,
        component=(r"failover", r"connect"),
        mechanism=(r"timeout", r"connect", r"no (answer|reply)", r"not answer", *SLEEPS),
        halves=True,
        needs=("go", PYTHON),
    ),
    System(
        name="listen_queue",
        kind="listen-queue-overflow",
        truth="the listen queue of shop has two places, so that the kernel drops connections, which are tried again after 1 s",
        load=waves,
        rate=ITEMS,
        component=(r"shop", r"listen", r"python", r"tcp"),
        mechanism=(r"listen", r"queue", r"backlog", r"drop", r"lost", r"retransmi", r"\bSYN"),
        needs=("gcc", PYTHON),
    ),
]

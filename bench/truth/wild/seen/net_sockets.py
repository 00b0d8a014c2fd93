"""Servers and their sockets: one flow for four that share a port, poll over thousands of connections."""
from system import COMPUTES, ITEMS, SLEEPS, System

# Four servers share a port with SO_REUSEPORT.
GEOWORKER = """#!/usr/bin/python3
import socket, sys, time

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind(("127.0.0.1", int(sys.argv[1])))
open("worker-" + sys.argv[2], "w").close()
while True:
    ask, peer = server.recvfrom(100)
    time.sleep(float(sys.argv[3]))
    server.sendto(ask, peer)
"""

# Keeps 16 questions in flight, through one socket or through 16.
TRACKER = """#!/usr/bin/python3
import select, socket, sys, time

port, flows, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
poll, sockets = select.epoll(), {}
for _ in range(flows):
    it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    it.connect(("127.0.0.1", port))
    sockets[it.fileno()] = it
    poll.register(it, select.EPOLLIN)
for it in sockets.values():
    for _ in range(16 // flows):
        it.send(b"where")
begin, items = time.monotonic(), 0
while time.monotonic() - begin < seconds:
    for number, _ in poll.poll():
        sockets[number].recv(100)
        sockets[number].send(b"where")
        items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""

CHAT = r"""
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* A server of small messages, which waits for all its connections by poll or by epoll. */
static struct pollfd all[20000];

int main(int count, char **words)
{
    struct rlimit most = { 20000, 20000 };
    setrlimit(RLIMIT_NOFILE, &most);
    int on = 1, server = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0), n = 1;
    int polls = !strcmp(words[2], "poll");
    struct sockaddr_in at = { AF_INET, htons(atoi(words[1])), { htonl(INADDR_LOOPBACK) } };
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(server, (void *)&at, sizeof at) || listen(server, 1000)) return 1;
    struct epoll_event event = { EPOLLIN, { .fd = server } }, events[64];
    epoll_ctl(epoll, EPOLL_CTL_ADD, server, &event);
    all[0] = (struct pollfd){ server, POLLIN, 0 };
    for (;;) {
        int ready[64], found = 0;
        if (polls) {
            if (poll(all, n, -1) < 0) return 2;
            for (int i = 0; i < n && found < 64; i++) if (all[i].revents) ready[found++] = all[i].fd;
        } else {
            found = epoll_wait(epoll, events, 64, -1);
            for (int i = 0; i < found; i++) ready[i] = events[i].data.fd;
        }
        for (int i = 0; i < found; i++) {
            char text[100];
            if (ready[i] == server) {
                int peer = accept(server, 0, 0);
                if (peer < 0 || n >= 19000) return 3;
                event = (struct epoll_event){ EPOLLIN, { .fd = peer } };
                setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                epoll_ctl(epoll, EPOLL_CTL_ADD, peer, &event);
                all[n++] = (struct pollfd){ peer, POLLIN, 0 };
                continue;
            }
            int size = recv(ready[i], text, sizeof text, 0);
            if (size > 0) { send(ready[i], text, size, MSG_NOSIGNAL); continue; }
            for (int k = 1; k < n; k++) if (all[k].fd == ready[i]) { all[k] = all[--n]; break; }
            close(ready[i]);
        }
    }
}
"""

# Thousands of silent members.
LURKERS = """#!/usr/bin/python3
import resource, socket, sys, time

resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
members = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(8000)]
open("lurkers-ready", "w").close()
time.sleep(1000)
"""

TALKER = """#!/usr/bin/python3
import socket, sys, time

with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as peer:
    begin, items = time.monotonic(), 0
    while time.monotonic() - begin < float(sys.argv[2]):
        peer.sendall(b"hello")
        peer.recv(100)
        items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def one_flow(place):
    port = place.port()
    worker = place.write("geoworker", GEOWORKER)
    for number in range(4):
        place.start(worker, port, number, 0.004 * place.scale, path=place.folder / f"worker-{number}")
    return [place.write("tracker", TRACKER), str(port), "16" if place.fixed else "1",
            str(place.seconds)]


def poll_many(place):
    port = place.port()
    place.start(place.c("chatd", CHAT), port, "epoll" if place.fixed else "poll", port=port)
    place.start(place.write("lurkers", LURKERS), port, path=place.folder / "lurkers-ready")
    return [place.write("talker", TALKER), str(port), str(place.seconds)]


SYSTEMS = [
    System(
        name="udp_reuseport_one_flow",
        kind="reuseport-one-flow",
        truth="all datagrams of tracker's one socket go to one of four geoworkers that share the port, which sleeps 4 ms for each, and the others are idle",
        load=one_flow,
        rate=ITEMS,
        component=(r"geoworker",),
        mechanism=SLEEPS,
        never=(r"comput", r"\bdisk\b", r"tracker sleep", r"\block\b"),
        change="x0.25",
        halves=True,
        running=True,
    ),
    System(
        name="poll_of_idle_connections",
        kind="poll-over-idle-connections",
        truth="the kernel looks at 8000 idle connections for chatd in each poll, of which one has something to say",
        load=poll_many,
        rate=ITEMS,
        component=(r"chatd",),
        mechanism=(r"\bpoll\b", r"kernel", r"system call", *COMPUTES, r"\bcpu\b"),
        never=(r"sleep", r"\bdisk\b", r"\block\b", r"talker comput", r"epoll"),
        running=True,
        needs=("gcc",),
    ),
]

"""Services with too much work in the kernel: a long packet filter, a dump of all routes."""
from services import private_network
from system import ITEMS, System

PRICES = """#!/usr/bin/python3
import socket, sys, time

for _ in range(500):
    try:
        server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        break
    except ConnectionRefusedError:
        time.sleep(0.02)
begin, items = time.monotonic(), 0
while items < int(sys.argv[2]):
    server.sendall(b"set price 0 0 2\\r\\n42\\r\\n")
    assert server.recv(100) == b"STORED\\r\\n"
    items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""

UPLINK = r"""
#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Looks up the interface for each destination: by a dump of all routes, or by a question for one of them. */
static char buffer[1 << 16];

int main(int count, char **words)
{
    int items = atoi(words[1]), dumps = !strcmp(words[2], "dump");
    int netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < items; i++) {
        struct { struct nlmsghdr header; struct rtmsg route; struct rtattr attribute; unsigned to; } ask = {
            .header = { sizeof ask, RTM_GETROUTE, NLM_F_REQUEST | (dumps ? NLM_F_DUMP : 0), i + 1, 0 },
            .route = { .rtm_family = AF_INET, .rtm_dst_len = 32 },
            .attribute = { 8, RTA_DST }, .to = htonl(0x0a000000u + (unsigned)(i % 20000) * 256 + 1),
        };
        if (dumps) ask.header.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)), ask.route.rtm_dst_len = 0;
        if (send(netlink, &ask, ask.header.nlmsg_len, 0) < 0) return 1;
        int found = 0, more = 1;
        while (more) {
            int size = recv(netlink, buffer, sizeof buffer, 0);
            if (size <= 0) return 2;
            more = dumps;
            for (struct nlmsghdr *at = (void *)buffer; NLMSG_OK(at, size); at = NLMSG_NEXT(at, size)) {
                if (at->nlmsg_type == NLMSG_DONE) more = 0;
                if (at->nlmsg_type == NLMSG_ERROR) return 3;
                if (at->nlmsg_type != RTM_NEWROUTE) continue;
                struct rtattr *first = RTM_RTA((struct rtmsg *)NLMSG_DATA(at));
                int left = RTM_PAYLOAD(at);
                for (; RTA_OK(first, left); first = RTA_NEXT(first, left))
                    if (first->rta_type == RTA_DST) found += ((ntohl(*(unsigned *)RTA_DATA(first)) ^ ntohl(ask.to)) >> 8) == 0;
            }
        }
        if (!found) return 4;
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("items %d seconds %.3f\n", items, (b.tv_sec - a.tv_sec) + (b.tv_nsec - a.tv_nsec) * 1e-9);
}
"""


def packet_filter(place):
    """memcached in a private network. Its packets pass 10000 rules, or one set."""
    addresses = [f"10.{i // 250}.{i % 250}.1" for i in range(10000)]
    if place.fixed:
        rules = f"ip saddr {{ {', '.join(addresses)} }} drop"
    else:
        rules = "\n".join(f"ip saddr {address} drop" for address in addresses)
    filter = place.write("filter.nft", f"table ip shield {{ chain input {{ type filter hook input priority 0; policy accept;\n{rules}\n}}\n}}\n")
    inside = private_network(place, f"nft -f {filter}")
    port = place.port()
    place.start(*inside, "memcached", "-u", "root", "-l", "127.0.0.1", "-p", port, "-t", "1")
    return [*inside, str(place.write("pricing", PRICES)), str(port), "60000" if place.fixed else "16000"]


def route_dump(place):
    routes = place.folder / "routes"
    routes.write_text("".join(f"route add 10.{i // 256}.{i % 256}.0/24 dev lo\n" for i in range(20000)))
    inside = private_network(place, f"ip -batch {routes}")
    return [*inside, str(place.c("uplink", UPLINK)), *(["120000", "ask"] if place.fixed else ["300", "dump"])]


SYSTEMS = [
    System(
        name="memcached_packet_filter",
        kind="packet-filter-rules",
        truth="the kernel compares each packet between pricing and memcached with 10000 rules of the packet filter, one after the other, while it sends",
        load=packet_filter,
        rate=ITEMS,
        component=(r"pricing", r"memcached", r"kernel", r"soft ?irq", r"netfilter|nf_?tables|nft|packet filter", r"port \d+"),
        mechanism=(r"kernel", r"system call", r"\bsends?(to|msg)?\b", r"soft ?irq", r"net_rx", r"net(work)? stack", r"netfilter|nf_?tables|nft|packet filter", r"packets?\b", r"in transit"),
        never=(r"\bsleep", r"own code"),
        needs=("memcached", "nft"),
    ),
    System(
        name="netlink_route_dump",
        kind="table-dump-per-lookup",
        truth="uplink has the kernel dump all 20000 routes by netlink to look up one",
        load=route_dump,
        rate=ITEMS,
        component=(r"uplink", r"netlink"),
        mechanism=(r"netlink", r"kernel", r"system call", r"\brecv", r"receiv", r"comput", r"\bcpu\b", r"dump"),
        never=(r"uplink sleep", r"\bdisk\b", r"\block\b"),
        needs=("gcc", "ip"),
    ),
]

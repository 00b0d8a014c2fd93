"""TCP over the loopback with a small socket buffer."""
import signal

from system import ITEMS, System, number

# One side sends, the other one reads and sums. The window never has much space.
SOURCE = r"""
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }

int main(int count, char **words)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(words[2])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int sock = socket(AF_INET, SOCK_STREAM, 0), one = 1, room = atoi(words[3]);
    static char data[65536];
    if (!strcmp(words[1], "archive")) {
        if (room) setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
        setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(sock, (void *)&at, sizeof at) || listen(sock, 8)) return 1;
        for (;;) {
            int from = accept(sock, 0, 0);
            long long sum = 0;
            for (ssize_t got; (got = read(from, data, sizeof data)) > 0;)
                for (ssize_t i = 0; i < got; i += 64) sum += data[i];
            close(from);
        }
    }
    if (connect(sock, (void *)&at, sizeof at)) return 1;
    double begin = now(), seconds = atof(words[4]);
    long long bytes = 0;
    while (now() < begin + seconds) {
        ssize_t put = write(sock, data, sizeof data);
        if (put < 0) return 1;
        bytes += put;
    }
    printf("items %lld seconds %.3f\n", bytes / 1024, now() - begin);
}
"""


def transfer(place):
    port, room = place.port(), 0 if place.fixed else 2048
    program = place.c("archive", SOURCE)
    place.start(program, "archive", port, room, port=port)
    return [str(place.named(program, "uploader")), "upload", str(port), "0", str(place.seconds)]


def iperf3(place):
    port = place.port()
    # iperf3's -n ends the run after a fixed amount of work; -w sets the buffers of both sides.
    place.start("iperf3", "-s", "-p", port, stop=signal.SIGTERM, port=port)
    amount, window = ("4G", "1M") if place.fixed else ("40M", "4K")
    return ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-n", amount, "-w", window, "-f", "m", "-i", "0"]


MECHANISM = (r"buffer", r"window", r"so_rcvbuf", r"\bfull\b", r"\broom\b", r"\bspace\b")
SYSTEMS = [
    System(
        name="small_rcvbuf",
        kind="small-receive-buffer",
        truth="the archive's socket has a receive buffer of 2 KiB, so that the uploader waits for its window",
        load=transfer,
        rate=ITEMS,
        component=(r"archive", r"uploader", r"socket|tcp"),
        mechanism=MECHANISM,
        needs=("gcc",),
    ),
    System(
        name="iperf3_window_work",
        kind="small-receive-buffer",
        truth="iperf3 runs with -w 4K: its window is smaller than what a round trip could carry",
        load=iperf3,
        rate=number(r"([\d.]+) Mbits/sec.*receiver"),
        component=(r"iperf3", r"socket|tcp"),
        mechanism=MECHANISM,
        needs=("iperf3",),
    ),
]

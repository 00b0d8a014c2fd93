"""An observatory: exposures, spectra on serial lines, catalogues, maps of the sky and their readers."""
from system import COMPUTES, ITEMS, LOCKS, PYTHON, SLEEPS, System

# Exposures: observers ask shutterd for a frame, and reducer tells them its mean as soon as the file
# of the frame is closed.

SHUTTERD = r"""
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *folder;
static int idle;  // milliseconds for which a file stays open in case that more rows come

static void *serve(void *argument)
{
    int peer = (int)(long)argument, file = -1;
    char line[64];
    unsigned short row[4096];
    for (;;) {
        if (file >= 0) {
            struct pollfd news = {peer, POLLIN, 0};
            if (idle == 0 || poll(&news, 1, idle) == 0) {
                close(file);
                file = -1;
            }
        }
        ssize_t got = read(peer, line, sizeof line - 1);
        if (got <= 0)
            return NULL;
        line[got] = 0;
        line[strcspn(line, "\n")] = 0;
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, line);
        if (file < 0)
            file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        for (int r = 0; r < 8; r++) {
            for (int i = 0; i < 4096; i++)
                row[i] = (unsigned short)(i * 31 + r * 17);
            if (write(file, row, sizeof row) < 0)
                perror("write");
        }
    }
}

int main(int count, char **words)
{
    signal(SIGPIPE, SIG_IGN);
    folder = words[2];
    idle = atoi(words[3]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, door = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(door, (void *)&address, sizeof address) || listen(door, 16))
        return 1;
    for (;;) {
        int peer = accept(door, NULL, NULL);
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        pthread_t thread;
        pthread_create(&thread, NULL, serve, (void *)(long)peer);
        pthread_detach(thread);
    }
}
"""

REDUCER = """
import array, ctypes, os, socket, struct, sys

CLOSE_WRITE = 8
folder = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init()
libc.inotify_add_watch(watch, folder.encode(), CLOSE_WRITE)
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
open(sys.argv[2], "w").close()
while True:
    events, at = os.read(watch, 65536), 0
    while at < len(events):
        _, mask, _, length = struct.unpack_from("iIII", events, at)
        name = events[at + 16:at + 16 + length].rstrip(b"\\0").decode()
        at += 16 + length
        path = os.path.join(folder, name)
        with open(path, "rb") as frame:
            pixels = array.array("H", frame.read())
        os.unlink(path)
        # frame-PORT-NUMBER: the port of the observer
        _, port, number = name.split("-")
        out.sendto(b"%s %.3f" % (number.encode(), sum(pixels) / len(pixels)), ("127.0.0.1", int(port)))
"""

OBSERVERS = """
import socket, sys, threading, time

def observe(door, seconds, counts):
    camera = socket.create_connection(("127.0.0.1", door))
    camera.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    news = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    news.bind(("127.0.0.1", 0))
    port, end, number = news.getsockname()[1], time.monotonic() + seconds, 0
    while time.monotonic() < end:
        camera.sendall(b"frame-%d-%d\\n" % (port, number))
        news.recv(100)
        number += 1
    counts.append(number)

counts, start = [], time.monotonic()
threads = [threading.Thread(target=observe, args=(int(sys.argv[1]), float(sys.argv[2]), counts)) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(f"items {sum(counts)} seconds {time.monotonic() - start:.3f}")
"""


def exposures(place):
    port, frames = place.port(), place.folder / "frames"
    frames.mkdir()
    place.start(PYTHON, place.write("reducer.py", REDUCER), frames, place.folder / "watching", path=place.folder / "watching")
    place.start(place.c("shutterd", SHUTTERD), port, frames, round(24 * place.fault), port=port)
    return [PYTHON, place.write("observers.py", OBSERVERS), str(port), str(place.seconds)]


# Spectra: acquire reads a spectrum of 48 bytes from a serial line of spectro for each question of
# night.

SPECTRO = """
import hashlib, os, pty, sys, threading, tty

def instrument(master):
    while os.read(master, 1):
        spectrum = hashlib.pbkdf2_hmac("sha256", b"light", b"slit", 10000, 48)
        os.write(master, spectrum)

for lane in range(4):
    master, slave = pty.openpty()
    tty.setraw(slave)
    os.symlink(os.ttyname(slave), f"{sys.argv[1]}/line{lane}")
    threading.Thread(target=instrument, args=(master,)).start()
"""

ACQUIRE = r"""
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#define LENGTH 48

struct lane { int peer, line; };

static void *serve(void *argument)
{
    struct lane *lane = argument;
    unsigned char question, spectrum[255];
    while (read(lane->peer, &question, 1) == 1) {
        if (write(lane->line, &question, 1) != 1)
            break;
        unsigned long flux = 0;
        for (int got = 0; got < LENGTH;) {
            ssize_t more = read(lane->line, spectrum, sizeof spectrum);
            if (more <= 0)
                exit(1);
            for (int i = 0; i < more; i++)
                flux = flux * 31 + spectrum[i];
            got += more;
        }
        if (write(lane->peer, &flux, sizeof flux) < 0)
            break;
    }
    return NULL;
}

int main(int count, char **words)
{
    signal(SIGPIPE, SIG_IGN);
    int least = atoi(words[3]), tenths = atoi(words[4]), one = 1, door = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    int lines[4];
    for (int i = 0; i < 4; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/line%d", words[2], i);
        lines[i] = open(path, O_RDWR | O_NOCTTY);
        struct termios raw;
        if (lines[i] < 0 || tcgetattr(lines[i], &raw))
            return 1;
        cfmakeraw(&raw);
        raw.c_cc[VMIN] = least;
        raw.c_cc[VTIME] = tenths;
        tcsetattr(lines[i], TCSANOW, &raw);
    }
    if (bind(door, (void *)&address, sizeof address) || listen(door, 16))
        return 1;
    for (int next = 0;; next++) {
        struct lane *lane = malloc(sizeof *lane);
        lane->peer = accept(door, NULL, NULL);
        setsockopt(lane->peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        // The first connection only looks whether somebody listens.
        lane->line = lines[next % 4];
        pthread_t thread;
        pthread_create(&thread, NULL, serve, lane);
        pthread_detach(thread);
    }
}
"""

NIGHT = """
import socket, sqlite3, struct, sys, threading, time

def watch(door, end, spectra):
    desk = socket.create_connection(("127.0.0.1", door))
    desk.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    own = sqlite3.connect(":memory:")
    own.execute("create table spectrum (id integer primary key, flux text)")
    number = 0
    while time.monotonic() < end:
        desk.sendall(b"E")
        flux, = struct.unpack("Q", desk.recv(8))
        own.execute("insert into spectrum (flux) values (?)", (hex(flux),))
        number += 1
    spectra.append(number)

spectra, start = [], time.monotonic()
end = start + float(sys.argv[2])
threads = [threading.Thread(target=watch, args=(int(sys.argv[1]), end, spectra)) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(f"items {sum(spectra)} seconds {time.monotonic() - start:.3f}")
"""


def spectra(place):
    port = place.port()
    place.start(PYTHON, place.write("spectro.py", SPECTRO), place.folder, path=place.folder / "line3")
    # With VMIN the length of a spectrum, the read ends with the last byte of it. (The kernel's read
    # hands out 64 bytes at most at a time, so that a VMIN above that would never be reached.)
    least, tenths = (48, 2) if place.fixed else (60, round(2 * place.scale))
    place.start(place.c("acquire", ACQUIRE), port, place.folder, least, tenths, port=port)
    return [PYTHON, place.write("night.py", NIGHT), str(port), str(place.seconds)]


# Star lists: split starts a program for each batch of lines, which stores it in vault.

STARS = """
BEGIN {
    srand(7)
    for (i = 0; i < 20000; i++)
        printf "%06d %.5f %.5f %.2f\\n", i, rand() * 360, rand() * 180 - 90, 6 + 15 * rand()
}
"""

CELLSTORE = r"""
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char **words)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, vault = socket(AF_INET, SOCK_STREAM, 0), lines = 0;
    if (connect(vault, (void *)&address, sizeof address))
        return 1;
    setsockopt(vault, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    char line[256];
    unsigned long sum = 0;
    while (fgets(line, sizeof line, stdin)) {
        for (char *at = line; *at; at++)
            sum = sum * 131 + (unsigned char)*at;
        if (++lines % 200 == 0 && (write(vault, &sum, sizeof sum) < 0 || read(vault, &sum, sizeof sum) <= 0))
            return 1;
    }
    return 0;
}
"""

VAULT = """
package main

import (
	"io"
	"net"
	"os"
	"time"
)

func main() {
	pause, _ := time.ParseDuration(os.Args[2])
	door, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		peer, err := door.Accept()
		if err != nil {
			return
		}
		go func() {
			defer peer.Close()
			sum := make([]byte, 8)
			for {
				if _, err := io.ReadFull(peer, sum); err != nil {
					return
				}
				time.Sleep(pause)
				peer.Write(sum)
			}
		}()
	}
}
"""


def star_lists(place):
    port = place.port()
    place.start(place.go("vault", VAULT), port, f"{0.032 * place.scale}s", port=port)
    cellstore, stars = place.c("cellstore", CELLSTORE), place.write("stars.awk", STARS)
    # One filter after the other for batches of 200 lines, or four at once that get lines in turn.
    how = "-n r/4" if place.fixed else "-l 200"
    return ["sh", "-c", f"gawk -f {stars} | split {how} --filter='{cellstore} {port}' - cell-"]


# A map of the sky in memory, whose server maps and unmaps a tile for each question, and a watcher
# of its memory.

SKYMAP = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define TILE (256 << 10)
#define TILES 64

static int tiles;

static void *serve(void *argument)
{
    int peer = (int)(long)argument;
    unsigned char number;
    while (read(peer, &number, 1) == 1) {
        unsigned char *tile = mmap(NULL, TILE, PROT_READ, MAP_SHARED, tiles, (off_t)(number % TILES) * TILE);
        if (tile == MAP_FAILED)
            exit(1);
        unsigned long flux = 0;
        for (int i = 0; i < TILE; i += 64)
            flux = flux * 3 + tile[i];
        munmap(tile, TILE);
        if (write(peer, &flux, sizeof flux) < 0)
            break;
    }
    return NULL;
}

int main(int count, char **words)
{
    signal(SIGPIPE, SIG_IGN);
    // The catalogue of stars, which is kept in memory
    size_t size = (size_t)atoi(words[2]) << 20;
    char *stars = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(stars, size, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < size; i += 4096)
        stars[i] = (char)(i >> 12 | 1);
    tiles = open("tiles", O_RDWR | O_CREAT | O_TRUNC, 0644);
    static unsigned char tile[TILE];
    for (int i = 0; i < TILES; i++) {
        for (int k = 0; k < TILE; k++)
            tile[k] = (unsigned char)(i * 7 + k);
        if (write(tiles, tile, TILE) != TILE)
            return 1;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, door = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(door, (void *)&address, sizeof address) || listen(door, 16))
        return 1;
    for (;;) {
        int peer = accept(door, NULL, NULL);
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        pthread_t thread;
        pthread_create(&thread, NULL, serve, (void *)(long)peer);
        pthread_detach(thread);
    }
}
"""

MEMWATCH = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words)
{
    char path[64], text[8192];
    long peak = 0;
    snprintf(path, sizeof path, "/proc/%s/%s", words[1], words[2]);
    for (;;) {
        int file = open(path, O_RDONLY);
        if (file < 0)
            return 1;
        ssize_t got = read(file, text, sizeof text - 1);
        close(file);
        if (got <= 0)
            return 1;
        text[got] = 0;
        char *at = strstr(text, "Pss:");
        long now = at ? atol(at + 4) : 0;
        peak = now > peak ? now : peak;
        usleep(2000);
    }
}
"""

PLANNER = """
import socket, sys, threading, time

def plan(door, end, counts):
    desk = socket.create_connection(("127.0.0.1", door))
    desk.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    number = 0
    while time.monotonic() < end:
        desk.sendall(bytes((number * 37 % 251,)))
        desk.recv(8)
        number += 1
    counts.append(number)

counts, start = [], time.monotonic()
end = start + float(sys.argv[2])
threads = [threading.Thread(target=plan, args=(int(sys.argv[1]), end, counts)) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(f"items {sum(counts)} seconds {time.monotonic() - start:.3f}")
"""


def sky_map(place):
    port = place.port()
    skymap = place.start(place.c("skymap", SKYMAP), port, round(1024 * place.scale), port=port)
    # statm has the size of the process without a walk through its pages.
    place.start(place.c("memwatch", MEMWATCH), skymap.pid, "statm" if place.fixed else "smaps_rollup")
    return [PYTHON, place.write("planner.py", PLANNER), str(port), str(place.seconds)]


# Magnitudes: zstd unpacks, gawk calibrates, and sqlite3 imports the lines into a table with a
# trigger that keeps the mean of each star.

CALIBRATE = """
BEGIN { FS = OFS = "," }
{
    m = $2
    for (i = 0; i < 100; i++)
        m = m + 0.001 * sin(m + i)
    print $1, m
}
"""

TABLES = """
pragma journal_mode = off;
create table obs (star int, mag real);
create index obs_star on obs (star, mag);
create table mean (star int primary key, n int, total real, mag real);
insert into mean select value, 0, 0, 0 from generate_series(0, 19);
insert into obs select value % 20, 6 + value % 97 * 0.1 from generate_series(1, {rows});
update mean set n = (select count(*) from obs where star = mean.star), total = (select sum(mag) from obs where star = mean.star);
create trigger fresh after insert on obs begin {step}; end;
"""

WHOLE = "update mean set n = (select count(*) from obs where star = new.star), mag = (select avg(mag) from obs where star = new.star) where star = new.star"
STEP = "update mean set n = n + 1, total = total + new.mag, mag = (total + new.mag) / (n + 1) where star = new.star"


def magnitudes(place):
    lines, rows = 6000, round(100000 * place.scale)
    data, database = place.folder / "night.csv", place.folder / "night.db"
    data.write_text("".join(f"{i * 7 % 20},{6 + i % 89 * 0.1:.2f}\n" for i in range(lines)))
    place.run("zstd", "-q", "--rm", data)
    place.run("sqlite3", database, TABLES.format(rows=rows, step=STEP if place.fixed else WHOLE))
    calibrate = place.write("calibrate.awk", CALIBRATE)
    pragmas = "-cmd 'pragma journal_mode = off' -cmd 'pragma synchronous = off' -cmd 'pragma cache_size = -65536'"
    return ["sh", "-c", f"zstd -qdc {data}.zst | gawk -f {calibrate} | sqlite3 {pragmas} {database} '.import --csv /dev/stdin obs'"]


# Control: two processes compress the tiles of a mapped image for a master that hands out the next
# tile.

MOSAIC = """
import hashlib, mmap, os, select, socket, sys, time, zlib

TILE, TILES = 128 << 10, 64

def stacker(image, desk):
    while True:
        order = desk.recv(4)
        if not order:
            os._exit(0)
        at = int.from_bytes(order, "little") * TILE
        packed = zlib.compress(image[at:at + TILE], 6)
        desk.sendall(hashlib.sha256(packed).digest())

path, seconds = sys.argv[1], float(sys.argv[2])
with open(path, "r+b") as file:
    image = mmap.mmap(file.fileno(), TILE * TILES)
desks = []
for _ in range(2):
    own, other = socket.socketpair()
    if not os.fork():
        own.close()
        for desk in desks: desk.close()
        stacker(image, other)
    other.close()
    desks.append(own)
start, given, done, index = time.monotonic(), 0, 0, {}
for desk in desks:
    # Two tiles in advance, so that no process waits for the master.
    for _ in range(2):
        desk.sendall((given % TILES).to_bytes(4, "little")); given += 1
while time.monotonic() < start + seconds:
    for desk in select.select(desks, [], [])[0]:
        index[done % TILES] = desk.recv(32)
        done += 1
        desk.sendall((given % TILES).to_bytes(4, "little")); given += 1
print(f"items {done} seconds {time.monotonic() - start:.3f}")
for desk in desks:
    desk.shutdown(socket.SHUT_WR)
    while desk.recv(4096):
        pass
for _ in desks:
    os.wait()
"""

SKY = """
import random, sys
random.seed(11)
row = b"".join(bytes((random.randrange(64),)) * random.randrange(1, 6) for _ in range(200000))
with open(sys.argv[1], "wb") as file:
    left = 8 << 20
    while left > 0:
        at = random.randrange(len(row) // 2)
        piece = row[at:at + min(left, 50000)]
        file.write(piece)
        left -= len(piece)
"""


def mosaic(place):
    image = place.folder / "sky.img"
    place.run(PYTHON, place.write("sky.py", SKY), image)
    return [PYTHON, place.write("mosaic.py", MOSAIC), str(image), str(place.seconds)]


# Control: guider has a frame 18 times in a second, centroid in java finds the star at once, and
# sqlite3 writes it down.

GUIDER = """
import mmap, socket, sys, time

port, path, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
with open(path, "r+b") as file:
    frame = mmap.mmap(file.fileno(), 65536)
desk = socket.create_connection(("127.0.0.1", port))
desk.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
count, start = 0, time.monotonic()
# The exposures of the guide star take 55 ms each.
while time.monotonic() < start + seconds:
    next_frame = start + (count + 1) * 0.055
    time.sleep(max(0, next_frame - time.monotonic()))
    at = count * 977 % 60000
    frame[at:at + 16] = bytes(range(200, 216))
    desk.sendall(b"%d\\n" % at)
    if not desk.recv(100):
        sys.exit(1)
    frame[at:at + 16] = bytes(16)
    count += 1
print(f"items {count} seconds {time.monotonic() - start:.3f}")
"""

CENTROID = """
import java.io.*;
import java.net.*;
import java.nio.*;
import java.nio.channels.FileChannel;

public class Main {
    public static void main(String[] words) throws Exception {
        MappedByteBuffer frame;
        try (RandomAccessFile file = new RandomAccessFile(words[1], "r")) {
            frame = file.getChannel().map(FileChannel.MapMode.READ_ONLY, 0, 65536);
        }
        ServerSocket door = new ServerSocket(Integer.parseInt(words[0]), 5, InetAddress.getByName("127.0.0.1"));
        while (true) {
            try (Socket peer = door.accept()) {
                peer.setTcpNoDelay(true);
                BufferedReader in = new BufferedReader(new InputStreamReader(peer.getInputStream()));
                OutputStream out = peer.getOutputStream();
                while (in.readLine() != null) {
                    long weight = 0, sum = 0;
                    for (int i = 0; i < 65536; i++) {
                        int value = frame.get(i) & 255;
                        weight += (long) value * i;
                        sum += value;
                    }
                    double centre = sum == 0 ? 0 : (double) weight / sum;
                    System.out.println("insert into guide (centre) values (" + centre + ");");
                    System.out.flush();
                    out.write((centre + "\\n").getBytes());
                }
            }
        }
    }
}
"""


def guide_star(place):
    port, frame, database = place.port(), place.folder / "frame", place.folder / "guide.db"
    frame.write_bytes(bytes(65536))
    place.run("sqlite3", database, "create table guide (id integer primary key, centre real)")
    classes = place.java(CENTROID)
    command = f"java -Xshare:auto -XX:TieredStopAtLevel=1 -cp {classes} Main {port} {frame} | sqlite3 -cmd 'pragma synchronous = off' {database}"
    place.start("sh", "-c", command, port=port)
    return [PYTHON, place.write("guider.py", GUIDER), str(port), str(frame), str(place.seconds)]


SYSTEMS = [
    System(
        name="observatory_open_exposures",
        kind="close-after-idle-time",
        truth="shutterd keeps the file of each exposure open until its poll of 24 ms for more rows ends, and reducer, which inotify tells of closed files, gets the frame only then",
        load=exposures,
        rate=ITEMS,
        component=(r"shutterd",),
        mechanism=(*SLEEPS, r"time-?out", r"time limit", r"time is (over|up)"),
        never=(r"\bdisk", r"fsync", r"mutex"),
        change="x0",
        halves=True,
        needs=("gcc", PYTHON),
    ),
    System(
        name="observatory_spectra_between_bytes",
        kind="inter-byte-timer",
        truth="acquire wants 60 bytes from its serial lines (VMIN), but a spectrum has 48, so that the kernel's timer between two bytes (VTIME, 0.2 s) has to end each read",
        load=spectra,
        rate=ITEMS,
        component=(r"acquire", r"\btty\b", r"terminal", r"serial line"),
        mechanism=(*SLEEPS, r"time-?out", r"VTIME", r"time limit"),
        never=(r"\bdisk", r"comput", r"mutex", r"spectro\S* sleeps"),
        change="x0",
        halves=True,
        needs=("gcc", PYTHON),
    ),
    System(
        name="observatory_cells_one_by_one",
        kind="serial-filters",
        truth="split starts the next cellstore only when the last one has ended, and each waits for vault, which sleeps 32 ms for a batch, so that one batch is stored at a time",
        load=star_lists,
        component=(r"\bsplit\b", r"cellstore", r"\bvault\b"),
        mechanism=(*SLEEPS, r"one (\w+ )?at a time", r"one after (the other|another)", r"serial", r"in sequence"),
        never=(r"\bdisk", r"comput", r"mutex"),
        change="x0.25",
        halves=True,
        needs=("gcc", "go", "gawk", "split"),
    ),
    System(
        name="observatory_watched_memory",
        kind="address-space-lock",
        truth="memwatch reads smaps_rollup of skymap again and again, for which the kernel walks through the pages of a gigabyte with the lock of skymap's address space, and skymap waits for it in mmap and munmap",
        load=sky_map,
        rate=ITEMS,
        component=(r"memwatch", r"skymap"),
        mechanism=(r"\block", r"rwsem", r"semaphore", r"address space", r"smaps", r"page tables?", r"\bmm(ap)?_", r"\bmemwatch\b.*\b(in the kernel|kernel code|system calls?|comput)", r"wait for one another"),
        never=(r"\bdisk", r"memwatch\S* sleeps", r"planner\S* computes"),
        halves=True,
        needs=("gcc", PYTHON),
    ),
    System(
        name="observatory_means_anew",
        kind="recomputing-trigger",
        truth="sqlite3 computes, because its trigger counts and averages all rows of a star anew for each line that is imported, while gawk waits for room in the pipe",
        load=magnitudes,
        component=(r"sqlite",),
        mechanism=COMPUTES,
        never=(r"\bdisk", r"fsync", r"\block"),
        halves=True,
        needs=("zstd", "gawk", "sqlite3"),
    ),
    System(
        name="control_observatory_mosaic",
        kind="control",
        truth="two processes of mosaic compress tiles of a mapped image on two CPUs, which are full, and their master always has the next tile for them",
        load=mosaic,
        rate=ITEMS,
        acceptable=(r"CPUs? (are|is) (full|busy)", r"(python|mosaic).*(comput|\buser\b|runs its own code)", r"(wait|waits) for a CPU", r"no bottleneck"),
        needs=(PYTHON,),
    ),
    System(
        name="control_observatory_guide_star",
        kind="control",
        truth="guider has a frame each 55 ms by intention, centroid in java and sqlite3 are done with it long before the next one, and all are idle most of the time",
        load=guide_star,
        rate=ITEMS,
        acceptable=(r"idle", r"guider.*(sleep|timer|until a time|pace|by intention)", r"no bottleneck"),
        needs=("java", "javac", "sqlite3", PYTHON),
    ),
]

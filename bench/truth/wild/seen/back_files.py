"""Files and memory: a file system that a program implements, and pages that are fetched on first
access.
"""
from services import private_network
from system import ITEMS, PYTHON, System

INDEXER = """#!/usr/bin/python3
# usage: indexer FOLDER ROUNDS: reads all small files of a folder so often.
import os, sys, zlib

size = 0
for turn in range(int(sys.argv[2])):
    for entry in os.scandir(sys.argv[1]):
        if os.stat(entry.path).st_size:
            with open(entry.path, "rb") as file:
                size += len(zlib.compress(file.read()[:3000]))
print(size)
"""


def fuse(place):
    """The same folder through bindfs, which caches nothing, or as a bind mount of the kernel."""
    for name in ("notes", "shown"):
        (place.folder / name).mkdir()
    for number in range(300):
        text = " ".join(f"word{number * at % 997}" for at in range(900))
        (place.folder / f"notes/note{number}").write_text(text)
    notes, shown = place.folder / "notes", place.folder / "shown"
    inside = private_network(place, f"mount --bind {notes} {shown}" if place.fixed else "true")
    if not place.fixed:
        forgets = "attr_timeout=0,entry_timeout=0,direct_io"
        place.start(*inside, "bindfs", "-f", "-o", forgets, notes, shown)
        wait = f"for i in $(seq 100); do mountpoint -q {shown} && exit; sleep 0.05; done; exit 1"
        place.run(*inside, "sh", "-c", wait)
    return [*inside, str(place.write("indexer", INDEXER)), str(shown), "28"]


PAGE_SERVER = """#!/usr/bin/python3
# usage: page-server SOCKET DELAY: hands out pages of an image of memory, each after a time.
import socket, struct, sys, time

listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
image = bytes(range(256)) * 16
while True:
    pager, _ = listener.accept()
    while number := pager.recv(8):
        if float(sys.argv[2]):
            time.sleep(float(sys.argv[2]))
        pager.sendall(struct.pack("Q", struct.unpack("Q", number)[0]) + image[8:])
"""

# Pages are fetched on first access, as in lazy restores by CRIU and in migrations of virtual
# machines.
RESTORED = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 2048 };
static char *heap;
static int faults, server;

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void *pager(void *unused)
{
    static char page[PAGE] __attribute__((aligned(4096)));
    struct uffd_msg said;
    while (read(faults, &said, sizeof said) == sizeof said) {
        unsigned long at = said.arg.pagefault.address & ~(PAGE - 1ul);
        unsigned long number = (at - (unsigned long)heap) / PAGE;
        if (write(server, &number, 8) != 8) exit(1);
        for (int have = 0, got; have < PAGE; have += got)
            if ((got = read(server, page + have, PAGE - have)) <= 0) exit(1);
        struct uffdio_copy copy = { .dst = at, .src = (unsigned long)page, .len = PAGE };
        if (ioctl(faults, UFFDIO_COPY, &copy)) exit(2);
    }
    return unused;
}

/* usage: restored SOCKET SECONDS */
int main(int count, char **words)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    strncpy(to.sun_path, words[1], sizeof to.sun_path - 1);
    server = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(server, (void *)&to, sizeof to)) return perror("connect"), 1;
    heap = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = { .api = UFFD_API };
    struct uffdio_register all = { .range = { (unsigned long)heap, PAGES * PAGE },
                                     .mode = UFFDIO_REGISTER_MODE_MISSING };
    if (ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &all))
        return perror("userfaultfd"), 1;
    pthread_t thread;
    pthread_create(&thread, NULL, pager, NULL);
    pthread_setname_np(thread, "pager");
    int items = 0;
    unsigned sum = 1;
    double begin = now();
    while (now() < begin + atof(words[2])) {
        if (items % PAGES == 0) madvise(heap, PAGES * PAGE, MADV_DONTNEED);
        char *page = heap + (long)(items % PAGES) * PAGE;
        for (int turn = 0; turn < 200; turn++)
            for (int at = 0; at < PAGE; at++) sum = sum * 31 + page[at];
        page[0] = sum;
        items++;
    }
    printf("items %d seconds %.3f sum %u\n", items, now() - begin, sum);
    return 0;
}
"""


def lazy_restore(place):
    socket = place.folder / "pages"
    place.start(place.write("page-server", PAGE_SERVER), socket, 0.004 * place.fault, path=socket)
    return [str(place.c("restored", RESTORED)), str(socket), str(place.seconds)]


DISK = (r"f(data)?sync", r"waits? for (the |a )?(disk|storage|block device)")

SYSTEMS = [
    System(
        name="fuse_forgetful_bindfs",
        kind="user-space-file-system",
        truth=("indexer reads through bindfs, a FUSE file system in a user program that has to "
               "answer each lookup, open and read of it, because the kernel may remember nothing"),
        load=fuse,
        component=(r"bindfs", r"\bfuse", r"indexer"),
        mechanism=(r"\bfuse", r"round trips?", r"there and back",
                   r"waits? for (\S+ )*(bindfs|fuse)",
                   r"bindfs (\S+ )*(comput|runs|serves|answers|reads|opens|writes)",
                   r"bindfs.*(system calls?|in the kernel|one (\w+ )?at a time)"),
        never=(*DISK, r"\bsleeps", r"indexer comput", r"indexer runs"),
        needs=("bindfs", "mount", "unshare", "nsenter", PYTHON),
    ),
    System(
        name="lazy_restore",
        kind="user-fault-handler",
        truth=("restored has its pages by userfaultfd: whenever it touches one, it waits for its "
               "thread pager, which waits for page-server, which sleeps 4 ms for each page"),
        load=lazy_restore,
        rate=ITEMS,
        component=(r"page-server", r"pager", r"restored"),
        mechanism=(r"\bsleep", r"timer", r"until a time", r"page fault", r"userfault"),
        never=(*DISK, r"(restored|pager|page-server) comput", r"\block(s|ed)?\b"),
        change="x0",
        halves=True,
        running=True,
        needs=("gcc", PYTHON),
    ),
]

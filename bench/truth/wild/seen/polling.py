"""Two programs exchange items through shared memory, and both poll it with sleeps in between."""
from system import ITEMS, PYTHON, SLEEPS, System

SOURCE = r"""
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* mailbox FILE (client SECONDS | server) PAUSE_US: one slot each way, a number that goes up says that it is full. */
struct box { _Atomic unsigned asked, answered; };

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }

int main(int count, char **words)
{
    int fd = open(words[1], O_RDWR | O_CREAT, 0600);
    if (ftruncate(fd, 4096)) return 1;
    struct box *box = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int pause = atoi(words[3]);
    if (!strcmp(words[2], "server"))
        for (unsigned next = 1;; next++) {
            while (atomic_load(&box->asked) < next) usleep(pause);
            for (volatile int i = 0; i < 20000; i++);
            atomic_store(&box->answered, next);
        }
    double begin = now(), seconds = atof(words[2]);
    unsigned next = 0;
    while (now() < begin + seconds) {
        atomic_store(&box->asked, ++next);
        while (atomic_load(&box->answered) < next) usleep(pause);
    }
    printf("items %u seconds %.3f\n", next, now() - begin);
}
"""

# The same with a directory as the mailbox: removing a file means that it was read.
SPOOL = """
import os, sys, time

folder, role, count, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
def wait(path):
    while not os.path.exists(path):
        time.sleep(pause)
    os.unlink(path)
def leave(path):
    open(path + ".part", "w").close()
    os.rename(path + ".part", path)

begin = time.monotonic()
for _ in range(count):
    if role == "client":
        leave(folder + "/job")
        wait(folder + "/result")
    else:
        wait(folder + "/job")
        sum(range(5000))
        leave(folder + "/result")
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""


def memory(place):
    pause, box = 20 if place.fixed else round(2000 * place.fault), place.folder / "box"
    program = place.c("mailbox", SOURCE)
    place.start(program, box, "server", pause)
    return [str(program), str(box), str(place.seconds), str(pause)]


def spool(place):
    pause, script = 0.0001 if place.fixed else 0.005 * place.fault, place.write("spool.py", SPOOL)
    (place.folder / "spool").mkdir()
    place.start(PYTHON, script, place.folder / "spool", "server", 10**9, pause)
    return [PYTHON, str(script), str(place.folder / "spool"), "client", "2000" if place.fixed else "600", str(pause)]


MECHANISM = (r"\bpoll(s|ing)?\b", *SLEEPS)
SYSTEMS = [
    System(
        name="polling_memory",
        kind="polling-both-sides",
        truth="both sides of the mailbox look for news every 2 ms by usleep",
        load=memory,
        rate=ITEMS,
        component=(r"mailbox",),
        mechanism=MECHANISM,
        change="x0.01",
        halves=True,
        needs=("gcc",),
    ),
    System(
        name="polling_spool_work",
        kind="polling-both-sides",
        truth="client and server look into a spool folder every 5 ms",
        load=spool,
        rate=ITEMS,
        component=(r"python", r"spool"),
        mechanism=MECHANISM,
        change="x0.02",
        halves=True,
        needs=(PYTHON,),
    ),
]

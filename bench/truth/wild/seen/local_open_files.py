"""Opening a file: a scanner reads each file first, or another process has a lease on it."""
from system import COMPUTES, ITEMS, SLEEPS, System

SCANNER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fanotify.h>
#include <unistd.h>

/* Looks for signatures in each file of a folder before anybody may open it. */
static unsigned char data[1 << 20];

int main(int count, char **words)
{
    int signatures = atoi(words[2]);
    int group = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY | O_CLOEXEC);
    if (group < 0 || fanotify_mark(group, FAN_MARK_ADD, FAN_OPEN_PERM | FAN_EVENT_ON_CHILD, AT_FDCWD, words[1])) {
        perror("fanotify");
        return 1;
    }
    close(creat("ready", 0644));
    static struct fanotify_event_metadata events[64];
    static volatile unsigned found;
    for (;;) {
        ssize_t left = read(group, events, sizeof events);
        if (left <= 0) return 1;
        for (struct fanotify_event_metadata *event = events; FAN_EVENT_OK(event, left); event = FAN_EVENT_NEXT(event, left)) {
            if (event->fd < 0) continue;
            if (signatures) {
                ssize_t length = read(event->fd, data, sizeof data);
                for (int k = 0; k < signatures; k++) {
                    unsigned sum = k;
                    for (ssize_t i = 0; i < length; i++) sum = sum * 31 + data[i];
                    found += sum == 0x5eed;
                }
            }
            struct fanotify_response answer = { .fd = event->fd, .response = FAN_ALLOW };
            if (write(group, &answer, sizeof answer) < 0) return 1;
            close(event->fd);
        }
    }
}
"""


def scanned(place):
    """The scanner has 280 signatures, or is configured to skip the folder."""
    tree = place.folder / "tree"
    tree.mkdir()
    for number in range(400):
        place.write(f"tree/page{number:03}.txt", "".join(f"{number} {line * number * 7919 % 100003}\n" for line in range(1500)), 0o644)
    place.start(place.c("onaccess", SCANNER), tree, round(280 * place.fault), path=place.folder / "ready")
    return ["sh", "-c", "exec gzip -7 -c tree/* >archive.gz"]


HOLDER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Keeps documents for clients elsewhere: has a lease on each, and gives it up when the client has sent what it changed. */
int main(int count, char **words)
{
    long pause = atol(words[1]) * 1000;
    int last = -1;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, 0);
    for (int i = 0; i < 32; i++) {
        char name[32];
        snprintf(name, sizeof name, "documents/%d", i);
        int file = open(name, O_RDONLY | O_CLOEXEC);
        if (file < 0 || fcntl(file, F_SETSIG, SIGRTMIN) || fcntl(file, F_SETLEASE, F_RDLCK)) {
            perror(name);
            return 1;
        }
    }
    close(creat("ready", 0644));
    for (;;) {
        siginfo_t info;
        if (sigwaitinfo(&set, &info) < 0) continue;
        struct timespec time = { 0, pause };
        if (pause) nanosleep(&time, 0);
        fcntl(info.si_fd, F_SETLEASE, F_UNLCK);
        /* The one before is closed by now. Unlocking forgets the signal. */
        if (last >= 0) fcntl(last, F_SETSIG, SIGRTMIN), fcntl(last, F_SETLEASE, F_RDLCK);
        last = info.si_fd;
    }
}
"""

EDITOR = """#!/usr/bin/tclsh
# Adds a line to one document after the other.
set start [clock milliseconds]
set items 0
while {[clock milliseconds] - $start < 1000 * [lindex $argv 0]} {
    set file [open documents/[expr {$items % 32}] a]
    puts $file "line $items"
    close $file
    incr items
}
puts "items $items seconds [expr {([clock milliseconds] - $start) / 1000.0}]"
"""


def leased(place):
    (place.folder / "documents").mkdir()
    for number in range(32):
        place.write(f"documents/{number}", "", 0o644)
    place.start(place.c("oplockd", HOLDER), round(22000 * place.fault), path=place.folder / "ready")
    return [str(place.write("editor", EDITOR)), str(place.seconds)]


SYSTEMS = [
    System(
        name="scanner_on_each_open",
        kind="on-access-scan",
        truth="onaccess, a scanner, computes over each file before gzip may open it",
        load=scanned,
        component=(r"onaccess", r"scanner", r"fanotify"),
        mechanism=COMPUTES,
        never=(r"\bdisk\b", r"\bsleeps", r"gzip (comput|runs)"),
        halves=True,
        needs=("gcc", "gzip"),
    ),
    System(
        name="file_lease",
        kind="file-lease",
        truth="oplockd has a lease on each document and sleeps 22 ms before it gives it up, for which the editor waits in open",
        load=leased,
        rate=ITEMS,
        component=(r"oplockd", r"\blease"),
        mechanism=SLEEPS,
        never=(r"\bdisk\b", r"editor (sleeps|comput|runs)", r"tclsh (sleeps|comput|runs)"),
        change="x0",
        halves=True,
        needs=("gcc", "tclsh"),
    ),
]

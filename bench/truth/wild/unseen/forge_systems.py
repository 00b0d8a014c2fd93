"""A forge: builds, archives and language runtimes.

A sandboxed make, a Java class loader, a memory group without an OOM killer, rules behind a Python
manager, tar on tapes that a robot changes, and two healthy builds.
"""
import os
import random
from pathlib import Path

from system import COMPUTES, ITEMS, LOCKS, PYTHON, SLEEPS, System

# make in a sandbox: a filter of seccomp asks `warden` about each file that the build opens.

WARDEN = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* warden MICROSECONDS COMMAND...: COMMAND and its children open a file when the warden has answered. */

static void send_file(int to, int file) {
    char byte = 0, room[CMSG_SPACE(sizeof file)] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(head), &file, sizeof file);
    sendmsg(to, &message, 0);
}

static int receive_file(int from) {
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int file = -1;
    if (recvmsg(from, &message, 0) > 0 && CMSG_FIRSTHDR(&message))
        memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    return file;
}

static void run(int to, char **command) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int file = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    if (file < 0) {
        perror("seccomp");
        _exit(1);
    }
    send_file(to, file);
    close(file);
    close(to);
    execvp(command[0], command);
    _exit(127);
}

int main(int count, char **words) {
    struct timespec policy = {0, atol(words[1]) * 1000};
    int pair[2], status = 0;
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
    pid_t child = fork();
    if (!child)
        run(pair[0], words + 2);
    close(pair[0]);
    int asked = receive_file(pair[1]);
    if (asked < 0)
        return 1;
    struct seccomp_notif *question = malloc(4096);
    struct seccomp_notif_resp *answer = malloc(4096);
    for (;;) {
        struct pollfd ready = {asked, POLLIN, 0};
        if (poll(&ready, 1, -1) < 0 && errno != EINTR)
            break;
        if (!(ready.revents & POLLIN)) {
            if (ready.revents & POLLHUP)
                break;
            continue;
        }
        memset(question, 0, 4096);
        if (ioctl(asked, SECCOMP_IOCTL_NOTIF_RECV, question))
            continue;
        if (policy.tv_nsec)
            nanosleep(&policy, NULL);
        memset(answer, 0, 4096);
        answer->id = question->id;
        answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        ioctl(asked, SECCOMP_IOCTL_NOTIF_SEND, answer);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
"""

UNIT = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int part_{n}(const char *word) {{ char copy[64]; snprintf(copy, sizeof copy, "%s-%d", word, {n}); return (int) strlen(copy) + atoi(word); }}
"""


def sandbox(place):
    units = 16
    for n in range(units):
        place.write(f"part{n}.c", UNIT.format(n=n))
    objects = " ".join(f"part{n}.o" for n in range(units))
    place.write("Makefile", f"all: {objects}\n%.o: %.c\n\tgcc -O1 -c -o $@ $<\n")
    warden = place.c("warden", WARDEN)
    return [str(warden), str(round(1000 * place.fault)), "make", "-s", "-B", "-j2", "-C", str(place.folder)]


# Java: four threads load plugins by one class loader, which asks a depot for each class.

PLUGINS = """
import java.io.*;
import java.net.*;
import java.util.concurrent.atomic.*;
import java.util.function.*;

class Plugin00000 implements IntUnaryOperator {
    public int applyAsInt(int x) { return x * 3 + 1; }
}

class PluginLoader extends ClassLoader {
    static { if (Boolean.getBoolean("plugins.parallel")) registerAsParallelCapable(); }

    final int port;
    final ThreadLocal<Socket> line = new ThreadLocal<>();

    PluginLoader(int port) { super(PluginLoader.class.getClassLoader()); this.port = port; }

    @Override protected Class<?> findClass(String name) throws ClassNotFoundException {
        try {
            Socket to = line.get();
            if (to == null) {
                line.set(to = new Socket("127.0.0.1", port));
                to.setTcpNoDelay(true);
            }
            to.getOutputStream().write(name.getBytes());
            DataInputStream in = new DataInputStream(to.getInputStream());
            byte[] code = new byte[in.readInt()];
            in.readFully(code);
            return defineClass(name, code, 0, code.length);
        } catch (IOException e) {
            throw new ClassNotFoundException(name, e);
        }
    }
}

public class Main {
    public static void main(String[] args) throws Exception {
        PluginLoader loader = new PluginLoader(Integer.parseInt(args[0]));
        double seconds = Double.parseDouble(args[1]);
        AtomicInteger next = new AtomicInteger(1);
        AtomicLong done = new AtomicLong();
        long start = System.nanoTime();
        Thread[] threads = new Thread[4];
        for (int n = 0; n < threads.length; n++) {
            threads[n] = new Thread(() -> {
                try {
                    while ((System.nanoTime() - start) / 1e9 < seconds) {
                        Class<?> plugin = loader.loadClass(String.format("Plugin%05d", next.getAndIncrement()));
                        var maker = plugin.getDeclaredConstructor();
                        maker.setAccessible(true);
                        IntUnaryOperator run = (IntUnaryOperator) maker.newInstance();
                        int value = 1;
                        for (int i = 0; i < 500; i++)
                            value = run.applyAsInt(value);
                        done.incrementAndGet();
                    }
                } catch (ReflectiveOperationException e) {
                    throw new RuntimeException(e);
                }
            }, "installer-" + n);
            threads[n].start();
        }
        for (Thread thread : threads)
            thread.join();
        System.out.printf("items %d seconds %.3f%n", done.get(), (System.nanoTime() - start) / 1e9);
    }
}
"""

DEPOT = """
package main

import ("bytes"; "encoding/binary"; "io"; "net"; "os"; "time")

func main() {
	pause, _ := time.ParseDuration(os.Args[2])
	code, err := os.ReadFile(os.Args[3])
	if err != nil { panic(err) }
	listener, err := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil { panic(err) }
	for {
		line, err := listener.Accept()
		if err != nil { panic(err) }
		go func() {
			defer line.Close()
			name := make([]byte, 11)
			for {
				if _, err := io.ReadFull(line, name); err != nil { return }
				time.Sleep(pause)
				class := bytes.ReplaceAll(code, []byte("Plugin00000"), name)
				line.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(class))), class...))
			}
		}()
	}
}
"""


def class_loader(place):
    classes, port = place.java(PLUGINS), place.port()
    place.start(place.go("plugindepot", DEPOT), port, f"{0.006 * place.scale}s", classes / "Plugin00000.class", port=port)
    parallel = "true" if place.fixed else "false"
    return ["java", f"-Dplugins.parallel={parallel}", "-XX:+UseSerialGC", "-cp", str(classes), "Main", str(port), str(place.seconds)]


# A control group with a limit of memory and without the OOM killer (docker run --oom-kill-disable):
# a page fault waits until another process of the group has given memory back.

STASH = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static char piece[1 << 20];

static void rest(double seconds) {
    struct timespec time = {0, seconds * 1e9};
    nanosleep(&time, NULL);
}

/* stash TASKS SECONDS READY: keeps 32 MiB of images for some time, drops them, and begins again. */
int main(int count, char **words) {
    double keep = atof(words[2]);
    int images = memfd_create("images", 0);
    memset(piece, 7, sizeof piece);
    FILE *tasks = fopen(words[1], "w");
    if (!tasks || fputs("0", tasks) < 0 || fclose(tasks)) { perror(words[1]); return 1; }
    fclose(fopen(words[3], "w"));
    for (;;) {
        off_t size = 0;
        /* A write fails (ENOMEM) while the group has no memory left. 29 MiB leave too little for a tile. */
        for (int tries = 0; size < 32 << 20 && tries < 40;) {
            ssize_t got = pwrite(images, piece, sizeof piece, size);
            if (got > 0) size += got;
            else if (size >= 29 << 20) break;
            else { tries++; rest(0.0003); }
        }
        rest(keep);
        ftruncate(images, 0);
        rest(0.012);
    }
}
"""

TILER = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* tiler TASKS SECONDS: draws one tile after the other, each in 12 MiB of its own. */
int main(int count, char **words) {
    double seconds = atof(words[2]);
    FILE *tasks = fopen(words[1], "w");
    if (!tasks || fputs("0", tasks) < 0 || fclose(tasks)) { perror(words[1]); return 1; }
    size_t size = 12 << 20;
    long tiles = 0;
    unsigned sum = 0;
    double start = now();
    while (now() - start < seconds) {
        unsigned char *tile = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (tile == MAP_FAILED) { perror("mmap"); return 1; }
        for (size_t at = 0; at < size; at += 512)
            sum = tile[at] = sum * 31 + at;
        munmap(tile, size);
        tiles++;
    }
    printf("items %ld seconds %.3f %u\n", tiles, now() - start, sum & 1);
    return 0;
}
"""

MEMORY = Path("/sys/fs/cgroup/memory")


def memory_group(place):
    group = MEMORY / f"forge-tiles-{os.getpid()}-{place.port()}"
    group.mkdir()
    # The callback comes after the end of the services.
    place.stack.callback(group.rmdir)
    (group / "memory.limit_in_bytes").write_text("400M" if place.fixed else "40M")
    (group / "memory.oom_control").write_text("1")
    ready, tasks = place.folder / "stash-ready", group / "tasks"
    tiler = place.c("tiler", TILER)
    place.start(place.c("stash", STASH), tasks, 0.06 * place.scale, ready, path=ready)
    return [str(tiler), str(tasks), str(place.seconds)]


# Python: two workers ask the process of a multiprocessing manager for each rule.

LINTER = """
import hashlib, sys, time
from multiprocessing import Process, Value
from multiprocessing.managers import SyncManager

def named(name):
    with open("/proc/self/comm", "w") as comm:
        comm.write(name)

def worker(number, rules, copied, seconds, total):
    named("linter")
    if copied:
        rules = rules.copy()
    start, lines = time.monotonic(), 0
    while time.monotonic() - start < seconds:
        line = "".join(f"word{(lines * 7 + n * 131 + number) % 3000:04d} " for n in range(12))
        found = [rules.get(word) for word in line.split()]
        hashlib.pbkdf2_hmac("sha256", repr(found).encode(), b"rule", 80)
        lines += 1
    with total.get_lock():
        total.value += lines

if __name__ == "__main__":
    copied, seconds = sys.argv[1] == "copied", float(sys.argv[2])
    manager = SyncManager()
    manager.start(named, ("rulebook",))
    rules = manager.dict({f"word{n:04d}": (n % 7, f"advice {n}") for n in range(3000)})
    total = Value("q", 0)
    start = time.monotonic()
    workers = [Process(target=worker, args=(n, rules, copied, seconds, total)) for n in range(2)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    print(f"items {total.value} seconds {time.monotonic() - start:.3f}")
    manager.shutdown()
"""


def manager(place):
    script = place.write("lint.py", LINTER)
    return [PYTHON, str(script), "copied" if place.fixed else "asked", str(place.seconds)]


# tar writes to small tapes, and its script for the next volume has a robot change them.

ROBOT = """
const net = require("net");
const [port, pause] = process.argv.slice(2).map(Number);
net.createServer({ noDelay: true }, (line) => {
    line.on("error", () => {});
    line.on("data", (slot) => {
        const answer = () => line.end(`tape-${Number(slot.toString()) % 4}`);
        if (pause > 0) setTimeout(answer, pause); else answer();
    });
}).listen(port, "127.0.0.1");
"""

CHANGER = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* tar calls this for each new volume, and reads the name of its file from the descriptor TAR_FD. */
int main(int count, char **words) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int line = socket(AF_INET, SOCK_STREAM, 0);
    const char *slot = getenv("TAR_VOLUME");
    if (connect(line, (struct sockaddr *) &at, sizeof at) || write(line, slot, strlen(slot)) < 0) { perror("robot"); return 1; }
    char name[64];
    ssize_t got = read(line, name, sizeof name);
    if (got <= 0) return 1;
    return write(atoi(getenv("TAR_FD")), name, got) != got;
}
"""


def tapes(place):
    port = place.port()
    folder = place.folder / "minutes"
    folder.mkdir()
    random.seed(7)
    for n in range(70):
        (folder / f"minute{n:03d}").write_bytes(random.randbytes(500_000))
    place.start("node", place.write("robot.js", ROBOT), port, 50 * place.fault, port=port)
    changer = place.c("changer", CHANGER)
    return ["tar", "-C", str(place.folder), "-c", "-M", "-L", "500", "-F", f"{changer} {port}", "-f", str(place.folder / "tape-0"), "minutes"]


# Healthy: ninja has two jobs at once, niced, each of which is a pipe that computes.

def recompressed(place):
    crates = 80
    random.seed(11)
    words = [random.randbytes(random.randint(3, 9)).hex() for _ in range(4000)]
    lines = ["rule pack\n  command = xz -2 -c $in | sha256sum > $out\n"]
    for n in range(crates):
        place.write(f"crate{n}", " ".join(random.choices(words, k=60_000)))
        lines.append(f"build crate{n}.sum: pack crate{n}\n")
    place.write("build.ninja", "\n".join(lines))
    return ["nice", "-n", "10", "ninja", "--quiet", "-j2", "-C", str(place.folder)]


# Healthy: foreman orders a build nine times in a second, and smith is done long before the next one.

FOREMAN = """
const net = require("net");
const [port, seconds] = process.argv.slice(2).map(Number);
const line = net.connect({ port, host: "127.0.0.1", noDelay: true });
const start = Date.now();
let done = 0, sent = 0;
line.on("data", (text) => { done += text.length; });
const order = setInterval(() => {
    if (Date.now() - start < seconds * 1000) { line.write("b"); sent++; return; }
    clearInterval(order);
    line.end();
}, 110);
line.on("close", () => console.log(`items ${done} seconds ${(Date.now() - start) / 1000}`));
"""

SMITH = """
import socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    line, _ = listener.accept()
    with line:
        while line.recv(1):
            subprocess.run(["gcc", "-O1", "-c", "-o", "part.o", "part.c"], check=True)
            line.sendall(b"d")
"""


def paced_builds(place):
    port = place.port()
    place.write("part.c", UNIT.format(n=1))
    place.start(PYTHON, place.write("smith.py", SMITH), port, port=port)
    return ["node", str(place.write("foreman.js", FOREMAN)), str(port), str(place.seconds)]


SYSTEMS = [
    System(
        name="make_in_a_sandbox",
        kind="system-call-supervisor",
        truth="warden, the sandbox around make, sleeps 1 ms before it allows one of the build's calls of openat (a notification of seccomp), one after the other",
        load=sandbox,
        component=(r"warden",),
        mechanism=SLEEPS,
        never=(r"disk", r"fsync"),
        change="x0",
        halves=True,
        needs=("make", "gcc"),
    ),
    System(
        name="java_class_loader_lock",
        kind="class-loader-lock",
        truth="four threads of java load classes by a loader that is not parallel capable, so that one of them holds its lock while plugindepot sleeps 6 ms for each class",
        load=class_loader,
        rate=ITEMS,
        component=(r"java", r"installer", r"plugindepot", r"loader"),
        mechanism=(*LOCKS, r"monitor", r"one after (the other|another)", r"\bserial"),
        never=(r"disk", r"garbage", r"\bgc\b"),
        change="x0.25",
        halves=True,
        needs=("java", "javac", "go"),
    ),
    System(
        name="tiles_without_oom_killer",
        kind="memory-of-the-group",
        truth="stash keeps most of the memory that its control group may have while it sleeps 60 ms, and the page faults of tiler, in the same group without OOM killer, wait until it is given back",
        load=memory_group,
        rate=ITEMS,
        component=(r"stash", r"tiler.*(memory|page|fault)", r"\bgroup\b"),
        mechanism=(*SLEEPS, r"memory", r"page fault"),
        never=(r"disk", r"swap", r"quota"),
        halves=True,
        needs=("gcc",),
    ),
    System(
        name="python_rules_by_proxy",
        kind="manager-proxy",
        truth="two linters ask rulebook, the process of a multiprocessing manager, for each rule of each word by a request of its own, and rulebook computes the answers under one interpreter lock",
        load=manager,
        rate=ITEMS,
        component=(r"rulebook",),
        mechanism=(*COMPUTES, *LOCKS, r"round trip", r"request", r"asks", r"for each other", r"hand-?over", r"hands? .* over"),
        never=(r"disk", r"sleep"),
        needs=(PYTHON,),
    ),
    System(
        name="tar_changes_tapes",
        kind="volume-change",
        truth="tar waits at the end of each small volume for changer, which asks robot, a server in node, which waits 50 ms for a timer",
        load=tapes,
        component=(r"robot", r"\bnode\b"),
        mechanism=SLEEPS,
        never=(r"disk", r"fsync"),
        change="x0",
        halves=True,
        needs=("tar", "node", "gcc"),
    ),
    System(
        name="control_forge_recompressed",
        kind="control",
        truth="ninja has two pipes of xz and sha256sum at once, at a nice level of 10, and they fill both CPUs",
        load=recompressed,
        acceptable=(r"\bxz\b.*(comput|\buser\b|own code)", r"CPUs? (is|are) (full|busy)"),
        needs=("ninja", "xz", "nice"),
    ),
    System(
        name="control_forge_nine_builds",
        kind="control",
        truth="foreman, in node, orders a build nine times in a second by intention, and smith in python has gcc compile it long before the next one; all are idle most of the time",
        load=paced_builds,
        rate=ITEMS,
        acceptable=(r"(foreman|\bnode\b).*(sleep|timer|until a time|pace)",),
        needs=("node", "gcc", PYTHON),
    ),
]

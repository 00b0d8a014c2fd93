"""A mint: concurrency inside programs in C, C++, Go, Java, Node and Python: an edge-triggered event
loop, a fork server with merged signals, a thread pool whose caller runs, readers of an old epoch, and
locked stacks; two controls.
"""
from services import nginx
from system import ITEMS, PYTHON, SLEEPS, WRK, System, wrk

TIMED = (*SLEEPS, r"time.?out", r"time limit", r"timed wait", r"wait\w* for (a|the) time\b")

# An event loop that takes one record for each edge. It looks at all connections only if nothing
# happened for a while.

EDGE = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RECORD = 64, MOST = 256 };
static int connections[MOST], count;

static void coin(int fd, char *record) {
    uint64_t seal = 1469598103934665603u;
    for (int round = 0; round < 600; round++)
        for (int at = 0; at < RECORD; at++)
            seal = (seal ^ (unsigned char)record[at]) * 1099511628211u;
    memcpy(record, &seal, sizeof seal);
    if (write(fd, record, RECORD) < 0 && errno != EAGAIN) exit(1);
}

/* Takes a record; returns 0 if there is none. */
static int take(int fd) {
    char record[RECORD];
    ssize_t got = read(fd, record, RECORD);
    if (got == RECORD) coin(fd, record);
    if (got == 0) {
        for (int at = 0; at < count; at++) if (connections[at] == fd) connections[at--] = connections[--count];
        close(fd);
    }
    return got == RECORD;
}

int main(int argc, char **argv) {
    int port = atoi(argv[1]), sweep = atoi(argv[2]), drain = atoi(argv[3]), one = 1;
    (void)argc;
    int front = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), poll = epoll_create1(0);
    setsockopt(front, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(front, (struct sockaddr *)&to, sizeof to) || listen(front, 128)) return 1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = front}, ready[64];
    epoll_ctl(poll, EPOLL_CTL_ADD, front, &event);
    for (;;) {
        int many = epoll_wait(poll, ready, 64, sweep);
        for (int at = 0; at < many; at++) {
            if (ready[at].data.fd != front) {
                while (take(ready[at].data.fd) && drain);
                continue;
            }
            int fd = accept4(front, NULL, NULL, SOCK_NONBLOCK);
            if (fd < 0 || count == MOST) continue;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            connections[count++] = fd;
            event = (struct epoll_event){.events = EPOLLIN | EPOLLET, .data.fd = fd};
            epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
        }
        if (many == 0)
            for (int at = count - 1; at >= 0; at--) while (take(connections[at]));
    }
}
"""

TILLS = """
import selectors, socket, sys, time

port, connections, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
BATCH, RECORD = 4, 64
asked = b"".join(bytes([48 + i]) * RECORD for i in range(BATCH))
select = selectors.DefaultSelector()
missing = {}
for _ in range(connections):
    link = socket.create_connection(("127.0.0.1", port))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.sendall(asked)
    missing[link] = len(asked)
    select.register(link, selectors.EVENT_READ)
begin, items = time.monotonic(), 0
while time.monotonic() < begin + seconds:
    for key, _ in select.select(1):
        link = key.fileobj
        got = len(link.recv(4096))
        if not got:
            sys.exit("closed")
        missing[link] -= got
        if not missing[link]:
            items += BATCH
            missing[link] = len(asked)
            link.sendall(asked)
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def edge(place):
    port, front = place.port(), place.port()
    place.start(place.c("coinage", EDGE, "-Wall"), port, round(24 * place.scale), int(place.fixed), port=port)
    config = place.write("haproxy.cfg", f"""
global
  nbthread 1
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen front
  bind 127.0.0.1:{front}
  server one 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return [PYTHON, str(place.write("tills.py", TILLS)), str(front), "6", str(place.seconds)]


# A fork server that reaps one child for each SIGCHLD. The four children of an order end at about
# the same time, so that their signals are merged, and the rest is reaped only by the sweep.

STRIKES = """
import hashlib, os, signal, socket, sys

port, sweep, reap_all = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "all"
COINS = 4
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
front = socket.create_server(("127.0.0.1", port))


def sealed(text, rounds):
    for _ in range(rounds):
        text = hashlib.sha256(text).digest()
    return text


def strike(order, go):
    # All coins of a set are struck at the same moment.
    os.read(go, 1)
    sealed(order, 300)
    os._exit(0)


def reaped():
    child, status = os.waitpid(-1, os.WNOHANG)
    if child:
        sealed(b"%d %d" % (child, status), 800)
    return child != 0


def coined(order):
    go, start = os.pipe()
    for _ in range(COINS):
        if os.fork() == 0:
            os.close(start)
            strike(order, go)
    os.close(go)
    os.close(start)
    left = COINS
    while left:
        told = signal.sigtimedwait({signal.SIGCHLD}, sweep)
        if told is None or reap_all:
            while left and reaped():
                left -= 1
        else:
            left -= reaped()


while True:
    client, _ = front.accept()
    lines = client.makefile("rb")
    while order := lines.readline():
        coined(order)
        client.sendall(order)
"""

ORDERS = """
import socket, sys, time

link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
seconds, open_orders = float(sys.argv[2]), int(sys.argv[3])
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
kinds = sys.argv[4:] or ["coin"]
number = 0


def order():
    global number
    link.sendall(f"{kinds[number % len(kinds)]} {number}\\n".encode())
    number += 1


for _ in range(open_orders):
    order()
begin, items = time.monotonic(), 0
answers = link.makefile("rb")
while time.monotonic() < begin + seconds:
    if not answers.readline():
        sys.exit("closed")
    items += 1
    order()
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def signals(place):
    port = place.port()
    place.start(PYTHON, place.write("strikeserver.py", STRIKES), port, 0.06 * place.scale, "all" if place.fixed else "one", port=port)
    return [PYTHON, str(place.write("orders.py", ORDERS)), str(port), str(place.seconds), "3"]


# A pool without a queue, whose rejected job is run by the thread that dispatches. It is always the
# long one, and meanwhile the four threads of the pool have nothing to do.

DISPATCHER = """
import java.io.*;
import java.net.*;
import java.util.concurrent.*;

public class Main {
    static int backend;
    static final ThreadLocal<Socket> LINK = ThreadLocal.withInitial(() -> {
        try {
            Socket link = new Socket("127.0.0.1", backend);
            link.setTcpNoDelay(true);
            return link;
        } catch (IOException error) { throw new UncheckedIOException(error); }
    });

    static void job(byte[] order, OutputStream to) {
        try {
            Socket link = LINK.get();
            link.getOutputStream().write(order);
            InputStream answer = link.getInputStream();
            for (int c = answer.read(); c != '\\n'; c = answer.read()) if (c < 0) return;
            synchronized (to) { to.write(order); }
        } catch (IOException error) { /* the client has gone */ }
    }

    public static void main(String[] words) throws Exception {
        backend = Integer.parseInt(words[1]);
        var pool = words[2].equals("queue")
            ? new ThreadPoolExecutor(4, 4, 1, TimeUnit.MINUTES, new LinkedBlockingQueue<>())
            : new ThreadPoolExecutor(4, 4, 1, TimeUnit.MINUTES, new SynchronousQueue<>(), new ThreadPoolExecutor.CallerRunsPolicy());
        pool.prestartAllCoreThreads();
        try (var front = new ServerSocket(Integer.parseInt(words[0]), 50, InetAddress.getLoopbackAddress())) {
            while (true) {
                Socket client = front.accept();
                client.setTcpNoDelay(true);
                var orders = new BufferedReader(new InputStreamReader(client.getInputStream()));
                OutputStream to = client.getOutputStream();
                for (String line; (line = orders.readLine()) != null; ) {
                    byte[] order = (line + "\\n").getBytes();
                    pool.execute(() -> job(order, to));
                }
            }
        }
    }
}
"""

FURNACE = """
package main

import ("bufio"; "net"; "os"; "strings"; "time")

func main() {
	short, _ := time.ParseDuration(os.Args[2])
	long, _ := time.ParseDuration(os.Args[3])
	front, _ := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	for {
		link, err := front.Accept()
		if err != nil { return }
		go func() {
			lines := bufio.NewReader(link)
			for {
				line, err := lines.ReadString('\\n')
				if err != nil { link.Close(); return }
				if strings.HasPrefix(line, "melt") { time.Sleep(long) } else { time.Sleep(short) }
				link.Write([]byte("done\\n"))
			}
		}()
	}
}
"""


def caller_runs(place):
    port, backend = place.port(), place.port()
    place.start(place.go("furnace", FURNACE), backend, "3ms", f"{0.09 * place.scale}s", port=backend)
    classes = place.java(DISPATCHER)
    place.start("java", "-Xmx64m", "-cp", classes, "Main", port, backend, "queue" if place.fixed else "caller", port=port)
    return [PYTHON, str(place.write("orders.py", ORDERS)), str(port), str(place.seconds), "40", *["coin"] * 4, "melt"]


# Each change of a table waits until all readers of the old one have left it. The readers sleep in it.

VAULT = """
package main

import ("crypto/sha256"; "fmt"; "net/http"; "os"; "sync"; "sync/atomic"; "time")

type table struct { rates [4096]int64 }

// A reader has an odd number while it is in a table.
type reader struct {
	sync.Mutex
	left *sync.Cond
	number uint64
}

func (r *reader) step() {
	r.Lock()
	r.number++
	r.Unlock()
	r.left.Broadcast()
}

func (r *reader) awaitLeaving() {
	r.Lock()
	for seen := r.number; seen % 2 == 1 && r.number == seen; { r.left.Wait() }
	r.Unlock()
}

var now atomic.Pointer[table]
var readers [3]*reader
var sums atomic.Int64

func audit(r *reader, pause time.Duration) {
	for {
		r.step()
		var sum int64
		for _, rate := range now.Load().rates { sum += rate }
		if pause > 0 { time.Sleep(pause) }
		sums.Store(sum)
		r.step()
		time.Sleep(3 * time.Millisecond)
	}
}

func main() {
	pause, _ := time.ParseDuration(os.Args[2])
	now.Store(new(table))
	for i := range readers {
		readers[i] = new(reader)
		readers[i].left = sync.NewCond(readers[i])
		go audit(readers[i], pause)
		time.Sleep(pause / 3)
	}
	var writer sync.Mutex
	http.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		var seal [32]byte
		for i := 0; i < 2000; i++ { seal = sha256.Sum256(seal[:]) }
		writer.Lock()
		next := *now.Load()
		next.rates[seal[0]]++
		now.Store(&next)
		writer.Unlock()
		for _, r := range readers { r.awaitLeaving() }
		fmt.Fprintf(w, "%x\\n", seal[:4])
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def epoch(place):
    port = place.port()
    place.start(place.go("vault", VAULT), port, f"{0.024 * place.fault}s", port=port)
    http = f"upstream behind {{ server 127.0.0.1:{port}; keepalive 16; }}"
    front = nginx(place, 'location / { proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ""; }', http)
    return wrk(f"http://127.0.0.1:{front}/", 6, place.seconds)


# A thread for each connection, whose great stack the kernel clears at once, because all memory of
# the program is locked.

DESK = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static void *serve(void *with) {
    int fd = (int)(intptr_t)with;
    char text[4096];
    size_t have = 0;
    for (ssize_t got; have < sizeof text - 1 && (got = read(fd, text + have, sizeof text - 1 - have)) > 0; ) {
        have += (size_t)got;
        text[have] = 0;
        if (strstr(text, "\r\n\r\n")) break;
    }
    if (have) {
        uint64_t seal = have;
        for (int round = 0; round < 3000000; round++) seal = (seal ^ (unsigned)round) * 1099511628211u;
        char body[64], answer[256];
        int size = snprintf(body, sizeof body, "certificate %016lx\n", (unsigned long)seal);
        int all = snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", size, body);
        if (write(fd, answer, (size_t)all) < 0) perror("write");
        shutdown(fd, SHUT_WR);
    }
    close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    int one = 1;
    (void)argc;
    if (mlockall(MCL_CURRENT | MCL_FUTURE)) { perror("mlockall"); return 1; }
    int front = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(front, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(front, (struct sockaddr *)&to, sizeof to) || listen(front, 128)) return 1;
    pthread_attr_t how;
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&how, (size_t)atol(argv[2]) * 1024);
    for (;;) {
        int fd = accept(front, NULL, NULL);
        if (fd < 0) continue;
        pthread_t thread;
        if (pthread_create(&thread, &how, serve, (void *)(intptr_t)fd)) { perror("pthread_create"); close(fd); }
    }
}
"""


def stacks(place):
    port = place.port()
    # glibc keeps up to 40 MB of stacks for the next threads; half of this one is larger.
    place.start(place.c("certdesk", DESK, "-Wall"), port, 256 + round(96 * 1024 * place.fault), port=port)
    return wrk(f"http://127.0.0.1:{port}/", 4, place.seconds)


# Control: a bell rings 25 times in a second. Each stroke is a queued signal for a program in Python,
# which tells node.

BELL = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    pid_t to = atoi(argv[1]);
    int seconds = atoi(argv[2]), strokes = 0;
    (void)argc;
    int tick = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec each = {{0, 40000000}, {0, 40000000}};
    timerfd_settime(tick, 0, &each, NULL);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint64_t ticks; strokes < 25 * seconds; strokes++) {
        if (read(tick, &ticks, sizeof ticks) != sizeof ticks) return 1;
        if (sigqueue(to, SIGRTMIN, (union sigval){.sival_int = strokes})) return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("items %d seconds %.3f\n", strokes, (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
}
"""

RINGER = """
import hashlib, pathlib, signal, socket, sys

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
pathlib.Path(sys.argv[2]).touch()
seal = b"bell"
while True:
    signal.sigwaitinfo({signal.SIGRTMIN})
    for _ in range(500):
        seal = hashlib.sha256(seal).digest()
    link.sendall(seal.hex().encode() + b"\\n")
    if not link.recv(4096):
        break
"""

TOWER = """
const net = require('net'), crypto = require('crypto');
let strokes = 0;
net.createServer(link => {
  link.setNoDelay(true);
  link.on('data', data => {
    for (let i = 0; i < 200; i++) data = crypto.createHash('sha256').update(data).digest();
    setImmediate(() => link.write(`${++strokes} ${data.toString('hex')}\\n`));
  });
  link.on('error', () => {});
}).listen(Number(process.argv[2]), '127.0.0.1');
"""


def bell(place):
    port, ready = place.port(), place.folder / "ringer-ready"
    place.start("node", place.write("tower.js", TOWER), port, port=port)
    ringer = place.start(PYTHON, place.write("ringer.py", RINGER), port, ready, path=ready)
    return [str(place.c("bell", BELL, "-Wall")), str(ringer.pid), str(place.seconds)]


# Control: two threads in C++ compute tasks of different lengths, and steal from one another. They
# read the prices under a lock that is shared, and that a writer has for some microseconds.

ASSAYERS = r"""
#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <shared_mutex>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

struct Batch { std::atomic<int> open; int to; };
struct Task { std::shared_ptr<Batch> of; int rounds; };
struct Worker { std::mutex lock; std::deque<Task> tasks; };

static Worker workers[2];
static std::mutex idle;
static std::condition_variable more;
static std::atomic<int> waiting{0};
static std::shared_mutex pricing;
static uint64_t prices[256];

static bool pick(int self, Task &task) {
    for (int turn = 0; turn < 2; turn++) {
        Worker &from = workers[(self + turn) % 2];
        std::lock_guard<std::mutex> hold(from.lock);
        if (from.tasks.empty()) continue;
        if (turn == 0) { task = std::move(from.tasks.back()); from.tasks.pop_back(); }
        else { task = std::move(from.tasks.front()); from.tasks.pop_front(); }
        return true;
    }
    return false;
}

static void work(int self) {
    for (;;) {
        Task task;
        if (!pick(self, task)) {
            std::unique_lock<std::mutex> hold(idle);
            more.wait(hold, [] { return waiting > 0; });
            continue;
        }
        waiting--;
        uint64_t seal;
        { std::shared_lock<std::shared_mutex> hold(pricing); seal = prices[task.rounds % 256]; }
        for (int round = 0; round < task.rounds; round++) seal = (seal ^ (unsigned)round) * 1099511628211u;
        volatile uint64_t keep = seal;
        (void)keep;
        if (--task.of->open == 0 && write(task.of->to, "done\n", 5) < 0) perror("write");
    }
}

static void price() {
    for (uint64_t day = 1;; day++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        std::unique_lock<std::shared_mutex> hold(pricing);
        for (auto &one : prices) one = one * 31 + day;
    }
}

int main(int, char **argv) {
    int one = 1, front = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(front, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(atoi(argv[1]));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(front, (sockaddr *)&to, sizeof to) || listen(front, 16)) return 1;
    std::thread(work, 0).detach();
    std::thread(work, 1).detach();
    std::thread(price).detach();
    unsigned odd = 1, next = 0;
    for (;;) {
        int fd = accept(front, nullptr, nullptr);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        char text[256];
        for (ssize_t got; (got = read(fd, text, sizeof text)) > 0; )
            for (ssize_t at = 0; at < got; at++) {
                if (text[at] != '\n') continue;
                auto batch = std::make_shared<Batch>();
                batch->open = 40;
                batch->to = fd;
                {
                    std::lock_guard<std::mutex> hold(workers[next].lock);
                    for (int task = 0; task < 40; task++) {
                        odd = odd * 1664525u + 1013904223u;
                        workers[next].tasks.push_back({batch, 50000 + (int)(odd >> 8) % 700000});
                    }
                }
                next = 1 - next;
                { std::lock_guard<std::mutex> hold(idle); waiting += 40; }
                more.notify_all();
            }
        close(fd);
    }
}
"""


def stealing(place):
    port = place.port()
    program = place.built(ASSAYERS, ".cpp", "g++", "-O2", "-std=c++17", "-pthread", "-o", "{program}", "{source}")
    place.start(place.named(program, "assayers"), port, port=port)
    return [PYTHON, str(place.write("orders.py", ORDERS)), str(port), str(place.seconds), "4"]


SYSTEMS = [
    System(
        name="mint_rest_of_the_edge",
        kind="edge-triggered-rest",
        truth="coinage reads one of four records for each edge of its epoll, and finds the rest only when its epoll_wait of 24 ms is over, while the tills behind haproxy wait for all four",
        load=edge,
        rate=ITEMS,
        component=(r"coinage",),
        mechanism=TIMED,
        never=(r"comput", r"\block\b", r"mutex", r"disk"),
        change="x0",
        halves=True,
        needs=("gcc", "haproxy", PYTHON),
    ),
    System(
        name="mint_merged_signals",
        kind="merged-signals",
        truth="strikeserver reaps one of the four children of an order for each SIGCHLD, and as their signals are merged, it finds the last ones only when its sigtimedwait of 60 ms is over",
        load=signals,
        rate=ITEMS,
        component=(r"strikeserver", r"^(?!.*orders).*python"),
        mechanism=(*TIMED, r"sigtimedwait", r"for a signal"),
        never=(r"comput", r"\block\b", r"mutex", r"disk"),
        change="x0",
        halves=True,
        needs=(PYTHON,),
    ),
    System(
        name="mint_dispatcher_runs",
        kind="caller-runs",
        truth="the only dispatching thread of Java runs each fifth job by itself, because its pool has no queue, and while it waits 90 ms for furnace, which sleeps, the four threads of the pool have nothing to do",
        load=caller_runs,
        rate=ITEMS,
        component=(r"java", r"\bMain\b", r"furnace"),
        mechanism=(*SLEEPS, r"one (\w+ )?at a time", r"one thread", r"serial", r"in turn"),
        never=(r"comput", r"mutex", r"disk", r"garbage"),
        change="x0.25",
        halves=True,
        needs=("java", "javac", "go", PYTHON),
    ),
    System(
        name="mint_readers_of_old_rates",
        kind="epoch-reclamation",
        truth="each change of the rates in the Go server vault waits until its three auditors have left the old table, in which they sleep 24 ms",
        load=epoch,
        rate=WRK,
        component=(r"vault",),
        mechanism=SLEEPS,
        never=(r"comput", r"disk", r"garbage"),
        change="x0",
        halves=True,
        needs=("go", "nginx", "wrk"),
    ),
    System(
        name="mint_locked_stacks",
        kind="locked-thread-stacks",
        truth="certdesk has all its memory locked, so that the kernel clears 96 MB of stack for the thread of each connection before its accepting thread goes on",
        load=stacks,
        rate=WRK,
        component=(r"certdesk",),
        # That it computes is not enough: the sentence must say that the kernel does.
        mechanism=(r"kernel", r"system (time|calls?|mode|CPU)", r"\bpages?\b", r"page.?fault", r"mprotect", r"mmap", r"memory", r"stack", r"pthread_create", r"clon(e|ing)"),
        never=(r"sleep", r"disk", r"network"),
        halves=True,
        needs=("gcc", "wrk"),
    ),
    System(
        name="control_mint_bell",
        kind="control",
        truth="bell rings 25 times in a second, as it should, ringer takes each signal at once and tells node, and all are idle most of the time",
        load=bell,
        rate=ITEMS,
        acceptable=(r"\bbell\b.*(sleep|timer|until a time|intention|pace)", r"\bidle\b", r"nothing is short"),
        needs=("gcc", "node", PYTHON),
    ),
    System(
        name="control_mint_stealing",
        kind="control",
        truth="two threads of assayers compute on two CPUs, which are full, and steal tasks from one another",
        load=stealing,
        rate=ITEMS,
        acceptable=(r"^(?!.*(\block|mutex|sleep)).*(comput|runs its own code|CPUs? (is|are) (full|busy))",),
        needs=("g++", PYTHON),
    ),
]

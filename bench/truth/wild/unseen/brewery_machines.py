"""A brewery's machines: a PLC, a register of tanks and a bottle camera, in C, C++, Go and Python over
TCP, UDP, unix sockets, shared memory and semaphores.
"""
import uuid
from pathlib import Path

from system import ITEMS, LOCKS, PYTHON, SLEEPS, System


def cpp(place, name, source):
    program = place.built(source, ".cpp", "g++", "-O2", "-std=c++17", "-pthread", "-o", "{program}", "{source}")
    return place.named(program, name)


# A PLC with a cycle of 8 ms. In each it works off one command, or all that have come.

PLC = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LOOPS = 24 };
static struct { double set, measured, sum, last, out; } loops[LOOPS];

/* One scan of all controllers: a simulated kettle and a PID for each. */
static void scan(double step) {
    for (int at = 0; at < LOOPS; at++) {
        double error = loops[at].set - loops[at].measured;
        loops[at].sum = fmax(-50, fmin(50, loops[at].sum + error * step));
        loops[at].out = 2 * error + 0.5 * loops[at].sum + 0.01 * (error - loops[at].last) / step;
        loops[at].last = error;
        loops[at].measured += (loops[at].out - 0.3 * (loops[at].measured - 18)) * step;
    }
}

int main(int argc, char **argv) {
    int port = atoi(argv[1]), all = atoi(argv[3]), bus = socket(AF_INET, SOCK_DGRAM, 0);
    long cycle = atol(argv[2]);
    (void)argc;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(bus, (struct sockaddr *)&to, sizeof to)) return 1;
    struct sched_param urgent = {.sched_priority = 20};
    if (sched_setscheduler(0, SCHED_FIFO, &urgent)) fprintf(stderr, "plc: no real-time priority\n");
    close(open(argv[4], O_CREAT | O_WRONLY, 0644));
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (;;) {
        next.tv_nsec += cycle;
        while (next.tv_nsec >= 1000000000) next.tv_nsec -= 1000000000, next.tv_sec++;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        scan(cycle * 1e-9);
        do {
            char text[128];
            struct sockaddr_in from;
            socklen_t length = sizeof from;
            ssize_t got = recvfrom(bus, text, sizeof text - 1, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
            if (got <= 0) break;
            text[got] = 0;
            long number;
            int loop;
            double value;
            if (sscanf(text, "%ld set %d %lf", &number, &loop, &value) != 3) continue;
            loops[loop % LOOPS].set = value;
            got = snprintf(text, sizeof text, "%ld %.2f", number, loops[loop % LOOPS].measured);
            sendto(bus, text, got, 0, (struct sockaddr *)&from, length);
        } while (all);
    }
}
"""

OPCGATE = """
import asyncio, sys

class Bus(asyncio.DatagramProtocol):
    def __init__(self):
        self.open, self.last = {}, 0

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        number, _, answer = data.partition(b" ")
        waiting = self.open.pop(int(number), None)
        if waiting and not waiting.done():
            waiting.set_result(answer)

    def command(self, text):
        self.last += 1
        waiting = self.open[self.last] = asyncio.get_running_loop().create_future()
        self.transport.sendto(b"%d %s" % (self.last, text))
        return waiting

async def main():
    loop = asyncio.get_running_loop()
    _, bus = await loop.create_datagram_endpoint(Bus, remote_addr=("127.0.0.1", int(sys.argv[2])))
    async def serve(reader, writer):
        while line := await reader.readline():
            writer.write(await bus.command(line.strip()) + b"\\n")
        writer.close()
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()

asyncio.run(main())
"""

SCADA = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strconv"; "sync"; "sync/atomic"; "time")

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	operators, _ := strconv.Atoi(os.Args[3])
	begin := time.Now()
	end := begin.Add(time.Duration(seconds * float64(time.Second)))
	var done atomic.Int64
	var all sync.WaitGroup
	for operator := 0; operator < operators; operator++ {
		all.Add(1)
		go func(operator int) {
			defer all.Done()
			gate, err := net.Dial("tcp", "127.0.0.1:"+os.Args[1])
			if err != nil { panic(err) }
			answers := bufio.NewReader(gate)
			for turn := 0; time.Now().Before(end); turn++ {
				fmt.Fprintf(gate, "set %d %d\\n", operator, 60+turn%20)
				if _, err := answers.ReadString('\\n'); err != nil { panic(err) }
				done.Add(1)
			}
		}(operator)
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", done.Load(), time.Since(begin).Seconds())
}
"""


def scans(place):
    port, bus, ready = place.port(), place.port(), place.folder / "plc-ready"
    place.start(place.c("plc", PLC, "-lm"), bus, round(8e6 * place.scale), int(place.fixed), ready, path=ready)
    place.start(PYTHON, place.write("opcgate.py", OPCGATE), port, bus, port=port)
    return [str(place.go("scada", SCADA)), str(port), str(place.seconds), "12"]


# A register of tanks whose mutex is held while a tank's sensor is asked over a slow bus.

CELLAR = r"""
#include <arpa/inet.h>
#include <map>
#include <mutex>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>

struct Tank {
    std::mutex mutex;
    double celsius = 0;
    long readings = 0;
};

static std::mutex whole;
static std::map<int, Tank> tanks;
static bool each_by_itself;
static int bus_port;

static sockaddr_in loopback(int port) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return to;
}

static double ask(int bus, int number) {
    std::string question = std::to_string(number);
    char answer[64];
    for (;;) {
        send(bus, question.data(), question.size(), 0);
        ssize_t got = recv(bus, answer, sizeof answer - 1, 0);
        if (got <= 0) continue;
        answer[got] = 0;
        return atof(answer);
    }
}

static std::string reading(int bus, int number) {
    Tank &tank = tanks.at(number);
    std::lock_guard<std::mutex> held(each_by_itself ? tank.mutex : whole);
    tank.celsius = 0.9 * tank.celsius + 0.1 * ask(bus, number);
    tank.readings++;
    return std::to_string(tank.celsius) + "\n";
}

static void serve(int client) {
    int bus = socket(AF_INET, SOCK_DGRAM, 0);
    sockaddr_in to = loopback(bus_port);
    connect(bus, (sockaddr *)&to, sizeof to);
    timeval patience{1, 0};
    setsockopt(bus, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char line[64];
    for (ssize_t got; (got = read(client, line, sizeof line - 1)) > 0;) {
        line[got] = 0;
        std::string answer = reading(bus, atoi(line) % (int)tanks.size());
        if (write(client, answer.data(), answer.size()) < 0) break;
    }
    close(bus);
    close(client);
}

int main(int, char **argv) {
    bus_port = atoi(argv[2]);
    each_by_itself = atoi(argv[3]);
    for (int number = 0; number < 8; number++) tanks[number];
    int front = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(front, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    sockaddr_in to = loopback(atoi(argv[1]));
    if (bind(front, (sockaddr *)&to, sizeof to) || listen(front, 64)) return 1;
    for (;;) {
        int client = accept(front, nullptr, nullptr);
        if (client >= 0) std::thread(serve, client).detach();
    }
}
"""

TANKBUS = """
package main

import ("fmt"; "net"; "os"; "strconv"; "time")

func main() {
	port, _ := strconv.Atoi(os.Args[1])
	pause, _ := time.ParseDuration(os.Args[2])
	bus, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil { panic(err) }
	os.WriteFile(os.Args[3], nil, 0644)
	for {
		question := make([]byte, 64)
		got, from, err := bus.ReadFromUDP(question)
		if err != nil { continue }
		go func() {
			tank, _ := strconv.Atoi(string(question[:got]))
			if pause > 0 { time.Sleep(pause) }
			bus.WriteToUDP([]byte(fmt.Sprintf("%.2f", 12.5 + float64(tank) / 4)), from)
		}()
	}
}
"""

SHIFTLOG = """
import socket, sys, threading, time

def rounds(number):
    with socket.create_connection(("127.0.0.1", port)) as cellar:
        while time.monotonic() < end:
            cellar.sendall(b"%d\\n" % number)
            if not cellar.recv(64):
                raise SystemExit("cellar has gone")
            done[number] += 1

port, seconds = int(sys.argv[1]), float(sys.argv[2])
done, begin = [0] * 8, time.monotonic()
end = begin + seconds
threads = [threading.Thread(target=rounds, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("items", sum(done), "seconds", round(time.monotonic() - begin, 3))
"""


def register(place):
    port, bus, ready = place.port(), place.port(), place.folder / "bus-ready"
    place.start(place.go("tankbus", TANKBUS), bus, f"{0.006 * place.scale}s", ready, path=ready)
    place.start(cpp(place, "cellar", CELLAR), port, bus, int(place.fixed), port=port)
    return [PYTHON, str(place.write("shiftlog.py", SHIFTLOG)), str(port), str(place.seconds)]


# A camera and an inspection that share photographs of bottles; a photograph stays in its buffer until
# the rejecting arm has moved.

PHOTOGRAPHS = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16, PIXELS = 32768 };
enum { EMPTY, FILLING, SHOT, INSPECTED };
struct buffers {
    sem_t empty, shot;
    pthread_mutex_t mutex;
    int count, state[MOST];
    unsigned char pixels[MOST][PIXELS];
};

static struct buffers *mapped(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, sizeof(struct buffers))) exit(1);
    return mmap(NULL, sizeof(struct buffers), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static int next(struct buffers *all, sem_t *many, int from, int to) {
    sem_wait(many);
    pthread_mutex_lock(&all->mutex);
    int at = 0;
    while (all->state[at] != from) at++;
    all->state[at] = to;
    pthread_mutex_unlock(&all->mutex);
    return at;
}

static void put(struct buffers *all, sem_t *many, int at, int to) {
    pthread_mutex_lock(&all->mutex);
    all->state[at] = to;
    pthread_mutex_unlock(&all->mutex);
    sem_post(many);
}
"""

CAMERA = PHOTOGRAPHS + r"""
static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    struct buffers *all = mapped(argv[1]);
    double begin = now(), seconds = atof(argv[2]);
    long bottles = 0;
    uint32_t noise = 1;
    (void)argc;
    while (now() < begin + seconds) {
        int at = next(all, &all->empty, EMPTY, FILLING);
        for (int pixel = 0; pixel < PIXELS; pixel++) {
            noise = noise * 1664525 + 1013904223;
            all->pixels[at][pixel] = noise >> 24;
        }
        put(all, &all->shot, at, SHOT);
        bottles++;
    }
    printf("items %ld seconds %.3f\n", bottles, now() - begin);
    return 0;
}
"""

INSPECTION = PHOTOGRAPHS + r"""
static struct buffers *all;
static const char *arm;

static void *inspector(void *nothing) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    strncpy(to.sun_path, arm, sizeof to.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) exit(1);
    for (;;) {
        int at = next(all, &all->shot, SHOT, INSPECTED);
        long dark = 0;
        for (int pixel = 0; pixel < PIXELS; pixel++) dark += all->pixels[at][pixel] < 40;
        char answer = dark > PIXELS / 6 ? 'r' : 'p';
        if (write(fd, &answer, 1) != 1 || read(fd, &answer, 1) != 1) exit(1);
        put(all, &all->empty, at, EMPTY);
    }
    return nothing;
}

int main(int argc, char **argv) {
    char early[4096];
    (void)argc;
    snprintf(early, sizeof early, "%s.early", argv[1]);
    all = mapped(early);
    all->count = atoi(argv[2]);
    arm = argv[3];
    sem_init(&all->empty, 1, all->count);
    sem_init(&all->shot, 1, 0);
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&all->mutex, &shared);
    for (int at = all->count; at < MOST; at++) all->state[at] = INSPECTED;
    pthread_t threads[4];
    for (int at = 0; at < 4; at++) pthread_create(&threads[at], NULL, inspector, NULL);
    if (rename(early, argv[1])) return 1;
    pthread_join(threads[0], NULL);
    return 0;
}
"""

REJECTOR = """
import socketserver, sys, time

class Arm(socketserver.BaseRequestHandler):
    def handle(self):
        while word := self.request.recv(1):
            time.sleep(PAUSE)
            self.request.sendall(word)

class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

PAUSE = float(sys.argv[2])
Server(sys.argv[1], Arm).serve_forever()
"""


def photographs(place):
    shared, arm = Path("/dev/shm") / f"brewery-{uuid.uuid4().hex[:12]}", place.folder / "arm.sock"
    place.stack.callback(shared.unlink, missing_ok=True)
    place.start(PYTHON, place.write("rejector.py", REJECTOR), arm, 0.008 * place.scale, path=arm)
    place.start(place.c("inspection", INSPECTION), shared, 8 if place.fixed else 1, arm, path=shared)
    return [str(place.c("camera", CAMERA)), str(shared), str(place.seconds)]


SYSTEMS = [
    System(
        name="brewery_one_command_each_scan",
        kind="one-command-per-scan",
        truth="plc takes one command from its UDP socket in each scan of its control loop, and sleeps until the next scan, 8 ms later, while the other eleven operators behind opcgate wait",
        load=scans,
        rate=ITEMS,
        component=(r"\bplc\b",),
        mechanism=(*SLEEPS, r"one (\w+ )?at a time", r"periodic", r"cycle"),
        never=(r"^[^;]*comput", r"^[^;]*\block\b", r"mutex", r"disk", r"priorit"),
        change="x0.0833",
        halves=True,
        needs=("gcc", "go", PYTHON),
    ),
    System(
        name="brewery_register_of_tanks",
        kind="mutex-around-remote-call",
        truth="each thread of cellar holds the one mutex of all tanks while it asks tankbus by UDP, which waits 6 ms for a timer, so that one tank is read at a time",
        load=register,
        rate=ITEMS,
        component=(r"cellar", r"tankbus"),
        # That tankbus sleeps is not enough: it could answer all eight threads at once.
        mechanism=(*LOCKS, r"wait for (each other|one of them)", r"serial", r"one after (the other|another)"),
        never=(r"^[^;]*comput", r"disk", r"too few"),
        change="x0.125",
        halves=True,
        needs=("g++", "go", PYTHON),
    ),
    System(
        name="brewery_single_photograph",
        kind="single-buffer",
        truth="camera and inspection share the buffer of one photograph, which a thread of inspection keeps while rejector sleeps 8 ms, so that one bottle is looked at at a time",
        load=photographs,
        rate=ITEMS,
        component=(r"inspection", r"rejector", r"python"),
        mechanism=(*SLEEPS, *LOCKS, r"semaphore", r"serial", r"one after (the other|another)", r"buffer"),
        never=(r"^[^;]*comput", r"disk"),
        change="x0.25",
        halves=True,
        needs=("gcc", PYTHON),
    ),
]

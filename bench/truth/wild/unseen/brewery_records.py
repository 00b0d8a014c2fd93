"""A brewery's records: a historian of trends, counters of bottles, and two controls, in C, C++, Go and
Python over TCP, UDP, shared memory and message queues.
"""
from system import COMPUTES, ITEMS, PYTHON, System


def cpp(place, name, source):
    program = place.built(source, ".cpp", "g++", "-O2", "-std=c++17", "-pthread", "-o", "{program}", "{source}")
    return place.named(program, name)


# A historian that sums up its whole window of samples for each new one.

HISTORIAN = r"""
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

enum { SAMPLES = 16, MOST = 8, LONGEST = 20000 };
struct Batch {
    uint32_t meter, count;
    double litres[SAMPLES];
};

static std::mutex mutex;
static std::condition_variable filled, emptied;
static std::deque<Batch> waiting;

static std::vector<double> window(LONGEST, 0.0);
static size_t place, length;
static double sum, squares, spread;

static void anew(double litres) {
    window[place] = litres;
    place = (place + 1) % length;
    double total = 0, off = 0;
    for (size_t at = 0; at < length; at++) total += window[at];
    double mean = total / length;
    for (size_t at = 0; at < length; at++) off += (window[at] - mean) * (window[at] - mean);
    spread = std::sqrt(off / length);
}

static void running(double litres) {
    double old = window[place];
    window[place] = litres;
    place = (place + 1) % length;
    sum += litres - old;
    squares += litres * litres - old * old;
    spread = std::sqrt(std::fmax(0, squares / length - sum / length * (sum / length)));
}

static void trend(int bus, bool whole) {
    for (;;) {
        std::unique_lock<std::mutex> held(mutex);
        filled.wait(held, [] { return !waiting.empty(); });
        Batch batch = waiting.front();
        waiting.pop_front();
        held.unlock();
        emptied.notify_one();
        for (double litres : batch.litres) whole ? anew(litres) : running(litres);
        if (write(bus, &batch.meter, sizeof batch.meter) < 0) _exit(1);
    }
}

int main(int, char **argv) {
    length = atoi(argv[2]);
    if (length == 0) length = LONGEST;
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    strncpy(to.sun_path, argv[1], sizeof to.sun_path - 1);
    int front = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(front, (sockaddr *)&to, sizeof to) || listen(front, 4)) return 1;
    int bus = accept(front, nullptr, nullptr);
    std::thread(trend, bus, atoi(argv[2]) > 0).detach();
    Batch batch;
    while (recv(bus, &batch, sizeof batch, MSG_WAITALL) == sizeof batch) {
        std::unique_lock<std::mutex> held(mutex);
        emptied.wait(held, [] { return waiting.size() < MOST; });
        waiting.push_back(batch);
        held.unlock();
        filled.notify_one();
    }
    _exit(0);
}
"""

FIELDBUS = """
package main

import ("encoding/binary"; "io"; "net"; "os"; "sync")

const samples = 16

func main() {
	historian, err := net.Dial("unix", os.Args[2])
	if err != nil { panic(err) }
	batches := make(chan []byte, 4)
	var mutex sync.Mutex
	meters := map[uint32]chan struct{}{}
	go func() {
		for batch := range batches {
			if _, err := historian.Write(batch); err != nil { os.Exit(1) }
		}
	}()
	go func() {
		word := make([]byte, 4)
		for {
			if _, err := io.ReadFull(historian, word); err != nil { os.Exit(1) }
			mutex.Lock()
			meter := meters[binary.LittleEndian.Uint32(word)]
			mutex.Unlock()
			meter <- struct{}{}
		}
	}()
	front, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil { panic(err) }
	for number := uint32(0); ; number++ {
		meter, err := front.Accept()
		if err != nil { continue }
		stored := make(chan struct{}, 1)
		mutex.Lock()
		meters[number] = stored
		mutex.Unlock()
		go func(number uint32) {
			defer meter.Close()
			for {
				batch := make([]byte, 8 + 8 * samples)
				binary.LittleEndian.PutUint32(batch, number)
				binary.LittleEndian.PutUint32(batch[4:], samples)
				if _, err := io.ReadFull(meter, batch[8:]); err != nil { return }
				batches <- batch
				<-stored
				if _, err := meter.Write([]byte{1}); err != nil { return }
			}
		}(number)
	}
}
"""

FLOWMETERS = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { METERS = 6, SAMPLES = 16 };
static int port;
static double end;
static long stored[METERS];

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

static void *meter(void *which) {
    long number = (long)which;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) exit(1);
    unsigned seed = number;
    while (now() < end) {
        double litres[SAMPLES];
        char answer;
        for (int at = 0; at < SAMPLES; at++) litres[at] = 40 + rand_r(&seed) % 100 / 100.0;
        if (write(fd, litres, sizeof litres) != sizeof litres || read(fd, &answer, 1) != 1) exit(1);
        stored[number]++;
    }
    close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    double begin = now();
    pthread_t threads[METERS];
    long all = 0;
    (void)argc;
    port = atoi(argv[1]);
    end = begin + atof(argv[2]);
    for (long at = 0; at < METERS; at++) pthread_create(&threads[at], NULL, meter, (void *)at);
    for (int at = 0; at < METERS; at++) pthread_join(threads[at], NULL), all += stored[at];
    printf("items %ld seconds %.3f\n", all, now() - begin);
    return 0;
}
"""


def trends(place):
    port, history = place.port(), place.folder / "history.sock"
    place.start(cpp(place, "historian", HISTORIAN), history, round(20000 * place.fault), path=history)
    place.start(place.go("fieldbus", FIELDBUS), port, history, port=port)
    return [str(place.c("flowmeters", FLOWMETERS)), str(port), str(place.seconds)]


# Two threads that count the bottles of their halves of a shift in counters of the same cache line.

BOTTLECOUNT = r"""
#include <arpa/inet.h>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

enum { THREADS = 2, LANES = 4, PULSES = 150000 };
typedef std::atomic<uint64_t> Counter;

static std::vector<uint8_t> pulses(THREADS * PULSES);
static char *counters;
static size_t stride;
static std::mutex mutex;
static std::condition_variable asked, counted;
static long shift;
static int busy;

static Counter *lanes(int thread) { return (Counter *)(counters + thread * stride); }

static void count(int thread) {
    long last = 0;
    for (;;) {
        {
            std::unique_lock<std::mutex> held(mutex);
            asked.wait(held, [&] { return shift != last; });
            last = shift;
        }
        Counter *mine = lanes(thread);
        const uint8_t *from = pulses.data() + thread * PULSES;
        for (int at = 0; at < PULSES; at++) mine[from[at] % LANES].fetch_add(1, std::memory_order_relaxed);
        std::lock_guard<std::mutex> held(mutex);
        if (--busy == 0) counted.notify_one();
    }
}

static std::string total() {
    std::unique_lock<std::mutex> held(mutex);
    shift++;
    busy = THREADS;
    asked.notify_all();
    counted.wait(held, [] { return busy == 0; });
    uint64_t all = 0;
    for (int thread = 0; thread < THREADS; thread++)
        for (int lane = 0; lane < LANES; lane++) all += lanes(thread)[lane].exchange(0);
    return std::to_string(all) + "\n";
}

int main(int, char **argv) {
    stride = atoi(argv[2]);
    counters = (char *)aligned_alloc(4096, 4096);
    for (int thread = 0; thread < THREADS; thread++)
        for (int lane = 0; lane < LANES; lane++) new (&lanes(thread)[lane]) Counter(0);
    for (auto &pulse : pulses) pulse = rand();
    for (int thread = 0; thread < THREADS; thread++) std::thread(count, thread).detach();
    int front = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(front, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(atoi(argv[1]));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(front, (sockaddr *)&to, sizeof to) || listen(front, 16)) return 1;
    for (;;) {
        int client = accept(front, nullptr, nullptr);
        char line[64];
        while (client >= 0 && read(client, line, sizeof line) > 0) {
            std::string answer = total();
            if (write(client, answer.data(), answer.size()) < 0) break;
        }
        close(client);
    }
}
"""

SHIFTREPORT = """
import socket, sys, time

begin, shifts = time.monotonic(), 0
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as counters:
    while time.monotonic() < begin + float(sys.argv[2]):
        counters.sendall(b"shift %d\\n" % shifts)
        if int(counters.recv(64)) != 300000:
            raise SystemExit("a bottle is missing")
        shifts += 1
print("items", shifts, "seconds", round(time.monotonic() - begin, 3))
"""


def counters(place):
    port = place.port()
    place.start(cpp(place, "bottlecount", BOTTLECOUNT), port, 256 if place.fixed else 32, port=port)
    return [PYTHON, str(place.write("shiftreport.py", SHIFTREPORT)), str(port), str(place.seconds)]


# Control: a loop that looks after six fermenters each 60 ms.

TANKIO = r"""
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int bus = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
    double celsius[6] = {18, 18, 18, 18, 18, 18};
    (void)argc;
    if (bind(bus, (struct sockaddr *)&to, sizeof to)) return 1;
    close(open(argv[2], O_CREAT | O_WRONLY, 0644));
    for (;;) {
        char text[64];
        socklen_t length = sizeof from;
        ssize_t got = recvfrom(bus, text, sizeof text - 1, 0, (struct sockaddr *)&from, &length);
        if (got <= 0) continue;
        text[got] = 0;
        int tank, valve;
        if (sscanf(text, "%d %d", &tank, &valve) != 2) continue;
        celsius[tank % 6] += valve ? -0.05 : 0.03;
        got = snprintf(text, sizeof text, "%.3f", celsius[tank % 6]);
        sendto(bus, text, got, 0, (struct sockaddr *)&from, length);
    }
}
"""

FERMCTL = """
package main

import ("fmt"; "net"; "os"; "strconv"; "time")

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[3], 64)
	tanks, err := net.Dial("udp4", "127.0.0.1:"+os.Args[1])
	if err != nil { panic(err) }
	book, err := net.Dial("unix", os.Args[2])
	if err != nil { panic(err) }
	begin := time.Now()
	cycle := time.NewTicker(60 * time.Millisecond)
	var valves [6]int
	cycles := 0
	answer := make([]byte, 64)
	for time.Since(begin).Seconds() < seconds {
		<-cycle.C
		for tank := range valves {
			fmt.Fprintf(tanks, "%d %d", tank, valves[tank])
			got, err := tanks.Read(answer)
			if err != nil { panic(err) }
			celsius, _ := strconv.ParseFloat(string(answer[:got]), 64)
			valves[tank] = 0
			if celsius > 18.5 { valves[tank] = 1 }
			fmt.Fprintf(book, "%d %.3f %d\\n", tank, celsius, valves[tank])
		}
		cycles++
	}
	fmt.Printf("items %d seconds %.3f\\n", cycles, time.Since(begin).Seconds())
}
"""

BATCHBOOK = """
import socket, sys

front = socket.socket(socket.AF_UNIX)
front.bind(sys.argv[1])
front.listen(4)
while True:
    controller, _ = front.accept()
    with controller.makefile() as lines, open("batchbook.txt", "a", buffering=1) as book:
        for line in lines:
            book.write(line)
    controller.close()
"""


def fermenters(place):
    bus, ready, book = place.port(), place.folder / "tankio-ready", place.folder / "book.sock"
    place.start(place.c("tankio", TANKIO), bus, ready, path=ready)
    place.start(PYTHON, place.write("batchbook.py", BATCHBOOK), book, path=book)
    return [str(place.go("fermctl", FERMCTL)), str(bus), str(book), str(place.seconds)]


# Control: two processes that compute what a third always has in its message queue for them.

WORTSIM = r"""
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <mqueue.h>

struct Plan {
    int number, minutes;
    double grist, celsius, extract;
};

/* Sugar from starch while the enzymes last, in small steps. */
static double mashed(const Plan &plan) {
    double starch = plan.grist, sugar = 0, enzyme = 1, step = 0.025;
    for (int at = 0; at < plan.minutes * 1200; at++) {
        double rate = std::exp(-2600 / (plan.celsius + 273.15)) * enzyme * starch;
        starch -= rate * step;
        sugar += rate * step;
        enzyme -= enzyme * std::exp((plan.celsius - 75) / 8) * step * 0.01;
    }
    return sugar;
}

int main(int, char **argv) {
    mqd_t plans = atoi(argv[1]), extracts = atoi(argv[2]);
    Plan plan;
    while (mq_receive(plans, (char *)&plan, sizeof plan, nullptr) == sizeof plan) {
        plan.extract = mashed(plan);
        if (mq_send(extracts, (const char *)&plan, sizeof plan, 0)) return 1;
    }
}
"""

BREWPLAN = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 2, MOST = 8 };
struct plan { int number, minutes; double grist, celsius, extract; };

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

static mqd_t queue(const char *which) {
    char name[64];
    struct mq_attr form = {.mq_maxmsg = MOST, .mq_msgsize = sizeof(struct plan)};
    snprintf(name, sizeof name, "/brewplan-%d-%s", getpid(), which);
    mqd_t made = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &form);
    if (made < 0) perror("mq_open"), exit(1);
    mq_unlink(name);
    fcntl(made, F_SETFD, 0);
    return made;
}

int main(int argc, char **argv) {
    mqd_t plans = queue("plans"), extracts = queue("extracts");
    char words[2][16];
    pid_t children[PROCESSES];
    (void)argc;
    snprintf(words[0], 16, "%d", plans);
    snprintf(words[1], 16, "%d", extracts);
    for (int at = 0; at < PROCESSES; at++)
        if ((children[at] = fork()) == 0) execl(argv[1], "wortsim", words[0], words[1], NULL), _exit(1);
    double begin = now(), seconds = atof(argv[2]), best = 0;
    int number = 0, done = 0;
    struct plan plan;
    while (number < MOST || now() < begin + seconds) {
        if (number >= MOST) {
            if (mq_receive(extracts, (char *)&plan, sizeof plan, NULL) != sizeof plan) return 1;
            if (plan.extract > best) best = plan.extract;
            done++;
        }
        plan = (struct plan){.number = number, .minutes = 90, .grist = 200 + number % 40, .celsius = 62 + number % 12};
        if (mq_send(plans, (const char *)&plan, sizeof plan, 0)) return 1;
        number++;
    }
    printf("items %d seconds %.3f best %.2f\n", done, now() - begin, best);
    for (int at = 0; at < PROCESSES; at++) kill(children[at], SIGTERM), waitpid(children[at], NULL, 0);
    return 0;
}
"""


def plans(place):
    return [str(place.c("brewplan", BREWPLAN, "-lrt")), str(cpp(place, "wortsim", WORTSIM)), str(place.seconds)]


SYSTEMS = [
    System(
        name="brewery_trends_of_an_hour",
        kind="slow-consumer",
        truth="the thread of historian that takes the batches from its bounded queue computes the sums of its whole window of 20000 samples anew for each sample, while fieldbus and flowmeters wait",
        load=trends,
        rate=ITEMS,
        component=(r"historian",),
        mechanism=COMPUTES,
        never=(r"^[^;]*(sleep|timer|\block\b|mutex)", r"disk", r"network"),
        change="x0",
        halves=True,
        needs=("gcc", "g++", "go"),
    ),
    System(
        name="brewery_neighbouring_counters",
        kind="false-sharing",
        truth="the two threads of bottlecount compute many times as long as they need, because their counters are in the same cache line, for which their CPUs fight",
        load=counters,
        rate=ITEMS,
        component=(r"bottlecount",),
        mechanism=(*COMPUTES, r"\bcache\b", r"memory", r"stall"),
        # Their mutex is held for microseconds in a request of milliseconds.
        never=(r"^[^;]*(sleep|timer|\block\b|mutex)", r"disk", r"network"),
        needs=("g++", PYTHON),
    ),
    System(
        name="control_brewery_fermenters",
        kind="control",
        truth="fermctl looks after six fermenters each 60 ms by intention; tankio answers at once, batchbook writes it down, and all are idle most of the time",
        load=fermenters,
        rate=ITEMS,
        acceptable=(r"fermctl.*(sleep|timer|until a time|intention|pace)", r"\bidle\b", r"nothing is short"),
        needs=("gcc", "go", PYTHON),
    ),
    System(
        name="control_brewery_mash_plans",
        kind="control",
        truth="two processes of wortsim compute on two CPUs, which are full, and brewplan always has the next plan for them in a message queue",
        load=plans,
        rate=ITEMS,
        acceptable=(r"^(?!.*(\block|mutex|sleep)).*(comput|runs its own code|CPUs? (is|are) (full|busy))",),
        needs=("gcc", "g++"),
    ),
]

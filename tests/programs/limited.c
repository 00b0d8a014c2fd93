/*
 * Systems with one known bottleneck. The argument selects one:
 *
 * "writes"   a client sends each request in two small writes and waits for the reply; the second
 *            write waits for a delayed acknowledgement;
 * "whole"    the same with one write;
 * "lock"     four processes sleep while they hold a lock of a file;
 * "greedy"   the same, but each takes the lock ten times before another one gets it;
 * "polls"    two processes set flags in shared memory, and sleep until they find them;
 * "polled"   a thread computes for some ms whenever the main thread asks, and the main thread
 *            sleeps and looks again until it has finished;
 * "window"   a transfer to a socket whose receive buffer is set to 2 KiB;
 * "items"    a thread gets one small number after the other through a pipe, and sends each back;
 * "chunks"   as "items" with 256 numbers at a time, and with more work for each;
 * "greets"   a server works long for the first message of a connection, and a client makes one
 *            connection for each request;
 * "stays"    the same with one connection, and the server works long for each request;
 * "inverts"  an important thread waits for a mutex whose unimportant holder a third thread keeps
 *            off their CPU (exit status 77: it is not permitted, or there is one CPU only);
 * "inherits" the same with a mutex that passes on priority;
 * "memory"   two files are read in a control group that has less memory than they need;
 * "link"     a transfer over a network device of its own that carries 100 Mbit/s;
 * "minded"   two threads more than there are CPUs compute. One of them always waits for a
 *            semaphore, which another thread posts after a sleep of 3 ms, when it selects the next
 *            one to wait;
 * "timed"    a client sends requests to a server that sleeps for 3 ms per request, until the main
 *            thread has slept for a second;
 * "blocks"   the event loop of a server passes requests on to another server, which sleeps for 3 ms
 *            per request, and waits for each reply itself;
 * "relays"   the same with a loop that waits for the replies and for further requests together;
 * "turns"    a server with four clients shares one connection, to a server that relays the requests
 *            to one that sleeps for 3 ms per request.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REQUESTS = 40, TURNS = 60, ITEMS = 200, TRANSFER = 24 << 20 };

static void check(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(1);
    }
}

/* Returns a socket that listens on the loopback interface, and stores its address in `at`. */
static int listener(int room, struct sockaddr_in *at)
{
    socklen_t length = sizeof *at;
    int of = socket(AF_INET, SOCK_STREAM, 0);
    memset(at, 0, sizeof *at);
    at->sin_family = AF_INET;
    at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (room)
        check(setsockopt(of, SOL_SOCKET, SO_RCVBUF, &room, sizeof room) == 0, "SO_RCVBUF");
    check(bind(of, (struct sockaddr *)at, sizeof *at) == 0 && listen(of, 8) == 0, "listen");
    check(getsockname(of, (struct sockaddr *)at, &length) == 0, "getsockname");
    return of;
}

static int connected(const struct sockaddr_in *at)
{
    int of = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(of, (const struct sockaddr *)at, sizeof *at) == 0, "connect");
    return of;
}

static void read_all(int from, char *to, size_t length)
{
    for (size_t got = 0; got < length;) {
        ssize_t more = read(from, to + got, length - got);
        if (more <= 0)
            _exit(more < 0);
        got += more;
    }
}

/* Answers requests of eight bytes, each after a pause. */
static void answer(int listening, useconds_t pause)
{
    char request[8];
    int of = accept(listening, NULL, NULL);
    check(of >= 0, "accept");
    for (;;) {
        read_all(of, request, sizeof request);
        if (pause)
            usleep(pause);
        check(write(of, request, 1) == 1, "write");
    }
}

static pid_t started(void)
{
    pid_t child = fork();
    check(child >= 0, "fork");
    return child;
}

static void ask(int of, int at_once)
{
    char reply;
    check(write(of, "request.", at_once ? 8 : 4) > 0, "write");
    if (!at_once)
        check(write(of, "end.", 4) == 4, "write");
    read_all(of, &reply, 1);
}

static void requests(int at_once)
{
    struct sockaddr_in at;
    int listening = listener(0, &at);
    if (started() == 0)
        answer(listening, 0);
    int of = connected(&at);
    for (int i = 0; i < REQUESTS * (at_once ? 50 : 1); i++)
        ask(of, at_once);
    close(of);
    wait(NULL);
}

static void lock(int turns, useconds_t held, int kept)
{
    char name[] = "/tmp/limited-XXXXXX";
    int made = mkstemp(name);
    check(made >= 0, "mkstemp");
    for (int i = 0; i < 4; i++) {
        if (started() == 0) {
            int of = open(name, 0);
            for (int turn = 1; turn <= turns; turn++) {
                flock(of, LOCK_EX);
                usleep(held);
                flock(of, LOCK_UN);
                /* Locks of files are not fair. During this pause another process takes the lock. */
                if (turn % kept == 0)
                    usleep(200);
            }
            _exit(0);
        }
    }
    while (wait(NULL) > 0)
        ;
    unlink(name);
}

static void polls(void)
{
    volatile int *box = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int mine = started() == 0;
    for (int i = 0; i < ITEMS; i++) {
        if (!mine)
            box[0] = 1;
        while (!box[mine ? 0 : 1])
            usleep(1000);
        box[mine ? 0 : 1] = 0;
        if (mine)
            box[1] = 1;
    }
    if (mine)
        _exit(0);
    wait(NULL);
}

static sem_t asked;
static volatile int results;

static void *compute(void *unused)
{
    (void)unused;
    for (;;) {
        unsigned sum = 1;
        sem_wait(&asked);
        for (int i = 0; i < 6000000; i++)
            sum = sum * 31 + (sum >> 7);
        results += 1 + (sum == 0);
    }
    return NULL;
}

static void polled(void)
{
    pthread_t thread;
    check(sem_init(&asked, 0, 0) == 0 && pthread_create(&thread, NULL, compute, NULL) == 0, "thread");
    pthread_setname_np(thread, "compute");
    for (int i = 1; i <= 3 * TURNS; i++) {
        sem_post(&asked);
        while (results < i)
            usleep(1000);
    }
}

static void window(void)
{
    static char bytes[1 << 16];
    struct sockaddr_in at;
    int listening = listener(2048, &at);
    if (started() == 0) {
        int of = accept(listening, NULL, NULL);
        while (read(of, bytes, sizeof bytes) > 0)
            ;
        _exit(0);
    }
    int of = connected(&at);
    for (int sent = 0; sent < TRANSFER;) {
        ssize_t more = write(of, bytes, sizeof bytes);
        check(more > 0, "write");
        sent += more;
    }
    close(of);
    wait(NULL);
}

static volatile unsigned long sum;

static void work(unsigned long rounds)
{
    for (unsigned long i = 0; i < rounds; i++)
        sum += i;
}

struct numbers {
    int to[2], from[2];
    size_t at_once;
    unsigned long rounds;
};

static void *squares(void *of)
{
    static long numbers[512];
    struct numbers *all = of;
    size_t length = all->at_once * sizeof *numbers;
    for (;;) {
        read_all(all->to[0], (char *)numbers, length);
        if (numbers[0] < 0)
            return NULL;
        for (size_t i = 0; i < all->at_once; i++) {
            numbers[i] *= numbers[i];
            work(all->rounds);
        }
        check(write(all->from[1], numbers, length) == (ssize_t)length, "write");
    }
}

/* Keeps a thread on the CPU with this number among those that the program may use, if it exists. */
static void stays_on(pthread_t thread, int number)
{
    cpu_set_t allowed, only;
    CPU_ZERO(&only);
    check(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "sched_getaffinity");
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && number-- == 0)
            CPU_SET(cpu, &only);
    if (CPU_COUNT(&only) == 1)
        check(pthread_setaffinity_np(thread, sizeof only, &only) == 0, "pthread_setaffinity_np");
}

static void items(size_t at_once, unsigned long rounds, int turns)
{
    static long numbers[512];
    struct numbers all = { .at_once = at_once, .rounds = rounds };
    size_t length = at_once * sizeof *numbers;
    pthread_t worker;
    check(pipe(all.to) == 0 && pipe(all.from) == 0, "pipe");
    check(pthread_create(&worker, NULL, squares, &all) == 0, "pthread_create");
    /* Two CPUs, so that a thread is woken for each item on a CPU that is idle. On one CPU, the two
     * system calls of an item take about as long as the switches. */
    stays_on(worker, 1);
    stays_on(pthread_self(), 0);
    for (int turn = 0; turn <= turns; turn++) {
        for (size_t i = 0; i < at_once; i++)
            numbers[i] = turn < turns ? (long)i : -1;
        check(write(all.to[1], numbers, length) == (ssize_t)length, "write");
        if (turn < turns)
            read_all(all.from[0], (char *)numbers, length);
    }
    pthread_join(worker, NULL);
}

static void link_of_its_own(void)
{
    static char bytes[1 << 16];
    struct sockaddr_in at;
    check(unshare(CLONE_NEWNET) == 0, "unshare");
    check(system("ip link set lo name limited0 && ip link set limited0 up && "
                 "tc qdisc add dev limited0 root tbf rate 100mbit burst 128k limit 8mb") == 0, "tc");
    int listening = listener(0, &at);
    if (started() == 0) {
        int of = accept(listening, NULL, NULL);
        for (int sent = 0; sent < 8 << 20; sent += sizeof bytes)
            check(write(of, bytes, sizeof bytes) == sizeof bytes, "write");
        _exit(0);
    }
    int of = connected(&at);
    while (read(of, bytes, sizeof bytes) > 0)
        ;
    wait(NULL);
}

/* On each connection, answers a greeting and then the requests after it. */
static void greet(int listening, unsigned long for_greeting, unsigned long for_request)
{
    char bytes[8];
    for (;;) {
        int of = accept(listening, NULL, NULL);
        check(of >= 0, "accept");
        for (int first = 1; read(of, bytes, sizeof bytes) > 0; first = 0) {
            work(first ? for_greeting : for_request);
            check(write(of, bytes, sizeof bytes) == sizeof bytes, "write");
        }
        close(of);
    }
}

static void connections(int stays)
{
    struct sockaddr_in at;
    char bytes[8] = "request";
    int listening = listener(0, &at);
    pid_t server = started();
    if (server == 0)
        greet(listening, 2000000, stays ? 2000000 : 1000);
    int of = -1;
    for (int i = 0; i < 400; i++) {
        int greets = of < 0;
        if (greets)
            of = connected(&at);
        for (int turn = greets ? 0 : 1; turn < 2; turn++) {
            check(write(of, bytes, sizeof bytes) == sizeof bytes, "write");
            read_all(of, bytes, sizeof bytes);
        }
        if (!stays) {
            close(of);
            of = -1;
        }
    }
    kill(server, SIGTERM);
    wait(NULL);
}

static void set(const char *group, const char *name, long value)
{
    char path[256], text[32];
    snprintf(path, sizeof path, "%s/%s", group, name);
    int of = open(path, O_WRONLY), length = snprintf(text, sizeof text, "%ld", value);
    check(of >= 0 && write(of, text, length) == length, path);
    close(of);
}

/* Returns an unlinked file of `size` bytes that consists of a hole. */
static int holes(off_t size)
{
    char name[] = "/tmp/limited-XXXXXX";
    int of = mkstemp(name);
    check(of >= 0 && unlink(name) == 0 && ftruncate(of, size) == 0, name);
    return of;
}

/*
 * Reads each page of one file after each part of the other, so that the pages of the first file are
 * always in use.
 */
static void memory(void)
{
    enum { KEPT = 6 << 20, ONCE = 160 << 20, PAGE = 4096 };
    static char bytes[1 << 16];
    char group[64];
    snprintf(group, sizeof group, "/sys/fs/cgroup/memory/limited-%d", getpid());
    check(mkdir(group, 0755) == 0, group);
    if (started() == 0) {
        int of = holes(ONCE);
        volatile const char *kept = mmap(NULL, KEPT, PROT_READ, MAP_SHARED, holes(KEPT), 0);
        check(kept != MAP_FAILED, "mmap");
        set(group, "memory.limit_in_bytes", 8 << 20);
        set(group, "cgroup.procs", 0);
        while (read(of, bytes, sizeof bytes) > 0)
            for (int at = 0; at < KEPT; at += PAGE)
                (void)kept[at];
        _exit(0);
    }
    wait(NULL);
    rmdir(group);
}

static pthread_mutex_t shared;
static volatile int is_taken;

/* Starts a thread on the first CPU that has this priority from its begin. */
static pthread_t begins(void *(*does)(void *), const char *name, int priority)
{
    cpu_set_t first;
    pthread_attr_t how;
    pthread_t thread;
    struct sched_param own = { .sched_priority = priority };
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    pthread_attr_init(&how);
    pthread_attr_setinheritsched(&how, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&how, SCHED_FIFO);
    pthread_attr_setschedparam(&how, &own);
    pthread_attr_setaffinity_np(&how, sizeof first, &first);
    if (pthread_create(&thread, &how, does, (void *)name) != 0)
        exit(77);
    return thread;
}

static void *holds(void *name)
{
    pthread_setname_np(pthread_self(), name);
    pthread_mutex_lock(&shared);
    is_taken = 1;
    work(20000000);
    pthread_mutex_unlock(&shared);
    return NULL;
}

static void *needs(void *name)
{
    pthread_setname_np(pthread_self(), name);
    pthread_mutex_lock(&shared);
    pthread_mutex_unlock(&shared);
    return NULL;
}

static void *keeps_off(void *name)
{
    pthread_setname_np(pthread_self(), name);
    work(100000000);
    return NULL;
}

static void inversion(int protocol)
{
    pthread_mutexattr_t how;
    cpu_set_t others;
    check(sched_getaffinity(0, sizeof others, &others) == 0, "sched_getaffinity");
    CPU_CLR(0, &others);
    if (CPU_COUNT(&others) == 0)
        exit(77);
    check(sched_setaffinity(0, sizeof others, &others) == 0, "sched_setaffinity");
    pthread_mutexattr_init(&how);
    check(pthread_mutexattr_setprotocol(&how, protocol) == 0, "pthread_mutexattr_setprotocol");
    pthread_mutex_init(&shared, &how);
    for (int turn = 0; turn < 4; turn++) {
        is_taken = 0;
        pthread_t holder = begins(holds, "holder", 10);
        while (!is_taken)
            usleep(100);
        pthread_t important = begins(needs, "important", 30);
        pthread_t between = begins(keeps_off, "between", 20);
        pthread_join(important, NULL);
        pthread_join(holder, NULL);
        pthread_join(between, NULL);
    }
}

enum { MINDED = 64 };
static sem_t may_go[MINDED];
static volatile int is_parked[MINDED];
static volatile long turns_left = 90000;

static void *computes(void *at)
{
    long own = (long)at;
    while (__sync_fetch_and_sub(&turns_left, 1) > 0) {
        if (is_parked[own])
            sem_wait(&may_go[own]);
        work(20000);
    }
    return NULL;
}

/* Makes one thread after the other wait. */
static void *minds(void *count)
{
    long threads = (long)count;
    for (long parked = 0; turns_left > 0; parked = (parked + 1) % threads) {
        is_parked[parked] = 1;
        usleep(3000);
        is_parked[parked] = 0;
        sem_post(&may_go[parked]);
    }
    return NULL;
}

static void minded(void)
{
    long threads = sysconf(_SC_NPROCESSORS_ONLN) + 2;
    pthread_t minder, computing[MINDED];
    check(threads <= MINDED, "CPUs");
    for (long at = 0; at < threads; at++) {
        check(sem_init(&may_go[at], 0, 0) == 0, "sem_init");
        check(pthread_create(&computing[at], NULL, computes, (void *)at) == 0, "pthread_create");
    }
    check(pthread_create(&minder, NULL, minds, (void *)threads) == 0, "pthread_create");
    for (long at = 0; at < threads; at++)
        pthread_join(computing[at], NULL);
    pthread_join(minder, NULL);
}

static void *asks(void *at)
{
    int of = connected(at);
    for (;;)
        ask(of, 1);
    return NULL;
}

static void timed(void)
{
    struct sockaddr_in at;
    int listening = listener(0, &at);
    pid_t server = started();
    pthread_t client;
    if (server == 0)
        answer(listening, 3000);
    check(pthread_create(&client, NULL, asks, &at) == 0, "pthread_create");
    usleep(1000000);
}

static void watch(int loop, int of)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = of};
    check(epoll_ctl(loop, EPOLL_CTL_ADD, of, &event) == 0, "epoll_ctl");
}

/* The event loop of a server with one client. Passes its requests on, and the replies back. */
static void forward(int listening, const struct sockaddr_in *at, int blocks)
{
    int loop = epoll_create1(0), behind = connected(at), client = accept(listening, NULL, NULL);
    check(loop >= 0 && client >= 0, "accept");
    watch(loop, client);
    if (!blocks)
        watch(loop, behind);
    for (;;) {
        struct epoll_event event;
        char request[8], reply;
        check(epoll_wait(loop, &event, 1, -1) == 1, "epoll_wait");
        if (event.data.fd == client) {
            read_all(client, request, sizeof request);
            check(write(behind, request, sizeof request) == sizeof request, "write");
        }
        if (blocks || event.data.fd == behind) {
            read_all(behind, &reply, 1);
            check(write(client, &reply, 1) == 1, "write");
        }
    }
}

static void forwards_and_waits(int listening, const struct sockaddr_in *at)
{
    forward(listening, at, 1);
}

static void forwards(int listening, const struct sockaddr_in *at)
{
    forward(listening, at, 0);
}

static void answers(int listening, const struct sockaddr_in *at)
{
    (void)at;
    answer(listening, 3000);
}

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int behind_all;

static void *takes_turns(void *client)
{
    char request[8], reply;
    for (;;) {
        read_all((int)(long)client, request, sizeof request);
        pthread_mutex_lock(&turn);
        check(write(behind_all, request, sizeof request) == sizeof request, "write");
        read_all(behind_all, &reply, 1);
        pthread_mutex_unlock(&turn);
        check(write((int)(long)client, &reply, 1) == 1, "write");
    }
    return NULL;
}

/* Has a thread for each client. They share one connection to the next server. */
static void forwards_in_turn(int listening, const struct sockaddr_in *at)
{
    behind_all = connected(at);
    for (;;) {
        pthread_t thread;
        long client = accept(listening, NULL, NULL);
        check(client >= 0, "accept");
        check(pthread_create(&thread, NULL, takes_turns, (void *)client) == 0, "pthread_create");
    }
}

/* Starts a server in front of `behind`. Stores its address in `at`. */
static pid_t server(struct sockaddr_in *at, void (*serves)(int, const struct sockaddr_in *), const struct sockaddr_in *behind)
{
    int ends[2];
    check(pipe(ends) == 0, "pipe");
    pid_t child = started();
    if (child == 0) {
        int listening = listener(0, at);
        check(write(ends[1], at, sizeof *at) == sizeof *at, "write");
        serves(listening, behind);
    }
    read_all(ends[0], (char *)at, sizeof *at);
    close(ends[0]);
    close(ends[1]);
    return child;
}

static int requests_of_each;

static void *asks_often(void *at)
{
    int of = connected(at);
    for (int i = 0; i < requests_of_each; i++)
        ask(of, 1);
    return NULL;
}

/* Asks a chain of servers, of which the last one sleeps for 3 ms per request. */
static void chain(void (*first)(int, const struct sockaddr_in *), void (*second)(int, const struct sockaddr_in *), int clients)
{
    struct sockaddr_in at[3];
    pid_t servers[3];
    pthread_t threads[4];
    int count = 0;
    servers[count] = server(&at[count], answers, NULL);
    count++;
    if (second) {
        servers[count] = server(&at[count], second, &at[count - 1]);
        count++;
    }
    servers[count] = server(&at[count], first, &at[count - 1]);
    requests_of_each = 300 / clients;
    for (int i = 0; i < clients; i++)
        check(pthread_create(&threads[i], NULL, asks_often, &at[count]) == 0, "pthread_create");
    for (int i = 0; i < clients; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i <= count; i++) {
        kill(servers[i], SIGTERM);
        wait(NULL);
    }
}

int main(int count, char **arguments)
{
    const char *means = count > 1 ? arguments[1] : "";
    if (strcmp(means, "writes") == 0 || strcmp(means, "whole") == 0)
        requests(means[1] == 'h');
    else if (strcmp(means, "lock") == 0)
        lock(TURNS, 2000, 1);
    else if (strcmp(means, "greedy") == 0)
        lock(2 * TURNS, 1000, 10);
    else if (strcmp(means, "polls") == 0)
        polls();
    else if (strcmp(means, "polled") == 0)
        polled();
    else if (strcmp(means, "window") == 0)
        window();
    else if (strcmp(means, "greets") == 0 || strcmp(means, "stays") == 0)
        connections(means[0] == 's');
    else if (strcmp(means, "inverts") == 0 || strcmp(means, "inherits") == 0)
        inversion(means[2] == 'v' ? PTHREAD_PRIO_NONE : PTHREAD_PRIO_INHERIT);
    else if (strcmp(means, "memory") == 0)
        memory();
    else if (strcmp(means, "link") == 0)
        link_of_its_own();
    else if (strcmp(means, "items") == 0)
        items(1, 10, 20000);
    else if (strcmp(means, "chunks") == 0)
        items(256, 10000, 200);
    else if (strcmp(means, "minded") == 0)
        minded();
    else if (strcmp(means, "timed") == 0)
        timed();
    else if (strcmp(means, "blocks") == 0)
        chain(forwards_and_waits, NULL, 1);
    else if (strcmp(means, "relays") == 0)
        chain(forwards, NULL, 1);
    else if (strcmp(means, "turns") == 0)
        chain(forwards_in_turn, forwards, 4);
    else
        return 2;
    return 0;
}

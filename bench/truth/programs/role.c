/*
 * One part of a small system. The command line describes it: channels to other parts, and the steps
 * of its loop. The truth suite builds its real scenarios from such parts, so that a scenario
 * completely defines what each part does.
 *
 *   role NAME [NAME=CHANNEL[,size=N][,sndbuf=N][,rcvbuf=N]]… [seconds=S|items=N]
 *        [first_of_all] [first STEP…] loop STEP…
 *
 * Channels: fifo:PATH, listen:PORT and connect:ADDRESS:PORT (TCP), bind:PORT and to:ADDRESS:PORT
 *           (UDP; they greet each other first).
 * Steps:    take:CHANNEL, give:CHANNEL, do:SPAN:WORK[:SLEEP_US], store:PATH, append:PATH, pace:US,
 *           hop:N:MS, and the points of a call, call:RPC, returned:RPC, dispatch:RPC, reply:RPC.
 *           hop:N:MS moves to another CPU every MS ms. Two parts with N 0 and 1 each have every CPU
 *           for half of the time, so differences between CPUs do not matter.
 *           take:c*32 runs the step 32 times. A SPAN of `-` is work without a probe. A unit of WORK
 *           is a fixed number of multiplications, about 1 us.
 *
 * At its end it prints the items (rounds of the loop) and the time since the end of the first one:
 * "items 1234 seconds 1.002".
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CHANNELS = 8, STEPS = 24, LARGEST = 1 << 17 };

enum kind { TAKE, GIVE, DO, STORE, APPEND, PACE, HOP, CALL, RETURNED, DISPATCH, REPLY };

struct channel {
    char name[16];
    int fd;
    size_t size;
    int datagrams, bound;
    struct sockaddr_in peer;
};

struct step {
    enum kind kind;
    long times, work, sleep_us, number;
    int fd;
    struct channel *channel;
    int has_name;
    struct longpole_name name;
};

static struct channel channels[CHANNELS];
static int channel_count;
static unsigned char item[LARGEST];
static uint64_t id;
static struct timespec due;

static void fail(const char *what, const char *which)
{
    fprintf(stderr, "role: %s %s: %s\n", what, which, errno ? strerror(errno) : "wrong");
    exit(1);
}

static long long now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000ll + now.tv_nsec / 1000;
}

static void work(long units)
{
    static volatile uint64_t result;
    uint64_t value = result | 1;
    for (long at = 0; at < units * 700; at++)
        value = value * 6364136223846793005u + 1442695040888963407u;
    result = value;
}

static void sleep_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&time, &time) != 0 && errno == EINTR)
        ;
}

static int server(int type, long port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = INADDR_ANY};
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("cannot bind", "a port");
    return fd;
}

/* Gives this part priority over everything else on its CPU, so that other programs on the host do
 * not change the answer. A kernel with lazy preemption would let any other program finish its tick
 * first. */
static void first_of_all(void)
{
    struct sched_param priority = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_RR, &priority) != 0)
        fail("cannot have", "a real-time priority");
}

static void buffers(int fd, int type, const char *options)
{
    const char *send = strstr(options, "sndbuf="), *receive = strstr(options, "rcvbuf=");
    int size, one = 1;
    if (send && (size = atoi(send + 7)))
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    if (receive && (size = atoi(receive + 7)))
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    if (type == SOCK_STREAM) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        /* Other congestion controls send by a timer of their own. */
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    }
}

static void open_channel(const char *text)
{
    if (channel_count == CHANNELS)
        fail("too many channels", text);
    struct channel *channel = &channels[channel_count++];
    const char *equals = strchr(text, '='), *options = strchr(text, ',');
    const char *place = strchr(equals, ':');
    if (!place || equals - text >= (long)sizeof channel->name)
        fail("no channel:", text);
    memcpy(channel->name, text, (size_t)(equals - text));
    char where[256] = "";
    snprintf(where, sizeof where, "%.*s", (int)(options ? options - place - 1 : (long)strlen(place + 1)), place + 1);
    options = options ? options : "";
    const char *size = strstr(options, ",size=");
    channel->size = size ? (size_t)atol(size + 6) : 64;
    if (channel->size < 8 || channel->size > LARGEST)
        fail("size of", text);
    if (strncmp(equals, "=fifo:", 6) == 0) {
        /* Opened for reading and writing, so that no part waits for the other side or sees an end
         * of file. */
        if ((channel->fd = open(where, O_RDWR | O_CLOEXEC)) < 0)
            fail("cannot open", where);
        const char *room = strstr(options, ",room=");
        if (room)
            fcntl(channel->fd, F_SETPIPE_SZ, atoi(room + 6));
        return;
    }
    int type = strncmp(equals, "=listen:", 8) == 0 || strncmp(equals, "=connect:", 9) == 0 ? SOCK_STREAM : SOCK_DGRAM;
    channel->datagrams = type == SOCK_DGRAM;
    if (strncmp(equals, "=listen:", 8) == 0 || strncmp(equals, "=bind:", 6) == 0) {
        int fd = server(type, atol(where));
        buffers(fd, type, options);
        channel->bound = type == SOCK_DGRAM;
        if (type == SOCK_STREAM) {
            listen(fd, 1);
            channel->fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
            close(fd);
            buffers(channel->fd, type, "");
        } else {
            channel->fd = fd;
            socklen_t length = sizeof channel->peer;
            recvfrom(fd, item, sizeof item, 0, (struct sockaddr *)&channel->peer, &length);
            sendto(fd, "hello", 5, 0, (struct sockaddr *)&channel->peer, length);
        }
        return;
    }
    char *port = strchr(where, ':');
    if (!port)
        fail("no port:", text);
    *port = 0;
    channel->peer = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port + 1))};
    inet_pton(AF_INET, where, &channel->peer.sin_addr);
    if (type == SOCK_DGRAM) {
        channel->fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
        buffers(channel->fd, type, options);
        if (connect(channel->fd, (struct sockaddr *)&channel->peer, sizeof channel->peer) != 0)
            fail("cannot connect to", where);
        /* The other side may not exist yet, so the greeting is repeated until it answers. */
        while (send(channel->fd, "hello", 5, 0) < 0 || recv(channel->fd, item, sizeof item, MSG_DONTWAIT) < 0)
            sleep_us(10000);
        return;
    }
    for (int attempt = 0; attempt < 1000; attempt++) {
        channel->fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
        buffers(channel->fd, type, options);
        if (connect(channel->fd, (struct sockaddr *)&channel->peer, sizeof channel->peer) == 0)
            return;
        close(channel->fd);
        sleep_us(10000);
    }
    fail("cannot connect to", where);
}

static struct channel *channel_of(const char *name)
{
    for (int at = 0; at < channel_count; at++)
        if (strcmp(channels[at].name, name) == 0)
            return &channels[at];
    errno = 0;
    fail("no such channel:", name);
    return NULL;
}

static void take(struct channel *channel)
{
    if (channel->datagrams) {
        ssize_t got;
        do
            got = recv(channel->fd, item, sizeof item, 0);
        while (got == 5 || (got < 0 && errno == ECONNREFUSED));
        if (got < 0)
            fail("cannot take from", channel->name);
    } else {
        for (size_t done = 0; done < channel->size;) {
            ssize_t got = read(channel->fd, item + done, channel->size - done);
            if (got == 0)
                exit(0);
            if (got < 0)
                fail("cannot take from", channel->name);
            done += (size_t)got;
        }
    }
    memcpy(&id, item, sizeof id);
}

static void give(struct channel *channel)
{
    memcpy(item, &id, sizeof id);
    if (channel->datagrams) {
        struct sockaddr *to = channel->bound ? (struct sockaddr *)&channel->peer : NULL;
        if (sendto(channel->fd, item, channel->size, 0, to, to ? sizeof channel->peer : 0) < 0 && errno != ECONNREFUSED && errno != ENOBUFS)
            fail("cannot give to", channel->name);
        return;
    }
    for (size_t done = 0; done < channel->size;) {
        ssize_t put = write(channel->fd, item + done, channel->size - done);
        if (put < 0)
            fail("cannot give to", channel->name);
        done += (size_t)put;
    }
}

static void pace(long us)
{
    if (due.tv_sec == 0)
        clock_gettime(CLOCK_MONOTONIC, &due);
    due.tv_nsec += us * 1000;
    due.tv_sec += due.tv_nsec / 1000000000;
    due.tv_nsec %= 1000000000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

/* Moves to a CPU that the clock determines, so that two hopping parts swap CPUs. */
static void hop(long number, long ms)
{
    static cpu_set_t all;
    static int here = -1;
    if (CPU_COUNT(&all) == 0)
        sched_getaffinity(0, sizeof all, &all);
    long turn = (long)(now_us() / (1000 * ms) + number) % CPU_COUNT(&all);
    int cpu = -1;
    do
        cpu++;
    while (!CPU_ISSET(cpu, &all) || turn-- > 0);
    if (cpu == here)
        return;
    here = cpu;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        fail("cannot hop to", "another CPU");
}

static void parse(struct step *step, char *text)
{
    static const char *const kinds[] = {"take", "give", "do", "store", "append", "pace", "hop", "call", "returned", "dispatch", "reply"};
    char *times = strchr(text, '*');
    step->times = times ? atol(times + 1) : 1;
    if (times)
        *times = 0;
    char *kind = strtok(text, ":"), *name = strtok(NULL, ":"), *first = strtok(NULL, ":"), *second = strtok(NULL, ":");
    int found = -1;
    for (int at = 0; at <= REPLY; at++)
        if (kind && strcmp(kind, kinds[at]) == 0)
            found = at;
    errno = 0;
    if (found < 0 || !name)
        fail("no step:", kind ? kind : "");
    step->kind = (enum kind)found;
    step->work = first ? atol(first) : 0;
    step->sleep_us = second ? atol(second) : 0;
    if (step->kind == TAKE || step->kind == GIVE)
        step->channel = channel_of(name);
    else if (step->kind == PACE)
        step->sleep_us = atol(name);
    else if (step->kind == HOP) {
        step->number = atol(name);
        if (step->work < 1)
            fail("no time:", text);
    } else if (step->kind == STORE || step->kind == APPEND) {
        if ((step->fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) < 0)
            fail("cannot open", name);
    } else if ((step->has_name = strcmp(name, "-") != 0))
        step->name = (struct longpole_name)LONGPOLE_NAME(name);
}

static void perform(struct step *step)
{
    switch (step->kind) {
    case TAKE: take(step->channel); break;
    case GIVE: give(step->channel); break;
    case DO:
        if (step->has_name)
            LONGPOLE_BEGIN(&step->name);
        work(step->work);
        if (step->sleep_us)
            sleep_us(step->sleep_us);
        if (step->has_name)
            LONGPOLE_END(&step->name);
        break;
    case STORE:
    case APPEND:
        if (write(step->fd, item, 512) != 512 || (step->kind == STORE && fsync(step->fd) != 0))
            fail("cannot", "store");
        break;
    case PACE: pace(step->sleep_us); break;
    case HOP: hop(step->number, step->work); break;
    case CALL: LONGPOLE_RPC_CALL(&step->name, ++id); break;
    case RETURNED: LONGPOLE_RPC_RETURNED(&step->name, id); break;
    case DISPATCH: LONGPOLE_RPC_DISPATCH(&step->name, id); break;
    case REPLY: LONGPOLE_RPC_REPLY(&step->name, id); break;
    }
}

int main(int count, char **words)
{
    static struct step before[STEPS], loop[STEPS];
    int befores = 0, steps = 0, part = 0;
    double seconds = 0;
    long long items = 0;
    if (count < 3)
        fail("usage: role NAME", "[CHANNEL]… [seconds=S|items=N] [first_of_all] [first STEP…] loop STEP…");
    LONGPOLE_LABEL(words[1]);
    for (int at = 2; at < count; at++) {
        if (strcmp(words[at], "first") == 0)
            part = 1;
        else if (strcmp(words[at], "loop") == 0)
            part = 2;
        else if (part == 1 && befores < STEPS)
            parse(&before[befores++], words[at]);
        else if (part == 2 && steps < STEPS)
            parse(&loop[steps++], words[at]);
        else if (strncmp(words[at], "seconds=", 8) == 0)
            seconds = atof(words[at] + 8);
        else if (strncmp(words[at], "items=", 6) == 0)
            items = atoll(words[at] + 6);
        else if (strcmp(words[at], "first_of_all") == 0)
            first_of_all();
        else if (strchr(words[at], '='))
            open_channel(words[at]);
        else
            fail("what is", words[at]);
    }
    for (int at = 0; at < befores; at++)
        for (long time = 0; time < before[at].times; time++)
            perform(&before[at]);
    long long done = 0, begin = 0;
    do {
        for (int at = 0; at < steps; at++)
            for (long time = 0; time < loop[at].times; time++)
                perform(&loop[at]);
        if (done++ == 0)
            begin = now_us();
    } while ((!items || done < items) && (!seconds || done < 2 || now_us() - begin < (long long)(seconds * 1e6)));
    printf("items %lld seconds %.6f\n", done - 1, (double)(now_us() - begin) / 1e6);
    return 0;
}

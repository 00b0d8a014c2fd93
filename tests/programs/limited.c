/* Systems with one known bottleneck, named by the argument:
 *  "writes"  a client sends each request in two small writes and waits for the reply: the second one waits for a delayed acknowledgement;
 *  "whole"   the same in one write;
 *  "lock"    four processes sleep while they hold a lock of a file;
 *  "polls"   two processes leave things in shared memory and sleep until they find them;
 *  "window"  a transfer to a socket whose receive buffer has 2 KiB;
 *  "timed"   a client asks a server that sleeps for 3 ms, until its main thread has slept for a second. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
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

/* A socket that listens on the loopback, and another one that is to connect to it. */
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

/* Answers requests of eight bytes, after a pause. */
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

static void lock(void)
{
    char name[] = "/tmp/limited-XXXXXX";
    int made = mkstemp(name);
    check(made >= 0, "mkstemp");
    for (int i = 0; i < 4; i++) {
        if (started() == 0) {
            int of = open(name, 0);
            for (int turn = 0; turn < TURNS; turn++) {
                flock(of, LOCK_EX);
                usleep(2000);
                flock(of, LOCK_UN);
                /* Locks of files are not fair: one of the others takes it meanwhile. */
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

int main(int count, char **arguments)
{
    const char *means = count > 1 ? arguments[1] : "";
    if (strcmp(means, "writes") == 0 || strcmp(means, "whole") == 0)
        requests(means[1] == 'h');
    else if (strcmp(means, "lock") == 0)
        lock();
    else if (strcmp(means, "polls") == 0)
        polls();
    else if (strcmp(means, "window") == 0)
        window();
    else if (strcmp(means, "timed") == 0)
        timed();
    else
        return 2;
    return 0;
}

/*
 * Two threads that hand items over by one means of the kernel, which is the argument. The thread
 * "maker" works four times as long for an item as the main thread does, so the maker's work
 * determines the total time.
 *
 * With "fsync", "timerfd" or "ipi" the main thread instead waits for a disk, a timer, or all CPUs,
 * and the program prints how many ns it waited.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { ITEMS = 100, UNIT_NS = 250000 };

static const char *means;
static _Atomic uint32_t word;
static int ends[2], poll_fd, ring;
static struct io_uring_params params;
static char *queue;
static struct io_uring_sqe *entries;

static void check(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static long long now(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec * 1000000000ll + at.tv_nsec;
}

/* Uses a fixed amount of CPU time, even on a busy host. */
static void work(unsigned units)
{
    long long begin = now(CLOCK_THREAD_CPUTIME_ID);
    while (now(CLOCK_THREAD_CPUTIME_ID) - begin < (long long)units * UNIT_NS)
        ;
}

static int is(const char *name)
{
    return strcmp(means, name) == 0;
}

static void give(void)
{
    uint64_t one = 1;
    if (is("futex")) {
        word++;
        syscall(SYS_futex, &word, FUTEX_WAKE, 1, 0, 0, 0);
        return;
    }
    check(write(ends[1], &one, sizeof one) == sizeof one, "write");
}

/* Waits in io_uring_enter until the read that it submits with the same call is complete. */
static void read_by_ring(uint64_t *to)
{
    _Atomic uint32_t *tail = (void *)(queue + params.sq_off.tail);
    uint32_t at = *tail, mask = *(uint32_t *)(queue + params.sq_off.ring_mask);
    entries[at & mask] = (struct io_uring_sqe){ .opcode = IORING_OP_READ, .fd = ends[0], .addr = (uintptr_t)to, .len = sizeof *to };
    ((uint32_t *)(queue + params.sq_off.array))[at & mask] = at & mask;
    *tail = at + 1;
    check(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) == 1, "io_uring_enter");
    _Atomic uint32_t *head = (void *)(queue + params.cq_off.head);
    ++*head;
}

static void take(void)
{
    static uint32_t seen;
    uint64_t item;
    if (is("futex")) {
        while (word == seen)
            syscall(SYS_futex, &word, FUTEX_WAIT, seen, 0, 0, 0);
        seen++;
        return;
    }
    if (is("io_uring"))
        return read_by_ring(&item);
    if (is("epoll")) {
        struct epoll_event event;
        while (epoll_wait(poll_fd, &event, 1, -1) != 1)
            ;
    }
    check(read(ends[0], &item, sizeof item) == sizeof item, "read");
}

static void *maker(void *unused)
{
    for (int i = 0; i < ITEMS; i++) {
        work(4);
        give();
    }
    return unused;
}

static void tcp(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(listener, (void *)&at, sizeof at) == 0 && listen(listener, 1) == 0, "listen");
    check(getsockname(listener, (void *)&at, &length) == 0, "getsockname");
    ends[1] = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(ends[1], (void *)&at, sizeof at) == 0, "connect");
    ends[0] = accept(listener, 0, 0);
}

static void prepare(void)
{
    if (is("pipe") || is("io_uring"))
        check(pipe(ends) == 0, "pipe");
    if (is("unix"))
        check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    if (is("tcp"))
        tcp();
    if (is("epoll")) {
        ends[0] = ends[1] = eventfd(0, EFD_SEMAPHORE);
        poll_fd = epoll_create1(0);
        struct epoll_event event = { .events = EPOLLIN };
        check(epoll_ctl(poll_fd, EPOLL_CTL_ADD, ends[0], &event) == 0, "epoll_ctl");
    }
    if (is("io_uring")) {
        ring = syscall(SYS_io_uring_setup, 4, &params);
        if (ring < 0) {
            puts("not there");
            exit(0);
        }
        queue = mmap(0, 1 << 14, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
        entries = mmap(0, 4 * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
        check(queue != MAP_FAILED && entries != MAP_FAILED, "mmap");
    }
}

static void *spin(void *stop)
{
    while (!*(volatile int *)stop)
        ;
    return 0;
}

static void wait_alone(const char *path)
{
    long long waited = 0, begin;
    volatile int stop = 0;
    pthread_t other;
    int file = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600), timer = timerfd_create(CLOCK_MONOTONIC, 0);
    if (is("ipi")) {
        check(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0, "membarrier");
        pthread_create(&other, 0, spin, (void *)&stop);
    }
    for (int i = 0; i < ITEMS; i++) {
        uint64_t expired;
        struct itimerspec soon = { .it_value = { .tv_nsec = 2000000 } };
        work(1);
        begin = now(CLOCK_MONOTONIC);
        if (is("fsync")) {
            check(pwrite(file, means, 5, 512 * i) == 5, "pwrite");
            check(fdatasync(file) == 0, "fdatasync");
        } else if (is("timerfd")) {
            timerfd_settime(timer, 0, &soon, 0);
            check(read(timer, &expired, sizeof expired) == sizeof expired, "read");
        } else {
            check(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0, "membarrier");
        }
        waited += now(CLOCK_MONOTONIC) - begin;
    }
    stop = 1;
    printf("%lld\n", waited);
}

int main(int count, char **arguments)
{
    pthread_t other;
    means = count > 1 ? arguments[1] : "pipe";
    if (is("fsync") || is("timerfd") || is("ipi")) {
        wait_alone(count > 2 ? arguments[2] : "/dev/null");
        return 0;
    }
    prepare();
    pthread_create(&other, 0, maker, 0);
    pthread_setname_np(other, "maker");
    for (int i = 0; i < ITEMS; i++) {
        take();
        work(1);
    }
    pthread_join(other, 0);
    return 0;
}

/*
 * Delays that are not visible in a thread's own states. The argument selects one:
 *
 * "locked"  four threads take one lock and hold it while they work,
 * "unlocked" they work independently;
 * "fresh"   memory is mapped, touched and unmapped for each item,
 * "kept"    it is mapped once;
 * "behind"  a thread waits behind one of higher priority, while another CPU on which it may run is
 *           idle,
 * "alone"   it may run on that one CPU only. Both print for how many ms CPU 1 was idle in total,
 *           and for how many ms the thread waited according to the kernel.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, ITEMS = 200, UNIT_NS = 50000, PAGES = 512, ROUNDS = 40 };

static const char *means;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int begun;

static void check(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static int is(const char *name)
{
    return strcmp(means, name) == 0;
}

static long long now(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec * 1000000000ll + at.tv_nsec;
}

static void work(long long ns)
{
    long long begin = now(CLOCK_THREAD_CPUTIME_ID);
    /* Each read of this clock is a system call, so it is read only now and then. */
    while (now(CLOCK_THREAD_CPUTIME_ID) - begin < ns)
        for (volatile int i = 0; i < 5000; i++)
            ;
}

/*
 * The other threads sleep until the lock is free. A lock that is acquired by spinning would be
 * invisible to the kernel.
 */
static void *locker(void *unused)
{
    for (int i = 0; i < ITEMS; i++) {
        if (is("locked"))
            pthread_mutex_lock(&lock);
        work(4 * UNIT_NS);
        if (is("locked"))
            pthread_mutex_unlock(&lock);
        work(UNIT_NS);
    }
    return unused;
}

static void lockers(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], 0, locker, 0) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
}

static void touch(volatile char *memory)
{
    for (int page = 0; page < PAGES; page++)
        memory[page * 4096] = 1;
}

static void pages(void)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *kept = mmap(0, PAGES * 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    madvise(kept, PAGES * 4096, MADV_NOHUGEPAGE);
    for (int i = 0; i < ITEMS; i++) {
        char *memory = kept;
        if (is("fresh")) {
            memory = mmap(0, PAGES * 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
            check(memory != MAP_FAILED, "mmap");
            madvise(memory, PAGES * 4096, MADV_NOHUGEPAGE);
        }
        touch(memory);
        work(UNIT_NS);
        if (memory != kept)
            munmap(memory, PAGES * 4096);
    }
}

static void may_run(pid_t tid, int both)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    if (both)
        CPU_SET(1, &set);
    check(sched_setaffinity(tid, sizeof set, &set) == 0, "sched_setaffinity");
}

static pid_t waiter_tid;
static int gate[2];

/* This thread is woken while a real-time thread has its CPU. */
static void *waiter(void *unused)
{
    char item;
    waiter_tid = syscall(SYS_gettid);
    begun = 1;
    while (read(gate[0], &item, 1) == 1)
        work(UNIT_NS);
    return unused;
}

static long long idle_ms(void)
{
    char line[512];
    long long user, nice, kernel, idle = -1;
    FILE *stat = fopen("/proc/stat", "r");
    while (stat && fgets(line, sizeof line, stat))
        if (sscanf(line, "cpu1 %lld %lld %lld %lld", &user, &nice, &kernel, &idle) == 4)
            break;
    if (stat)
        fclose(stat);
    return idle < 0 ? -1 : idle * 1000 / sysconf(_SC_CLK_TCK);
}

static long long waited_ms(void)
{
    char path[64];
    long long running, waiting = -1;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", (int)waiter_tid);
    FILE *stat = fopen(path, "r");
    if (stat && fscanf(stat, "%lld %lld", &running, &waiting) != 2)
        waiting = -1;
    if (stat)
        fclose(stat);
    return waiting / 1000000;
}

static void behind(void)
{
    pthread_t thread;
    struct sched_param first = { .sched_priority = 1 };
    struct timespec pause = { .tv_nsec = 1000000 };
    check(pipe(gate) == 0, "pipe");
    may_run(0, 0);
    check(pthread_create(&thread, 0, waiter, 0) == 0, "pthread_create");
    while (!begun)
        sched_yield();
    check(sched_setscheduler(0, SCHED_FIFO, &first) == 0, "sched_setscheduler");
    long long before = idle_ms();
    for (int i = 0; i < ROUNDS; i++) {
        may_run(waiter_tid, 0);
        check(write(gate[1], means, 1) == 1, "write");
        /* The waiter is now queued on this CPU. */
        if (is("behind"))
            may_run(waiter_tid, 1);
        work(3000000);
        nanosleep(&pause, 0);
    }
    printf("%lld %lld\n", idle_ms() - before, waited_ms());
    close(gate[1]);
    pthread_join(thread, 0);
}

int main(int count, char **arguments)
{
    means = count > 1 ? arguments[1] : "kept";
    if (is("locked") || is("unlocked"))
        lockers();
    else if (is("fresh") || is("kept"))
        pages();
    else
        behind();
    return 0;
}

/* Threads with waits whose number and length are known. Prints one line for each thread that waits:
 * its tid, the number of its waits, and the sum of their lengths in ns.
 *
 *     waits known      a thread with short sleeps, one that reads what the first thread writes,
 *                      and one with long sleeps
 *     waits flood      16 threads with large stacks that sleep for 2 ms again and again */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SHORT = 3000, LONG = 20, FLOOD = 1500, THREADS = 16 };

struct waits {
    int tid;
    long count;
    int64_t ns;
};

static int ends[2];

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void add(struct waits *waits, int64_t begin)
{
    waits->count++;
    waits->ns += now() - begin;
}

static void sleep_for(struct waits *waits, long ns)
{
    const struct timespec time = {0, ns};
    int64_t begin = now();
    nanosleep(&time, NULL);
    add(waits, begin);
}

/* Its stack has a number that the test looks for in the copies. */
static void *sleeper(void *argument)
{
    volatile uint64_t mark[4];
    for (int i = 0; i < 4; i++)
        mark[i] = 0x10e901e5ca1ab1e0u + i;
    struct waits *waits = argument;
    waits->tid = gettid();
    for (int i = 0; i < SHORT; i++)
        sleep_for(waits, 300000);
    return (void *)(uintptr_t)(mark[1] == 0);
}

static void *long_sleeper(void *argument)
{
    struct waits *waits = argument;
    waits->tid = gettid();
    for (int i = 0; i < LONG; i++)
        sleep_for(waits, 10000000);
    return NULL;
}

static void *reader(void *argument)
{
    struct waits *waits = argument;
    char byte;
    waits->tid = gettid();
    for (;;) {
        int64_t begin = now();
        if (read(ends[0], &byte, 1) != 1)
            return NULL;
        add(waits, begin);
    }
}

static void *flood(void *argument)
{
    volatile char large[24 << 10];
    memset((char *)large, 1, sizeof large);
    struct waits *waits = argument;
    waits->tid = gettid();
    for (int i = 0; i < FLOOD; i++)
        sleep_for(waits, 2000000);
    return (void *)(uintptr_t)(large[5] == 0);
}

int main(int count, char **words)
{
    struct waits waits[THREADS] = {0};
    pthread_t threads[THREADS];
    int number = 3;
    if (count > 1 && strcmp(words[1], "flood") == 0) {
        number = THREADS;
        for (int i = 0; i < number; i++)
            pthread_create(&threads[i], NULL, flood, &waits[i]);
    } else {
        if (pipe(ends) != 0)
            return 1;
        pthread_create(&threads[0], NULL, sleeper, &waits[0]);
        pthread_create(&threads[1], NULL, reader, &waits[1]);
        pthread_create(&threads[2], NULL, long_sleeper, &waits[2]);
        for (int i = 0; i < SHORT; i++) {
            struct waits own;
            sleep_for(&own, 300000);
            if (write(ends[1], "x", 1) != 1)
                return 1;
        }
        close(ends[1]);
    }
    for (int i = 0; i < number; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < number; i++)
        printf("%d %ld %lld\n", waits[i].tid, waits[i].count, (long long)waits[i].ns);
    return 0;
}

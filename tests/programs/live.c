/*
 * Runs until it is ended: the thread `busy_one` computes without pause; a feeder hands an item
 * every millisecond through the bounded queue `parcels` to a worker, whose span is `grind`. The
 * first argument is the number of extra events per item. With a second one, `busy_one` has a CPU
 * before all other threads, if that is allowed.
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { SLOTS = 4, WORK_NS = 300000, PAUSE_NS = 1000000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct longpole_name queue = LONGPOLE_QUEUE_NAME("parcels", SLOTS, LONGPOLE_FIFO, LONGPOLE_ITEMS);
static unsigned put, taken, extra;

/* This clock needs no system call, which would be an event. */
static void work(long long ns)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000ll + now.tv_nsec - begin.tv_nsec < ns);
}

static void *busy(void *unused)
{
    static volatile uint64_t count;
    for (;;)
        count++;
    return unused;
}

static void *worker(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&mutex);
        if (put == taken)
            LONGPOLE_QUEUE_WAIT_EMPTY(&queue);
        while (put == taken)
            pthread_cond_wait(&changed, &mutex);
        LONGPOLE_QUEUE_GET(&queue, 1);
        taken++;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&mutex);
        LONGPOLE_BEGIN("grind");
        work(WORK_NS);
        LONGPOLE_END("grind");
        for (unsigned i = 0; i < extra; i++)
            LONGPOLE_COUNTER("extra", i);
    }
    return unused;
}

int main(int count, char **arguments)
{
    pthread_t threads[2];
    extra = count > 1 ? (unsigned)atoi(arguments[1]) : 0;
    pthread_create(&threads[0], NULL, busy, NULL);
    pthread_setname_np(threads[0], "busy_one");
    if (count > 2) {
        struct sched_param first = { .sched_priority = 1 };
        pthread_setschedparam(threads[0], SCHED_FIFO, &first);
    }
    pthread_create(&threads[1], NULL, worker, NULL);
    pthread_setname_np(threads[1], "worker");
    for (;;) {
        struct timespec pause = { 0, PAUSE_NS };
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&mutex);
        if (put - taken == SLOTS)
            LONGPOLE_QUEUE_WAIT_FULL(&queue);
        while (put - taken == SLOTS)
            pthread_cond_wait(&changed, &mutex);
        LONGPOLE_QUEUE_PUT(&queue, 1);
        put++;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&mutex);
    }
}

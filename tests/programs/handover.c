/*
 * A feeder and a worker with a bounded queue between them. The worker needs WORKER_UNITS times as
 * long per item. Without an argument, all of this has probes. With an argument, the two hand bytes
 * over through two pipes instead, without any probe.
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>

#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#ifndef WORKER_UNITS
#define WORKER_UNITS 3
#endif

enum { SLOTS = 4, ITEMS = 200, UNIT_NS = 100000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct longpole_name queue = LONGPOLE_QUEUE_NAME("parcels", SLOTS, LONGPOLE_FIFO, LONGPOLE_ITEMS);
static unsigned put, taken;
static int there[2], back[2];

/* Uses a fixed amount of CPU time, even on a busy host. */
static void work(unsigned units)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000ll + now.tv_nsec - begin.tv_nsec < (long long)units * UNIT_NS);
}

static void *worker(void *unused)
{
    for (unsigned i = 0; i < ITEMS; i++) {
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
        work(WORKER_UNITS);
        LONGPOLE_END("grind");
    }
    return unused;
}

static void feed(void)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        LONGPOLE_BEGIN("wrap");
        work(1);
        LONGPOLE_END("wrap");
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

static void *pipe_worker(void *unused)
{
    char byte;
    while (read(there[0], &byte, 1) == 1) {
        work(WORKER_UNITS);
        if (write(back[1], &byte, 1) != 1)
            break;
    }
    return unused;
}

static void pipe_feed(void)
{
    char byte = 0;
    for (unsigned i = 0; i < ITEMS; i++) {
        work(1);
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            break;
    }
    close(there[1]);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    (void)argv;
    if (argc > 1 && (pipe(there) || pipe(back)))
        return 1;
    pthread_create(&thread, NULL, argc > 1 ? pipe_worker : worker, NULL);
    pthread_setname_np(thread, "worker");
    if (argc > 1)
        pipe_feed();
    else
        feed();
    pthread_join(thread, NULL);
    return 0;
}

/*
 * A maker and a packer with a bounded queue between them, which work until standard input is
 * closed. With an argument, they have no probes.
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 4, UNIT_NS = 500000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct longpole_name queue = LONGPOLE_QUEUE_NAME("crates", SLOTS, LONGPOLE_FIFO, LONGPOLE_ITEMS);
static unsigned put, taken;
static bool probed, closed;

/* Uses a fixed amount of CPU time, even on a busy host. */
static void work(unsigned units)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000ll + now.tv_nsec - begin.tv_nsec < (long long)units * UNIT_NS);
}

static void *packer(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&mutex);
        if (probed && put == taken)
            LONGPOLE_QUEUE_WAIT_EMPTY(&queue);
        while (put == taken && !closed)
            pthread_cond_wait(&changed, &mutex);
        if (put == taken)
            break;
        if (probed)
            LONGPOLE_QUEUE_GET(&queue, 1);
        taken++;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&mutex);
        if (probed)
            LONGPOLE_BEGIN("pack");
        work(2);
        if (probed)
            LONGPOLE_END("pack");
    }
    pthread_mutex_unlock(&mutex);
    return unused;
}

static bool is_closed(void)
{
    struct pollfd in = { .fd = 0, .events = POLLIN };
    char byte;
    return poll(&in, 1, 0) > 0 && read(0, &byte, 1) != 1;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    (void)argv;
    probed = argc < 2;
    pthread_create(&thread, NULL, packer, NULL);
    pthread_setname_np(thread, "packer");
    while (!is_closed()) {
        if (probed)
            LONGPOLE_BEGIN("make");
        work(1);
        if (probed)
            LONGPOLE_END("make");
        usleep(2000);
        pthread_mutex_lock(&mutex);
        if (probed && put - taken == SLOTS)
            LONGPOLE_QUEUE_WAIT_FULL(&queue);
        while (put - taken == SLOTS)
            pthread_cond_wait(&changed, &mutex);
        if (probed)
            LONGPOLE_QUEUE_PUT(&queue, 1);
        put++;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&mutex);
    }
    pthread_mutex_lock(&mutex);
    closed = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    return 0;
}

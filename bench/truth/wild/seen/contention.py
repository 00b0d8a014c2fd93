"""C threads that contend for one mutex all the time."""
from system import ITEMS, LOCKS, System

SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Fixed work: each of four threads counts words of its own part into a table, shared under a mutex or its own. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long table[1024];
static int is_shared, items;

static void *count_words(void *part)
{
    static __thread long own[1024];
    unsigned seed = (unsigned)(long)part;
    for (int i = 0; i < items / 4; i++) {
        seed = seed * 1103515245 + 12345;
        long *to = is_shared ? table : own;
        if (is_shared) pthread_mutex_lock(&lock);
        for (int k = 0; k < 1024; k++) to[k] += (seed >> (k & 15)) & 1;
        if (is_shared) pthread_mutex_unlock(&lock);
    }
    return 0;
}

int main(int count, char **words)
{
    struct timespec a, b;
    pthread_t threads[4];
    is_shared = !strcmp(words[1], "shared");
    items = atoi(words[2]);
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, count_words, (void *)(i + 1));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("items %d seconds %.3f\n", items, (b.tv_sec - a.tv_sec) + (b.tv_nsec - a.tv_nsec) * 1e-9);
}
"""

SYSTEMS = [
    System(
        name="c_lock_convoy_work",
        kind="lock-convoy",
        truth="the four threads of wordcount do all their work under one mutex",
        load=lambda place: [str(place.c("wordcount", SOURCE)), *(["own", "6000000"] if place.fixed else ["shared", "3000000"])],
        rate=ITEMS,
        component=(r"wordcount",),
        mechanism=(*LOCKS, r"convoy"),
        needs=("gcc",),
    ),
]

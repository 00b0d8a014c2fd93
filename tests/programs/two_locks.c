// Threads that compute while they hold a lock: either all of them the first of two locks, or half
// of them each one. Prints the address of the first lock.
//
// usage: two_locks one|both MILLISECONDS

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS 4

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static int used = 1;
static long long until;

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void compute(long long ns) {
    long long end = now() + ns;
    while (now() < end) {
    }
}

static void *work(void *argument) {
    // With `both`, half of the threads use each lock.
    pthread_mutex_t *lock = &locks[(long)argument % used];
    while (now() < until) {
        pthread_mutex_lock(lock);
        compute(300000);
        pthread_mutex_unlock(lock);
        if (used == 1) {
            // The second lock is used as well, but threads never wait long for it.
            pthread_mutex_lock(&locks[1]);
            pthread_mutex_unlock(&locks[1]);
        }
    }
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: two_locks one|both MILLISECONDS\n");
        return 2;
    }
    used = strcmp(arguments[1], "both") == 0 ? 2 : 1;
    until = now() + atoll(arguments[2]) * 1000000LL;
    printf("%p\n", (void *)&locks[0]);
    fflush(stdout);
    pthread_t threads[THREADS];
    for (long at = 0; at < THREADS; at++) {
        pthread_create(&threads[at], NULL, work, (void *)at);
    }
    for (int at = 0; at < THREADS; at++) {
        pthread_join(threads[at], NULL);
    }
    return 0;
}

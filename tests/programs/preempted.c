/*
 * Spans that compute for a known CPU time while another thread computes on the same CPU all the
 * time, and spans that sleep. For each kind it prints the sums over all spans of the thread's CPU
 * time and of the elapsed time, in ns.
 *
 * usage: preempted COUNT US       COUNT spans of each kind, of US microseconds each
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile int over;

static int64_t clock_of(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void pin(void)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		exit(1);
}

static void *rival(void *unused)
{
	(void)unused;
	pin();
	while (!over)
		;
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: preempted COUNT US\n");
		return 2;
	}
	int count = atoi(argv[1]);
	int64_t length = atoll(argv[2]) * 1000, sums[4] = { 0 };
	pthread_t thread;
	pin();
	if (pthread_create(&thread, NULL, rival, NULL) != 0)
		return 1;
	for (int i = 0; i < count; i++) {
		int64_t began = clock_of(CLOCK_MONOTONIC), cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
		LONGPOLE_BEGIN("computes");
		while (clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu < length)
			;
		LONGPOLE_END("computes");
		sums[0] += clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
		sums[1] += clock_of(CLOCK_MONOTONIC) - began;
		began = clock_of(CLOCK_MONOTONIC), cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
		LONGPOLE_BEGIN("sleeps");
		usleep((useconds_t)(length / 1000));
		LONGPOLE_END("sleeps");
		sums[2] += clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
		sums[3] += clock_of(CLOCK_MONOTONIC) - began;
	}
	over = 1;
	pthread_join(thread, NULL);
	printf("%lld %lld %lld %lld\n", (long long)sums[0], (long long)sums[1], (long long)sums[2], (long long)sums[3]);
	return 0;
}

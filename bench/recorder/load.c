/*
 * The load for recorders: threads that emit events of one u64 at a given rate. An event is our mark
 * of 16 bytes or, built with -DLTTNG, a tracepoint of LTTng-UST with the same payload. The threads
 * begin at the same time, once they are recorded.
 *
 *     load THREADS EVENTS RATE [stay|now|now-stay]
 *
 * EVENTS and RATE (events a second, 0: the highest possible rate) are those of one thread. Prints
 * the number of tried events, their duration in seconds, and the CPU ns per event, including the
 * pauses between events. With `stay` the threads stay at their end until the standard input ends.
 * With `now` they do not wait for a recorder.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef LTTNG
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "one.h"
#define EMIT(value) lttng_ust_tracepoint(longpole_bench, one, value)
#define IS_RECORDED() lttng_ust_tracepoint_enabled(longpole_bench, one)
#else
#include <longpole/longpole.h>
#define EMIT(value) LONGPOLE_MARK("one", value)
#define IS_RECORDED() longpole_on(LONGPOLE_CATEGORY_MARK)
#endif

/* Number of events after which the clock is read. */
#define STRIDE 64
/* Delay in seconds beyond which missed events are skipped. */
#define MAX_LATE 0.003

static pthread_barrier_t begin, end;
static unsigned long events;
static double rate;
static int stays;

static double seconds(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void wait_ms(void)
{
	const struct timespec pause = {0, 1000000};
	nanosleep(&pause, NULL);
}

static void *emit(void *argument)
{
	double *cpu = (double *)argument;
	/* A thread's first event makes its ring. */
	EMIT(0);
	pthread_barrier_wait(&begin);
	const double cpu_before = seconds(CLOCK_THREAD_CPUTIME_ID);
	double before = seconds(CLOCK_MONOTONIC);
	for (unsigned long i = 1; i < events; i++) {
		if (rate > 0 && i % STRIDE == 0) {
			double late;
			while ((late = seconds(CLOCK_MONOTONIC) - before - (double)i / rate) < 0)
				wait_ms();
			/* The thread skips events that it missed while it had no CPU. A burst that makes up
			 * for them would have another rate. */
			if (late > MAX_LATE)
				before += late;
		}
		EMIT(i);
	}
	*cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu_before;
	pthread_barrier_wait(&end);
	while (stays)
		pause();
	return NULL;
}

int main(int count, char **arguments)
{
	if (count < 4)
		return 2;
	const unsigned threads = (unsigned)strtoul(arguments[1], NULL, 10);
	events = strtoul(arguments[2], NULL, 10);
	rate = strtod(arguments[3], NULL);
	const char *how = count > 4 ? arguments[4] : "";
	stays = strstr(how, "stay") != NULL;
	const int waits = strstr(how, "now") == NULL;
	if (threads == 0 || events < 1)
		return 2;
	double *cpu = calloc(threads, sizeof *cpu);
	pthread_attr_t small;
	if (cpu == NULL || pthread_attr_init(&small) != 0 || pthread_attr_setstacksize(&small, 256u << 10) != 0)
		return perror("memory"), 1;
	for (const double limit = seconds(CLOCK_MONOTONIC) + 20; waits && !IS_RECORDED(); wait_ms())
		if (seconds(CLOCK_MONOTONIC) > limit)
			return fprintf(stderr, "nobody records\n"), 1;
	pthread_barrier_init(&begin, NULL, threads + 1);
	pthread_barrier_init(&end, NULL, threads + 1);
	for (unsigned n = 0; n < threads; n++) {
		pthread_t thread;
		if (pthread_create(&thread, &small, emit, &cpu[n]) != 0)
			return perror("thread"), 1;
	}
	pthread_barrier_wait(&begin);
	const double before = seconds(CLOCK_MONOTONIC);
	pthread_barrier_wait(&end);
	double sum = 0;
	for (unsigned n = 0; n < threads; n++)
		sum += cpu[n];
	printf("%lu %.6f %.3f\n", events * threads, seconds(CLOCK_MONOTONIC) - before, 1e9 * sum / (double)(events * threads));
	fflush(stdout);
	while (stays && getchar() != EOF)
		;
	return 0;
}

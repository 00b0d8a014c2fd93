/*
 * Threads that number their events, so that each number missing in a recording must have been
 * counted as lost.
 *
 * usage: numbered THREADS EVENTS [PAUSE_US [BATCH [linger]]]
 *
 * After each BATCH events a thread sleeps for PAUSE_US. After EVENTS turns, or at SIGTERM, it
 * prints `emitted TID COUNT`. A disabled probe does not evaluate its arguments, so COUNT is exactly
 * the number of events whose probe was enabled. A killed program prints nothing, but its rings
 * contain what it wrote. With `linger` the threads wait for SIGTERM before they end.
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t events, batch;
static unsigned pause_us;
static int linger;
static volatile sig_atomic_t ended;

static void end(int number)
{
	(void)number;
	ended = 1;
}

static void *emit(void *unused)
{
	(void)unused;
	uint64_t number = 0;
	for (uint64_t i = 0; i < events && !ended; i++) {
		LONGPOLE_MARK("numbered", number++);
		if (pause_us != 0 && i % batch == batch - 1)
			usleep(pause_us);
	}
	printf("emitted %d %llu\n", gettid(), (unsigned long long)number);
	fflush(stdout);
	while (linger && !ended)
		usleep(1000);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: numbered THREADS EVENTS [PAUSE_US [BATCH [linger]]]\n");
		return 2;
	}
	const int threads = atoi(argv[1]);
	events = strtoull(argv[2], NULL, 10);
	pause_us = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
	batch = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
	linger = argc > 5;
	signal(SIGTERM, end);
	pthread_t *thread = calloc((size_t)threads, sizeof *thread);
	for (int i = 0; i < threads; i++)
		pthread_create(&thread[i], NULL, emit, NULL);
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	free(thread);
	return 0;
}

/*
 * Threads that write numbered events: the data of each event is `thread << 40 | number`. A disabled
 * probe does not evaluate its arguments, so the number counts exactly the events whose probe was
 * enabled: each of them is recorded or lost.
 *
 * The file PROGRESS contains the turns of each thread, and 64 words behind them the numbers of its
 * events, so that both are known even for a killed program. They are increased when the event is
 * complete.
 *
 *     numbered THREADS EVENTS BURST PAUSE_US PROGRESS [WAIT]
 *
 * EVENTS 0: until killed. After each BURST events a thread sleeps for PAUSE_US. With WAIT each
 * thread starts when the previous one has ended.
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t events, burst;
static unsigned pause_us;
static volatile uint64_t *progress;

static void *work(void *argument)
{
	const uint64_t self = (uint64_t)(uintptr_t)argument;
	char name[16];
	snprintf(name, sizeof name, "worker %u", (unsigned)self);
	pthread_setname_np(pthread_self(), name);
	uint64_t number = 0;
	for (uint64_t i = 0; events == 0 || i < events; i++) {
		LONGPOLE_MARK("numbered", self << 40 | number++);
		progress[64 + self] = number;
		progress[self] = i + 1;
		if (burst != 0 && i % burst == burst - 1)
			usleep(pause_us);
	}
	return NULL;
}

int main(int count, char **arguments)
{
	if (count < 6)
		return 2;
	const unsigned threads = (unsigned)atoi(arguments[1]);
	events = strtoull(arguments[2], NULL, 10);
	burst = strtoull(arguments[3], NULL, 10);
	pause_us = (unsigned)atoi(arguments[4]);
	int file = open(arguments[5], O_RDWR | O_CREAT, 0600);
	if (file < 0 || threads > 64 || ftruncate(file, 4096) < 0)
		return 2;
	progress = (volatile uint64_t *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	pthread_t thread[64];
	for (unsigned i = 0; i < threads; i++) {
		pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i);
		if (count > 6)
			pthread_join(thread[i], NULL);
	}
	for (unsigned i = 0; i < threads && count <= 6; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

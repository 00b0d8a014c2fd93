/*
 * Short-lived threads that continue one numbering: each continues where the previous one ended.
 * Therefore the newest number in any ring shows how many events all of them wrote or lost, even if
 * the program was killed in between.
 *
 * usage: relay EVENTS [PAUSE_US]   a thread ends after EVENTS numbers, and sleeps for PAUSE_US
 *                                  after each 100
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t number, events;
static unsigned pause_us;

static void *emit(void *unused)
{
	(void)unused;
	for (uint64_t i = 0; i < events; i++) {
		LONGPOLE_MARK("numbered", number++);
		if (pause_us != 0 && i % 100 == 99)
			usleep(pause_us);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: relay EVENTS [PAUSE_US]\n");
		return 2;
	}
	events = strtoull(argv[1], NULL, 10);
	pause_us = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	for (;;) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, emit, NULL) == 0)
			pthread_join(thread, NULL);
	}
}

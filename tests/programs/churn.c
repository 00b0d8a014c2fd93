/*
 * Short-lived threads and processes. Each numbers a few events from 0 and ends; the test checks
 * that even its first event was recorded.
 *
 * usage: churn THREADS PROCESSES EVENTS
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t events;

static void *emit(void *unused)
{
	(void)unused;
	for (uint64_t i = 0; i < events; i++)
		LONGPOLE_MARK("numbered", i);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc == 3 && argv[1][0] == 'x') { /* the program that a child executes */
		events = strtoull(argv[2], NULL, 10);
		emit(NULL);
		return 0;
	}
	if (argc < 4) {
		fprintf(stderr, "usage: churn THREADS PROCESSES EVENTS\n");
		return 2;
	}
	events = strtoull(argv[3], NULL, 10);
	for (int i = 0; i < atoi(argv[1]); i++) {
		pthread_t thread;
		pthread_create(&thread, NULL, emit, NULL);
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < atoi(argv[2]); i++) {
		const pid_t child = fork();
		if (child == 0) {
			emit(NULL);
			if (i % 2 == 0)
				_exit(0);
			execl("/proc/self/exe", argv[0], "x", argv[3], (char *)NULL);
			_exit(1);
		}
		waitpid(child, NULL, 0);
	}
	return 0;
}

/*
 * System calls between two probes, made by one or more threads that move over all CPUs.
 *
 * usage: bracket CALLS [THREADS]   CALLS system calls by each thread
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned long calls;

static void *work(void *argument)
{
	unsigned long next = (unsigned long)argument;
	cpu_set_t allowed;
	if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
		return NULL;
	for (unsigned long i = 0; i < calls; i++) {
		if (i % 100 == 0) {
			cpu_set_t set;
			do
				next++;
			while (!CPU_ISSET(next % CPU_SETSIZE, &allowed));
			CPU_ZERO(&set);
			CPU_SET(next % CPU_SETSIZE, &set);
			sched_setaffinity(0, sizeof set, &set);
		}
		LONGPOLE_BEGIN("bracket", i);
		syscall(SYS_getppid);
		LONGPOLE_END("bracket");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: bracket CALLS [THREADS]\n");
		return 2;
	}
	calls = strtoul(argv[1], NULL, 10);
	unsigned long threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
	pthread_t all[64];
	if (threads < 1 || threads > 64)
		return 2;
	for (unsigned long i = 0; i < threads; i++)
		if (pthread_create(&all[i], NULL, work, (void *)i) != 0)
			return 1;
	for (unsigned long i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	return 0;
}

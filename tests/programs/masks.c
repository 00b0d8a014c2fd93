/*
 * A thread that changes the CPUs that it may run on, and prints the mask that the kernel then
 * returns.
 *
 * masks          sets the first CPU, then all that it had, then the first again, with a pause after
 *                each
 * masks COUNT    does this COUNT times without a pause
 * masks 3 PID    as `masks`, for another process
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 3, hurry = argc == 2;
	pid_t whose = argc > 2 ? atoi(argv[2]) : 0;
	cpu_set_t all, first, now;
	CPU_ZERO(&first);
	if (sched_getaffinity(0, sizeof all, &all) != 0)
		return 1;
	for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&first) == 0; cpu++)
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &first);
	const cpu_set_t *sets[] = { &first, &all };
	printf("pid %d\n", (int)getpid());
	if (hurry)
		fflush(stdout);
	for (int n = 0; n < count; n++) {
		if (sched_setaffinity(whose, sizeof all, sets[n % 2]) != 0)
			return 1;
		if (hurry)
			continue;
		if (sched_getaffinity(whose, sizeof now, &now) != 0)
			return 1;
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
			if (CPU_ISSET(cpu, &now))
				printf("%d ", cpu);
		printf("\n");
		fflush(stdout);
		usleep(100000);
	}
	return 0;
}

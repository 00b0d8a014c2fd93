/*
 * Emits numbered marks of 16 bytes at a given rate. It begins when a recorder records it.
 *
 *     emit MILLION_EVENTS MILLION_EVENTS_PER_SECOND
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int count, char **arguments)
{
	if (count != 3)
		return 2;
	const uint64_t events = strtoul(arguments[1], NULL, 10) * 1000000;
	const double rate = 1e6 * strtod(arguments[2], NULL);
	const struct timespec pause = {0, 1000000};
	for (double limit = seconds() + 20; !longpole_on(LONGPOLE_CATEGORY_MARK);) {
		if (seconds() > limit)
			return fprintf(stderr, "nobody records\n"), 1;
		nanosleep(&pause, NULL);
	}
	const double begin = seconds();
	for (uint64_t i = 0; i < events; i++) {
		LONGPOLE_MARK("drained", i);
		if (i % 4096 == 0)
			while ((double)i > (seconds() - begin) * rate)
				nanosleep(&pause, NULL);
	}
	printf("%.3f\n", seconds() - begin);
	return 0;
}

/*
 * Events that carry the time at which they were written, by CLOCK_MONOTONIC_RAW in ns: read before the event is written, so that no event may be
 * earlier than what it carries, nor later than what the next one carries.
 *
 * usage: clocked        for each line of the input, a number N: N events, then a line of output
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

int main(void)
{
	unsigned count;
	while (scanf("%u", &count) == 1) {
		for (unsigned i = 0; i < count; i++) {
			struct timespec now;
			clock_gettime(CLOCK_MONOTONIC_RAW, &now);
			LONGPOLE_MARK("clocked", (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
		}
		puts("done");
		fflush(stdout);
	}
	return 0;
}

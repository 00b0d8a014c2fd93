/*
 * Events that carry the reading of CLOCK_MONOTONIC_RAW in ns from just before the event was
 * written. Therefore no event may have an earlier time than it carries, nor a later time than the
 * next event carries.
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

/*
 * Events of every kind from several threads. A channel with more than 31 event classes uses the
 * large event header.
 *
 *     load THREADS ROUNDS [MICROSECONDS]
 */
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "kinds.h"
#include "many.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void texts(unsigned thread, unsigned round, const char *text);

static unsigned rounds, pause_us;

static void *work(void *argument)
{
	const unsigned thread = (unsigned)(size_t)argument;
	static const double doubles[] = {0.0, -0.0, 1.0 / 3, -2.5e300, 5e-324, INFINITY, -INFINITY, NAN, 123456789.125, 16777217.0};
	static const char *const strings[] = {"", "plain", "with \"quotes\" and \\ and \t and \n", "gr\xc3\xbcn \xe2\x82\xac \xf0\x9f\x98\x80", "not utf-8: \xff\xfe\xc3", "a rather long text, long enough to go over the end of what a small buffer holds at once"};
	static const int moods[] = {0, 1, 2, 3, 5, 7, 60, 100, 121, 200, 201, -1, -60, 127, 255};
	uint64_t random = 88172645463325252u + thread;
	for (unsigned i = 0; i < rounds; i++) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		const uint64_t bits = i % 3 == 0 ? i : i % 3 == 1 ? ~(uint64_t)i : random;
		const char *text = strings[i % (sizeof strings / sizeof *strings)];
		uint64_t numbers[8];
		for (unsigned n = 0; n < 8; n++)
			numbers[n] = random * (n + 1);
		lttng_ust_tracepoint(kinds, integers, bits);
		lttng_ust_tracepoint(kinds, floats, doubles[i % (sizeof doubles / sizeof *doubles)]);
		lttng_ust_tracepoint(kinds, arrays, numbers);
		lttng_ust_tracepoint(kinds, sequences, numbers, i % 8 < strlen(text) ? i % 8 : 0, text);
		lttng_ust_tracepoint(kinds, strings, text);
		lttng_ust_tracepoint(kinds, enums, moods[i % (sizeof moods / sizeof *moods)]);
		lttng_ust_tracepoint(kinds, struct_, i);
		lttng_ust_tracepoint(kinds, nothing, 0);
		MANY(i);
		if (i % 5 == 0)
			texts(thread, i, text);
		if (pause_us)
			usleep(pause_us);
	}
	return NULL;
}

int main(int count, char **arguments)
{
	if (count < 3)
		return 2;
	const unsigned threads = (unsigned)atoi(arguments[1]);
	rounds = (unsigned)atoi(arguments[2]);
	pause_us = count > 3 ? (unsigned)atoi(arguments[3]) : 0;
	pthread_t ids[64];
	for (unsigned i = 1; i < threads; i++)
		pthread_create(&ids[i], NULL, work, (void *)(size_t)i);
	work(NULL);
	for (unsigned i = 1; i < threads; i++)
		pthread_join(ids[i], NULL);
	return 0;
}

/*
 * Uses the numbered cycle counters. For each number it prints `NUMBER SAMPLES MINIMUM MAXIMUM MEAN
 * SIGMA PERCENT COST AROUND` on stdout. With any argument it does not reset the counters, so the
 * end of the program prints the rest.
 */
#include <longpole/points.h>

#include <pthread.h>
#include <stdio.h>

static unsigned long long now(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	unsigned long long value;
	__asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#endif
}

static void spin(unsigned long long cycles)
{
	const unsigned long long begin = now();
	while (now() - begin < cycles)
		;
}

static void *thread(void *unused)
{
	for (int i = 0; i < 1000; i++) {
		LONGPOLE_TRACE_POINT_START(5);
		LONGPOLE_TRACE_POINT_STOP(5);
	}
	LONGPOLE_TRACE_POINT_START(6);
	return unused;
}

int main(int argc, char **argv)
{
	(void)argv;
	for (int i = 0; i < 2000; i++) {
		/* Nested and overlapping measurements. */
		LONGPOLE_TRACE_POINT_START(0);
		LONGPOLE_TRACE_POINT_START(1);
		spin(2000);
		LONGPOLE_TRACE_POINT_START(2);
		LONGPOLE_TRACE_POINT_STOP(1);
		spin(i % 2 ? 1000 : 5000);
		LONGPOLE_TRACE_POINT_STOP(2);
		LONGPOLE_TRACE_POINT_STOP(0);
		/* Number 3 is stopped every fourth time only, and number 4 is never started. */
		LONGPOLE_TRACE_POINT_START(3);
		if (i % 4 == 3)
			LONGPOLE_TRACE_POINT_STOP(3);
		LONGPOLE_TRACE_POINT_STOP(4);
	}
	/* A second start discards the first one, and a second stop is ignored. */
	LONGPOLE_TRACE_POINT_START(7);
	spin(1000000);
	LONGPOLE_TRACE_POINT_START(7);
	LONGPOLE_TRACE_POINT_STOP(7);
	LONGPOLE_TRACE_POINT_STOP(7);
	LONGPOLE_TRACE_POINT_START(LONGPOLE_TRACE_POINTS + 1000000);
	LONGPOLE_TRACE_POINT_STOP(LONGPOLE_TRACE_POINTS + 1000000);
	for (int round = 0; round < 2; round++) {
		pthread_t threads[3];
		for (int i = 0; i < 3; i++)
			pthread_create(&threads[i], NULL, thread, NULL);
		for (int i = 0; i < 3; i++)
			pthread_join(threads[i], NULL);
	}
	for (unsigned i = 0; i < LONGPOLE_TRACE_POINTS; i++) {
		struct longpole_point_result result;
		if (LONGPOLE_TRACE_POINT_RESULT(i, &result))
			printf("%u %llu %llu %llu %.3f %.3f %.3f %.1f %.1f\n", i, (unsigned long long)result.samples, (unsigned long long)result.minimum,
			       (unsigned long long)result.maximum, result.mean, result.sigma, result.sigma_percent, result.cost, result.cost_around);
	}
	if (argc == 1)
		LONGPOLE_TRACE_POINT_RESET();
	return 0;
}

/*
 * Uses the self-contained cycle counters. Prints on stdout the number of cycles that the program
 * itself measured. With LONGPOLE_DISABLE no argument is evaluated.
 *
 *     tsc calls      ten calls of one scope, a line every three
 *     tsc recursion  a recursion of 21,891 calls, a line at its end
 *     tsc threads    four threads with 25,000 calls each; lines at 10,000 calls and at each end
 *     tsc names      names with a label, and of every length
 *     tsc trace      lines in the recording
 */
#include <longpole/tsc.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

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

static void calls(unsigned long long cycles)
{
	LONGPOLE_LOG_TSC(3);
	spin(cycles);
}

static int fibonacci(int n)
{
	LONGPOLE_LOG_TSC_NAMED(21891, "fib");
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static void shared(void)
{
	LONGPOLE_LOG_TSC(10000);
}

static void *thread(void *unused)
{
	for (int i = 0; i < 25000; i++)
		shared();
	return unused;
}

static void traced(void)
{
	LONGPOLE_TRACE_TSC(2);
}

static void traced_name(void)
{
	LONGPOLE_TRACE_TSC_NAMED(2, "a name");
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";
	const unsigned long long begin = now();
	if (strcmp(what, "calls") == 0) {
		for (int i = 0; i < 10; i++)
			calls(i == 8 ? 30000000 : 20000);
	} else if (strcmp(what, "recursion") == 0) {
		fibonacci(20);
	} else if (strcmp(what, "threads") == 0) {
		pthread_t threads[4];
		for (int i = 0; i < 4; i++)
			pthread_create(&threads[i], NULL, thread, NULL);
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		/* The remaining calls of each thread were reported when it ended. */
		for (int i = 0; i < 10000; i++)
			shared();
	} else if (strcmp(what, "trace") == 0) {
		for (int i = 0; i < 4; i++) {
			traced();
			traced_name();
		}
	} else {
		char name[1001];
		memset(name, 'x', sizeof name - 1);
		name[1000] = 0;
		for (int i = 0; i < 2; i++) {
			LONGPOLE_LOG_TSC_NAMED(1, name);
		}
		LONGPOLE_LOG_TSC_NAMED(0, "");
	}
	printf("%llu\n", now() - begin);
	return 0;
}

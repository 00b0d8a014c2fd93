/*
 * A known amount of kernel events. Pairs of threads pass a byte back and forth through two pipes,
 * and make system calls that do not wait before each handover.
 *
 * storm PAIRS ROUNDS CALLS: each pair does ROUNDS rounds, with CALLS calls of getppid before each
 * handover.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static long rounds, calls;

struct end {
	int from, to, begins;
};

static void hand_over(int to)
{
	for (long call = 0; call < calls; call++)
		syscall(SYS_getppid);
	if (write(to, "x", 1) != 1)
		exit(2);
}

static void *end(void *argument)
{
	struct end *end = argument;
	char byte;
	if (end->begins)
		hand_over(end->to);
	for (long round = 0; round < rounds; round++) {
		if (read(end->from, &byte, 1) != 1)
			exit(2);
		if (!end->begins || round + 1 < rounds)
			hand_over(end->to);
	}
	return NULL;
}

int main(int count, char **arguments)
{
	if (count != 4)
		return 1;
	long pairs = atol(arguments[1]);
	rounds = atol(arguments[2]);
	calls = atol(arguments[3]);
	pthread_t *threads = calloc(2 * pairs, sizeof *threads);
	struct end *ends = calloc(2 * pairs, sizeof *ends);
	if (!threads || !ends)
		return 1;
	for (long pair = 0; pair < pairs; pair++) {
		int there[2], back[2];
		if (pipe(there) || pipe(back))
			return 1;
		ends[2 * pair] = (struct end){back[0], there[1], 1};
		ends[2 * pair + 1] = (struct end){there[0], back[1], 0};
	}
	for (long thread = 0; thread < 2 * pairs; thread++)
		if (pthread_create(&threads[thread], NULL, end, &ends[thread]))
			return 1;
	for (long thread = 0; thread < 2 * pairs; thread++)
		pthread_join(threads[thread], NULL);
	return 0;
}

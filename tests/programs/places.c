/*
 * Known places of waiting and computing, for tests of the stacks of waits.
 *
 * usage: places alone | lock | helper SECONDS
 *
 * alone: one thread computes, makes one long wait, and many short ones, in turn.
 * lock:  two threads need one lock; each holds it while it waits, and then computes a little until
 *        the other one holds it.
 * helper: one thread pauses, and asks another one that computes the answer; both waits are in one
 *        function.
 *
 * At the end it prints a line with the time in ns of each place, as `NAME NS`.
 */

#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SHORT_WAITS = 8 };

#define PLACE __attribute__((noinline, noclone))

static volatile uint64_t sink;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* A function, even an inlined one, would be the place of all waits. */
#define SLEEP_NS(ns) nanosleep(&(struct timespec){ 0, ns }, NULL)

PLACE static void computes(uint64_t ns)
{
	uint64_t x = 1, end = now() + ns;
	while (now() < end)
		for (int i = 0; i < 1000; i++)
			x = x * 6364136223846793005u + 1442695040888963407u;
	sink = x;
}

PLACE static void waits_long(void)
{
	SLEEP_NS(6000000);
	sink++;
}

PLACE static void waits_short(void)
{
	SLEEP_NS(150000);
	sink++;
}

PLACE static void stage_of_waits(void)
{
	for (int i = 0; i < SHORT_WAITS; i++)
		waits_short();
	sink++;
}

PLACE static void takes_lock(void)
{
	pthread_mutex_lock(&lock);
	sink++;
}

PLACE static void releases_lock(void)
{
	pthread_mutex_unlock(&lock);
	sink++;
}

PLACE static void holds_lock(void)
{
	SLEEP_NS(3000000);
	sink++;
}

static void alone(uint64_t end)
{
	uint64_t times[3] = { 0, 0, 0 };
	while (now() < end) {
		uint64_t begin = now();
		computes(3000000);
		uint64_t computed = now();
		waits_long();
		uint64_t waited = now();
		stage_of_waits();
		times[0] += computed - begin;
		times[1] += waited - computed;
		times[2] += now() - waited;
	}
	printf("computes %llu\nwaits_long %llu\nwaits_short %llu\n", (unsigned long long)times[0],
	       (unsigned long long)times[1], (unsigned long long)times[2]);
}

/*
 * A thread could take the lock again before the other one, which has been woken, runs; then nobody
 * would wait for the lock any more. So it lets the other one run, possibly on its own CPU.
 */
static void *user_of_lock(void *end)
{
	static volatile pthread_t holder;
	while (now() < *(uint64_t *)end) {
		takes_lock();
		holder = pthread_self();
		holds_lock();
		releases_lock();
		do {
			computes(20000);
			sched_yield();
		} while (holder == pthread_self() && now() < *(uint64_t *)end);
	}
	return NULL;
}

static int questions[2], answers[2];

/* Waits for input, or until the time is over. */
PLACE static void waits_for_anything(int input, int milliseconds)
{
	struct pollfd what = { .fd = input, .events = POLLIN };
	poll(&what, 1, milliseconds);
	sink++;
}

PLACE static void pauses(void)
{
	waits_for_anything(answers[0], 3);
	sink++;
}

PLACE static void asks(void)
{
	char byte = 0;
	if (write(questions[1], &byte, 1) != 1)
		exit(1);
	waits_for_anything(answers[0], -1);
	if (read(answers[0], &byte, 1) != 1)
		exit(1);
	sink++;
}

static void *answerer(void *unused)
{
	char byte;
	while (read(questions[0], &byte, 1) == 1) {
		computes(3000000);
		if (write(answers[1], &byte, 1) != 1)
			exit(1);
	}
	return unused;
}

static int helper(uint64_t end)
{
	pthread_t other;
	if (pipe(questions) != 0 || pipe(answers) != 0 || pthread_create(&other, NULL, answerer, NULL) != 0)
		return 1;
	while (now() < end) {
		pauses();
		asks();
	}
	close(questions[1]);
	return pthread_join(other, NULL);
}

int main(int count, char **arguments)
{
	if (count < 3)
		return 2;
	uint64_t end = now() + (uint64_t)(atof(arguments[2]) * 1e9);
	if (!strcmp(arguments[1], "alone")) {
		alone(end);
	} else if (!strcmp(arguments[1], "lock")) {
		pthread_t other;
		if (pthread_create(&other, NULL, user_of_lock, &end) != 0)
			return 1;
		user_of_lock(&end);
		pthread_join(other, NULL);
	} else if (!strcmp(arguments[1], "helper")) {
		return helper(end);
	} else {
		return 2;
	}
	return 0;
}

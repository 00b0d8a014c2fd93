/*
 * Functions of different durations, recorded by longpole/auto.h. Prints how often each was called.
 *
 *     tiny      a few instructions, 3,000,000 calls in two threads
 *     grown     short for 500,000 calls, then long for 50,000: several microseconds on any host
 *     long_one  always long, 2,000 calls
 *     left      leaves `jumped`, 100 times, by a longjmp
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>

static volatile unsigned long sum;
static jmp_buf place;

__attribute__((noinline)) unsigned long tiny(unsigned long value);
__attribute__((noinline)) void long_one(void);
__attribute__((noinline)) void grown(int rounds);
__attribute__((noinline)) void left(int value);
__attribute__((noinline)) void jumped(void);

unsigned long tiny(unsigned long value)
{
	return value * 3 + 1;
}

static void turn(int rounds)
{
	for (volatile int i = 0; i < rounds; i++)
		;
}

void long_one(void)
{
	turn(5000);
}

void grown(int rounds)
{
	for (volatile int i = 0; i < rounds; i++)
		;
}

void left(int value)
{
	longjmp(place, value);
}

void jumped(void)
{
	left(1);
}

static void *thread(void *unused)
{
	for (int i = 0; i < 1500000; i++)
		sum = tiny(sum);
	return unused;
}

int main(void)
{
	pthread_t other;
	pthread_create(&other, NULL, thread, NULL);
	thread(NULL);
	pthread_join(other, NULL);
	for (int i = 0; i < 2000; i++)
		long_one();
	for (int i = 0; i < 500000; i++)
		grown(0);
	for (int i = 0; i < 50000; i++)
		grown(20000);
	for (volatile int i = 0; i < 100; i++)
		if (setjmp(place) == 0)
			jumped();
	printf("tiny 3000000\ngrown 550000\nlong_one 2000\nleft 100\njumped 100\n");
	return 0;
}

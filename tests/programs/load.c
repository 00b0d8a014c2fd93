/*
 * Load for the scheduler, for SECONDS. At the end it prints "done" when every thread is blocked,
 * and all threads stay blocked until stdin ends. A test that then reads their accounts in /proc
 * finds them complete.
 *
 * usage: load pipes SECONDS      two processes pass a byte back and forth, in bursts
 *        load sleeps SECONDS     eight threads sleep up to 3 ms and compute up to 0.5 ms
 *        load spins SECONDS      three threads compute, so that they preempt each other
 *        load datagrams SECONDS  one process sends datagrams over the loopback to another one
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double ends;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void compute(double seconds)
{
	for (double until = now() + seconds; now() < until;)
		;
}

static void rest(double seconds)
{
	struct timespec t = { .tv_nsec = (long)(seconds * 1e9) };
	nanosleep(&t, NULL);
}

/* Waits until no process has the other end of stdin open. */
static void stay(void)
{
	char byte;
	while (read(0, &byte, 1) > 0)
		;
}

static void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

static void pipes(void)
{
	int there[2], back[2];
	char byte = 0;
	check(pipe(there) != 0 || pipe(back) != 0, "pipe");
	pid_t child = fork();
	check(child < 0, "fork");
	if (child == 0) {
		while (read(there[0], &byte, 1) == 1 && byte == 0)
			check(write(back[1], &byte, 1) != 1, "write");
		stay();
		_exit(0);
	}
	while (now() < ends) {
		for (int i = 0; i < 50; i++)
			check(write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1, "pipe");
		rest(2e-3);
	}
	byte = 1;
	check(write(there[1], &byte, 1) != 1, "write");
}

/* Barrier for all threads and the main thread. After it the threads stay blocked as well. */
static pthread_barrier_t all;

static void *sleeps(void *seed)
{
	unsigned state = (unsigned)(uintptr_t)seed;
	while (now() < ends) {
		rest((double)(rand_r(&state) % 3000) * 1e-6);
		compute((double)(rand_r(&state) % 500) * 1e-6);
	}
	pthread_barrier_wait(&all);
	pause();
	return NULL;
}

static void *spins(void *seed)
{
	unsigned state = (unsigned)(uintptr_t)seed;
	while (now() < ends) {
		compute(20e-3);
		rest((double)(rand_r(&state) % 10000) * 1e-6);
	}
	pthread_barrier_wait(&all);
	pause();
	return NULL;
}

static void threads(void *(*body)(void *), int count)
{
	pthread_t thread;
	pthread_barrier_init(&all, NULL, (unsigned)count + 1);
	for (int i = 0; i < count; i++)
		check(pthread_create(&thread, NULL, body, (void *)(uintptr_t)(i + 1)) != 0, "pthread_create");
	pthread_barrier_wait(&all);
}

static void datagrams(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	char data[512] = { 0 };
	int receiver = socket(AF_INET, SOCK_DGRAM, 0), sender = socket(AF_INET, SOCK_DGRAM, 0);
	check(receiver < 0 || sender < 0, "socket");
	check(bind(receiver, (struct sockaddr *)&address, size) != 0, "bind");
	check(getsockname(receiver, (struct sockaddr *)&address, &size) != 0, "getsockname");
	pid_t child = fork();
	check(child < 0, "fork");
	if (child == 0) {
		struct pollfd wait = { .fd = receiver, .events = POLLIN };
		while (now() < ends)
			while (poll(&wait, 1, 100) == 1 && recv(receiver, data, sizeof(data), 0) > 0)
				;
		stay();
		_exit(0);
	}
	while (now() < ends) {
		for (int i = 0; i < 5; i++)
			check(sendto(sender, data, sizeof(data), 0, (struct sockaddr *)&address, size) < 0, "sendto");
		rest(1e-3);
	}
	/* During this time the child reads the clock and ends its loop. */
	rest(0.2);
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: load pipes|sleeps|spins|datagrams SECONDS\n");
		return 2;
	}
	ends = now() + atof(argv[2]);
	if (strcmp(argv[1], "pipes") == 0)
		pipes();
	else if (strcmp(argv[1], "sleeps") == 0)
		threads(sleeps, 8);
	else if (strcmp(argv[1], "spins") == 0)
		threads(spins, 3);
	else
		datagrams();
	rest(0.1);
	check(write(1, "done\n", 5) != 5, "write");
	stay();
	return 0;
}

/*
 * The least cost of draining: writes the same number of bytes from the same kind of mapping to a
 * file, by write, sendfile and O_DIRECT, in steps of one sub-buffer of a 4 MiB ring. The three ways
 * alternate. Prints for each way the draining thread's CPU ns per byte, user and system together.
 *
 *     write FILE MEGABYTES ROUNDS MEGABYTES_PER_SECOND
 *
 * With a rate of 0 the ring is filled once and written repeatedly: no thread sleeps, and the caches
 * stay warm. With another rate, another thread fills the ring meanwhile, as a traced thread does,
 * and the draining thread sleeps until a step is complete.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <time.h>
#include <unistd.h>

#define RING (4u << 20)
#define STEP (1u << 20)
/* Number of bytes after which the filling thread reads the clock. */
#define STRIDE (64u << 10)

struct ring {
	char *memory;
	int file;
	uint64_t bytes;
	double rate;
	_Atomic uint64_t head, tail;
};

static double seconds(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *fill(void *argument)
{
	struct ring *ring = argument;
	const struct timespec pause = {0, 1000000};
	const double begin = seconds(CLOCK_MONOTONIC);
	for (uint64_t at = 0; at < ring->bytes; at += STRIDE) {
		while ((double)at > (seconds(CLOCK_MONOTONIC) - begin) * ring->rate || at + STRIDE - ring->tail > RING)
			nanosleep(&pause, NULL);
		uint64_t *words = (uint64_t *)(void *)(ring->memory + at % RING);
		for (uint64_t i = 0; i < STRIDE / 8; i++)
			words[i] = at + i;
		ring->head = at + STRIDE;
	}
	return NULL;
}

/* Returns the CPU ns per byte, or a negative number on failure. */
static double drain(struct ring *ring, int file, int by_sendfile)
{
	const struct timespec pause = {0, 3000000};
	pthread_t filling;
	ring->head = ring->rate > 0 ? 0 : ring->bytes;
	ring->tail = 0;
	if (ring->rate > 0 && pthread_create(&filling, NULL, fill, ring) != 0)
		return -1;
	const double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
	while (ring->tail < ring->bytes) {
		if (ring->head - ring->tail < STEP) {
			nanosleep(&pause, NULL);
			continue;
		}
		off_t at = (off_t)(ring->tail % RING);
		const ssize_t result = by_sendfile ? sendfile(file, ring->file, &at, STEP) : write(file, ring->memory + at, STEP);
		if (result != (ssize_t)STEP)
			return -1;
		ring->tail += STEP;
	}
	const double took = seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
	if (ring->rate > 0)
		pthread_join(filling, NULL);
	return 1e9 * took / (double)ring->bytes;
}

int main(int count, char **arguments)
{
	if (count != 5)
		return 2;
	const char *path = arguments[1];
	struct ring ring = {.bytes = strtoul(arguments[2], NULL, 10) << 20, .rate = 1e6 * strtod(arguments[4], NULL)};
	const unsigned rounds = (unsigned)strtoul(arguments[3], NULL, 10);
	char name[] = "/dev/shm/longpole-bench-XXXXXX";
	ring.file = mkostemp(name, O_CLOEXEC);
	if (ring.file < 0 || unlink(name) < 0 || ftruncate(ring.file, RING) < 0)
		return perror("/dev/shm"), 1;
	ring.memory = mmap(NULL, RING, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.file, 0);
	if (ring.memory == MAP_FAILED)
		return perror("mmap"), 1;
	for (uint64_t i = 0; i < RING / 8; i++)
		((uint64_t *)(void *)ring.memory)[i] = i * 0x9e3779b97f4a7c15u;
	static const char *const ways[] = {"write", "sendfile", "O_DIRECT"};
	for (unsigned n = 0; n < rounds; n++)
		for (unsigned i = 0; i < 3; i++) {
			const unsigned way = (i + n) % 3;
			const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | (way == 2 ? O_DIRECT : 0), 0600);
			if (file < 0) {
				if (way == 2)
					continue;
				return perror(path), 1;
			}
			const double ns = drain(&ring, file, way == 1);
			if (ns < 0)
				return perror(ways[way]), 1;
			printf("%s\t%.4f\n", ways[way], ns);
			close(file);
			unlink(path);
		}
	return 0;
}

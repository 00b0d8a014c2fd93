/*
 * The cheapest that draining could be: the same bytes from the same kind of mapping to a file, by write, sendfile and O_DIRECT, in steps of
 * one sub-buffer of a 4 MiB ring. Prints per way the CPU ns of a byte, user and system together; the ways take turns.
 *
 *     write FILE MEGABYTES ROUNDS
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <unistd.h>

#define RING (4u << 20)
#define STEP (1u << 20)

static double cpu_ns(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return 1e9 * (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + 1e3 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

int main(int count, char **arguments)
{
	if (count != 4)
		return 2;
	const char *path = arguments[1];
	const uint64_t bytes = strtoul(arguments[2], NULL, 10) << 20;
	const unsigned rounds = (unsigned)strtoul(arguments[3], NULL, 10);
	char name[] = "/dev/shm/longpole-bench-XXXXXX";
	const int source = mkostemp(name, O_CLOEXEC);
	if (source < 0 || unlink(name) < 0 || ftruncate(source, RING) < 0)
		return perror("/dev/shm"), 1;
	char *ring = mmap(NULL, RING, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, source, 0);
	if (ring == MAP_FAILED)
		return perror("mmap"), 1;
	for (uint64_t i = 0; i < RING / 8; i++)
		((uint64_t *)(void *)ring)[i] = i * 0x9e3779b97f4a7c15u;
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
			const double begin = cpu_ns();
			for (uint64_t done = 0; done < bytes; done += STEP) {
				off_t at = (off_t)(done % RING);
				ssize_t result = way == 1 ? sendfile(file, source, &at, STEP) : write(file, ring + at, STEP);
				if (result != (ssize_t)STEP)
					return perror(ways[way]), 1;
			}
			printf("%s\t%.4f\n", ways[way], (cpu_ns() - begin) / (double)bytes);
			close(file);
			unlink(path);
		}
	return 0;
}

/*
 * A library to be preloaded. It shifts CLOCK_REALTIME and CLOCK_MONOTONIC_RAW by the two 8-byte
 * numbers in the file $SHIFTED_CLOCK, in ns.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("SHIFTED_CLOCK");
	const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (file < 0)
		return;
	void *mapped = mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0);
	if (mapped != MAP_FAILED)
		shift = mapped;
	close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	const int result = (int)syscall(SYS_clock_gettime, clock, time);
	if (result == 0 && shift != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC_RAW)) {
		const int64_t ns = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec + shift[clock == CLOCK_MONOTONIC_RAW];
		time->tv_sec = ns / 1000000000;
		time->tv_nsec = ns % 1000000000;
	}
	return result;
}

/*
 * The CPU time of each thread of this program in a period, like seL4's benchmark interface
 * (seL4_BenchmarkResetLog, seL4_BenchmarkFinalizeLog, seL4_BenchmarkGetThreadUtilisation). It needs
 * no recorder and no privileges.
 *
 *     LONGPOLE_UTILISATION_RESET();                        begins a period
 *     LONGPOLE_UTILISATION_FINALIZE();                     ends it
 *     struct longpole_utilisation used;
 *     if (LONGPOLE_UTILISATION_THREAD(tid, &used)) ...     CPU time of a thread in the period;
 *                                                          tid 0: the calling thread
 *
 * There is one period at a time per program; only one thread at a time may use these macros. They
 * make system calls, so they should enclose the measured code, not be part of it. With
 * LONGPOLE_DISABLE they compile to nothing, no argument is evaluated, and no thread is known.
 */
#ifndef LONGPOLE_UTILISATION_H
#define LONGPOLE_UTILISATION_H

#include "platform.h"
#include "types.h"

struct longpole_utilisation {
	/* Time that the thread ran, and time that it was ready while another thread ran, in ns. The
	 * latter is all ones if the kernel does not count it. */
	uint64_t thread_ns;
	uint64_t waiting_ns;
	/* Number of times that the thread got a CPU; all ones if the kernel does not count it. */
	uint64_t schedules;
	/* Idle time of all CPUs together in ns, in steps of the kernel's tick (10 ms); all ones if
	 * unknown. */
	uint64_t idle_ns;
	/* Duration of the period, by the clock in ns and by the time-stamp counter in cycles. */
	uint64_t total_ns;
	uint64_t total_cycles;
	/* Number of CPUs in idle_ns. */
	uint32_t cpus;
};

#define LONGPOLE_UTILISATION_UNKNOWN LONGPOLE_U64_MAX

#if defined(LONGPOLE_DISABLE)

#define LONGPOLE_UTILISATION_RESET() ((void)0)
#define LONGPOLE_UTILISATION_FINALIZE() ((void)0)
#define LONGPOLE_UTILISATION_THREAD(tid, result) (0 ? ((void)(tid), (void)(result), 0) : 0)

#else

#include "system.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* Maximum number of threads that are sampled. Further threads are unknown. */
#define LONGPOLE_UTILISATION_THREADS 1024

struct longpole_utilisation_sample {
	uint64_t ran, waited, schedules;
	int32_t tid;
	/* Used for a thread at the end of the period: its index among the threads at the start; -1 if
	 * it did not exist then. */
	int32_t seen;
};

struct longpole_utilisation_moment {
	uint64_t ns, counter, idle;
	uint32_t cpus, count;
	struct longpole_utilisation_sample threads[LONGPOLE_UTILISATION_THREADS];
};

struct longpole_utilisation_period {
	struct longpole_utilisation_moment begin, end;
	int complete;
};

LONGPOLE_SLOW struct longpole_utilisation_period *longpole_utilisation_period(void)
{
	static struct longpole_utilisation_period period;
	return &period;
}

LONGPOLE_INLINE uint64_t longpole_utilisation_clock(int clock)
{
	int64_t time[2] = {0, 0};
	const long result = longpole_call(SYS_clock_gettime, (uintptr_t)clock, (uintptr_t)time, 0, 0, 0, 0);
	return result < 0 ? LONGPOLE_UTILISATION_UNKNOWN : (uint64_t)time[0] * 1000000000u + (uint64_t)time[1];
}

/* Reads the first bytes of a file, NUL-terminated; returns their number. */
LONGPOLE_INLINE size_t longpole_utilisation_read(const char *path, char *buffer, size_t capacity)
{
	const long file = longpole_open((int)LONGPOLE_AT_FDCWD, path, LONGPOLE_O_RDONLY, 0);
	size_t length = 0;
	if (file >= 0) {
		for (;;) {
			const long more = longpole_call(SYS_read, (uintptr_t)file, (uintptr_t)(buffer + length), capacity - 1 - length, 0, 0, 0);
			if (more <= 0)
				break;
			length += (size_t)more;
		}
		longpole_close((int)file);
	}
	buffer[length] = 0;
	return length;
}

/* Parses the next number of a text and advances the text; unknown at the end of the text. */
LONGPOLE_INLINE uint64_t longpole_utilisation_number(const char **text)
{
	uint64_t number = 0;
	while (**text == ' ')
		(*text)++;
	if (**text < '0' || **text > '9')
		return LONGPOLE_UTILISATION_UNKNOWN;
	while (**text >= '0' && **text <= '9')
		number = number * 10 + (uint64_t)(*(*text)++ - '0');
	return number;
}

LONGPOLE_SLOW void longpole_utilisation_thread_now(int tid, struct longpole_utilisation_sample *sample)
{
	char path[64], text[96];
	const char *rest = text;
	size_t length = longpole_append(path, sizeof path, 0, "/proc/self/task/");
	length = longpole_append_number(path, sizeof path, length, (uint64_t)tid, 10, 0);
	longpole_append(path, sizeof path, length, "/schedstat");
	longpole_utilisation_read(path, text, sizeof text);
	sample->tid = tid;
	sample->seen = -1;
	sample->ran = longpole_utilisation_number(&rest);
	sample->waited = longpole_utilisation_number(&rest);
	sample->schedules = longpole_utilisation_number(&rest);
	/* The thread's CPU clock has the current value; the file has that of the last tick. */
	const uint64_t ran = longpole_utilisation_clock((int)(~(unsigned)tid << 3 | 6u));
	if (ran != LONGPOLE_UTILISATION_UNKNOWN)
		sample->ran = ran;
}

/* Reads the idle time of all CPUs together, and the number of CPUs. */
LONGPOLE_SLOW void longpole_utilisation_idle(struct longpole_utilisation_moment *moment)
{
	/* Large enough for the lines of hundreds of CPUs; further CPUs are not counted. */
	char text[16384];
	const char *rest = text;
	const uint64_t tick = 1000000000u / (longpole_libc_getauxval(17 /* AT_CLKTCK */) | (longpole_libc_getauxval(17) == 0));
	moment->idle = LONGPOLE_UTILISATION_UNKNOWN;
	moment->cpus = 0;
	longpole_utilisation_read("/proc/stat", text, sizeof text);
	if (rest[0] != 'c' || rest[1] != 'p' || rest[2] != 'u' || rest[3] != ' ')
		return;
	rest += 4;
	for (int field = 0; field < 3; field++)
		longpole_utilisation_number(&rest);
	const uint64_t idle = longpole_utilisation_number(&rest), waiting = longpole_utilisation_number(&rest);
	if (idle != LONGPOLE_UTILISATION_UNKNOWN && waiting != LONGPOLE_UTILISATION_UNKNOWN)
		moment->idle = (idle + waiting) * tick;
	while (*rest != 0)
		if (*rest++ == '\n' && rest[0] == 'c' && rest[1] == 'p' && rest[2] == 'u')
			moment->cpus++;
}

/* Samples every thread of the program. */
LONGPOLE_SLOW void longpole_utilisation_take(struct longpole_utilisation_moment *moment)
{
	/* struct linux_dirent64: inode, offset, 16-bit length, type, name. */
	char entries[4096] __attribute__((aligned(8)));
	moment->count = 0;
	const long folder = longpole_open((int)LONGPOLE_AT_FDCWD, "/proc/self/task", LONGPOLE_O_RDONLY | LONGPOLE_O_DIRECTORY, 0);
	for (;;) {
		const long bytes = folder < 0 ? 0 : longpole_call(SYS_getdents64, (uintptr_t)folder, (uintptr_t)entries, sizeof entries, 0, 0, 0);
		if (bytes <= 0)
			break;
		for (long at = 0; at + 19 < bytes;) {
			const char *name = entries + at + 19;
			const uint64_t tid = longpole_utilisation_number(&name);
			uint16_t length;
			__builtin_memcpy(&length, entries + at + 16, 2);
			if (tid != LONGPOLE_UTILISATION_UNKNOWN && moment->count < LONGPOLE_UTILISATION_THREADS)
				longpole_utilisation_thread_now((int)tid, &moment->threads[moment->count++]);
			at += length;
		}
	}
	if (folder >= 0)
		longpole_close((int)folder);
	if (moment->count == 0)
		longpole_utilisation_thread_now(longpole_gettid(), &moment->threads[moment->count++]);
	longpole_utilisation_idle(moment);
	moment->ns = longpole_utilisation_clock(1 /* CLOCK_MONOTONIC */);
	moment->counter = longpole_counter();
}

LONGPOLE_SLOW void longpole_utilisation_reset(void)
{
	struct longpole_utilisation_period *period = longpole_utilisation_period();
	period->complete = 0;
	longpole_utilisation_take(&period->begin);
}

LONGPOLE_SLOW void longpole_utilisation_finalize(void)
{
	struct longpole_utilisation_period *period = longpole_utilisation_period();
	longpole_utilisation_take(&period->end);
	for (uint32_t at = 0; at < period->end.count; at++) {
		struct longpole_utilisation_sample *sample = &period->end.threads[at];
		for (uint32_t before = 0; before < period->begin.count; before++) {
			const struct longpole_utilisation_sample *begin = &period->begin.threads[before];
			/* A thread that has run for less time than at the start is another one with the same
			 * id. */
			if (begin->tid == sample->tid && begin->ran <= sample->ran)
				sample->seen = (int32_t)before;
		}
	}
	period->complete = period->begin.ns != 0;
}

LONGPOLE_INLINE uint64_t longpole_utilisation_between(uint64_t begin, uint64_t end)
{
	const int known = begin != LONGPOLE_UTILISATION_UNKNOWN && end != LONGPOLE_UTILISATION_UNKNOWN;
	return !known ? LONGPOLE_UTILISATION_UNKNOWN : end > begin ? end - begin : 0;
}

/* The results of a thread; returns 0 if no period is complete, or if the program had no such thread
 * at the end of the period. */
LONGPOLE_SLOW int longpole_utilisation_thread(int tid, struct longpole_utilisation *result)
{
	const struct longpole_utilisation_period *period = longpole_utilisation_period();
	const struct longpole_utilisation_moment *begin = &period->begin, *end = &period->end;
	const int wanted = tid != 0 ? tid : longpole_gettid();
	for (uint32_t at = 0; period->complete && at < end->count; at++) {
		const struct longpole_utilisation_sample *last = &end->threads[at];
		if (last->tid != wanted)
			continue;
		/* The thread started in the period, or it was sampled at the start of the period. */
		const struct longpole_utilisation_sample *first = last->seen < 0 ? NULL : &begin->threads[last->seen];
		result->thread_ns = longpole_utilisation_between(first ? first->ran : 0, last->ran);
		result->waiting_ns = longpole_utilisation_between(first ? first->waited : 0, last->waited);
		result->schedules = longpole_utilisation_between(first ? first->schedules : 0, last->schedules);
		result->idle_ns = longpole_utilisation_between(begin->idle, end->idle);
		result->total_ns = longpole_utilisation_between(begin->ns, end->ns);
		result->total_cycles = end->counter - begin->counter;
		result->cpus = end->cpus;
		return 1;
	}
	return 0;
}

#define LONGPOLE_UTILISATION_RESET() longpole_utilisation_reset()
#define LONGPOLE_UTILISATION_FINALIZE() longpole_utilisation_finalize()
#define LONGPOLE_UTILISATION_THREAD(tid, result) longpole_utilisation_thread(tid, result)

#if defined(__cplusplus)
}
#endif

#endif

#endif

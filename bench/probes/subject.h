/*
 * What is measured: loops that differ in one thing, the probe in their body. A table of loops is
 * compiled into an executable with subject.c, or into a shared library that subject.c loads. Ours
 * and those of every peer are of the same shape, so that all are timed by the same code.
 */
#ifndef SUBJECT_H
#define SUBJECT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* What a thread's ring has, ours and barectf's, and what the limit stores to: it stays in the
 * second-level cache. */
#define SUBJECT_BUFFER (1u << 20)

struct loop {
	const char *name;
	void (*run)(uint64_t turns);
	uint32_t events; /* of a turn; 0: nothing is recorded */
	uint32_t slow;   /* how many times longer a turn takes than that of a plain probe, roughly: so many fewer turns */
	uint32_t bytes;  /* that an event takes in a buffer of SUBJECT_BUFFER bytes that is used again and again; 0: there is none */
};

/* All functions but `loop` may be missing. */
struct table {
	const char *states; /* separated by blanks: on, overwrite, off, out */
	const struct loop *loop;
	uint32_t count;
	/* Takes the state from here on, in all threads. */
	void (*take)(const char *state);
	/* In the thread that is going to run a loop: makes room, so that no event is lost. */
	void (*before)(void);
	/* Bytes and events that this thread has recorded so far. */
	uint64_t (*bytes)(void);
	uint64_t (*events)(void);
	/* Events that were lost so far, in all threads. */
	uint64_t (*lost)(void);
	/* New threads from here on begin with the smallest buffer (1), or with one in which nothing is
	 * lost (0). */
	void (*first)(int first);
	/* Call sites that are hit for the first time, one after the other. */
	void (*const *site)(uint64_t);
	uint32_t sites;
	/* At the beginning and at the end; in the folder of the run. Not 0: it failed, and said why on
	 * stderr. `end` prints lines "NAME VALUE". */
	int (*begin)(const char *folder);
	int (*end)(const char *folder);
};

/* A table with probes, and one of the same loops without them. */
extern const struct table *table_on(void);
extern const struct table *table_out(void);

/* The turn happens, and the compiler knows nothing of what it did. */
#define KEEP(value) __asm__ __volatile__("" : : "r"(value) : "memory")

#define LOOP(name, body)                                                                                                 \
	__attribute__((noinline, aligned(64))) static void name(uint64_t turns)                                              \
	{                                                                                                                    \
		for (uint64_t i = 0; i < turns; i++) {                                                                           \
			body;                                                                                                        \
			KEEP(i);                                                                                                     \
		}                                                                                                                \
	}

#if defined(__cplusplus)
}
#endif

#endif

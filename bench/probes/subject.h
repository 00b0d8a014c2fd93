/*
 * The measured loops, which differ only in the probe in their body. A table of loops is compiled
 * into an executable with subject.c, or into a shared library that subject.c loads. Our loops and
 * those of other tracers have the same form, so that the same code times all of them.
 */
#ifndef SUBJECT_H
#define SUBJECT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Size of a thread's ring, ours and barectf's, and of the buffer to which the limit stores. It fits
 * into the second-level cache. */
#define SUBJECT_BUFFER (1u << 20)

struct loop {
	const char *name;
	void (*run)(uint64_t turns);
	uint32_t events; /* events per turn; 0: nothing is recorded */
	uint32_t slow;   /* approximate duration of a turn, in turns with a plain probe; divides the number of turns */
	uint32_t bytes;  /* size of an event in a cyclic buffer of SUBJECT_BUFFER bytes; 0: there is no such buffer */
};

/* Everything except `loop` may be missing. */
struct table {
	const char *states; /* separated by blanks: on, overwrite, off, out */
	const struct loop *loop;
	uint32_t count;
	/* Changes to this state, in all threads. */
	void (*take)(const char *state);
	/* Empties the buffer, so that no event is lost. Called in the thread that will run a loop. */
	void (*before)(void);
	/* Bytes and events that this thread has recorded since its begin. */
	uint64_t (*bytes)(void);
	uint64_t (*events)(void);
	/* Events that all threads have lost since the begin. */
	uint64_t (*lost)(void);
	/* Sets the first buffer of new threads: the smallest one (1), or one in which no event is lost
	 * (0). */
	void (*first)(int first);
	/* Call sites that are executed for the first time, one after the other. */
	void (*const *site)(uint64_t);
	uint32_t sites;
	/* Called at the begin and at the end, with the folder of the run. A result other than 0 means
	 * failure, with the reason on stderr. `end` prints lines "NAME VALUE". */
	int (*begin)(const char *folder);
	int (*end)(const char *folder);
};

/* The table of loops with probes, and that of the same loops without probes. */
extern const struct table *table_on(void);
extern const struct table *table_out(void);

/* Keeps the compiler from optimising across turns. */
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

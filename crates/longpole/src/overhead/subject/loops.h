/*
 * What is measured: loops that differ in one thing, the probe in their body. The same file is
 * compiled into an executable and into a shared library, with probes and with LONGPOLE_DISABLE,
 * because what a probe costs depends on where it lies.
 */
#ifndef LOOPS_H
#define LOOPS_H

#include <stddef.h>
#include <stdint.h>

struct longpole_control;
struct longpole_ring;

/* Memory for the stores of the bare loops, as large as a ring. */
struct bare {
	uint64_t *words;
	uint64_t position; /* bytes */
	uint64_t mask;
};

struct loop {
	const char *name;
	void (*run)(uint64_t turns, struct bare *bare);
	uint32_t events; /* a turn */
	uint32_t bytes;  /* that an event takes in the trace; 0: no event */
};

/* A turn is four probes: begin outer, begin inner, end inner, end outer. */
struct nest {
	const char *name;
	void (*run)(uint64_t turns);
	uint32_t bytes; /* of each event */
};

struct loops {
	const struct loop *loop;
	uint32_t count;
	const struct nest *nest;
	uint32_t nests;
	/* Call sites that are hit for the first time, one after the other. */
	void (*const *site)(uint64_t);
	uint32_t sites;
	/* The recorder's view of the probes of this executable or library; NULL where they are compiled
	 * out. */
	struct longpole_control *(*control)(void);
	struct longpole_ring *(*ring)(void);
};

extern const struct loops *loops_on(void);
extern const struct loops *loops_compiled_out(void);

#endif

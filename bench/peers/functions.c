/* A loop of calls of function.c. With FUNCTIONS_OURS it has our hooks. They record a span if
 * LONGPOLE_AUTO_SHORT is 0, and otherwise leave out such a short function. uftrace provides its own
 * hooks. */
#include "subject.h"

extern void bench_function(uint64_t value);

LOOP(call, bench_function(i))

#if defined(FUNCTIONS_OURS)
#include <longpole/auto.h>

#include "self.h"

#if LONGPOLE_AUTO_SHORT == 0
static const struct loop loops[] = {{"call", call, 2, 4, 8}};
#else
static const struct loop loops[] = {{"call left out", call, 0, 1, 8}};
#endif

static struct longpole_ring *self_ring(void)
{
	return longpole_is_open(longpole_thread) ? longpole_thread : NULL;
}

const struct table *table_on(void)
{
	static struct table table;
	self_recorded(&table, &longpole_page, self_ring);
	table.loop = loops;
	table.count = 1;
	return &table;
}
#elif defined(FUNCTIONS_OUT)
static const struct loop loops[] = {{"call", call, 0, 1, 0}};

const struct table *table_out(void)
{
	static const struct table table = {.states = "out", .loop = loops, .count = 1};
	return &table;
}
#else
static const struct loop loops[] = {{"call", call, 2, 16, 0}};

const struct table *table_on(void)
{
	static const struct table table = {.states = "on", .loop = loops, .count = 1};
	return &table;
}
#endif

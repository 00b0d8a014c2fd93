/*
 * The tables of loops in Rust (src/). With RUST_SELF the subject is its own recorder: the control
 * page and the thread's pointer are the same symbols as in our headers. With RUST_OUT its probes
 * are compiled out.
 */
#include "subject.h"

extern const struct loop *bench_loops(int off, uint32_t *count);
extern void (*const *bench_sites(uint32_t *count))(uint64_t) __attribute__((weak));
extern int bench_begin(const char *folder) __attribute__((weak));
extern void bench_end(void) __attribute__((weak));

static int begin(const char *folder)
{
	return bench_begin != NULL ? bench_begin(folder) : 0;
}

#if defined(RUST_OUT)

const struct table *table_out(void)
{
	static struct table table = {.states = "out"};
	table.loop = bench_loops(0, &table.count);
	return &table;
}

#else

#if defined(RUST_SELF)
#include <longpole/longpole.h>

#include "self.h"

static struct longpole_ring *self_ring(void)
{
	return longpole_is_open(longpole_thread) ? longpole_thread : NULL;
}

static int begin_recorded(const char *folder)
{
	return self_begin(folder) || begin(folder);
}
#endif

#if defined(RUST_TRACING)
static int end(const char *folder)
{
	(void)folder;
	if (bench_end != NULL)
		bench_end();
	return 0;
}

/* Loops of events that the subscriber's level leaves out. */
const struct table *table_out(void)
{
	static struct table table = {.states = "off"};
	table.loop = bench_loops(1, &table.count);
	return &table;
}
#endif

const struct table *table_on(void)
{
	static struct table table;
#if defined(RUST_SELF)
	self_recorded(&table, &longpole_page, self_ring);
	if (bench_sites != NULL)
		table.site = bench_sites(&table.sites);
	table.begin = begin_recorded;
#else
	table.begin = begin;
#endif
#if defined(RUST_TRACING)
	table.states = "on";
	table.end = end;
#endif
	table.loop = bench_loops(0, &table.count);
	return &table;
}

#endif

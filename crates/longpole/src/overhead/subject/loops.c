/* The loops of loops.h. Each turn's value depends on nothing, so that only what a probe costs is
 * seen, not what it waits for. */
#include "loops.h"

#include <longpole/longpole.h>

#if defined(__x86_64__)
#define COUNTER() __builtin_ia32_rdtsc()
#define APART() __builtin_ia32_lfence()
#else
static inline uint64_t counter(void)
{
	uint64_t value;
	__asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value));
	return value;
}
#define COUNTER() counter()
#define APART() __asm__ __volatile__("isb" : : : "memory")
#endif

/* The turn happens, and the compiler knows nothing of what it did. */
#define KEEP(value) __asm__ __volatile__("" : : "r"(value) : "memory")

#define LOOP(name, body)                                                                                                 \
	__attribute__((noinline, aligned(64))) static void name(uint64_t turns, struct bare *bare)                           \
	{                                                                                                                    \
		(void)bare;                                                                                                      \
		for (uint64_t i = 0; i < turns; i++) {                                                                           \
			body;                                                                                                        \
			KEEP(i);                                                                                                     \
		}                                                                                                                \
	}

LOOP(empty, )
LOOP(counter_read, uint64_t now = COUNTER(); KEEP(now))

/* The limit: the least that a tracer with a clock of its own does for an event of three words. */
__attribute__((noinline, aligned(64))) static void counter_store(uint64_t turns, struct bare *bare)
{
	char *const words = (char *)bare->words;
	const uint64_t mask = bare->mask;
	uint64_t position = bare->position;
	for (uint64_t i = 0; i < turns; i++) {
		uint64_t *place = (uint64_t *)(void *)(words + (position & mask));
		place[0] = COUNTER();
		place[1] = i;
		place[2] = i;
		place[3] = i;
		position += 32;
		KEEP(i);
	}
	bare->position = position;
}

static struct longpole_name queue = LONGPOLE_QUEUE_NAME("overhead queue", 1024, LONGPOLE_FIFO, LONGPOLE_ITEMS);

LOOP(mark, LONGPOLE_MARK("mark", i))
LOOP(span_edge, LONGPOLE_BEGIN("edge"))
LOOP(span_edge_argument, LONGPOLE_BEGIN("edge with argument", i))
LOOP(span, LONGPOLE_SPAN("span"))
LOOP(rpc, LONGPOLE_RPC_CALL("call", i))
LOOP(queue_put, LONGPOLE_QUEUE_PUT(&queue, i))

static const struct loop list[] = {
    {"empty", empty, 0, 0},
    {"counter", counter_read, 0, 0},
    {"counter+store", counter_store, 0, 0},
    {"mark", mark, 1, 16},
    {"span edge", span_edge, 1, 8},
    {"span edge, argument", span_edge_argument, 1, 16},
    {"span", span, 2, 8},
    {"rpc", rpc, 1, 16},
    {"queue put", queue_put, 1, 16},
};

#if defined(LONGPOLE_DISABLE)

const struct loops *loops_compiled_out(void)
{
	static const struct loops loops = {list, sizeof list / sizeof list[0], NULL, 0, NULL, 0, NULL, NULL};
	return &loops;
}

#else

#define SITE(n)                                                                                                          \
	static void site_##n(uint64_t value)                                                                                 \
	{                                                                                                                    \
		LONGPOLE_MARK("first hit " #n, value);                                                                           \
	}
#define SITES4(n) SITE(n##0) SITE(n##1) SITE(n##2) SITE(n##3)
#define NAMES4(n) site_##n##0, site_##n##1, site_##n##2, site_##n##3
SITES4(0) SITES4(1) SITES4(2) SITES4(3) SITES4(4) SITES4(5) SITES4(6) SITES4(7)

static void (*const sites[])(uint64_t) = {NAMES4(0), NAMES4(1), NAMES4(2), NAMES4(3), NAMES4(4), NAMES4(5), NAMES4(6), NAMES4(7)};

/* Pairs are apart from each other, so that each one begins with nothing under way. */
#define NEST(name, a, b, c, d)                                                                                           \
	__attribute__((noinline, aligned(64))) static void nest_##name(uint64_t turns)                                       \
	{                                                                                                                    \
		for (uint64_t i = 0; i < turns; i++) {                                                                           \
			APART();                                                                                                     \
			a;                                                                                                           \
			b;                                                                                                           \
			c;                                                                                                           \
			d;                                                                                                           \
		}                                                                                                                \
	}

NEST(mark, LONGPOLE_MARK("outer", i), LONGPOLE_MARK("inner", i), LONGPOLE_MARK("inner", i), LONGPOLE_MARK("outer", i))
NEST(span_edge, LONGPOLE_BEGIN("outer"), LONGPOLE_BEGIN("inner"), LONGPOLE_END("inner"), LONGPOLE_END("outer"))
NEST(span_edge_argument, LONGPOLE_BEGIN("outer", i), LONGPOLE_BEGIN("inner", i), LONGPOLE_END("inner", i), LONGPOLE_END("outer", i))
NEST(rpc, LONGPOLE_RPC_CALL("outer", i), LONGPOLE_RPC_CALL("inner", i), LONGPOLE_RPC_RETURNED("inner", i), LONGPOLE_RPC_RETURNED("outer", i))
NEST(queue_put, LONGPOLE_QUEUE_PUT(&queue, i), LONGPOLE_QUEUE_PUT(&queue, i), LONGPOLE_QUEUE_PUT(&queue, i), LONGPOLE_QUEUE_PUT(&queue, i))

static const struct nest nests[] = {
    {"mark", nest_mark, 16},
    {"span edge", nest_span_edge, 8},
    {"span edge, argument", nest_span_edge_argument, 16},
    {"rpc", nest_rpc, 16},
    {"queue put", nest_queue_put, 16},
};

static struct longpole_control *control(void)
{
	return &longpole_page;
}

static struct longpole_ring *ring(void)
{
	return longpole_is_open(longpole_thread) ? longpole_thread : NULL;
}

const struct loops *loops_on(void)
{
	static const struct loops loops = {list,  sizeof list / sizeof list[0],   nests, sizeof nests / sizeof nests[0],
	                                   sites, sizeof sites / sizeof sites[0], control, ring};
	return &loops;
}

#endif

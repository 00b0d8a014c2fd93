/*
 * LTTng-UST and our own probes in one program. Batches of both alternate, so that a disturbance of
 * a round affects both. Prints per round the ns of an event (CPU time of the thread) for: the
 * empty loop, the time-stamp read with 32 bytes stored, our mark with two words, and LTTng's event
 * with two words. The program is the recorder of our probe, as in `longpole overhead`.
 *
 *     peer ROUNDS TURNS
 */
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "two.h"

#include <longpole/longpole.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define KEEP(value) __asm__ __volatile__("" : : "r"(value) : "memory")
#define STORE (4u << 20)

static uint64_t words[STORE / 8], position;

static uint64_t cpu_ns(void)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

#define LOOP(name, body)                                                                                                 \
	__attribute__((noinline, aligned(64))) static void name(uint64_t turns)                                              \
	{                                                                                                                    \
		for (uint64_t i = 0; i < turns; i++) {                                                                           \
			body;                                                                                                        \
			KEEP(i);                                                                                                     \
		}                                                                                                                \
	}
LOOP(empty, )
LOOP(limit, uint64_t *place = &words[(position & (STORE - 1)) / 8]; place[0] = longpole_counter(); place[1] = i; place[2] = i; place[3] = i;
     position += 32)
LOOP(ours, LONGPOLE_MARK("two", i, i))
LOOP(lttng, lttng_ust_tracepoint(longpole_bench, two, i, i))

int main(int count, char **arguments)
{
	if (count != 3)
		return 2;
	const unsigned rounds = (unsigned)strtoul(arguments[1], NULL, 10);
	const uint64_t turns = strtoul(arguments[2], NULL, 10);
	static const struct {
		const char *name;
		void (*run)(uint64_t);
	} loops[] = {{"empty", empty}, {"limit", limit}, {"longpole", ours}, {"lttng-ust", lttng}};
	if (longpole_page.magic != LONGPOLE_ABI_MAGIC) {
		fprintf(stderr, "no runtime directory\n");
		return 1;
	}
	longpole_page.orders.ring_size = 4u << 20;
	longpole_page.orders.session = 1;
	longpole_page.orders.mask = 0x7ff;
	for (unsigned n = 0; n < rounds + 2; n++)
		for (unsigned i = 0; i < 4; i++) {
			const unsigned k = (i + n) % 4;
			if (longpole_is_open(longpole_thread))
				longpole_thread->tail = longpole_thread->head;
			const uint64_t begin = cpu_ns();
			loops[k].run(turns);
			const uint64_t taken = cpu_ns() - begin;
			if (n >= 2)
				printf("%u\t%s\t%.4f\n", n, loops[k].name, (double)taken / (double)turns);
		}
	fprintf(stderr, "lost %lu\n", longpole_is_open(longpole_thread) ? (unsigned long)longpole_thread->lost : 0ul);
	return 0;
}

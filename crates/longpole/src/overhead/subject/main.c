/*
 * The program that `longpole overhead` runs: it records itself. It writes its own orders into the
 * control page, and between two timed batches takes everything out of its rings by moving the tail,
 * so that no batch meets a full ring and nobody else is at work.
 *
 *     subject LIBRARY ROUNDS TURNS      all loops, here and in the library; one and two threads
 *     subject quick ROUNDS TURNS        what a mark costs here, nothing else
 *
 * It prints lines of tab-separated values and computes no statistics. Batches of all loops take
 * turns in every round, beginning with another one each time: what disturbs a round disturbs all of
 * them. Times are CPU times of the thread.
 */
#define _GNU_SOURCE
#include "loops.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <longpole/abi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#define RING (4u << 20)
#define EVERYTHING 0x7ffu
#define EMPTY 0
/* The first loop with a probe; those before are the same in all states. */
#define FIRST_PROBE 3
#define THREADS 16

static void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static uint64_t nanoseconds(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static long faults(void)
{
	struct rusage usage;
	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

static uint64_t counter(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	uint64_t value;
	__asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#endif
}

/* Where probes lie: here, or in the library. */
struct place {
	const char *name;
	const struct loops *on, *out;
};

static struct place places[2];
static uint32_t place_count;

static void order(uint32_t mask, uint32_t ring_size)
{
	for (uint32_t i = 0; i < place_count; i++) {
		struct longpole_control *control = places[i].on->control();
		if (control->magic != LONGPOLE_ABI_MAGIC)
			fail("the probes of the subject did not find their runtime directory");
		control->orders.ring_size = ring_size;
		control->orders.session = 1;
		__atomic_store_n(&control->orders.mask, mask, __ATOMIC_RELEASE);
	}
}

static void drain(struct longpole_ring *ring)
{
	if (ring != NULL)
		__atomic_store_n(&ring->tail, ring->head, __ATOMIC_RELEASE);
}

static void prepare_bare(struct bare *bare)
{
	bare->words = mmap(NULL, RING, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (bare->words == MAP_FAILED)
		fail("no memory for the bare loops");
	bare->position = 0;
	bare->mask = RING - 1;
}

/* What a batch took. */
struct taken {
	uint64_t ns;
	uint64_t bytes;
};

static struct taken batch(const struct loops *loops, const struct loop *loop, uint64_t turns, struct bare *bare)
{
	struct longpole_ring *ring = loops->ring != NULL ? loops->ring() : NULL;
	drain(ring);
	const uint64_t head = ring != NULL ? ring->head : 0;
	const uint64_t begin = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
	loop->run(turns, bare);
	const struct taken taken = {nanoseconds(CLOCK_THREAD_CPUTIME_ID) - begin, ring != NULL ? ring->head - head : 0};
	drain(ring);
	return taken;
}

/* The second thread does what the first one asks for, at the same time. It sleeps meanwhile, so
 * that "alone" is alone. */
struct helper {
	pthread_t thread;
	pthread_barrier_t asked, done;
	uint32_t ready; /* both spin here, so that they begin together */
	const struct loops *loops;
	const struct loop *loop;
	uint64_t turns;
	struct taken taken;
	struct bare bare;
};

static void together(struct helper *helper)
{
	__atomic_add_fetch(&helper->ready, 1, __ATOMIC_ACQ_REL);
	for (uint32_t spins = 0; __atomic_load_n(&helper->ready, __ATOMIC_ACQUIRE) < 2; spins++)
		if (spins > 100000)
			sched_yield();
}

static void *help(void *argument)
{
	struct helper *helper = argument;
	prepare_bare(&helper->bare);
	for (;;) {
		pthread_barrier_wait(&helper->asked);
		if (helper->loop == NULL)
			return NULL;
		together(helper);
		helper->taken = batch(helper->loops, helper->loop, helper->turns, &helper->bare);
		pthread_barrier_wait(&helper->done);
	}
}

static void start_helper(struct helper *helper)
{
	memset(helper, 0, sizeof *helper);
	pthread_barrier_init(&helper->asked, NULL, 2);
	pthread_barrier_init(&helper->done, NULL, 2);
	if (pthread_create(&helper->thread, NULL, help, helper) != 0)
		fail("no second thread");
}

static void stop_helper(struct helper *helper)
{
	helper->loop = NULL;
	pthread_barrier_wait(&helper->asked);
	pthread_join(helper->thread, NULL);
}

static void print_batch(const struct place *place, const char *state, const struct loop *loop, uint32_t round, const char *threads,
                        uint64_t turns, struct taken taken)
{
	printf("batch\t%s\t%s\t%s\t%" PRIu32 "\t%s\t%.4f\t%" PRIu64 "\n", place->name, state, loop->name, round, threads,
	       (double)taken.ns / (double)turns, taken.bytes / (turns * (loop->events != 0 ? loop->events : 1)));
}

/* A loop in a state, once alone and, with a helper, once in both threads. */
static void measure(const struct place *place, const char *state, const struct loops *loops, const struct loop *loop, int warm,
                    uint32_t round, uint64_t turns, struct bare *bare, struct helper *helper)
{
	struct taken taken = batch(loops, loop, turns, bare);
	if (warm)
		print_batch(place, state, loop, round, "1", turns, taken);
	if (helper == NULL)
		return;
	helper->loops = loops;
	helper->loop = loop;
	helper->turns = turns;
	helper->ready = 0;
	pthread_barrier_wait(&helper->asked);
	together(helper);
	taken = batch(loops, loop, turns, bare);
	pthread_barrier_wait(&helper->done);
	if (warm) {
		print_batch(place, state, loop, round, "2a", turns, taken);
		print_batch(place, state, loop, round, "2b", turns, helper->taken);
	}
}

static void measure_all(const struct place *place, uint32_t rounds, uint64_t turns, struct bare *bare, struct helper *helper)
{
	const uint32_t count = place->on->count;
	const uint32_t probes = count - FIRST_PROBE;
	const uint32_t all = count + 2 * probes;
	/* The first rounds warm up, and give the threads their rings. */
	for (uint32_t n = 0; n < rounds + 2; n++) {
		for (uint32_t k = 0; k < all; k++) {
			const uint32_t i = (k + n * 5) % all;
			const int warm = n >= 2;
			if (i < count) {
				/* A span is two events: half the turns, so that no batch fills more than half of
				 * the ring. */
				const struct loop *loop = &place->on->loop[i];
				order(EVERYTHING, RING);
				measure(place, i < FIRST_PROBE ? "bare" : "on", place->on, loop, warm, n, loop->events == 2 ? turns / 2 : turns, bare, helper);
			} else if (i < count + probes) {
				order(0, RING);
				measure(place, "off", place->on, &place->on->loop[i - probes], warm, n, turns * 4, bare, helper);
			} else {
				measure(place, "compiled out", place->out, &place->out->loop[i - 2 * probes], warm, n, turns * 4, bare, helper);
			}
		}
	}
	order(EVERYTHING, RING);
}

static int ascending(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return (a > b) - (a < b);
}

/*
 * Probes in pairs, a pair within a pair, as they lie in the ring: an empty inner pair shows the
 * effective cost, what a measured interval is too long by; what the outer pair shows beyond it is
 * the total cost of the inner one.
 */
#define PAIRS 1024u
static void nested(const struct place *place, uint32_t index, uint32_t rounds)
{
	const struct nest *nest = &place->on->nest[index];
	static uint64_t inner[PAIRS], outer[PAIRS];
	order(EVERYTHING, RING);
	for (uint32_t round = 0; round < rounds; round++) {
		struct longpole_ring *ring = place->on->ring();
		drain(ring);
		const uint64_t head = ring->head;
		nest->run(PAIRS);
		/* Where a sub-buffer began meanwhile, the events do not lie in a row. */
		if (ring->head - head != (uint64_t)PAIRS * 4 * nest->bytes)
			continue;
		const char *data = (const char *)ring + LONGPOLE_RING_DATA;
		for (uint32_t i = 0; i < PAIRS; i++) {
			uint64_t stamp[4];
			for (uint32_t k = 0; k < 4; k++) {
				const uint64_t position = head + ((uint64_t)i * 4 + k) * nest->bytes;
				memcpy(&stamp[k], data + (position & ring->mask), 8);
				stamp[k] >>= 16;
			}
			inner[i] = stamp[2] - stamp[1];
			outer[i] = stamp[3] - stamp[0];
		}
		qsort(inner, PAIRS, sizeof inner[0], ascending);
		qsort(outer, PAIRS, sizeof outer[0], ascending);
		printf("nested\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\n", place->name, nest->name, inner[PAIRS / 2], outer[PAIRS / 2]);
	}
	drain(place->on->ring());
}

/* Threads that meet their first probe. */
struct newcomer {
	pthread_t thread;
	const struct place *place;
	pthread_barrier_t probed, leave;
	uint64_t first, second;
	long faults;
	struct longpole_ring *ring;
};

static void *arrive(void *argument)
{
	struct newcomer *newcomer = argument;
	const struct loop *mark = &newcomer->place->on->loop[FIRST_PROBE];
	nanoseconds(CLOCK_MONOTONIC);
	const long before = faults();
	const uint64_t begin = nanoseconds(CLOCK_MONOTONIC);
	mark->run(1, NULL);
	const uint64_t middle = nanoseconds(CLOCK_MONOTONIC);
	mark->run(1, NULL);
	const uint64_t end = nanoseconds(CLOCK_MONOTONIC);
	newcomer->faults = faults() - before;
	newcomer->first = middle - begin;
	newcomer->second = end - middle;
	newcomer->ring = newcomer->place->on->ring();
	pthread_barrier_wait(&newcomer->probed);
	pthread_barrier_wait(&newcomer->leave);
	return NULL;
}

static void arrivals(const struct place *place, int pooled)
{
	static struct newcomer newcomer[THREADS];
	order(EVERYTHING, LONGPOLE_RING_MINIMUM);
	/* First all stay, so that each makes its ring; then each one finds the rings that the others
	 * left. */
	for (; pooled < 2; pooled++) {
		for (uint32_t i = 0; i < THREADS; i++) {
			struct newcomer *one = &newcomer[i];
			one->place = place;
			pthread_barrier_init(&one->probed, NULL, 2);
			pthread_barrier_init(&one->leave, NULL, 2);
			if (pthread_create(&one->thread, NULL, arrive, one) != 0)
				fail("no new thread");
			pthread_barrier_wait(&one->probed);
			printf("thread\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%ld\n", place->name, pooled ? "ring of the pool" : "new ring",
			       one->first, one->second, one->faults);
			drain(one->ring);
			if (pooled) {
				pthread_barrier_wait(&one->leave);
				pthread_join(one->thread, NULL);
			}
		}
		for (uint32_t i = 0; i < THREADS && !pooled; i++) {
			pthread_barrier_wait(&newcomer[i].leave);
			pthread_join(newcomer[i].thread, NULL);
		}
	}
	order(EVERYTHING, RING);
}

static void first_hits(const struct place *place)
{
	order(EVERYTHING, RING);
	drain(place->on->ring());
	for (uint32_t i = 0; i < place->on->sites; i++) {
		const long before = faults();
		const uint64_t begin = nanoseconds(CLOCK_MONOTONIC);
		place->on->site[i](i);
		const uint64_t middle = nanoseconds(CLOCK_MONOTONIC);
		place->on->site[i](i);
		const uint64_t end = nanoseconds(CLOCK_MONOTONIC);
		printf("site\t%s\t%" PRIu64 "\t%" PRIu64 "\t%ld\n", place->name, middle - begin, end - middle, faults() - before);
	}
	drain(place->on->ring());
}

/* What reading the clock of the rare things costs, twice in a row. */
static void print_clock_cost(void)
{
	for (int i = 0; i < 31; i++) {
		const uint64_t begin = nanoseconds(CLOCK_MONOTONIC);
		printf("clock\t%" PRIu64 "\n", nanoseconds(CLOCK_MONOTONIC) - begin);
	}
}

int main(int count, char **arguments)
{
	static struct bare bare;
	static struct helper helper;
	if (count != 4)
		fail("usage: subject LIBRARY|quick ROUNDS TURNS");
	const int quick = strcmp(arguments[1], "quick") == 0;
	const uint32_t rounds = (uint32_t)strtoul(arguments[2], NULL, 10);
	const uint64_t turns = strtoul(arguments[3], NULL, 10);
	if (turns == 0 || turns * 16 > RING / 4)
		fail("a batch must not fill more than a sub-buffer");
	const uint64_t start_ns = nanoseconds(CLOCK_MONOTONIC_RAW), start = counter();
	places[place_count++] = (struct place){"executable", loops_on(), loops_compiled_out()};
	prepare_bare(&bare);
	if (quick) {
		for (uint32_t n = 0; n < rounds + 2; n++) {
			order(EVERYTHING, RING);
			for (uint32_t i = 0; i <= FIRST_PROBE; i++)
				measure(&places[0], i < FIRST_PROBE ? "bare" : "on", places[0].on, &places[0].on->loop[i], n >= 2, n, turns, &bare, NULL);
		}
		order(0, RING);
		return 0;
	}
	void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		fail(dlerror());
	const struct loops *(*on)(void), *(*out)(void);
	*(void **)&on = dlsym(library, "loops_on");
	*(void **)&out = dlsym(library, "loops_compiled_out");
	if (on == NULL || out == NULL)
		fail("the library is not the subject's");
	places[place_count++] = (struct place){"library", on(), out()};
	start_helper(&helper);
	for (uint32_t i = 0; i < place_count; i++) {
		measure_all(&places[i], rounds, turns, &bare, &helper);
		for (uint32_t k = 0; k < places[i].on->nests; k++)
			nested(&places[i], k, 31);
		first_hits(&places[i]);
	}
	stop_helper(&helper);
	for (uint32_t i = 0; i < place_count; i++)
		arrivals(&places[i], i != 0); /* the rings of the first place serve the others, too */
	print_clock_cost();
	order(0, RING);
	printf("frequency\t%.0f\n", (double)(counter() - start) * 1e9 / (double)(nanoseconds(CLOCK_MONOTONIC_RAW) - start_ns));
	struct longpole_ring *ring = places[0].on->ring();
	printf("lost\t%" PRIu64 "\n", ring != NULL ? ring->lost : UINT64_MAX);
	return 0;
}

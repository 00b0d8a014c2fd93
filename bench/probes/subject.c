/*
 * The program of every subject of the bench: it contains loops (subject.h) and runs batches of them
 * on request. bench/probes.py requests the batches of all subjects alternately, so that a
 * disturbance of a round affects all of them.
 *
 *     subject FOLDER [LIBRARY…]
 *
 * It reads requests, one per line, and answers each with lines, of which the last is "." or
 * "! REASON":
 *
 *     loops                       all loops, as STATE LOOP EVENTS TURNS-DIVISOR
 *     run STATE LOOP THREADS TURNS   CPU ns per turn for each thread; bytes and events of the first
 *                                 one, if they are known immediately
 *     thread LOOP stay|leave      ns of the first and of the second turn of a new thread, and the
 *                                 page faults of both
 *     site N                      the same for the Nth call site
 *     clock                       ns of reading the clock that the two above use
 *     end                         the subject's report on its trace: lines "NAME VALUE"
 *
 * This file defines the loops `empty`, `counter` and `limit…`, so that every subject has them: the
 * cost of the code around a probe is measured in the program of the probe.
 */
#define _GNU_SOURCE
#include "subject.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#define NEWCOMERS 32

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

#if defined(__x86_64__)
#define COUNTER() __builtin_ia32_rdtsc()
#else
static inline uint64_t counter_now(void)
{
	uint64_t value;
	__asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value));
	return value;
}
#define COUNTER() counter_now()
#endif

LOOP(empty, )
LOOP(counter, uint64_t now = COUNTER(); KEEP(now))

/* Memory for the stores of the limit. Like our ring it has SUBJECT_BUFFER bytes, is shared, and is
 * allocated in advance. */
static __thread uint64_t *store;
static __thread uint64_t store_position;

/*
 * The limit: the least work of a tracer with a clock of its own for an event of three words. The
 * address of such a short loop changes its cost by a cycle, so the loop exists at four addresses,
 * and the fastest of them is the limit.
 */
#define LIMIT(name, bytes)                                                                                               \
	__attribute__((noinline, aligned(64), optimize("align-loops=1"))) static void name(uint64_t turns)                   \
	{                                                                                                                    \
		char *const words = (char *)store;                                                                               \
		uint64_t position = store_position;                                                                              \
		__asm__ __volatile__(".skip " #bytes ", 0x90");                                                                  \
		for (uint64_t i = 0; i < turns; i++) {                                                                           \
			uint64_t *place = (uint64_t *)(void *)(words + (position & (SUBJECT_BUFFER - 1)));                           \
			place[0] = COUNTER();                                                                                        \
			place[1] = i;                                                                                                \
			place[2] = i;                                                                                                \
			place[3] = i;                                                                                                \
			position += 32;                                                                                              \
			KEEP(i);                                                                                                     \
		}                                                                                                                \
		store_position = position;                                                                                       \
	}
LIMIT(limit_0, 0)
LIMIT(limit_1, 16)
LIMIT(limit_2, 32)
LIMIT(limit_3, 48)

static const struct loop bare_loops[] = {{"empty", empty, 0, 1, 0},       {"counter", counter, 0, 1, 0},   {"limit", limit_0, 0, 1, 32},
                                         {"limit 16", limit_1, 0, 1, 32}, {"limit 32", limit_2, 0, 1, 32}, {"limit 48", limit_3, 0, 1, 32}};
static const struct table bare = {.states = "bare", .loop = bare_loops, .count = sizeof bare_loops / sizeof bare_loops[0]};

static const struct table *tables[8] = {&bare};
static uint32_t table_count = 1;

extern const struct table *table_on(void) __attribute__((weak));
extern const struct table *table_out(void) __attribute__((weak));

static void load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		fail(dlerror());
	const char *const names[2] = {"table_on", "table_out"};
	for (int i = 0; i < 2; i++) {
		const struct table *(*table)(void);
		*(void **)&table = dlsym(library, names[i]);
		if (table != NULL && table_count < 8)
			tables[table_count++] = table();
	}
}

static int has_word(const char *words, const char *word)
{
	const size_t length = strlen(word);
	for (const char *at = words; (at = strstr(at, word)) != NULL; at += length)
		if ((at == words || at[-1] == ' ') && (at[length] == 0 || at[length] == ' '))
			return 1;
	return 0;
}

/* Returns the table of a state and stores its loop of this name; NULL if there is none. */
static const struct table *find(const char *state, const char *name, const struct loop **loop)
{
	for (uint32_t i = 0; i < table_count; i++) {
		if (!has_word(tables[i]->states, state))
			continue;
		for (uint32_t k = 0; k < tables[i]->count; k++)
			if (strcmp(tables[i]->loop[k].name, name) == 0) {
				*loop = &tables[i]->loop[k];
				return tables[i];
			}
	}
	return NULL;
}

struct taken {
	double ns;
	uint64_t bytes, events;
};

/* The second thread runs the same batch as the first one, at the same time. Without a request it
 * sleeps, so that it does not disturb measurements of one thread. */
static struct {
	pthread_t thread;
	pthread_barrier_t asked, done;
	uint32_t ready; /* both spin here, so that they begin together */
	const struct table *table;
	const struct loop *loop;
	uint64_t turns;
	int records;
	struct taken taken;
} second;

static void together(uint32_t all)
{
	__atomic_add_fetch(&second.ready, 1, __ATOMIC_ACQ_REL);
	for (uint32_t spins = 0; __atomic_load_n(&second.ready, __ATOMIC_ACQUIRE) < all; spins++)
		if (spins > 100000)
			sched_yield();
}

static void make_room(const struct table *table)
{
	if (table->before != NULL)
		table->before();
}

/*
 * Another subject used this CPU before, and its remains in caches and predictors must not be
 * measured. Therefore the loop first passes once through the buffer, whose size is the same for
 * all, then runs some more turns.
 */
static void warm(const struct table *table, const struct loop *loop, uint64_t turns)
{
	const uint64_t each = (uint64_t)loop->bytes * (loop->events != 0 ? loop->events : 1);
	for (uint64_t done = 0; each != 0 && done < SUBJECT_BUFFER; done += SUBJECT_BUFFER / 2) {
		make_room(table);
		loop->run(SUBJECT_BUFFER / 2 / each);
	}
	make_room(table);
	loop->run(turns / 8 + 1);
}

static struct taken batch(const struct table *table, const struct loop *loop, uint64_t turns, int records, uint32_t threads)
{
	if (records) {
		warm(table, loop, turns);
	} else {
		make_room(table);
		loop->run(turns / 8 + 1);
	}
	if (threads == 2)
		together(2);
	const uint64_t bytes = table->bytes != NULL ? table->bytes() : 0;
	const uint64_t events = table->events != NULL ? table->events() : 0;
	const uint64_t begin = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
	loop->run(turns);
	const uint64_t ns = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - begin;
	return (struct taken){(double)ns / (double)turns, table->bytes != NULL ? table->bytes() - bytes : 0,
	                      table->events != NULL ? table->events() - events : 0};
}

static void prepare_bare(void)
{
	store = mmap(NULL, SUBJECT_BUFFER, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (store == MAP_FAILED)
		fail("no memory for the bare loops");
}

static void *help(void *unused)
{
	prepare_bare();
	for (;;) {
		pthread_barrier_wait(&second.asked);
		if (second.loop == NULL)
			return unused;
		second.taken = batch(second.table, second.loop, second.turns, second.records, 2);
		pthread_barrier_wait(&second.done);
	}
}

static void run(const char *state, const char *name, uint32_t threads, uint64_t turns)
{
	const struct loop *loop = NULL;
	const struct table *table = find(state, name, &loop);
	if (table == NULL || turns == 0) {
		printf("! there is no %s in state %s\n", name, state);
		return;
	}
	if (table->take != NULL)
		table->take(state);
	const int records = strcmp(state, "off") != 0 && strcmp(state, "out") != 0;
	if (threads == 2) {
		second.table = table;
		second.loop = loop;
		second.turns = turns;
		second.records = records;
		second.ready = 0;
		pthread_barrier_wait(&second.asked);
	}
	const struct taken taken = batch(table, loop, turns, records, threads);
	if (threads == 2)
		pthread_barrier_wait(&second.done);
	printf("%.4f", taken.ns);
	if (threads == 2)
		printf(" %.4f", second.taken.ns);
	/* The recorded bytes and events, if the subject knows them immediately. */
	if (table->bytes != NULL)
		printf(" %" PRIu64, taken.bytes);
	if (table->bytes != NULL && table->events != NULL)
		printf(" %" PRIu64, taken.events);
	printf("\n.\n");
}

/* Threads that execute their first probe. They stay until a request ends them, so that each makes
 * its own buffers. */
static struct newcomer {
	pthread_t thread;
	pthread_barrier_t probed, leave;
	const struct table *table;
	const struct loop *loop;
	uint64_t first, second;
	long faults;
} newcomer[NEWCOMERS];
static uint32_t staying;

static void *arrive(void *argument)
{
	struct newcomer *one = argument;
	nanoseconds(CLOCK_MONOTONIC);
	const long before = faults();
	const uint64_t begin = nanoseconds(CLOCK_MONOTONIC);
	one->loop->run(1);
	const uint64_t middle = nanoseconds(CLOCK_MONOTONIC);
	one->loop->run(1);
	const uint64_t end = nanoseconds(CLOCK_MONOTONIC);
	one->faults = faults() - before;
	one->first = middle - begin;
	one->second = end - middle;
	pthread_barrier_wait(&one->probed);
	pthread_barrier_wait(&one->leave);
	return NULL;
}

static void arrival(const char *name, int stay)
{
	const struct loop *loop = NULL;
	const struct table *table = find("on", name, &loop);
	if (table == NULL || staying == NEWCOMERS) {
		printf("! no new thread for %s\n", name);
		return;
	}
	if (table->take != NULL)
		table->take("on");
	if (table->first != NULL)
		table->first(1);
	struct newcomer *one = &newcomer[staying];
	one->table = table;
	one->loop = loop;
	pthread_barrier_init(&one->probed, NULL, 2);
	pthread_barrier_init(&one->leave, NULL, 2);
	if (pthread_create(&one->thread, NULL, arrive, one) != 0)
		fail("no new thread");
	pthread_barrier_wait(&one->probed);
	if (table->first != NULL)
		table->first(0);
	printf("%" PRIu64 " %" PRIu64 " %ld\n.\n", one->first, one->second, one->faults);
	staying++;
	for (; !stay && staying > 0; staying--) {
		pthread_barrier_wait(&newcomer[staying - 1].leave);
		pthread_join(newcomer[staying - 1].thread, NULL);
	}
}

static void first_hit(uint32_t number)
{
	for (uint32_t i = 1; i < table_count; i++) {
		const struct table *table = tables[i];
		if (number >= table->sites)
			continue;
		if (table->take != NULL)
			table->take("on");
		if (table->before != NULL)
			table->before();
		const long before = faults();
		const uint64_t begin = nanoseconds(CLOCK_MONOTONIC);
		table->site[number](number);
		const uint64_t middle = nanoseconds(CLOCK_MONOTONIC);
		table->site[number](number);
		const uint64_t end = nanoseconds(CLOCK_MONOTONIC);
		printf("%" PRIu64 " %" PRIu64 " %ld\n.\n", middle - begin, end - middle, faults() - before);
		return;
	}
	printf("! there is no such call site\n");
}

static void print_loops(void)
{
	for (uint32_t i = 0; i < table_count; i++) {
		char states[64];
		snprintf(states, sizeof states, "%s", tables[i]->states);
		for (char *rest = states, *state; (state = strtok_r(rest, " ", &rest)) != NULL;)
			for (uint32_t k = 0; k < tables[i]->count; k++)
				printf("%s\t%s\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\n", state, tables[i]->loop[k].name, tables[i]->loop[k].events,
				       tables[i]->loop[k].slow, tables[i]->loop[k].bytes);
	}
	printf(".\n");
}

int main(int count, char **arguments)
{
	char line[256], state[32], name[64], how[16];
	unsigned threads;
	uint64_t turns;
	if (count < 2)
		fail("usage: subject FOLDER [LIBRARY…]");
	if (table_on != NULL)
		tables[table_count++] = table_on();
	if (table_out != NULL)
		tables[table_count++] = table_out();
	for (int i = 2; i < count; i++)
		load(arguments[i]);
	for (uint32_t i = 1; i < table_count; i++)
		if (tables[i]->begin != NULL && tables[i]->begin(arguments[1]) != 0)
			return 1;
	prepare_bare();
	pthread_barrier_init(&second.asked, NULL, 2);
	pthread_barrier_init(&second.done, NULL, 2);
	if (pthread_create(&second.thread, NULL, help, NULL) != 0)
		fail("no second thread");
	while (fgets(line, sizeof line, stdin) != NULL) {
		if (strcmp(line, "loops\n") == 0) {
			print_loops();
		} else if (sscanf(line, "run\t%31[^\t]\t%63[^\t]\t%u\t%" SCNu64, state, name, &threads, &turns) == 4) {
			run(state, name, threads, turns);
		} else if (sscanf(line, "thread\t%63[^\t]\t%15s", name, how) == 2) {
			arrival(name, strcmp(how, "stay") == 0);
		} else if (sscanf(line, "site\t%u", &threads) == 1) {
			first_hit(threads);
		} else if (strcmp(line, "clock\n") == 0) {
			const uint64_t begin = nanoseconds(CLOCK_MONOTONIC);
			printf("%" PRIu64 "\n.\n", nanoseconds(CLOCK_MONOTONIC) - begin);
		} else if (strcmp(line, "end\n") == 0) {
			break;
		} else {
			printf("! not understood\n");
		}
		fflush(stdout);
	}
	second.loop = NULL;
	pthread_barrier_wait(&second.asked);
	pthread_join(second.thread, NULL);
	for (; staying > 0; staying--) {
		pthread_barrier_wait(&newcomer[staying - 1].leave);
		pthread_join(newcomer[staying - 1].thread, NULL);
	}
	for (uint32_t i = 1; i < table_count; i++) {
		if (tables[i]->lost != NULL)
			printf("lost\t%" PRIu64 "\n", tables[i]->lost());
		if (tables[i]->end != NULL && tables[i]->end(arguments[1]) != 0)
			return 1;
	}
	printf(".\n");
	return 0;
}

/*
 * The cost of a scope in cycles of the time-stamp counter, without a recorder: one line at the top
 * of the scope.
 *
 *     LONGPOLE_LOG_TSC(n);                  every n calls one line on stderr, named after the
 *                                           function:
 *     LONGPOLE_LOG_TSC_NAMED(n, "name");    [label] TSC apply_config: 6396K (1 calls, last 6396K)
 *     LONGPOLE_TRACE_TSC(n);                the same line in the recording, as a log event
 *     LONGPOLE_TRACE_TSC_NAMED(n, "name");
 *
 * A line shows the sum of all calls, their number, and the last one; values above 100K, 100M and
 * 100G are shown in K, M and G, truncated. Each thread has its own sums, so nothing is locked and
 * no thread waits. A thread adds its sums to those of the program when it prints (after n calls of
 * its own) and when it ends, so a line shows the sums that all threads have added until then. In
 * recursion every call is counted, and the time of the outermost call.
 */
#ifndef LONGPOLE_TSC_H
#define LONGPOLE_TSC_H

#include "longpole.h"

#if defined(LONGPOLE_DISABLE)

#define LONGPOLE_LOG_TSC(n) LONGPOLE_UNUSED_(n)
#define LONGPOLE_LOG_TSC_NAMED(n, name) LONGPOLE_UNUSED_(n, name)
#define LONGPOLE_TRACE_TSC(n) LONGPOLE_UNUSED_(n)
#define LONGPOLE_TRACE_TSC_NAMED(n, name) LONGPOLE_UNUSED_(n, name)

#else

#include "key.h"
#include "stderr_line.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* The sums of a scope over all threads. */
struct longpole_tsc_site {
	uint64_t sum, calls;
	uint32_t number; /* number among the scopes of a shared library, from 1 on; 0: not assigned yet */
};

/* The sums of a scope in one thread that were not added to the program's sums yet. */
struct longpole_tsc {
	uint64_t begin, sum, last;
	uint32_t calls, depth;
	struct longpole_tsc_site *site; /* NULL: this thread has not been here */
	struct longpole_tsc *next;      /* next scope of this thread */
};

struct longpole_tsc_scope {
	struct longpole_tsc *here;
	struct longpole_tsc_site *site;
	const char *name;
	uint64_t every;
	int traced;
};

LONGPOLE_SLOW uint32_t *longpole_tsc_key(void)
{
	static uint32_t key;
	return &key;
}

/*
 * There is little thread-local memory of the kind that is accessed in one load for libraries that
 * are loaded at run time. Such a library has only a pointer there, to a table of its scopes. In a
 * program each scope has its own thread-local variable.
 */
#if defined(__PIC__) && !defined(__PIE__)
#define LONGPOLE_TSC_SCOPES 4096u
#define LONGPOLE_TSC_TABLE_SIZE (LONGPOLE_TSC_SCOPES * sizeof(struct longpole_tsc))

__asm__(".ifndef longpole_tsc_table\n"
        ".pushsection .tbss.longpole_tsc_table,\"awTG\",@nobits,longpole_tsc_table,comdat\n"
        ".weak longpole_tsc_table\n.hidden longpole_tsc_table\n.type longpole_tsc_table,@tls_object\n.size longpole_tsc_table,8\n"
        ".balign 8\nlongpole_tsc_table:\n.zero 8\n"
        ".popsection\n.endif\n");
#if defined(LONGPOLE_TLS_DYNAMIC)
extern __thread struct longpole_tsc *longpole_tsc_table __attribute__((visibility("hidden")));
#else
extern __thread struct longpole_tsc *longpole_tsc_table __attribute__((visibility("hidden"), tls_model("initial-exec")));
#endif

LONGPOLE_SLOW uint32_t *longpole_tsc_count(void)
{
	static uint32_t count;
	return &count;
}

/* Finds the scope in the table, which is made if necessary. NULL if there is no memory, or if the
 * library has too many scopes. */
LONGPOLE_SLOW struct longpole_tsc *longpole_tsc_first(struct longpole_tsc_site *site)
{
	const uint64_t signals = longpole_block_signals();
	uint32_t number = __atomic_load_n(&site->number, __ATOMIC_RELAXED);
	if (number == 0) {
		const uint32_t next = __atomic_add_fetch(longpole_tsc_count(), 1, __ATOMIC_RELAXED);
		if (__atomic_compare_exchange_n(&site->number, &number, next, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			number = next;
	}
	if (longpole_tsc_table == NULL)
		longpole_tsc_table = (struct longpole_tsc *)longpole_map_private(NULL, 0, LONGPOLE_TSC_TABLE_SIZE);
	struct longpole_tsc *table = longpole_tsc_table;
	longpole_restore_signals(signals);
	return table != NULL && number < LONGPOLE_TSC_SCOPES ? table + number : NULL;
}

LONGPOLE_INLINE struct longpole_tsc *longpole_tsc_of(struct longpole_tsc_site *site)
{
	struct longpole_tsc *table = longpole_tsc_table;
	const uint32_t number = __atomic_load_n(&site->number, __ATOMIC_RELAXED);
	return LONGPOLE_LIKELY(table != NULL) && LONGPOLE_LIKELY(number - 1 < LONGPOLE_TSC_SCOPES - 1) ? table + number : longpole_tsc_first(site);
}

LONGPOLE_INLINE void longpole_tsc_free(void)
{
	if (longpole_tsc_table != NULL)
		longpole_unmap(longpole_tsc_table, LONGPOLE_TSC_TABLE_SIZE);
	longpole_tsc_table = NULL;
}

#define LONGPOLE_TSC_HERE_(at) longpole_tsc_of(&LONGPOLE_JOIN_(longpole_tsc_site_, at))
#define LONGPOLE_TSC_OWN_(at)
#else
#if defined(LONGPOLE_TLS_DYNAMIC)
#define LONGPOLE_TSC_THREAD_
#else
#define LONGPOLE_TSC_THREAD_ __attribute__((tls_model("initial-exec")))
#endif
LONGPOLE_INLINE void longpole_tsc_free(void) {}

#define LONGPOLE_TSC_HERE_(at) &LONGPOLE_JOIN_(longpole_tsc_, at)
#define LONGPOLE_TSC_OWN_(at) static __thread struct longpole_tsc LONGPOLE_JOIN_(longpole_tsc_, at) LONGPOLE_TSC_THREAD_;
#endif

/* Adds the thread's sums to those of the program. Returns the program's sum, and its number of
 * calls in `calls`. */
LONGPOLE_SLOW uint64_t longpole_tsc_fold(struct longpole_tsc *here, uint64_t *calls)
{
	const uint64_t sum = __atomic_add_fetch(&here->site->sum, here->sum, __ATOMIC_RELAXED);
	*calls = __atomic_add_fetch(&here->site->calls, here->calls, __ATOMIC_RELAXED);
	here->sum = 0;
	here->calls = 0;
	return sum;
}

LONGPOLE_SLOW void longpole_tsc_thread_exit(void *first)
{
	struct longpole_tsc *next;
	uint64_t calls;
	for (struct longpole_tsc *here = (struct longpole_tsc *)first; here != NULL; here = next) {
		next = here->next;
		longpole_tsc_fold(here, &calls);
		/* Another destructor may use the scope again afterwards. */
		here->site = NULL;
		here->next = NULL;
	}
	longpole_tsc_free();
}

LONGPOLE_SLOW void longpole_tsc_tell(const struct longpole_tsc_scope *scope)
{
	char line[768];
	struct longpole_tsc *here = scope->here;
	if (here->site == NULL) {
		here->site = scope->site;
		if (longpole_key_get(longpole_tsc_key(), longpole_tsc_thread_exit)) {
			const unsigned key = *longpole_tsc_key() - 1;
			here->next = (struct longpole_tsc *)longpole_libc_getspecific(key);
			longpole_libc_setspecific(key, here);
		}
	}
	if (here->calls < scope->every)
		return;
	uint64_t calls;
	const uint64_t sum = longpole_tsc_fold(here, &calls);
	size_t length = longpole_append(line, sizeof line, 0, "[");
	length = longpole_append_label(line, sizeof line, length);
	length = longpole_append(line, sizeof line, length, "] TSC ");
	length = longpole_append(line, 640, length, scope->name);
	length = longpole_append(line, sizeof line, length, ": ");
	length = longpole_append_cycles(line, sizeof line, length, sum);
	length = longpole_append(line, sizeof line, length, " (");
	length = longpole_append_number(line, sizeof line, length, calls, 10, 0);
	length = longpole_append(line, sizeof line, length, " calls, last ");
	length = longpole_append_cycles(line, sizeof line, length, here->last);
	length = longpole_append(line, sizeof line, length, ")");
	if (!scope->traced) {
		length = longpole_append(line, sizeof line, length, "\n");
		longpole_write_stderr(line, length);
	} else if (LONGPOLE_WANTED_(LONGPOLE_CATEGORY_LOG)) {
		const struct longpole_ref text = {line, length, NULL, 0};
		longpole_log(text);
	}
}

LONGPOLE_INLINE struct longpole_tsc *longpole_tsc_enter(struct longpole_tsc *here)
{
	if (here != NULL && here->depth++ == 0)
		here->begin = longpole_counter();
	return here;
}

LONGPOLE_INLINE void longpole_tsc_leave(const struct longpole_tsc_scope *scope)
{
	const uint64_t now = longpole_counter();
	struct longpole_tsc *here = scope->here;
	if (here == NULL)
		return;
	here->calls++;
	if (--here->depth == 0) {
		here->last = now - here->begin;
		here->sum += here->last;
		if (LONGPOLE_UNLIKELY(here->calls >= scope->every) || LONGPOLE_UNLIKELY(here->site == NULL)) {
			/* A copy, so that the compiler can keep the scope itself in registers. */
			const struct longpole_tsc_scope copy = *scope;
			longpole_tsc_tell(&copy);
		}
	}
}

/* Deletes the key, because the destructor disappears with the library. */
__attribute__((destructor(102), unused, no_instrument_function)) static void longpole_tsc_destruct(void)
{
	longpole_key_drop(longpole_tsc_key());
}

#if defined(__cplusplus)
}
#endif

/* The counter is read last at the start of a scope and first at its end, so that the probe itself
 * is not measured. */
#define LONGPOLE_TSC__(at, n, name, traced)                                                                              \
	static struct longpole_tsc_site LONGPOLE_JOIN_(longpole_tsc_site_, at);                                              \
	LONGPOLE_TSC_OWN_(at)                                                                                                \
	__attribute__((cleanup(longpole_tsc_leave), unused)) const struct longpole_tsc_scope LONGPOLE_JOIN_(longpole_tsc_scope_, at) = { \
	    longpole_tsc_enter(LONGPOLE_TSC_HERE_(at)), &LONGPOLE_JOIN_(longpole_tsc_site_, at), name, (uint64_t)(n), traced}
#define LONGPOLE_LOG_TSC(n) LONGPOLE_TSC__(__COUNTER__, n, __func__, 0)
#define LONGPOLE_LOG_TSC_NAMED(n, name) LONGPOLE_TSC__(__COUNTER__, n, name, 0)
#define LONGPOLE_TRACE_TSC(n) LONGPOLE_TSC__(__COUNTER__, n, __func__, 1)
#define LONGPOLE_TRACE_TSC_NAMED(n, name) LONGPOLE_TSC__(__COUNTER__, n, name, 1)

#endif

#endif

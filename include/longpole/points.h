/*
 * Numbered cycle counters, as in seL4's benchmarks: they measure the code between START(i) and
 * STOP(i), without a recorder.
 *
 *     LONGPOLE_TRACE_POINT_START(i);  ...  LONGPOLE_TRACE_POINT_STOP(i);
 *     LONGPOLE_TRACE_POINT_PRINT();                      a table on stderr; also printed at the
 *                                                        end of the program
 *     struct longpole_point_result result;
 *     if (LONGPOLE_TRACE_POINT_RESULT(i, &result)) ...   false: no sample
 *     LONGPOLE_TRACE_POINT_RESET();
 *
 * Counters can be nested and interleaved in any way. A STOP is counted only if there was a START
 * since the last STOP. So a code path that is left between the two adds no sample, which allows
 * selecting one of several paths. Each thread has its own counters; results are those of all
 * threads together.
 *
 * The cost of an empty pair on this host is subtracted from minimum, maximum and mean. It is
 * measured when a result is first requested.
 */
#ifndef LONGPOLE_POINTS_H
#define LONGPOLE_POINTS_H

#include "platform.h"
#include "types.h"

/* Number of counters. Higher numbers are ignored. */
#define LONGPOLE_TRACE_POINTS 64u

/* Results of a counter, in cycles of the time-stamp counter. */
struct longpole_point_result {
	uint64_t samples, minimum, maximum;
	double mean, sigma;
	double sigma_percent; /* standard deviation in percent of the mean */
	double cost;          /* cost of an empty pair, which was subtracted */
	/* additional cost of a pair outside of the interval that it measures: if a pair encloses a pair
	 * of another number, subtract both */
	double cost_around;
};

#if defined(LONGPOLE_DISABLE)

#define LONGPOLE_TRACE_POINT_START(i) ((void)(0 ? (void)(i) : (void)0))
#define LONGPOLE_TRACE_POINT_STOP(i) ((void)(0 ? (void)(i) : (void)0))
#define LONGPOLE_TRACE_POINT_PRINT() ((void)0)
#define LONGPOLE_TRACE_POINT_RESET() ((void)0)
#define LONGPOLE_TRACE_POINT_RESULT(i, result) (0 ? ((void)(i), (void)(result), 0) : 0)

#else

#include "key.h"
#include "stderr_line.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* Two additional counters, for measuring an empty pair within another pair. */
#define LONGPOLE_POINT_OUTER_ LONGPOLE_TRACE_POINTS
#define LONGPOLE_POINT_INNER_ (LONGPOLE_TRACE_POINTS + 1)

/* A counter of one thread. Sums are those of differences to the first sample, so they stay small
 * and their squares sufficiently exact. */
struct longpole_point {
	uint64_t begin, started;
	uint64_t samples, first, minimum, maximum;
	int64_t sum;
	double squares;
};

/* The counters of a thread. Another thread reuses them after this thread has ended. */
struct longpole_points {
	struct longpole_points *next;
	uint32_t taken;
	struct longpole_point point[LONGPOLE_TRACE_POINTS + 2];
};

/* One object per library, see process.h. */
__asm__(".ifndef longpole_points_here\n"
        ".pushsection .tbss.longpole_points_here,\"awTG\",@nobits,longpole_points_here,comdat\n"
        ".weak longpole_points_here\n.hidden longpole_points_here\n.type longpole_points_here,@tls_object\n.size longpole_points_here,8\n"
        ".balign 8\nlongpole_points_here:\n.zero 8\n"
        ".popsection\n.endif\n");
#if defined(LONGPOLE_TLS_DYNAMIC)
extern __thread struct longpole_points *longpole_points_here __attribute__((visibility("hidden")));
#else
extern __thread struct longpole_points *longpole_points_here __attribute__((visibility("hidden"), tls_model("initial-exec")));
#endif

/* The counters of a library. */
struct longpole_points_all {
	struct longpole_points *first;
	uint32_t key;
	/* process that took the first sample: a child does not print the results of its parent */
	int32_t pid;
	uint64_t printed;  /* number of samples at the last print */
	uint64_t measured; /* 1 if cost and cost_around are known */
	double cost, cost_around;
};

LONGPOLE_SLOW struct longpole_points_all *longpole_points_all(void)
{
	static struct longpole_points_all all;
	return &all;
}

LONGPOLE_SLOW void longpole_points_exit(void *points)
{
	longpole_points_here = NULL;
	__atomic_store_n(&((struct longpole_points *)points)->taken, 0, __ATOMIC_RELEASE);
}

/* Takes the counters of a thread that has ended, or makes new ones; NULL if there is no memory. */
LONGPOLE_SLOW struct longpole_points *longpole_points_take(void)
{
	struct longpole_points_all *all = longpole_points_all();
	struct longpole_points *points = __atomic_load_n(&all->first, __ATOMIC_ACQUIRE);
	for (; points != NULL; points = points->next) {
		uint32_t free = 0;
		if (__atomic_compare_exchange_n(&points->taken, &free, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			break;
	}
	if (points == NULL) {
		points = (struct longpole_points *)longpole_map_private(NULL, 0, sizeof *points);
		if (points == NULL)
			return NULL;
		points->taken = 1;
		points->next = __atomic_load_n(&all->first, __ATOMIC_RELAXED);
		while (!__atomic_compare_exchange_n(&all->first, &points->next, points, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			;
	}
	if (all->pid == 0)
		all->pid = longpole_getpid();
	if (longpole_key_get(&all->key, longpole_points_exit))
		longpole_libc_setspecific(all->key - 1, points);
	longpole_points_here = points;
	return points;
}

LONGPOLE_INLINE void longpole_point_start(uint64_t number)
{
	struct longpole_points *points = longpole_points_here;
	if (number >= LONGPOLE_TRACE_POINTS + 2 || (LONGPOLE_UNLIKELY(points == NULL) && (points = longpole_points_take()) == NULL))
		return;
	struct longpole_point *point = &points->point[number];
	point->started = 1;
	point->begin = longpole_counter();
}

LONGPOLE_INLINE void longpole_point_stop(uint64_t number)
{
	const uint64_t now = longpole_counter();
	struct longpole_points *points = longpole_points_here;
	if (number >= LONGPOLE_TRACE_POINTS + 2 || points == NULL || points->point[number].started == 0)
		return;
	struct longpole_point *point = &points->point[number];
	const uint64_t cycles = now - point->begin;
	point->started = 0;
	if (LONGPOLE_UNLIKELY(point->samples == 0))
		point->first = point->minimum = point->maximum = cycles;
	const int64_t difference = (int64_t)(cycles - point->first);
	point->sum += difference;
	point->squares += (double)difference * (double)difference;
	if (cycles < point->minimum)
		point->minimum = cycles;
	if (cycles > point->maximum)
		point->maximum = cycles;
	/* Written last, because other threads read the sample after this number. */
	__atomic_store_n(&point->samples, point->samples + 1, __ATOMIC_RELEASE);
}

/* A square root without libm. */
LONGPOLE_SLOW double longpole_point_root(double square)
{
	double root = square > 1 ? square : 1;
	if (!(square > 0))
		return 0;
	for (int i = 0; i < 1100; i++) {
		const double next = (root + square / root) / 2;
		if (next >= root)
			break;
		root = next;
	}
	return root;
}

#define LONGPOLE_POINT_ROUNDS_ 255

/* The median of the measured values; sorts them. */
LONGPOLE_SLOW uint64_t longpole_point_median(uint64_t *values)
{
	for (int i = 1; i < LONGPOLE_POINT_ROUNDS_; i++) {
		const uint64_t value = values[i];
		int at = i;
		for (; at > 0 && values[at - 1] > value; at--)
			values[at] = values[at - 1];
		values[at] = value;
	}
	return values[LONGPOLE_POINT_ROUNDS_ / 2];
}

/* Measures an empty pair within another pair: the value of the inner pair, and the time that it
 * adds to the outer one. */
LONGPOLE_SLOW void longpole_point_measure(struct longpole_points_all *all)
{
	uint64_t inner[LONGPOLE_POINT_ROUNDS_], outer[LONGPOLE_POINT_ROUNDS_];
	if (longpole_points_here == NULL && longpole_points_take() == NULL)
		return;
	struct longpole_point *point = longpole_points_here->point;
	for (int round = 0; round < 2 * LONGPOLE_POINT_ROUNDS_; round++) {
		point[LONGPOLE_POINT_INNER_].samples = point[LONGPOLE_POINT_OUTER_].samples = 0;
		longpole_point_start(LONGPOLE_POINT_OUTER_);
		longpole_point_start(LONGPOLE_POINT_INNER_);
		longpole_point_stop(LONGPOLE_POINT_INNER_);
		longpole_point_stop(LONGPOLE_POINT_OUTER_);
		/* The first half of the rounds warms up the caches; the second half overwrites its
		 * values. */
		inner[round % LONGPOLE_POINT_ROUNDS_] = point[LONGPOLE_POINT_INNER_].first;
		outer[round % LONGPOLE_POINT_ROUNDS_] = point[LONGPOLE_POINT_OUTER_].first;
	}
	const uint64_t within = longpole_point_median(inner), whole = longpole_point_median(outer);
	all->cost = (double)within;
	/* The outer pair also measures its own cost. */
	all->cost_around = whole > 2 * within ? (double)(whole - 2 * within) : 0;
	all->measured = 1;
}

LONGPOLE_SLOW int longpole_point_result(uint64_t number, struct longpole_point_result *result)
{
	struct longpole_points_all *all = longpole_points_all();
	double mean = 0, squares = 0;
	__builtin_memset(result, 0, sizeof *result);
	if (number >= LONGPOLE_TRACE_POINTS)
		return 0;
	if (!all->measured && __atomic_load_n(&all->first, __ATOMIC_ACQUIRE) != NULL)
		longpole_point_measure(all);
	const struct longpole_points *points = __atomic_load_n(&all->first, __ATOMIC_ACQUIRE);
	for (; points != NULL; points = points->next) {
		const struct longpole_point *point = &points->point[number];
		const uint64_t samples = __atomic_load_n(&point->samples, __ATOMIC_ACQUIRE);
		if (samples == 0)
			continue;
		if (result->samples == 0 || point->minimum < result->minimum)
			result->minimum = point->minimum;
		if (point->maximum > result->maximum)
			result->maximum = point->maximum;
		/* Combines means and sums of squares of two parts (Chan, Golub and LeVeque 1979). */
		const double own = (double)samples, others = (double)result->samples, shift = (double)point->sum / own;
		const double apart = (double)point->first + shift - mean;
		squares += point->squares - shift * shift * own + apart * apart * own * others / (own + others);
		mean += apart * own / (own + others);
		result->samples += samples;
	}
	if (result->samples == 0)
		return 0;
	const uint64_t cost = (uint64_t)all->cost;
	result->cost = all->cost;
	result->cost_around = all->cost_around;
	result->minimum = result->minimum > cost ? result->minimum - cost : 0;
	result->maximum = result->maximum > cost ? result->maximum - cost : 0;
	result->mean = mean > all->cost ? mean - all->cost : 0;
	if (result->samples > 1)
		result->sigma = longpole_point_root(squares / (double)(result->samples - 1));
	result->sigma_percent = result->mean > 0 ? 100 * result->sigma / result->mean : 0;
	return 1;
}

LONGPOLE_SLOW uint64_t longpole_points_samples(void)
{
	uint64_t samples = 0;
	const struct longpole_points *points = __atomic_load_n(&longpole_points_all()->first, __ATOMIC_ACQUIRE);
	for (; points != NULL; points = points->next)
		for (uint32_t i = 0; i < LONGPOLE_TRACE_POINTS; i++)
			samples += __atomic_load_n(&points->point[i].samples, __ATOMIC_RELAXED);
	return samples;
}

/* Prints the table in one write, of at most 64 lines. */
LONGPOLE_SLOW void longpole_points_print(void)
{
	char text[7168];
	struct longpole_point_result result;
	size_t length = 0, begin;
	struct longpole_points_all *all = longpole_points_all();
	all->printed = longpole_points_samples();
	if (all->printed == 0)
		return;
	length = longpole_append(text, sizeof text, length, "[");
	length = longpole_append_label(text, sizeof text, length);
	length = longpole_append(text, sizeof text, length, "] trace points, in cycles\n  point     samples         min         max          mean         sigma  sigma %\n");
	for (uint32_t i = 0; i < LONGPOLE_TRACE_POINTS; i++) {
		if (!longpole_point_result(i, &result))
			continue;
		const uint64_t whole[4] = {i, result.samples, result.minimum, result.maximum};
		const double parts[3] = {result.mean, result.sigma, result.sigma_percent};
		for (int at = 0; at < 4; at++) {
			begin = length;
			length = longpole_append_number(text, sizeof text, length, whole[at], 10, 0);
			length = longpole_align_right(text, sizeof text, begin, length, at == 0 ? 7 : 12);
		}
		for (int at = 0; at < 3; at++) {
			begin = length;
			length = longpole_append_decimal(text, sizeof text, length, parts[at]);
			length = longpole_align_right(text, sizeof text, begin, length, at == 2 ? 9 : 14);
		}
		length = longpole_append(text, sizeof text, length, "\n");
	}
	length = longpole_append(text, sizeof text, length, "  what an empty pair shows is subtracted: ");
	length = longpole_append_number(text, sizeof text, length, (uint64_t)all->cost, 10, 0);
	length = longpole_append(text, sizeof text, length, "; a pair within another takes ");
	length = longpole_append_number(text, sizeof text, length, (uint64_t)(all->cost + all->cost_around), 10, 0);
	length = longpole_append(text, sizeof text, length, "\n");
	longpole_write_stderr(text, length);
}

LONGPOLE_SLOW void longpole_points_reset(void)
{
	struct longpole_points *points = __atomic_load_n(&longpole_points_all()->first, __ATOMIC_ACQUIRE);
	for (; points != NULL; points = points->next)
		for (uint32_t i = 0; i < LONGPOLE_TRACE_POINTS; i++) {
			struct longpole_point *point = &points->point[i];
			point->started = point->samples = 0;
			point->sum = 0;
			point->squares = 0;
		}
	longpole_points_all()->printed = 0;
	longpole_points_all()->pid = longpole_getpid();
}

/* Runs once per library, however many source files it has: prints the results if there are new
 * samples since the last print. */
__attribute__((destructor(102), unused, no_instrument_function)) static void longpole_points_destruct(void)
{
	struct longpole_points_all *all = longpole_points_all();
	longpole_key_drop(&all->key);
	if (all->pid == longpole_getpid() && longpole_points_samples() != all->printed)
		longpole_points_print();
}

#if defined(__cplusplus)
}
#endif

#define LONGPOLE_TRACE_POINT_START(i) longpole_point_start((uint64_t)(i))
#define LONGPOLE_TRACE_POINT_STOP(i) longpole_point_stop((uint64_t)(i))
#define LONGPOLE_TRACE_POINT_PRINT() longpole_points_print()
#define LONGPOLE_TRACE_POINT_RESET() longpole_points_reset()
#define LONGPOLE_TRACE_POINT_RESULT(i, result) longpole_point_result((uint64_t)(i), result)

#endif

#endif

/* LTTng's event: two u64, like our mark with data and object. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER longpole_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./two.h"
#if !defined(BENCH_TRACEPOINT_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_TRACEPOINT_H
#include <lttng/tracepoint.h>
#include <stdint.h>
LTTNG_UST_TRACEPOINT_EVENT(longpole_bench, two, LTTNG_UST_TP_ARGS(uint64_t, a, uint64_t, b),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, a, a) lttng_ust_field_integer(uint64_t, b, b)))
#endif
#include <lttng/tracepoint-event.h>

/* LTTng's event: one u64, like our mark with data. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER longpole_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./one.h"
#if !defined(BENCH_TRACEPOINT_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_TRACEPOINT_H
#include <lttng/tracepoint.h>
#include <stdint.h>
LTTNG_UST_TRACEPOINT_EVENT(longpole_bench, one, LTTNG_UST_TP_ARGS(uint64_t, a), LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, a, a)))
#endif
#include <lttng/tracepoint-event.h>

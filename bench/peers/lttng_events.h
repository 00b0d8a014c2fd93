/* LTTng's events: one with two words, like our mark with data and object; the edges of a span; and
 * one that is never enabled. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER longpole_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_events.h"
#if !defined(LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define LTTNG_EVENTS_H
#include <lttng/tracepoint.h>
#include <stdint.h>
LTTNG_UST_TRACEPOINT_EVENT(longpole_bench, two, LTTNG_UST_TP_ARGS(uint64_t, a, uint64_t, b),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, a, a) lttng_ust_field_integer(uint64_t, b, b)))
LTTNG_UST_TRACEPOINT_EVENT(longpole_bench, never, LTTNG_UST_TP_ARGS(uint64_t, a, uint64_t, b),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, a, a) lttng_ust_field_integer(uint64_t, b, b)))
LTTNG_UST_TRACEPOINT_EVENT(longpole_bench, begin, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
LTTNG_UST_TRACEPOINT_EVENT(longpole_bench, end, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
#endif
#include <lttng/tracepoint-event.h>

/* LTTng-UST. Its "off" is an event that is not enabled while others are recorded, so no tool has to
 * run between two batches. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_events.h"
#include "subject.h"

LOOP(event, lttng_ust_tracepoint(longpole_bench, two, i, i))
LOOP(span, lttng_ust_tracepoint(longpole_bench, begin); lttng_ust_tracepoint(longpole_bench, end))
LOOP(never, lttng_ust_tracepoint(longpole_bench, never, i, i))

static const struct loop recorded[] = {{"event", event, 1, 2, 0}, {"span", span, 2, 4, 0}};
static const struct loop silent[] = {{"event", never, 0, 1, 0}};

const struct table *table_on(void)
{
	static const struct table table = {.states = "on", .loop = recorded, .count = 2};
	return &table;
}

const struct table *table_out(void)
{
	static const struct table table = {.states = "off", .loop = silent, .count = 1};
	return &table;
}

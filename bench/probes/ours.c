/*
 * Loops with each of our probes. The file is compiled as C and as C++, and with LONGPOLE_DISABLE
 * for the same loops without probes. The subject is its own recorder: it writes its orders into
 * the control page, and between two batches empties its rings by moving the tail. So no batch
 * finds a full ring, no other process works, and only the probe is timed.
 */
#include "subject.h"

#include <longpole/longpole.h>
#include <longpole/points.h>
#include <longpole/tsc.h>

/* Number of calls after which a line is printed. It is never reached, because printing is not
 * measured. */
#define NEVER 0x7fffffff

#if defined(__cplusplus)
static longpole::Queue queue{"bench queue", 1024};
#define TOKENS queue
#elif !defined(LONGPOLE_DISABLE)
static struct longpole_name queue = LONGPOLE_QUEUE_NAME("bench queue", 1024, LONGPOLE_FIFO, LONGPOLE_ITEMS);
#define TOKENS &queue
#else
#define TOKENS "bench queue"
#endif

static const unsigned char frame[64] = {1};

LOOP(state, LONGPOLE_STATE("machine", "state"))
LOOP(begin, LONGPOLE_BEGIN("begin"))
LOOP(begin_argument, LONGPOLE_BEGIN("begin with argument", i))
LOOP(end, LONGPOLE_END("end"))
LOOP(span, LONGPOLE_SPAN("span"))
LOOP(span_argument, LONGPOLE_SPAN("span with argument", i))
LOOP(mark, LONGPOLE_MARK("mark"))
LOOP(mark_data, LONGPOLE_MARK("mark with data", i))
LOOP(mark_object, LONGPOLE_MARK("mark with object", i, i))
LOOP(mark_kind, LONGPOLE_MARK("mark with kind", i, i, LONGPOLE_OBJECT_NEW))
LOOP(gauge, LONGPOLE_COUNTER("gauge", i))
LOOP(gauge_real, LONGPOLE_COUNTER("real gauge", (double)i))
LOOP(rpc_call, LONGPOLE_RPC_CALL("call", i))
LOOP(rpc_returned, LONGPOLE_RPC_RETURNED("call", i))
LOOP(rpc_dispatch, LONGPOLE_RPC_DISPATCH("call", i))
LOOP(rpc_reply, LONGPOLE_RPC_REPLY("call", i))
LOOP(signal_submit, LONGPOLE_SIGNAL_SUBMIT("signal", i))
LOOP(signal_receive, LONGPOLE_SIGNAL_RECEIVE("signal", i))
LOOP(signal_wait, LONGPOLE_SIGNAL_WAIT("signal"))
LOOP(queue_put, LONGPOLE_QUEUE_PUT(TOKENS, i))
LOOP(queue_get, LONGPOLE_QUEUE_GET(TOKENS, i))
LOOP(queue_peek, LONGPOLE_QUEUE_PEEK(TOKENS, i))
LOOP(queue_reserve, LONGPOLE_QUEUE_RESERVE(TOKENS, i))
LOOP(queue_size, LONGPOLE_QUEUE_SIZE(TOKENS, i))
LOOP(queue_wait_empty, LONGPOLE_QUEUE_WAIT_EMPTY(TOKENS))
LOOP(queue_wait_full, LONGPOLE_QUEUE_WAIT_FULL(TOKENS))
LOOP(link_, LONGPOLE_LINK(i, i))
LOOP(flow, LONGPOLE_FLOW(i))
LOOP(event, LONGPOLE_EVENT("event", "a", i, "b", i))
LOOP(packet, LONGPOLE_PACKET("lo", LONGPOLE_IN, frame, sizeof frame))
LOOP(text, LONGPOLE_LOG("sixteen letters."))
LOOP(log_tsc, LONGPOLE_LOG_TSC_NAMED(NEVER, "scope"))
LOOP(trace_tsc, LONGPOLE_TRACE_TSC_NAMED(NEVER, "scope"))
LOOP(points, LONGPOLE_TRACE_POINT_START(1); LONGPOLE_TRACE_POINT_STOP(1))

static const struct loop list[] = {
    {"state", state, 1, 1, 8},
    {"begin", begin, 1, 1, 8},
    {"begin, argument", begin_argument, 1, 1, 16},
    {"end", end, 1, 1, 8},
    {"span", span, 2, 2, 8},
    {"span, argument", span_argument, 2, 2, 16},
    {"mark", mark, 1, 1, 8},
    {"mark, data", mark_data, 1, 1, 16},
    {"mark, data and object", mark_object, 1, 1, 24},
    {"mark, data, object, kind", mark_kind, 1, 1, 32},
    {"counter, integer", gauge, 1, 1, 16},
    {"counter, real", gauge_real, 1, 1, 16},
    {"rpc call", rpc_call, 1, 1, 16},
    {"rpc returned", rpc_returned, 1, 1, 16},
    {"rpc dispatch", rpc_dispatch, 1, 1, 16},
    {"rpc reply", rpc_reply, 1, 1, 16},
    {"signal submit", signal_submit, 1, 1, 16},
    {"signal receive", signal_receive, 1, 1, 16},
    {"signal wait", signal_wait, 1, 1, 8},
    {"queue put", queue_put, 1, 1, 16},
    {"queue get", queue_get, 1, 1, 16},
    {"queue peek", queue_peek, 1, 1, 16},
    {"queue reserve", queue_reserve, 1, 1, 16},
    {"queue size", queue_size, 1, 1, 16},
    {"queue wait empty", queue_wait_empty, 1, 1, 8},
    {"queue wait full", queue_wait_full, 1, 1, 8},
    {"link", link_, 1, 1, 24},
    {"flow", flow, 1, 1, 16},
    {"event, two fields", event, 1, 4, 24},
    {"packet, 64 bytes", packet, 1, 4, 88},
    {"log, 16 letters", text, 1, 4, 32},
    {"LOG_TSC scope", log_tsc, 0, 2, 0},
    {"TRACE_TSC scope", trace_tsc, 0, 2, 0},
    {"TRACE_POINT pair", points, 0, 4, 0},
};

#if defined(LONGPOLE_DISABLE)

const struct table *table_out(void)
{
	static struct table table;
	table.states = "out";
	table.loop = list;
	table.count = sizeof list / sizeof list[0];
	return &table;
}

#else

#include "self.h"

static struct longpole_ring *self_ring(void)
{
	return longpole_is_open(longpole_thread) ? longpole_thread : NULL;
}

#define SITE(n)                                                                                                          \
	static void site_##n(uint64_t value)                                                                                 \
	{                                                                                                                    \
		LONGPOLE_MARK("first hit " #n, value);                                                                           \
	}
#define SITES4(n) SITE(n##0) SITE(n##1) SITE(n##2) SITE(n##3)
#define NAMES4(n) site_##n##0, site_##n##1, site_##n##2, site_##n##3
SITES4(0) SITES4(1) SITES4(2) SITES4(3) SITES4(4) SITES4(5) SITES4(6) SITES4(7)

static void (*const sites[])(uint64_t) = {NAMES4(0), NAMES4(1), NAMES4(2), NAMES4(3), NAMES4(4), NAMES4(5), NAMES4(6), NAMES4(7)};

const struct table *table_on(void)
{
	static struct table table;
	self_recorded(&table, &longpole_page, self_ring);
	table.loop = list;
	table.count = sizeof list / sizeof list[0];
	table.site = sites;
	table.sites = sizeof sites / sizeof sites[0];
	return &table;
}

#endif

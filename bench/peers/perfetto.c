/*
 * Perfetto's C SDK with the in-process service. All recorded events stay in one buffer until the
 * end, so that each can be counted. "off" is a category that the session leaves out. The
 * configuration is a serialized TraceConfig.
 */
#include <perfetto_c.h>

#include "subject.h"

#include <stdio.h>
#include <string.h>

#define CATEGORIES(C) C(bench, "bench", "Recorded") C(never, "never", "Left out")
PERFETTO_TE_CATEGORIES_DEFINE(CATEGORIES)

#define BUFFER_KB (256u << 10)

LOOP(event, PERFETTO_TE(bench, PERFETTO_TE_INSTANT("two"), PERFETTO_TE_ARG_UINT64("a", i), PERFETTO_TE_ARG_UINT64("b", i)))
LOOP(bare, PERFETTO_TE(bench, PERFETTO_TE_INSTANT("bare")))
LOOP(span, PERFETTO_TE(bench, PERFETTO_TE_SLICE_BEGIN("span")); PERFETTO_TE(bench, PERFETTO_TE_SLICE_END()))
LOOP(off, PERFETTO_TE(never, PERFETTO_TE_INSTANT("two"), PERFETTO_TE_ARG_UINT64("a", i), PERFETTO_TE_ARG_UINT64("b", i)))

static struct PerfettoTracingSessionImpl *session;

struct message {
	uint8_t bytes[256];
	size_t size;
};

static void put(struct message *to, uint64_t value)
{
	for (; value > 127; value >>= 7)
		to->bytes[to->size++] = (uint8_t)(value | 128);
	to->bytes[to->size++] = (uint8_t)value;
}

static void put_number(struct message *to, uint32_t field, uint64_t value)
{
	put(to, field << 3);
	put(to, value);
}

static void put_bytes(struct message *to, uint32_t field, const void *bytes, size_t size)
{
	put(to, field << 3 | 2);
	put(to, size);
	memcpy(to->bytes + to->size, bytes, size);
	to->size += size;
}

static int begin(const char *folder)
{
	(void)folder;
	struct PerfettoProducerInitArgs init = PERFETTO_PRODUCER_INIT_ARGS_INIT();
	init.backends = PERFETTO_BACKEND_IN_PROCESS;
	/* The largest possible size, because Perfetto drops events that do not fit. */
	init.shmem_size_hint_kb = 32u << 10;
	PerfettoProducerInit(init);
	PerfettoTeInit();
	PERFETTO_TE_REGISTER_CATEGORIES(CATEGORIES);

	struct message buffer = {.size = 0}, events = {.size = 0}, source = {.size = 0}, wrapped = {.size = 0}, config = {.size = 0};
	put_number(&buffer, 1 /* size_kb */, BUFFER_KB);
	put_number(&buffer, 4 /* fill_policy */, 2 /* DISCARD */);
	put_bytes(&events, 1 /* disabled_categories */, "*", 1);
	put_bytes(&events, 2 /* enabled_categories */, "bench", 5);
	put_bytes(&source, 1 /* name */, "track_event", 11);
	put_bytes(&source, 113 /* track_event_config */, events.bytes, events.size);
	put_bytes(&wrapped, 1 /* config */, source.bytes, source.size);
	put_bytes(&config, 1 /* buffers */, buffer.bytes, buffer.size);
	put_bytes(&config, 2 /* data_sources */, wrapped.bytes, wrapped.size);
	session = PerfettoTracingSessionCreate(PERFETTO_BACKEND_IN_PROCESS);
	PerfettoTracingSessionSetup(session, config.bytes, config.size);
	PerfettoTracingSessionStartBlocking(session);
	return 0;
}

static void store(struct PerfettoTracingSessionImpl *from, const void *data, size_t size, bool more, void *file)
{
	(void)from;
	(void)more;
	fwrite(data, 1, size, file);
}

static int end(const char *folder)
{
	char path[512];
	snprintf(path, sizeof path, "%s/trace.pftrace", folder);
	FILE *file = fopen(path, "wb");
	if (file == NULL) {
		perror(path);
		return 1;
	}
	PerfettoTracingSessionFlushBlocking(session, 10000);
	PerfettoTracingSessionStopBlocking(session);
	PerfettoTracingSessionReadTraceBlocking(session, store, file);
	PerfettoTracingSessionDestroy(session);
	return fclose(file);
}

static const struct loop recorded[] = {{"event", event, 1, 32, 0}, {"event without fields", bare, 1, 16, 0}, {"span", span, 2, 32, 0}};
static const struct loop silent[] = {{"event", off, 0, 1, 0}};

const struct table *table_on(void)
{
	static const struct table table = {.states = "on", .loop = recorded, .count = 3, .begin = begin, .end = end};
	return &table;
}

const struct table *table_out(void)
{
	static const struct table table = {.states = "off", .loop = silent, .count = 1};
	return &table;
}

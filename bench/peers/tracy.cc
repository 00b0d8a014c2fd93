/*
 * Tracy's client without a connected server. It records into an unbounded queue in memory. Between
 * two batches the subject empties the queue and counts its items, as Tracy's own thread does for a
 * server. With BENCH_GROWS it does this only at the end, so batches pay for new memory. The figures
 * exclude that thread's cost of packing and sending. The only "off" is to compile Tracy out.
 */
#include <tracy/Tracy.hpp>

#include <common/TracyAlloc.hpp>

#include "subject.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace tracy {
/* Defined in TracyProfiler.cpp. */
TRACY_API moodycamel::ConcurrentQueue<QueueItem> &GetQueue();
}

using tracy::QueueItem;
using tracy::QueueType;

static const char text[] = "sixteen letters.";

LOOP(event, TracyMessage(text, 16))
LOOP(literal, TracyMessageL("literal"))
LOOP(plot, TracyPlot("plot", static_cast<int64_t>(i)))

/* Not a LOOP, because Tracy's macro consists of more than one statement. */
__attribute__((noinline, aligned(64))) static void span(uint64_t turns)
{
	for (uint64_t i = 0; i < turns; i++) {
		ZoneScopedN("span");
		KEEP(i);
	}
}

static uint64_t items[256];
static std::mutex one_at_a_time;

static void take_out()
{
	static tracy::moodycamel::ConsumerToken token(tracy::GetQueue());
	const std::lock_guard<std::mutex> guard(one_at_a_time);
	while (tracy::GetQueue().try_dequeue_bulk_single(
	           token, [](const uint32_t &) {},
	           [](QueueItem *item, size_t count) {
		           for (; count > 0; count--, item++) {
			           if (item->hdr.type == QueueType::Message) {
				           auto address = tracy::MemRead(&item->messageFat.textAndMetadata);
				           auto *message = reinterpret_cast<char *>(address.GetAddress());
				           /* Tracy's own messages do not count. */
				           const bool own = std::memcmp(message, text, sizeof "sixteen" - 1) == 0;
				           tracy::tracy_free(message);
				           if (!own)
					           continue;
			           }
			           items[item->hdr.idx]++;
		           }
	           }) != 0) {
	}
}

static unsigned long long taken(QueueType type)
{
	return items[static_cast<uint8_t>(type)];
}

static int end(const char *)
{
	take_out();
	std::printf("event\t%llu\nevent, literal\t%llu\nevent, plot\t%llu\nspan\t%llu\nitem\t%zu\n", taken(QueueType::Message),
	            taken(QueueType::MessageLiteral), taken(QueueType::PlotDataInt), taken(QueueType::ZoneBegin) + taken(QueueType::ZoneEnd),
	            static_cast<size_t>(tracy::QueueItemSize));
	return 0;
}

static const struct loop loops[] = {
    {"event", event, 1, 4, 64}, {"event, literal", literal, 1, 4, 64}, {"event, plot", plot, 1, 4, 64}, {"span", span, 2, 8, 64}};

const struct table *table_on()
{
	static struct table table;
	table.states = "on";
	table.loop = loops;
	table.count = sizeof loops / sizeof loops[0];
	if (std::getenv("BENCH_GROWS") == nullptr)
		table.before = take_out;
	table.end = end;
	return &table;
}

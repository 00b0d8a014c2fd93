/*
 * Tracy's client, with nobody connected: what it records waits in a queue in memory, which is counted there. That it goes over a socket to
 * its server afterwards is not in these figures. There is no "off" but to compile it out.
 */
#include <tracy/Tracy.hpp>

#include "subject.h"

#include <cstdio>

namespace tracy {
/* Of TracyProfiler.cpp. */
TRACY_API moodycamel::ConcurrentQueue<QueueItem> &GetQueue();
}

static const char text[] = "sixteen letters.";

LOOP(event, TracyMessage(text, 16))
LOOP(literal, TracyMessageL("literal"))
LOOP(plot, TracyPlot("plot", static_cast<int64_t>(i)))
LOOP(span, ZoneScopedN("span"))

/* Of all threads; only looked at while nobody writes. */
static uint64_t events()
{
	return tracy::GetQueue().size_approx();
}

static int end(const char *)
{
	std::printf("queued\t%llu\nitem\t%zu\n", static_cast<unsigned long long>(events()), static_cast<size_t>(tracy::QueueItemSize));
	std::fflush(stdout);
	return 0;
}

static const struct loop loops[] = {{"event", event, 1, 16, 0}, {"event, literal", literal, 1, 4, 0}, {"event, plot", plot, 1, 4, 0}, {"span", span, 2, 8, 0}};

const struct table *table_on()
{
	static struct table table;
	table.states = "on";
	table.loop = loops;
	table.count = sizeof loops / sizeof loops[0];
	table.end = end;
	return &table;
}

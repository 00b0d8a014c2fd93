/* ftrace's trace_marker: an event is a write to a file of the kernel. `marker` and `tracing_on` in
 * the folder of the run are links into an instance of the tracer that the bench made. */
#include "subject.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int marker = -1, switched = -1;
/* The 16 bytes of an event. */
static const char text[17] = "sixteen letters\n";

LOOP(event, if (write(marker, text, 16) < 0) KEEP(marker))
LOOP(span, if (write(marker, "B|1|span\n", 9) < 0) KEEP(marker); if (write(marker, "E|1\n", 4) < 0) KEEP(marker))

static int open_in(const char *folder, const char *name)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	const int file = open(path, O_WRONLY);
	if (file < 0)
		perror(path);
	return file;
}

static int begin(const char *folder)
{
	marker = open_in(folder, "marker");
	switched = open_in(folder, "tracing_on");
	return marker < 0 || switched < 0;
}

static void take(const char *state)
{
	if (pwrite(switched, strcmp(state, "on") == 0 ? "1" : "0", 1, 0) != 1)
		perror("tracing_on");
}

static const struct loop loops[] = {{"event", event, 1, 32, 0}, {"span", span, 2, 64, 0}};

const struct table *table_on(void)
{
	static const struct table table = {.states = "on off", .loop = loops, .count = 2, .take = take, .begin = begin};
	return &table;
}

/* Events of LTTng's own providers. They need a source file without our provider's definitions. */
#include <lttng/tracef.h>
#include <lttng/tracelog.h>

void texts(unsigned thread, unsigned round, const char *text)
{
	lttng_ust_tracef("round %u of %u", round, thread);
	lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO, "%s", text);
}

/* Events of LTTng's own providers, apart from where ours are defined. */
#include <lttng/tracef.h>
#include <lttng/tracelog.h>

void texts(unsigned thread, unsigned round, const char *text)
{
	lttng_ust_tracef("round %u of %u", round, thread);
	lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO, "%s", text);
}

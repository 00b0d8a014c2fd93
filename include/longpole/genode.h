/*
 * Genode's names for these probes, for code that was instrumented there: a checkpoint is a mark, a duration is a span, and the time-stamp
 * probes print the lines that they print there.
 */
#ifndef LONGPOLE_GENODE_H
#define LONGPOLE_GENODE_H

#include "tsc.h"

/* There, these need no semicolon. */
#define GENODE_LOG_TSC(n) LONGPOLE_LOG_TSC(n);
#define GENODE_LOG_TSC_NAMED(n, name) LONGPOLE_LOG_TSC_NAMED(n, name);
#define GENODE_TRACE_TSC(n) LONGPOLE_TRACE_TSC(n);
#define GENODE_TRACE_TSC_NAMED(n, name) LONGPOLE_TRACE_TSC_NAMED(n, name);
#define GENODE_TRACE_CHECKPOINT(data) LONGPOLE_MARK_HERE(data);
#define GENODE_TRACE_CHECKPOINT_NAMED(data, name) LONGPOLE_MARK(name, data);
#define GENODE_TRACE_DURATION_NAMED(data, name) LONGPOLE_SPAN(name, data);
#if defined(LONGPOLE_DISABLE)
#define GENODE_TRACE_DURATION(data) LONGPOLE_UNUSED_(data);
#else
#define GENODE_TRACE_DURATION(data) LONGPOLE_SCOPE1_(__COUNTER__, LONGPOLE_FUNCTION_, LONGPOLE_FUNCTION_, data);
#endif

#if defined(__cplusplus) && !defined(LONGPOLE_DISABLE)

extern "C++" {

namespace Genode {
namespace Trace {

using Timestamp = uint64_t;

LONGPOLE_INLINE Timestamp timestamp()
{
	return longpole_counter();
}

// Making one records it; its name travels with the event.
struct Checkpoint {
	enum Type : unsigned char { UNDEF = 0x0, START = 0x1, END = 0x2, OBJ_NEW = 0x10, OBJ_DEL = 0x11, OBJ_STATE = 0x12, EXCEPTION = 0xfe, FAILURE = 0xff };

	LONGPOLE_PLAIN_CODE Checkpoint(const char *name, unsigned long data, const void *address, Type type = UNDEF)
	{
		switch (type) {
		case START:
			LONGPOLE_BEGIN(name, data);
			break;
		case END:
			LONGPOLE_END(name, data);
			break;
		case OBJ_NEW:
			LONGPOLE_MARK(name, data, address, LONGPOLE_OBJECT_NEW);
			break;
		case OBJ_DEL:
			LONGPOLE_MARK(name, data, address, LONGPOLE_OBJECT_DELETE);
			break;
		case OBJ_STATE:
			LONGPOLE_MARK(name, data, address, LONGPOLE_OBJECT_STATE);
			break;
		case EXCEPTION:
			LONGPOLE_MARK(name, data, address, LONGPOLE_EXCEPTION);
			break;
		case FAILURE:
			LONGPOLE_MARK(name, data, address, LONGPOLE_FAILURE);
			break;
		default:
			LONGPOLE_MARK(name, data, address);
		}
	}
};

} // namespace Trace
} // namespace Genode

} // extern "C++"

#endif

#endif

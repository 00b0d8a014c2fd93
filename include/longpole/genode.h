/*
 * Genode's names for these probes, for code that was instrumented for Genode: a checkpoint is a
 * mark, a duration is a span, and the time-stamp probes print the same lines as on Genode.
 */
#ifndef LONGPOLE_GENODE_H
#define LONGPOLE_GENODE_H

#include "tsc.h"

/* On Genode these macros need no semicolon. */
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

#if defined(__cplusplus)

extern "C++" {

namespace Genode {
namespace Trace {

using Timestamp = uint64_t;

inline __attribute__((always_inline, no_instrument_function)) Timestamp timestamp()
{
#if !defined(LONGPOLE_DISABLE)
	return longpole_counter();
#elif defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	Timestamp value;
	__asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#else
	return 0;
#endif
}

// The constructor records the checkpoint; its name is copied into the event.
struct Checkpoint {
	enum Type : unsigned char { UNDEF = 0x0, START = 0x1, END = 0x2, OBJ_NEW = 0x10, OBJ_DEL = 0x11, OBJ_STATE = 0x12, EXCEPTION = 0xfe, FAILURE = 0xff };

	__attribute__((no_instrument_function)) Checkpoint(const char *name, unsigned long data, const void *address, Type type = UNDEF)
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

// A checkpoint when it is constructed, and one when it is destroyed.
class Duration
{
public:
	__attribute__((no_instrument_function)) Duration(const char *name, unsigned long data) : _name(name), _data(data)
	{
		Checkpoint(_name, _data, nullptr, Checkpoint::START);
	}

	__attribute__((no_instrument_function)) ~Duration() { Checkpoint(_name, _data, nullptr, Checkpoint::END); }

	Duration(const Duration &) = delete;
	Duration &operator=(const Duration &) = delete;

private:
	const char *_name;
	unsigned long _data;
};

} // namespace Trace
} // namespace Genode

} // extern "C++"

#endif

#endif

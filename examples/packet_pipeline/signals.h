// Signals: asynchronous wake-ups without content.
//
// A signal context belongs to the process that receives it. It counts how often it was submitted
// since it was last received, so several submissions merge into one. Each process has one signal
// loop, which sleeps in the kernel (on one eventfd) unless a signal is pending. Submitting and
// receiving are system calls, as they are in any system where a signal crosses a protection domain;
// a process that signals itself also pays for them.

#ifndef PIPELINE_SIGNALS_H
#define PIPELINE_SIGNALS_H

#include "names.h"

#include <longpole/longpole.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <unistd.h>

namespace pipeline {

enum Role : uint32_t { SOURCE, ROUTER, SINK, TIMER, ROLES };

// Context, role that receives it, and name.
#define PIPELINE_SIGNALS(X)                                            \
	X(SOURCE_START, SOURCE, N_SOURCE_START)                            \
	X(SOURCE_READY_TO_SUBMIT, SOURCE, N_SOURCE_READY_TO_SUBMIT)        \
	X(SOURCE_ACK_AVAILABLE, SOURCE, N_SOURCE_ACK_AVAILABLE)            \
	X(ROUTER_PACKET_AVAILABLE, ROUTER, N_ROUTER_PACKET_AVAILABLE)      \
	X(ROUTER_READY_TO_ACK, ROUTER, N_ROUTER_READY_TO_ACK)              \
	X(ROUTER_READY_TO_SUBMIT, ROUTER, N_ROUTER_READY_TO_SUBMIT)        \
	X(ROUTER_ACK_AVAILABLE, ROUTER, N_ROUTER_ACK_AVAILABLE)            \
	X(ROUTER_TIMEOUT, ROUTER, N_ROUTER_TIMEOUT)                        \
	X(SINK_PACKET_AVAILABLE, SINK, N_SINK_PACKET_AVAILABLE)            \
	X(SINK_READY_TO_ACK, SINK, N_SINK_READY_TO_ACK)

enum Context : uint32_t {
#define X(context, role, name) context,
	PIPELINE_SIGNALS(X)
#undef X
	CONTEXTS
};

struct SignalMemory {
	struct alignas(64) Pending {
		std::atomic<uint32_t> count;
	};
	Pending pending[CONTEXTS];
	int doorbell[ROLES]; // Eventfds, inherited by all processes.
};

inline void ring(const SignalMemory &m, Role role)
{
	uint64_t one = 1;
	// No other error than EINTR is possible: an eventfd refuses a write only at 2^64 - 1, and it
	// stays open here if a peer ends.
	while (write(m.doorbell[role], &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

inline void submit(SignalMemory &m, Context context)
{
	switch (context) {
#define X(context, role, name)                                    \
	case context:                                                 \
		LONGPOLE_SIGNAL_SUBMIT(name, 1);                          \
		m.pending[context].count.fetch_add(1);                    \
		ring(m, role);                                            \
		break;
		PIPELINE_SIGNALS(X)
#undef X
	case CONTEXTS:
		break;
	}
}

// Sleeps until this role's eventfd has been written.
inline void wait_for_signals(SignalMemory &m, Role role)
{
	uint64_t rung;
	while (read(m.doorbell[role], &rung, sizeof(rung)) < 0 && errno == EINTR)
		;
}

// Takes all pending contexts of `role`. Returns a mask with one bit per context.
inline uint32_t receive(SignalMemory &m, Role role)
{
	uint32_t received = 0;
#define X(context, receiver, name)                                                                     \
	if (receiver == role && m.pending[context].count.load(std::memory_order_relaxed)) {                \
		uint32_t count = m.pending[context].count.exchange(0);                                         \
		LONGPOLE_SIGNAL_RECEIVE(name, count);                                                          \
		(void)count;                                                                                   \
		received |= 1u << context;                                                                     \
	}
	PIPELINE_SIGNALS(X)
#undef X
	return received;
}

} // namespace pipeline

#endif

// Signals: asynchronous wake-ups without content.
//
// A context belongs to the process that receives it and holds how often it was submitted since it was last received;
// several submits merge. Each process has one signal loop, which sleeps in the kernel (one eventfd) unless something is
// pending. Submitting and receiving are system calls, as they are wherever a signal crosses a protection domain, and a
// process that signals itself pays like any other.

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

// context, who receives it, its name
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
	int doorbell[ROLES]; // eventfds, inherited by all
};

inline void ring(const SignalMemory &m, Role role)
{
	uint64_t one = 1;
	// an eventfd only refuses at 2^64 - 1, and a peer that has ended does not close it
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

// Sleeps until somebody has rung.
inline void wait_for_signals(SignalMemory &m, Role role)
{
	uint64_t rung;
	while (read(m.doorbell[role], &rung, sizeof(rung)) < 0 && errno == EINTR)
		;
}

// Takes all pending contexts of `role`: a bit per context.
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

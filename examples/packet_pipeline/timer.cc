// timer_server: signals the router once, at the time that its last call requested.

#include "rpc.h"
#include "system.h"

#include <poll.h>

namespace pipeline {

int run_timer(System &s)
{
	const int fd = s.timer_server;
	uint64_t deadline = 0; // 0 if no signal is requested.

	s.ready.fetch_add(1);
	for (;;) {
		timespec left{}, *timeout = nullptr;
		if (deadline) {
			uint64_t now = now_ns(), ns = deadline > now ? deadline - now : 0;
			left = {time_t(ns / 1000000000), long(ns % 1000000000)};
			timeout = &left;
		}
		pollfd p{fd, POLLIN, 0};
		int n = ppoll(&p, 1, timeout, nullptr);
		if (n < 0 && errno != EINTR) {
			std::perror("timer_server: ppoll");
			return 1;
		}
		if (n == 0) {
			deadline = 0;
			submit(s.signals, ROUTER_TIMEOUT);
		}
		if (n <= 0)
			continue;

		TriggerRequest request;
		if (!receive_message(fd, request))
			return 0; // The router has ended.
		LONGPOLE_RPC_DISPATCH(N_TRIGGER_ONCE, request.id);
		deadline = now_ns() + request.after_ns;
		TriggerReply reply{request.id};
		LONGPOLE_RPC_REPLY(N_TRIGGER_ONCE, request.id);
		send_message(fd, reply);
	}
}

} // namespace pipeline

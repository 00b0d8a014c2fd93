// The call `trigger_once`, from the router to the timer server and back.
//
// The router requests one signal at a certain time; a later call replaces an earlier one. This is a
// real remote call: the request goes to another process through a socket, and the caller sleeps
// until the reply arrives.

#ifndef PIPELINE_RPC_H
#define PIPELINE_RPC_H

#include "names.h"

#include <longpole/longpole.h>

#include <cerrno>
#include <cstdint>
#include <sys/socket.h>

namespace pipeline {

struct TriggerRequest {
	uint64_t id;
	uint64_t after_ns;
};

struct TriggerReply {
	uint64_t id;
};

template <typename T> bool send_message(int fd, const T &message)
{
	ssize_t n;
	do
		n = send(fd, &message, sizeof(message), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == ssize_t(sizeof(message));
}

// Returns false if the other side has ended.
template <typename T> bool receive_message(int fd, T &message)
{
	ssize_t n;
	do
		n = recv(fd, &message, sizeof(message), 0);
	while (n < 0 && errno == EINTR);
	return n == ssize_t(sizeof(message));
}

class TimerClient
{
public:
	explicit TimerClient(int fd) : fd_(fd) {}

	bool trigger_once(uint64_t after_ns)
	{
		TriggerRequest request{++id_, after_ns};
		TriggerReply reply{};
		LONGPOLE_RPC_CALL(N_TRIGGER_ONCE, request.id);
		bool ok = send_message(fd_, request) && receive_message(fd_, reply) && reply.id == request.id;
		LONGPOLE_RPC_RETURNED(N_TRIGGER_ONCE, request.id);
		return ok;
	}

private:
	int fd_;
	uint64_t id_ = 0;
};

} // namespace pipeline

#endif

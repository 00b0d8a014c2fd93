// Both sides of the call to the directory, and the process that serves it.

#include "directory.h"
#include "names.h"
#include "stages.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <sys/socket.h>

namespace pipes {

void Directory::resolve(const uint32_t *networks, size_t count, Name *names)
{
	for (size_t done = 0; done < count;) {
		size_t now = std::min(count - done, most_questions);
		Question question;
		question.id = ++id_;
		std::memcpy(question.networks, networks + done, now * sizeof *networks);
		size_t bytes = offsetof(Question, networks) + now * sizeof *networks;

		LONGPOLE_RPC_CALL(N_RESOLVE, question.id);
		if (send(socket_, &question, bytes, MSG_NOSIGNAL) != ssize_t(bytes))
			die("ask the directory");
		Answer answer;
		bytes = offsetof(Answer, names) + now * sizeof *names;
		if (recv(socket_, &answer, sizeof answer, 0) != ssize_t(bytes) || answer.id != question.id)
			die("answer of the directory");
		LONGPOLE_RPC_RETURNED(N_RESOLVE, answer.id);

		std::memcpy(names + done, answer.names, now * sizeof *names);
		done += now;
	}
}

void run_directory(int client)
{
	Registry registry;
	for (;;) {
		Question question;
		ssize_t received = recv(client, &question, sizeof question, 0);
		if (received < 0)
			die("question to the directory");
		if (received < ssize_t(offsetof(Question, networks)))
			return; // The client has ended.
		LONGPOLE_RPC_DISPATCH(N_RESOLVE, question.id);
		size_t count = (size_t(received) - offsetof(Question, networks)) / sizeof *question.networks;
		Answer answer;
		answer.id = question.id;
		{
			LONGPOLE_SPAN(N_SERVE, count);
			for (size_t i = 0; i < count; i++)
				answer.names[i] = registry.name(question.networks[i]);
		}
		size_t bytes = offsetof(Answer, names) + count * sizeof *answer.names;
		LONGPOLE_RPC_REPLY(N_RESOLVE, answer.id);
		if (send(client, &answer, bytes, MSG_NOSIGNAL) != ssize_t(bytes))
			return;
	}
}

} // namespace pipes

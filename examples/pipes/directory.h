// The call to the directory, which returns names of networks. The socket preserves message
// boundaries.

#ifndef PIPES_DIRECTORY_H
#define PIPES_DIRECTORY_H

#include "networks.h"

#include <cstdint>
#include <vector>

namespace pipes {

constexpr size_t most_questions = 512;

struct Question {
	uint64_t id;
	uint32_t networks[most_questions];
};

struct Answer {
	uint64_t id;
	Name names[most_questions];
};

class Directory
{
public:
	explicit Directory(int socket) : socket_(socket) {}

	// Returns the names of `count` networks; waits for the reply.
	void resolve(const uint32_t *networks, size_t count, Name *names);

private:
	int socket_;
	uint64_t id_ = 0;
};

} // namespace pipes

#endif

// A pipe as a queue of whole lines.
//
// Everything that is written is a batch of whole lines of at most PIPE_BUF bytes. Such a write is all or nothing, so a
// reader finds whole lines, too. Both ends look before they act, which is what lets them tell a recorder the truth: a put stands
// before its bytes can be seen by the other side, a get before their room can be used again.

#ifndef PIPES_CHANNEL_H
#define PIPES_CHANNEL_H

#include <cstddef>
#include <limits.h>
#include <longpole/longpole.h>

namespace pipes {

constexpr size_t batch_bytes = PIPE_BUF;

struct Pipe {
	int read_end;
	int write_end;
	size_t capacity; // bytes
};

Pipe make_pipe();

// The end into which lines go. Failing calls end the process with a message: its neighbour is gone, and so is its purpose.
class Outlet
{
public:
	Outlet(const Pipe &pipe, const char *name);
	~Outlet();
	Outlet(const Outlet &) = delete;
	Outlet &operator=(const Outlet &) = delete;

	// Waits for room; at most batch_bytes.
	void send(const char *bytes, size_t count);

private:
	int fd_;
	longpole::Queue queue_;
};

class Inlet
{
public:
	Inlet(const Pipe &pipe, const char *name);

	// Waits for lines and takes all that are there and fit; 0 when the other end is closed and all is taken.
	size_t receive(char *bytes, size_t room);

	// Room for this much never cuts a line.
	size_t capacity() const { return capacity_; }

private:
	int fd_;
	size_t capacity_;
	longpole::Queue queue_;
};

// A message and exit status 1.
[[noreturn]] void die(const char *what);

} // namespace pipes

#endif

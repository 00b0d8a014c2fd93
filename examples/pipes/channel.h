// A pipe as a queue of whole lines.
//
// Each write is a batch of whole lines of at most PIPE_BUF bytes. Such a write is atomic, so a
// reader also finds whole lines. Both ends check the pipe before they act, so the order of events
// is right: a put is recorded before its bytes are visible to the other side, and a get before its
// space can be used again.

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

// The writing end. If a call fails, the process prints a message and exits, because without the
// process at the other end it has nothing to do.
class Outlet
{
public:
	Outlet(const Pipe &pipe, const char *name);
	~Outlet();
	Outlet(const Outlet &) = delete;
	Outlet &operator=(const Outlet &) = delete;

	// Waits for space, and sends at most batch_bytes.
	void send(const char *bytes, size_t count);

private:
	int fd_;
	longpole::Queue queue_;
};

class Inlet
{
public:
	Inlet(const Pipe &pipe, const char *name);

	// Waits for lines. Returns the number of bytes taken, which are all that are in the pipe and
	// fit; 0 if the other end is closed and everything was taken.
	size_t receive(char *bytes, size_t room);

	// A buffer of this many bytes never cuts a line.
	size_t capacity() const { return capacity_; }

private:
	int fd_;
	size_t capacity_;
	longpole::Queue queue_;
};

// Prints a message and exits with status 1.
[[noreturn]] void die(const char *what);

} // namespace pipes

#endif

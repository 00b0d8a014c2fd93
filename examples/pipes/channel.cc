#include "channel.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace pipes {

namespace {

// Returns whether the event is pending; `patience` is the timeout of poll in ms.
bool ready(int fd, short events, int patience)
{
	pollfd entry{fd, events, 0};
	if (poll(&entry, 1, patience) < 0)
		die("poll");
	return entry.revents != 0;
}

} // namespace

void die(const char *what)
{
	std::perror(what);
	_exit(1);
}

Pipe make_pipe()
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		die("pipe");
	int capacity = fcntl(ends[0], F_GETPIPE_SZ);
	if (capacity < 0)
		die("F_GETPIPE_SZ");
	return {ends[0], ends[1], size_t(capacity)};
}

Outlet::Outlet(const Pipe &pipe, const char *name)
    : fd_(pipe.write_end), queue_(name, pipe.capacity, longpole::Order::fifo, longpole::Unit::bytes)
{
	close(pipe.read_end);
}

Outlet::~Outlet()
{
	close(fd_);
}

void Outlet::send(const char *bytes, size_t count)
{
	// A pipe is writable if a whole batch fits, so the write below never waits and is never split.
	if (!ready(fd_, POLLOUT, 0)) {
		LONGPOLE_QUEUE_WAIT_FULL(queue_);
		ready(fd_, POLLOUT, -1);
	}
	LONGPOLE_QUEUE_PUT(queue_, count);
	if (write(fd_, bytes, count) != ssize_t(count))
		die("write to the pipe");
}

Inlet::Inlet(const Pipe &pipe, const char *name)
    : fd_(pipe.read_end), capacity_(pipe.capacity), queue_(name, pipe.capacity, longpole::Order::fifo, longpole::Unit::bytes)
{
	close(pipe.write_end);
}

size_t Inlet::receive(char *bytes, size_t room)
{
	int there = 0;
	if (ioctl(fd_, FIONREAD, &there) < 0)
		die("FIONREAD");
	if (there == 0) {
		LONGPOLE_QUEUE_WAIT_EMPTY(queue_);
		ready(fd_, POLLIN, -1);
		if (ioctl(fd_, FIONREAD, &there) < 0)
			die("FIONREAD");
		if (there == 0)
			return 0;
	}
	size_t count = size_t(there) < room ? size_t(there) : room;
	LONGPOLE_QUEUE_GET(queue_, count);
	if (read(fd_, bytes, count) != ssize_t(count))
		die("read from the pipe");
	return count;
}

} // namespace pipes

// The state that the four processes share: one piece of memory and some inherited file descriptors.

#ifndef PIPELINE_SYSTEM_H
#define PIPELINE_SYSTEM_H

#include "options.h"
#include "signals.h"
#include "stream.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <time.h>

namespace pipeline {

struct System {
	Options options;
	SignalMemory signals;
	int finished;       // Eventfd; written when the sink has received all requested packets.
	int timer_client;   // Socket, the router's end.
	int timer_server;   // Socket, the timer server's end.
	std::atomic<uint32_t> ready;
	std::atomic<uint32_t> stop;
	std::atomic<uint64_t> received;      // Number of packets, set when the sink ends.
	std::atomic<uint64_t> cpu_ns[ROLES]; // CPU time of each process that has ended.
	StreamMemory north; // Source to router, or to the sink without a router.
	StreamMemory south; // Router to sink.
};

inline uint64_t now_ns()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
}

// Prints `Sent N packets in P ms at X Mbit/s` in one write, so that the lines of two processes do
// not mix.
inline void print_rate(const char *what, uint64_t packets, uint32_t bytes, uint64_t ns)
{
	double mbit = ns ? double(packets) * bytes * 8 * 1000 / double(ns) : 0;
	std::printf("%s %llu packets in %llu ms at %.0f Mbit/s\n", what, static_cast<unsigned long long>(packets),
	            static_cast<unsigned long long>(ns / 1000000), mbit);
	std::fflush(stdout);
}

// A file of frames for the test of the routing, each after its length (32 bits, big endian).
class Dump
{
public:
	explicit Dump(const char *path) : file_(*path ? std::fopen(path, "wb") : nullptr)
	{
		if (*path && !file_)
			std::perror(path);
	}
	~Dump()
	{
		if (file_)
			std::fclose(file_);
	}
	Dump(const Dump &) = delete;
	Dump &operator=(const Dump &) = delete;

	explicit operator bool() const { return file_; }

	void frame(const uint8_t *bytes, uint32_t length)
	{
		uint8_t head[4];
		store32(head, length);
		std::fwrite(head, 1, sizeof(head), file_);
		std::fwrite(bytes, 1, length, file_);
	}

private:
	std::FILE *file_;
};

// Main functions of the four processes. Each returns its exit status.
int run_source(System &);
int run_router(System &);
int run_sink(System &);
int run_timer(System &);

} // namespace pipeline

#endif

// Options of the pipeline's command line.
//
// Plain old data, because the launcher puts it into the memory that the four processes share.

#ifndef PIPELINE_OPTIONS_H
#define PIPELINE_OPTIONS_H

#include <cstdint>

namespace pipeline {

struct Options {
	// The five faults. The default values are without faults.
	bool lookup_exceptions = false;
	bool timeouts_exact = false;
	uint32_t batch = 150;
	bool signals_eager = false;
	bool checksum_full = false;
	uint32_t one_in = 1; // All faults except `batch` affect one packet in this many.

	bool route_udp = true; // Kind of routing rule; not a fault.
	bool apart = false;    // Router and timer server are each pinned to a CPU of their own.
	bool direct = false;   // Source to sink without the router: the baseline.
	uint32_t bytes = 64;   // Size of a frame, from the Ethernet header to the end of the payload.
	double seconds = 4;    // Duration; 0: until SIGINT or SIGTERM.
	uint64_t packets = 0;  // Number of packets at the sink after which the run ends; 0: no limit.
	uint32_t capture = 16; // Every n-th frame of an interface goes to the packet probe; 0: none.
	uint32_t order_seed = 0; // Seed for a random start order; 0: the order of the stream.
	char dump_sent[256] = "";
	char dump_received[256] = "";
};

// Parses the arguments. On an error or for the help, prints the text and exits the process.
Options parse_options(int argc, char **argv);

} // namespace pipeline

#endif

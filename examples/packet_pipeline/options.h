// What the command line of the pipeline says.
//
// Plain old data: the launcher puts it into the shared memory that its four processes map.

#ifndef PIPELINE_OPTIONS_H
#define PIPELINE_OPTIONS_H

#include <cstdint>

namespace pipeline {

struct Options {
	// the five faults; the values here are the good ones
	bool lookup_exceptions = false;
	bool timeouts_exact = false;
	uint32_t batch = 150;
	bool signals_eager = false;
	bool checksum_full = false;
	uint32_t one_in = 1; // each fault but the batch falls on one packet of so many

	bool route_udp = true; // no fault: which kind of rule is looked for
	bool apart = false;    // router and timer server each stay on a CPU of their own
	bool direct = false;   // source to sink without the router: the baseline
	uint32_t bytes = 64;   // of a frame, from the Ethernet header to the payload's end
	double seconds = 4;    // 0: until SIGINT or SIGTERM
	uint64_t packets = 0;  // stop when the sink has so many; 0: no limit
	uint32_t capture = 16; // every n-th frame of an interface goes to the packet probe; 0: none
	uint32_t order_seed = 0; // 0: processes start in the order of the stream, else in an order drawn from the seed
	char dump_sent[256] = "";
	char dump_received[256] = "";
};

// Reads the arguments; prints what is wrong, or the help, and leaves the process.
Options parse_options(int argc, char **argv);

} // namespace pipeline

#endif

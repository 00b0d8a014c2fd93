// The command line.

#ifndef PIPES_OPTIONS_H
#define PIPES_OPTIONS_H

#include <cstdint>

namespace pipes {

// Faults that can be switched on. Each of them occurs in real programs.
enum class Slow {
	none,
	reader_streams, // A new string stream with a locale for each line.
	enricher_scan,  // The table of networks is searched from its start.
	enricher_rpc,   // The directory is called for each line.
	writer_join,    // Each line makes a new page out of the previous one.
};

struct Options {
	Slow slow = Slow::none;
	uint64_t records = 0; // 0: until the time is over.
	double seconds = 5;
	uint64_t seed = 1;
	const char *output = "/dev/null";
};

// Parses the arguments. On an error prints the usage and exits with status 2; `--help` exits with
// 0.
Options parse_options(int argc, char **argv);

const char *name(Slow slow);

} // namespace pipes

#endif

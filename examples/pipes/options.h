// The command line.

#ifndef PIPES_OPTIONS_H
#define PIPES_OPTIONS_H

#include <cstdint>

namespace pipes {

// The faults that can be switched on, each one that real programs have.
enum class Slow {
	none,
	reader_streams, // a new string stream with a locale for each line
	enricher_scan,  // the table of networks is searched from its begin
	enricher_rpc,   // the directory is asked for each line
	writer_join,    // each line makes a new page out of the old one
};

struct Options {
	Slow slow = Slow::none;
	uint64_t records = 0; // 0: until the time is over
	double seconds = 5;
	uint64_t seed = 1;
	const char *output = "/dev/null";
};

// Prints what is wrong and ends the program with 2.
Options parse_options(int argc, char **argv);

const char *name(Slow slow);

} // namespace pipes

#endif

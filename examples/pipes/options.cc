#include "options.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace pipes {

namespace {

constexpr struct {
	const char *name;
	Slow slow;
} faults[] = {
	{"none", Slow::none},
	{"reader:streams", Slow::reader_streams},
	{"enricher:scan", Slow::enricher_scan},
	{"enricher:rpc", Slow::enricher_rpc},
	{"writer:join", Slow::writer_join},
};

[[noreturn]] void usage(int status)
{
	std::fprintf(status ? stderr : stdout,
	             "usage: pipes [--slow=STAGE:WHAT|none] [--records=N | --seconds=N] [--seed=N] [--output=FILE]\n"
	             "  --slow     ");
	for (const auto &fault : faults)
		std::fprintf(status ? stderr : stdout, "%s ", fault.name);
	std::fprintf(status ? stderr : stdout, "\n  --seconds  5 unless told\n"
	                                       "  --output   where the pages go, /dev/null unless told\n");
	std::exit(status);
}

// Returns the value of `--name=value` or `--name value`, or null if the argument has another name.
const char *value_of(const char *name, int argc, char **argv, int &at)
{
	size_t length = std::strlen(name);
	if (std::strncmp(argv[at], name, length) != 0)
		return nullptr;
	if (argv[at][length] == '=')
		return argv[at] + length + 1;
	if (argv[at][length] == 0 && at + 1 < argc)
		return argv[++at];
	return nullptr;
}

uint64_t whole_number(const char *text)
{
	char *end;
	uint64_t number = std::strtoull(text, &end, 10);
	if (end == text || *end || *text == '-')
		usage(2);
	return number;
}

} // namespace

const char *name(Slow slow)
{
	for (const auto &fault : faults)
		if (fault.slow == slow)
			return fault.name;
	return "?";
}

Options parse_options(int argc, char **argv)
{
	Options options;
	for (int at = 1; at < argc; at++) {
		if (std::strcmp(argv[at], "--help") == 0)
			usage(0);
		if (const char *text = value_of("--slow", argc, argv, at)) {
			bool known = false;
			for (const auto &fault : faults)
				if (std::strcmp(text, fault.name) == 0) {
					options.slow = fault.slow;
					known = true;
				}
			if (!known)
				usage(2);
		} else if (const char *text = value_of("--records", argc, argv, at)) {
			options.records = whole_number(text);
		} else if (const char *text = value_of("--seconds", argc, argv, at)) {
			char *end;
			options.seconds = std::strtod(text, &end);
			if (end == text || *end || !(options.seconds > 0))
				usage(2);
		} else if (const char *text = value_of("--seed", argc, argv, at)) {
			options.seed = whole_number(text);
		} else if (const char *text = value_of("--output", argc, argv, at)) {
			options.output = text;
		} else {
			std::fprintf(stderr, "pipes: unknown argument '%s'\n", argv[at]);
			usage(2);
		}
	}
	return options;
}

} // namespace pipes

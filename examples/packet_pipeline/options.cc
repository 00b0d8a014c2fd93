#include "options.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace pipeline {

static const char HELP[] =
    "packet_pipeline: four processes that send, route and receive packets\n"
    "\n"
    "Faults of the router (the second value is the good one, and the default):\n"
    "  --lookup=exceptions|results      a rule that does not match throws, or returns\n"
    "  --timeouts=exact|lazy            one timer RPC per packet, or only when the timer must be armed again\n"
    "  --batch=N                        packets per received signal, good: 150\n"
    "  --signals=eager|batched          others are signalled after each packet, or once per half a queue\n"
    "  --checksum=full|incremental      checksums are summed anew over the whole packet, or updated\n"
    "  --slow                           all five faults: exceptions, exact, 8, eager, full\n"
    "  --one-in=N                       the faults but the batch fall on one packet in N (default 1)\n"
    "\n"
    "What to run:\n"
    "  --route=ip|udp                   kind of routing rule (default udp)\n"
    "  --direct                         source to sink, no router\n"
    "  --apart                          router and timer server each stay on a CPU of their own\n"
    "  --bytes=N                        frame size, 64 to 1514 (default 64)\n"
    "  --seconds=S                      how long (default 4; 0: until interrupted)\n"
    "  --packets=N                      stop when the sink has received N\n"
    "  --capture=N                      give every N-th frame to the packet probe (default 16; 0: none)\n"
    "  --start-order=SEED               start the processes in an order drawn from SEED\n"
    "  --dump-sent=FILE, --dump-received=FILE   write all frames, each behind its length (32 bits)\n";

[[noreturn]] static void usage(const std::string &what)
{
	std::fprintf(stderr, "packet_pipeline: %s (see --help)\n", what.c_str());
	std::exit(2);
}

static uint64_t number(const std::string &option, const char *text, uint64_t low, uint64_t high)
{
	char *end = nullptr;
	unsigned long long value = std::strtoull(text, &end, 10);
	if (!*text || *end || *text == '-' || value < low || value > high)
		usage(option + " wants a number from " + std::to_string(low) + " to " + std::to_string(high));
	return value;
}

static bool choice(const std::string &option, const std::string &value, const char *yes, const char *no)
{
	if (value == yes)
		return true;
	if (value == no)
		return false;
	usage(option + " wants " + yes + " or " + no);
}

static void path(const std::string &option, const char *value, char (&to)[256])
{
	if (!*value || std::strlen(value) >= sizeof(to))
		usage(option + " wants a path of at most 255 bytes");
	std::strcpy(to, value);
}

Options parse_options(int argc, char **argv)
{
	Options o;
	for (int i = 1; i < argc; i++) {
		std::string arg = argv[i];
		if (arg == "--help" || arg == "-h") {
			std::fputs(HELP, stdout);
			std::exit(0);
		}
		if (arg == "--direct") {
			o.direct = true;
			continue;
		}
		if (arg == "--apart") {
			o.apart = true;
			continue;
		}
		if (arg == "--slow") {
			o.lookup_exceptions = o.timeouts_exact = o.signals_eager = o.checksum_full = true;
			o.batch = 8;
			continue;
		}
		// Accepts both `--name=value` and `--name value`.
		std::string name = arg;
		const char *value = nullptr;
		size_t equals = arg.find('=');
		if (equals != std::string::npos) {
			name = arg.substr(0, equals);
			value = argv[i] + equals + 1;
		} else if (i + 1 < argc) {
			value = argv[++i];
		}
		if (!value)
			usage("unknown option, or one without its value: " + arg);

		if (name == "--lookup")
			o.lookup_exceptions = choice(name, value, "exceptions", "results");
		else if (name == "--timeouts")
			o.timeouts_exact = choice(name, value, "exact", "lazy");
		else if (name == "--batch")
			o.batch = static_cast<uint32_t>(number(name, value, 1, 1023));
		else if (name == "--signals")
			o.signals_eager = choice(name, value, "eager", "batched");
		else if (name == "--checksum")
			o.checksum_full = choice(name, value, "full", "incremental");
		else if (name == "--one-in")
			o.one_in = static_cast<uint32_t>(number(name, value, 1, UINT32_MAX));
		else if (name == "--route")
			o.route_udp = choice(name, value, "udp", "ip");
		else if (name == "--bytes")
			o.bytes = static_cast<uint32_t>(number(name, value, 64, 1514));
		else if (name == "--seconds") {
			char *end = nullptr;
			o.seconds = std::strtod(value, &end);
			if (!*value || *end || !(o.seconds >= 0 && o.seconds <= 86400))
				usage("--seconds wants a number from 0 to 86400");
		} else if (name == "--packets")
			o.packets = number(name, value, 1, UINT64_MAX / 2);
		else if (name == "--capture")
			o.capture = static_cast<uint32_t>(number(name, value, 0, UINT32_MAX));
		else if (name == "--start-order")
			o.order_seed = static_cast<uint32_t>(number(name, value, 0, UINT32_MAX));
		else if (name == "--dump-sent")
			path(name, value, o.dump_sent);
		else if (name == "--dump-received")
			path(name, value, o.dump_received);
		else
			usage("unknown option: " + arg);
	}
	return o;
}

} // namespace pipeline

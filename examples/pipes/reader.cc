// The first stage: hits of a web site as lines of text.
//
// It takes the place of a program that follows a log file. The hits come from a seeded generator,
// so two runs with the same number of records have the same lines with any fault.

#include "names.h"
#include "networks.h"
#include "stages.h"
#include "text.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <locale>
#include <sstream>
#include <string>
#include <time.h>

namespace pipes {

namespace {

struct Hit {
	uint64_t time_us;
	uint32_t address;
	uint32_t item;
	uint32_t status;
	uint32_t bytes;
	uint32_t duration_us;
};

// The longest line has 84 bytes, so this many lines always fit into a batch.
constexpr size_t batch_hits = 48;
constexpr size_t longest_line = 84;
static_assert(batch_hits * longest_line <= batch_bytes, "a batch of lines must fit into one atomic write");

class Visitors
{
public:
	explicit Visitors(uint64_t seed) : state_(mixed(seed)) {}

	Hit next()
	{
		uint64_t a = random(), b = random();
		time_us_ += 1 + (a & 63);
		// One hit in 512 comes from a network that belongs to no customer.
		uint32_t network = (a >> 8) % 512 ? customer_network((a >> 20) % known_networks) : uint32_t(b >> 40);
		constexpr uint32_t statuses[] = {200, 200, 200, 200, 200, 304, 404, 503};
		// A few items are requested often, and a few answers are slow.
		double rank = std::pow(items, unit(random()));
		// Sizes and durations are log-normal: the Box-Muller transform makes two normal numbers out
		// of two uniform ones.
		double radius = std::sqrt(-2 * std::log1p(-unit(random())));
		double angle = 6.283185307179586 * unit(random());
		double bytes = std::exp(9 + 1.5 * radius * std::cos(angle));
		double duration_us = std::exp(11 + 1.2 * radius * std::sin(angle));
		return {time_us_,
		        network << 8 | uint32_t(a >> 56),
		        uint32_t(rank) % items,
		        statuses[(b >> 20) & 7],
		        uint32_t(std::min(bytes, 9999999.0)),
		        uint32_t(std::min(duration_us, 9999999.0))};
	}

private:
	static constexpr uint32_t items = 100000;

	// Maps random bits to a number in [0, 1).
	static double unit(uint64_t bits) { return double(bits >> 11) * 0x1p-53; }

	uint64_t random()
	{
		state_ ^= state_ << 13;
		state_ ^= state_ >> 7;
		state_ ^= state_ << 17;
		return state_;
	}

	uint64_t state_;
	uint64_t time_us_ = 1763679845000000;
};

void append_address(Pen &pen, uint32_t address)
{
	pen.number(address >> 24);
	pen.put('.');
	pen.number(address >> 16 & 255);
	pen.put('.');
	pen.number(address >> 8 & 255);
	pen.put('.');
	pen.number(address & 255);
}

// Formats one hit at a time. The date is formatted only when the second changes.
class Clerk
{
public:
	void append(Pen &pen, const Hit &hit)
	{
		time_t second = time_t(hit.time_us / 1000000);
		if (second != second_) {
			second_ = second;
			tm parts;
			gmtime_r(&second, &parts);
			length_ = strftime(date_, sizeof date_, "%Y-%m-%dT%H:%M:%S.", &parts);
		}
		pen.text({date_, length_});
		pen.padded(hit.time_us % 1000000, 6);
		pen.text("Z ");
		append_address(pen, hit.address);
		pen.text(" GET /item/");
		pen.padded(hit.item, 6);
		pen.put(' ');
		pen.number(hit.status);
		pen.put(' ');
		pen.number(hit.bytes);
		pen.put(' ');
		pen.number(hit.duration_us);
		pen.put('\n');
	}

private:
	time_t second_ = -1;
	char date_[32];
	size_t length_ = 0;
};

// Makes the same line in the way of many real programs: with a new stream.
std::string formatted_by_stream(const Hit &hit)
{
	std::ostringstream line;
	line.imbue(std::locale::classic());
	time_t second = time_t(hit.time_us / 1000000);
	tm parts;
	gmtime_r(&second, &parts);
	line << std::put_time(&parts, "%Y-%m-%dT%H:%M:%S.") << std::setfill('0') << std::setw(6)
	     << hit.time_us % 1000000 << "Z " << (hit.address >> 24) << '.' << (hit.address >> 16 & 255) << '.'
	     << (hit.address >> 8 & 255) << '.' << (hit.address & 255) << " GET /item/" << std::setw(6) << hit.item << ' '
	     << hit.status << ' ' << hit.bytes << ' ' << hit.duration_us << '\n';
	return line.str();
}

uint64_t now_ns()
{
	timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return uint64_t(now.tv_sec) * 1000000000 + uint64_t(now.tv_nsec);
}

} // namespace

void run_reader(const Options &options, const Pipe &raw)
{
	Outlet outlet(raw, N_RAW_LINES);
	Visitors visitors(options.seed);
	Clerk clerk;
	uint64_t left = options.records ? options.records : UINT64_MAX;
	uint64_t end_ns = options.records ? UINT64_MAX : now_ns() + uint64_t(options.seconds * 1e9);
	Hit hits[batch_hits];
	char batch[batch_bytes];

	while (left > 0 && now_ns() < end_ns) {
		size_t count = left < batch_hits ? size_t(left) : batch_hits;
		{
			LONGPOLE_SPAN(N_DRAW, count);
			for (size_t i = 0; i < count; i++)
				hits[i] = visitors.next();
		}
		Pen pen(batch);
		{
			LONGPOLE_SPAN(N_FORMAT, count);
			for (size_t i = 0; i < count; i++) {
				if (options.slow == Slow::reader_streams)
					pen.text(formatted_by_stream(hits[i]));
				else
					clerk.append(pen, hits[i]);
			}
		}
		outlet.send(batch, size_t(pen.at() - batch));
		left -= count;
	}
}

} // namespace pipes

/*
 * The places of `places.c` in C++, in a namespace and with inlined functions of the library.
 *
 * usage: places SECONDS
 */

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

namespace work {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

class Places {
public:
	[[gnu::noinline]] void computes(Clock::duration time)
	{
		std::vector<std::uint64_t> values(10000, 1);
		auto end = Clock::now() + time;
		while (Clock::now() < end) {
			for (auto &value : values)
				value = value * 6364136223846793005u + 1442695040888963407u;
			sink_ = std::accumulate(values.begin(), values.end(), sink_);
		}
	}

	[[gnu::noinline]] void waits_long()
	{
		std::this_thread::sleep_for(6ms);
		sink_++;
	}

	[[gnu::noinline]] void waits_short()
	{
		std::this_thread::sleep_for(150us);
		sink_++;
	}

	std::uint64_t sink() const { return sink_; }

private:
	std::uint64_t sink_ = 0;
};

} // namespace work

int main(int count, char **arguments)
{
	using work::Clock;
	if (count < 2)
		return 2;
	work::Places places;
	Clock::duration times[3] = {};
	auto end = Clock::now() + std::chrono::milliseconds(static_cast<int>(std::atof(arguments[1]) * 1000));
	while (Clock::now() < end) {
		auto begin = Clock::now();
		places.computes(std::chrono::milliseconds(3));
		auto computed = Clock::now();
		places.waits_long();
		auto waited = Clock::now();
		for (int i = 0; i < 8; i++)
			places.waits_short();
		times[0] += computed - begin;
		times[1] += waited - computed;
		times[2] += Clock::now() - waited;
	}
	const char *names[] = {"computes", "waits_long", "waits_short"};
	for (int i = 0; i < 3; i++) {
		auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(times[i]).count();
		std::printf("%s %lld\n", names[i], static_cast<long long>(ns));
	}
	return places.sink() == 0;
}

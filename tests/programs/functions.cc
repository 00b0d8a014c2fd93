// functions TURNS: calls functions that contain no probes, and prints how often each was called.
// Built with -finstrument-functions.
#include <cstdio>
#include <cstdlib>
#include <thread>

static volatile unsigned long sink;

namespace shop {

struct Till {
	void beep() { sink = sink + 1; }
	__attribute__((noinline)) void sum(int turns)
	{
		for (int i = 0; i < turns; i++)
			sink = sink + static_cast<unsigned long>(i);
		beep();
	}
};

// Leaves by an exception every second time.
__attribute__((noinline)) static void refuse(int turn)
{
	if (turn % 2)
		throw turn;
	sink = sink + 1;
}

} // namespace shop

extern "C" __attribute__((noinline)) int depth(int n)
{
	return n == 0 ? 0 : 1 + depth(n - 1);
}

static void turns(int count)
{
	shop::Till till;
	for (int i = 0; i < count; i++) {
		till.sum(100);
		try {
			shop::refuse(i);
		} catch (int) {
		}
	}
	depth(9);
}

int main(int argc, char **argv)
{
	const int count = argc > 1 ? std::atoi(argv[1]) : 10;
	std::thread other{turns, count};
	turns(count);
	other.join();
	std::printf("shop::Till::sum %d\nshop::Till::beep %d\nshop::refuse %d\ndepth 20\nturns 2\nmain 1\n", 2 * count, 2 * count, 2 * count);
	return 0;
}

/*
 * Probes in code that headers contain: inline functions, templates, lambdas, members. Compiled
 * twice for one program, the second time with SECOND defined. With LIBRARY defined it is a library
 * that contains only these.
 */
#include <longpole/longpole.h>

inline void several(int x)
{
	LONGPOLE_MARK("first", x);
	LONGPOLE_MARK("second", x);
	LONGPOLE_SPAN("outer");
	LONGPOLE_SPAN("inner", x);
	const auto lambda = [](int y) {
		LONGPOLE_COUNTER("third", y);
		LONGPOLE_EVENT("fourth", "y", y);
	};
	lambda(x);
}

template <typename Value>
void of_any(Value value)
{
	LONGPOLE_EVENT("any", "value", value);
	LONGPOLE_MARK("of a template");
}

struct Member {
	Member() { LONGPOLE_MARK("made"); }
	~Member() { LONGPOLE_MARK("gone"); }
	int number() const noexcept
	{
		LONGPOLE_SPAN_HERE();
		return 5;
	}
};

// The compiler evaluates this for small numbers.
constexpr int rare(int x)
{
	if (x > 5)
		LONGPOLE_MARK("rare", x);
	return x;
}

static_assert(rare(3) == 3);

static void all(int x)
{
	several(x);
	of_any(x);
	of_any("text");
	rare(Member().number() + x);
}

#if defined(LIBRARY)
extern "C" void all_of_library(int x);
extern "C" void all_of_library(int x)
{
	all(x);
}
#elif defined(SECOND)
void others();
void others()
{
	all(2);
}
#else
void others();
int main()
{
	all(1);
	others();
}
#endif

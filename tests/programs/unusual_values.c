/*
 * Values that are no plain numbers or pointers, and an event without a field. Compiled as C and as
 * C++, with probes enabled and disabled.
 */
#include <longpole/longpole.h>

struct bits {
	unsigned narrow : 3;
	int negative : 5;
	unsigned long wide : 40;
	short sixteenth;
};

#if defined(__cplusplus)
#define NOTHING nullptr
#else
#define NOTHING NULL
#endif

static int evaluated;

static int once(void)
{
	return ++evaluated;
}

static int unusual_values(void)
{
	const struct bits bits = {5, -3, 1ul << 39, 16};
	volatile int changing = 7;
	LONGPOLE_COUNTER("narrow", bits.narrow);
	LONGPOLE_COUNTER("negative", bits.negative);
	LONGPOLE_COUNTER("wide", bits.wide);
	LONGPOLE_COUNTER("changing", changing);
	LONGPOLE_COUNTER("real", 1.5f);
	LONGPOLE_MARK("mark of bits", bits.wide, bits.narrow);
	LONGPOLE_MARK("mark of a function", 1, unusual_values);
	LONGPOLE_MARK("mark of nothing", 1, NOTHING);
	LONGPOLE_LINK(unusual_values, &bits);
	LONGPOLE_EVENT("bits", "narrow", bits.narrow, "negative", bits.negative, "wide", bits.wide);
	LONGPOLE_EVENT("pointers", "function", unusual_values, "nothing", NOTHING);
	LONGPOLE_EVENT("evaluated", "count", once());
	LONGPOLE_COUNTER("evaluated", once());
	LONGPOLE_EVENT("sixteen", "a", 1, "b", 2, "c", 3, "d", 4, "e", 5, "f", "six", "g", 7, "h", 8, "i", 9, "j", 10, "k", 11, "l", 12, "m", 13, "n", 14, "o", 15,
	               "p", LONGPOLE_ARRAY(&bits.sixteenth, 1));
	LONGPOLE_EVENT_HERE();
	return 0;
}

int main(void)
{
	return unusual_values();
}

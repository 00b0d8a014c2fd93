/* The loops of cost.rs in C, for a shared library. */
#include <longpole/longpole.h>

static struct longpole_name queue = LONGPOLE_QUEUE_NAME("cost queue", 1024, LONGPOLE_FIFO, LONGPOLE_ITEMS);

#define LOOP(name, body)                                                                                                 \
	__attribute__((noinline)) void name(uint64_t turns);                                                                 \
	void name(uint64_t turns)                                                                                            \
	{                                                                                                                    \
		for (uint64_t i = 0; i < turns; i++) {                                                                           \
			body;                                                                                                        \
			__asm__ __volatile__("" : : "r"(i) : "memory");                                                              \
		}                                                                                                                \
	}

LOOP(mark, LONGPOLE_MARK("mark", i))
LOOP(span_edge, LONGPOLE_BEGIN("edge"))
LOOP(span, LONGPOLE_SPAN("span"))
LOOP(queue_put, LONGPOLE_QUEUE_PUT(&queue, i))

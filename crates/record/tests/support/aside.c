/*
 * Is killed in a signal handler that interrupted a probe: what the handler's own probes had to say was put aside, and nobody merges it.
 *
 *     aside BEFORE NESTED     numbered events as those of `numbered`; NESTED of them are put aside
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t number;

static void emit(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		LONGPOLE_MARK("numbered", number++);
}

int main(int count, char **arguments)
{
	if (count < 3)
		return 2;
	emit(strtoull(arguments[1], NULL, 10));
	/* What an interrupted probe looks like to the handler's probes. */
	longpole_thread->busy = (uintptr_t)__builtin_frame_address(0) + 4096;
	emit(strtoull(arguments[2], NULL, 10));
	raise(SIGKILL);
	return 0;
}

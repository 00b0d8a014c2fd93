/*
 * A program that is killed in a signal handler that interrupted a probe. The events of the
 * handler's own probes were set aside, and no thread merges them any more.
 *
 *     aside BEFORE NESTED     events like those of `numbered`; NESTED of them are set aside
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
	/* From here on the thread looks as if a signal handler had interrupted one of its probes. */
	longpole_thread->busy = (uintptr_t)__builtin_frame_address(0) + 4096;
	emit(strtoull(arguments[2], NULL, 10));
	raise(SIGKILL);
	return 0;
}

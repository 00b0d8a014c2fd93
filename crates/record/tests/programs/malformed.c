/*
 * Overwrites the site table, and writes an event of the class that is invalid then, between others.
 *
 *     malformed BEFORE BEHIND     numbered events like those of `numbered`
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>

#include <stdint.h>
#include <stdlib.h>

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
	struct longpole_sites *sites = longpole_library.process->sites;
	sites->slots[60000] = 0xffffff;
	sites->arena_next += 8;
	const uint64_t word = 7;
	longpole_emit(60000, &word, 1);
	emit(strtoull(arguments[2], NULL, 10));
	return 0;
}

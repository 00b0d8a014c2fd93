/*
 * Fills its ring in every burst and cannot open a larger one, because it has no file descriptors
 * left. Ends when killed.
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>

#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

int main(void)
{
	const struct rlimit none = {0, 0};
	for (uint64_t number = 0;;) {
		for (int i = 0; i < 4000; i++)
			LONGPOLE_MARK("numbered", number++);
		/* The ring was made during the first burst. */
		setrlimit(RLIMIT_NOFILE, &none);
		usleep(20000);
	}
}

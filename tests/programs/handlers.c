/*
 * A thread that emits events all the time, interrupted by signals whose handlers also emit events.
 * Both kinds of events are numbered.
 *
 * usage: handlers SIGNALS
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

static volatile sig_atomic_t delivered;

static void handler(int number)
{
	(void)number;
	LONGPOLE_MARK("handler", (uint64_t)delivered);
	/*
	 * This text is too long for the side area. It is lost if the signal interrupted a probe, and
	 * must then be counted as lost.
	 */
	if (delivered % 10 == 0)
		LONGPOLE_LOG("a text that does not fit into an entry of the side area, however one turns it");
	delivered = delivered + 1;
}

int main(int argc, char **argv)
{
	const int wanted = argc > 1 ? atoi(argv[1]) : 1000;
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_handler = handler;
	sigaction(SIGALRM, &action, NULL);
	const struct itimerval every = {{0, 100}, {0, 100}};
	setitimer(ITIMER_REAL, &every, NULL);
	uint64_t emitted = 0;
	while (delivered < wanted)
		LONGPOLE_MARK("main", emitted++);
	const struct itimerval never = {{0, 0}, {0, 0}};
	setitimer(ITIMER_REAL, &never, NULL);
	printf("main %llu handler %d\n", (unsigned long long)emitted, (int)delivered);
	return 0;
}

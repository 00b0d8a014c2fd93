/*
 * Executes commands from stdin, one per line, and answers each with "done" and the total number of
 * marks:
 *
 *     marks N          N marks, each with its number
 *     span US          a span "request" that takes US microseconds
 *     counter VALUE    a counter "level"
 *     full US          waits for US microseconds because the queue "line" is full
 *     beats N US       N marks "beat", each followed by a pause of US microseconds
 *     thread N         N marks in a thread that then ends
 *     slowly N         the same, with a pause of 50 us after every fourth mark
 *     end              ends the program like a crash: without destructors
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t number;

static void *marks(void *argument)
{
	for (uint64_t n = strtoull(argument, NULL, 10); n > 0; n--)
		LONGPOLE_MARK("numbered", number++);
	return NULL;
}

static void *slow_marks(void *argument)
{
	for (uint64_t n = strtoull(argument, NULL, 10); n > 0; n--) {
		LONGPOLE_MARK("numbered", number++);
		if (n % 4 == 0)
			usleep(50);
	}
	return NULL;
}

int main(void)
{
	char line[256];
	while (fgets(line, sizeof line, stdin) != NULL) {
		char *argument = strchr(line, ' ');
		if (argument == NULL)
			argument = line + strlen(line) - 1;
		*argument++ = 0;
		if (strcmp(line, "marks") == 0) {
			marks(argument);
		} else if (strcmp(line, "thread") == 0 || strcmp(line, "slowly") == 0) {
			pthread_t thread;
			pthread_create(&thread, NULL, *line == 't' ? marks : slow_marks, argument);
			pthread_join(thread, NULL);
		} else if (strcmp(line, "span") == 0) {
			LONGPOLE_BEGIN("request");
			usleep((useconds_t)atoi(argument));
			LONGPOLE_END("request");
		} else if (strcmp(line, "counter") == 0) {
			LONGPOLE_COUNTER("level", (int64_t)atoi(argument));
		} else if (strcmp(line, "full") == 0) {
			LONGPOLE_QUEUE_WAIT_FULL("line");
			usleep((useconds_t)atoi(argument));
			LONGPOLE_QUEUE_PUT("line", 1);
		} else if (strcmp(line, "beats") == 0) {
			char *pause = strchr(argument, ' ');
			for (int n = atoi(argument); n > 0 && pause != NULL; n--) {
				LONGPOLE_MARK("beat");
				usleep((useconds_t)atoi(pause));
			}
		} else {
			_exit(0);
		}
		printf("done %llu\n", (unsigned long long)number);
		fflush(stdout);
	}
	return 0;
}

/*
 * Does what it is told, a line at a time, and answers each with "done" and the number of marks so far:
 *
 *     marks N          N marks, each with its number
 *     span US          a span "request" that takes so long
 *     counter VALUE    a counter "level"
 *     full US          waits so long because the queue "line" is full
 *     beats N US       N marks "beat", one in so many microseconds
 *     thread N         N marks of a thread that ends
 *     slowly N         the same, with a pause of 50 us behind every fourth
 *     end              ends the program, as a crash would: without a destructor
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

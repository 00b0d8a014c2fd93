/*
 * Probes and the runtime directory. The arguments are the same as those of
 * crates/probe/tests/programs/directory.rs.
 *
 *     directory marks N           N marks; prints the number of marks whose probe was enabled
 *     directory forks N quiet     N children that end by _exit; with "probe" each emits a mark
 *     directory later N           a child runs until N of its marks were enabled, then prints the
 *                                 number; its parent ends at once
 *     directory churn N EVENTS    after the first enabled mark and the end of stdin: N threads one
 *                                 after the other, with EVENTS marks each
 *     directory moved N           N marks in another working directory than at the start
 *     directory user N            becomes another user, then emits marks and prints as above
 *     directory late N            N marks, becomes another user; then a thread emits N marks
 *     directory kept N            a mark, becomes another user; then N times 20,000 marks, which a
 *                                 small ring cannot hold, and a pause of 20 ms
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>

#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t met;

static void marks(uint64_t count, unsigned pause)
{
	for (uint64_t i = 0; i < count; i++) {
		LONGPOLE_MARK("numbered", met++);
		if (pause != 0)
			usleep(pause);
	}
}

static void *thread(void *count)
{
	marks(*(const uint64_t *)count, 0);
	return NULL;
}

static void threads(uint64_t number, uint64_t count)
{
	for (uint64_t i = 0; i < number; i++) {
		pthread_t id;
		if (pthread_create(&id, NULL, thread, &count) == 0)
			pthread_join(id, NULL);
	}
}

static void become_another(void)
{
	if (setgroups(0, NULL) != 0 || setgid(4321) != 0 || setuid(4321) != 0)
		abort();
}

static void forks(uint64_t count, int probe)
{
	for (uint64_t i = 0; i < count; i++) {
		const pid_t child = fork();
		if (child == 0) {
			if (probe)
				marks(1, 0);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
}

static void later(uint64_t count)
{
	if (fork() != 0)
		_exit(0);
	while (met < count)
		marks(1, 1000);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const uint64_t count = strtoull(argv[2], NULL, 10);
	if (strcmp(argv[1], "forks") == 0) {
		forks(count, strcmp(argv[3], "probe") == 0);
	} else if (strcmp(argv[1], "later") == 0) {
		later(count);
	} else if (strcmp(argv[1], "churn") == 0) {
		while (met == 0)
			marks(1, 1000);
		while (getchar() != EOF)
			;
		threads(count, strtoull(argv[3], NULL, 10));
	} else if (strcmp(argv[1], "moved") == 0) {
		if (chdir("/") != 0)
			return 1;
		marks(count, 0);
	} else if (strcmp(argv[1], "user") == 0) {
		become_another();
		marks(count, 500);
	} else if (strcmp(argv[1], "late") == 0) {
		marks(count, 0);
		become_another();
		threads(1, count);
	} else if (strcmp(argv[1], "kept") == 0) {
		marks(1, 0);
		become_another();
		for (uint64_t i = 0; i < count; i++) {
			marks(20000, 0);
			usleep(20000);
		}
	} else {
		marks(count, 0);
	}
	printf("%llu\n", (unsigned long long)met);
	return 0;
}

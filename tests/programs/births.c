/*
 * Short-lived processes, one after the other. Each runs this program again, writes one byte, and
 * ends.
 *
 * usage: births COUNT
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
	if (argc == 1) {
		static const char zero;
		return write(STDOUT_FILENO, &zero, 1) == 1 ? 0 : 1;
	}
	char *child[] = { argv[0], NULL };
	for (long left = atol(argv[1]); left > 0; left--) {
		pid_t pid;
		int status;
		if (posix_spawn(&pid, argv[0], NULL, NULL, child, environ) != 0 || waitpid(pid, &status, 0) != pid || status != 0) {
			perror("births");
			return 1;
		}
	}
	return 0;
}

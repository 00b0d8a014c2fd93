/*
 * A process whose first thread does not end last. With `exit` the first thread ends before another
 * one works; with `exec` another thread executes a program that works. Prints `used TID NS` on
 * stderr, the kernel's CPU time of the thread that worked.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char *own;

static void work(void)
{
	struct timespec now;
	char text[128] = "";
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while (now.tv_sec * 1000000000L + now.tv_nsec < 400000000L);
	int file = open("/proc/thread-self/schedstat", O_RDONLY);
	if (read(file, text, sizeof text - 1) > 0)
		fprintf(stderr, "used %ld %s\n", syscall(SYS_gettid), strtok(text, " "));
	_exit(5);
}

static void *other(void *what)
{
	usleep(20000);
	if (!strcmp(what, "exec"))
		execl(own, own, "work", (char *)NULL);
	work();
	return NULL;
}

int main(int count, char **words)
{
	pthread_t thread;
	own = words[0];
	if (count < 2 || !strcmp(words[1], "work"))
		work();
	pthread_create(&thread, NULL, other, words[1]);
	if (!strcmp(words[1], "exit"))
		pthread_exit(NULL);
	pthread_join(thread, NULL);
	return 1;
}

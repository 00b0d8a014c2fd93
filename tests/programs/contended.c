/*
 * A thread that holds the lock of the process's ring table, while another thread reaches its first
 * probe, and a third one does so afterwards. Their marks are "first", "meanwhile" and "afterwards".
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>

#include <pthread.h>
#include <unistd.h>

static void *meanwhile(void *unused)
{
	LONGPOLE_MARK("meanwhile");
	return unused;
}

static void *afterwards(void *unused)
{
	LONGPOLE_MARK("afterwards");
	return unused;
}

static void run(void *(*function)(void *))
{
	pthread_t thread;
	pthread_create(&thread, NULL, function, NULL);
	pthread_join(thread, NULL);
}

int main(void)
{
	while (!longpole_on(LONGPOLE_CATEGORY_MARK))
		usleep(1000);
	LONGPOLE_MARK("first");
	__atomic_store_n(&longpole_library.process->lock, 1, __ATOMIC_RELEASE);
	run(meanwhile);
	__atomic_store_n(&longpole_library.process->lock, 0, __ATOMIC_RELEASE);
	run(afterwards);
	return 0;
}

/*
 * The lock of the process's ring table is taken and never released. A thread that reaches its first
 * probe then, and a thread that ends, must not wait forever.
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>

#include <pthread.h>
#include <semaphore.h>

static sem_t begun, taken;

static void *goes(void *unused)
{
	LONGPOLE_MARK("first");
	sem_post(&begun);
	sem_wait(&taken);
	return unused;
}

static void *comes(void *unused)
{
	for (int i = 0; i < 1000; i++)
		LONGPOLE_MARK("refused");
	return unused;
}

int main(void)
{
	pthread_t one, other;
	sem_init(&begun, 0, 0);
	sem_init(&taken, 0, 0);
	pthread_create(&one, NULL, goes, NULL);
	sem_wait(&begun);
	__atomic_store_n(&longpole_library.process->lock, 1, __ATOMIC_RELEASE);
	sem_post(&taken);
	pthread_create(&other, NULL, comes, NULL);
	pthread_join(one, NULL);
	pthread_join(other, NULL);
	return 0;
}

/*
 * named NAME EVENTS: a thread that gets its name after its first event. Afterwards it emits EVENTS
 * more, one every 10 ms.
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

static sem_t begun, named;
static int events;

static void *thread(void *unused)
{
	LONGPOLE_MARK("first");
	sem_post(&begun);
	sem_wait(&named);
	for (int i = 0; i < events; i++) {
		usleep(10000);
		LONGPOLE_MARK("more", i);
	}
	usleep(20000);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t id;
	if (argc != 3)
		return 2;
	events = atoi(argv[2]);
	sem_init(&begun, 0, 0);
	sem_init(&named, 0, 0);
	pthread_create(&id, NULL, thread, NULL);
	sem_wait(&begun);
	usleep(20000);
	pthread_setname_np(id, argv[1]);
	sem_post(&named);
	pthread_join(id, NULL);
	return 0;
}

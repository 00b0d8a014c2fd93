/*
 * Threads that work for different times during a period: the figures of <longpole/utilisation.h>,
 * and those of the kernel's own clock of each thread. One line for each thread:
 *
 *     NAME KNOWN THREAD_NS EXPECTED_NS TOTAL_NS TOTAL_CYCLES IDLE_NS CPUS SCHEDULES
 *
 * The last line, `nobody`, is for a tid that is no thread of this process.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <longpole/utilisation.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_barrier_t barrier;

struct worker {
	const char *name;
	uint64_t before_ns, within_ns;
	int tid;
	uint64_t used_ns;
};

static uint64_t used(void)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void work(uint64_t ns)
{
	const uint64_t begin = used();
	while (used() - begin < ns)
		;
}

static void *run(void *argument)
{
	struct worker *self = (struct worker *)argument;
	self->tid = (int)syscall(SYS_gettid);
	work(self->before_ns);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	const uint64_t begin = used();
	work(self->within_ns);
	self->used_ns = used() - begin;
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	/*
	 * This work is after the period and does not count.
	 */
	work(30000000);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void tell(const char *name, int tid, uint64_t expected)
{
	struct longpole_utilisation now = {0, 0, 0, 0, 0, 0, 0};
	const int known = LONGPOLE_UTILISATION_THREAD(tid, &now);
	printf("%s %d %llu %llu %llu %llu %llu %u %llu\n", name, known, (unsigned long long)now.thread_ns, (unsigned long long)expected,
	       (unsigned long long)now.total_ns, (unsigned long long)now.total_cycles, (unsigned long long)now.idle_ns, now.cpus,
	       (unsigned long long)now.schedules);
}

int main(void)
{
	struct worker workers[3] = {{"busy", 50000000, 120000000, 0, 0}, {"lazy", 80000000, 20000000, 0, 0}, {"still", 10000000, 0, 0, 0}};
	pthread_t threads[3];
	pthread_barrier_init(&barrier, NULL, 4);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, run, &workers[i]);
	pthread_barrier_wait(&barrier);
	LONGPOLE_UTILISATION_RESET();
	pthread_barrier_wait(&barrier);
	const uint64_t begin = used();
	work(60000000);
	const uint64_t own = used() - begin;
	pthread_barrier_wait(&barrier);
	LONGPOLE_UTILISATION_FINALIZE();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	tell("main", 0, own);
	for (int i = 0; i < 3; i++)
		tell(workers[i].name, workers[i].tid, workers[i].used_ns);
	tell("nobody", 1, 0);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

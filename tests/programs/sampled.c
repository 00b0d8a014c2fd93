/*
 * Work with known shares, for tests of sampled stacks.
 *
 * usage: sampled shares | kernel | made | span | helped SECONDS
 *
 * shares: three functions with equal code run in turn, for 6, 3 and 1 units of work; at the end it
 *         prints the CPU time of each.
 * kernel: reads zeros from /dev/zero.
 * made:   runs code that it generated, and lists it in /tmp/perf-PID.map as profilers expect.
 * span:   works in a function inside of a span, and in another one outside.
 * helped: a helper process needs three quarters of the time for each item, and the program itself
 *         one quarter. Another process computes all the time, and no process waits for it. The
 *         helper has a CPU of its own: on one CPU it would be preempted by the process that it
 *         wakes, and then find its next item already there.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <longpole/longpole.h>

enum { UNIT = 100000 };

static volatile uint64_t sink;
static void *volatile frame;

/*
 * Each function has a constant of its own, so that the compiler does not merge them, and a stack
 * frame of its own, so that its caller is found.
 */
#define WORK(name, seed) \
	__attribute__((noinline, noclone)) static void name(uint64_t units) \
	{ \
		uint64_t x = seed; \
		frame = __builtin_frame_address(0); \
		for (uint64_t i = 0; i < units * UNIT; i++) \
			x = x * 6364136223846793005u + 1442695040888963407u; \
		sink = x; \
	}

WORK(work_of_six, 6)
WORK(work_of_three, 3)
WORK(work_of_one, 1)
WORK(work_in_span, 7)
WORK(work_outside, 8)

static double now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double cpu(void)
{
	return now(CLOCK_THREAD_CPUTIME_ID);
}

static void shares(double seconds)
{
	double used[3] = { 0, 0, 0 };
	while (used[0] + used[1] + used[2] < seconds) {
		double begin = cpu();
		work_of_six(6);
		double second = cpu();
		work_of_three(3);
		double third = cpu();
		work_of_one(1);
		double end = cpu();
		used[0] += second - begin;
		used[1] += third - second;
		used[2] += end - third;
	}
	printf("%.9f %.9f %.9f\n", used[0], used[1], used[2]);
}

static void kernel(double seconds)
{
	static char buffer[1 << 16];
	int zero = open("/dev/zero", O_RDONLY);
	while (cpu() < seconds)
		for (int i = 0; i < 100; i++)
			if (read(zero, buffer, sizeof buffer) != (ssize_t)sizeof buffer)
				exit(1);
}

static void made(double seconds)
{
#ifdef __x86_64__
	/* push %rbp; mov %rsp,%rbp; mov %rdi,%rax; 1: dec %rax; jnz 1b; pop %rbp; ret */
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0x5d, 0xc3 };
	unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		exit(1);
	memcpy(page, code, sizeof code);
	memcpy(page + 64, code, sizeof code);
	if (mprotect(page, 4096, PROT_READ | PROT_EXEC) != 0)
		exit(1);
	char path[64];
	snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
	FILE *list = fopen(path, "w");
	if (!list)
		exit(1);
	fprintf(list, "%lx %zx made first\n%lx %zx made second\n", (long)page, sizeof code, (long)page + 64, sizeof code);
	fclose(list);
	void (*first)(uint64_t), (*second)(uint64_t);
	unsigned char *other = page + 64;
	memcpy(&first, &page, sizeof first);
	memcpy(&second, &other, sizeof second);
	while (cpu() < seconds) {
		first(30000);
		second(10000);
	}
#else
	(void)seconds;
#endif
}

static void span(double seconds)
{
	while (cpu() < seconds) {
		{
			LONGPOLE_SPAN("busy");
			work_in_span(3);
		}
		work_outside(2);
	}
}

/*
 * Restricts this process to the CPU number `which` of those that it may use, if there is such a
 * CPU.
 */
static void keep_on(int which)
{
	cpu_set_t allowed, one;
	if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
		return;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && which-- == 0)
			CPU_SET(cpu, &one);
	if (CPU_COUNT(&one) != 0)
		sched_setaffinity(0, sizeof one, &one);
}

static void helped(double seconds)
{
	int ask[2], answer[2];
	char item = 0;
	if (pipe(ask) != 0 || pipe(answer) != 0)
		exit(1);
	pid_t helper = fork();
	if (helper == 0) {
		keep_on(0);
		close(ask[1]);
		while (read(ask[0], &item, 1) == 1) {
			work_of_three(9);
			if (write(answer[1], &item, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	keep_on(1);
	pid_t busy = fork();
	if (busy == 0) {
		close(ask[1]);
		for (;;)
			work_of_six(6);
	}
	double end = now(CLOCK_MONOTONIC) + seconds;
	while (now(CLOCK_MONOTONIC) < end) {
		if (write(ask[1], &item, 1) != 1 || read(answer[0], &item, 1) != 1)
			exit(1);
		work_of_one(3);
	}
	close(ask[1]);
	kill(busy, SIGKILL);
	waitpid(helper, NULL, 0);
}

int main(int count, char **arguments)
{
	const char *what = count > 1 ? arguments[1] : "";
	double seconds = count > 2 ? atof(arguments[2]) : 1;
	if (!strcmp(what, "shares"))
		shares(seconds);
	else if (!strcmp(what, "kernel"))
		kernel(seconds);
	else if (!strcmp(what, "made"))
		made(seconds);
	else if (!strcmp(what, "span"))
		span(seconds);
	else if (!strcmp(what, "helped"))
		helped(seconds);
	else
		return 2;
	printf("%d\n", (int)getpid());
	return 0;
}

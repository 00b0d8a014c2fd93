/*
 * The least work of a recorder of kernel events: a private instance of the tracer, whose pages are
 * moved to files by splice, ten times a second. It stores neither the state of the host nor
 * formats, and checks nothing.
 *
 * usage: splice FOLDER BUFFER_KB SYSTEM/EVENT…   until SIGINT; prints "ready", and at the end its
 * CPU time, bytes, events, lost events
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_CPUS = 512, PIPE = 1 << 20 };

static char instance[256];
static volatile sig_atomic_t ended;

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

static int set(const char *name, const char *value)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", instance, name);
	int fd = open(path, O_WRONLY | O_TRUNC);
	if (fd < 0 || write(fd, value, strlen(value)) < 0) {
		perror(path);
		return -1;
	}
	return close(fd);
}

/* Returns the sum of these counters of a CPU. */
static unsigned long long counted(int cpu, const char *const *names)
{
	char path[512], line[128];
	unsigned long long sum = 0, value;
	snprintf(path, sizeof path, "%s/per_cpu/cpu%d/stats", instance, cpu);
	FILE *file = fopen(path, "r");
	while (file != NULL && fgets(line, sizeof line, file) != NULL)
		for (const char *const *name = names; *name != NULL; name++)
			if (strncmp(line, *name, strlen(*name)) == 0 && sscanf(line + strlen(*name), ": %llu", &value) == 1)
				sum += value;
	if (file != NULL)
		fclose(file);
	return sum;
}

int main(int argc, char **argv)
{
	static const char *const read_events[] = { "read events", NULL };
	static const char *const lost_events[] = { "overrun", "commit overrun", "dropped events", NULL };
	int from[MAX_CPUS], to[MAX_CPUS], ends[2];
	if (argc < 4) {
		fprintf(stderr, "usage: splice FOLDER BUFFER_KB SYSTEM/EVENT...\n");
		return 2;
	}
	struct sigaction action = { .sa_handler = end };
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	snprintf(instance, sizeof instance, "/sys/kernel/tracing/instances/splice-bench-%d", getpid());
	if (mkdir(instance, 0700) != 0) {
		perror(instance);
		return 1;
	}
	int result = 1, cpus = (int)sysconf(_SC_NPROCESSORS_ONLN), opened = 0;
	if (cpus > MAX_CPUS || pipe2(ends, O_NONBLOCK) != 0 || set("tracing_on", "0") || set("trace_clock", "x86-tsc") ||
	    set("buffer_size_kb", argv[2]))
		goto out;
	for (int cpu = 0; cpu < cpus; cpu++, opened++) {
		char path[512];
		snprintf(path, sizeof path, "%s/per_cpu/cpu%d/trace_pipe_raw", instance, cpu);
		from[cpu] = open(path, O_RDONLY | O_NONBLOCK);
		snprintf(path, sizeof path, "%s/cpu%d", argv[1], cpu);
		to[cpu] = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		if (from[cpu] < 0 || to[cpu] < 0) {
			perror(path);
			goto out;
		}
	}
	for (int i = 3; i < argc; i++) {
		char name[300];
		snprintf(name, sizeof name, "events/%s/enable", argv[i]);
		if (set(name, "1"))
			goto out;
	}
	fcntl(ends[0], F_SETPIPE_SZ, PIPE);
	if (set("tracing_on", "1"))
		goto out;
	puts("ready");
	fflush(stdout);
	unsigned long long bytes = 0;
	for (int last = 0; !last;) {
		last = ended;
		if (last)
			set("tracing_on", "0");
		else
			poll(NULL, 0, 100);
		for (int cpu = 0; cpu < cpus; cpu++) {
			ssize_t got;
			while ((got = splice(from[cpu], NULL, ends[1], NULL, PIPE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK)) > 0)
				while (got > 0) {
					ssize_t put = splice(ends[0], NULL, to[cpu], NULL, (size_t)got, SPLICE_F_MOVE);
					if (put <= 0) {
						perror("splice");
						goto out;
					}
					got -= put;
					bytes += (unsigned long long)put;
				}
		}
	}
	unsigned long long events = 0, lost = 0;
	for (int cpu = 0; cpu < cpus; cpu++) {
		events += counted(cpu, read_events);
		lost += counted(cpu, lost_events);
	}
	struct rusage used;
	getrusage(RUSAGE_SELF, &used);
	printf("%.6f %llu %llu %llu\n",
	       (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6, bytes,
	       events, lost);
	result = 0;
out:
	set("tracing_on", "0");
	for (int cpu = 0; cpu < opened; cpu++)
		close(from[cpu]);
	if (rmdir(instance) != 0)
		perror(instance);
	return result;
}

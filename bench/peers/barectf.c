/*
 * A tracer that barectf generated (barectf.yaml), with a platform that corresponds to our ring
 * without files: four packets of 256 KiB per thread, of which the oldest is overwritten, and the
 * time-stamp counter as clock. (barectf's example platform writes each packet with fwrite and reads
 * CLOCK_REALTIME; both cost more.) Such a tracer serves one thread, so each thread has its own.
 */
#include "barectf.h"
#include "subject.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PACKET (SUBJECT_BUFFER / 4)
#define PACKETS 4u
#define CHECKED 1000u

struct platform {
	struct barectf_default_ctx context;
	uint8_t *ring;
	uint32_t packet;
	uint64_t closed; /* number of packets closed since the tracer was made */
	FILE *file;      /* if set, closed packets are also written to it */
};

static __thread struct platform *own;
static int enabled = 1;

static uint64_t counter(void *data)
{
	(void)data;
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	uint64_t value;
	__asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#endif
}

static int is_full(void *data)
{
	(void)data;
	return 0;
}

static void open_packet(void *data)
{
	struct platform *platform = data;
	barectf_packet_set_buf(&platform->context, platform->ring + platform->packet * (size_t)PACKET, PACKET);
	barectf_default_open_packet(&platform->context);
}

static void close_packet(void *data)
{
	struct platform *platform = data;
	barectf_default_close_packet(&platform->context);
	if (platform->file != NULL)
		fwrite(platform->ring + platform->packet * (size_t)PACKET, PACKET, 1, platform->file);
	platform->packet = (platform->packet + 1) % PACKETS;
	platform->closed++;
}

static struct barectf_default_ctx *make(void)
{
	own = calloc(1, sizeof *own);
	uint8_t *ring = mmap(NULL, (size_t)PACKET * PACKETS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (own == NULL || ring == MAP_FAILED) {
		fprintf(stderr, "no memory for a tracer\n");
		exit(1);
	}
	own->ring = ring;
	const struct barectf_platform_callbacks callbacks = {counter, is_full, open_packet, close_packet};
	barectf_init(&own->context, own->ring, PACKET, callbacks, own);
	open_packet(own);
	return &own->context;
}

static inline __attribute__((always_inline)) struct barectf_default_ctx *context(void)
{
	return __builtin_expect(own != NULL, 1) ? &own->context : make();
}

LOOP(event, barectf_trace_two(context(), i, i))
LOOP(span, barectf_trace_begin(context()); barectf_trace_end(context()))

static void take(const char *state)
{
	enabled = strcmp(state, "on") == 0;
}

static void before(void)
{
	barectf_enable_tracing(context(), enabled);
}

static uint64_t bytes(void)
{
	return own == NULL ? 0 : own->closed * PACKET + own->context.parent.at / 8;
}

/* Writes events, as they are recorded, to a file for another reader. */
static int end(const char *folder)
{
	char path[512];
	snprintf(path, sizeof path, "%s/trace/stream", folder);
	own = NULL;
	make();
	own->file = fopen(path, "wb");
	if (own->file == NULL) {
		perror(path);
		return 1;
	}
	event(CHECKED);
	span(CHECKED);
	close_packet(own);
	fclose(own->file);
	printf("written\t%u\n", 3 * CHECKED);
	return 0;
}

static const struct loop loops[] = {{"event", event, 1, 2, 32}, {"span", span, 2, 4, 16}};

const struct table *table_on(void)
{
	static const struct table table = {.states = "on off", .loop = loops, .count = 2, .take = take, .before = before, .bytes = bytes, .end = end};
	return &table;
}

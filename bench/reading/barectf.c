/*
 * Writes events with a tracer that barectf generated (peers/barectf.yaml) into a file, for readers.
 * Packets have 256 KiB, and the clock is a counter of 1 GHz that grows by 100 with each event.
 *
 *     barectf FILE EVENTS
 */
#include "barectf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PACKET (256u << 10)

static struct barectf_default_ctx context;
static uint8_t packet[PACKET];
static FILE *file;
static uint64_t now;

static uint64_t counter(void *data)
{
	(void)data;
	return now;
}

static int is_full(void *data)
{
	(void)data;
	return 0;
}

static void open_packet(void *data)
{
	(void)data;
	barectf_packet_set_buf(&context, packet, PACKET);
	barectf_default_open_packet(&context);
}

static void close_packet(void *data)
{
	(void)data;
	barectf_default_close_packet(&context);
	if (fwrite(packet, PACKET, 1, file) != 1)
		exit(1);
}

int main(int count, char **arguments)
{
	if (count != 3 || (file = fopen(arguments[1], "wb")) == NULL)
		return 2;
	const struct barectf_platform_callbacks callbacks = {counter, is_full, open_packet, close_packet};
	barectf_init(&context, packet, PACKET, callbacks, NULL);
	open_packet(NULL);
	const uint64_t events = strtoull(arguments[2], NULL, 10);
	for (uint64_t i = 0; i < events; i++, now += 100)
		barectf_trace_two(&context, i, ~i);
	if (barectf_packet_is_open(&context) && !barectf_packet_is_empty(&context))
		close_packet(NULL);
	return fclose(file) == 0 ? 0 : 1;
}

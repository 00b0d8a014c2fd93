// Every name that the pipeline's probes write.
//
// The probes need string literals, so the names are macros. A build with
// -DPIPELINE_NAMES='"other.h"' takes all of them from another header instead; scramble.py writes
// one with random words. An analysis of such a recording cannot rely on knowing what a router is.
// build.py expects one definition per line: `#define NAME "text"`.

#ifndef PIPELINE_NAMES_H
#define PIPELINE_NAMES_H

#ifdef PIPELINE_NAMES
#include PIPELINE_NAMES
#else

// Processes: their labels, and their names in the process list.
#define N_SOURCE "packet_source"
#define N_ROUTER "packet_router"
#define N_SINK "packet_sink"
#define N_TIMER "timer_server"

// Threads.
#define N_SOURCE_THREAD "source_ep"
#define N_ROUTER_THREAD "router_ep"
#define N_SINK_THREAD "sink_ep"
#define N_TIMER_THREAD "timer_ep"

// Queues: of the stream from the source, and of the stream to the sink.
#define N_SOURCE_SUBMIT "source.submit"
#define N_SOURCE_ACK "source.ack"
#define N_SINK_SUBMIT "sink.submit"
#define N_SINK_ACK "sink.ack"

// Signal loops.
#define N_SOURCE_LOOP "source.signals"
#define N_ROUTER_LOOP "router.signals"
#define N_SINK_LOOP "sink.signals"

// Signal contexts, named after the receiving process.
#define N_SOURCE_START "source.start"
#define N_SOURCE_READY_TO_SUBMIT "source.ready_to_submit"
#define N_SOURCE_ACK_AVAILABLE "source.ack_available"
#define N_ROUTER_PACKET_AVAILABLE "router.packet_available"
#define N_ROUTER_READY_TO_ACK "router.ready_to_ack"
#define N_ROUTER_READY_TO_SUBMIT "router.ready_to_submit"
#define N_ROUTER_ACK_AVAILABLE "router.ack_available"
#define N_ROUTER_TIMEOUT "router.timeout"
#define N_SINK_PACKET_AVAILABLE "sink.packet_available"
#define N_SINK_READY_TO_ACK "sink.ready_to_ack"

// States.
#define N_GENERATE "generate"
#define N_FORWARD "forward"
#define N_LOOKUP "lookup"
#define N_CHECKSUM "checksum"
#define N_COPY "copy"
#define N_SIGNAL "notify"
#define N_RESUBMIT "resubmit"
#define N_EXPIRE "expire"
#define N_RECEIVE "consume"

// Calls.
#define N_TRIGGER_ONCE "trigger_once"

// Events.
#define N_ROUTE_EXPIRED "route_expired"

// Packet interfaces of the router.
#define N_NORTH "north"
#define N_SOUTH "south"

#endif
#endif

// packet_sink: receives frames, checks them, and acknowledges them.
//
// It is the same in all modes of the router. It verifies the checksums of each frame, and that its
// sequence number is the next one of its flow, so the run fails if a router is fast because it is
// wrong.

#include "checksum.h"
#include "system.h"

#include <algorithm>
#include <array>

namespace pipeline {

namespace {
constexpr uint32_t BURST = 32;
// Number of packets after which the other side is woken; it is also woken if there are no more
// packets. If it were woken for a single free slot, it would run for a single packet.
constexpr uint32_t WAKE_AFTER = 256;
} // namespace

int run_sink(System &s)
{
	const Options &o = s.options;
	static longpole::Queue source_submit{N_SOURCE_SUBMIT, QUEUE_USABLE}, source_ack{N_SOURCE_ACK, QUEUE_USABLE};
	static longpole::Queue sink_submit{N_SINK_SUBMIT, QUEUE_USABLE}, sink_ack{N_SINK_ACK, QUEUE_USABLE};
	longpole::Queue &submit_queue = o.direct ? source_submit : sink_submit;
	longpole::Queue &ack_queue = o.direct ? source_ack : sink_ack;
	(void)submit_queue, (void)ack_queue; // Unused if the probes are compiled out.

	const Context ready_to_submit = o.direct ? SOURCE_READY_TO_SUBMIT : ROUTER_READY_TO_SUBMIT;
	const Context ack_available = o.direct ? SOURCE_ACK_AVAILABLE : ROUTER_ACK_AVAILABLE;
	StreamSink stream(o.direct ? s.north : s.south);
	Dump dump(o.dump_received);

	std::array<uint64_t, FLOWS> sequence{};
	uint64_t received = 0, wrong = 0, begin = 0;
	uint32_t unsignalled = 0;

	auto wake = [&] {
		unsignalled = 0;
		if (stream.submit.take_writer_waits())
			submit(s.signals, ready_to_submit);
		if (stream.ack.take_reader_waits())
			submit(s.signals, ack_available);
	};
	auto good = [&](const Descriptor &d) {
		const uint8_t *frame = stream.frame(d);
		if (!frame || d.length != o.bytes || !is_udp_frame(frame, d.length) || !verify_ip(frame) ||
		    !verify_udp(frame, d.length))
			return false;
		uint32_t flow = load32(frame + PAYLOAD_FLOW);
		if (flow >= FLOWS)
			return false;
		const uint64_t expected = sequence[flow], got = load64(frame + PAYLOAD_SEQUENCE);
		// One lost packet is one error, not one for each packet that follows.
		sequence[flow] = got + 1;
		return got == expected;
	};

	s.ready.fetch_add(1);
	while (!s.stop.load(std::memory_order_relaxed)) {
		uint32_t available = stream.submit.available();
		uint32_t burst = std::min({BURST, available, available ? stream.ack.space(BURST) : 0});
		if (!burst) {
			if (unsignalled)
				wake();
			if (!(available ? stream.ack.arm() : stream.submit.arm()))
				continue;
			LONGPOLE_SIGNAL_WAIT(N_SINK_LOOP);
			if (available)
				LONGPOLE_QUEUE_WAIT_FULL(ack_queue);
			else
				LONGPOLE_QUEUE_WAIT_EMPTY(submit_queue);
			wait_for_signals(s.signals, SINK);
			receive(s.signals, SINK);
			if (!begin)
				begin = now_ns();
			continue;
		}

		{
			LONGPOLE_SPAN(N_RECEIVE);
			for (uint32_t i = 0; i < burst; i++) {
				const Descriptor d = stream.submit.peek(i);
				wrong += !good(d);
				if (dump && stream.frame(d))
					dump.frame(stream.frame(d), d.length);
				stream.ack.slot(i) = d;
			}
		}
		received += burst;
		LONGPOLE_QUEUE_GET(submit_queue, burst);
		stream.submit.consume(burst);
		LONGPOLE_QUEUE_PUT(ack_queue, burst);
		stream.ack.publish(burst);
		unsignalled += burst;
		if (unsignalled >= WAKE_AFTER)
			wake();
		if (o.packets && received == o.packets) {
			uint64_t one = 1;
			(void)!write(s.finished, &one, sizeof(one));
		}
	}
	s.received.store(received);
	print_rate("Received", received, o.bytes, begin ? now_ns() - begin : 0);
	if (wrong) {
		std::fprintf(stderr, "packet_sink: %llu of the packets are wrong\n", static_cast<unsigned long long>(wrong));
		return 1;
	}
	return 0;
}

} // namespace pipeline

// packet_source: builds frames of several flows and sends them as fast as its queue accepts them.
//
// It is the same in all modes of the router. It must be cheap, because its cost would hide the
// router's cost. So a frame is a prepared one of its flow: it is copied into the bulk buffer, and
// gets a sequence number and the matching checksum.

#include "checksum.h"
#include "system.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace pipeline {

namespace {

constexpr uint32_t BURST = 32;
constexpr unsigned VARIANTS = 2; // Different contents per flow.

struct Template {
	std::vector<uint8_t> bytes;
	uint64_t sum; // Sum of everything that the UDP checksum covers, with sequence number 0.
};

Template make_template(unsigned flow, unsigned variant, uint32_t length)
{
	Template t{std::vector<uint8_t>(length), 0};
	uint8_t *f = t.bytes.data();
	const uint8_t dst[6] = {0x02, 0, 0, 0, 0x01, 0x01}, src[6] = {0x02, 0, 0, 0, 0x02, uint8_t(flow)};
	std::memcpy(f + ETH_DST, dst, 6);
	std::memcpy(f + ETH_SRC, src, 6);
	store16(f + ETH_TYPE, ETH_TYPE_IPV4);
	f[IP] = IP_VERSION_IHL;
	store16(f + IP_LENGTH, uint16_t(length - IP));
	store16(f + IP_ID, uint16_t(flow * VARIANTS + variant));
	f[IP_TTL] = 64;
	f[IP_PROTOCOL] = IP_PROTOCOL_UDP;
	store32(f + IP_SRC, 0x0a000100 + 16 + flow);                   // 10.0.1.16+flow
	store32(f + IP_DST, 0x0a010000 + (uint32_t{RULE_OF[flow]} << 8) + flow); // 10.1.rule.flow
	store16(f + UDP_SRC, uint16_t(40000 + 7 * flow));
	store16(f + UDP_DST, uint16_t(5000 + RULE_OF[flow]));
	store16(f + UDP_LENGTH, uint16_t(length - UDP));
	store32(f + PAYLOAD_FLOW, flow);

	// Filler from an xorshift generator; the only requirement is that frames differ.
	uint64_t x = 0x9e3779b97f4a7c15u * (flow * VARIANTS + variant + 1);
	for (size_t i = PAYLOAD_SEQUENCE + 8; i < length; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		f[i] = uint8_t(x);
	}
	store16(f + IP_CHECKSUM, full_ip(f));
	t.sum = pseudo_header_sum(f, length) + sum_words(f + UDP, length - UDP);
	return t;
}

} // namespace

int run_source(System &s)
{
	static longpole::Queue submit_queue{N_SOURCE_SUBMIT, QUEUE_USABLE};
	static longpole::Queue ack_queue{N_SOURCE_ACK, QUEUE_USABLE};

	const Options &o = s.options;
	const Context packet_available = o.direct ? SINK_PACKET_AVAILABLE : ROUTER_PACKET_AVAILABLE;
	const Context ready_to_ack = o.direct ? SINK_READY_TO_ACK : ROUTER_READY_TO_ACK;
	auto stream = std::make_unique<StreamSource>(s.north);
	Dump dump(o.dump_sent);

	std::vector<Template> templates;
	for (unsigned variant = 0; variant < VARIANTS; variant++)
		for (unsigned flow = 0; flow < FLOWS; flow++)
			templates.push_back(make_template(flow, variant, o.bytes));
	std::array<uint64_t, FLOWS> sequence{};
	size_t next = 0;
	uint64_t sent = 0, begin = 0;

	s.ready.fetch_add(1);
	while (!s.stop.load(std::memory_order_relaxed)) {
		if (!begin) {
			LONGPOLE_SIGNAL_WAIT(N_SOURCE_LOOP);
			wait_for_signals(s.signals, SOURCE);
			if (receive(s.signals, SOURCE) & (1u << SOURCE_START))
				begin = now_ns();
			continue;
		}

		if (uint32_t acks = stream->ack.available()) {
			for (uint32_t i = 0; i < acks; i++)
				stream->free.give(stream->ack.peek(i).frame);
			LONGPOLE_QUEUE_GET(ack_queue, acks);
			stream->ack.consume(acks);
			if (stream->ack.take_writer_waits())
				submit(s.signals, ready_to_ack);
		}

		uint32_t burst = std::min({BURST, stream->submit.space(BURST), stream->free.count()});
		if (o.packets)
			burst = uint32_t(std::min<uint64_t>(burst, o.packets - sent));
		if (!burst) {
			bool done = o.packets && sent == o.packets, full = false;
			if (!done) {
				full = stream->free.count() > 0;
				if (!(full ? stream->submit.arm() : stream->ack.arm()))
					continue;
			}
			LONGPOLE_SIGNAL_WAIT(N_SOURCE_LOOP);
			if (full)
				LONGPOLE_QUEUE_WAIT_FULL(submit_queue);
			else if (!done)
				LONGPOLE_QUEUE_WAIT_EMPTY(ack_queue);
			wait_for_signals(s.signals, SOURCE);
			receive(s.signals, SOURCE);
			continue;
		}

		{
			LONGPOLE_SPAN(N_GENERATE);
			for (uint32_t i = 0; i < burst; i++) {
				const Template &t = templates[next];
				unsigned flow = unsigned(next % FLOWS);
				next = next + 1 == templates.size() ? 0 : next + 1;
				uint32_t number = stream->free.take();
				uint8_t *frame = stream->frame(number);
				std::memcpy(frame, t.bytes.data(), o.bytes);
				uint64_t q = sequence[flow]++;
				store64(frame + PAYLOAD_SEQUENCE, q);
				uint16_t sum = fold(t.sum + (q & 0xffff) + (q >> 16 & 0xffff) + (q >> 32 & 0xffff) + (q >> 48));
				store16(frame + UDP_CHECKSUM, sum == 0xffff ? 0xffff : uint16_t(~sum));
				stream->submit.slot(i) = {number, o.bytes};
				if (dump)
					dump.frame(frame, o.bytes);
			}
		}
		sent += burst;
		LONGPOLE_QUEUE_PUT(submit_queue, burst);
		stream->submit.publish(burst);
		if (stream->submit.take_reader_waits())
			submit(s.signals, packet_available);
	}
	print_rate("Sent", sent, o.bytes, begin ? now_ns() - begin : 0);
	return 0;
}

} // namespace pipeline

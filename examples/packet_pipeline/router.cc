// packet_router: parses a frame, finds a rule, rewrites addresses and ports, updates the checksums,
// and copies the frame to the other side.
//
// All five faults are here, each behind its option, and each of them was made by a real router.
// They are slow because of what they do; no code sleeps, spins or computes only to be slow.

#include "checksum.h"
#include "routing.h"
#include "rpc.h"
#include "system.h"

#include <memory>

namespace pipeline {

namespace {

constexpr uint32_t PREFETCH = 4; // Distance of the prefetched packet from the current one.
// The router publishes packets to the sink in groups, as the source does. If the sink could see
// every single descriptor as it is written, it would take the descriptor's cache line away from the
// router each time.
constexpr uint32_t PUBLISH_AFTER = 32;
// While the router has packets, it wakes the others after this many. On virtual processors a
// wake-up costs as much as a hundred packets, and half a queue is enough work for either side.
constexpr uint32_t WAKE_AFTER = QUEUE_SLOTS / 2;

longpole::Queue source_submit{N_SOURCE_SUBMIT, QUEUE_USABLE};
longpole::Queue source_ack{N_SOURCE_ACK, QUEUE_USABLE};
longpole::Queue sink_submit{N_SINK_SUBMIT, QUEUE_USABLE};
longpole::Queue sink_ack{N_SINK_ACK, QUEUE_USABLE};

// Compilers emit `prefetchw` only if they know that the processor supports it. A processor without
// support executes it as a no-op.
inline void prefetch_to_write(const uint8_t *p)
{
#ifdef __x86_64__
	asm volatile("prefetchw %0" : : "m"(*p));
#else
	__builtin_prefetch(p, 1);
#endif
}

class Router
{
public:
	explicit Router(System &s)
	    : s_(s), o_(s.options), in_(s.north), out_(s.south), rules_(s.options.route_udp), timer_(s.timer_client),
	      until_capture_(s.options.capture ? 1 : 0)
	{
	}

	int run();

private:
	// Reason for which the router returns to its signal loop.
	enum class Blocked { NOT, NO_PACKET, NO_ACK_SPACE, NO_SUBMIT_SPACE, NO_FRAME };

	Blocked forward_batch();
	bool has_faults();
	void forward_packet();
	bool route(uint8_t *frame, uint32_t length);
	void move_deadline(Route &);
	void expire_routes();
	void collect_acks();
	void hand_over();
	void acknowledge();
	void wake_others(bool unasked);

	System &s_;
	const Options &o_;
	StreamSink in_;
	StreamSource out_;
	Rules rules_;
	Routes routes_;
	TimerClient timer_;
	uint64_t now_ = 0;   // Time in ns, read once per batch.
	bool armed_ = false; // In lazy mode: true while the timer server has a signal outstanding.
	bool timer_gone_ = false;
	uint32_t packets_ = 0; // Number written to the submit queue and not yet published.
	uint32_t acks_ = 0;    // Number written to the ack queue and not yet published.
	uint32_t unsignalled_ = 0; // Number handled since the others were woken.
	bool faulty_ = true; // True if the faults apply to this packet.
	uint64_t dice_ = 1;
	// Frames until the next captured one. If none are captured it starts at 0 and wraps around to
	// 2^64 - 1.
	uint64_t until_capture_;
	uint64_t dropped_ = 0;
};

void Router::collect_acks()
{
	uint32_t acks = out_.ack.available();
	if (!acks)
		return;
	for (uint32_t i = 0; i < acks; i++)
		out_.free.give(out_.ack.peek(i).frame);
	LONGPOLE_QUEUE_GET(sink_ack, acks);
	out_.ack.consume(acks);
}

void Router::hand_over()
{
	if (!packets_)
		return;
	LONGPOLE_QUEUE_PUT(sink_submit, packets_);
	out_.submit.publish(packets_);
	packets_ = 0;
}

void Router::acknowledge()
{
	if (!acks_)
		return;
	LONGPOLE_QUEUE_PUT(source_ack, acks_);
	in_.ack.publish(acks_);
	acks_ = 0;
}

// Signals the other processes that have declared to wait. With `unasked`, sink and source are
// signalled in any case; this is the fault of the eager router, which does so for each packet.
void Router::wake_others(bool unasked)
{
	unsignalled_ = 0;
	bool packet = out_.submit.take_reader_waits() || unasked;
	bool ack = in_.ack.take_reader_waits() || unasked;
	bool space = in_.submit.take_writer_waits();
	bool ack_space = out_.ack.take_writer_waits();
	if (!packet && !ack && !space && !ack_space)
		return;
	LONGPOLE_SPAN(N_SIGNAL);
	if (packet)
		submit(s_.signals, SINK_PACKET_AVAILABLE);
	if (ack)
		submit(s_.signals, SOURCE_ACK_AVAILABLE);
	if (space)
		submit(s_.signals, SOURCE_READY_TO_SUBMIT);
	if (ack_space)
		submit(s_.signals, SINK_READY_TO_ACK);
}

// Extends the lifetime of a packet's route. In exact mode each new deadline is sent to the timer
// server. In lazy mode an armed timer is left alone: it may fire too early, and then
// `expire_routes` arms it again for the earliest route that has not expired.
void Router::move_deadline(Route &route)
{
	const bool exact = o_.timeouts_exact && faulty_;
	uint64_t now = exact ? now_ns() : now_;
	route.deadline_ns = now + ROUTE_LIFETIME_NS;
	if (!exact && armed_)
		return;
	uint64_t earliest = routes_.earliest();
	timer_gone_ |= !timer_.trigger_once(earliest > now ? earliest - now : 0);
	armed_ = true;
}

void Router::expire_routes()
{
	LONGPOLE_SPAN(N_EXPIRE);
	now_ = now_ns();
	armed_ = false;
	size_t expired = routes_.expire(now_);
	LONGPOLE_MARK(N_ROUTE_EXPIRED, expired);
	(void)expired;
	if (uint64_t earliest = routes_.earliest()) {
		timer_gone_ |= !timer_.trigger_once(earliest - now_);
		armed_ = true;
	}
}

// Rewrites the frame for its next hop. Returns false if there is no route for it.
bool Router::route(uint8_t *frame, uint32_t length)
{
	if (!is_udp_frame(frame, length) || frame[IP_TTL] <= 1)
		return false;
	const FlowKey key{load32(frame + IP_SRC), load32(frame + IP_DST), load16(frame + UDP_SRC), load16(frame + UDP_DST)};

	const Rule *rule;
	{
		LONGPOLE_SPAN(N_LOOKUP);
		const Destination d{key.dst_ip, key.dst_port};
		rule = o_.lookup_exceptions && faulty_ ? rules_.find_by_exceptions(d) : rules_.find(d);
	}
	if (!rule)
		return false;
	Route *route = routes_.find(key);
	if (!route)
		return false;
	move_deadline(*route);

	const uint32_t dst_ip = o_.route_udp ? rule->to_ip : key.dst_ip;
	const uint16_t dst_port = o_.route_udp ? rule->to_port : key.dst_port;
	// The lower byte of this word is the protocol.
	const uint16_t ttl = load16(frame + IP_TTL);
	std::memcpy(frame + ETH_DST, rule->next_hop, 6);
	std::memcpy(frame + ETH_SRC, ROUTER_MAC, 6);
	store16(frame + IP_TTL, uint16_t(ttl - 0x100));
	store32(frame + IP_SRC, ROUTER_IP);
	store32(frame + IP_DST, dst_ip);
	store16(frame + UDP_SRC, route->nat_port);
	store16(frame + UDP_DST, dst_port);

	LONGPOLE_SPAN(N_CHECKSUM);
	const uint16_t old = load16(frame + UDP_CHECKSUM);
	if (o_.checksum_full && faulty_) {
		store16(frame + IP_CHECKSUM, full_ip(frame));
		if (old)
			store16(frame + UDP_CHECKSUM, full_udp(frame, length));
		return true;
	}
	Change addresses;
	addresses.dword(key.src_ip, ROUTER_IP);
	addresses.dword(key.dst_ip, dst_ip);
	Change ip = addresses, udp = addresses;
	ip.word(ttl, uint16_t(ttl - 0x100));
	udp.word(key.src_port, route->nat_port);
	udp.word(key.dst_port, dst_port);
	store16(frame + IP_CHECKSUM, update(load16(frame + IP_CHECKSUM), ip));
	if (old) {
		const uint16_t sum = update(old, udp);
		store16(frame + UDP_CHECKSUM, sum ? sum : 0xffff);
	}
	return true;
}

// Chooses the packets with faults at random: flows come in a fixed order, so every n-th packet
// would always belong to the same flows.
bool Router::has_faults()
{
	if (o_.one_in == 1)
		return true;
	dice_ = dice_ * 6364136223846793005u + 1442695040888963407u;
	return (dice_ >> 33) % o_.one_in == 0;
}

void Router::forward_packet()
{
	const Descriptor d = in_.submit.peek(0);
	LONGPOLE_QUEUE_GET(source_submit, 1);
	in_.submit.consume(1);
	in_.ack.slot(acks_) = d;
	acks_++;
	// The frame is in another core's cache and will be rewritten in place. A later one is
	// prefetched while this one is processed.
	if (in_.submit.available() > PREFETCH)
		if (const uint8_t *later = in_.frame(in_.submit.peek(PREFETCH)))
			prefetch_to_write(later);

	uint8_t *frame = in_.frame(d);
	faulty_ = has_faults();
	const bool capture = --until_capture_ == 0;
	if (capture)
		until_capture_ = o_.capture;
	if (frame && capture)
		LONGPOLE_PACKET(N_NORTH, LONGPOLE_IN, frame, d.length);
	if (!frame || !route(frame, d.length)) {
		dropped_++;
		return;
	}

	const uint32_t number = out_.free.take();
	uint8_t *copy = out_.frame(number);
	{
		LONGPOLE_SPAN(N_COPY);
		std::memcpy(copy, frame, d.length);
	}
	if (capture)
		LONGPOLE_PACKET(N_SOUTH, LONGPOLE_OUT, copy, d.length);
	out_.submit.slot(packets_) = {number, d.length};
	packets_++;
	if (packets_ == PUBLISH_AFTER)
		hand_over();
}

Router::Blocked Router::forward_batch()
{
	LONGPOLE_SPAN(N_FORWARD);
	if (!o_.timeouts_exact || o_.one_in > 1)
		now_ = now_ns();
	LONGPOLE_QUEUE_SIZE(source_submit, in_.submit.depth());
	collect_acks();

	Blocked blocked = Blocked::NOT;
	bool again = false;
	for (uint32_t count = 0;; count++) {
		if (!in_.submit.available()) {
			if (!in_.submit.arm())
				continue;
			blocked = Blocked::NO_PACKET;
			break;
		}
		if (in_.ack.space(acks_ + 1) <= acks_) {
			// The other side can take only published acknowledgements.
			acknowledge();
			if (!in_.ack.arm())
				continue;
			blocked = Blocked::NO_ACK_SPACE;
			break;
		}
		if (out_.submit.space(packets_ + 1) <= packets_) {
			hand_over();
			collect_acks();
			if (!out_.submit.arm())
				continue;
			blocked = Blocked::NO_SUBMIT_SPACE;
			break;
		}
		if (!out_.free.count()) {
			hand_over();
			collect_acks();
			if (out_.free.count() || !out_.ack.arm())
				continue;
			blocked = Blocked::NO_FRAME;
			break;
		}
		if (count == o_.batch) {
			again = true;
			break;
		}
		forward_packet();
		unsignalled_++;
		if (o_.signals_eager && faulty_) {
			hand_over();
			acknowledge();
			wake_others(true);
		}
	}
	hand_over();
	acknowledge();
	if (!again || unsignalled_ >= WAKE_AFTER)
		wake_others(false);
	if (again) {
		LONGPOLE_SPAN(N_RESUBMIT);
		submit(s_.signals, ROUTER_PACKET_AVAILABLE);
	}
	return blocked;
}

int Router::run()
{
	s_.ready.fetch_add(1);
	in_.submit.arm();
	Blocked blocked = Blocked::NO_PACKET;
	while (!s_.stop.load(std::memory_order_relaxed) && !timer_gone_) {
		LONGPOLE_SIGNAL_WAIT(N_ROUTER_LOOP);
		switch (blocked) {
		case Blocked::NOT:
			break;
		case Blocked::NO_PACKET:
			LONGPOLE_QUEUE_WAIT_EMPTY(source_submit);
			break;
		case Blocked::NO_ACK_SPACE:
			LONGPOLE_QUEUE_WAIT_FULL(source_ack);
			break;
		case Blocked::NO_SUBMIT_SPACE:
			LONGPOLE_QUEUE_WAIT_FULL(sink_submit);
			break;
		case Blocked::NO_FRAME:
			LONGPOLE_QUEUE_WAIT_EMPTY(sink_ack);
			break;
		}
		wait_for_signals(s_.signals, ROUTER);
		const uint32_t received = receive(s_.signals, ROUTER);
		if (received & (1u << ROUTER_TIMEOUT))
			expire_routes();
		if (received & ~(1u << ROUTER_TIMEOUT))
			blocked = forward_batch();
	}
	if (dropped_)
		std::fprintf(stderr, "packet_router: dropped %llu packets\n", static_cast<unsigned long long>(dropped_));
	return timer_gone_ && !s_.stop.load() ? 1 : 0;
}

} // namespace

int run_router(System &s)
{
	return std::make_unique<Router>(s)->run();
}

} // namespace pipeline

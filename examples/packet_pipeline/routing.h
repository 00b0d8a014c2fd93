// Routing rules, and the routes that the router has cached for known flows.
//
// A rule determines where packets to a network (or to a UDP port) go. The first rule that matches
// is used. Both ways to look up a rule are here: one returns a result for each rule, the other,
// which is the fault, throws an exception for each rule that does not match.

#ifndef PIPELINE_ROUTING_H
#define PIPELINE_ROUTING_H

#include "frame.h"

#include <array>
#include <cstdint>
#include <vector>

namespace pipeline {

constexpr uint32_t ROUTER_IP = 0xc0a80001; // 192.168.0.1
constexpr uint8_t ROUTER_MAC[6] = {0x02, 0, 0, 0, 0x03, 0x01};
constexpr uint16_t FIRST_NAT_PORT = 49152;
constexpr uint64_t ROUTE_LIFETIME_NS = 10000000000;

struct Rule {
	uint32_t net, mask;
	uint16_t port;
	uint8_t next_hop[6];
	uint32_t to_ip; // Only UDP rules forward to another address.
	uint16_t to_port;
};

struct Destination {
	uint32_t ip;
	uint16_t port;
};

struct NoMatch {
};

class Rules
{
public:
	explicit Rules(bool udp) : udp_(udp)
	{
		for (unsigned r = 0; r < RULES; r++)
			rules_[r] = {0x0a010000 + (r << 8), 0xffffff00,       uint16_t(5000 + r), {0x02, 0, 0, 0, 0x04, uint8_t(r)},
			             0xc0a80110 + r,        uint16_t(7000 + r)};
	}

	const Rule *find(const Destination &d) const
	{
		for (const Rule &rule : rules_)
			if (matches(rule, d))
				return &rule;
		return nullptr;
	}

	const Rule *find_by_exceptions(const Destination &d) const
	{
		for (const Rule &rule : rules_) {
			try {
				return &match_or_throw(rule, d);
			} catch (NoMatch) {
			}
		}
		return nullptr;
	}

private:
	bool matches(const Rule &rule, const Destination &d) const
	{
		return udp_ ? rule.port == d.port : (d.ip & rule.mask) == rule.net;
	}

	const Rule &match_or_throw(const Rule &rule, const Destination &d) const
	{
		if (!matches(rule, d))
			throw NoMatch();
		return rule;
	}

	bool udp_;
	std::array<Rule, RULES> rules_;
};

struct FlowKey {
	uint32_t src_ip, dst_ip;
	uint16_t src_port, dst_port;
	bool operator==(const FlowKey &o) const
	{
		return src_ip == o.src_ip && dst_ip == o.dst_ip && src_port == o.src_port && dst_port == o.dst_port;
	}
};

// A known flow: the port that replaces its source port, and the time at which it is forgotten
// without a packet.
struct Route {
	FlowKey key;
	uint16_t nat_port;
	uint64_t deadline_ns;
};

class Routes
{
public:
	Routes() { rebuild(); }

	// Returns the route of a flow, which is added if there is none; null if there are too many.
	Route *find(const FlowKey &key)
	{
		for (size_t i = slot(key);; i = (i + 1) % SLOTS) {
			if (index_[i] < 0) {
				if (routes_.size() == MAX)
					return nullptr;
				index_[i] = int16_t(routes_.size());
				routes_.push_back({key, next_port(), 0});
				return &routes_.back();
			}
			Route &route = routes_[size_t(index_[i])];
			if (route.key == key)
				return &route;
		}
	}

	// Time in ns at which the first route expires; 0 if there is no route.
	uint64_t earliest() const
	{
		uint64_t earliest = 0;
		for (const Route &route : routes_)
			if (!earliest || route.deadline_ns < earliest)
				earliest = route.deadline_ns;
		return earliest;
	}

	// Drops the routes that have expired. Returns their number.
	size_t expire(uint64_t now)
	{
		size_t before = routes_.size(), kept = 0;
		for (const Route &route : routes_)
			if (route.deadline_ns > now)
				routes_[kept++] = route;
		routes_.resize(kept);
		rebuild();
		return before - kept;
	}

private:
	static constexpr size_t SLOTS = 1024, MAX = SLOTS / 2;

	static size_t slot(const FlowKey &k)
	{
		uint64_t h = (uint64_t{k.src_ip} << 32 | k.dst_ip) ^ (uint64_t{k.src_port} << 16 | k.dst_port);
		return (h * 0x9e3779b97f4a7c15u) >> 54;
	}

	uint16_t next_port()
	{
		uint16_t port = uint16_t(FIRST_NAT_PORT + ports_);
		ports_ = (ports_ + 1) % (65536 - FIRST_NAT_PORT);
		return port;
	}

	void rebuild()
	{
		index_.fill(-1);
		for (size_t r = 0; r < routes_.size(); r++) {
			size_t i = slot(routes_[r].key);
			while (index_[i] >= 0)
				i = (i + 1) % SLOTS;
			index_[i] = int16_t(r);
		}
	}

	std::array<int16_t, SLOTS> index_;
	std::vector<Route> routes_;
	unsigned ports_ = 0;
};

} // namespace pipeline

#endif

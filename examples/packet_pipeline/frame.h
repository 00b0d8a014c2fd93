// Access to Ethernet II, IPv4 and UDP headers as bytes.
//
// Accessors read and write frames in network byte order. Shared memory is never cast to a struct,
// so alignment and the byte order of the host do not matter.

#ifndef PIPELINE_FRAME_H
#define PIPELINE_FRAME_H

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pipeline {

inline uint16_t load16(const uint8_t *p)
{
	uint16_t v;
	std::memcpy(&v, p, 2);
	return __builtin_bswap16(v);
}

inline uint32_t load32(const uint8_t *p)
{
	uint32_t v;
	std::memcpy(&v, p, 4);
	return __builtin_bswap32(v);
}

inline uint64_t load64(const uint8_t *p)
{
	uint64_t v;
	std::memcpy(&v, p, 8);
	return __builtin_bswap64(v);
}

inline void store16(uint8_t *p, uint16_t v)
{
	v = __builtin_bswap16(v);
	std::memcpy(p, &v, 2);
}

inline void store32(uint8_t *p, uint32_t v)
{
	v = __builtin_bswap32(v);
	std::memcpy(p, &v, 4);
}

inline void store64(uint8_t *p, uint64_t v)
{
	v = __builtin_bswap64(v);
	std::memcpy(p, &v, 8);
}

// Offsets from the first byte of the frame. The IPv4 header has no options.
enum : size_t {
	ETH_DST = 0,
	ETH_SRC = 6,
	ETH_TYPE = 12,
	IP = 14,
	IP_LENGTH = IP + 2,
	IP_ID = IP + 4,
	IP_TTL = IP + 8,
	IP_PROTOCOL = IP + 9,
	IP_CHECKSUM = IP + 10,
	IP_SRC = IP + 12,
	IP_DST = IP + 16,
	UDP = IP + 20,
	UDP_SRC = UDP,
	UDP_DST = UDP + 2,
	UDP_LENGTH = UDP + 4,
	UDP_CHECKSUM = UDP + 6,
	PAYLOAD = UDP + 8,
	// Values that the source writes at the start of the payload and the sink checks.
	PAYLOAD_FLOW = PAYLOAD,
	PAYLOAD_SEQUENCE = PAYLOAD + 4,
	FRAME_MIN = 64,
	FRAME_MAX = 1514,
};

constexpr uint16_t ETH_TYPE_IPV4 = 0x0800;
constexpr uint8_t IP_VERSION_IHL = 0x45;
constexpr uint8_t IP_PROTOCOL_UDP = 17;

// The rule that each flow of the pipeline needs. Rules are ordered by how often they are used, as a
// list of rules should be: half of the flows need the first one, and a packet is compared with one
// other rule on average before its own.
constexpr unsigned FLOWS = 20;
constexpr unsigned RULES = 5;
constexpr uint8_t RULE_OF[FLOWS] = {0, 1, 0, 2, 0, 3, 0, 1, 0, 2, 0, 1, 0, 4, 0, 2, 0, 1, 0, 3};

// Returns true if the bytes are a whole IPv4 UDP frame of the kind that the router forwards.
inline bool is_udp_frame(const uint8_t *frame, size_t length)
{
	return length >= PAYLOAD && load16(frame + ETH_TYPE) == ETH_TYPE_IPV4 && frame[IP] == IP_VERSION_IHL &&
	       frame[IP_PROTOCOL] == IP_PROTOCOL_UDP && load16(frame + IP_LENGTH) == length - IP &&
	       load16(frame + UDP_LENGTH) == length - UDP;
}

} // namespace pipeline

#endif

// Three computations of the Internet checksum.
//
// `full_*` is the algorithm of RFC 1071, section 4.1: it reads everything that the checksum covers,
// one 16-bit word at a time. The router with the fault uses it after each rewrite. `update` is
// equation 3 of RFC 1624: it reads only the words that changed. `verify_*` is for the sink and
// reads eight bytes at a time, because a sink that is slower than the router would hide the
// router's fault.

#ifndef PIPELINE_CHECKSUM_H
#define PIPELINE_CHECKSUM_H

#include "frame.h"

namespace pipeline {

inline uint16_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return static_cast<uint16_t>(sum);
}

// One's-complement sums do not depend on the byte order if the result is swapped once (RFC 1071,
// 1.2.B).
inline uint64_t sum_words(const uint8_t *p, size_t length)
{
	uint64_t sum = 0;
	for (; length > 1; p += 2, length -= 2) {
		uint16_t word;
		std::memcpy(&word, p, 2);
		sum += word;
	}
	if (length)
		sum += *p;
	return __builtin_bswap16(fold(sum));
}

inline uint64_t pseudo_header_sum(const uint8_t *frame, size_t length)
{
	return sum_words(frame + IP_SRC, 8) + IP_PROTOCOL_UDP + (length - UDP);
}

inline uint16_t full_ip(const uint8_t *frame)
{
	uint64_t sum = sum_words(frame + IP, IP_CHECKSUM - IP) + sum_words(frame + IP_SRC, UDP - IP_SRC);
	return static_cast<uint16_t>(~fold(sum));
}

inline uint16_t full_udp(const uint8_t *frame, size_t length)
{
	uint64_t sum = pseudo_header_sum(frame, length) + sum_words(frame + UDP, UDP_CHECKSUM - UDP) +
	               sum_words(frame + PAYLOAD, length - PAYLOAD);
	uint16_t checksum = static_cast<uint16_t>(~fold(sum));
	return checksum ? checksum : 0xffff; // Zero means "no checksum" (RFC 768).
}

// RFC 1624: HC' = ~(~HC + ~m + m'), applied here to the sums of all old and all new words at once.
struct Change {
	uint64_t sum = 0;
	void word(uint16_t from, uint16_t to) { sum += static_cast<uint16_t>(~from) + uint32_t{to}; }
	void dword(uint32_t from, uint32_t to)
	{
		word(static_cast<uint16_t>(from >> 16), static_cast<uint16_t>(to >> 16));
		word(static_cast<uint16_t>(from), static_cast<uint16_t>(to));
	}
};

inline uint16_t update(uint16_t checksum, const Change &change)
{
	return static_cast<uint16_t>(~fold(static_cast<uint16_t>(~checksum) + change.sum));
}

inline uint64_t sum_fast(const uint8_t *p, size_t length)
{
	uint64_t low = 0, high = 0;
	for (; length >= 16; p += 16, length -= 16) {
		uint64_t a, b;
		std::memcpy(&a, p, 8);
		std::memcpy(&b, p + 8, 8);
		low += (a & 0xffffffff) + (b & 0xffffffff);
		high += (a >> 32) + (b >> 32);
	}
	uint64_t tail[2] = {0, 0};
	std::memcpy(tail, p, length);
	low += (tail[0] & 0xffffffff) + (tail[1] & 0xffffffff);
	high += (tail[0] >> 32) + (tail[1] >> 32);
	return __builtin_bswap16(fold(uint64_t{fold(low)} + fold(high)));
}

inline bool verify_ip(const uint8_t *frame)
{
	return fold(sum_fast(frame + IP, UDP - IP)) == 0xffff;
}

inline bool verify_udp(const uint8_t *frame, size_t length)
{
	return fold(sum_fast(frame + IP_SRC, 8) + IP_PROTOCOL_UDP + (length - UDP) + sum_fast(frame + UDP, length - UDP)) ==
	       0xffff;
}

} // namespace pipeline

#endif

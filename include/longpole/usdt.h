/*
 * Places to which perf, bpftrace and SystemTap attach, one for each kind of probe. A place is a
 * `nop` with a note (.note.stapsdt) that states its address and the registers that hold the
 * arguments. A tool that attaches increments the semaphore; until then a probe costs one more load
 * and branch.
 *
 * The places are written in assembly, so that the arguments are in the registers of the calling
 * convention, and so that each place exists once per library.
 */
#ifndef LONGPOLE_USDT_H
#define LONGPOLE_USDT_H

#include "abi.h"
#include "system.h"

#if defined(__cplusplus)
extern "C" {
#endif

#if defined(__x86_64__)
#define LONGPOLE_SDT_ARGUMENTS_ "8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8"
#else
#define LONGPOLE_SDT_ARGUMENTS_ "8@x0 8@x1 8@x2 8@x3 8@x4"
#endif

#define LONGPOLE_SDT_PLACE_(name)                                                                                        \
	".ifndef longpole_sdt_" name "\n"                                                                                    \
	".pushsection .text.longpole_sdt_" name ",\"axG\",@progbits,longpole_sdt_" name ",comdat\n"                          \
	".weak longpole_sdt_" name "\n.hidden longpole_sdt_" name "\n.type longpole_sdt_" name ",@function\n"                \
	"longpole_sdt_" name ":\n990:\tnop\n\tret\n.size longpole_sdt_" name ",.-longpole_sdt_" name "\n"                    \
	".popsection\n"                                                                                                      \
	".pushsection .note.stapsdt,\"G\",@note,longpole_sdt_" name ",comdat\n"                                              \
	".balign 4\n.4byte 992f-991f,994f-993f,3\n"                                                                          \
	"991:\n.asciz \"stapsdt\"\n992:\n.balign 4\n"                                                                        \
	"993:\n.8byte 990b\n.8byte _.stapsdt.base\n.8byte longpole_sdt_semaphore\n"                                          \
	".asciz \"longpole\"\n.asciz \"" name "\"\n.asciz \"" LONGPOLE_SDT_ARGUMENTS_ "\"\n"                                 \
	"994:\n.balign 4\n.popsection\n.endif\n"

__asm__(".ifndef _.stapsdt.base\n"
        ".pushsection .stapsdt.base,\"aG\",@progbits,.stapsdt.base,comdat\n"
        ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base:\n.space 1\n.size _.stapsdt.base,1\n"
        ".popsection\n.endif\n"
        ".ifndef longpole_sdt_semaphore\n"
        ".pushsection .probes,\"awG\",@progbits,longpole_sdt_semaphore,comdat\n"
        ".weak longpole_sdt_semaphore\n.hidden longpole_sdt_semaphore\n.type longpole_sdt_semaphore,@object\n"
        ".size longpole_sdt_semaphore,2\n.balign 2\nlongpole_sdt_semaphore:\n.2byte 0\n"
        ".popsection\n.endif\n");

extern volatile uint16_t longpole_sdt_semaphore __attribute__((visibility("hidden")));

#define LONGPOLE_SDT_KINDS_(each)                                                                                        \
	each(STATE, state) each(SPAN_BEGIN, span_begin) each(SPAN_END, span_end) each(MARK, mark) each(COUNTER, counter)     \
	each(RPC_CALL, rpc_call) each(RPC_RETURNED, rpc_returned) each(RPC_DISPATCH, rpc_dispatch) each(RPC_REPLY, rpc_reply) \
	each(SIGNAL_SUBMIT, signal_submit) each(SIGNAL_RECEIVE, signal_receive) each(SIGNAL_WAIT, signal_wait)               \
	each(QUEUE_PUT, queue_put) each(QUEUE_GET, queue_get) each(QUEUE_PEEK, queue_peek) each(QUEUE_RESERVE, queue_reserve) \
	each(QUEUE_WAIT_EMPTY, queue_wait_empty) each(QUEUE_WAIT_FULL, queue_wait_full) each(QUEUE_SIZE, queue_size)         \
	each(LINK, link) each(FLOW, flow) each(PACKET, packet) each(EVENT, event) each(LOG, log)

/* One statement per kind, because some compilers limit the length of a string literal. */
#define LONGPOLE_SDT_DECLARE_(kind, name)                                                                                \
	__asm__(LONGPOLE_SDT_PLACE_(#name));                                                                                 \
	extern void longpole_sdt_##name(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) __attribute__((visibility("hidden")));
LONGPOLE_SDT_KINDS_(LONGPOLE_SDT_DECLARE_)

#define LONGPOLE_SDT_CASE_(kind, name)                                                                                   \
	case LONGPOLE_KIND_##kind:                                                                                           \
		longpole_sdt_##name(a, b, c, d, e);                                                                              \
		break;

/* Executes the place of a kind. */
LONGPOLE_SLOW void longpole_sdt_fire(uint32_t kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	switch (kind) {
		LONGPOLE_SDT_KINDS_(LONGPOLE_SDT_CASE_)
	default:
		break;
	}
}

LONGPOLE_INLINE int longpole_sdt_wanted(void)
{
	return LONGPOLE_UNLIKELY(longpole_sdt_semaphore != 0);
}

/* The category of a kind, which is a compile-time constant. */
LONGPOLE_INLINE uint32_t longpole_category_of(uint32_t kind)
{
	switch (kind) {
	case LONGPOLE_KIND_STATE:
		return LONGPOLE_CATEGORY_STATE;
	case LONGPOLE_KIND_SPAN_BEGIN:
	case LONGPOLE_KIND_SPAN_END:
		return LONGPOLE_CATEGORY_SPAN;
	case LONGPOLE_KIND_MARK:
		return LONGPOLE_CATEGORY_MARK;
	case LONGPOLE_KIND_COUNTER:
		return LONGPOLE_CATEGORY_COUNTER;
	case LONGPOLE_KIND_RPC_CALL:
	case LONGPOLE_KIND_RPC_RETURNED:
	case LONGPOLE_KIND_RPC_DISPATCH:
	case LONGPOLE_KIND_RPC_REPLY:
		return LONGPOLE_CATEGORY_RPC;
	case LONGPOLE_KIND_SIGNAL_SUBMIT:
	case LONGPOLE_KIND_SIGNAL_RECEIVE:
	case LONGPOLE_KIND_SIGNAL_WAIT:
		return LONGPOLE_CATEGORY_SIGNAL;
	case LONGPOLE_KIND_LINK:
	case LONGPOLE_KIND_FLOW:
		return LONGPOLE_CATEGORY_LINK;
	case LONGPOLE_KIND_PACKET:
		return LONGPOLE_CATEGORY_PACKET;
	case LONGPOLE_KIND_EVENT:
		return LONGPOLE_CATEGORY_EVENT;
	case LONGPOLE_KIND_LOG:
		return LONGPOLE_CATEGORY_LOG;
	default:
		return LONGPOLE_CATEGORY_QUEUE;
	}
}

#if defined(__cplusplus)
}
#endif

#endif

/*
 * Records functions as spans, without probes in the code: compile with -finstrument-functions, and
 * include this header in one source file of each program or library (or in all, by `-include
 * longpole/auto.h`).
 *
 * The compiler calls two hooks at the start and the end of each function. They look up the
 * function's class id by its address, in a table that needs no lock, and record the edge of a span.
 * Here the name of a function is `MODULE+0xOFFSET`; symbols are looked up in the module's file when
 * the recording ends.
 *
 * Functions can be left out by these macros for the library, or by environment variables of the
 * same name, which have precedence:
 *
 *     LONGPOLE_AUTO_INCLUDE "parse*,net::*"   record only these functions
 *     LONGPOLE_AUTO_EXCLUDE "get_*"           do not record these functions
 *     LONGPOLE_AUTO_DEPTH   8                 maximum number of nested recorded functions;
 *                                             0: no limit
 *     LONGPOLE_AUTO_SHORT   100               leave out functions that take less than this time
 *                                             in ns, once they are known; 0: record all
 *
 * In patterns, `*` matches any text and `?` any character. They are compared with the symbol and,
 * for C++, with the name without arguments. Short functions are found while the program runs, see
 * trial.h: a recorded function is on trial for its first calls.
 */
#ifndef LONGPOLE_AUTO_H
#define LONGPOLE_AUTO_H

#include "longpole.h"

#if !defined(LONGPOLE_DISABLE)

#include "trial.h"

#if defined(__cplusplus)
extern "C" {
#endif

LONGPOLE_INLINE void longpole_auto_edge(const void *function, int end)
{
	const uint64_t address = (uint64_t)(uintptr_t)function;
	const uint32_t at = (uint32_t)(address * 0x9e3779b97f4a7c15u >> 48);
	struct longpole_auto_slot *slot = &longpole_auto.slots[at];
	const uint64_t ids = LONGPOLE_LIKELY(__atomic_load_n(&slot->address, __ATOMIC_RELAXED) == address)
	                         ? __atomic_load_n(&slot->ids, __ATOMIC_RELAXED)
	                         : 0;
	const uint32_t id = end ? (uint32_t)(ids >> 32) : (uint32_t)ids;
	if (LONGPOLE_LIKELY(id >= LONGPOLE_FIRST_SITE_ID) && LONGPOLE_LIKELY(longpole_auto.depth == 0)) {
		longpole_emit(id, NULL, 0);
		return;
	}
	if (ids == LONGPOLE_AUTO_LEFT_OUT)
		return;
	if (ids == LONGPOLE_AUTO_IS_SHORT) {
		struct longpole_auto_thread *thread = &longpole_auto_thread;
		if (end ? thread->top != slot : thread->skip-- != 0)
			return;
	}
	if (end)
		longpole_auto_end_slow(address, at);
	else
		longpole_auto_begin_slow(address, at);
}

#define LONGPOLE_AUTO_HOOK_ __attribute__((weak, noinline, used, no_instrument_function, visibility("hidden")))

/* Other names, because g++ knows these functions without a declaration, and then rejects their
 * visibility. */
LONGPOLE_AUTO_HOOK_ void longpole_auto_enter(void *function, void *caller) __asm__("__cyg_profile_func_enter");
LONGPOLE_AUTO_HOOK_ void longpole_auto_exit(void *function, void *caller) __asm__("__cyg_profile_func_exit");

void longpole_auto_enter(void *function, void *caller)
{
	(void)caller;
	if (LONGPOLE_UNLIKELY(longpole_on(LONGPOLE_CATEGORY_SPAN)))
		longpole_auto_edge(function, 0);
}

void longpole_auto_exit(void *function, void *caller)
{
	(void)caller;
	if (LONGPOLE_UNLIKELY(longpole_on(LONGPOLE_CATEGORY_SPAN)))
		longpole_auto_edge(function, 1);
}

#if defined(__cplusplus)
}
#endif

#endif

#endif

/*
 * Functions as spans, without a probe in the code: compile with -finstrument-functions, and include this header in one source file of each
 * program or library (or in all, by `-include longpole/auto.h`).
 *
 * The compiler calls two hooks at the begin and the end of each function. They look the function's class id up by its address, in a table
 * without a lock, and write the edge of a span. What the address is called is looked up when the recording ends, in the module's file: here, a function
 * is `MODULE+0xOFFSET`.
 *
 * What is left out (macros for this library, or variables of the environment, which win):
 *
 *     LONGPOLE_AUTO_INCLUDE "parse*,net::*"   only these functions
 *     LONGPOLE_AUTO_EXCLUDE "get_*"           not these
 *     LONGPOLE_AUTO_DEPTH   8                 no deeper than so many recorded functions; 0: as deep as they go
 *
 * Patterns (`*` stands for any text, `?` for any letter) are held against the symbol and, in C++, against its names without arguments.
 */
#ifndef LONGPOLE_AUTO_H
#define LONGPOLE_AUTO_H

#include "longpole.h"

#if !defined(LONGPOLE_DISABLE)

#include "elf.h"

#if !defined(LONGPOLE_AUTO_INCLUDE)
#define LONGPOLE_AUTO_INCLUDE ""
#endif
#if !defined(LONGPOLE_AUTO_EXCLUDE)
#define LONGPOLE_AUTO_EXCLUDE ""
#endif
#if !defined(LONGPOLE_AUTO_DEPTH)
#define LONGPOLE_AUTO_DEPTH 0
#endif

#if defined(__cplusplus)
extern "C" {
#endif

#define LONGPOLE_AUTO_SLOTS 65536u
/* Slots looked at before a function is not recorded. */
#define LONGPOLE_AUTO_PROBES 64u
/* Instead of the id of its begin: this function is left out. No span has this overflow class. */
#define LONGPOLE_AUTO_LEFT_OUT 1u

/* A function; `ids` of its begin and, in the upper half, its end; 0: being looked up. */
struct longpole_auto_slot {
	uint64_t address, ids;
};

/* Of a library. Pages of the table that no function falls into are never touched. */
struct longpole_auto {
	struct longpole_auto_slot slots[LONGPOLE_AUTO_SLOTS];
	uint64_t depth;
	uint32_t lock;
	uint32_t stuck; /* somebody waited for the lock in vain */
	uint32_t ready;
	uint32_t spare;
	const char *include, *exclude;
	struct longpole_module module; /* of the newest function that was looked up */
};
#define LONGPOLE_AUTO_SIZE_ "1052672"
__extension__ typedef char longpole_auto_fits[sizeof(struct longpole_auto) <= 1052672 ? 1 : -1];

/* Of a thread: the depth counts since it was recorded by this recording. */
struct longpole_auto_thread {
	uint64_t session, depth;
};

/* One object per library, see process.h. */
__asm__(".ifndef longpole_auto\n"
        ".pushsection .bss.longpole_auto,\"awG\",@nobits,longpole_auto,comdat\n"
        ".weak longpole_auto\n.hidden longpole_auto\n.type longpole_auto,@object\n.size longpole_auto," LONGPOLE_AUTO_SIZE_ "\n"
        ".balign 64\nlongpole_auto:\n.zero " LONGPOLE_AUTO_SIZE_ "\n"
        ".popsection\n.endif\n"
        ".ifndef longpole_auto_thread\n"
        ".pushsection .tbss.longpole_auto_thread,\"awTG\",@nobits,longpole_auto_thread,comdat\n"
        ".weak longpole_auto_thread\n.hidden longpole_auto_thread\n.type longpole_auto_thread,@tls_object\n"
        ".size longpole_auto_thread,16\n.balign 8\nlongpole_auto_thread:\n.zero 16\n"
        ".popsection\n.endif\n");
extern struct longpole_auto longpole_auto __attribute__((visibility("hidden")));
#if defined(LONGPOLE_TLS_DYNAMIC)
extern __thread struct longpole_auto_thread longpole_auto_thread __attribute__((visibility("hidden")));
#else
extern __thread struct longpole_auto_thread longpole_auto_thread __attribute__((visibility("hidden"), tls_model("initial-exec")));
#endif

LONGPOLE_SLOW void longpole_auto_read_wishes(void)
{
	const char *include = longpole_libc_getenv("LONGPOLE_AUTO_INCLUDE");
	const char *exclude = longpole_libc_getenv("LONGPOLE_AUTO_EXCLUDE");
	const char *depth = longpole_libc_getenv("LONGPOLE_AUTO_DEPTH");
	longpole_auto.include = include != NULL ? include : LONGPOLE_AUTO_INCLUDE;
	longpole_auto.exclude = exclude != NULL ? exclude : LONGPOLE_AUTO_EXCLUDE;
	uint64_t limit = LONGPOLE_AUTO_DEPTH;
	if (depth != NULL)
		for (limit = 0; *depth >= '0' && *depth <= '9' && limit < 1000000; depth++)
			limit = limit * 10 + (uint64_t)(*depth - '0');
	longpole_auto.depth = limit;
	longpole_auto.ready = 1;
}

/* Whether a function is left out. One without a symbol has no name that could be wished for. */
LONGPOLE_SLOW int longpole_auto_is_left_out(const struct longpole_module *module, uint64_t offset)
{
	char plain[LONGPOLE_NAME_MAXIMUM + 1];
	if (longpole_auto.include[0] == 0 && longpole_auto.exclude[0] == 0)
		return 0;
	const char *symbol = longpole_symbol_at(module, offset);
	longpole_plain_name(symbol, plain, sizeof plain);
	if (longpole_auto.include[0] != 0 && !longpole_matches(longpole_auto.include, symbol) && !longpole_matches(longpole_auto.include, plain))
		return 1;
	return longpole_matches(longpole_auto.exclude, symbol) || longpole_matches(longpole_auto.exclude, plain);
}

/* `MODULE+0xOFFSET`. */
LONGPOLE_SLOW size_t longpole_auto_name(const struct longpole_module *module, uint64_t offset, char *buffer, size_t capacity)
{
	const char *base = module->path;
	for (const char *at = module->path; *at != 0; at++)
		if (*at == '/')
			base = at + 1;
	size_t length = longpole_append(buffer, capacity - 24, 0, base);
	length = longpole_append(buffer, capacity, length, "+0x");
	return longpole_append_number(buffer, capacity, length, offset, 16, 0);
}

/* The class ids of a function. The file's inode and its last change tell whoever looks for names whether it is still the same. */
LONGPOLE_SLOW uint64_t longpole_auto_classes(uint64_t address)
{
	char name[LONGPOLE_NAME_MAXIMUM + 1], attributes[96];
	struct longpole_module *module = &longpole_auto.module;
	if (!longpole_auto.ready)
		longpole_auto_read_wishes();
	if ((address < module->begin || address >= module->end) && !longpole_module_of(address, module))
		return LONGPOLE_AUTO_LEFT_OUT;
	const uint64_t offset = address - module->begin + module->offset;
	if (longpole_auto_is_left_out(module, offset))
		return LONGPOLE_AUTO_LEFT_OUT;
	size_t length = longpole_append(attributes, sizeof attributes, 0, "function=");
	length = longpole_append_number(attributes, sizeof attributes, length, offset, 16, 0);
	length = longpole_append(attributes, sizeof attributes, length, "&inode=");
	length = longpole_append_number(attributes, sizeof attributes, length, module->inode, 10, 0);
	length = longpole_append(attributes, sizeof attributes, length, "&changed=");
	length = longpole_append_number(attributes, sizeof attributes, length, module->changed, 10, 0);
	struct longpole_key key;
	key.line = 0;
	key.name = name;
	key.name_size = longpole_auto_name(module, offset, name, sizeof name);
	key.fields = "";
	key.fields_size = 0;
	key.file = module->path;
	key.file_size = longpole_length(module->path, sizeof module->path);
	key.attributes = attributes;
	key.attributes_size = length;
	key.kind = LONGPOLE_KIND_SPAN_BEGIN;
	const uint64_t begin = longpole_site_find(&key);
	key.kind = LONGPOLE_KIND_SPAN_END;
	return begin | (uint64_t)longpole_site_find(&key) << 32;
}

/* The slot of a function, with its ids if they are to be had now; 0 where not. */
LONGPOLE_SLOW uint64_t longpole_auto_find(uint64_t address, uint32_t at)
{
	struct longpole_auto_slot *slot = NULL;
	for (uint32_t probe = 0; probe < LONGPOLE_AUTO_PROBES; probe++) {
		struct longpole_auto_slot *here = &longpole_auto.slots[(at + probe) % LONGPOLE_AUTO_SLOTS];
		uint64_t other = __atomic_load_n(&here->address, __ATOMIC_RELAXED);
		if (other == 0 && __atomic_compare_exchange_n(&here->address, &other, address, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			other = address;
		if (other == address) {
			slot = here;
			break;
		}
	}
	if (slot == NULL)
		return LONGPOLE_AUTO_LEFT_OUT;
	uint64_t ids = __atomic_load_n(&slot->ids, __ATOMIC_RELAXED);
	if (ids != 0)
		return ids;
	/* A handler must not find the lock taken by the thread that it interrupted; other threads wait, but not for ever. */
	const uint64_t signals = longpole_block_signals();
	const int64_t pause[2] = {0, 50000};
	const uint32_t patience = __atomic_load_n(&longpole_auto.stuck, __ATOMIC_RELAXED) ? 0 : LONGPOLE_LOCK_TURNS;
	int locked = __atomic_exchange_n(&longpole_auto.lock, 1, __ATOMIC_ACQUIRE) == 0;
	for (uint32_t turn = 0; !locked && turn < patience; turn++) {
		longpole_call(SYS_nanosleep, (uintptr_t)pause, 0, 0, 0, 0, 0);
		locked = __atomic_exchange_n(&longpole_auto.lock, 1, __ATOMIC_ACQUIRE) == 0;
	}
	/* Its holder may be gone (this is a child that was forked meanwhile): nobody waits a second time. */
	__atomic_store_n(&longpole_auto.stuck, !locked, __ATOMIC_RELAXED);
	if (locked) {
		ids = longpole_auto_classes(address);
		__atomic_store_n(&slot->ids, ids, __ATOMIC_RELAXED);
		__atomic_store_n(&longpole_auto.lock, 0, __ATOMIC_RELEASE);
	}
	longpole_restore_signals(signals);
	return ids;
}

/* No id left for this function: its name travels with the event. */
LONGPOLE_SLOW void longpole_auto_overflow(uint64_t address, uint32_t kind)
{
	char name[LONGPOLE_NAME_MAXIMUM + 1];
	const struct longpole_module module = longpole_auto.module;
	size_t length;
	if (address >= module.begin && address < module.end) {
		length = longpole_auto_name(&module, address - module.begin + module.offset, name, sizeof name);
	} else {
		length = longpole_append(name, sizeof name, 0, "0x");
		length = longpole_append_number(name, sizeof name, length, address, 16, 0);
	}
	const struct longpole_part part = {name, (uint32_t)length, 1};
	longpole_emit_parts(kind, &part, 1, 0);
}

/* What is no plain edge of a function that has its ids. */
LONGPOLE_SLOW void longpole_auto_slow(uint64_t address, uint32_t at, uint64_t ids, int end)
{
	if (ids == 0 && (ids = longpole_auto_find(address, at)) == 0)
		return;
	if ((uint32_t)ids == LONGPOLE_AUTO_LEFT_OUT)
		return;
	if (longpole_auto.depth != 0) {
		struct longpole_auto_thread *thread = &longpole_auto_thread;
		const uint64_t session = __atomic_load_n(&longpole_page.orders.session, __ATOMIC_RELAXED);
		if (thread->session != session) {
			thread->session = session;
			thread->depth = 0;
		}
		/* The end of what began before the recording did is no end. */
		if (end && thread->depth == 0)
			return;
		const uint64_t depth = end ? thread->depth-- : ++thread->depth;
		if (depth > longpole_auto.depth)
			return;
	}
	const uint32_t id = end ? (uint32_t)(ids >> 32) : (uint32_t)ids;
	if (id >= LONGPOLE_FIRST_SITE_ID)
		longpole_emit_slow(id, NULL, 0);
	else
		longpole_auto_overflow(address, id);
}

LONGPOLE_INLINE void longpole_auto_edge(const void *function, int end)
{
	const uint64_t address = (uint64_t)(uintptr_t)function;
	const uint32_t at = (uint32_t)(address * 0x9e3779b97f4a7c15u >> 48);
	const struct longpole_auto_slot *slot = &longpole_auto.slots[at];
	const uint64_t ids = LONGPOLE_LIKELY(__atomic_load_n(&slot->address, __ATOMIC_RELAXED) == address)
	                         ? __atomic_load_n(&slot->ids, __ATOMIC_RELAXED)
	                         : 0;
	const uint32_t id = end ? (uint32_t)(ids >> 32) : (uint32_t)ids;
	if (LONGPOLE_LIKELY(id >= LONGPOLE_FIRST_SITE_ID) && LONGPOLE_LIKELY(longpole_auto.depth == 0))
		longpole_emit(id, NULL, 0);
	else
		longpole_auto_slow(address, at, ids, end);
}

#define LONGPOLE_AUTO_HOOK_ __attribute__((weak, noinline, used, no_instrument_function, visibility("hidden")))

/* By other names: g++ knows these functions without having seen them, and then refuses their visibility. */
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

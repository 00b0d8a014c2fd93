/*
 * The recorded functions of a library: a table by address, which is read without a lock once a
 * function is known, and the names of the functions. auto.h describes which functions are left out
 * by configuration, trial.h which ones are too short.
 */
#ifndef LONGPOLE_FUNCTIONS_H
#define LONGPOLE_FUNCTIONS_H

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
#if !defined(LONGPOLE_AUTO_SHORT)
#define LONGPOLE_AUTO_SHORT 100
#endif

#if defined(__cplusplus)
extern "C" {
#endif

#define LONGPOLE_AUTO_SLOTS 65536u
/* Number of slots that are tried before a function is not recorded. */
#define LONGPOLE_AUTO_PROBES 64u
/*
 * Stored instead of the id of its start if a function is left out. No span has this overflow class.
 */
#define LONGPOLE_AUTO_LEFT_OUT 1u
/*
 * Stored instead of both ids if a function is left out because it is short, not by configuration.
 */
#define LONGPOLE_AUTO_IS_SHORT ((uint64_t)LONGPOLE_AUTO_LEFT_OUT << 32 | LONGPOLE_AUTO_LEFT_OUT)

/* A function. The fields after `ids` are accessed only while it is on trial. */
struct longpole_auto_slot {
	uint64_t address;
	/* id of its start and, in the upper half, of its end; 0: being looked up, or on trial */
	uint64_t ids;
	uint32_t known;    /* the same in 16 bits each; 0: being looked up */
	/* cycles of the calls of this window, or of the last window once it is left out */
	uint32_t cycles;
	uint16_t calls;    /* number of calls in this window */
	uint8_t windows;   /* number of windows that were long */
	/* the recording in which it was announced that the function is left out, see
	 * longpole_auto_sign */
	uint8_t announced;
	uint32_t since;    /* counter at the start of the window, in units of 1024 */
};

/* The state of a library. Pages of the table that no function uses are never touched. */
struct longpole_auto {
	struct longpole_auto_slot slots[LONGPOLE_AUTO_SLOTS];
	uint64_t depth;
	uint32_t lock;
	uint32_t stuck; /* 1 after a thread waited for the lock in vain */
	uint32_t ready;
	uint32_t key;  /* key of the destructor for threads, see key.h */
	uint64_t shortest; /* calls that take less than this time in ns are short; 0: none is */
	uint64_t short_window; /* cycles of a window of such calls; 0: not known yet */
	uint64_t begin_counter, begin_ns;
	const char *include, *exclude;
	struct longpole_frames *frames; /* lists of open calls of all threads */
	struct longpole_module module; /* module of the function that was looked up last */
};
#define LONGPOLE_AUTO_SIZE_ "2101248"
__extension__ typedef char longpole_auto_fits[sizeof(struct longpole_auto) <= 2101248 ? 1 : -1];
__extension__ typedef char longpole_auto_slot_fits[sizeof(struct longpole_auto_slot) == 32 ? 1 : -1];

/* One object per library, see process.h. */
__asm__(".ifndef longpole_auto\n"
        ".pushsection .bss.longpole_auto,\"awG\",@nobits,longpole_auto,comdat\n"
        ".weak longpole_auto\n.hidden longpole_auto\n.type longpole_auto,@object\n.size longpole_auto," LONGPOLE_AUTO_SIZE_ "\n"
        ".balign 64\nlongpole_auto:\n.zero " LONGPOLE_AUTO_SIZE_ "\n"
        ".popsection\n.endif\n");
extern struct longpole_auto longpole_auto __attribute__((visibility("hidden")));

LONGPOLE_SLOW uint64_t longpole_auto_number(const char *variable, uint64_t otherwise)
{
	const char *text = longpole_libc_getenv(variable);
	uint64_t number = 0;
	if (text == NULL)
		return otherwise;
	for (; *text >= '0' && *text <= '9' && number < 1000000; text++)
		number = number * 10 + (uint64_t)(*text - '0');
	return number;
}

/* Reads both clocks at the same time: takes the closest of some attempts, because the thread may
 * lose its CPU between two readings. */
LONGPOLE_SLOW void longpole_auto_now(uint64_t *ns, uint64_t *counter)
{
	uint64_t closest = ~(uint64_t)0;
	for (int i = 0; i < 4; i++) {
		const uint64_t before = longpole_counter(), between = longpole_mono_raw(), apart = longpole_counter() - before;
		if (apart < closest) {
			closest = apart;
			*ns = between;
			*counter = before;
		}
	}
}

LONGPOLE_SLOW void longpole_auto_read_requests(void)
{
	const char *include = longpole_libc_getenv("LONGPOLE_AUTO_INCLUDE");
	const char *exclude = longpole_libc_getenv("LONGPOLE_AUTO_EXCLUDE");
	longpole_auto.include = include != NULL ? include : LONGPOLE_AUTO_INCLUDE;
	longpole_auto.exclude = exclude != NULL ? exclude : LONGPOLE_AUTO_EXCLUDE;
	longpole_auto.depth = longpole_auto_number("LONGPOLE_AUTO_DEPTH", LONGPOLE_AUTO_DEPTH);
	/* If the functions are listed by name, the user wants all of these, also short ones. */
	longpole_auto.shortest = longpole_auto_number("LONGPOLE_AUTO_SHORT", longpole_auto.include[0] != 0 ? 0 : LONGPOLE_AUTO_SHORT);
	longpole_auto_now(&longpole_auto.begin_ns, &longpole_auto.begin_counter);
	longpole_auto.ready = 1;
}

/* Returns 1 if a function is left out by configuration. A function without a symbol has no name
 * that could match. */
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

/* Writes the name `MODULE+0xOFFSET`. */
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

/* Finds the module of an address; returns 0 if it is unknown. The lock must be held. */
LONGPOLE_SLOW int longpole_auto_module(uint64_t address)
{
	struct longpole_module *module = &longpole_auto.module;
	return (address >= module->begin && address < module->end) || longpole_module_of(address, module);
}

/* The class of a function. The inode and the modification time of the file show a tool that looks
 * up names later if the file is still the same. */
LONGPOLE_SLOW uint32_t longpole_auto_class(uint64_t offset, uint32_t kind, const char *fields)
{
	char name[LONGPOLE_NAME_MAXIMUM + 1], attributes[96];
	const struct longpole_module *module = &longpole_auto.module;
	size_t length = longpole_append(attributes, sizeof attributes, 0, "function=");
	length = longpole_append_number(attributes, sizeof attributes, length, offset, 16, 0);
	length = longpole_append(attributes, sizeof attributes, length, "&inode=");
	length = longpole_append_number(attributes, sizeof attributes, length, module->inode, 10, 0);
	length = longpole_append(attributes, sizeof attributes, length, "&changed=");
	length = longpole_append_number(attributes, sizeof attributes, length, module->changed, 10, 0);
	struct longpole_key key;
	key.kind = kind;
	key.line = 0;
	key.name = name;
	key.name_size = longpole_auto_name(module, offset, name, sizeof name);
	key.fields = fields;
	key.fields_size = longpole_length(fields, LONGPOLE_FIELDS_MAXIMUM);
	key.file = module->path;
	key.file_size = longpole_length(module->path, sizeof module->path);
	key.attributes = attributes;
	key.attributes_size = length;
	return longpole_site_find(&key);
}

/* Looks up a function for the first time. The lock must be held. */
LONGPOLE_SLOW void longpole_auto_look_up(struct longpole_auto_slot *slot)
{
	const struct longpole_module *module = &longpole_auto.module;
	if (!longpole_auto.ready)
		longpole_auto_read_requests();
	const int found = longpole_auto_module(slot->address);
	const uint64_t offset = slot->address - module->begin + module->offset;
	if (!found || longpole_auto_is_left_out(module, offset)) {
		__atomic_store_n(&slot->known, LONGPOLE_AUTO_LEFT_OUT, __ATOMIC_RELAXED);
		__atomic_store_n(&slot->ids, LONGPOLE_AUTO_LEFT_OUT, __ATOMIC_RELAXED);
		return;
	}
	const uint64_t begin = longpole_auto_class(offset, LONGPOLE_KIND_SPAN_BEGIN, "");
	const uint64_t end = longpole_auto_class(offset, LONGPOLE_KIND_SPAN_END, "");
	__atomic_store_n(&slot->known, (uint32_t)(begin | end << 16), __ATOMIC_RELEASE);
	if (longpole_auto.shortest == 0)
		__atomic_store_n(&slot->ids, begin | end << 32, __ATOMIC_RELAXED);
}

LONGPOLE_SLOW int longpole_auto_lock(uint32_t patience)
{
	const int64_t pause[2] = {0, 50000};
	int locked = __atomic_exchange_n(&longpole_auto.lock, 1, __ATOMIC_ACQUIRE) == 0;
	for (uint32_t turn = 0; !locked && turn < patience; turn++) {
		longpole_call(SYS_nanosleep, (uintptr_t)pause, 0, 0, 0, 0, 0);
		locked = __atomic_exchange_n(&longpole_auto.lock, 1, __ATOMIC_ACQUIRE) == 0;
	}
	return locked;
}

LONGPOLE_SLOW void longpole_auto_unlock(void)
{
	__atomic_store_n(&longpole_auto.lock, 0, __ATOMIC_RELEASE);
}

/* The slot of a function, which is looked up if it is new; NULL if the function cannot be recorded
 * now, or at all. */
LONGPOLE_SLOW struct longpole_auto_slot *longpole_auto_find(uint64_t address, uint32_t at)
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
	if (slot == NULL || __atomic_load_n(&slot->known, __ATOMIC_ACQUIRE) != 0)
		return slot;
	/* Signals are blocked, because a handler would wait forever for a lock that the interrupted
	 * thread holds. Other threads wait for a bounded time. */
	const uint64_t signals = longpole_block_signals();
	const int locked = longpole_auto_lock(__atomic_load_n(&longpole_auto.stuck, __ATOMIC_RELAXED) ? 0 : LONGPOLE_LOCK_TURNS);
	/* The holder may not exist (this may be a child that was forked meanwhile), so no thread waits
	 * a second time. */
	__atomic_store_n(&longpole_auto.stuck, !locked, __ATOMIC_RELAXED);
	if (locked) {
		if (slot->known == 0)
			longpole_auto_look_up(slot);
		longpole_auto_unlock();
	}
	longpole_restore_signals(signals);
	return locked ? slot : NULL;
}

/* Records an edge of a function for which there is no class id: the event includes its name. */
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

/* Records one edge of a function, with a class id or without. */
LONGPOLE_SLOW void longpole_auto_write(uint64_t address, uint32_t id)
{
	if (id >= LONGPOLE_FIRST_SITE_ID)
		longpole_emit_slow(id, NULL, 0);
	else
		longpole_auto_overflow(address, id);
}

#if defined(__cplusplus)
}
#endif

#endif

#endif

/*
 * The functions of a library that are recorded: a table by address, without a lock for who knows the function, and what each is called.
 * See auto.h for what is left out by wish, and trial.h for what is too short.
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
/* Slots looked at before a function is not recorded. */
#define LONGPOLE_AUTO_PROBES 64u
/* Instead of the id of its begin: this function is left out. No span has this overflow class. */
#define LONGPOLE_AUTO_LEFT_OUT 1u
/* Instead of both: not by wish, but because it is short. */
#define LONGPOLE_AUTO_IS_SHORT ((uint64_t)LONGPOLE_AUTO_LEFT_OUT << 32 | LONGPOLE_AUTO_LEFT_OUT)

/* A function. What follows its ids is touched while it is on trial only. */
struct longpole_auto_slot {
	uint64_t address;
	uint64_t ids;      /* of its begin and, in the upper half, its end; 0: being looked up, or on trial */
	uint32_t known;    /* the same in 16 bits each; 0: being looked up */
	uint32_t cycles;   /* of the calls of this window; of the last one, once it is left out */
	uint16_t calls;    /* in this window */
	uint8_t windows;   /* that found it long */
	uint8_t announced; /* recordings that were told that it is left out, as longpole_auto_sign has it */
	uint32_t since;    /* the counter, in units of 1024, at the window's begin */
};

/* Of a library. Pages of the table that no function falls into are never touched. */
struct longpole_auto {
	struct longpole_auto_slot slots[LONGPOLE_AUTO_SLOTS];
	uint64_t depth;
	uint32_t lock;
	uint32_t stuck; /* somebody waited for the lock in vain */
	uint32_t ready;
	uint32_t key;  /* of what a thread leaves behind, see key.h */
	uint64_t shortest; /* calls of less ns are short; 0: none is */
	uint64_t short_window; /* a window of these; 0: not known yet */
	uint64_t begin_counter, begin_ns;
	const char *include, *exclude;
	struct longpole_frames *frames; /* of all threads */
	struct longpole_module module; /* of the newest function that was looked up */
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

/* Both clocks at one moment: of some tries the closest, for between two readings a thread may be away. */
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

LONGPOLE_SLOW void longpole_auto_read_wishes(void)
{
	const char *include = longpole_libc_getenv("LONGPOLE_AUTO_INCLUDE");
	const char *exclude = longpole_libc_getenv("LONGPOLE_AUTO_EXCLUDE");
	longpole_auto.include = include != NULL ? include : LONGPOLE_AUTO_INCLUDE;
	longpole_auto.exclude = exclude != NULL ? exclude : LONGPOLE_AUTO_EXCLUDE;
	longpole_auto.depth = longpole_auto_number("LONGPOLE_AUTO_DEPTH", LONGPOLE_AUTO_DEPTH);
	/* Who names the functions wants these. */
	longpole_auto.shortest = longpole_auto_number("LONGPOLE_AUTO_SHORT", longpole_auto.include[0] != 0 ? 0 : LONGPOLE_AUTO_SHORT);
	longpole_auto_now(&longpole_auto.begin_ns, &longpole_auto.begin_counter);
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

/* The module of an address; 0: nobody knows. With the lock. */
LONGPOLE_SLOW int longpole_auto_module(uint64_t address)
{
	struct longpole_module *module = &longpole_auto.module;
	return (address >= module->begin && address < module->end) || longpole_module_of(address, module);
}

/* The class of a function. The file's inode and its last change tell whoever looks for names whether it is still the same. */
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

/* The ids of a function that is looked up for the first time. With the lock. */
LONGPOLE_SLOW void longpole_auto_look_up(struct longpole_auto_slot *slot)
{
	const struct longpole_module *module = &longpole_auto.module;
	if (!longpole_auto.ready)
		longpole_auto_read_wishes();
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

/* The slot of a function that is known; NULL: not now, or never. */
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
	/* A handler must not find the lock taken by the thread that it interrupted; other threads wait, but not for ever. */
	const uint64_t signals = longpole_block_signals();
	const int locked = longpole_auto_lock(__atomic_load_n(&longpole_auto.stuck, __ATOMIC_RELAXED) ? 0 : LONGPOLE_LOCK_TURNS);
	/* Its holder may be gone (this is a child that was forked meanwhile): nobody waits a second time. */
	__atomic_store_n(&longpole_auto.stuck, !locked, __ATOMIC_RELAXED);
	if (locked) {
		if (slot->known == 0)
			longpole_auto_look_up(slot);
		longpole_auto_unlock();
	}
	longpole_restore_signals(signals);
	return locked ? slot : NULL;
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

/* One edge of a function, whatever its class. */
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

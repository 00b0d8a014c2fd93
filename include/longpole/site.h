/*
 * Event classes. A call site requests its class id once and caches it. Equal sites of all programs
 * of a user have equal ids, so that one description is valid for all streams of a recording.
 */
#ifndef LONGPOLE_SITE_H
#define LONGPOLE_SITE_H

#include "process.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* The properties that identify a site. Texts do not have to end with NUL. */
struct longpole_key {
	uint32_t kind, line;
	const char *name, *fields, *file, *attributes;
	size_t name_size, fields_size, file_size, attributes_size;
};

LONGPOLE_INLINE uint32_t longpole_hash(uint32_t hash, const void *bytes, size_t size)
{
	const uint8_t *at = (const uint8_t *)bytes;
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ at[i]) * 0x01000193u;
	return hash;
}

LONGPOLE_SLOW int longpole_site_equal(const struct longpole_site *site, uint32_t hash, const struct longpole_key *key)
{
	if (site->hash != hash || site->kind != key->kind || site->line != key->line || site->name_size != key->name_size ||
	    site->fields_size != key->fields_size || site->file_size != key->file_size || site->attributes_size != key->attributes_size)
		return 0;
	const char *text = (const char *)(site + 1);
	if (__builtin_memcmp(text, key->name, key->name_size) != 0)
		return 0;
	text += key->name_size;
	if (__builtin_memcmp(text, key->fields, key->fields_size) != 0)
		return 0;
	text += key->fields_size;
	if (__builtin_memcmp(text, key->file, key->file_size) != 0)
		return 0;
	text += key->file_size;
	return __builtin_memcmp(text, key->attributes, key->attributes_size) == 0;
}

/* Allocates `size` bytes of the arena; returns their offset, or 0 if there is no memory. */
LONGPOLE_SLOW uint64_t longpole_arena_take(struct longpole_process *process, uint32_t size)
{
	struct longpole_sites *sites = process->sites;
	uint64_t offset = __atomic_fetch_add(&sites->arena_next, size, __ATOMIC_RELAXED);
	uint64_t backed = __atomic_load_n(&sites->arena_size, __ATOMIC_ACQUIRE);
	while (offset + size > backed) {
		if (offset + size > LONGPOLE_SITE_ARENA_MAXIMUM)
			return 0;
		/* Signals are blocked, so that a handler that exits by a jump cannot leak an open file. */
		const uint64_t signals = longpole_block_signals();
		long directory = longpole_open_directory(process->directory);
		long file = directory < 0 ? directory : longpole_open_writable((int)directory, "sites");
		long result = file;
		if (file >= 0) {
			result = longpole_call(SYS_fallocate, (uintptr_t)file, 0, 0, sizeof *sites + backed + LONGPOLE_SITE_ARENA_STEP, 0, 0);
			longpole_close((int)file);
		}
		if (directory >= 0)
			longpole_close((int)directory);
		longpole_restore_signals(signals);
		if (result < 0)
			return 0;
		/* A thread that loses this race has extended the file as well, so the file is at least as
		 * large as the winner states. */
		if (__atomic_compare_exchange_n(&sites->arena_size, &backed, backed + LONGPOLE_SITE_ARENA_STEP, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			backed += LONGPOLE_SITE_ARENA_STEP;
	}
	return offset;
}

/*
 * The class id of a site, or its kind (the overflow class) if there is no room for another class.
 */
LONGPOLE_SLOW uint32_t longpole_site_find(struct longpole_key *key)
{
	struct longpole_process *process = longpole_own_process();
	if (process == NULL || process->sites == NULL)
		return key->kind;
	struct longpole_sites *sites = process->sites;
	if (key->name_size > LONGPOLE_NAME_MAXIMUM)
		key->name_size = LONGPOLE_NAME_MAXIMUM;
	if (key->file_size > LONGPOLE_NAME_MAXIMUM) {
		/* The end of a path is more useful than its start. */
		key->file += key->file_size - LONGPOLE_NAME_MAXIMUM;
		key->file_size = LONGPOLE_NAME_MAXIMUM;
	}
	if (key->fields_size > LONGPOLE_FIELDS_MAXIMUM || key->attributes_size > LONGPOLE_NAME_MAXIMUM)
		return key->kind;

	uint32_t hash = longpole_hash(0x811c9dc5u, &key->kind, sizeof key->kind + sizeof key->line);
	hash = longpole_hash(hash, key->name, key->name_size);
	hash = longpole_hash(hash, key->fields, key->fields_size);
	hash = longpole_hash(hash, key->file, key->file_size);
	hash = longpole_hash(hash, key->attributes, key->attributes_size);

	const uint32_t room = LONGPOLE_SITE_SLOTS - LONGPOLE_FIRST_SITE_ID;
	uint64_t made = 0;
	for (uint32_t probe = 0; probe < LONGPOLE_SITE_ATTEMPTS; probe++) {
		const uint32_t id = LONGPOLE_FIRST_SITE_ID + (hash + probe) % room;
		uint32_t slot = __atomic_load_n(&sites->slots[id], __ATOMIC_ACQUIRE);
		if (slot == 0) {
			if (made == 0) {
				const size_t texts = key->name_size + key->fields_size + key->file_size + key->attributes_size;
				const uint32_t size = (uint32_t)((sizeof(struct longpole_site) + texts + 7) & ~(size_t)7);
				made = longpole_arena_take(process, size);
				if (made == 0)
					return key->kind;
				struct longpole_site *site = (struct longpole_site *)((char *)(sites + 1) + made);
				site->size = size;
				site->kind = (uint16_t)key->kind;
				site->name_size = (uint16_t)key->name_size;
				site->fields_size = (uint16_t)key->fields_size;
				site->file_size = (uint16_t)key->file_size;
				site->attributes_size = (uint16_t)key->attributes_size;
				site->reserved = 0;
				site->line = key->line;
				site->hash = hash;
				char *text = (char *)(site + 1);
				longpole_copy(text, key->name, key->name_size);
				longpole_copy(text += key->name_size, key->fields, key->fields_size);
				longpole_copy(text += key->fields_size, key->file, key->file_size);
				longpole_copy(text + key->file_size, key->attributes, key->attributes_size);
			}
			if (__atomic_compare_exchange_n(&sites->slots[id], &slot, (uint32_t)(made / 8), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
				__atomic_fetch_add(&sites->used, 1, __ATOMIC_RELEASE);
				return id;
			}
		}
		/* Another process wrote this slot. It is compared only if the entry, with texts of up to
		 * 2048 bytes, lies within the memory that exists. */
		const uint64_t offset = (uint64_t)slot * 8;
		if (offset + sizeof(struct longpole_site) + 2048 <= __atomic_load_n(&sites->arena_size, __ATOMIC_ACQUIRE) ||
		    offset < __atomic_load_n(&sites->arena_next, __ATOMIC_ACQUIRE)) {
			if (longpole_site_equal((const struct longpole_site *)((const char *)(sites + 1) + offset), hash, key))
				return id;
		}
	}
	return key->kind;
}

#if defined(__cplusplus)
}
#endif

#endif

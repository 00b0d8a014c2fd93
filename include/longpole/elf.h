/*
 * Finds the file to which an address belongs, and the symbol of the address, from the kernel's list
 * of mappings and the file itself. It does not use the C library, because the functions of the
 * dynamic linker need its lock. This is rare; the caller ensures that only one thread at a time is
 * here.
 */
#ifndef LONGPOLE_ELF_H
#define LONGPOLE_ELF_H

#include "name.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* A part of a file that is mapped. */
struct longpole_module {
	uint64_t begin, end, offset;
	uint64_t inode;
	uint64_t changed; /* modification time of the file in ns; 0: the path now leads to another file */
	/* content of the file while symbols are looked up; NULL: not mapped yet, or not available */
	const char *image;
	uint64_t image_size;
	uint32_t looked;
	uint32_t spare;
	char path[256];
};

LONGPOLE_SLOW uint64_t longpole_read_number(const char **text, unsigned base)
{
	uint64_t number = 0;
	for (;; (*text)++) {
		const char c = **text;
		const unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0') : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 16;
		if (digit >= base)
			return number;
		number = number * base + digit;
	}
}

/* Parses a line of /proc/self/maps: `begin-end perms offset major:minor inode path`. */
LONGPOLE_SLOW int longpole_read_mapping(const char *line, uint64_t address, struct longpole_module *module)
{
	const uint64_t begin = longpole_read_number(&line, 16);
	line += *line == '-';
	const uint64_t end = longpole_read_number(&line, 16);
	if (address < begin || address >= end)
		return 0;
	module->begin = begin;
	module->end = end;
	for (int words = 0; words < 2; line++)
		if (*line == ' ')
			words++;
		else if (*line == 0)
			return 1;
	module->offset = longpole_read_number(&line, 16);
	for (int words = 0; words < 2 && *line != 0; line++)
		words += *line == ' ';
	module->inode = longpole_read_number(&line, 10);
	while (*line == ' ')
		line++;
	longpole_append(module->path, sizeof module->path, 0, line);
	return 1;
}

LONGPOLE_SLOW long longpole_open_module(const struct longpole_module *module, struct longpole_stat *stat)
{
	if (module->path[0] != '/')
		return -2;
	const long file = longpole_open((int)LONGPOLE_AT_FDCWD, module->path, LONGPOLE_O_RDONLY | 04000 /* O_NONBLOCK */, 0);
	if (file >= 0 && (longpole_stat_of((int)file, stat) < 0 || (stat->mode & 0170000) != 0100000 || stat->inode != module->inode)) {
		longpole_close((int)file);
		return -2;
	}
	return file;
}

/* Finds the mapping that contains an address; returns 0 if there is none. */
LONGPOLE_SLOW int longpole_module_of(uint64_t address, struct longpole_module *module)
{
	char buffer[4096];
	size_t held = 0;
	int found = 0;
	struct longpole_stat stat;
	if (module->image != NULL)
		longpole_unmap((void *)(uintptr_t)module->image, module->image_size);
	__builtin_memset(module, 0, sizeof *module);
	long file = longpole_open((int)LONGPOLE_AT_FDCWD, "/proc/self/maps", LONGPOLE_O_RDONLY, 0);
	if (file < 0)
		return 0;
	while (!found) {
		const long got = longpole_call(SYS_read, (uintptr_t)file, (uintptr_t)(buffer + held), sizeof buffer - 1 - held, 0, 0, 0);
		if (got <= 0)
			break;
		held += (size_t)got;
		buffer[held] = 0;
		size_t begin = 0;
		for (size_t at = 0; at < held && !found; at++)
			if (buffer[at] == '\n') {
				buffer[at] = 0;
				found = longpole_read_mapping(buffer + begin, address, module);
				begin = at + 1;
			}
		/* A line that is longer than the buffer does not name one of our files. */
		if (begin == 0 && held == sizeof buffer - 1)
			begin = held;
		__builtin_memmove(buffer, buffer + begin, held - begin);
		held -= begin;
	}
	longpole_close((int)file);
	file = found ? longpole_open_module(module, &stat) : -1;
	if (file >= 0) {
		int64_t seconds;
		uint32_t rest;
		/* stx_mtime */
		__builtin_memcpy(&seconds, stat.rest + 64, 8);
		__builtin_memcpy(&rest, stat.rest + 72, 4);
		module->changed = (uint64_t)seconds * 1000000000u + rest;
		longpole_close((int)file);
	}
	return found;
}

LONGPOLE_INLINE uint64_t longpole_image_word(const struct longpole_module *module, uint64_t at, unsigned size)
{
	uint64_t word = 0;
	if (at <= module->image_size && module->image_size - at >= size)
		__builtin_memcpy(&word, module->image + at, size);
	return word;
}

/* The symbol whose code is at this offset of the file; empty if it is unknown. The text is valid
 * until the next module is looked up. */
LONGPOLE_SLOW const char *longpole_symbol_at(const struct longpole_module *known, uint64_t offset)
{
	/* Casts away const: the cached fields do not belong to the identity of the module. */
	struct longpole_module *module = (struct longpole_module *)(uintptr_t)known;
	struct longpole_stat stat;
	if (!module->looked) {
		module->looked = 1;
		const long file = longpole_open_module(module, &stat);
		if (file >= 0) {
			const long image = longpole_call(SYS_mmap, 0, stat.size, 1 /* PROT_READ */, 2 /* MAP_PRIVATE */, (uintptr_t)file, 0);
			if (image > 0 || image < -4095) {
				module->image = (const char *)image;
				module->image_size = stat.size;
			}
			longpole_close((int)file);
		}
	}
	if (module->image == NULL || longpole_image_word(module, 0, 4) != 0x464c457fu || longpole_image_word(module, 4, 1) != 2)
		return "";
	/* Symbols have addresses, so the offset is converted by the segment that contains it. */
	const uint64_t segments = longpole_image_word(module, 32, 8), segment_count = longpole_image_word(module, 56, 2);
	uint64_t address = offset;
	for (uint64_t i = 0; i < segment_count; i++) {
		const uint64_t at = segments + i * 56, from = longpole_image_word(module, at + 8, 8);
		if (longpole_image_word(module, at, 4) == 1 && offset >= from && offset - from < longpole_image_word(module, at + 32, 8))
			address = offset - from + longpole_image_word(module, at + 16, 8);
	}
	const uint64_t sections = longpole_image_word(module, 40, 8), section_count = longpole_image_word(module, 60, 2);
	/* First the full symbol table (type 2), then that of the dynamic linker (type 11). */
	for (uint32_t type = 2; type <= 11; type += 9)
		for (uint64_t i = 0; i < section_count; i++) {
			const uint64_t at = sections + i * 64;
			if (longpole_image_word(module, at + 4, 4) != type)
				continue;
			const uint64_t begin = longpole_image_word(module, at + 24, 8), size = longpole_image_word(module, at + 32, 8);
			const uint64_t texts = sections + longpole_image_word(module, at + 40, 4) * 64;
			const uint64_t text = longpole_image_word(module, texts + 24, 8), text_size = longpole_image_word(module, texts + 32, 8);
			if (begin > module->image_size || size > module->image_size - begin || text > module->image_size ||
			    text_size > module->image_size - text || text_size == 0 || module->image[text + text_size - 1] != 0)
				continue;
			for (uint64_t symbol = begin; symbol + 24 <= begin + size; symbol += 24) {
				const uint64_t name = longpole_image_word(module, symbol, 4);
				if (longpole_image_word(module, symbol + 8, 8) == address && (longpole_image_word(module, symbol + 4, 1) & 15) == 2 && name < text_size)
					return module->image + text + name;
			}
		}
	return "";
}

/* Converts a C++ symbol (`_ZN1a1bEv`) to a name without arguments (`a::b`). A symbol that is not a
 * plain name stays as it is. */
LONGPOLE_SLOW void longpole_plain_name(const char *symbol, char *buffer, size_t capacity)
{
	size_t length = 0;
	const char *at = symbol;
	buffer[0] = 0;
	if (at[0] == '_' && at[1] == 'Z') {
		at += 2;
		at += *at == 'L';
		at += *at == 'N';
		while (*at == 'K' || *at == 'V' || *at == 'L')
			at++;
		while (*at >= '1' && *at <= '9') {
			uint64_t size = longpole_read_number(&at, 10);
			if (length != 0)
				length = longpole_append(buffer, capacity, length, "::");
			for (; size != 0 && *at != 0; size--, at++) {
				const char letter[2] = {*at, 0};
				length = longpole_append(buffer, capacity, length, letter);
			}
			at += *at == 'L';
		}
	}
	if (length == 0)
		longpole_append(buffer, capacity, 0, symbol);
}

/* Returns 1 if a text matches one of the patterns, which are separated by commas. */
LONGPOLE_SLOW int longpole_matches(const char *patterns, const char *text)
{
	if (text[0] == 0)
		return 0;
	while (*patterns != 0) {
		const char *pattern = patterns, *at = text, *star = NULL, *mark = text;
		for (;;) {
			const int over = *pattern == 0 || *pattern == ',';
			if (*at == 0 && over)
				return 1;
			if (!over && *pattern == '*') {
				star = ++pattern;
				mark = at;
			} else if (*at != 0 && !over && (*pattern == '?' || *pattern == *at)) {
				pattern++;
				at++;
			} else if (star != NULL && *mark != 0) {
				pattern = star;
				at = ++mark;
			} else {
				break;
			}
		}
		while (*patterns != 0 && *patterns != ',')
			patterns++;
		patterns += *patterns == ',';
	}
	return 0;
}

#if defined(__cplusplus)
}
#endif

#endif

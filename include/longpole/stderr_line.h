/* Lines that a program prints without a recorder: the label of the program, numbers in a readable
 * form, and one write per text. */
#ifndef LONGPOLE_STDERR_LINE_H
#define LONGPOLE_STDERR_LINE_H

#include "process.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* Appends the label of the program: the one that was set, else that of the environment, else the
 * name of the executable. */
LONGPOLE_SLOW size_t longpole_append_label(char *buffer, size_t capacity, size_t length)
{
	char path[256];
	const char *label = NULL;
	if (longpole_page.magic == LONGPOLE_ABI_MAGIC && longpole_page.label[0] != 0)
		label = longpole_page.label;
	if (label == NULL)
		label = longpole_libc_getenv("LONGPOLE_LABEL");
	if (label == NULL || label[0] == 0) {
		const long size = longpole_call(SYS_readlinkat, LONGPOLE_AT_FDCWD, (uintptr_t)"/proc/self/exe", (uintptr_t)path, sizeof path - 1, 0, 0);
		path[size > 0 ? size : 0] = 0;
		label = path;
		for (const char *at = path; *at != 0; at++)
			if (*at == '/')
				label = at + 1;
	}
	return longpole_append(buffer, capacity, length, label);
}

/* Appends a number of cycles. A number above 100 of a unit (K, M, G) is shown in that unit,
 * truncated. */
LONGPOLE_SLOW size_t longpole_append_cycles(char *buffer, size_t capacity, size_t length, uint64_t cycles)
{
	const uint64_t thousand = 1000;
	const char *unit = "";
	if (cycles > 100 * thousand * thousand * thousand) {
		cycles /= thousand * thousand * thousand;
		unit = "G";
	} else if (cycles > 100 * thousand * thousand) {
		cycles /= thousand * thousand;
		unit = "M";
	} else if (cycles > 100 * thousand) {
		cycles /= thousand;
		unit = "K";
	}
	return longpole_append(buffer, capacity, longpole_append_number(buffer, capacity, length, cycles, 10, 0), unit);
}

/* Appends a number with one decimal, which is the useful precision of cycles. */
LONGPOLE_SLOW size_t longpole_append_decimal(char *buffer, size_t capacity, size_t length, double value)
{
	const uint64_t tenths = value > 0 ? (uint64_t)(value * 10 + 0.5) : 0;
	length = longpole_append_number(buffer, capacity, length, tenths / 10, 10, 0);
	length = longpole_append(buffer, capacity, length, ".");
	return longpole_append_number(buffer, capacity, length, tenths % 10, 10, 0);
}

/* Right-aligns the text from `begin` on to a width of `width` characters. */
LONGPOLE_SLOW size_t longpole_align_right(char *buffer, size_t capacity, size_t begin, size_t length, size_t width)
{
	const size_t size = length - begin;
	if (size >= width || begin + width + 1 > capacity)
		return length;
	for (size_t i = 0; i <= size; i++)
		buffer[begin + width - i] = buffer[length - i];
	for (size_t i = begin; i < begin + width - size; i++)
		buffer[i] = ' ';
	return begin + width;
}

/* Writes to stderr in one system call, so that the lines of several threads are not mixed. */
LONGPOLE_SLOW void longpole_write_stderr(const char *text, size_t size)
{
	longpole_call(SYS_write, 2, (uintptr_t)text, size, 0, 0, 0);
}

#if defined(__cplusplus)
}
#endif

#endif

/* What the probes need of C11: the kind of a name and of a value is chosen by _Generic. */
#ifndef LONGPOLE_C_H
#define LONGPOLE_C_H

#include "name.h"

LONGPOLE_INLINE struct longpole_ref longpole_ref_of_text(const void *text, size_t size, int literal)
{
	const struct longpole_ref ref = {(const char *)text, size, NULL, literal};
	return ref;
}

LONGPOLE_INLINE struct longpole_ref longpole_ref_of_name(const void *name, size_t size, int literal)
{
	/* The handle's class ids are written, so it is no constant whatever the pointer says. */
	const struct longpole_ref ref = {NULL, size, (struct longpole_name *)(uintptr_t)name, literal & 0};
	return ref;
}

LONGPOLE_INLINE uint64_t longpole_word_of_double(double value)
{
	uint64_t word;
	__builtin_memcpy(&word, &value, 8);
	return word;
}

LONGPOLE_INLINE uint64_t longpole_word_of_integer(uint64_t value)
{
	return value;
}

LONGPOLE_INLINE uint64_t longpole_word_of_pointer(const volatile void *value)
{
	return (uint64_t)(uintptr_t)value;
}

/* The spelling tells a literal. Any other text travels with the event. */
#define LONGPOLE_REF_(name)                                                                                              \
	_Generic((name), struct longpole_name *: longpole_ref_of_name, default: longpole_ref_of_text)(                       \
	    (name), #name[0] == '"' ? sizeof(name) - 1 : LONGPOLE_NAME_MAXIMUM, #name[0] == '"')
#define LONGPOLE_LITERAL_(text) longpole_ref_of_text("" text, sizeof(text) - 1, 1)
#define LONGPOLE_FUNCTION_ longpole_ref_of_text(__func__, sizeof(__func__) - 1, 1)
#define LONGPOLE_TEXT_REF_(text) longpole_ref_of_text((text), LONGPOLE_EVENT_MAXIMUM, 0)

#define LONGPOLE_WORD_(value)                                                                                            \
	_Generic((value), char: longpole_word_of_integer, signed char: longpole_word_of_integer,                             \
	         unsigned char: longpole_word_of_integer, short: longpole_word_of_integer,                                   \
	         unsigned short: longpole_word_of_integer, int: longpole_word_of_integer, unsigned: longpole_word_of_integer,\
	         long: longpole_word_of_integer, unsigned long: longpole_word_of_integer,                                    \
	         long long: longpole_word_of_integer, unsigned long long: longpole_word_of_integer,                          \
	         _Bool: longpole_word_of_integer, float: longpole_word_of_double, double: longpole_word_of_double,           \
	         default: longpole_word_of_pointer)(value)

#define LONGPOLE_COUNTER_CALL_(ref, value)                                                                               \
	longpole_probe1(longpole_where_, ref, LONGPOLE_KIND_COUNTER, _Generic((value), float: 1u, double: 1u, default: 0u),  \
	                _Generic((value), float: "d:value", double: "d:value", default: "i:value"), LONGPOLE_WORD_(value))

#define LONGPOLE_GUARD_ __attribute__((cleanup(longpole_span_close), unused))
#define LONGPOLE_DISARM_(span)

LONGPOLE_INLINE struct longpole_field longpole_field_signed(const char *name, int64_t value)
{
	const struct longpole_field field = {name, (uint64_t)value, NULL, 0, 'i'};
	return field;
}

LONGPOLE_INLINE struct longpole_field longpole_field_unsigned(const char *name, uint64_t value)
{
	const struct longpole_field field = {name, value, NULL, 0, 'u'};
	return field;
}

LONGPOLE_INLINE struct longpole_field longpole_field_double(const char *name, double value)
{
	const struct longpole_field field = {name, longpole_word_of_double(value), NULL, 0, 'd'};
	return field;
}

LONGPOLE_INLINE struct longpole_field longpole_field_text(const char *name, const char *value)
{
	const struct longpole_field field = {name, 0, value, LONGPOLE_EVENT_MAXIMUM, 's'};
	return field;
}

#define LONGPOLE_FIELD_(name, value)                                                                                     \
	_Generic((value), char: longpole_field_signed, signed char: longpole_field_signed, short: longpole_field_signed,     \
	         int: longpole_field_signed, long: longpole_field_signed, long long: longpole_field_signed,                  \
	         float: longpole_field_double, double: longpole_field_double, char *: longpole_field_text,                   \
	         const char *: longpole_field_text, default: longpole_field_unsigned)(name, value)
#define LONGPOLE_FIELDS2_(n, v) LONGPOLE_FIELD_(n, v)
#define LONGPOLE_FIELDS4_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS2_(__VA_ARGS__)
#define LONGPOLE_FIELDS6_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS4_(__VA_ARGS__)
#define LONGPOLE_FIELDS8_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS6_(__VA_ARGS__)
#define LONGPOLE_FIELDS10_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS8_(__VA_ARGS__)
#define LONGPOLE_FIELDS12_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS10_(__VA_ARGS__)
#define LONGPOLE_FIELDS14_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS12_(__VA_ARGS__)
#define LONGPOLE_FIELDS16_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS14_(__VA_ARGS__)
#define LONGPOLE_CHOOSE16__(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, chosen, ...) chosen
#define LONGPOLE_FIELDS_(...)                                                                                            \
	LONGPOLE_CHOOSE16__(__VA_ARGS__, LONGPOLE_FIELDS16_, , LONGPOLE_FIELDS14_, , LONGPOLE_FIELDS12_, ,                   \
	                    LONGPOLE_FIELDS10_, , LONGPOLE_FIELDS8_, , LONGPOLE_FIELDS6_, , LONGPOLE_FIELDS4_, ,             \
	                    LONGPOLE_FIELDS2_, , )(__VA_ARGS__)
#define LONGPOLE_EVENT_CALL_(where, ref, ...)                                                                            \
	do {                                                                                                                 \
		const struct longpole_field longpole_fields_[] = {LONGPOLE_FIELDS_(__VA_ARGS__)};                                \
		longpole_event(where, ref, longpole_fields_, (uint32_t)(sizeof longpole_fields_ / sizeof longpole_fields_[0]));  \
	} while (0)

#endif

/* The C11 part of the probes: _Generic selects by the types of names and values. */
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
	/* The class ids of the handle are written, so it is not constant, whatever the type of the
	 * pointer says. */
	const struct longpole_ref ref = {NULL, size, (struct longpole_name *)(uintptr_t)name, literal & 0};
	return ref;
}

LONGPOLE_INLINE uint64_t longpole_word_of_double(double value)
{
	uint64_t word;
	__builtin_memcpy(&word, &value, 8);
	return word;
}

/* Makes the compiler report `sentence` as its first error if the constant `condition` is false.
 * Costs nothing in the program: the operand of sizeof is not evaluated. */
#define LONGPOLE_CHECK_(condition, sentence) \
	((void)sizeof(struct { _Static_assert(condition, sentence); int longpole_checked; }))

/*
 * A literal is an array that is spelled as one: an expression like "a" + 1 is a pointer, and other
 * arrays can change. Any other text is copied into the event.
 */
#define LONGPOLE_IS_LITERAL_(name) (#name[0] == '"' && !__builtin_types_compatible_p(__typeof__(name), __typeof__(&(name)[0])))
#define LONGPOLE_CHECK_NAME_(name)                                                                                       \
	LONGPOLE_CHECK_(_Generic((name), const struct longpole_name *: 0, default: 1),                                       \
	                "a struct longpole_name that is used by a probe must not be const: it stores class ids"),            \
	    LONGPOLE_CHECK_(_Generic((name), struct longpole_name *: 1, const struct longpole_name *: 1, char *: 1, const char *: 1, default: 0), \
	                    "the name of a probe must be a text (char *) or a handle (struct longpole_name *)"),             \
	    LONGPOLE_CHECK_(!(__builtin_constant_p(sizeof(name)) && __builtin_types_compatible_p(__typeof__(name), char[1])), \
	                    "the name of a probe must not be empty")
#define LONGPOLE_REF_(name)                                                                                              \
	(LONGPOLE_CHECK_NAME_(name),                                                                                         \
	 _Generic((name), struct longpole_name *: longpole_ref_of_name, char *: longpole_ref_of_text,                        \
	          const char *: longpole_ref_of_text)(                                                                       \
	     (name), LONGPOLE_IS_LITERAL_(name) ? sizeof(name) - 1 : LONGPOLE_NAME_MAXIMUM, LONGPOLE_IS_LITERAL_(name)))
#define LONGPOLE_SCOPE_REF_(name) LONGPOLE_REF_(name)
#define LONGPOLE_AGAIN_(name, before) before
#define LONGPOLE_FUNCTION_ longpole_ref_of_text(__func__, sizeof(__func__) - 1, 1)
#define LONGPOLE_TEXT_REF_(text) longpole_ref_of_text((text), LONGPOLE_EVENT_MAXIMUM, 0)

/* Integers (also bit-fields, which have types of their own in gcc) and pointers (also to
 * functions). Other types must be handled before. */
#define LONGPOLE_WHOLE_(value)                                                                                           \
	((uint64_t)(uintptr_t)_Generic((value), float: 0, double: 0, long double: 0, struct longpole_array: 0, struct longpole_enum: 0, default: (value)))
#define LONGPOLE_IS_REAL_(value) _Generic((value), float: 1, double: 1, long double: 1, default: 0)
#define LONGPOLE_REAL_(value) _Generic((value), float: (value), double: (value), long double: (value), default: 0.0)
#define LONGPOLE_WORD_(value) (LONGPOLE_IS_REAL_(value) ? longpole_word_of_double((double)LONGPOLE_REAL_(value)) : LONGPOLE_WHOLE_(value))

#define LONGPOLE_COUNTER_CALL_(ref, value)                                                                               \
	LONGPOLE_CHECK_(_Generic((value), char *: 0, const char *: 0, default: 1),                                           \
	                "the value of a counter must be a number, not a text");                                              \
	longpole_probe1(longpole_where_, ref, LONGPOLE_KIND_COUNTER, _Generic((value), float: 1u, double: 1u, long double: 1u, default: 0u), \
	                _Generic((value), float: "d:value", double: "d:value", long double: "d:value", default: "i:value"),  \
	                LONGPOLE_WORD_(value))

/* The place for the class ids of a call site. */
#define LONGPOLE_IDS_(ids, count) static uint32_t ids[count]

#define LONGPOLE_GUARD_ __attribute__((cleanup(longpole_span_close), unused))
#define LONGPOLE_DISARM_(span)

LONGPOLE_INLINE struct longpole_field longpole_field_whole(const char *name, uint64_t value, char type)
{
	const struct longpole_field field = {name, value, NULL, 0, type, 0};
	return field;
}

LONGPOLE_INLINE struct longpole_field longpole_field_double(const char *name, double value, char type)
{
	(void)type;
	const struct longpole_field field = {name, longpole_word_of_double(value), NULL, 0, 'd', 0};
	return field;
}

LONGPOLE_INLINE struct longpole_field longpole_field_text(const char *name, const char *value, char type)
{
	(void)type;
	const struct longpole_field field = {name, 0, value, LONGPOLE_EVENT_MAXIMUM, 's', 0};
	return field;
}

LONGPOLE_INLINE struct longpole_field longpole_field_array(const char *name, struct longpole_array value, char type)
{
	(void)type;
	const struct longpole_field field = {name, value.count, (const char *)value.elements, 0, value.type, value.width};
	return field;
}

LONGPOLE_INLINE struct longpole_field longpole_field_enum(const char *name, struct longpole_enum value, char type)
{
	(void)type;
	const struct longpole_field field = {name, (uint64_t)value.value, value.labels, 0, 'e', 0};
	return field;
}

LONGPOLE_INLINE struct longpole_array longpole_array_of(const void *elements, size_t count, char type, char width)
{
	const struct longpole_array array = {elements, count, type, width};
	return array;
}

LONGPOLE_INLINE struct longpole_enum longpole_enum_of(int64_t value, const char *labels)
{
	const struct longpole_enum named = {value, labels};
	return named;
}

/* An array of integers or floating-point values, and an integer whose values have names. Both are
 * values for a field of an event. */
#define LONGPOLE_ARRAY(elements, count)                                                                                  \
	longpole_array_of((elements), (count),                                                                               \
	                  _Generic(*(elements), _Bool: 'u', unsigned char: 'u', unsigned short: 'u', unsigned: 'u', unsigned long: 'u', \
	                           unsigned long long: 'u', char: 'i', signed char: 'i', short: 'i', int: 'i', long: 'i',        \
	                           long long: 'i', float: 'd', double: 'd'),                                                 \
	                  (char)sizeof *(elements))
#define LONGPOLE_ENUM(value, labels) longpole_enum_of((int64_t)(value), (labels))

#define LONGPOLE_WHOLE_TYPE_(value)                                                                                      \
	_Generic((value), char: 'i', signed char: 'i', short: 'i', int: 'i', long: 'i', long long: 'i', _Bool: 'u', unsigned char: 'u', \
	         unsigned short: 'u', unsigned: 'u', unsigned long: 'u', unsigned long long: 'u',                            \
	         default: __builtin_classify_type(value) == 1 /* an integer: a bit-field */ ? 'i' : 'x')
#define LONGPOLE_FIELD_(name, value)                                                                                     \
	_Generic((value), float: longpole_field_double, double: longpole_field_double, long double: longpole_field_double,   \
	         char *: longpole_field_text, const char *: longpole_field_text, struct longpole_array: longpole_field_array, \
	         struct longpole_enum: longpole_field_enum, default: longpole_field_whole)(                                  \
	    name,                                                                                                            \
	    _Generic((value), float: (value), double: (value), long double: (value), char *: (value), const char *: (value), \
	             struct longpole_array: (value), struct longpole_enum: (value), default: LONGPOLE_WHOLE_(value)),        \
	    (char)(LONGPOLE_WHOLE_TYPE_(value)))
/* The macros for n pairs get one additional empty argument after the pairs, so that their variable
 * arguments are never empty. */
#define LONGPOLE_FIELDS0_(...) {NULL, 0, NULL, 0, 0, 0}
#define LONGPOLE_FIELDS1_(n, v, ...) LONGPOLE_FIELD_(n, v)
#define LONGPOLE_FIELDS2_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS1_(__VA_ARGS__)
#define LONGPOLE_FIELDS3_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS2_(__VA_ARGS__)
#define LONGPOLE_FIELDS4_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS3_(__VA_ARGS__)
#define LONGPOLE_FIELDS5_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS4_(__VA_ARGS__)
#define LONGPOLE_FIELDS6_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS5_(__VA_ARGS__)
#define LONGPOLE_FIELDS7_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS6_(__VA_ARGS__)
#define LONGPOLE_FIELDS8_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS7_(__VA_ARGS__)
#define LONGPOLE_FIELDS9_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS8_(__VA_ARGS__)
#define LONGPOLE_FIELDS10_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS9_(__VA_ARGS__)
#define LONGPOLE_FIELDS11_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS10_(__VA_ARGS__)
#define LONGPOLE_FIELDS12_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS11_(__VA_ARGS__)
#define LONGPOLE_FIELDS13_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS12_(__VA_ARGS__)
#define LONGPOLE_FIELDS14_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS13_(__VA_ARGS__)
#define LONGPOLE_FIELDS15_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS14_(__VA_ARGS__)
#define LONGPOLE_FIELDS16_(n, v, ...) LONGPOLE_FIELD_(n, v), LONGPOLE_FIELDS15_(__VA_ARGS__)
/* No field, if `condition` is true; otherwise a compile-time error. */
#define LONGPOLE_CHECK_FIELDS_(condition, sentence) {NULL, 0, NULL, 0, (LONGPOLE_CHECK_(condition, sentence), 0), 0}
#define LONGPOLE_ODD_FIELDS_(...) LONGPOLE_CHECK_FIELDS_(0, "each field of an event is a name and a value")
#define LONGPOLE_MANY_FIELDS_(...) LONGPOLE_CHECK_FIELDS_(0, "an event has up to 16 fields")
/* A single argument after the name: a compile-time error, unless the argument is empty. */
#define LONGPOLE_LONE_FIELD_(...) LONGPOLE_CHECK_FIELDS_(sizeof(#__VA_ARGS__) == 2, "each field of an event is a name and a value")
/* Selects the macro for the pairs after the first argument; there are up to 16. */
#define LONGPOLE_CHOOSE50__(                                                                                            \
	a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23, a24,      \
	a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37, a38, a39, a40, a41, a42, a43, a44, a45, a46,       \
	a47, a48, a49, a50, chosen, ...) chosen
#define LONGPOLE_PAIRS_(...)                                                                                            \
	LONGPOLE_CHOOSE50__(__VA_ARGS__, LONGPOLE_MANY_FIELDS_, LONGPOLE_MANY_FIELDS_, LONGPOLE_MANY_FIELDS_,               \
	LONGPOLE_MANY_FIELDS_, LONGPOLE_MANY_FIELDS_, LONGPOLE_MANY_FIELDS_, LONGPOLE_MANY_FIELDS_,                         \
	LONGPOLE_MANY_FIELDS_, LONGPOLE_MANY_FIELDS_, LONGPOLE_MANY_FIELDS_, LONGPOLE_MANY_FIELDS_,                         \
	LONGPOLE_MANY_FIELDS_, LONGPOLE_MANY_FIELDS_, LONGPOLE_MANY_FIELDS_, LONGPOLE_MANY_FIELDS_,                         \
	LONGPOLE_MANY_FIELDS_, LONGPOLE_MANY_FIELDS_, LONGPOLE_FIELDS16_, LONGPOLE_ODD_FIELDS_, LONGPOLE_FIELDS15_,         \
	LONGPOLE_ODD_FIELDS_, LONGPOLE_FIELDS14_, LONGPOLE_ODD_FIELDS_, LONGPOLE_FIELDS13_, LONGPOLE_ODD_FIELDS_,           \
	LONGPOLE_FIELDS12_, LONGPOLE_ODD_FIELDS_, LONGPOLE_FIELDS11_, LONGPOLE_ODD_FIELDS_, LONGPOLE_FIELDS10_,             \
	LONGPOLE_ODD_FIELDS_, LONGPOLE_FIELDS9_, LONGPOLE_ODD_FIELDS_, LONGPOLE_FIELDS8_, LONGPOLE_ODD_FIELDS_,             \
	LONGPOLE_FIELDS7_, LONGPOLE_ODD_FIELDS_, LONGPOLE_FIELDS6_, LONGPOLE_ODD_FIELDS_, LONGPOLE_FIELDS5_,                \
	LONGPOLE_ODD_FIELDS_, LONGPOLE_FIELDS4_, LONGPOLE_ODD_FIELDS_, LONGPOLE_FIELDS3_, LONGPOLE_ODD_FIELDS_,             \
	LONGPOLE_FIELDS2_, LONGPOLE_ODD_FIELDS_, LONGPOLE_FIELDS1_, LONGPOLE_LONE_FIELD_, LONGPOLE_FIELDS0_, )
#define LONGPOLE_BEHIND__(fields, first, ...) fields(__VA_ARGS__)
#define LONGPOLE_BEHIND_(fields, ...) LONGPOLE_BEHIND__(fields, __VA_ARGS__)
#define LONGPOLE_FIELDS_(...) LONGPOLE_BEHIND_(LONGPOLE_PAIRS_(__VA_ARGS__), __VA_ARGS__, )
#define LONGPOLE_EVENT_REF_(ref, ...)                                                                                    \
	do {                                                                                                                 \
		const struct longpole_ref longpole_ref_ = ref;                                                                   \
		const struct longpole_field longpole_fields_[] = {__VA_ARGS__};                                                  \
		const uint32_t longpole_count_ = longpole_fields_[0].type == 0 ? 0u : (uint32_t)(sizeof longpole_fields_ / sizeof(struct longpole_field)); \
		longpole_event(&longpole_where_, &longpole_ref_, longpole_fields_, longpole_count_);                             \
	} while (0)
#define LONGPOLE_EVENT_NAMED_(...) LONGPOLE_EVENT_REF_(LONGPOLE_REF_(LONGPOLE_FIRST_(__VA_ARGS__)), LONGPOLE_FIELDS_(__VA_ARGS__))
#define LONGPOLE_EVENT_FUNCTION_(...) LONGPOLE_EVENT_REF_(LONGPOLE_FUNCTION_, LONGPOLE_FIELDS_("", __VA_ARGS__))

#endif

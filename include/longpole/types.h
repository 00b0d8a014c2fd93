/*
 * Integers of fixed width, without the C library's headers: these look at the feature macros when the first of them is included, and a program that
 * defines its own behind `-include longpole/auto.h` would define them too late. The types are those of <stdint.h>, which may be included, too.
 */
#ifndef LONGPOLE_TYPES_H
#define LONGPOLE_TYPES_H

#include <stddef.h>

#if defined(__UINT64_TYPE__)
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
#else
#include <stdint.h>
#endif

#define LONGPOLE_U32_MAX ((uint32_t)~(uint32_t)0)
#define LONGPOLE_U64_MAX (~(uint64_t)0)

#endif

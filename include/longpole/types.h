/*
 * Integers of fixed width, without the C library's headers. Those evaluate the feature macros when
 * the first of them is included; with `-include longpole/auto.h`, that would be before the program
 * defines its macros. The types are those of <stdint.h>, which may also be included.
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

/*
 * Events with every kind of field of LTTng-UST, and with names that are keywords of the metadata
 * language.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER kinds
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./kinds.h"
#if !defined(KINDS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define KINDS_H
#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_ENUM(kinds, mood,
                          LTTNG_UST_TP_ENUM_VALUES(lttng_ust_field_enum_value("plain", 0) lttng_ust_field_enum_value("two words", 1)
                                                       lttng_ust_field_enum_auto("next") lttng_ust_field_enum_value("a \"quoted\\ one", 5)
                                                           lttng_ust_field_enum_range("range", 7, 90) lttng_ust_field_enum_range("overlap", 50, 120)
                                                               lttng_ust_field_enum_value("struct", 200) lttng_ust_field_enum_value("\xc3\xbcml\xc3\xa4ut", 201)))
LTTNG_UST_TRACEPOINT_ENUM(kinds, temper,
                          LTTNG_UST_TP_ENUM_VALUES(lttng_ust_field_enum_value("below", -1) lttng_ust_field_enum_range("far below", -100, -50)
                                                       lttng_ust_field_enum_value("", 3)))

LTTNG_UST_TRACEPOINT_EVENT(kinds, integers, LTTNG_UST_TP_ARGS(uint64_t, a),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint8_t, u8, a) lttng_ust_field_integer(int8_t, i8, a) lttng_ust_field_integer(uint16_t, u16, a)
                                                   lttng_ust_field_integer(int16_t, i16, a) lttng_ust_field_integer(uint32_t, u32, a) lttng_ust_field_integer(int32_t, i32, a)
                                                       lttng_ust_field_integer(uint64_t, u64, a) lttng_ust_field_integer(int64_t, i64, a) lttng_ust_field_integer(char, c, a)
                                                           lttng_ust_field_integer(long, l, a) lttng_ust_field_integer_hex(uint64_t, hex, a)
                                                               lttng_ust_field_integer_network(uint16_t, net16, a) lttng_ust_field_integer_network(int32_t, net32, a)
                                                                   lttng_ust_field_integer_network_hex(uint64_t, nethex, a)))
LTTNG_UST_TRACEPOINT_EVENT(kinds, floats, LTTNG_UST_TP_ARGS(double, a),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_float(float, f, a) lttng_ust_field_float(double, d, a)))
LTTNG_UST_TRACEPOINT_EVENT(kinds, arrays, LTTNG_UST_TP_ARGS(const uint64_t *, a),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_array(uint8_t, u8, (const uint8_t *)a, 5) lttng_ust_field_array(int16_t, i16, (const int16_t *)a, 3)
                                                   lttng_ust_field_array(uint64_t, u64, a, 2) lttng_ust_field_array_hex(uint32_t, hex, (const uint32_t *)a, 2)
                                                       lttng_ust_field_array_network(uint16_t, net, (const uint16_t *)a, 4)
                                                           lttng_ust_field_array_network_hex(int32_t, nethex, (const int32_t *)a, 1)
                                                               lttng_ust_field_array(char, chars, (const char *)a, 4) lttng_ust_field_array_text(char, text, (const char *)a, 8)))
LTTNG_UST_TRACEPOINT_EVENT(kinds, sequences, LTTNG_UST_TP_ARGS(const uint64_t *, a, unsigned, n, const char *, s),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_sequence(uint8_t, u8, (const uint8_t *)a, unsigned, n) lttng_ust_field_sequence(int64_t, i64, (const int64_t *)a, uint8_t, n)
                                                   lttng_ust_field_sequence_hex(uint16_t, hex, (const uint16_t *)a, size_t, n)
                                                       lttng_ust_field_sequence_network(uint32_t, net, (const uint32_t *)a, uint16_t, n)
                                                           lttng_ust_field_sequence_network_hex(int16_t, nethex, (const int16_t *)a, uint64_t, n)
                                                               lttng_ust_field_sequence_text(char, text, s, unsigned, n)))
LTTNG_UST_TRACEPOINT_EVENT(kinds, strings, LTTNG_UST_TP_ARGS(const char *, s),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(s, s) lttng_ust_field_string(empty, "") lttng_ust_field_string(last, s)))
LTTNG_UST_TRACEPOINT_EVENT(kinds, enums, LTTNG_UST_TP_ARGS(int, a),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_enum(kinds, mood, uint8_t, mood, a) lttng_ust_field_enum(kinds, mood, uint64_t, wide, a)
                                                   lttng_ust_field_enum(kinds, temper, int8_t, temper, a) lttng_ust_field_enum(kinds, temper, int64_t, wide_temper, -a)))
LTTNG_UST_TRACEPOINT_EVENT(kinds, struct_, LTTNG_UST_TP_ARGS(uint32_t, a),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, event, a) lttng_ust_field_integer(uint8_t, stream, a) lttng_ust_field_integer(uint16_t, align, a)
                                                   lttng_ust_field_integer(uint8_t, _underscored, a) lttng_ust_field_integer(uint8_t, __twice, a) lttng_ust_field_integer(uint8_t, id, a)
                                                       lttng_ust_field_integer(uint8_t, timestamp, a) lttng_ust_field_integer(uint8_t, cpu_id, a) lttng_ust_field_string(string, "x")))
LTTNG_UST_TRACEPOINT_EVENT(kinds, nothing, LTTNG_UST_TP_ARGS(int, a), LTTNG_UST_TP_FIELDS())
LTTNG_UST_TRACEPOINT_LOGLEVEL(kinds, nothing, LTTNG_UST_TRACEPOINT_LOGLEVEL_CRIT)
LTTNG_UST_TRACEPOINT_MODEL_EMF_URI(kinds, nothing, "http://example.com/?a=b&c=d")
#endif
#include <lttng/tracepoint-event.h>

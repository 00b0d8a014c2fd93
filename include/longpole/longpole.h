/*
 * Longpole's probes for C11 and C++17. docs/guides/probes.md lists all probes;
 * docs/formats/user-trace.md describes the event that each one records.
 *
 * There is nothing to link, no thread, no socket and no daemon. While nothing is recorded, a probe
 * costs one load and one branch; while its events are recorded, a read of the time-stamp counter
 * and a few stores. With LONGPOLE_DISABLE a probe compiles to nothing, and no argument is
 * evaluated.
 */
#ifndef LONGPOLE_LONGPOLE_H
#define LONGPOLE_LONGPOLE_H

#include "platform.h"

#define LONGPOLE_UNKNOWN 0u
#define LONGPOLE_IN 1u
#define LONGPOLE_OUT 2u

#define LONGPOLE_PLAIN 0u
#define LONGPOLE_OBJECT_NEW 1u
#define LONGPOLE_OBJECT_DELETE 2u
#define LONGPOLE_OBJECT_STATE 3u
#define LONGPOLE_EXCEPTION 4u
#define LONGPOLE_FAILURE 5u

#if defined(LONGPOLE_DISABLE)
#include "disabled.h"
#else
#include "name.h"
#if defined(__cplusplus)
#include "cpp.h"
#else
#include "c.h"
#endif

#define LONGPOLE_JOIN__(a, b) a##b
#define LONGPOLE_JOIN_(a, b) LONGPOLE_JOIN__(a, b)
/* The first argument, and the choice of one of four alternatives by the number of arguments. */
#define LONGPOLE_FIRST__(first, ...) first
#define LONGPOLE_FIRST_(...) LONGPOLE_FIRST__(__VA_ARGS__, )
#define LONGPOLE_CHOOSE__(a, b, c, d, chosen, ...) chosen
#define LONGPOLE_CHOOSE_(four, three, two, one, ...) LONGPOLE_CHOOSE__(__VA_ARGS__, four, three, two, one, )

/*
 * A whole probe: if its category is enabled, makes `call` with a place for the class ids of the
 * call site. Categories and kinds are always passed by their full names, because a program may have
 * a macro named QUEUE or PACKET.
 */
#define LONGPOLE_WHEN_(category, call)                                                                                   \
	do {                                                                                                                 \
		if (LONGPOLE_WANTED_(category)) {                                                                                \
			LONGPOLE_IDS_(longpole_ids_, 1);                                                                             \
			const struct longpole_where longpole_where_ = {longpole_ids_, __FILE__, __LINE__};                           \
			call;                                                                                                        \
		}                                                                                                                \
	} while (0)

#define LONGPOLE_PROBE0_(category, kind, ref) LONGPOLE_WHEN_(category, longpole_probe0(longpole_where_, ref, kind))
#define LONGPOLE_PROBE1_(category, kind, variant, fields, ref, a) \
	LONGPOLE_WHEN_(category, longpole_probe1(longpole_where_, ref, kind, variant, fields, a))

/* state(machine, state): two names; if both are literals, they are one event class. */
#define LONGPOLE_STATE(machine, state) LONGPOLE_WHEN_(LONGPOLE_CATEGORY_STATE, longpole_state(longpole_where_, LONGPOLE_REF_(machine), LONGPOLE_REF_(state)))
#define LONGPOLE_STATE_HERE(state) LONGPOLE_STATE(__FILE__, state)

/* begin(name [, arg]), end(name [, arg]), span(name [, arg]) */
#define LONGPOLE_EDGE0_(kind, ref) LONGPOLE_PROBE0_(LONGPOLE_CATEGORY_SPAN, kind, ref)
#define LONGPOLE_EDGE1_(kind, ref, arg) LONGPOLE_PROBE1_(LONGPOLE_CATEGORY_SPAN, kind, 1, "u:arg", ref, LONGPOLE_WORD_(arg))
#define LONGPOLE_BEGIN1_(name) LONGPOLE_EDGE0_(LONGPOLE_KIND_SPAN_BEGIN, LONGPOLE_REF_(name))
#define LONGPOLE_BEGIN2_(name, arg) LONGPOLE_EDGE1_(LONGPOLE_KIND_SPAN_BEGIN, LONGPOLE_REF_(name), arg)
#define LONGPOLE_BEGIN(...) LONGPOLE_CHOOSE_(, , LONGPOLE_BEGIN2_, LONGPOLE_BEGIN1_, __VA_ARGS__)(__VA_ARGS__)
#define LONGPOLE_BEGIN_HERE() LONGPOLE_EDGE0_(LONGPOLE_KIND_SPAN_BEGIN, LONGPOLE_FUNCTION_)
#define LONGPOLE_END1_(name) LONGPOLE_EDGE0_(LONGPOLE_KIND_SPAN_END, LONGPOLE_REF_(name))
#define LONGPOLE_END2_(name, arg) LONGPOLE_EDGE1_(LONGPOLE_KIND_SPAN_END, LONGPOLE_REF_(name), arg)
#define LONGPOLE_END(...) LONGPOLE_CHOOSE_(, , LONGPOLE_END2_, LONGPOLE_END1_, __VA_ARGS__)(__VA_ARGS__)
#define LONGPOLE_END_HERE() LONGPOLE_EDGE0_(LONGPOLE_KIND_SPAN_END, LONGPOLE_FUNCTION_)

#define LONGPOLE_SCOPE_(n, name, begin)                                                                                  \
	LONGPOLE_IDS_(LONGPOLE_JOIN_(longpole_ids_, n), 2);                                                                  \
	LONGPOLE_GUARD_ struct longpole_span LONGPOLE_JOIN_(longpole_span_, n) = {                                           \
	    {LONGPOLE_JOIN_(longpole_ids_, n) + 1, __FILE__, __LINE__}, name};                                               \
	LONGPOLE_DISARM_(LONGPOLE_JOIN_(longpole_span_, n))                                                                  \
	do {                                                                                                                 \
		if (LONGPOLE_WANTED_(LONGPOLE_CATEGORY_SPAN)) {                                                                  \
			const struct longpole_where longpole_where_ = {LONGPOLE_JOIN_(longpole_ids_, n), __FILE__, __LINE__};        \
			begin;                                                                                                       \
		}                                                                                                                \
	} while (0)
/* A name that is an expression is evaluated once. A literal is repeated instead, so that the
 * compiler does not have to read it from the span. */
#define LONGPOLE_SCOPE_NAME_(n, name) LONGPOLE_AGAIN_(name, LONGPOLE_JOIN_(longpole_span_, n).ref)
#define LONGPOLE_SCOPE0_(n, name, again) LONGPOLE_SCOPE_(n, name, longpole_probe0(longpole_where_, again, LONGPOLE_KIND_SPAN_BEGIN))
#define LONGPOLE_SCOPE1_(n, name, again, arg) \
	LONGPOLE_SCOPE_(n, name, longpole_probe1(longpole_where_, again, LONGPOLE_KIND_SPAN_BEGIN, 1, "u:arg", LONGPOLE_WORD_(arg)))
#define LONGPOLE_SPAN1__(n, name) LONGPOLE_SCOPE0_(n, LONGPOLE_SCOPE_REF_(name), LONGPOLE_SCOPE_NAME_(n, name))
#define LONGPOLE_SPAN2__(n, name, arg) LONGPOLE_SCOPE1_(n, LONGPOLE_SCOPE_REF_(name), LONGPOLE_SCOPE_NAME_(n, name), arg)
#define LONGPOLE_SPAN1_(name) LONGPOLE_SPAN1__(__COUNTER__, name)
#define LONGPOLE_SPAN2_(name, arg) LONGPOLE_SPAN2__(__COUNTER__, name, arg)
#define LONGPOLE_SPAN(...) LONGPOLE_CHOOSE_(, , LONGPOLE_SPAN2_, LONGPOLE_SPAN1_, __VA_ARGS__)(__VA_ARGS__)
#define LONGPOLE_SPAN_HERE() LONGPOLE_SCOPE0_(__COUNTER__, LONGPOLE_FUNCTION_, LONGPOLE_FUNCTION_)

/* mark(name [, data [, object [, kind]]]) */
#define LONGPOLE_MARK1_(ref) LONGPOLE_PROBE0_(LONGPOLE_CATEGORY_MARK, LONGPOLE_KIND_MARK, ref)
#define LONGPOLE_MARK2_(ref, data) LONGPOLE_PROBE1_(LONGPOLE_CATEGORY_MARK, LONGPOLE_KIND_MARK, 1, "u:data", ref, LONGPOLE_WORD_(data))
#define LONGPOLE_MARK3_(ref, data, object) \
	LONGPOLE_WHEN_(LONGPOLE_CATEGORY_MARK, longpole_probe2(longpole_where_, ref, LONGPOLE_KIND_MARK, 2, "u:data,x:object", LONGPOLE_WORD_(data), LONGPOLE_WORD_(object)))
#define LONGPOLE_MARK4_(ref, data, object, kind)                                                                         \
	LONGPOLE_WHEN_(LONGPOLE_CATEGORY_MARK, longpole_probe3(longpole_where_, ref, LONGPOLE_KIND_MARK, 3, "u:data,x:object,k:kind", \
	                                     LONGPOLE_WORD_(data), LONGPOLE_WORD_(object), LONGPOLE_WORD_(kind)))
#define LONGPOLE_MARK_NAMED1_(name) LONGPOLE_MARK1_(LONGPOLE_REF_(name))
#define LONGPOLE_MARK_NAMED2_(name, data) LONGPOLE_MARK2_(LONGPOLE_REF_(name), data)
#define LONGPOLE_MARK_NAMED3_(name, data, object) LONGPOLE_MARK3_(LONGPOLE_REF_(name), data, object)
#define LONGPOLE_MARK_NAMED4_(name, data, object, kind) LONGPOLE_MARK4_(LONGPOLE_REF_(name), data, object, kind)
#define LONGPOLE_MARK(...) \
	LONGPOLE_CHOOSE_(LONGPOLE_MARK_NAMED4_, LONGPOLE_MARK_NAMED3_, LONGPOLE_MARK_NAMED2_, LONGPOLE_MARK_NAMED1_, __VA_ARGS__)(__VA_ARGS__)
#define LONGPOLE_MARK_HERE(data) LONGPOLE_MARK2_(LONGPOLE_FUNCTION_, data)

/* counter(name, value) */
#define LONGPOLE_COUNTER_(ref, value) LONGPOLE_WHEN_(LONGPOLE_CATEGORY_COUNTER, LONGPOLE_COUNTER_CALL_(ref, value))
#define LONGPOLE_COUNTER(name, value) LONGPOLE_COUNTER_(LONGPOLE_REF_(name), value)
#define LONGPOLE_COUNTER_HERE(value) LONGPOLE_COUNTER_(LONGPOLE_FUNCTION_, value)

/* The four points of a call; `id` connects caller and callee. */
#define LONGPOLE_RPC_(kind, ref, id) LONGPOLE_PROBE1_(LONGPOLE_CATEGORY_RPC, LONGPOLE_KIND_##kind, 0, "u:id", ref, LONGPOLE_WORD_(id))
#define LONGPOLE_RPC_CALL(name, id) LONGPOLE_RPC_(RPC_CALL, LONGPOLE_REF_(name), id)
#define LONGPOLE_RPC_RETURNED(name, id) LONGPOLE_RPC_(RPC_RETURNED, LONGPOLE_REF_(name), id)
#define LONGPOLE_RPC_DISPATCH(name, id) LONGPOLE_RPC_(RPC_DISPATCH, LONGPOLE_REF_(name), id)
#define LONGPOLE_RPC_REPLY(name, id) LONGPOLE_RPC_(RPC_REPLY, LONGPOLE_REF_(name), id)
#define LONGPOLE_RPC_CALL_HERE(id) LONGPOLE_RPC_(RPC_CALL, LONGPOLE_FUNCTION_, id)
#define LONGPOLE_RPC_RETURNED_HERE(id) LONGPOLE_RPC_(RPC_RETURNED, LONGPOLE_FUNCTION_, id)
#define LONGPOLE_RPC_DISPATCH_HERE(id) LONGPOLE_RPC_(RPC_DISPATCH, LONGPOLE_FUNCTION_, id)
#define LONGPOLE_RPC_REPLY_HERE(id) LONGPOLE_RPC_(RPC_REPLY, LONGPOLE_FUNCTION_, id)

/* Asynchronous wake-ups; several submits may be merged into one receive. */
#define LONGPOLE_SIGNAL_(kind, ref, count) LONGPOLE_PROBE1_(LONGPOLE_CATEGORY_SIGNAL, LONGPOLE_KIND_##kind, 0, "u:count", ref, LONGPOLE_WORD_(count))
#define LONGPOLE_SIGNAL_SUBMIT(context, count) LONGPOLE_SIGNAL_(SIGNAL_SUBMIT, LONGPOLE_REF_(context), count)
#define LONGPOLE_SIGNAL_RECEIVE(context, count) LONGPOLE_SIGNAL_(SIGNAL_RECEIVE, LONGPOLE_REF_(context), count)
#define LONGPOLE_SIGNAL_WAIT(context) LONGPOLE_PROBE0_(LONGPOLE_CATEGORY_SIGNAL, LONGPOLE_KIND_SIGNAL_WAIT, LONGPOLE_REF_(context))
#define LONGPOLE_SIGNAL_SUBMIT_HERE(count) LONGPOLE_SIGNAL_(SIGNAL_SUBMIT, LONGPOLE_FUNCTION_, count)
#define LONGPOLE_SIGNAL_RECEIVE_HERE(count) LONGPOLE_SIGNAL_(SIGNAL_RECEIVE, LONGPOLE_FUNCTION_, count)
#define LONGPOLE_SIGNAL_WAIT_HERE() LONGPOLE_PROBE0_(LONGPOLE_CATEGORY_SIGNAL, LONGPOLE_KIND_SIGNAL_WAIT, LONGPOLE_FUNCTION_)

/* Token queues: items or bytes. */
#define LONGPOLE_QUEUE_(kind, ref, count) LONGPOLE_PROBE1_(LONGPOLE_CATEGORY_QUEUE, LONGPOLE_KIND_##kind, 0, "u:count", ref, LONGPOLE_WORD_(count))
#define LONGPOLE_QUEUE_PUT(queue, count) LONGPOLE_QUEUE_(QUEUE_PUT, LONGPOLE_REF_(queue), count)
#define LONGPOLE_QUEUE_GET(queue, count) LONGPOLE_QUEUE_(QUEUE_GET, LONGPOLE_REF_(queue), count)
#define LONGPOLE_QUEUE_PEEK(queue, count) LONGPOLE_QUEUE_(QUEUE_PEEK, LONGPOLE_REF_(queue), count)
#define LONGPOLE_QUEUE_RESERVE(queue, count) LONGPOLE_QUEUE_(QUEUE_RESERVE, LONGPOLE_REF_(queue), count)
#define LONGPOLE_QUEUE_SIZE(queue, count) LONGPOLE_QUEUE_(QUEUE_SIZE, LONGPOLE_REF_(queue), count)
#define LONGPOLE_QUEUE_WAIT_EMPTY(queue) LONGPOLE_PROBE0_(LONGPOLE_CATEGORY_QUEUE, LONGPOLE_KIND_QUEUE_WAIT_EMPTY, LONGPOLE_REF_(queue))
#define LONGPOLE_QUEUE_WAIT_FULL(queue) LONGPOLE_PROBE0_(LONGPOLE_CATEGORY_QUEUE, LONGPOLE_KIND_QUEUE_WAIT_FULL, LONGPOLE_REF_(queue))
#define LONGPOLE_QUEUE_PUT_HERE(count) LONGPOLE_QUEUE_(QUEUE_PUT, LONGPOLE_FUNCTION_, count)
#define LONGPOLE_QUEUE_GET_HERE(count) LONGPOLE_QUEUE_(QUEUE_GET, LONGPOLE_FUNCTION_, count)
#define LONGPOLE_QUEUE_PEEK_HERE(count) LONGPOLE_QUEUE_(QUEUE_PEEK, LONGPOLE_FUNCTION_, count)
#define LONGPOLE_QUEUE_RESERVE_HERE(count) LONGPOLE_QUEUE_(QUEUE_RESERVE, LONGPOLE_FUNCTION_, count)
#define LONGPOLE_QUEUE_SIZE_HERE(count) LONGPOLE_QUEUE_(QUEUE_SIZE, LONGPOLE_FUNCTION_, count)
#define LONGPOLE_QUEUE_WAIT_EMPTY_HERE() LONGPOLE_PROBE0_(LONGPOLE_CATEGORY_QUEUE, LONGPOLE_KIND_QUEUE_WAIT_EMPTY, LONGPOLE_FUNCTION_)
#define LONGPOLE_QUEUE_WAIT_FULL_HERE() LONGPOLE_PROBE0_(LONGPOLE_CATEGORY_QUEUE, LONGPOLE_KIND_QUEUE_WAIT_FULL, LONGPOLE_FUNCTION_)

/* link(from, to), flow(id): classes without a name. */
#define LONGPOLE_LINK(from, to)                                                                                          \
	do {                                                                                                                 \
		if (LONGPOLE_WANTED_(LONGPOLE_CATEGORY_LINK)) {                                                                  \
			const uint64_t longpole_words_[2] = {LONGPOLE_WORD_(from), LONGPOLE_WORD_(to)};                              \
			longpole_link(LONGPOLE_KIND_LINK, longpole_words_, 2);                                                       \
		}                                                                                                                \
	} while (0)
#define LONGPOLE_FLOW(id)                                                                                                \
	do {                                                                                                                 \
		if (LONGPOLE_WANTED_(LONGPOLE_CATEGORY_LINK)) {                                                                  \
			const uint64_t longpole_words_[1] = {LONGPOLE_WORD_(id)};                                                    \
			longpole_link(LONGPOLE_KIND_FLOW, longpole_words_, 1);                                                       \
		}                                                                                                                \
	} while (0)

/* packet(interface, direction, bytes, length) */
#define LONGPOLE_PACKET_(ref, direction, bytes, length) \
	LONGPOLE_WHEN_(LONGPOLE_CATEGORY_PACKET, longpole_packet(&longpole_where_, ref, direction, bytes, length))
#define LONGPOLE_PACKET(interface, direction, bytes, length) LONGPOLE_PACKET_(LONGPOLE_REF_(interface), direction, bytes, length)
#define LONGPOLE_PACKET_HERE(direction, bytes, length) LONGPOLE_PACKET_(LONGPOLE_FUNCTION_, direction, bytes, length)

/* event(name, "field", value, …) */
#define LONGPOLE_EVENT(...) LONGPOLE_WHEN_(LONGPOLE_CATEGORY_EVENT, LONGPOLE_EVENT_NAMED_(__VA_ARGS__))
#define LONGPOLE_EVENT_HERE(...) LONGPOLE_WHEN_(LONGPOLE_CATEGORY_EVENT, LONGPOLE_EVENT_FUNCTION_(__VA_ARGS__))

/* log(text) */
#define LONGPOLE_LOG(message)                                                                                            \
	do {                                                                                                                 \
		if (LONGPOLE_WANTED_(LONGPOLE_CATEGORY_LOG))                                                                     \
			longpole_log(LONGPOLE_TEXT_REF_(message));                                                                   \
	} while (0)

/* Sets the label of the process, which is the path of the component: `system -> part`. */
#define LONGPOLE_LABEL(label) longpole_set_label(LONGPOLE_TEXT_REF_(label))

#endif

#endif

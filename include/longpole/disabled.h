/* Every probe compiled to nothing: no argument is evaluated, and none counts as unused. */
#ifndef LONGPOLE_DISABLED_H
#define LONGPOLE_DISABLED_H

#include "types.h"

#define LONGPOLE_FIFO 0u
#define LONGPOLE_LIFO 1u
#define LONGPOLE_ITEMS 0u
#define LONGPOLE_BYTES 1u

struct longpole_name {
	const char *text;
};

#if defined(__cplusplus)
extern "C++" {

#if __cplusplus >= 201703L
#include <string_view>
#endif

namespace longpole {

#if __cplusplus >= 201703L
typedef std::string_view Text;
#else
/* Accepts any name, so that the only error is the missing C++17; see platform.h. */
struct Text {
	template <typename Any>
	Text(const Any &)
	{
	}
};
#endif

enum class Order : uint32_t { fifo = LONGPOLE_FIFO, lifo = LONGPOLE_LIFO };
enum class Unit : uint32_t { items = LONGPOLE_ITEMS, bytes = LONGPOLE_BYTES };

class Name : public longpole_name
{
public:
	explicit Name(Text) : longpole_name() {}

	Name(const Name &) = delete;
	Name &operator=(const Name &) = delete;
};

class Queue : public Name
{
public:
	explicit Queue(Text name, uint64_t = 0, Order = Order::fifo, Unit = Unit::items) : Name(name) {}
};

template <typename... Arguments>
inline void unused(const Arguments &...)
{
}

} // namespace longpole

} // extern "C++"

#define LONGPOLE_NAME(text) longpole_name{text}
#define LONGPOLE_UNUSED_(...)                                                                                            \
	do {                                                                                                                 \
		if (false)                                                                                                       \
			::longpole::unused(__VA_ARGS__);                                                                             \
	} while (0)
#else
#define LONGPOLE_NAME(text) {text}
static inline __attribute__((unused)) void longpole_unused(int first, ...)
{
	(void)first;
}
#define LONGPOLE_UNUSED_(...)                                                                                            \
	do {                                                                                                                 \
		if (0)                                                                                                           \
			longpole_unused(0, __VA_ARGS__);                                                                             \
	} while (0)
#endif
/* For macros that may have no argument at all. */
#define LONGPOLE_CHOOSE33__(                                                                                            \
	a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, \
	a26, a27, a28, a29, a30, a31, a32, a33, chosen, ...) chosen
#define LONGPOLE_NOTHING_(...) ((void)0)
#define LONGPOLE_UNUSED_OR_NOTHING_(...)                                                                                \
	LONGPOLE_CHOOSE33__(, __VA_ARGS__, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_,          \
	LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_,         \
	LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_,         \
	LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_,         \
	LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_,         \
	LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_UNUSED_, LONGPOLE_NOTHING_, )(__VA_ARGS__)
#define LONGPOLE_QUEUE_NAME(text, capacity, order, unit) LONGPOLE_NAME(text)

#define LONGPOLE_ARRAY(elements, count) ((void)(count), (elements))
#define LONGPOLE_ENUM(value, labels) ((void)(labels), (value))

#define LONGPOLE_STATE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_STATE_HERE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_BEGIN(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_BEGIN_HERE() ((void)0)
#define LONGPOLE_END(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_END_HERE() ((void)0)
#define LONGPOLE_SPAN(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_SPAN_HERE() ((void)0)
#define LONGPOLE_MARK(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_MARK_HERE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_COUNTER(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_COUNTER_HERE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_RPC_CALL(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_RPC_RETURNED(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_RPC_DISPATCH(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_RPC_REPLY(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_RPC_CALL_HERE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_RPC_RETURNED_HERE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_RPC_DISPATCH_HERE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_RPC_REPLY_HERE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_SIGNAL_SUBMIT(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_SIGNAL_RECEIVE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_SIGNAL_WAIT(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_SIGNAL_SUBMIT_HERE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_SIGNAL_RECEIVE_HERE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_SIGNAL_WAIT_HERE() ((void)0)
#define LONGPOLE_QUEUE_PUT(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_QUEUE_GET(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_QUEUE_PEEK(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_QUEUE_RESERVE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_QUEUE_SIZE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_QUEUE_WAIT_EMPTY(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_QUEUE_WAIT_FULL(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_QUEUE_PUT_HERE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_QUEUE_GET_HERE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_QUEUE_PEEK_HERE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_QUEUE_RESERVE_HERE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_QUEUE_SIZE_HERE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_QUEUE_WAIT_EMPTY_HERE() ((void)0)
#define LONGPOLE_QUEUE_WAIT_FULL_HERE() ((void)0)
#define LONGPOLE_LINK(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_FLOW(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_PACKET(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_PACKET_HERE(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_EVENT(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_EVENT_HERE(...) LONGPOLE_UNUSED_OR_NOTHING_(__VA_ARGS__)
#define LONGPOLE_LOG(...) LONGPOLE_UNUSED_(__VA_ARGS__)
#define LONGPOLE_LABEL(...) LONGPOLE_UNUSED_(__VA_ARGS__)

#endif

// The C++17 part of the probes: overloads for names and values, and handles as objects.
#ifndef LONGPOLE_CPP_H
#define LONGPOLE_CPP_H

#include "name.h"

// C libraries include headers within extern "C", which must not apply to these headers.
extern "C++" {

#include <string_view>
#include <type_traits>
#include <utility>

namespace longpole {

enum class Order : uint32_t { fifo = LONGPOLE_FIFO, lifo = LONGPOLE_LIFO };
enum class Unit : uint32_t { items = LONGPOLE_ITEMS, bytes = LONGPOLE_BYTES };

// A name that is made at run time. Its events are as small as those of a literal. The text is
// copied, up to 255 bytes.
class Name : public longpole_name
{
public:
	LONGPOLE_PLAIN_CODE explicit Name(std::string_view name) : longpole_name() { copy(name); }

	Name(const Name &) = delete;
	Name &operator=(const Name &) = delete;

private:
	char _copy[LONGPOLE_NAME_MAXIMUM + 1] = {};

	LONGPOLE_PLAIN_CODE void copy(std::string_view name)
	{
		longpole_copy(_copy, name.data(), name.size() < LONGPOLE_NAME_MAXIMUM ? name.size() : LONGPOLE_NAME_MAXIMUM);
		text = _copy;
	}
};

// A queue: its name and its properties. A capacity of 0 means unlimited or unknown.
class Queue : public Name
{
public:
	LONGPOLE_PLAIN_CODE explicit Queue(std::string_view name, uint64_t items = 0, Order how = Order::fifo, Unit what = Unit::items) : Name(name)
	{
		queue = 1;
		capacity = items;
		order = static_cast<uint32_t>(how);
		unit = static_cast<uint32_t>(what);
	}
};

namespace detail {

// An array is a literal only if it is spelled as one: other arrays can change, or be a member of
// many objects.
template <size_t Size>
LONGPOLE_INLINE longpole_ref ref(const char (&text)[Size], bool literal)
{
	return {text, literal ? __builtin_strlen(text) : longpole_length(text, Size), nullptr, literal ? 1 : 0};
}

LONGPOLE_INLINE longpole_ref ref(std::string_view text, bool = false)
{
	return {text.data(), text.size(), nullptr, 0};
}

template <typename Pointer>
constexpr bool is_text_v = std::is_same_v<Pointer, const char *> || std::is_same_v<Pointer, char *>;

// Pointers are not converted to a view, because a null pointer is an empty text here.
template <typename Pointer, std::enable_if_t<is_text_v<Pointer>, int> = 0>
LONGPOLE_INLINE longpole_ref ref(const Pointer &text, bool = false)
{
	return {text, LONGPOLE_EVENT_MAXIMUM, nullptr, 0};
}

// A handle stores its class ids when it is used, so it cannot be const.
template <typename Handle, std::enable_if_t<std::is_base_of_v<longpole_name, Handle>, int> = 0>
LONGPOLE_INLINE longpole_ref ref(Handle &name, bool = false)
{
	static_assert(!std::is_const_v<Handle>, "a longpole::Name or longpole::Queue that is used by a probe must not be const: it stores class ids");
	return {nullptr, 0, const_cast<std::remove_const_t<Handle> *>(&name), 0};
}

LONGPOLE_INLINE longpole_ref ref(longpole_name *name, bool = false)
{
	return {nullptr, 0, name, 0};
}

template <typename Other>
constexpr bool is_name_v = !std::is_null_pointer_v<Other> && (std::is_convertible_v<const Other &, std::string_view> ||
                                                              std::is_base_of_v<longpole_name, Other> || std::is_convertible_v<const Other &, longpole_name *>);

// Anything else is a mistake, which the compiler reports in one sentence instead of a list of
// overloads that do not match.
template <typename Other, std::enable_if_t<!is_name_v<Other>, int> = 0>
LONGPOLE_INLINE longpole_ref ref(const Other &, bool = false)
{
	static_assert(is_name_v<Other>, "the name of a probe must be a text (const char *, std::string, std::string_view), a longpole::Name or a longpole::Queue");
	return {};
}

// The spelling of a name: whether it is a literal.
template <bool Literal, bool Empty>
struct Spelling {
	static_assert(!Empty, "the name of a probe must not be empty");
	static constexpr bool literal = Literal;
};

// A span needs its name at its end as well.
template <typename Text>
LONGPOLE_INLINE longpole_ref scope_ref(Text &&text, bool literal)
{
	static_assert(std::is_lvalue_reference_v<Text> || std::is_trivially_destructible_v<Text>,
	              "the name of a span must outlive the span: give a temporary string a variable");
	return ref(static_cast<Text &&>(text), literal);
}

// Objects that hold a number: std::atomic, std::integral_constant.
template <typename Value, typename = void>
constexpr bool holds_number_v = false;
template <typename Value>
constexpr bool holds_number_v<Value, std::enable_if_t<std::is_class_v<Value> && std::is_convertible_v<const Value &, typename Value::value_type>>> =
    std::is_scalar_v<typename Value::value_type>;

template <typename Value, std::enable_if_t<!std::is_class_v<Value>, int> = 0>
LONGPOLE_INLINE uint64_t word(Value value)
{
	if constexpr (std::is_floating_point_v<Value>) {
		const double wide = static_cast<double>(value);
		uint64_t bits = 0;
		__builtin_memcpy(&bits, &wide, 8);
		return bits;
	} else if constexpr (std::is_pointer_v<Value>) {
		return reinterpret_cast<uintptr_t>(value);
	} else if constexpr (std::is_null_pointer_v<Value>) {
		return 0;
	} else {
		return static_cast<uint64_t>(value);
	}
}

template <typename Value, std::enable_if_t<std::is_class_v<Value>, int> = 0>
LONGPOLE_INLINE uint64_t word(const Value &value)
{
	if constexpr (holds_number_v<Value>)
		return word(static_cast<typename Value::value_type>(value));
	else
		return static_cast<uint64_t>(value);
}

template <typename Value, std::enable_if_t<!std::is_class_v<Value>, int> = 0>
LONGPOLE_INLINE void counter(longpole_where where, longpole_ref ref, Value value)
{
	static_assert(!is_text_v<Value>, "the value of a counter must be a number, not a text");
	constexpr bool real = std::is_floating_point_v<Value>;
	longpole_probe1(where, ref, LONGPOLE_KIND_COUNTER, real ? 1 : 0, real ? "d:value" : "i:value", word(value));
}

template <typename Value, std::enable_if_t<std::is_class_v<Value>, int> = 0>
LONGPOLE_INLINE void counter(longpole_where where, longpole_ref ref, const Value &value)
{
	static_assert(!std::is_convertible_v<const Value &, std::string_view>, "the value of a counter must be a number, not a text");
	if constexpr (holds_number_v<Value>)
		counter(where, ref, static_cast<typename Value::value_type>(value));
	else
		counter(where, ref, static_cast<uint64_t>(value));
}

// The underlying type of an enumeration; any other type itself.
template <typename Value, bool = std::is_enum_v<Value>>
struct Whole {
	using Type = Value;
};
template <typename Value>
struct Whole<Value, true> {
	using Type = std::underlying_type_t<Value>;
};

template <typename Element>
LONGPOLE_INLINE longpole_array array(const Element *elements, size_t count)
{
	using Number = typename Whole<Element>::Type;
	static_assert(std::is_arithmetic_v<Number> && sizeof(Number) <= 8,
	              "an array has integers, enumerations or floating-point values of up to 8 bytes");
	constexpr char type = std::is_floating_point_v<Number> ? 'd' : std::is_signed_v<Number> ? 'i' : 'u';
	return {elements, count, type, static_cast<char>(sizeof(Element))};
}

// Types with contiguous elements: std::vector, std::array, std::span.
template <typename Value, typename = void>
constexpr bool is_range_v = false;
template <typename Value>
constexpr bool is_range_v<Value, std::void_t<decltype(array(std::declval<const Value &>().data(), std::declval<const Value &>().size()))>> = true;

template <typename Value>
LONGPOLE_INLINE longpole_field field(const char *name, const Value &value)
{
	if constexpr (std::is_same_v<Value, longpole_array>) {
		return {name, value.count, static_cast<const char *>(value.elements), 0, value.type, value.width};
	} else if constexpr (std::is_same_v<Value, longpole_enum>) {
		return {name, static_cast<uint64_t>(value.value), value.labels, 0, 'e', 0};
	} else if constexpr (std::is_array_v<Value> && std::is_convertible_v<const Value &, const char *>) {
		// A text in an array may fill the array without a NUL.
		return {name, 0, value, std::extent_v<Value>, 's', 0};
	} else if constexpr (std::is_array_v<Value>) {
		return field(name, array(value, std::extent_v<Value>));
	} else if constexpr (std::is_null_pointer_v<Value>) {
		return {name, 0, nullptr, 0, 'x', 0};
	} else if constexpr (is_text_v<Value>) {
		return {name, 0, value, LONGPOLE_EVENT_MAXIMUM, 's', 0};
	} else if constexpr (std::is_convertible_v<const Value &, std::string_view>) {
		const std::string_view text = value;
		return {name, 0, text.data(), text.size(), 's', 0};
	} else if constexpr (is_range_v<Value>) {
		return field(name, array(value.data(), value.size()));
	} else if constexpr (holds_number_v<Value>) {
		return field(name, static_cast<typename Value::value_type>(value));
	} else if constexpr (std::is_floating_point_v<Value>) {
		return {name, word(value), nullptr, 0, 'd', 0};
	} else if constexpr (std::is_pointer_v<Value> || std::is_function_v<Value>) {
		return {name, word(value), nullptr, 0, 'x', 0};
	} else if constexpr (std::is_enum_v<Value>) {
		return {name, static_cast<uint64_t>(value), nullptr, 0, std::is_signed_v<std::underlying_type_t<Value>> ? 'i' : 'u', 0};
	} else {
		return {name, static_cast<uint64_t>(value), nullptr, 0, std::is_signed_v<Value> ? 'i' : 'u', 0};
	}
}

template <typename... Fields>
constexpr bool is_pairs_v = sizeof...(Fields) == 0;
template <typename Name, typename Value, typename... Rest>
constexpr bool is_pairs_v<Name, Value, Rest...> = std::is_convertible_v<const Name &, const char *> && is_pairs_v<Rest...>;

LONGPOLE_INLINE void collect(longpole_field *) {}

template <typename Value, typename... Rest>
LONGPOLE_INLINE void collect(longpole_field *at, const char *name, const Value &value, const Rest &...rest)
{
	*at = field(name, value);
	collect(at + 1, rest...);
}

// The text of the name may be a temporary of the call, which lives until the call returns.
template <typename Text, typename... Fields>
LONGPOLE_INLINE void event(longpole_where where, bool literal, Text &&name, const Fields &...fields)
{
	static_assert(is_pairs_v<Fields...>, "each field of an event is a name (const char *) and a value");
	static_assert(sizeof...(fields) <= 2 * LONGPOLE_EVENT_FIELDS, "an event has up to 16 fields");
	longpole_field list[sizeof...(fields) / 2 + 1] = {};
	if constexpr (is_pairs_v<Fields...>)
		collect(list, fields...);
	const longpole_ref called = ref(name, literal);
	longpole_event(&where, &called, list, sizeof...(fields) / 2);
}

// An event that is named after the enclosing function.
template <size_t Size>
struct Here {
	longpole_where where;
	const char (&name)[Size];

	template <typename... Fields>
	__attribute__((always_inline)) LONGPOLE_PLAIN_CODE void operator()(const Fields &...fields) const
	{
		event(where, true, name, fields...);
	}
};

template <size_t Size>
LONGPOLE_INLINE Here<Size> here(longpole_where where, const char (&name)[Size])
{
	return {where, name};
}

// The class ids of a call site, identified by a type of its own. A static variable of an inline
// function would be unique in the process (STB_GNU_UNIQUE), and a library that has one is never
// unloaded.
template <typename Site, unsigned Count>
struct __attribute__((visibility("hidden"))) Ids {
	static inline uint32_t here[Count] = {};
};

// Ends the span of a scope. If this were a call, the span would have to be in memory, even if
// nothing is recorded.
struct Close {
	longpole_span &span;
	__attribute__((always_inline)) LONGPOLE_PLAIN_CODE ~Close() { longpole_span_close(&span); }
};

} // namespace detail
} // namespace longpole

} // extern "C++"

// The spelling of the argument shows if it is a literal, in every build.
#define LONGPOLE_SPELLED__(name) (::longpole::detail::Spelling<#name[0] == '"', #name[0] == '"' && sizeof(#name) == 3>::literal)
#define LONGPOLE_SPELLED_(name) LONGPOLE_SPELLED__(name)
#define LONGPOLE_REF_(name) ::longpole::detail::ref(name, LONGPOLE_SPELLED__(name))
#define LONGPOLE_SCOPE_REF_(name) ::longpole::detail::scope_ref(name, LONGPOLE_SPELLED__(name))
#define LONGPOLE_AGAIN_(name, before) (#name[0] == '"' ? ::longpole::detail::ref(name, true) : before)
#define LONGPOLE_FUNCTION_ ::longpole::detail::ref(__func__, true)
#define LONGPOLE_TEXT_REF_(text) ::longpole::detail::ref(text, false)
#define LONGPOLE_WORD_(value) ::longpole::detail::word(value)
#define LONGPOLE_COUNTER_CALL_(ref, value) ::longpole::detail::counter(longpole_where_, ref, value)
#define LONGPOLE_ARRAY(elements, count) ::longpole::detail::array(elements, count)
#define LONGPOLE_ENUM(value, labels) (longpole_enum{static_cast<int64_t>(value), labels})
#define LONGPOLE_EVENT_NAMED_(...) \
	::longpole::detail::event(longpole_where_, LONGPOLE_SPELLED_(LONGPOLE_FIRST_(__VA_ARGS__)), __VA_ARGS__)
#define LONGPOLE_EVENT_FUNCTION_(...) ::longpole::detail::here(longpole_where_, __func__)(__VA_ARGS__)
#define LONGPOLE_IDS_(ids, count)  \
	struct LONGPOLE_JOIN_(ids, _site); \
	uint32_t *const ids = ::longpole::detail::Ids<struct LONGPOLE_JOIN_(ids, _site), count>::here
#define LONGPOLE_GUARD_
#define LONGPOLE_DISARM_(span) [[maybe_unused]] const ::longpole::detail::Close LONGPOLE_JOIN_(span, _close){span};

#endif

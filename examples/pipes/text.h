// Formats and parses text in buffers without allocation: digits, and fields separated by blanks.

#ifndef PIPES_TEXT_H
#define PIPES_TEXT_H

#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace pipes {

// Appends to a buffer, which the caller has made large enough.
class Pen
{
public:
	explicit Pen(char *at) : at_(at) {}

	void text(std::string_view text)
	{
		std::memcpy(at_, text.data(), text.size());
		at_ += text.size();
	}
	void put(char c) { *at_++ = c; }
	void number(uint64_t value) { at_ = std::to_chars(at_, at_ + 20, value).ptr; }
	// Appends a number with leading zeros.
	void padded(uint64_t value, int digits)
	{
		for (int i = digits; i-- > 0; value /= 10)
			at_[i] = char('0' + value % 10);
		at_ += digits;
	}
	char *at() const { return at_; }

private:
	char *at_;
};

// Takes fields from the start of a line.
class Fields
{
public:
	explicit Fields(std::string_view line) : rest_(line) {}

	std::string_view next()
	{
		size_t end = rest_.find(' ');
		std::string_view field = rest_.substr(0, end);
		rest_.remove_prefix(end == rest_.npos ? rest_.size() : end + 1);
		return field;
	}

private:
	std::string_view rest_;
};

inline uint64_t number(std::string_view field)
{
	uint64_t value = 0;
	std::from_chars(field.data(), field.data() + field.size(), value);
	return value;
}

// Takes the next whole line. `bytes` always ends with a newline.
inline std::string_view take_line(std::string_view &bytes)
{
	size_t end = bytes.find('\n');
	std::string_view line = bytes.substr(0, end);
	bytes.remove_prefix(end == bytes.npos ? bytes.size() : end + 1);
	return line;
}

} // namespace pipes

#endif

// Events from C++ with fields of every kind.
#include <longpole/longpole.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

enum class Colour : int8_t { red = -1, green = 5 };

int main()
{
	const std::vector<int16_t> samples{-1, 2, 32767};
	const std::array<double, 2> reals{{0.5, -1e300}};
	const uint8_t bytes[3] = {0, 1, 255};
	const std::vector<uint64_t> none;
	std::vector<uint32_t> many(5000);
	for (uint32_t i = 0; i < many.size(); i++)
		many[i] = i * i;
	LONGPOLE_EVENT("ranges", "samples", samples, "reals", reals, "bytes", bytes, "none", none, "last", std::string("end"));
	LONGPOLE_EVENT("pointers", "part", LONGPOLE_ARRAY(many.data() + 1, 3), "number", uint64_t{18446744073709551615u}, "null",
	               LONGPOLE_ARRAY(static_cast<const int *>(nullptr), 7));
	for (const Colour colour : {Colour::red, Colour::green, static_cast<Colour>(7)})
		LONGPOLE_EVENT("colour", "as", LONGPOLE_ENUM(colour, "red=-1;dark green=5"), "raw", colour, "bad", LONGPOLE_ENUM(colour, "red="));
	// The array is cut where the event is full, and nothing remains of the text behind it.
	LONGPOLE_EVENT("cut", "many", many, "many_length", 3, "text", "behind");
	// Field names that are equal when converted to identifiers; then atomics and constants as
	// numbers, and a text without a terminating NUL.
	LONGPOLE_EVENT("twins", "a.b", 1, "a_b", 2, "c_4", 3, "c", 4, "c", 5, "", 6);
	const std::atomic<int> whole{-3};
	const std::atomic<double> part{0.5};
	const struct {
		char name[4], after[4];
	} fixed = {{'f', 'u', 'l', 'l'}, "no"};
	LONGPOLE_EVENT("held", "whole", whole, "part", part, "constant", std::integral_constant<short, -7>(), "fixed", fixed.name, "after", fixed.after);
	const std::array<std::byte, 2> raw{{std::byte{1}, std::byte{255}}};
	const Colour colours[] = {Colour::red, Colour::green};
	LONGPOLE_EVENT("enumerations", "bytes", raw, "colours", colours);
	LONGPOLE_COUNTER("held", part);
	LONGPOLE_MARK("held", whole);
	// If the description of the fields is too long, only the name is recorded.
	const std::string names(900, 'n');
	const std::string labels = "a=1;" + std::string(200, 'b') + "=2";
	LONGPOLE_EVENT("too long", (names + "1").c_str(), 1, "colour", LONGPOLE_ENUM(1, labels.c_str()));
	LONGPOLE_EVENT(std::string("made at ") + "run time", "lost", 1);
	longpole::Name name{"handle " + std::to_string(7)};
	LONGPOLE_EVENT(name, "kept", LONGPOLE_ENUM(1, "a=1"), "array", bytes);
}

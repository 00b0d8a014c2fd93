// Which networks exist and what they are called. Networks are the first 24 bits of an IPv4 address.

#ifndef PIPES_NETWORKS_H
#define PIPES_NETWORKS_H

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace pipes {

constexpr size_t known_networks = 4096;
constexpr size_t name_bytes = 16;

struct Name {
	std::array<char, name_bytes> text; // filled up with '-', never a blank
	std::string_view view() const { return {text.data(), text.size()}; }
	bool operator==(const Name &other) const { return text == other.text; }
};

// A number that looks random and is the same in all processes.
inline uint64_t mixed(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

inline uint64_t hash(uint32_t network)
{
	return mixed(network);
}

inline uint64_t hash(const Name &name)
{
	uint64_t words[2];
	static_assert(sizeof words == sizeof name.text, "a name is two words");
	std::memcpy(words, name.text.data(), sizeof words);
	return mixed(words[0] ^ mixed(words[1]));
}

// The network of the index-th customer.
inline uint32_t customer_network(size_t index)
{
	return uint32_t(mixed(index) & 0xffffff);
}

// What the registry of the directory says: the customer's name, or that of the region for anybody else.
class Registry
{
public:
	Registry();
	Name name(uint32_t network) const;

private:
	struct Entry {
		uint32_t network;
		Name name;
	};
	std::vector<Entry> customers_; // ascending
};

// All customers in the order of their numbers, for those who keep a table of their own.
struct Customer {
	uint32_t network;
	Name name;
};
std::vector<Customer> customers();

} // namespace pipes

#endif

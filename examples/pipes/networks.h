// The networks of the example and their names. A network is the first 24 bits of an IPv4 address.

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
	std::array<char, name_bytes> text; // Padded with '-', so that it never contains a blank.
	std::string_view view() const { return {text.data(), text.size()}; }
	bool operator==(const Name &other) const { return text == other.text; }
};

// Mixes the bits of `x` to a pseudo-random number that is the same in all processes.
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

// The network of the customer with this index.
inline uint32_t customer_network(size_t index)
{
	return uint32_t(mixed(index) & 0xffffff);
}

// The registry of the directory: names of customers by their network, and names of regions for all
// other networks.
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
	std::vector<Entry> customers_; // Sorted by network.
};

// Returns all customers in the order of their index, for processes with a table of their own.
struct Customer {
	uint32_t network;
	Name name;
};
std::vector<Customer> customers();

} // namespace pipes

#endif

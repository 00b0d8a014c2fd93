#include "networks.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace pipes {

namespace {

Name make_name(const char *kind, unsigned number)
{
	char text[name_bytes + 1];
	int length = std::snprintf(text, sizeof text, "%s-%u", kind, number);
	Name name;
	name.text.fill('-');
	std::memcpy(name.text.data(), text, std::min(size_t(length), name_bytes));
	return name;
}

} // namespace

std::vector<Customer> customers()
{
	std::vector<Customer> all;
	all.reserve(known_networks);
	for (size_t index = 0; index < known_networks; index++) {
		// Two customers may have the same network, so the name is made from the network and not
		// from the index.
		uint32_t network = customer_network(index);
		all.push_back({network, make_name("cust", network)});
	}
	return all;
}

Registry::Registry()
{
	for (const Customer &customer : customers())
		customers_.push_back({customer.network, customer.name});
	std::sort(customers_.begin(), customers_.end(),
	          [](const Entry &a, const Entry &b) { return a.network < b.network; });
}

Name Registry::name(uint32_t network) const
{
	auto at = std::lower_bound(customers_.begin(), customers_.end(), network,
	                           [](const Entry &entry, uint32_t wanted) { return entry.network < wanted; });
	if (at != customers_.end() && at->network == network)
		return at->name;
	return make_name("region", network >> 16);
}

} // namespace pipes

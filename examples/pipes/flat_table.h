// A hash table in one block of memory. A look-up touches one cache line, where a node-based map
// touches three.

#ifndef PIPES_FLAT_TABLE_H
#define PIPES_FLAT_TABLE_H

#include <cstddef>
#include <utility>
#include <vector>

namespace pipes {

// Keys need `==`, and a function `hash(key)` must be visible. Entries cannot be removed.
template <typename Key, typename Value>
class FlatTable
{
public:
	struct Slot {
		Key key{};
		Value value{};
		bool used = false;
	};

	FlatTable() : slots_(64) {}

	const Value *find(const Key &key) const
	{
		const Slot &slot = slots_[place(key)];
		return slot.used ? &slot.value : nullptr;
	}

	// Returns the value of the key, a new one if there was none.
	Value &operator[](const Key &key)
	{
		size_t at = place(key);
		if (!slots_[at].used) {
			if (++used_ * 2 > slots_.size()) {
				grow();
				at = place(key);
			}
			slots_[at].key = key;
			slots_[at].used = true;
		}
		return slots_[at].value;
	}

	template <typename Visit>
	void each(Visit &&visit) const
	{
		for (const Slot &slot : slots_)
			if (slot.used)
				visit(slot.key, slot.value);
	}

private:
	// Index of the key's slot, or of the slot where it would be inserted. At least half of the
	// slots are free, so the search ends.
	size_t place(const Key &key) const
	{
		size_t mask = slots_.size() - 1;
		size_t at = hash(key) & mask;
		while (slots_[at].used && !(slots_[at].key == key))
			at = (at + 1) & mask;
		return at;
	}

	void grow()
	{
		std::vector<Slot> old(slots_.size() * 2);
		old.swap(slots_);
		for (Slot &slot : old)
			if (slot.used)
				slots_[place(slot.key)] = std::move(slot);
	}

	std::vector<Slot> slots_;
	size_t used_ = 0;
};

} // namespace pipes

#endif

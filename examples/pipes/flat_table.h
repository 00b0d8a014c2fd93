// A hash table in one piece of memory: a look-up touches one cache line where a node-based map touches three.

#ifndef PIPES_FLAT_TABLE_H
#define PIPES_FLAT_TABLE_H

#include <cstddef>
#include <utility>
#include <vector>

namespace pipes {

// Keys need ==, and `hash(key)` must be found. There is no removal.
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

	// The key's value, a new one if there was none.
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
	// Where the key is, or would be. At least half of the slots are free, so the search ends.
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

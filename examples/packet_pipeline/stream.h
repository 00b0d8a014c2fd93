// A packet stream: two queues and a bulk buffer in shared memory.
//
// The producer takes a frame of the bulk buffer, fills it, and puts its descriptor into the submit
// queue. The consumer gets the descriptor, and returns it through the acknowledge queue when the
// frame may be used again. Each queue has one writer and one reader, 1,024 slots of which 1,023 are
// usable, and no lock.
//
// Neither side polls. A side that finds a queue empty (or full) declares in the queue that it waits
// (`arm`), checks the queue once more, and returns to its signal loop. The other side takes that
// declaration (`take_reader_waits`, `take_writer_waits`) when it wakes others, and submits the
// signal. Both "publish, then check for a waiter" and "declare to wait, then check again" are
// sequentially consistent, so no wake-up can be lost.
//
// A queue's probe precedes the store that makes the tokens visible to the other side: the time of a
// put must be earlier than any time at which the other side can take the tokens.

#ifndef PIPELINE_STREAM_H
#define PIPELINE_STREAM_H

#include "frame.h"

#include <atomic>
#include <cstdint>

namespace pipeline {

constexpr uint32_t QUEUE_SLOTS = 1024;
constexpr uint32_t QUEUE_USABLE = QUEUE_SLOTS - 1;
// Number of free slots at which a side that found the queue full is woken. With a single slot it
// would be woken once per packet. A producer collects all acknowledgements before it sleeps, so the
// consumer can always continue until this many slots are free.
constexpr uint32_t ENOUGH_SPACE = QUEUE_SLOTS / 8;
// Enough frames to fill both queues, so that the submit queue becomes full before the frames run
// out.
constexpr uint32_t FRAMES = 2 * QUEUE_SLOTS;
// 25 cache lines. With an even number of lines, frames would start in only half of the sets of a
// cache, or fewer.
constexpr uint32_t FRAME_STRIDE = 1600;

struct Descriptor {
	uint32_t frame;
	uint32_t length;
};

struct QueueMemory {
	alignas(64) std::atomic<uint32_t> head; // Written by the reader.
	alignas(64) std::atomic<uint32_t> tail; // Written by the writer.
	alignas(64) std::atomic<uint32_t> reader_waits;
	alignas(64) std::atomic<uint32_t> writer_waits;
	alignas(64) Descriptor slots[QUEUE_SLOTS];
};

struct StreamMemory {
	QueueMemory submit;
	QueueMemory ack;
	alignas(64) uint8_t bulk[FRAMES * FRAME_STRIDE];
};

// The writer's end. It has copies of its own tail and of the last known head of the reader, so that
// the shared cache lines move between cores only if necessary.
class QueueWriter
{
public:
	explicit QueueWriter(QueueMemory &m) : m_(m), tail_(m.tail.load()), head_(m.head.load()) {}

	// Number of free slots. The reader's head is read again only if fewer than `want` slots are
	// known.
	uint32_t space(uint32_t want)
	{
		uint32_t known = QUEUE_USABLE - (tail_ - head_);
		if (known >= want)
			return known;
		head_ = m_.head.load(std::memory_order_acquire);
		// The head is in shared memory. An invalid one must not be taken for free space.
		uint32_t used = tail_ - head_;
		return used > QUEUE_USABLE ? 0 : QUEUE_USABLE - used;
	}

	Descriptor &slot(uint32_t i) { return m_.slots[(tail_ + i) % QUEUE_SLOTS]; }

	void publish(uint32_t count)
	{
		tail_ += count;
		m_.tail.store(tail_, std::memory_order_release);
	}

	// Declares that the writer waits. Returns true if there is still not enough space; then the
	// reader must wake the writer.
	bool arm()
	{
		m_.writer_waits.store(1, std::memory_order_seq_cst);
		std::atomic_thread_fence(std::memory_order_seq_cst);
		if (space(ENOUGH_SPACE) < ENOUGH_SPACE)
			return true;
		m_.writer_waits.store(0, std::memory_order_relaxed);
		return false;
	}

	bool take_reader_waits()
	{
		std::atomic_thread_fence(std::memory_order_seq_cst);
		return m_.reader_waits.load(std::memory_order_relaxed) && m_.reader_waits.exchange(0);
	}

private:
	QueueMemory &m_;
	uint32_t tail_;
	uint32_t head_;
};

class QueueReader
{
public:
	explicit QueueReader(QueueMemory &m) : m_(m), head_(m.head.load()), tail_(m.tail.load()) {}

	uint32_t available()
	{
		if (tail_ != head_)
			return tail_ - head_;
		uint32_t tail = m_.tail.load(std::memory_order_acquire);
		if (tail - head_ > QUEUE_USABLE)
			return 0; // Not a tail that a correct writer stores.
		tail_ = tail;
		return tail_ - head_;
	}

	// Current number of items; `available` may return an older, lower number.
	uint32_t depth() const { return m_.tail.load(std::memory_order_acquire) - head_; }

	const Descriptor &peek(uint32_t i) const { return m_.slots[(head_ + i) % QUEUE_SLOTS]; }

	void consume(uint32_t count)
	{
		head_ += count;
		m_.head.store(head_, std::memory_order_release);
	}

	// Declares that the reader waits. Returns true if the queue is still empty; then the writer
	// must wake the reader.
	bool arm()
	{
		m_.reader_waits.store(1, std::memory_order_seq_cst);
		std::atomic_thread_fence(std::memory_order_seq_cst);
		if (!available())
			return true;
		m_.reader_waits.store(0, std::memory_order_relaxed);
		return false;
	}

	// Takes the writer's declaration if there is enough space. The tail is stable, because a writer
	// that waits does not move it.
	bool take_writer_waits()
	{
		std::atomic_thread_fence(std::memory_order_seq_cst);
		if (!m_.writer_waits.load(std::memory_order_relaxed))
			return false;
		uint32_t used = m_.tail.load(std::memory_order_acquire) - head_;
		return used + ENOUGH_SPACE <= QUEUE_USABLE && m_.writer_waits.exchange(0);
	}

private:
	QueueMemory &m_;
	uint32_t head_;
	uint32_t tail_;
};

// Frames of a stream that are not in use. The frame freed last is used first, because it is still
// in the cache.
class FreeFrames
{
public:
	FreeFrames()
	{
		for (uint32_t i = 0; i < FRAMES; i++)
			frames_[i] = FRAMES - 1 - i;
	}

	uint32_t count() const { return count_; }
	uint32_t take() { return frames_[--count_]; }

	// The number comes from the peer: one that is no frame, or one more than there are frames, is
	// dropped.
	void give(uint32_t frame)
	{
		if (frame < FRAMES && count_ < FRAMES)
			frames_[count_++] = frame;
	}

private:
	uint32_t count_ = FRAMES;
	uint32_t frames_[FRAMES];
};

// The producer's end of a stream: submits packets and collects acknowledgements.
struct StreamSource {
	QueueWriter submit;
	QueueReader ack;
	FreeFrames free;
	uint8_t *bulk;

	explicit StreamSource(StreamMemory &m) : submit(m.submit), ack(m.ack), bulk(m.bulk) {}
	uint8_t *frame(uint32_t number) { return bulk + size_t{number} * FRAME_STRIDE; }
};

// The consumer's end of a stream.
struct StreamSink {
	QueueReader submit;
	QueueWriter ack;
	uint8_t *bulk;

	explicit StreamSink(StreamMemory &m) : submit(m.submit), ack(m.ack), bulk(m.bulk) {}

	// Returns the frame of a descriptor, or null if the descriptor points outside of the bulk
	// buffer.
	uint8_t *frame(const Descriptor &d)
	{
		return d.frame < FRAMES && d.length <= FRAME_STRIDE ? bulk + size_t{d.frame} * FRAME_STRIDE : nullptr;
	}
};

} // namespace pipeline

#endif

// A packet stream: two queues and a bulk buffer in shared memory.
//
// The producer takes a frame of the bulk buffer, fills it, and puts its descriptor into the submit queue; the consumer
// gets the descriptor, and gives it back through the acknowledge queue when the frame may be used again. Each queue has
// one writer and one reader, 1,024 slots of which 1,023 are usable, and no lock.
//
// Nobody polls. Who finds a queue empty (or full) says so in the queue (`arm_*`), looks once more, and goes to its
// signal loop; the other side takes that word (`take_*`) when it wakes others, and submits the signal. Sequentially
// consistent order between "publish, then look whether somebody waits" and "say that I wait, then look again" is what
// makes a lost wake-up impossible.
//
// A queue's probe stands before the store that makes the tokens visible to the other side: the put's time must lie
// before any time at which the other side can have taken them.

#ifndef PIPELINE_STREAM_H
#define PIPELINE_STREAM_H

#include "frame.h"

#include <atomic>
#include <cstdint>

namespace pipeline {

constexpr uint32_t QUEUE_SLOTS = 1024;
constexpr uint32_t QUEUE_USABLE = QUEUE_SLOTS - 1;
// Who has found a queue full is woken when so many slots are free: for a single one it would be woken per packet. Before a producer
// sleeps on this it has collected all acknowledgements, so the consumer can always go on until there are so many.
constexpr uint32_t ENOUGH_SPACE = QUEUE_SLOTS / 8;
// enough frames to fill both queues, so that a full submit queue is met before the frames run out
constexpr uint32_t FRAMES = 2 * QUEUE_SLOTS;
// An odd number of cache lines, so that the frames spread over all sets of a cache.
constexpr uint32_t FRAME_STRIDE = 1600;

struct Descriptor {
	uint32_t frame;
	uint32_t length;
};

struct QueueMemory {
	alignas(64) std::atomic<uint32_t> head; // written by the reader
	alignas(64) std::atomic<uint32_t> tail; // written by the writer
	alignas(64) std::atomic<uint32_t> reader_waits;
	alignas(64) std::atomic<uint32_t> writer_waits;
	alignas(64) Descriptor slots[QUEUE_SLOTS];
};

struct StreamMemory {
	QueueMemory submit;
	QueueMemory ack;
	alignas(64) uint8_t bulk[FRAMES * FRAME_STRIDE];
};

// The writer's end. It keeps its own tail, and the reader's head as last seen, so that the shared lines move between
// the cores only when they must.
class QueueWriter
{
public:
	explicit QueueWriter(QueueMemory &m) : m_(m), tail_(m.tail.load()), head_(m.head.load()) {}

	// At least `want` if there is so much space; the reader's head is only read again if what is known does not do.
	uint32_t space(uint32_t want)
	{
		uint32_t known = QUEUE_USABLE - (tail_ - head_);
		if (known >= want)
			return known;
		head_ = m_.head.load(std::memory_order_acquire);
		// a head that is no head would make space that is none
		uint32_t used = tail_ - head_;
		return used > QUEUE_USABLE ? 0 : QUEUE_USABLE - used;
	}

	Descriptor &slot(uint32_t i) { return m_.slots[(tail_ + i) % QUEUE_SLOTS]; }

	void publish(uint32_t count)
	{
		tail_ += count;
		m_.tail.store(tail_, std::memory_order_release);
	}

	// True if there is still not enough space, so that the next word is the reader's.
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
			return 0; // no tail of a sane writer
		tail_ = tail;
		return tail_ - head_;
	}

	// What there is now; `available` says what there was when it last had to look.
	uint32_t depth() const { return m_.tail.load(std::memory_order_acquire) - head_; }

	const Descriptor &peek(uint32_t i) const { return m_.slots[(head_ + i) % QUEUE_SLOTS]; }

	void consume(uint32_t count)
	{
		head_ += count;
		m_.head.store(head_, std::memory_order_release);
	}

	// True if the queue is still empty, so that the next word is the writer's.
	bool arm()
	{
		m_.reader_waits.store(1, std::memory_order_seq_cst);
		std::atomic_thread_fence(std::memory_order_seq_cst);
		if (!available())
			return true;
		m_.reader_waits.store(0, std::memory_order_relaxed);
		return false;
	}

	// A writer that waits does not move its tail.
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

// The frames of a stream that are not under way. The one freed last is used first, since it is still in the cache.
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

	// What came back is the peer's word: a number that is no frame, or one frame too many, is dropped.
	void give(uint32_t frame)
	{
		if (frame < FRAMES && count_ < FRAMES)
			frames_[count_++] = frame;
	}

private:
	uint32_t count_ = FRAMES;
	uint32_t frames_[FRAMES];
};

// The producer's end of a stream: submits packets, collects acknowledgements.
struct StreamSource {
	QueueWriter submit;
	QueueReader ack;
	FreeFrames free;
	uint8_t *bulk;

	explicit StreamSource(StreamMemory &m) : submit(m.submit), ack(m.ack), bulk(m.bulk) {}
	uint8_t *frame(uint32_t number) { return bulk + size_t{number} * FRAME_STRIDE; }
};

// The consumer's end.
struct StreamSink {
	QueueReader submit;
	QueueWriter ack;
	uint8_t *bulk;

	explicit StreamSink(StreamMemory &m) : submit(m.submit), ack(m.ack), bulk(m.bulk) {}

	// The frame of a descriptor, or null where the descriptor points out of the bulk buffer.
	uint8_t *frame(const Descriptor &d)
	{
		return d.frame < FRAMES && d.length <= FRAME_STRIDE ? bulk + size_t{d.frame} * FRAME_STRIDE : nullptr;
	}
};

} // namespace pipeline

#endif

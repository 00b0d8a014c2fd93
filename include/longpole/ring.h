/*
 * The hot path: a thread writes an event into its own ring.
 *
 * A ring has one writer and one reader. The fast path needs no lock, no atomic read-modify-write
 * and no system call. The first cache line of the ring header (the thread's line) holds everything
 * that it needs; the recorder's line is read only between two sub-buffers. If a probe in a signal
 * handler interrupts another probe, it finds the ring busy and stores its event in the side area.
 * The interrupted probe moves it from there into the ring.
 */
#ifndef LONGPOLE_RING_H
#define LONGPOLE_RING_H

#include "thread.h"

#if defined(__cplusplus)
extern "C" {
#endif

#define LONGPOLE_LOST LONGPOLE_U64_MAX

LONGPOLE_INLINE uint64_t longpole_event_header(uint32_t id, uint64_t time)
{
	return (time << 16) | id;
}

/*
 * Takes the ring, and stores the stack pointer of the probe in `busy`. That costs no more than
 * storing a flag, and shows later if the probe can still be running.
 */
LONGPOLE_INLINE void longpole_occupy(struct longpole_ring *ring)
{
#if defined(__x86_64__)
	__asm__ __volatile__("{movq %%rsp, %0|mov %0, rsp}" : "=m"(ring->busy));
#else
	uint64_t here;
	__asm__ __volatile__("mov %0, sp" : "=r"(here));
	__atomic_store_n(&ring->busy, here, __ATOMIC_RELAXED);
#endif
	LONGPOLE_COMPILER_BARRIER();
}

/*
 * Waits for a bounded time until the recorder has taken data; returns 0 if it did not. The ring is
 * busy meanwhile, so probes in signal handlers use the side area. If the recorder is gone, only one
 * event waits, not every event: `gave_up` stores for which tail a wait failed.
 */
LONGPOLE_SLOW int longpole_wait_for_room(struct longpole_ring *ring)
{
	const int64_t pause[2] = {0, 50000};
	const uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	if (ring->gave_up == tail + 1)
		return 0;
	const uint64_t begin = longpole_mono_raw();
	const uint64_t longest = ring->block_limit < LONGPOLE_BLOCK_MAXIMUM ? ring->block_limit : LONGPOLE_BLOCK_MAXIMUM;
	int done = 0, over = 0;
	uint64_t waited = 0;
	while (!done && !over) {
		longpole_call(SYS_nanosleep, (uintptr_t)pause, 0, 0, 0, 0, 0);
		done = longpole_next_is_free(ring) || __atomic_load_n(&ring->successor, __ATOMIC_ACQUIRE) != 0;
		waited = longpole_mono_raw() - begin;
		over = waited >= longest * 1000 || __atomic_load_n(&longpole_page.orders.mask, __ATOMIC_RELAXED) == 0;
	}
	ring->waited += waited;
	ring->gave_up = done ? 0 : __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) + 1;
	return done;
}

/*
 * Finds room for an event of `size` bytes when the fast path could not, and begins the next
 * sub-buffer if it is free. The ring must be busy. Returns the position to write at, or
 * LONGPOLE_LOST after counting the event as lost. `current` may be replaced by a larger ring.
 */
LONGPOLE_SLOW uint64_t longpole_advance(struct longpole_ring **current, uint64_t size)
{
	struct longpole_ring *ring = *current;
	if (ring->head + size <= ring->end)
		return ring->head;
	uint64_t next = longpole_next_subbuffer(ring);
	if (ring->head != 0) {
		struct longpole_subbuffer *complete = longpole_subbuffer_at(ring, next - ring->subbuffer);
		complete->content = ring->head - (next - ring->subbuffer);
		/* The next sub-buffer may begin much later. Events that are lost in between are later than
		 * this one. */
		complete->last = ring->last;
	}
	for (;;) {
		const uint32_t successor = __atomic_load_n(&ring->successor, __ATOMIC_ACQUIRE);
		if (LONGPOLE_UNLIKELY(successor != 0)) {
			ring = *current = longpole_switch_to_larger_ring(ring, successor);
			next = longpole_next_subbuffer(ring);
		}
		const int fits = size <= ring->subbuffer - LONGPOLE_SUBBUFFER_HEADER;
		if (fits && longpole_has_room(ring))
			break;
		if (fits && ring->mode == LONGPOLE_MODE_BLOCK && longpole_wait_for_room(ring))
			continue;
		__atomic_fetch_add(&ring->lost, 1, __ATOMIC_RELEASE);
		/* Seal the sub-buffer, so that later smaller events do not fit into its rest: the loss must
		 * be counted before any later event. */
		if (fits)
			longpole_seal(ring);
		return LONGPOLE_LOST;
	}
	struct longpole_subbuffer *begun = longpole_subbuffer_at(ring, next);
	/* A reader that copies the old content must see that it is gone before it changes. */
	__atomic_store_n(&begun->position, next + 1, __ATOMIC_RELAXED);
	LONGPOLE_STORE_BARRIER();
	begun->begin = longpole_now(ring);
	begun->content = 0;
	begun->last = 0;
	begun->lost = ring->lost;
	begun->pid = ring->pid;
	begun->tid = ring->tid;
	__builtin_memcpy(begun->thread, ring->thread, sizeof begun->thread);
	begun->events = ring->events;
	__atomic_store_n(&begun->position, next, __ATOMIC_RELEASE);
	ring->end = next + ring->subbuffer;
	/* If the clock is not the counter, a limit of 0 makes every event take the slow path, so the
	 * fast path does not have to check the clock. */
	ring->limit = ring->clock == LONGPOLE_CLOCK_MONO_RAW ? 0 : ring->end;
	return next + LONGPOLE_SUBBUFFER_HEADER;
}

LONGPOLE_INLINE uint64_t *longpole_place(struct longpole_ring *ring, uint64_t position)
{
	return (uint64_t *)(void *)((char *)ring + LONGPOLE_RING_DATA + (position & ring->mask));
}

/* Moves the time of an event back to that of the earliest event in the side area, before which it
 * is written. */
LONGPOLE_SLOW uint64_t longpole_restamp(const struct longpole_ring *ring, uint64_t header)
{
	for (uint32_t i = 0; i < ring->nested && i < LONGPOLE_SIDE_ENTRIES; i++) {
		uint64_t other;
		__builtin_memcpy(&other, ring->side[i], 8);
		/* An event that did not fit into the side area has no time. */
		if (other != 0 && (int64_t)((other & ~(uint64_t)0xffff) - (header & ~(uint64_t)0xffff)) < 0)
			header = (other & ~(uint64_t)0xffff) | (header & 0xffff);
	}
	return header;
}

LONGPOLE_SLOW void longpole_flush_nested(struct longpole_ring *ring);

/* Moves the start of a sub-buffer back to the time of its first event, if that event was dated back
 * by longpole_restamp. */
LONGPOLE_INLINE void longpole_settle(struct longpole_ring *ring, uint64_t position, uint64_t header)
{
	const uint64_t begin = position - LONGPOLE_SUBBUFFER_HEADER;
	if (begin % ring->subbuffer == 0) {
		struct longpole_subbuffer *begun = longpole_subbuffer_at(ring, begin);
		const int64_t late = (int64_t)((begun->begin << 16) - (header & ~(uint64_t)0xffff)) >> 16;
		if (late > 0)
			begun->begin -= (uint64_t)late;
	}
}

/* Stores an event as the next entry of the side area; returns 0 if the area is full. An entry
 * consists of a header, up to 6 words, and the number of words. An event with more words has the
 * header 0, and is counted as lost when it is taken out. */
LONGPOLE_SLOW int longpole_store_in_side_area(struct longpole_ring *ring, uint64_t header, const uint64_t *words, uint64_t count)
{
	const uint32_t at = __atomic_fetch_add(&ring->nested, 1, __ATOMIC_RELAXED);
	uint64_t entry[8] = {0, 0, 0, 0, 0, 0, 0, 0};
	if (at >= LONGPOLE_SIDE_ENTRIES) {
		__atomic_fetch_sub(&ring->nested, 1, __ATOMIC_RELAXED);
		return 0;
	}
	if (count <= LONGPOLE_SIDE_WORDS) {
		entry[0] = header;
		__builtin_memcpy(entry + 1, words, 8 * count);
		entry[7] = count;
	}
	__builtin_memcpy(ring->side[at], entry, sizeof entry);
	return 1;
}

/*
 * The rest of longpole_commit, if there are events in the side area. They are from handlers that
 * interrupted this probe, or from before this probe if it is in a handler that came just before the
 * interrupted probe moved them. The event of this probe becomes another entry, so that the move
 * sorts all by time. An event that is too large for an entry is written first, with the earliest
 * time in the area; longpole_take has moved all entries from before such an event.
 */
LONGPOLE_SLOW void longpole_commit_nested(struct longpole_ring *ring, uint64_t *place, uint64_t header, uint64_t head, uint64_t size)
{
	const uint64_t words = size / 8 - 1;
	const int is_stored = words <= LONGPOLE_SIDE_WORDS && ring->head + size == head && longpole_store_in_side_area(ring, header, place + 1, words);
	if (!is_stored) {
		header = longpole_restamp(ring, header);
		place[0] = header;
		ring->last = header;
		ring->events++;
		__atomic_store_n(&ring->head, head, __ATOMIC_RELEASE);
	}
	longpole_flush_nested(ring);
}

/*
 * Makes the event written at `position` visible and releases the ring. Rare cases are tail calls:
 * if there were anything to do after such a call, the compiler would save registers for it in every
 * probe.
 */
LONGPOLE_INLINE void longpole_commit(struct longpole_ring *ring, uint64_t *place, uint64_t header, uint64_t position, uint64_t size)
{
	LONGPOLE_COMPILER_BARRIER();
	if (LONGPOLE_UNLIKELY(__atomic_load_n(&ring->nested, __ATOMIC_RELAXED) != 0)) {
		longpole_commit_nested(ring, place, header, position + size, size);
		return;
	}
	place[0] = header;
	ring->last = header;
	ring->events++;
	__atomic_store_n(&ring->head, position + size, __ATOMIC_RELEASE);
	LONGPOLE_COMPILER_BARRIER();
	__atomic_store_n(&ring->busy, 0, __ATOMIC_RELEASE);
	LONGPOLE_COMPILER_BARRIER();
	if (LONGPOLE_UNLIKELY(__atomic_load_n(&ring->nested, __ATOMIC_RELAXED) != 0))
		longpole_flush_nested(ring);
}

/* Ends a probe: releases the ring and moves the events that handlers left into it. */
LONGPOLE_INLINE void longpole_release_ring(struct longpole_ring *ring)
{
	LONGPOLE_COMPILER_BARRIER();
	__atomic_store_n(&ring->busy, 0, __ATOMIC_RELEASE);
	LONGPOLE_COMPILER_BARRIER();
	if (LONGPOLE_UNLIKELY(__atomic_load_n(&ring->nested, __ATOMIC_RELAXED) != 0))
		longpole_flush_nested(ring);
}

/* Stores the event of a probe in a handler that interrupted another probe. */
LONGPOLE_SLOW void longpole_emit_nested(struct longpole_ring *ring, uint32_t id, const uint64_t *words, uint32_t count)
{
	if (!longpole_store_in_side_area(ring, longpole_event_header(id, longpole_now(ring)), words, count)) {
		__atomic_fetch_add(&ring->nested_lost, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&ring->lost, 1, __ATOMIC_RELEASE);
	}
}

/* Moves the events that handlers left in the side area into the ring, sorted by time. */
LONGPOLE_SLOW void longpole_flush_nested(struct longpole_ring *ring)
{
	while (__atomic_load_n(&ring->nested, __ATOMIC_RELAXED) != 0) {
		longpole_occupy(ring);
		uint8_t count = __atomic_load_n(&ring->nested, __ATOMIC_RELAXED);
		uint8_t done = 0;
		do {
			uint64_t entry[LONGPOLE_SIDE_ENTRIES][8];
			uint32_t n = 0;
			for (; done < count && done < LONGPOLE_SIDE_ENTRIES; done++) {
				__builtin_memcpy(entry[n], ring->side[done], sizeof entry[n]);
				if (entry[n][7] > LONGPOLE_SIDE_WORDS)
					continue;
				if (entry[n][0] == 0) {
					__atomic_fetch_add(&ring->nested_lost, 1, __ATOMIC_RELAXED);
					__atomic_fetch_add(&ring->lost, 1, __ATOMIC_RELEASE);
					__builtin_memset(ring->side[done] + 56, 0xff, 8);
					continue;
				}
				n++;
				for (uint32_t i = n - 1; i > 0 && (int64_t)(entry[i - 1][0] - entry[i][0]) > 0; i--) {
					uint64_t other[8];
					__builtin_memcpy(other, entry[i], sizeof other);
					__builtin_memcpy(entry[i], entry[i - 1], sizeof other);
					__builtin_memcpy(entry[i - 1], other, sizeof other);
				}
			}
			for (uint32_t i = 0; i < n; i++) {
				const uint64_t size = 8 + 8 * entry[i][7];
				const uint64_t position = longpole_advance(&ring, size);
				if (position == LONGPOLE_LOST)
					continue;
				uint64_t *place = longpole_place(ring, position);
				longpole_settle(ring, position, entry[i][0]);
				__builtin_memcpy(place, entry[i], size);
				ring->last = place[0];
				ring->events++;
				__atomic_store_n(&ring->head, position + size, __ATOMIC_RELEASE);
			}
			/* Handlers may have added more entries meanwhile; then the compare-and-exchange fails
			 * and those are moved, too. */
		} while (!__atomic_compare_exchange_n(&ring->nested, &count, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
		LONGPOLE_COMPILER_BARRIER();
		__atomic_store_n(&ring->busy, 0, __ATOMIC_RELEASE);
		LONGPOLE_COMPILER_BARRIER();
	}
}

/*
 * Limit in bytes for the distance between the stack pointers of two probes. The kernel leaves more
 * than this between an interrupted function and its handler, and the frames of a probe itself take
 * less. ThreadSanitizer is an exception: it replaces atomic accesses by calls, and runs handlers in
 * these calls.
 */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LONGPOLE_SIGNAL_FRAME 0u
#endif
#endif
#if defined(LONGPOLE_SIGNAL_FRAME)
#elif defined(__SANITIZE_THREAD__)
#define LONGPOLE_SIGNAL_FRAME 0u
#elif defined(__x86_64__)
#define LONGPOLE_SIGNAL_FRAME 1024u
#else
#define LONGPOLE_SIGNAL_FRAME 4096u
#endif

/*
 * Returns 1 if the probe that took the ring will never continue: its handler was left by a jump
 * (longjmp), its thread is being cancelled, or the child of a vfork ended in it. In these cases the
 * new probe, whose stack pointer is `here`, is not deeper on the stack than the old one. On an
 * alternate signal stack stack pointers cannot be compared, so the result is 0.
 */
LONGPOLE_SLOW int longpole_probe_was_abandoned(const struct longpole_ring *ring, uintptr_t here)
{
	struct {
		uintptr_t begin;
		int32_t flags, spare;
		uintptr_t size;
	} stack = {0, 0, 0, 0};
	const uintptr_t taken = (uintptr_t)ring->busy;
	const int shallow = here + LONGPOLE_SIGNAL_FRAME > taken;
	if (!shallow && ring->nested < LONGPOLE_SIDE_ENTRIES)
		return 0;
	if (longpole_call(SYS_sigaltstack, 0, (uintptr_t)&stack, 0, 0, 0, 0) < 0 || (stack.flags & 1 /* SS_ONSTACK */) != 0)
		return 0;
	return shallow || taken - stack.begin < stack.size;
}

/* Takes this thread's ring; attaches one if the thread has none. Returns NULL if there is none.
 * Sets `nested` to 1 if an interrupted probe of this thread holds the ring. */
LONGPOLE_SLOW struct longpole_ring *longpole_take(int *nested)
{
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	*nested = 0;
	for (;;) {
		struct longpole_ring *ring = __atomic_load_n(&longpole_thread, __ATOMIC_RELAXED);
		/* The thread has no ring yet, or only that of its parent process. */
		if (!longpole_is_open(ring) && (ring = longpole_attach()) == NULL)
			return NULL;
		if (__atomic_load_n(&ring->busy, __ATOMIC_RELAXED) != 0) {
			if (longpole_probe_was_abandoned(ring, here)) {
				/* The event of the abandoned probe was either completed or never visible. The
				 * events that handlers left in the side area are moved into the ring. A sub-buffer
				 * without any event is begun again. */
				longpole_mark_moved_side_entries(ring);
				if (ring->end - ring->head > ring->subbuffer - LONGPOLE_SUBBUFFER_HEADER)
					longpole_seal(ring);
				longpole_release_ring(ring);
				continue;
			}
			*nested = 1;
			return ring;
		}
		longpole_occupy(ring);
		const int ended = __atomic_load_n(&ring->state, __ATOMIC_RELAXED) == LONGPOLE_RING_ENDED;
		if (LONGPOLE_LIKELY(__atomic_load_n(&longpole_thread, __ATOMIC_RELAXED) == ring && !ended)) {
			if (LONGPOLE_LIKELY(__atomic_load_n(&ring->nested, __ATOMIC_RELAXED) == 0))
				return ring;
			/* These events are from before this probe: it is in a handler that came just before the
			 * interrupted probe moved them. */
			longpole_flush_nested(ring);
			continue;
		}
		/*
		 * The ring was replaced by a larger one: by a handler since the pointer was read, or before
		 * that by another library of this thread.
		 */
		__atomic_store_n(&ring->busy, 0, __ATOMIC_RELAXED);
		if (ended && __atomic_load_n(&longpole_thread, __ATOMIC_RELAXED) == ring && !longpole_adopt_larger_ring(ring))
			return NULL;
	}
}

/* Room for one event in a ring that is taken. The header of the event is written last. */
struct longpole_room {
	struct longpole_ring *ring; /* NULL: there is no room; the loss is counted and the ring released */
	uint64_t *place;
	uint64_t header, position;
};

/* Finds room for an event. The ring may be replaced by a larger one; the caller must use the one in
 * the result. */
LONGPOLE_SLOW struct longpole_room longpole_make_room(struct longpole_ring *ring, uint32_t id, uint64_t size)
{
	struct longpole_room room = {NULL, NULL, 0, 0};
	room.position = longpole_advance(&ring, size);
	if (room.position == LONGPOLE_LOST) {
		longpole_release_ring(ring);
		return room;
	}
	room.ring = ring;
	room.place = longpole_place(ring, room.position);
	room.header = longpole_restamp(ring, longpole_event_header(id, longpole_now(ring)));
	longpole_settle(ring, room.position, room.header);
	return room;
}

/* The slow path of a probe: the thread has no ring yet, the ring is busy, the sub-buffer is full,
 * or the clock is not the counter. */
LONGPOLE_SLOW void longpole_emit_slow(uint32_t id, const uint64_t *words, uint32_t count)
{
	int nested;
	struct longpole_ring *ring = longpole_take(&nested);
	if (ring == NULL)
		return;
	if (nested) {
		longpole_emit_nested(ring, id, words, count);
		return;
	}
	const uint64_t size = 8 + 8 * (uint64_t)count;
	const struct longpole_room room = longpole_make_room(ring, id, size);
	if (room.ring == NULL)
		return;
	for (uint32_t i = 0; i < count; i++)
		room.place[1 + i] = words[i];
	longpole_commit(room.ring, room.place, room.header, room.position, size);
}

/* The slow path with its words in registers. If it took them from memory, every probe would store
 * them there, also on the fast path. */
LONGPOLE_SLOW void longpole_emit_words(uint32_t id, uint32_t count, uint64_t a, uint64_t b, uint64_t c)
{
	const uint64_t words[3] = {a, b, c};
	longpole_emit_slow(id, words, count);
}

/*
 * The fast path, for events of up to 3 words after the header; `count` is a compile-time constant.
 */
LONGPOLE_INLINE void longpole_emit(uint32_t id, const uint64_t *words, uint32_t count)
{
	struct longpole_ring *ring = longpole_thread;
	const uint64_t size = 8 + 8 * (uint64_t)count;
	if (LONGPOLE_LIKELY(longpole_is_open(ring)) && LONGPOLE_LIKELY(ring->busy == 0)) {
		longpole_occupy(ring);
		const uint64_t position = ring->head;
		if (LONGPOLE_LIKELY(position + size <= ring->limit)) {
			uint64_t *place = longpole_place(ring, position);
			const uint64_t header = longpole_event_header(id, longpole_counter());
			for (uint32_t i = 0; i < count; i++)
				place[1 + i] = words[i];
			longpole_commit(ring, place, header, position, size);
			return;
		}
		/* The slow path takes the ring again. It also moves events that handlers left in the side
		 * area since the ring was taken. */
		LONGPOLE_COMPILER_BARRIER();
		__atomic_store_n(&ring->busy, 0, __ATOMIC_RELEASE);
		LONGPOLE_COMPILER_BARRIER();
	}
	longpole_emit_words(id, count, count > 0 ? words[0] : 0, count > 1 ? words[1] : 0, count > 2 ? words[2] : 0);
}

/* A part of an event whose size is known only at run time. Every part is padded to a multiple of 8
 * bytes. */
struct longpole_part {
	const void *bytes;
	uint32_t size;
	uint32_t terminated; /* 1 if a NUL follows; the part itself must contain none */
};

#define LONGPOLE_EVENT_MAXIMUM 4096u

LONGPOLE_INLINE uint32_t longpole_padded(const struct longpole_part *part)
{
	return (part->size + (part->terminated ? 8u : 7u)) & ~7u;
}

/* Writes an event that consists of parts. The caller must have cut them so that the event fits into
 * LONGPOLE_EVENT_MAXIMUM. */
LONGPOLE_SLOW void longpole_emit_parts(uint32_t id, const struct longpole_part *parts, uint32_t count, int packet)
{
	uint64_t size = 8;
	for (uint32_t i = 0; i < count; i++)
		size += longpole_padded(&parts[i]);
	int nested;
	struct longpole_ring *ring = longpole_take(&nested);
	if (ring == NULL)
		return;
	if (nested) {
		uint64_t words[6] = {0, 0, 0, 0, 0, 0};
		const int fits = size <= 8 + sizeof words;
		char *at = (char *)words;
		for (uint32_t i = 0; fits && i < count; i++) {
			longpole_copy(at, parts[i].bytes, parts[i].size);
			at += longpole_padded(&parts[i]);
		}
		ring->packets |= (uint8_t)packet;
		longpole_emit_nested(ring, id, words, fits ? (uint32_t)(size / 8 - 1) : 7);
		return;
	}
	const struct longpole_room room = longpole_make_room(ring, id, size);
	if (room.ring == NULL)
		return;
	char *at = (char *)(room.place + 1);
	/* Must come after the ring may have been replaced and before the event becomes visible. */
	room.ring->packets |= (uint8_t)packet;
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t padded = longpole_padded(&parts[i]);
		if (padded != 0)
			__builtin_memset(at + padded - 8, 0, 8);
		longpole_copy(at, parts[i].bytes, parts[i].size);
		at += padded;
	}
	longpole_commit(room.ring, room.place, room.header, room.position, size);
}

#if defined(__cplusplus)
}
#endif

#endif

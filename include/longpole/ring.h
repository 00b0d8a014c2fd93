/*
 * The hot path: a thread writes an event into its own ring.
 *
 * One writer, one reader, no lock, no atomic read-modify-write, no system call. The thread's line of the ring header holds all that
 * is needed; the recorder's line is looked at only between two sub-buffers. A probe in a signal handler that interrupted a
 * probe finds the ring busy and leaves its event in the side area, from which the interrupted probe takes it.
 */
#ifndef LONGPOLE_RING_H
#define LONGPOLE_RING_H

#include "process.h"

#if defined(__cplusplus)
extern "C" {
#endif

#define LONGPOLE_LOST UINT64_MAX

LONGPOLE_INLINE uint64_t longpole_now(const struct longpole_ring *ring)
{
	return ring->clock == LONGPOLE_CLOCK_MONO_RAW ? longpole_mono_raw() : longpole_counter();
}

LONGPOLE_INLINE uint64_t longpole_event_header(uint32_t id, uint64_t time)
{
	return (time << 16) | id;
}

/* Blocks signals: a handler must not come here a second time. */
LONGPOLE_INLINE uint64_t longpole_block_signals(void)
{
	const uint64_t all = ~(uint64_t)0;
	uint64_t before = 0;
	longpole_call(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, (uintptr_t)&all, (uintptr_t)&before, 8, 0, 0);
	return before;
}

LONGPOLE_INLINE void longpole_restore_signals(uint64_t before)
{
	longpole_call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (uintptr_t)&before, 0, 8, 0, 0);
}

LONGPOLE_INLINE void longpole_lock(struct longpole_process *process)
{
	const int64_t pause[2] = {0, 50000};
	/* Sleeping, not yielding: the holder may have a lower priority. */
	while (__atomic_exchange_n(&process->lock, 1, __ATOMIC_ACQUIRE) != 0)
		longpole_call(SYS_nanosleep, (uintptr_t)pause, 0, 0, 0, 0, 0);
}

LONGPOLE_INLINE void longpole_unlock(struct longpole_process *process)
{
	__atomic_store_n(&process->lock, 0, __ATOMIC_RELEASE);
}

/* Where the next sub-buffer begins. */
LONGPOLE_INLINE uint64_t longpole_next_subbuffer(const struct longpole_ring *ring)
{
	return (ring->head + ring->subbuffer - 1) / ring->subbuffer * ring->subbuffer;
}

LONGPOLE_INLINE struct longpole_subbuffer *longpole_subbuffer_at(struct longpole_ring *ring, uint64_t position)
{
	return (struct longpole_subbuffer *)(void *)((char *)ring + LONGPOLE_RING_DATA + (position & ring->mask));
}

LONGPOLE_INLINE int longpole_next_is_free(const struct longpole_ring *ring)
{
	return longpole_next_subbuffer(ring) + ring->subbuffer <= __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) + ring->size;
}

/* Closes the current sub-buffer early: the next event begins another. */
LONGPOLE_INLINE void longpole_seal(struct longpole_ring *ring)
{
	ring->end = ring->head;
	ring->limit = 0;
}

LONGPOLE_INLINE void longpole_own(struct longpole_ring *ring, int tid)
{
	ring->pid = longpole_page.pid;
	ring->tid = tid;
	/* The thread before may have left a handler by a jump; what its interrupted probe was to take along is lost. */
	__atomic_fetch_add(&ring->lost, ring->nested, __ATOMIC_RELEASE);
	ring->nested = 0;
	ring->busy = 0;
	longpole_call(SYS_prctl, 16 /* PR_GET_NAME */, (uintptr_t)ring->thread, 0, 0, 0, 0);
	__atomic_store_n(&ring->state, LONGPOLE_RING_OWNED, __ATOMIC_RELEASE);
}

/* Makes a ring file for this thread. NULL, and the reason in the control file, if there is no memory to be had. */
LONGPOLE_SLOW struct longpole_ring *longpole_make_ring(struct longpole_process *process)
{
	char name[64], temporary[64];
	struct longpole_control *control = &longpole_page;
	uint64_t size = control->orders.ring_size;
	if (size < LONGPOLE_RING_MINIMUM || size > (1u << 30) || (size & (size - 1)) != 0)
		size = LONGPOLE_RING_MINIMUM;
	long directory = longpole_open_directory(process->directory);
	if (directory < 0) {
		control->refused_errno = 2;
		return NULL;
	}
	struct longpole_ring *ring = NULL;
	long file = longpole_create((int)directory, temporary, sizeof temporary, LONGPOLE_RING_DATA + size);
	if (file >= 0) {
		ring = (struct longpole_ring *)longpole_map(NULL, 0, LONGPOLE_RING_DATA + size, (int)file, 1);
		longpole_close((int)file);
		if (ring != NULL) {
			const uint32_t number = control->rings;
			ring->mask = size - 1;
			ring->magic = LONGPOLE_ABI_MAGIC;
			ring->version = LONGPOLE_ABI_VERSION;
			ring->number = number;
			ring->size = size;
			ring->subbuffer = size / LONGPOLE_RING_SUBBUFFERS;
			ring->clock = control->orders.clock;
			longpole_own(ring, longpole_gettid());
			size_t length = longpole_append(name, sizeof name, 0, process->stem);
			length = longpole_append(name, sizeof name, length, ".");
			length = longpole_append_number(name, sizeof name, length, number, 10, 0);
			longpole_append(name, sizeof name, length, ".ring");
			long published = longpole_publish((int)directory, temporary, name);
			if (published < 0) {
				longpole_unmap(ring, LONGPOLE_RING_DATA + size);
				ring = NULL;
				file = published;
			} else {
				__atomic_store_n(&control->rings, number + 1, __ATOMIC_RELEASE);
			}
		} else {
			longpole_call(SYS_unlinkat, (uintptr_t)directory, (uintptr_t)temporary, 0, 0, 0, 0);
			file = -12;
		}
	}
	longpole_close((int)directory);
	if (ring == NULL)
		control->refused_errno = (uint32_t)-file;
	return ring;
}

/* Threads that ended without running destructors leave entries behind; their rings serve others. */
LONGPOLE_SLOW void longpole_reclaim(struct longpole_process *process)
{
	for (uint32_t i = 0; i < process->entries; i++) {
		struct longpole_entry *entry = &process->entry[i];
		if (entry->tid != 0 && longpole_call(SYS_tgkill, (uintptr_t)longpole_page.pid, (uintptr_t)entry->tid, 0, 0, 0, 0) == -3 /* ESRCH */) {
			longpole_seal(entry->ring);
			__atomic_store_n(&entry->ring->state, LONGPOLE_RING_IDLE, __ATOMIC_RELEASE);
			entry->tid = 0;
			entry->users = 0;
		}
	}
}

/* The entry of this thread, taken from the pool or made, with a user more; NULL without memory. The table is locked. */
LONGPOLE_SLOW struct longpole_entry *longpole_take_entry(struct longpole_process *process)
{
	const int tid = longpole_gettid();
	struct longpole_entry *idle = NULL;
	for (uint32_t i = 0; i < process->entries; i++) {
		struct longpole_entry *entry = &process->entry[i];
		if (entry->tid == tid) {
			entry->users++;
			return entry;
		}
		if (idle == NULL && entry->tid == 0 && longpole_next_is_free(entry->ring))
			idle = entry;
	}
	if (idle == NULL && (process->entries & (process->entries - 1)) == 0 && process->entries >= 8) {
		longpole_reclaim(process);
		for (uint32_t i = 0; i < process->entries && idle == NULL; i++)
			if (process->entry[i].tid == 0 && longpole_next_is_free(process->entry[i].ring))
				idle = &process->entry[i];
	}
	if (idle == NULL) {
		if (process->entries == LONGPOLE_ENTRIES || (process->retry != 0 && longpole_counter() < process->retry))
			return NULL;
		struct longpole_ring *ring = longpole_make_ring(process);
		if (ring == NULL) {
			/* Do not pay for the attempt at every event; about a tenth of a second at 2.5 GHz. */
			process->retry = longpole_counter() + (1u << 28);
			return NULL;
		}
		process->retry = 0;
		idle = &process->entry[process->entries++];
		idle->ring = ring;
	} else {
		longpole_own(idle->ring, tid);
	}
	idle->tid = tid;
	idle->users = 1;
	return idle;
}

/* Gives this thread a ring. */
LONGPOLE_SLOW struct longpole_ring *longpole_attach(void)
{
	if (longpole_library.process != NULL && !longpole_library.process->alive)
		longpole_forked();
	struct longpole_process *process = longpole_library.process;
	if (process == NULL || __atomic_load_n(&longpole_page.orders.mask, __ATOMIC_ACQUIRE) == 0)
		return NULL;
	const uint64_t signals = longpole_block_signals();
	/* A handler may have come in between, and been faster. */
	if (longpole_thread == NULL) {
		longpole_lock(process);
		struct longpole_entry *entry = longpole_take_entry(process);
		if (entry != NULL)
			longpole_thread = entry->ring;
		longpole_unlock(process);
		if (entry != NULL && longpole_library.key != 0)
			longpole_libc_setspecific(longpole_library.key - 1, entry->ring);
	}
	longpole_restore_signals(signals);
	if (longpole_thread == NULL)
		__atomic_fetch_add(&longpole_page.refused, 1, __ATOMIC_RELAXED);
	return longpole_thread;
}

/* The thread ends: its ring goes to the pool once none of its libraries uses it. */
LONGPOLE_SLOW void longpole_thread_exit(void *unused)
{
	(void)unused;
	struct longpole_ring *ring = longpole_thread;
	struct longpole_process *process = longpole_library.process;
	longpole_thread = NULL;
	if (ring == NULL || process == NULL || !process->alive)
		return;
	const uint64_t signals = longpole_block_signals();
	const int tid = longpole_gettid();
	longpole_lock(process);
	for (uint32_t i = 0; i < process->entries; i++) {
		struct longpole_entry *entry = &process->entry[i];
		if (entry->tid == tid && (entry->users == 0 || --entry->users == 0)) {
			longpole_seal(entry->ring);
			__atomic_store_n(&entry->ring->state, LONGPOLE_RING_IDLE, __ATOMIC_RELEASE);
			entry->tid = 0;
		}
	}
	longpole_unlock(process);
	longpole_restore_signals(signals);
}

/* Goes over to the larger ring that the recorder has made for this thread. Returns the ring to use. */
LONGPOLE_SLOW struct longpole_ring *longpole_succeed(struct longpole_ring *ring, uint32_t successor)
{
	char name[64];
	struct longpole_process *process = longpole_library.process;
	struct longpole_ring *next = NULL;
	struct longpole_stat stat;
	ring->successor = 0;
	long directory = longpole_open_directory(process->directory);
	if (directory < 0)
		return ring;
	size_t length = longpole_append(name, sizeof name, 0, process->stem);
	length = longpole_append(name, sizeof name, length, ".s");
	length = longpole_append_number(name, sizeof name, length, successor - 1, 10, 0);
	longpole_append(name, sizeof name, length, ".ring");
	long file = longpole_open_writable((int)directory, name);
	longpole_close((int)directory);
	if (file < 0)
		return ring;
	if (longpole_stat_of((int)file, &stat) == 0 && stat.size > LONGPOLE_RING_DATA)
		next = (struct longpole_ring *)longpole_map(NULL, 0, stat.size, (int)file, 1);
	longpole_close((int)file);
	if (next == NULL)
		return ring;
	if (next->magic != LONGPOLE_ABI_MAGIC || next->size + LONGPOLE_RING_DATA != stat.size || next->mask != next->size - 1 ||
	    next->subbuffer == 0 || next->size % next->subbuffer != 0) {
		longpole_unmap(next, stat.size);
		return ring;
	}
	const uint64_t signals = longpole_block_signals();
	longpole_lock(process);
	uint32_t users = 0;
	struct longpole_entry *found = NULL;
	for (uint32_t i = 0; i < process->entries && found == NULL; i++)
		if (process->entry[i].ring == ring)
			found = &process->entry[i];
	if (found != NULL)
		users = found->users;
	/* Another library of this thread holds the old address: stay. */
	if (users == 1) {
		longpole_own(next, ring->tid);
		next->busy = ring->busy;
		found->ring = next;
		longpole_thread = next;
		/* Events that a handler left in the old side area come along. */
		__builtin_memcpy(next->side, ring->side, sizeof next->side);
		next->nested = ring->nested;
		next->packets = ring->packets;
		ring->nested = 0;
		longpole_seal(ring);
		ring->busy = 0;
		__atomic_store_n(&ring->state, LONGPOLE_RING_ENDED, __ATOMIC_RELEASE);
	}
	longpole_unlock(process);
	longpole_restore_signals(signals);
	if (users != 1) {
		longpole_unmap(next, stat.size);
		return ring;
	}
	/*
	 * We may be a handler that interrupted a probe between its look at the ring and its taking of it. The header stays, sealed: that
	 * probe will find no room there, and look again.
	 */
	longpole_unmap((char *)ring + LONGPOLE_RING_DATA, ring->size);
	return next;
}

/*
 * Finds room for an event of `size` bytes where the fast path could not; the ring is busy. Begins the next sub-buffer if it is
 * free. Returns the position to write at, or LONGPOLE_LOST after counting the loss. The ring may have been exchanged.
 */
LONGPOLE_SLOW uint64_t longpole_advance(struct longpole_ring **current, uint64_t size)
{
	struct longpole_ring *ring = *current;
	if (ring->head + size <= ring->end)
		return ring->head;
	uint64_t next = longpole_next_subbuffer(ring);
	if (ring->head != 0)
		longpole_subbuffer_at(ring, next - ring->subbuffer)->content = ring->head - (next - ring->subbuffer);
	const uint32_t successor = __atomic_load_n(&ring->successor, __ATOMIC_ACQUIRE);
	if (LONGPOLE_UNLIKELY(successor != 0)) {
		ring = *current = longpole_succeed(ring, successor);
		next = longpole_next_subbuffer(ring);
	}
	if (size > ring->subbuffer - LONGPOLE_SUBBUFFER_HEADER || !longpole_next_is_free(ring)) {
		__atomic_fetch_add(&ring->lost, 1, __ATOMIC_RELEASE);
		/* Smaller events must not slip in behind: what is lost here is counted before whatever comes next. */
		if (size <= ring->subbuffer - LONGPOLE_SUBBUFFER_HEADER)
			longpole_seal(ring);
		return LONGPOLE_LOST;
	}
	struct longpole_subbuffer *begun = longpole_subbuffer_at(ring, next);
	begun->begin = longpole_now(ring);
	begun->content = 0;
	begun->lost = ring->lost;
	begun->position = next;
	begun->pid = ring->pid;
	begun->tid = ring->tid;
	__builtin_memcpy(begun->thread, ring->thread, sizeof begun->thread);
	ring->end = next + ring->subbuffer;
	/* A clock that is no counter takes the slow path at every event; the fast path need not ask. */
	ring->limit = ring->clock == LONGPOLE_CLOCK_MONO_RAW ? 0 : ring->end;
	return next + LONGPOLE_SUBBUFFER_HEADER;
}

LONGPOLE_INLINE uint64_t *longpole_place(struct longpole_ring *ring, uint64_t position)
{
	return (uint64_t *)(void *)((char *)ring + LONGPOLE_RING_DATA + (position & ring->mask));
}

/* The earliest event that handlers left behind: an interrupted event must not be later, for it is written first. */
LONGPOLE_SLOW uint64_t longpole_restamp(const struct longpole_ring *ring, uint64_t header)
{
	for (uint32_t i = 0; i < ring->nested && i < LONGPOLE_SIDE_ENTRIES; i++) {
		uint64_t other;
		__builtin_memcpy(&other, ring->side[i], 8);
		/* An event that did not fit has no time. */
		if (other != 0 && (int64_t)((other & ~(uint64_t)0xffff) - (header & ~(uint64_t)0xffff)) < 0)
			header = (other & ~(uint64_t)0xffff) | (header & 0xffff);
	}
	return header;
}

LONGPOLE_SLOW void longpole_flush_nested(struct longpole_ring *ring);

/* A sub-buffer must not begin later than its first event, which a handler may have dated back. */
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

/* What is left of longpole_commit when handlers left events behind. */
LONGPOLE_SLOW void longpole_commit_nested(struct longpole_ring *ring, uint64_t *place, uint64_t header, uint64_t head)
{
	header = longpole_restamp(ring, header);
	place[0] = header;
	ring->last = header;
	__atomic_store_n(&ring->head, head, __ATOMIC_RELEASE);
	longpole_flush_nested(ring);
}

/*
 * Makes the event that was written at `position` visible, and the ring free for others. What is rare ends the probe: were there
 * anything to do after a call, the compiler would save registers for it in every probe.
 */
LONGPOLE_INLINE void longpole_commit(struct longpole_ring *ring, uint64_t *place, uint64_t header, uint64_t position, uint64_t size)
{
	LONGPOLE_COMPILER_BARRIER();
	if (LONGPOLE_UNLIKELY(__atomic_load_n(&ring->nested, __ATOMIC_RELAXED) != 0)) {
		longpole_commit_nested(ring, place, header, position + size);
		return;
	}
	place[0] = header;
	ring->last = header;
	__atomic_store_n(&ring->head, position + size, __ATOMIC_RELEASE);
	LONGPOLE_COMPILER_BARRIER();
	__atomic_store_n(&ring->busy, 0, __ATOMIC_RELEASE);
	LONGPOLE_COMPILER_BARRIER();
	if (LONGPOLE_UNLIKELY(__atomic_load_n(&ring->nested, __ATOMIC_RELAXED) != 0))
		longpole_flush_nested(ring);
}

/* Ends a probe that wrote nothing. */
LONGPOLE_INLINE void longpole_abandon(struct longpole_ring *ring)
{
	LONGPOLE_COMPILER_BARRIER();
	__atomic_store_n(&ring->busy, 0, __ATOMIC_RELEASE);
	LONGPOLE_COMPILER_BARRIER();
	if (LONGPOLE_UNLIKELY(__atomic_load_n(&ring->nested, __ATOMIC_RELAXED) != 0))
		longpole_flush_nested(ring);
}

/* A probe in a handler that interrupted a probe. Side entry: header, up to 6 words, number of words. */
LONGPOLE_SLOW void longpole_emit_nested(struct longpole_ring *ring, uint32_t id, const uint64_t *words, uint32_t count)
{
	const uint32_t at = __atomic_fetch_add(&ring->nested, 1, __ATOMIC_RELAXED);
	if (at >= LONGPOLE_SIDE_ENTRIES || count > 6) {
		if (at >= LONGPOLE_SIDE_ENTRIES)
			__atomic_fetch_sub(&ring->nested, 1, __ATOMIC_RELAXED);
		else
			__builtin_memset(ring->side[at], 0, sizeof ring->side[at]); /* class 0: counted as lost when it is taken out */
		if (at >= LONGPOLE_SIDE_ENTRIES) {
			__atomic_fetch_add(&ring->nested_lost, 1, __ATOMIC_RELAXED);
			__atomic_fetch_add(&ring->lost, 1, __ATOMIC_RELEASE);
		}
		return;
	}
	uint64_t entry[8] = {longpole_event_header(id, longpole_now(ring)), 0, 0, 0, 0, 0, 0, count};
	for (uint32_t i = 0; i < count; i++)
		entry[1 + i] = words[i];
	__builtin_memcpy(ring->side[at], entry, sizeof entry);
}

/* Takes what handlers left in the side area into the ring, by time. */
LONGPOLE_SLOW void longpole_flush_nested(struct longpole_ring *ring)
{
	while (__atomic_load_n(&ring->nested, __ATOMIC_RELAXED) != 0) {
		ring->busy = 1;
		LONGPOLE_COMPILER_BARRIER();
		uint8_t count = __atomic_load_n(&ring->nested, __ATOMIC_RELAXED);
		uint8_t done = 0;
		do {
			uint64_t entry[LONGPOLE_SIDE_ENTRIES][8];
			uint32_t n = 0;
			for (; done < count && done < LONGPOLE_SIDE_ENTRIES; done++) {
				__builtin_memcpy(entry[n], ring->side[done], sizeof entry[n]);
				if (entry[n][0] == 0) {
					__atomic_fetch_add(&ring->nested_lost, 1, __ATOMIC_RELAXED);
					__atomic_fetch_add(&ring->lost, 1, __ATOMIC_RELEASE);
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
				__atomic_store_n(&ring->head, position + size, __ATOMIC_RELEASE);
			}
			/* Handlers may have left more meanwhile; then the number differs and they are taken, too. */
		} while (!__atomic_compare_exchange_n(&ring->nested, &count, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
		LONGPOLE_COMPILER_BARRIER();
		__atomic_store_n(&ring->busy, 0, __ATOMIC_RELEASE);
		LONGPOLE_COMPILER_BARRIER();
	}
}

/* Takes this thread's ring, and gives it one if need be. NULL: there is none. `nested`: the ring is taken already, by the probe that
 * this one's handler interrupted. */
LONGPOLE_SLOW struct longpole_ring *longpole_take(int *nested)
{
	struct longpole_ring *ring = __atomic_load_n(&longpole_thread, __ATOMIC_RELAXED);
	*nested = 0;
	/* A child made by a raw clone still sees its parent's ring. */
	if (ring != NULL && (longpole_library.process == NULL || !longpole_library.process->alive)) {
		longpole_forked();
		ring = NULL;
		if (__atomic_load_n(&longpole_page.orders.mask, __ATOMIC_ACQUIRE) == 0)
			return NULL;
	}
	if (ring == NULL && (ring = longpole_attach()) == NULL)
		return NULL;
	for (;;) {
		if (__atomic_load_n(&ring->busy, __ATOMIC_RELAXED) != 0) {
			*nested = 1;
			return ring;
		}
		__atomic_store_n(&ring->busy, 1, __ATOMIC_RELAXED);
		LONGPOLE_COMPILER_BARRIER();
		struct longpole_ring *now = __atomic_load_n(&longpole_thread, __ATOMIC_RELAXED);
		if (LONGPOLE_LIKELY(now == ring))
			return ring;
		/* A handler came in between and went over to a larger ring. */
		__atomic_store_n(&ring->busy, 0, __ATOMIC_RELAXED);
		ring = now;
		if (ring == NULL)
			return NULL;
	}
}

/* What the fast path cannot do: no ring yet, ring busy, sub-buffer full, another clock. */
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
	const uint64_t position = longpole_advance(&ring, size);
	if (position == LONGPOLE_LOST) {
		longpole_abandon(ring);
		return;
	}
	uint64_t *place = longpole_place(ring, position);
	const uint64_t header = longpole_restamp(ring, longpole_event_header(id, longpole_now(ring)));
	longpole_settle(ring, position, header);
	for (uint32_t i = 0; i < count; i++)
		place[1 + i] = words[i];
	longpole_commit(ring, place, header, position, size);
}

/* The slow path with its words in registers: a probe whose words must lie in memory would put them there each time. */
LONGPOLE_SLOW void longpole_emit_words(uint32_t id, uint32_t count, uint64_t a, uint64_t b, uint64_t c)
{
	const uint64_t words[3] = {a, b, c};
	longpole_emit_slow(id, words, count);
}

/* The fast path, for events of up to 3 words (`count` is a constant) behind the header. */
LONGPOLE_INLINE void longpole_emit(uint32_t id, const uint64_t *words, uint32_t count)
{
	struct longpole_ring *ring = longpole_thread;
	const uint64_t size = 8 + 8 * (uint64_t)count;
	if (LONGPOLE_LIKELY(ring != NULL) && LONGPOLE_LIKELY(ring->busy == 0)) {
		__atomic_store_n(&ring->busy, 1, __ATOMIC_RELAXED);
		LONGPOLE_COMPILER_BARRIER();
		const uint64_t position = ring->head;
		if (LONGPOLE_LIKELY(position + size <= ring->limit)) {
			uint64_t *place = longpole_place(ring, position);
			const uint64_t header = longpole_event_header(id, longpole_counter());
			for (uint32_t i = 0; i < count; i++)
				place[1 + i] = words[i];
			longpole_commit(ring, place, header, position, size);
			return;
		}
		/* The slow path takes the ring again, and takes along what handlers left in this instant. */
		LONGPOLE_COMPILER_BARRIER();
		__atomic_store_n(&ring->busy, 0, __ATOMIC_RELEASE);
		LONGPOLE_COMPILER_BARRIER();
	}
	longpole_emit_words(id, count, count > 0 ? words[0] : 0, count > 1 ? words[1] : 0, count > 2 ? words[2] : 0);
}

/* A piece of an event whose size is known only at run time. Every piece is padded to 8 bytes. */
struct longpole_part {
	const void *bytes;
	uint32_t size;
	uint32_t terminated; /* a NUL follows (and none may be inside) */
};

#define LONGPOLE_EVENT_MAXIMUM 4096u

/* An event made of parts. The caller has cut them so that they fit into LONGPOLE_EVENT_MAXIMUM. */
LONGPOLE_SLOW void longpole_emit_parts(uint32_t id, const struct longpole_part *parts, uint32_t count, int packet)
{
	uint64_t size = 8;
	for (uint32_t i = 0; i < count; i++)
		size += (parts[i].size + (parts[i].terminated ? 8u : 7u)) & ~7u;
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
			at += (parts[i].size + (parts[i].terminated ? 8u : 7u)) & ~7u;
		}
		ring->packets |= (uint8_t)packet;
		longpole_emit_nested(ring, id, words, fits ? (uint32_t)(size / 8 - 1) : 7);
		return;
	}
	const uint64_t position = longpole_advance(&ring, size);
	if (position == LONGPOLE_LOST) {
		longpole_abandon(ring);
		return;
	}
	uint64_t *place = longpole_place(ring, position);
	const uint64_t header = longpole_restamp(ring, longpole_event_header(id, longpole_now(ring)));
	longpole_settle(ring, position, header);
	char *at = (char *)(place + 1);
	/* After the ring may have been exchanged, and before the event can be seen. */
	ring->packets |= (uint8_t)packet;
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t padded = (parts[i].size + (parts[i].terminated ? 8u : 7u)) & ~7u;
		if (padded != 0)
			__builtin_memset(at + padded - 8, 0, 8);
		longpole_copy(at, parts[i].bytes, parts[i].size);
		at += padded;
	}
	longpole_commit(ring, place, header, position, size);
}

#if defined(__cplusplus)
}
#endif

#endif

/*
 * Which ring is this thread's: rings are made, taken by a thread, given back at its end, and exchanged for larger ones.
 *
 * All of it is rare and may enter the kernel. It runs with signals blocked where it changes the process's table, and leaves the
 * program as it was where memory cannot be had. The recorder's side of a ring is only looked at, never waited for; the program's other
 * threads are waited for, but not for ever.
 */
#ifndef LONGPOLE_THREAD_H
#define LONGPOLE_THREAD_H

#include "process.h"

#if defined(__cplusplus)
extern "C" {
#endif

LONGPOLE_INLINE uint64_t longpole_now(const struct longpole_ring *ring)
{
	return ring->clock == LONGPOLE_CLOCK_MONO_RAW ? longpole_mono_raw() : longpole_counter();
}

/* About a tenth of a second: the holder may not get a CPU at all, or may have been ended in the middle. */
#define LONGPOLE_LOCK_NS 100000000
/* The same in turns of 50 us. */
#define LONGPOLE_LOCK_TURNS 1000u

/*
 * 0: gave up after so many ns. The lock is a number that everybody who takes it and who gives it back raises; taken, it is odd. So whoever waits sees
 * whether others get on: of a thousand threads that begin at once none gives up because the others come first.
 */
LONGPOLE_SLOW int longpole_lock_within(struct longpole_process *process, int64_t ns)
{
	int64_t pause[2] = {0, 50000};
	int64_t left = ns, all = 100 * ns;
	uint32_t seen = __atomic_load_n(&process->lock, __ATOMIC_RELAXED);
	for (;;) {
		uint32_t now = __atomic_load_n(&process->lock, __ATOMIC_RELAXED);
		if ((now & 1) == 0 && __atomic_compare_exchange_n(&process->lock, &now, now + 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return 1;
		if (now != seen)
			left = ns;
		seen = now;
		if (left <= 0 || all <= 0)
			return 0;
		/* Sleeping, not yielding: the holder may have a lower priority. Hundreds that look all the time would keep the CPUs from it, too. */
		longpole_call(SYS_nanosleep, (uintptr_t)pause, 0, 0, 0, 0, 0);
		left -= pause[1];
		all -= pause[1];
		if (pause[1] < 3000000)
			pause[1] *= 2;
	}
}

LONGPOLE_INLINE int longpole_lock(struct longpole_process *process)
{
	return longpole_lock_within(process, LONGPOLE_LOCK_NS);
}

LONGPOLE_INLINE void longpole_unlock(struct longpole_process *process)
{
	__atomic_fetch_add(&process->lock, 1, __ATOMIC_RELEASE);
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

LONGPOLE_INLINE int longpole_has_room(const struct longpole_ring *ring)
{
	return ring->mode == LONGPOLE_MODE_OVERWRITE || longpole_next_is_free(ring);
}

/* Closes the current sub-buffer early: the next event begins another. */
LONGPOLE_INLINE void longpole_seal(struct longpole_ring *ring)
{
	ring->end = ring->head;
	ring->limit = 0;
}

/*
 * Whose ring it is. The child of a vfork shares everything with the thread that waits for it, its pointer to the ring included: what it emits is
 * that thread's, whose number only the C library knows then.
 */
LONGPOLE_SLOW int longpole_self(void)
{
	int clock;
	if (longpole_getpid() == longpole_page.pid || longpole_libc_cpuclock(longpole_libc_self(), &clock) != 0)
		return longpole_gettid();
	return ~(clock >> 3);
}

LONGPOLE_INLINE void longpole_own(struct longpole_ring *ring, int tid)
{
	ring->pid = longpole_page.pid;
	ring->tid = tid;
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
		control->refused_errno = (uint32_t)-directory;
		return NULL;
	}
	struct longpole_ring *ring = NULL;
	long file = longpole_create((int)directory, temporary, sizeof temporary, LONGPOLE_RING_DATA + size);
	if (file >= 0) {
		ring = longpole_map_ring(size, (int)file);
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
			ring->mode = control->orders.mode;
			ring->block_limit = control->orders.block_limit;
			longpole_own(ring, longpole_self());
			size_t length = longpole_append(name, sizeof name, 0, process->stem);
			length = longpole_append(name, sizeof name, length, ".");
			length = longpole_append_number(name, sizeof name, length, number, 10, 0);
			longpole_append(name, sizeof name, length, ".ring");
			long published = longpole_publish((int)directory, temporary, name);
			if (published < 0) {
				longpole_unmap_ring(ring, size);
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

/* Words of an event in the side area; where their number is larger, the event has been taken out. */
#define LONGPOLE_SIDE_WORDS 6u

/*
 * Of what handlers had put aside when a probe was left in the middle, it may have taken in a part already: by time, so that these are no younger than the
 * newest event. Marks them, and counts the others.
 */
LONGPOLE_SLOW uint32_t longpole_left_aside(struct longpole_ring *ring)
{
	uint32_t others = 0;
	for (uint32_t i = 0; i < ring->nested && i < LONGPOLE_SIDE_ENTRIES; i++) {
		uint64_t entry[8];
		__builtin_memcpy(entry, ring->side[i], sizeof entry);
		const int64_t younger = (int64_t)((entry[0] & ~(uint64_t)0xffff) - (ring->last & ~(uint64_t)0xffff));
		if (entry[0] != 0 && (younger < 0 || entry[0] == ring->last))
			entry[7] = ~(uint64_t)0;
		others += entry[7] <= LONGPOLE_SIDE_WORDS;
		__builtin_memcpy(ring->side[i], entry, sizeof entry);
	}
	return others;
}

/* Its thread has ended: its ring serves others. */
LONGPOLE_SLOW void longpole_give_back(struct longpole_entry *entry)
{
	/* The thread may have ended in a probe, and in a handler on top; what that probe was to take along is lost. */
	__atomic_fetch_add(&entry->ring->lost, longpole_left_aside(entry->ring), __ATOMIC_RELEASE);
	entry->ring->nested = 0;
	entry->ring->busy = 0;
	longpole_seal(entry->ring);
	__atomic_store_n(&entry->ring->state, LONGPOLE_RING_IDLE, __ATOMIC_RELEASE);
	entry->tid = 0;
	entry->users = 0;
}

/* Threads that ended without running destructors leave entries behind; their rings serve others. */
LONGPOLE_SLOW void longpole_reclaim(struct longpole_process *process)
{
	for (uint32_t i = 0; i < process->entries; i++) {
		struct longpole_entry *entry = &process->entry[i];
		/* A task that shares our memory need not be a thread of our process. */
		if (entry->tid != 0 && longpole_call(SYS_tkill, (uintptr_t)entry->tid, 0, 0, 0, 0, 0) == -3 /* ESRCH */) {
			longpole_give_back(entry);
		}
	}
}

/* Bytes of rings of ended threads that wait for the recorder, from which on no more are made: where it has gone, and where it only does not come. */
#define LONGPOLE_IDLE_MANY (16u << 20)
#define LONGPOLE_IDLE_MAXIMUM (256u << 20)

/* Whether there is a recorder that has taken up this process, or one that wants those that are born now and has not come yet. */
LONGPOLE_SLOW int longpole_has_recorder(const struct longpole_process *process)
{
	char name[64];
	struct longpole_orders orders;
	const long directory = longpole_open_directory(process->directory);
	if (directory < 0)
		return 0;
	longpole_read_orders((int)directory, &orders);
	if (orders.mask != 0) {
		longpole_close((int)directory);
		return 1;
	}
	longpole_append(name, sizeof name, longpole_append(name, sizeof name, 0, process->stem), ".control");
	const long file = longpole_open((int)directory, name, LONGPOLE_O_RDONLY | LONGPOLE_O_NOFOLLOW, 0);
	longpole_close((int)directory);
	if (file < 0)
		return 0;
	const int locked = longpole_is_locked((int)file);
	longpole_close((int)file);
	return locked;
}

/*
 * A ring whose thread has ended: one with room; without, too, where many wait for a recorder that does not come. What finds no room there is counted
 * as lost, and memory stays bounded.
 */
LONGPOLE_SLOW struct longpole_entry *longpole_idle_entry(struct longpole_process *process)
{
	struct longpole_entry *full = NULL;
	uint64_t waiting = 0;
	for (uint32_t i = 0; i < process->entries; i++) {
		struct longpole_entry *entry = &process->entry[i];
		if (entry->tid != 0)
			continue;
		if (longpole_has_room(entry->ring))
			return entry;
		full = entry;
		waiting += entry->ring->size;
	}
	if (waiting < LONGPOLE_IDLE_MANY || (waiting < LONGPOLE_IDLE_MAXIMUM && longpole_has_recorder(process)))
		return NULL;
	return full;
}

/* The entry of this thread, taken from the pool or made, with a user more; NULL without memory. The table is locked. */
LONGPOLE_SLOW struct longpole_entry *longpole_take_entry(struct longpole_process *process)
{
	const int tid = longpole_self();
	for (uint32_t i = 0; i < process->entries; i++) {
		struct longpole_entry *entry = &process->entry[i];
		if (entry->tid == tid) {
			entry->users |= longpole_library.slot;
			return entry;
		}
	}
	struct longpole_entry *idle = longpole_idle_entry(process);
	if (idle == NULL && (process->entries & (process->entries - 1)) == 0 && process->entries >= 8) {
		longpole_reclaim(process);
		idle = longpole_idle_entry(process);
	}
	if (idle == NULL) {
		/* That somebody gave up waiting for the table says nothing of memory. */
		if (process->entries == LONGPOLE_ENTRIES ||
		    (process->retry != 0 && longpole_page.refused_errno != 11 /* EAGAIN */ && longpole_counter() < process->retry))
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
	idle->users = longpole_library.slot;
	return idle;
}

/* Of the threads of a child, or of who became another user's, and of their handlers, one connects the process anew. */
LONGPOLE_SLOW void longpole_begin_anew(void)
{
	const int64_t pause[2] = {0, 50000};
	const uint64_t signals = longpole_block_signals();
	uint32_t turn = 0;
	while (__atomic_exchange_n(&longpole_library.forking, 1, __ATOMIC_ACQUIRE) != 0 && turn++ < LONGPOLE_LOCK_TURNS)
		longpole_call(SYS_nanosleep, (uintptr_t)pause, 0, 0, 0, 0, 0);
	if (longpole_library.process != NULL && longpole_is_another(longpole_library.process)) {
		longpole_disconnect();
		longpole_library.process = longpole_connect();
	}
	__atomic_store_n(&longpole_library.forking, 0, __ATOMIC_RELEASE);
	longpole_restore_signals(signals);
}

/* Gives this thread a ring; NULL: there is none. */
LONGPOLE_SLOW struct longpole_ring *longpole_attach(void)
{
	struct longpole_process *process = longpole_own_process();
	if (process == NULL || __atomic_load_n(&longpole_page.orders.mask, __ATOMIC_ACQUIRE) == 0)
		return NULL;
	const uint64_t signals = longpole_block_signals();
	/* Where somebody gave up a moment ago, nobody waits again at every event, but each looks. */
	const int stuck = __atomic_load_n(&longpole_page.refused_errno, __ATOMIC_RELAXED) == 11 /* EAGAIN */ &&
			  longpole_counter() < __atomic_load_n(&process->retry, __ATOMIC_RELAXED);
	/* A handler may have come in between, and been faster. */
	if (!longpole_is_open(longpole_thread)) {
		struct longpole_entry *entry = NULL;
		if (longpole_lock_within(process, stuck ? 0 : LONGPOLE_LOCK_NS)) {
			entry = longpole_take_entry(process);
			if (entry != NULL)
				longpole_thread = entry->ring;
			longpole_unlock(process);
		} else if (!stuck) {
			__atomic_store_n(&process->retry, longpole_counter() + (1u << 28), __ATOMIC_RELAXED);
			__atomic_store_n(&longpole_page.refused_errno, 11, __ATOMIC_RELAXED);
		}
		if (entry != NULL && longpole_library.key != 0)
			longpole_libc_setspecific(longpole_library.key - 1, entry->ring);
	}
	longpole_restore_signals(signals);
	struct longpole_ring *ring = longpole_thread;
	if (longpole_is_open(ring))
		return ring;
	__atomic_fetch_add(&longpole_page.refused, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* What this library may take back. */
LONGPOLE_INLINE uint32_t longpole_own_slot(void)
{
	return longpole_library.slot & ~LONGPOLE_SLOT_OF_MANY;
}

/* The library is unloaded, or the process ends, while its threads go on: they keep their rings, for other libraries. */
LONGPOLE_SLOW void longpole_leave(struct longpole_process *process)
{
	const uint64_t signals = longpole_block_signals();
	if (longpole_lock(process)) {
		for (uint32_t i = 0; i < process->entries; i++)
			process->entry[i].users &= ~longpole_own_slot();
		__atomic_fetch_and(&process->libraries, ~longpole_own_slot(), __ATOMIC_ACQ_REL);
		longpole_unlock(process);
	}
	longpole_restore_signals(signals);
}

/* The thread ends: its ring goes to the pool once none of its libraries uses it. */
LONGPOLE_SLOW void longpole_thread_exit(void *unused)
{
	(void)unused;
	struct longpole_ring *ring = longpole_thread;
	struct longpole_process *process = longpole_library.process;
	longpole_thread = LONGPOLE_NO_RING;
	if (!longpole_is_open(ring) || process == NULL || !process->alive)
		return;
	const uint64_t signals = longpole_block_signals();
	const int tid = longpole_gettid();
	/* Else the ring goes to the pool when another thread finds that this one has gone. */
	if (longpole_lock(process)) {
		for (uint32_t i = 0; i < process->entries; i++) {
			struct longpole_entry *entry = &process->entry[i];
			if (entry->tid == tid && (entry->users &= ~longpole_own_slot()) == 0)
				longpole_give_back(entry);
		}
		longpole_unlock(process);
	}
	longpole_restore_signals(signals);
}

/* The larger ring that the recorder has made for this thread. */
LONGPOLE_SLOW struct longpole_ring *longpole_map_successor(struct longpole_process *process, uint32_t successor)
{
	char name[64];
	struct longpole_ring *next = NULL;
	struct longpole_stat stat;
	long directory = longpole_open_directory(process->directory);
	if (directory < 0)
		return NULL;
	size_t length = longpole_append(name, sizeof name, 0, process->stem);
	length = longpole_append(name, sizeof name, length, ".s");
	length = longpole_append_number(name, sizeof name, length, successor - 1, 10, 0);
	longpole_append(name, sizeof name, length, ".ring");
	long file = longpole_open_writable((int)directory, name);
	longpole_close((int)directory);
	if (file < 0)
		return NULL;
	if (longpole_stat_of((int)file, &stat) == 0 && stat.size > LONGPOLE_RING_DATA)
		next = longpole_map_ring(stat.size - LONGPOLE_RING_DATA, (int)file);
	longpole_close((int)file);
	if (next == NULL)
		return NULL;
	if (next->magic != LONGPOLE_ABI_MAGIC || next->size + LONGPOLE_RING_DATA != stat.size || next->mask != next->size - 1 ||
	    next->subbuffer == 0 || next->size % next->subbuffer != 0) {
		longpole_unmap_ring(next, stat.size - LONGPOLE_RING_DATA);
		return NULL;
	}
	return next;
}

/*
 * Goes over to the larger ring that the recorder has made for this thread. Returns the ring to use. Signals are blocked from the begin on: a
 * handler that leaves by a jump, or ends the thread, takes no file, memory or lock along.
 */
LONGPOLE_SLOW struct longpole_ring *longpole_succeed(struct longpole_ring *ring, uint32_t successor)
{
	const uint64_t signals = longpole_block_signals();
	struct longpole_process *process = longpole_library.process;
	ring->successor = 0;
	struct longpole_ring *next = process != NULL ? longpole_map_successor(process, successor) : NULL;
	const int locked = next != NULL && longpole_lock(process);
	struct longpole_entry *found = NULL;
	for (uint32_t i = 0; locked && i < process->entries && found == NULL; i++)
		if (process->entry[i].ring == ring)
			found = &process->entry[i];
	const int goes = found != NULL;
	if (goes) {
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
	if (locked)
		longpole_unlock(process);
	longpole_restore_signals(signals);
	if (!goes) {
		if (next != NULL)
			longpole_unmap_ring(next, next->size);
		return ring;
	}
	/*
	 * We may be a handler that interrupted a probe between its look at the ring and its taking of it, and the thread's other libraries hold the old
	 * address. The header stays, sealed: who comes there finds no room, and that it has ended.
	 */
	longpole_unmap((char *)ring + LONGPOLE_RING_DATA, ring->size);
	return next;
}

/* Another library of this thread has left this ring for a larger one, and so does this library. 0: the table was not to be had; the event is counted. */
LONGPOLE_SLOW int longpole_follow(struct longpole_ring *ring)
{
	const uint64_t signals = longpole_block_signals();
	struct longpole_process *process = longpole_library.process;
	const int locked = process != NULL && longpole_lock(process);
	struct longpole_ring *next = LONGPOLE_NO_RING;
	for (uint32_t i = 0; locked && i < process->entries; i++)
		if (process->entry[i].tid == ring->tid)
			next = process->entry[i].ring;
	if (locked) {
		longpole_thread = next;
		longpole_unlock(process);
	} else {
		__atomic_fetch_add(&longpole_page.refused, 1, __ATOMIC_RELAXED);
	}
	/* Somebody scribbled there. */
	if (next == ring)
		ring->state = LONGPOLE_RING_OWNED;
	longpole_restore_signals(signals);
	return locked;
}

#if defined(__cplusplus)
}
#endif

#endif

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

/* About a tenth of a second: the holder may not get a CPU at all, or may have been ended in the middle. */
#define LONGPOLE_LOCK_NS 100000000

/* 0: gave up after so many ns. */
LONGPOLE_INLINE int longpole_lock_within(struct longpole_process *process, int64_t ns)
{
	int64_t pause[2] = {0, 50000};
	/* Sleeping, not yielding: the holder may have a lower priority. Hundreds that look all the time would keep the CPUs from it, too. */
	while (__atomic_exchange_n(&process->lock, 1, __ATOMIC_ACQUIRE) != 0) {
		if (ns <= 0)
			return 0;
		longpole_call(SYS_nanosleep, (uintptr_t)pause, 0, 0, 0, 0, 0);
		ns -= pause[1];
		if (pause[1] < 3000000)
			pause[1] *= 2;
	}
	return 1;
}

LONGPOLE_INLINE int longpole_lock(struct longpole_process *process)
{
	return longpole_lock_within(process, LONGPOLE_LOCK_NS);
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
			ring->mode = control->orders.mode;
			ring->block_limit = control->orders.block_limit;
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
		if (idle == NULL && entry->tid == 0 && longpole_has_room(entry->ring))
			idle = entry;
	}
	if (idle == NULL && (process->entries & (process->entries - 1)) == 0 && process->entries >= 8) {
		longpole_reclaim(process);
		for (uint32_t i = 0; i < process->entries && idle == NULL; i++)
			if (process->entry[i].tid == 0 && longpole_has_room(process->entry[i].ring))
				idle = &process->entry[i];
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
	/* Where somebody gave up a moment ago, nobody waits again at every event, but each looks. */
	const int stuck = __atomic_load_n(&longpole_page.refused_errno, __ATOMIC_RELAXED) == 11 /* EAGAIN */ &&
			  longpole_counter() < __atomic_load_n(&process->retry, __ATOMIC_RELAXED);
	/* A handler may have come in between, and been faster. */
	if (longpole_thread == NULL) {
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
	/* Else the ring goes to the pool when another thread finds that this one has gone. */
	if (longpole_lock(process)) {
		for (uint32_t i = 0; i < process->entries; i++) {
			struct longpole_entry *entry = &process->entry[i];
			if (entry->tid == tid && (entry->users == 0 || --entry->users == 0)) {
				longpole_seal(entry->ring);
				__atomic_store_n(&entry->ring->state, LONGPOLE_RING_IDLE, __ATOMIC_RELEASE);
				entry->tid = 0;
			}
		}
		longpole_unlock(process);
	}
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
	const int locked = longpole_lock(process);
	uint32_t users = 0;
	struct longpole_entry *found = NULL;
	for (uint32_t i = 0; locked && i < process->entries && found == NULL; i++)
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
	if (locked)
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

#if defined(__cplusplus)
}
#endif

#endif

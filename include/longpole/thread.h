/*
 * The rings of threads: a ring is made, taken by a thread, released at the end of the thread, and
 * replaced by a larger one.
 *
 * All of this is rare and may enter the kernel. Signals are blocked while the process's table is
 * changed, and the program continues normally if there is no memory. The code never waits for the
 * recorder; it waits for other threads of the program only for a bounded time.
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

/* Time to wait for the lock in nanoseconds: 0.1 s. Its holder may not get a CPU at all, or may have
 * been killed while holding it. */
#define LONGPOLE_LOCK_NS 100000000
/* Number of turns of 50 us for which a thread waits until another one has connected the process. */
#define LONGPOLE_LOCK_TURNS 1000u

/*
 * Takes the lock; returns 0 if no other thread made progress for `ns` nanoseconds. The lock is a
 * counter that is incremented by each lock and each unlock, so its lowest bit is 1 while taken. A
 * waiting thread therefore sees that other threads make progress, and does not give up: when a
 * thousand threads start at once, none fails only because others were faster.
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
		/* Sleeps instead of yielding, because the holder may have a lower priority. The pause
		 * grows, because hundreds of polling threads would keep the holder from the CPUs. */
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

/* Position at which the next sub-buffer begins. */
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

/* Closes the current sub-buffer early: the next event begins another one. */
LONGPOLE_INLINE void longpole_seal(struct longpole_ring *ring)
{
	ring->end = ring->head;
	ring->limit = 0;
}

/*
 * The thread id for the owner of a ring. The child of a vfork shares all memory with the thread
 * that waits for it, including the pointer to its ring, so its events belong to that thread. Only
 * the C library knows the id of that thread then.
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

/* Makes a ring file for this thread. If there is no memory, returns NULL and stores the reason in
 * the control file. */
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

/* Maximum number of words of an event in the side area. A larger number marks an entry that was
 * moved into the ring. */
#define LONGPOLE_SIDE_WORDS 6u

/*
 * Handles the side area after a probe was abandoned. The probe may already have moved some entries
 * into the ring; since it moves them in the order of their times, these are not later than the
 * newest event. Marks those entries as moved, and returns the number of the others.
 */
LONGPOLE_SLOW uint32_t longpole_mark_moved_side_entries(struct longpole_ring *ring)
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

/* Makes the ring available to other threads after its thread has ended. */
LONGPOLE_SLOW void longpole_return_ring(struct longpole_entry *entry)
{
	/* The thread may have ended in a probe, or in a handler that interrupted one. The entries that
	 * this probe would have moved are lost. */
	__atomic_fetch_add(&entry->ring->lost, longpole_mark_moved_side_entries(entry->ring), __ATOMIC_RELEASE);
	entry->ring->nested = 0;
	entry->ring->busy = 0;
	longpole_seal(entry->ring);
	__atomic_store_n(&entry->ring->state, LONGPOLE_RING_IDLE, __ATOMIC_RELEASE);
	entry->tid = 0;
	entry->users = 0;
}

/* Frees the entries of threads that ended without running destructors, so that their rings serve
 * other threads. */
LONGPOLE_SLOW void longpole_reclaim(struct longpole_process *process)
{
	for (uint32_t i = 0; i < process->entries; i++) {
		struct longpole_entry *entry = &process->entry[i];
		/* A task that shares our memory is not necessarily a thread of our process. */
		if (entry->tid != 0 && longpole_call(SYS_tkill, (uintptr_t)entry->tid, 0, 0, 0, 0, 0) == -3 /* ESRCH */) {
			longpole_return_ring(entry);
		}
	}
}

/* Total size of unread rings of ended threads, in bytes, from which on no more rings are made: if
 * there is no recorder, and if there is one. */
#define LONGPOLE_IDLE_MANY (16u << 20)
#define LONGPOLE_IDLE_MAXIMUM (256u << 20)

/* Returns 1 if a recorder records this process, or if one wants to record all new processes and
 * will find this one. */
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
 * The entry of a ring whose thread has ended. Returns one with room. If too many unread rings wait
 * for a recorder, returns also one without room: its events are counted as lost, and memory stays
 * bounded.
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

/* The entry of this thread, from the pool or new, with this library as a user; NULL if there is no
 * memory. The table must be locked. */
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
		/* EAGAIN means that a thread gave up waiting for the table, which is unrelated to
		 * memory. */
		if (process->entries == LONGPOLE_ENTRIES ||
		    (process->retry != 0 && longpole_page.refused_errno != 11 /* EAGAIN */ && longpole_counter() < process->retry))
			return NULL;
		struct longpole_ring *ring = longpole_make_ring(process);
		if (ring == NULL) {
			/* Not every event should pay for a failed attempt; the next one is made after about 0.1
			 * s (at 2.5 GHz). */
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

/* Connects a new process. Of all threads and handlers that notice it at the same time, one connects
 * the process. */
LONGPOLE_SLOW void longpole_connect_new_process(void)
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

/* Gives this thread a ring; NULL if there is none. */
LONGPOLE_SLOW struct longpole_ring *longpole_attach(void)
{
	struct longpole_process *process = longpole_own_process();
	if (process == NULL || __atomic_load_n(&longpole_page.orders.mask, __ATOMIC_ACQUIRE) == 0)
		return NULL;
	const uint64_t signals = longpole_block_signals();
	/* If a thread gave up waiting a moment ago, threads do not wait again at every event; each only
	 * tries the lock once. */
	const int stuck = __atomic_load_n(&longpole_page.refused_errno, __ATOMIC_RELAXED) == 11 /* EAGAIN */ &&
			  longpole_counter() < __atomic_load_n(&process->retry, __ATOMIC_RELAXED);
	/* A handler may have attached a ring in the meantime. */
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

/* The bit that this library may clear when it leaves; 0 if it shares its bit with others. */
LONGPOLE_INLINE uint32_t longpole_own_slot(void)
{
	return longpole_library.slot & ~LONGPOLE_SLOT_OF_MANY;
}

/* Called when the library is unloaded or the process ends while its threads continue: they keep
 * their rings for other libraries. */
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

/* Called when the thread ends: its ring goes to the pool if no other library uses it. */
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
	/* If the lock cannot be had, the ring goes to the pool when another thread finds that this
	 * thread has ended. */
	if (longpole_lock(process)) {
		for (uint32_t i = 0; i < process->entries; i++) {
			struct longpole_entry *entry = &process->entry[i];
			if (entry->tid == tid && (entry->users &= ~longpole_own_slot()) == 0)
				longpole_return_ring(entry);
		}
		longpole_unlock(process);
	}
	longpole_restore_signals(signals);
}

/* Maps the larger ring that the recorder has made for this thread. */
LONGPOLE_SLOW struct longpole_ring *longpole_map_larger_ring(struct longpole_process *process, uint32_t successor)
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
 * Moves this thread to the larger ring that the recorder has made for it; returns the ring to use.
 * Signals are blocked from the start on, so that a handler that exits by a jump, or that ends the
 * thread, cannot leak a file, memory or the lock.
 */
LONGPOLE_SLOW struct longpole_ring *longpole_switch_to_larger_ring(struct longpole_ring *ring, uint32_t successor)
{
	const uint64_t signals = longpole_block_signals();
	struct longpole_process *process = longpole_library.process;
	ring->successor = 0;
	struct longpole_ring *next = process != NULL ? longpole_map_larger_ring(process, successor) : NULL;
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
		/* The events that handlers left in the old side area are moved as well. */
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
	 * The old header stays mapped and sealed: this may be a handler that interrupted a probe
	 * between reading the pointer and taking the ring, and other libraries of the thread still have
	 * the old address. A probe that comes there finds no room, and that the ring has ended.
	 */
	longpole_unmap((char *)ring + LONGPOLE_RING_DATA, ring->size);
	return next;
}

/* Moves this library to the larger ring that another library of this thread already uses. Returns 0
 * if the table could not be locked; then the event is counted as refused. */
LONGPOLE_SLOW int longpole_adopt_larger_ring(struct longpole_ring *ring)
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
	/* The state was overwritten by another program; restores it. */
	if (next == ring)
		ring->state = LONGPOLE_RING_OWNED;
	longpole_restore_signals(signals);
	return locked;
}

#if defined(__cplusplus)
}
#endif

#endif

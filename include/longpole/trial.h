/*
 * Finds the functions that are too short to be recorded. That is not known before they run; but a
 * function that takes less time than recording its two edges would look slower than it is, and
 * would fill the recording.
 *
 * Therefore each function is *on trial* for its first calls: they are recorded and timed, without
 * the cost of the edges recorded within them. Calls are judged in windows of some hundred calls. If
 * a window is short, the function is left out from then on; if several windows are long, it stays.
 * A function that is called rarely stays on trial, which costs it some 50 ns per call. Of the calls
 * of functions that are left out, one in some thousands is timed; a function that has become long
 * is put on trial again.
 *
 * A call whose start was recorded also gets an end, even if its function is left out meanwhile:
 * each thread keeps a list of its open calls of functions on trial.
 */
#ifndef LONGPOLE_TRIAL_H
#define LONGPOLE_TRIAL_H

#include "functions.h"
#include "key.h"

#if !defined(LONGPOLE_DISABLE)

#if defined(__cplusplus)
extern "C" {
#endif

/* Number of calls by which a function is judged. */
#define LONGPOLE_AUTO_WINDOW 256u
/* Number of long windows after which a function stays. */
#define LONGPOLE_AUTO_WINDOWS 16u
/* Number of left-out calls of a thread per timed call. */
#define LONGPOLE_AUTO_SKIP 4095u
/* A call of a short function puts it on trial again if it takes this many times as long as a short
 * call may. */
#define LONGPOLE_AUTO_LONG 8u
/* A short function stays if the distance between its calls is this many times the longest short
 * time, because it does no harm. */
#define LONGPOLE_AUTO_RARE 1000u
/* Maximum number of cycles that a call counts, because the thread may have been off its CPU. */
#define LONGPOLE_AUTO_CLIP (1u << 23)
/* Maximum number of open calls that are kept per thread. */
#define LONGPOLE_AUTO_FRAMES 120u

/* Flags of a frame. The bits above them hold the depth of the thread before the call. */
enum { LONGPOLE_FRAME_RECORDED = 1, LONGPOLE_FRAME_SAMPLED = 2, LONGPOLE_FRAME_DEPTH = 8 };

/* An open call. */
struct longpole_frame {
	struct longpole_auto_slot *slot;
	/* a nested call has a lower one, or the same if the compiler merged both functions */
	uintptr_t stack;
	uint64_t begin;
	uint32_t overhead; /* the thread's overhead when the call began */
	uint32_t flags;
};

/* The open calls of a thread; one page. Another thread reuses it after this thread has ended. */
struct longpole_frames {
	struct longpole_frames *next;
	/* recording to which the open calls and the depth belong, and the depth */
	uint64_t session, depth;
	uint32_t taken, open;
	uint32_t overhead; /* cycles spent in edges of functions on trial, modulo 2^32 */
	uint32_t spare;
	struct longpole_frame frame[LONGPOLE_AUTO_FRAMES];
};

/* Thread-local data that the edges of short functions access. */
struct longpole_auto_thread {
	struct longpole_frames *frames;
	struct longpole_auto_slot *top; /* function of the innermost open call that is kept */
	uint32_t busy; /* a signal handler must not change the data that it interrupted */
	uint32_t skip; /* number of calls to leave out before one is timed */
};
__extension__ typedef char longpole_auto_thread_fits[sizeof(struct longpole_auto_thread) == 24 ? 1 : -1];

/* One object per library, see process.h. */
__asm__(".ifndef longpole_auto_thread\n"
        ".pushsection .tbss.longpole_auto_thread,\"awTG\",@nobits,longpole_auto_thread,comdat\n"
        ".weak longpole_auto_thread\n.hidden longpole_auto_thread\n.type longpole_auto_thread,@tls_object\n"
        ".size longpole_auto_thread,24\n.balign 8\nlongpole_auto_thread:\n.zero 24\n"
        ".popsection\n.endif\n");
#if defined(LONGPOLE_TLS_DYNAMIC)
extern __thread struct longpole_auto_thread longpole_auto_thread __attribute__((visibility("hidden")));
#else
extern __thread struct longpole_auto_thread longpole_auto_thread __attribute__((visibility("hidden"), tls_model("initial-exec")));
#endif

LONGPOLE_SLOW void longpole_frames_exit(void *frames)
{
	longpole_auto_thread.frames = NULL;
	longpole_auto_thread.top = NULL;
	__atomic_store_n(&((struct longpole_frames *)frames)->taken, 0, __ATOMIC_RELEASE);
}

/* Takes the page of a thread that has ended, or makes a new one; NULL if there is no memory. */
LONGPOLE_SLOW struct longpole_frames *longpole_frames_take(void)
{
	struct longpole_frames *frames = __atomic_load_n(&longpole_auto.frames, __ATOMIC_ACQUIRE);
	for (; frames != NULL; frames = frames->next) {
		uint32_t free = 0;
		if (__atomic_compare_exchange_n(&frames->taken, &free, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			break;
	}
	if (frames == NULL) {
		frames = (struct longpole_frames *)longpole_map_private(NULL, 0, sizeof *frames);
		if (frames == NULL)
			return NULL;
		frames->taken = 1;
		frames->next = __atomic_load_n(&longpole_auto.frames, __ATOMIC_RELAXED);
		while (!__atomic_compare_exchange_n(&longpole_auto.frames, &frames->next, frames, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			;
	}
	frames->session = 0;
	if (longpole_key_get(&longpole_auto.key, longpole_frames_exit))
		longpole_libc_setspecific(longpole_auto.key - 1, frames);
	longpole_auto_thread.frames = frames;
	return frames;
}

/*
 * The open calls of this thread, without those of an earlier recording; NULL if there is no memory.
 */
LONGPOLE_SLOW struct longpole_frames *longpole_frames_here(void)
{
	struct longpole_frames *frames = longpole_auto_thread.frames;
	const uint64_t session = __atomic_load_n(&longpole_page.orders.session, __ATOMIC_RELAXED);
	if (frames == NULL && (frames = longpole_frames_take()) == NULL)
		return NULL;
	if (frames->session != session && !longpole_auto_thread.busy) {
		frames->session = session;
		frames->depth = 0;
		frames->open = 0;
		longpole_auto_thread.top = NULL;
	}
	return frames;
}

/* The current recording as a byte that is not 0. */
LONGPOLE_SLOW uint8_t longpole_auto_sign(void)
{
	return (uint8_t)(__atomic_load_n(&longpole_page.orders.session, __ATOMIC_RELAXED) % 255 + 1);
}

/* Number of cycles of a window of calls that are just short; 0 if the length of a cycle is not
 * known yet. */
LONGPOLE_SLOW uint64_t longpole_auto_short_window(void)
{
	uint64_t cycles = __atomic_load_n(&longpole_auto.short_window, __ATOMIC_RELAXED);
	if (cycles != 0)
		return cycles;
	uint64_t ns = 0, counts = 0;
	longpole_auto_now(&ns, &counts);
	ns -= longpole_auto.begin_ns;
	counts -= longpole_auto.begin_counter;
	if (ns < 100000)
		return 0;
	cycles = (uint64_t)((double)LONGPOLE_AUTO_WINDOW * (double)longpole_auto.shortest * (double)counts / (double)ns);
	cycles += cycles == 0;
	if (ns > 10000000)
		__atomic_store_n(&longpole_auto.short_window, cycles, __ATOMIC_RELAXED);
	return cycles;
}

/* Records that a function is left out from here on, and how long its calls take. If another thread
 * holds the lock, a later call does it. */
LONGPOLE_SLOW void longpole_auto_announce(struct longpole_auto_slot *slot)
{
	const uint64_t window = longpole_auto_short_window();
	if (window == 0)
		return;
	const uint64_t signals = longpole_block_signals();
	uint32_t id = 0;
	if (longpole_auto_lock(0)) {
		if (longpole_auto_module(slot->address)) {
			const struct longpole_module *module = &longpole_auto.module;
			id = longpole_auto_class(slot->address - module->begin + module->offset, LONGPOLE_KIND_EVENT, "u:left_out_ns");
		}
		longpole_auto_unlock();
		slot->announced = longpole_auto_sign();
	}
	longpole_restore_signals(signals);
	/* Without a class of its own the function could not be identified. */
	if (id >= LONGPOLE_FIRST_SITE_ID) {
		const uint64_t ns = (uint64_t)((double)slot->cycles * (double)longpole_auto.shortest / (double)window);
		longpole_emit_slow(id, &ns, 1);
	}
}

/* Judges a call of a function on trial that took `cycles` cycles. */
LONGPOLE_SLOW void longpole_auto_judge(struct longpole_auto_slot *slot, uint64_t cycles, uint64_t now)
{
	/* Threads run this concurrently without a lock: a call that is not counted does no harm. */
	const uint32_t calls = __atomic_load_n(&slot->calls, __ATOMIC_RELAXED) + 1u;
	if (calls == 1) {
		slot->since = (uint32_t)(now >> 10);
		slot->cycles = 0;
	}
	slot->cycles += (uint32_t)(cycles < LONGPOLE_AUTO_CLIP ? cycles : LONGPOLE_AUTO_CLIP);
	if (calls < LONGPOLE_AUTO_WINDOW) {
		__atomic_store_n(&slot->calls, (uint16_t)calls, __ATOMIC_RELAXED);
		return;
	}
	const uint64_t window = longpole_auto_short_window();
	const uint64_t elapsed = (uint64_t)((uint32_t)(now >> 10) - slot->since) << 10;
	__atomic_store_n(&slot->calls, 0, __ATOMIC_RELAXED);
	if (window == 0)
		return;
	if (slot->cycles >= window) {
		if (++slot->windows >= LONGPOLE_AUTO_WINDOWS)
			__atomic_store_n(&slot->ids, (slot->known & 0xffff) | (uint64_t)(slot->known >> 16) << 32, __ATOMIC_RELAXED);
	} else if (elapsed < LONGPOLE_AUTO_RARE * window) {
		slot->windows = 0;
		__atomic_store_n(&slot->ids, LONGPOLE_AUTO_IS_SHORT, __ATOMIC_RELAXED);
		if (slot->announced != longpole_auto_sign())
			longpole_auto_announce(slot);
	}
}

/* Closes an open call. */
LONGPOLE_SLOW void longpole_frame_close(struct longpole_frames *frames, const struct longpole_frame *frame)
{
	if (frame->flags & LONGPOLE_FRAME_SAMPLED)
		return;
	/* Calls within it may have been left by a jump, without an end. */
	frames->depth = frame->flags >> LONGPOLE_FRAME_DEPTH;
	/* If the function has been accepted meanwhile, its end was recorded like any other. */
	const uint64_t ids = __atomic_load_n(&frame->slot->ids, __ATOMIC_RELAXED);
	if ((frame->flags & LONGPOLE_FRAME_RECORDED) && (ids == 0 || ids == LONGPOLE_AUTO_IS_SHORT || longpole_auto.depth != 0))
		longpole_auto_write(frame->slot->address, frame->slot->known >> 16);
}

/* Closes the innermost calls until `open` calls are open. */
LONGPOLE_SLOW void longpole_frames_close(struct longpole_frames *frames, uint32_t open)
{
	while (frames->open > open)
		longpole_frame_close(frames, &frames->frame[--frames->open]);
	longpole_auto_thread.top = open != 0 ? frames->frame[open - 1].slot : NULL;
}

/* Closes the calls that were left by a jump: they are on the part of the stack that this call uses
 * now. */
LONGPOLE_SLOW void longpole_frames_leave(struct longpole_frames *frames, uintptr_t stack)
{
	uint32_t open = frames->open;
	while (open != 0 && frames->frame[open - 1].stack < stack)
		open--;
	if (open != frames->open)
		longpole_frames_close(frames, open);
}

LONGPOLE_SLOW void longpole_frame_open(struct longpole_frames *frames, struct longpole_auto_slot *slot, uint32_t flags, uintptr_t stack,
                                       uint64_t entered)
{
	if (frames->open >= LONGPOLE_AUTO_FRAMES)
		return;
	struct longpole_frame *frame = &frames->frame[frames->open++];
	frame->slot = longpole_auto_thread.top = slot;
	frame->stack = stack;
	frame->flags = flags;
	frame->begin = longpole_counter();
	frames->overhead += (uint32_t)(frame->begin - entered);
	frame->overhead = frames->overhead;
}

/* The start of a call of a function that is on trial, short, or limited by depth. */
LONGPOLE_SLOW void longpole_auto_begin_slow(uint64_t address, uint32_t at)
{
	const uint64_t entered = longpole_counter();
	const uintptr_t stack = (uintptr_t)__builtin_frame_address(0);
	struct longpole_auto_slot *slot = longpole_auto_find(address, at);
	if (slot == NULL || slot->known == LONGPOLE_AUTO_LEFT_OUT)
		return;
	struct longpole_auto_thread *thread = &longpole_auto_thread;
	struct longpole_frames *frames = longpole_frames_here();
	if (frames == NULL)
		return;
	const uint32_t busy = thread->busy;
	const uint64_t ids = __atomic_load_n(&slot->ids, __ATOMIC_RELAXED);
	uint32_t flags = LONGPOLE_FRAME_RECORDED;
	thread->busy = 1;
	LONGPOLE_COMPILER_BARRIER();
	if (!busy)
		longpole_frames_leave(frames, stack);
	const uint32_t depth = (uint32_t)frames->depth << LONGPOLE_FRAME_DEPTH;
	if (ids == LONGPOLE_AUTO_IS_SHORT) {
		thread->skip = LONGPOLE_AUTO_SKIP;
		flags = LONGPOLE_FRAME_SAMPLED;
		if (slot->announced != longpole_auto_sign())
			longpole_auto_announce(slot);
	} else {
		/* Calls that are too deep are also open. */
		if (longpole_auto.depth != 0 && ++frames->depth > longpole_auto.depth)
			flags = 0;
		if (flags != 0)
			longpole_auto_write(address, slot->known & 0xffff);
	}
	/* If the depth is limited, every open call is kept, so that one that is left by a jump does not
	 * increase the depth forever. */
	if (!busy && (ids == 0 || ids == LONGPOLE_AUTO_IS_SHORT || longpole_auto.depth != 0))
		longpole_frame_open(frames, slot, flags | depth, stack, entered);
	LONGPOLE_COMPILER_BARRIER();
	thread->busy = busy;
}

/* The end of a call that was kept. */
LONGPOLE_SLOW void longpole_auto_end_kept(struct longpole_frames *frames, uint32_t at, uint64_t entered)
{
	longpole_frames_close(frames, at + 1);
	const struct longpole_frame frame = frames->frame[at];
	struct longpole_auto_slot *slot = frame.slot;
	const uint64_t whole = entered - frame.begin, edges = frames->overhead - frame.overhead;
	const uint64_t cycles = whole > edges ? whole - edges : 0;
	const uint64_t ids = __atomic_load_n(&slot->ids, __ATOMIC_RELAXED);
	longpole_frames_close(frames, at);
	if ((frame.flags & LONGPOLE_FRAME_SAMPLED) == 0) {
		if (ids == 0)
			longpole_auto_judge(slot, cycles, entered);
	} else if (ids == LONGPOLE_AUTO_IS_SHORT && cycles * LONGPOLE_AUTO_WINDOW > LONGPOLE_AUTO_LONG * longpole_auto_short_window()) {
		__atomic_store_n(&slot->calls, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&slot->ids, 0, __ATOMIC_RELAXED);
	}
}

/* The end of a call of a function that is on trial, short, or limited by depth. */
LONGPOLE_SLOW void longpole_auto_end_slow(uint64_t address, uint32_t at)
{
	const uint64_t entered = longpole_counter();
	struct longpole_auto_slot *slot = longpole_auto_find(address, at);
	if (slot == NULL || slot->known == LONGPOLE_AUTO_LEFT_OUT)
		return;
	struct longpole_auto_thread *thread = &longpole_auto_thread;
	struct longpole_frames *frames = longpole_frames_here();
	if (frames == NULL)
		return;
	uint32_t open = thread->busy ? 0 : frames->open;
	while (open != 0 && frames->frame[open - 1].slot != slot)
		open--;
	if (open != 0) {
		thread->busy = 1;
		LONGPOLE_COMPILER_BARRIER();
		longpole_auto_end_kept(frames, open - 1, entered);
		frames->overhead += (uint32_t)(longpole_counter() - entered);
		LONGPOLE_COMPILER_BARRIER();
		thread->busy = 0;
		return;
	}
	/* The start of the call was left out. */
	const uint64_t ids = __atomic_load_n(&slot->ids, __ATOMIC_RELAXED);
	if (ids == LONGPOLE_AUTO_IS_SHORT || (ids == 0 && slot->announced != 0))
		return;
	/* The call began before the recording did, so its end is not recorded. */
	if (longpole_auto.depth != 0 && (frames->depth == 0 || frames->depth-- > longpole_auto.depth))
		return;
	longpole_auto_write(address, slot->known >> 16);
}

/* Deletes the key, because the destructor disappears with the library. */
__attribute__((destructor(102), unused, no_instrument_function)) static void longpole_trial_destruct(void)
{
	longpole_key_drop(&longpole_auto.key);
}

#if defined(__cplusplus)
}
#endif

#endif

#endif

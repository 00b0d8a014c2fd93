/*
 * The few system calls and library functions that probes need, without the C library's headers.
 *
 * A probe may be in any source file, compiled with any feature macros. It must not change errno,
 * and must not call functions that are unsafe in a signal handler. Therefore system calls are made
 * directly (they return -errno), and library functions are declared under names of our own.
 */
#ifndef LONGPOLE_SYSTEM_H
#define LONGPOLE_SYSTEM_H

#include "platform.h"
#include "types.h"
#include <sys/syscall.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Excludes our functions from -finstrument-functions, so that only the program's own functions are
 * recorded. */
#define LONGPOLE_PLAIN_CODE __attribute__((no_instrument_function))
#define LONGPOLE_INLINE static inline __attribute__((always_inline, unused, no_instrument_function))
/* One copy per library, however many source files it has; never inlined into a hot path. */
#define LONGPOLE_SLOW __attribute__((weak, noinline, cold, unused, no_instrument_function, visibility("hidden")))
#define LONGPOLE_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define LONGPOLE_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
/* Prevents the compiler, but not the processor, from reordering memory accesses. That is sufficient
 * for signal handlers of the same thread, which see memory in program order. */
#define LONGPOLE_COMPILER_BARRIER() __atomic_signal_fence(__ATOMIC_SEQ_CST)
/* Makes earlier stores visible to other processes before later ones. Not __atomic_thread_fence,
 * which gcc rejects with -fsanitize=thread. */
#if defined(__x86_64__)
#define LONGPOLE_STORE_BARRIER() __asm__ __volatile__("" ::: "memory")
#else
#define LONGPOLE_STORE_BARRIER() __asm__ __volatile__("dmb ish" ::: "memory")
#endif

extern int longpole_libc_clock_gettime(int clock, void *time) __asm__("clock_gettime");
extern int longpole_libc_key_create(unsigned *key, void (*destructor)(void *)) __asm__("pthread_key_create");
extern int longpole_libc_key_delete(unsigned key) __asm__("pthread_key_delete");
extern int longpole_libc_setspecific(unsigned key, const void *value) __asm__("pthread_setspecific");
extern void *longpole_libc_getspecific(unsigned key) __asm__("pthread_getspecific");
extern unsigned long longpole_libc_self(void) __asm__("pthread_self");
extern int longpole_libc_cpuclock(unsigned long thread, int *clock) __asm__("pthread_getcpuclockid");
extern int longpole_libc_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) __asm__("pthread_atfork");
extern unsigned long longpole_libc_getauxval(unsigned long type) __asm__("getauxval");
extern char *longpole_libc_getenv(const char *name) __asm__("secure_getenv");

LONGPOLE_INLINE long longpole_call(long number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f)
{
#if defined(__x86_64__)
	long result;
	register uintptr_t r10 __asm__("r10") = d;
	register uintptr_t r8 __asm__("r8") = e;
	register uintptr_t r9 __asm__("r9") = f;
	__asm__ __volatile__("syscall"
	                     : "=a"(result)
	                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
	                     : "rcx", "r11", "memory");
	return result;
#else
	register long x8 __asm__("x8") = number;
	register uintptr_t x0 __asm__("x0") = a;
	register uintptr_t x1 __asm__("x1") = b;
	register uintptr_t x2 __asm__("x2") = c;
	register uintptr_t x3 __asm__("x3") = d;
	register uintptr_t x4 __asm__("x4") = e;
	register uintptr_t x5 __asm__("x5") = f;
	__asm__ __volatile__("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return (long)x0;
#endif
}

#define LONGPOLE_AT_FDCWD ((uintptr_t)-100)
#define LONGPOLE_O_RDONLY 0u
#define LONGPOLE_O_RDWR 2u
#define LONGPOLE_O_CREAT 0100u
#define LONGPOLE_O_EXCL 0200u
#define LONGPOLE_O_NONBLOCK 04000u
#define LONGPOLE_O_CLOEXEC 02000000u
#if defined(__aarch64__)
#define LONGPOLE_O_DIRECTORY 040000u
#define LONGPOLE_O_NOFOLLOW 0100000u
#else
#define LONGPOLE_O_DIRECTORY 0200000u
#define LONGPOLE_O_NOFOLLOW 0400000u
#endif

/* Opens a file without blocking: a pipe with this name must not stop the program. */
LONGPOLE_INLINE long longpole_open(int directory, const char *path, unsigned flags, unsigned mode)
{
	return longpole_call(SYS_openat, (uintptr_t)directory, (uintptr_t)path, flags | LONGPOLE_O_CLOEXEC | LONGPOLE_O_NONBLOCK, mode, 0, 0);
}

LONGPOLE_INLINE void longpole_close(int file)
{
	longpole_call(SYS_close, (uintptr_t)file, 0, 0, 0, 0, 0);
}

/* The part of `struct statx` that is used here. Its layout is the same on all architectures. */
struct longpole_stat {
	uint32_t valid, block_size;
	uint64_t attributes;
	uint32_t links, user, group;
	uint16_t mode, spare;
	uint64_t inode, size;
	uint8_t rest[208];
};

LONGPOLE_INLINE long longpole_stat_of(int file, struct longpole_stat *stat)
{
	return longpole_call(SYS_statx, (uintptr_t)file, (uintptr_t)"", 0x1000 /* AT_EMPTY_PATH */, 0x7ff, (uintptr_t)stat, 0);
}

/* Maps a file as shared, readable and writable memory; NULL on failure. With `fixed`, replaces the
 * mapping at `where`. */
LONGPOLE_INLINE void *longpole_map(void *where, int fixed, size_t size, int file, int populate)
{
	const uintptr_t flags = 0x01 /* MAP_SHARED */ | (fixed ? 0x10u : 0u) | (populate ? 0x8000u : 0u) | 0x4000u /* NORESERVE */;
	long result = longpole_call(SYS_mmap, (uintptr_t)where, size, 3, flags, (uintptr_t)file, 0);
	return result < 0 && result > -4096 ? NULL : (void *)result;
}

LONGPOLE_INLINE void *longpole_map_private(void *where, int fixed, size_t size)
{
	const uintptr_t flags = 0x02 /* MAP_PRIVATE */ | 0x20 /* MAP_ANONYMOUS */ | (fixed ? 0x10u : 0u) | 0x4000u;
	long result = longpole_call(SYS_mmap, (uintptr_t)where, size, 3, flags, (uintptr_t)-1, 0);
	return result < 0 && result > -4096 ? NULL : (void *)result;
}

LONGPOLE_INLINE void longpole_unmap(void *where, size_t size)
{
	longpole_call(SYS_munmap, (uintptr_t)where, size, 0, 0, 0, 0);
}

LONGPOLE_INLINE int longpole_gettid(void)
{
	return (int)longpole_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

LONGPOLE_INLINE int longpole_getpid(void)
{
	return (int)longpole_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* Blocks signals, so that a handler cannot enter the same code a second time. */
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

/* The length of a text; a null pointer that the program passed counts as an empty text. */
LONGPOLE_INLINE size_t longpole_length(const char *text, size_t maximum)
{
	size_t length = 0;
	while (text != NULL && length < maximum && text[length] != 0)
		length++;
	return length;
}

LONGPOLE_INLINE void longpole_copy(void *to, const void *from, size_t size)
{
	if (size != 0)
		__builtin_memcpy(to, from, size);
}

/* Appends as much as fits, always NUL-terminated; returns the new length. */
LONGPOLE_INLINE size_t longpole_append(char *buffer, size_t capacity, size_t length, const char *text)
{
	while (*text != 0 && length + 1 < capacity)
		buffer[length++] = *text++;
	buffer[length] = 0;
	return length;
}

LONGPOLE_INLINE size_t longpole_append_number(char *buffer, size_t capacity, size_t length, uint64_t number, unsigned base, int digits)
{
	char text[24];
	int at = 23;
	text[at] = 0;
	do {
		text[--at] = "0123456789abcdef"[number % base];
		number /= base;
		digits--;
	} while ((number != 0 || digits > 0) && at > 0);
	return longpole_append(buffer, capacity, length, text + at);
}

/* The raw time-stamp counter, not serialised: the measured times are microseconds, and a fence
 * would cost more than the event. */
LONGPOLE_INLINE uint64_t longpole_counter(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	uint64_t value;
	__asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#endif
}

/* CLOCK_MONOTONIC_RAW in nanoseconds, for hosts whose counter cannot be used as a clock. */
LONGPOLE_INLINE uint64_t longpole_mono_raw(void)
{
	int64_t time[2] = {0, 0};
	longpole_libc_clock_gettime(4, time);
	return (uint64_t)time[0] * 1000000000u + (uint64_t)time[1];
}

#if defined(__cplusplus)
}
#endif

#endif

/*
 * Keys for destructors at the end of a thread. A key is made on first use and deleted when the
 * library is unloaded, because a destructor of an unloaded library must not be called.
 */
#ifndef LONGPOLE_KEY_H
#define LONGPOLE_KEY_H

#include "system.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* Makes the key if necessary. `key` holds its number plus one, or 0 if there is none yet. Returns 0
 * if no key is available. */
LONGPOLE_SLOW int longpole_key_get(uint32_t *key, void (*destructor)(void *))
{
	uint32_t none = 0;
	unsigned made;
	if (__atomic_load_n(key, __ATOMIC_ACQUIRE) != 0)
		return 1;
	if (longpole_libc_key_create(&made, destructor) != 0)
		return 0;
	/* Another thread may have made it first. */
	if (!__atomic_compare_exchange_n(key, &none, made + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		longpole_libc_key_delete(made);
	return 1;
}

LONGPOLE_SLOW void longpole_key_drop(uint32_t *key)
{
	const uint32_t made = __atomic_exchange_n(key, 0, __ATOMIC_ACQ_REL);
	if (made != 0)
		longpole_libc_key_delete(made - 1);
}

#if defined(__cplusplus)
}
#endif

#endif

/* The systems on which probes work. On others the compiler reports only this one error: the rest is
 * compiled as with LONGPOLE_DISABLE. */
#ifndef LONGPOLE_PLATFORM_H
#define LONGPOLE_PLATFORM_H

#if defined(__cplusplus) && __cplusplus < 201703L
#error "Longpole's headers need C++17: compile with -std=c++17 or later"
#if !defined(LONGPOLE_DISABLE)
#define LONGPOLE_DISABLE 1
#endif
#endif

#if !defined(LONGPOLE_DISABLE)
#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__)) || defined(__ILP32__) || defined(__AARCH64EB__)
#error "Longpole's probes run on Linux on x86-64 and arm64 (64 bits, little endian); define LONGPOLE_DISABLE elsewhere"
#define LONGPOLE_DISABLE 1
#endif
#endif

#endif

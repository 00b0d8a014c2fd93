/*
 * Makes every probe also a USDT probe: include this header instead of longpole.h, or compile with
 * -DLONGPOLE_SDT. Then debuggers can attach to the probes, with a recorder or without:
 *
 *     bpftrace -l 'usdt:./program:longpole:*'
 *     bpftrace -e 'usdt:./program:longpole:mark { printf("%s %d\n", str(arg0, arg1), arg2); }' \
 *         -c ./program
 *
 * The arguments are the name and its length, then the arguments of the probe. Exceptions: `state`
 * has the machine and the state, each with its length; `packet` has direction, bytes and length;
 * `event` has the number of fields and their array (struct longpole_field); `link` and `flow` have
 * only their numbers; `log` has only the text.
 */
#ifndef LONGPOLE_SDT_H
#define LONGPOLE_SDT_H

#if defined(LONGPOLE_LONGPOLE_H) && !defined(LONGPOLE_SDT)
#error "include <longpole/sdt.h> before <longpole/longpole.h>, or compile with -DLONGPOLE_SDT"
#endif
#if !defined(LONGPOLE_SDT)
#define LONGPOLE_SDT 1
#endif

#include "longpole.h"

#endif

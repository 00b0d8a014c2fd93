/*
 * Every probe is a USDT probe, too: include this in place of longpole.h (or compile with -DLONGPOLE_SDT). Then
 *
 *     bpftrace -l 'usdt:./program:longpole:*'
 *     bpftrace -e 'usdt:./program:longpole:mark { printf("%s %d\n", str(arg0, arg1), arg2); }' -c ./program
 *
 * attach to what the program says, with a recorder or without. Arguments: the name and its length, then those of the probe. Of `state` the
 * machine and the state, each with its length; of `packet` direction, bytes and length; of `event` the number of fields and their array (struct
 * longpole_field); of `link` and `flow` their numbers only; of `log` the text only.
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

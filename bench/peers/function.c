/* The function for tracers of functions. It is compiled with -pg (uftrace), with
 * -finstrument-functions (ours), and with neither. */
#include "subject.h"

void bench_function(uint64_t value);

__attribute__((noinline)) void bench_function(uint64_t value)
{
	KEEP(value);
}

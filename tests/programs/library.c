/* A library with a probe, loaded at run time. */
#include <longpole/longpole.h>

#if defined(__cplusplus)
extern "C"
#endif
void probe_of_library(uint64_t number);

void probe_of_library(uint64_t number)
{
	LONGPOLE_MARK("library", number);
}

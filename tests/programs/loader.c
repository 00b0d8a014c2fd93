/*
 * Loads a library with probes, calls it, and unloads it, again and again. The program has a probe
 * of its own. Both use the one ring of the thread.
 *
 * usage: loader LIBRARY CYCLES
 */
#include <dlfcn.h>
#include <longpole/longpole.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const int cycles = atoi(argv[2]);
	for (int i = 0; i < cycles; i++) {
		LONGPOLE_MARK("program", (uint64_t)i);
		void *library = dlopen(argv[1], RTLD_NOW);
		if (library == NULL) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		void (*probe)(uint64_t);
		*(void **)&probe = dlsym(library, "probe_of_library");
		probe((uint64_t)i);
		dlclose(library);
	}
	return 0;
}

"""A build whose configure script makes one check after the other, before make uses both CPUs."""
from system import System

CONFIGURE = r"""#!/bin/sh
# Like those of autoconf: one compiler call for each question, none beside another.
: > config.h
if [ -f config.cache ]; then cp config.cache config.h; exit 0; fi
for name in CHECKS; do
	echo "#include <stdio.h>
#include <$name.h>
int main(void) { return 0; }" > conftest.c
	if gcc -O1 -o conftest conftest.c 2> /dev/null && ./conftest; then
		echo "#define HAVE_$name 1" >> config.h
	fi
done
"""
HEADERS = "assert ctype dlfcn errno fcntl float fnmatch glob grp iconv inttypes langinfo limits locale malloc math netdb nl_types poll pthread pwd regex sched search semaphore setjmp signal spawn".split()
UNITS = 24


def load(place):
    place.write("configure", CONFIGURE.replace("CHECKS", " ".join(HEADERS * 3)))
    for unit in range(UNITS):
        place.write(f"unit{unit}.c", '#include "config.h"\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n'
                    + "\n".join(f"int part{unit}_{i}(char *to, int n) {{ int sum = n; for (int k = 0; k < n; k++) sum += snprintf(to, n, \"%d %s\", k, to); return sum; }}" for i in range(12)))
    objects = " ".join(f"unit{unit}.o" for unit in range(UNITS))
    place.write("Makefile", f"all.a: {objects}\n\tar rc $@ $^\n%.o: %.c config.h\n\tgcc -O2 -c $< -o $@\n")
    if place.fixed:
        place.write("config.cache", "".join(f"#define HAVE_{name} 1\n" for name in HEADERS))
    return ["sh", "-c", "./configure && make -s -j2"]


SYSTEMS = [
    System(
        name="configure_make",
        kind="serial-step-in-build",
        truth="configure calls the compiler for one check after the other, while the second CPU is idle",
        load=load,
        component=(r"configure", r"conftest"),
        mechanism=(r"serial", r"one (\w+ )?after", r"idle", r"sequen"),
        needs=("gcc", "make"),
    ),
]

"""Programs on one host with needless computation: cleared huge pages, multibyte letters, dynamic
linking.
"""
import random

from system import COMPUTES, ITEMS, System

# A sparse index: touches some places of a large map for each tile.
TILES = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { HUGE = 2 << 20, PLACES = 64 };

static double now(void)
{
    struct timespec at;
    return clock_gettime(CLOCK_MONOTONIC, &at), at.tv_sec + at.tv_nsec * 1e-9;
}

int main(int count, char **words)
{
    int items = 0;
    unsigned sum = 1;
    double begin = now();
    while (now() < begin + atof(words[2])) {
        char *whole = mmap(0, (PLACES + 1L) * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        char *map = (char *)(((unsigned long)whole + HUGE - 1) & ~(HUGE - 1UL));
        madvise(whole, (PLACES + 1L) * HUGE, strcmp(words[1], "huge") ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
        for (long n = 0; n < PLACES; n++) map[n * HUGE + n * 64] = 1;
        for (int n = 0; n < 300000; n++) sum = sum * 1103515245 + map[(sum >> 16) % PLACES * HUGE] + 1;
        munmap(whole, (PLACES + 1L) * HUGE);
        items++;
    }
    printf("items %d seconds %.3f %u\n", items, now() - begin, sum);
}
"""


def huge_pages(place):
    return [str(place.c("tileindex", TILES)), "small" if place.fixed else "huge", str(place.seconds)]


WORDS = "Straße Größe façade naïve cliché work order parcel weight number customer Österreich value state Zürich été".split()
# Sums the numbers at the ends of lines. It is slow although nearly all letters have one byte.
SUMS = r"""
{ if (match($0, /[0-9]+$/)) sum[substr($0, RSTART) % 100] += substr($0, RSTART, 3) }
END { for (n in sum) print n, sum[n] }
"""


def many_bytes(place):
    pick = random.Random(5)
    lines = [" ".join(pick.choice(WORDS) for _ in range(30)) for _ in range(2000)]
    (place.folder / "journal.txt").write_text("".join(f"{pick.choice(lines)} {n}\n" for n in range(60000)))
    script = place.write("sums.awk", SUMS)
    locale = "C" if place.fixed else "C.UTF-8"
    return ["env", f"LC_ALL={locale}", "sh", "-c", f"cat journal.txt journal.txt journal.txt journal.txt | gawk -f {script} | sort -n > sums.txt"]


# 50 libraries, each with a table of its own functions. Because the program may interpose functions,
# the linker looks up all of them at each start.
LIBRARIES = r"""
rm -rf "$1.new" && mkdir "$1.new" && cd "$1.new" || exit 1
links=
for n in $(seq 50); do
    gawk -v n=$n 'BEGIN {
        for (m = 0; m < 600; m++) printf ".globl company_module_%d_interface_function_%d\n.type company_module_%d_interface_function_%d, @function\ncompany_module_%d_interface_function_%d: movl $%d, %%eax\nret\n", n, m, n, m, n, m, m
        printf ".data\n.globl module_%d\n.type module_%d, @object\nmodule_%d:\n", n, n, n
        for (m = 0; m < 600; m++) printf ".quad company_module_%d_interface_function_%d\n", n, m
        printf ".size module_%d, .-module_%d\n.section .note.GNU-stack\n", n, n
    }' > module$n.s
    if [ "$2" = shared ]; then
        gcc -shared -o libmodule$n.so module$n.s || exit 1
        links="$links -lmodule$n"
    else
        links="$links module$n.s"
    fi
done
cat > main.c <<END
#include <stdio.h>
extern int (*module_1[])(void), (*module_50[])(void);
int main(void) { return printf("invoice %d\n", module_1[7]() + module_50[8]()) < 0; }
END
gcc -O1 -fPIC -o invoice main.c -L. -Wl,--no-as-needed $links -Wl,-rpath,"$1" && rm module*.s main.c && mv "$1.new" "$1"
"""


def linking(place):
    folder = place.built(LIBRARIES, ".sh", "sh", "{source}", "{program}", "static" if place.fixed else "shared")
    return ["sh", "-c", f"for n in $(seq 260); do {folder}/invoice; done"]


SYSTEMS = [
    System(
        name="c_huge_pages",
        kind="huge-page-clearing",
        truth="the kernel clears 2 MiB for each place that tileindex touches in its sparse map, because the map asks for huge pages",
        load=huge_pages,
        rate=ITEMS,
        component=(r"tileindex",),
        mechanism=(r"page.?faults?", r"\bfault", r"\bclear", r"\bpages\b", r"in the kernel", r"\bkernel (code|work|time)", r"huge", r"memory"),
        never=(r"\bdisk\b", r"tileindex sleep"),
        needs=("gcc",),
    ),
    System(
        name="gawk_many_bytes",
        kind="multibyte-locale",
        truth="gawk, between cat and sort, computes with letters of several bytes, because the locale is UTF-8, though digits are all that it looks for",
        load=many_bytes,
        component=(r"gawk", r"\bawk\b"),
        mechanism=COMPUTES,
        never=(r"\b(cat|sort) comput", r"gawk sleep", r"\bdisk\b"),
        needs=("gawk", "sort"),
    ),
    System(
        name="ld_many_symbols",
        kind="dynamic-linking",
        truth="each start of invoice computes for tens of milliseconds in the dynamic linker, which looks up 30,000 symbols in 50 libraries",
        load=linking,
        component=(r"invoice",),
        mechanism=(*COMPUTES, r"\bstart", r"\bexec", r"\blink", r"\bload", r"process for each", r"new process"),
        never=(r"\bsh comput", r"invoice sleep", r"\bdisk\b"),
        needs=("gcc", "gawk"),
    ),
]

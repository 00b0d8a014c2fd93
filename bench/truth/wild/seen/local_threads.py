"""Threads and CPUs: more spinning threads than CPUs, a reservation that is too small."""
from system import COMPUTES, ITEMS, System

WEATHER = r"""
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Relaxes a grid: each step is short, and all threads meet after it. */
static double now[128][1024], next[128][1024];

int main(int count, char **words)
{
    double seconds = atof(words[1]), begin = omp_get_wtime();
    long steps = 0;
    while (omp_get_wtime() < begin + seconds) {
        #pragma omp parallel for schedule(static)
        for (int y = 1; y < 127; y++)
            for (int x = 1; x < 1023; x++)
                next[y][x] = (now[y - 1][x] + now[y + 1][x] + now[y][x - 1] + now[y][x + 1]) / 4 + 1;
        #pragma omp parallel for schedule(static)
        for (int y = 0; y < 128; y++) memcpy(now[y], next[y], sizeof now[y]);
        steps++;
    }
    printf("items %ld seconds %.3f\n", steps, omp_get_wtime() - begin);
}
"""


def too_many_threads(place):
    """Sixteen threads that spin at a barrier on two CPUs, or two threads that wait with a futex."""
    program = place.c("weather", WEATHER, "-fopenmp")
    return ["env", *(("OMP_NUM_THREADS=2", "OMP_WAIT_POLICY=passive") if place.fixed else ("OMP_NUM_THREADS=16", "OMP_WAIT_POLICY=active")), str(program), str(place.seconds)]


def reservation(place):
    """SCHED_DEADLINE with 4 ms of CPU in each 24 ms, or no reservation."""
    text = "".join(f"{i} {i * 7919 % 1000003} frame of the scene\n" for i in range(180000))
    place.write("scene", text, 0o644)
    how = ["chrt", "-o", "0"] if place.fixed else ["chrt", "-d", "--sched-runtime", "4000000", "--sched-deadline", "24000000", "--sched-period", "24000000", "0"]
    return [*how, "bzip2", "-k", "-f", "-9", "scene"]


SYSTEMS = [
    System(
        name="openmp_too_many_threads",
        kind="oversubscription",
        truth="weather has sixteen threads on two CPUs, which spin at each barrier and take the CPU from those that everybody waits for",
        load=too_many_threads,
        rate=ITEMS,
        component=(r"weather",),
        mechanism=(*COMPUTES, r"spin", r"barrier", r"futex", r"\bCPUs?\b", r"one another", r"yield", r"preempt", r"more threads"),
        never=(r"\bdisk\b", r"\bsleeps", r"mutex"),
        needs=("gcc",),
    ),
    System(
        name="bzip2_small_reservation",
        kind="deadline-reservation",
        truth="bzip2 runs under SCHED_DEADLINE with 4 ms of CPU in each 24 ms, and the scheduler holds it back although a CPU is idle",
        load=reservation,
        component=(r"bzip2",),
        mechanism=(r"deadline", r"reserv", r"throttl", r"budget", r"quota", r"held back", r"holds? it back", r"bandwidth", r"waits? for (a|the|its) CPU", r"kept from (a|the|its) CPU", r"runnable", r"not (given|get) (a|the) CPU",
                   r"off the CPU", r"preempt", r"does not run though", r"ready to run"),
        never=(r"\bdisk\b", r"\bsleeps", r"control group", r"cgroup"),
        needs=("chrt", "bzip2"),
    ),
]

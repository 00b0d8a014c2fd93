"""The places of `places.c` in Python.

usage: places.py SECONDS
"""

import sys
from time import monotonic_ns, sleep


def computes(ns):
    end = monotonic_ns() + ns
    x = 1
    while monotonic_ns() < end:
        for _ in range(1000):
            x = (x * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
    return x


def waits_long():
    sleep(0.006)


def waits_short():
    sleep(0.00015)


def stage_of_waits():
    for _ in range(8):
        waits_short()


def main():
    times = [0, 0, 0]
    end = monotonic_ns() + int(float(sys.argv[1]) * 1e9)
    while monotonic_ns() < end:
        begin = monotonic_ns()
        computes(3_000_000)
        computed = monotonic_ns()
        waits_long()
        waited = monotonic_ns()
        stage_of_waits()
        times[0] += computed - begin
        times[1] += waited - computed
        times[2] += monotonic_ns() - waited
    for name, ns in zip(["computes", "waits_long", "waits_short"], times):
        print(name, ns)


main()

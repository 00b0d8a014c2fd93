"""Work and locks of a language's runtime: garbage collectors and the interpreter lock."""
from system import ITEMS, LOCKS, PYTHON, System

JAVA = """
import java.util.*;

public class Main {
    public static void main(String[] words) {
        double seconds = Double.parseDouble(words[0]);
        Map<Integer, byte[]> live = new HashMap<>();
        for (int i = 0; i < 12000; i++) live.put(i, new byte[1000]);
        Random draw = new Random(1);
        long items = 0, begin = System.nanoTime(), end = begin + (long) (seconds * 1e9);
        while (System.nanoTime() < end) {
            for (int i = 0; i < 100; i++) live.put(draw.nextInt(12000), new byte[1000]);
            items++;
        }
        System.out.printf("items %d seconds %.3f%n", items, (System.nanoTime() - begin) / 1e9);
    }
}
"""

GO = """
package main

import ("fmt"; "os"; "strconv"; "time")

type node struct { left, right *node; value [3]int }

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{left: tree(depth - 1), right: tree(depth - 1)}
}

func main() {
	items, _ := strconv.Atoi(os.Args[1])
	live := tree(18)
	begin := time.Now()
	for i := 0; i < items; i++ {
		tree(12)
	}
	fmt.Printf("items %d seconds %.3f\\n", items, time.Since(begin).Seconds())
	_ = live.value
}
"""

THREADS = """
import sys, threading, multiprocessing, time

def work(end, counts, me):
    while time.monotonic() < end:
        sum(i * i for i in range(1000))
        counts[me] += 1

if __name__ == "__main__":
    kind = multiprocessing.Process if sys.argv[1] == "processes" else threading.Thread
    counts, begin = multiprocessing.Array("q", 3, lock=False), time.monotonic()
    workers = [kind(target=work, args=(begin + float(sys.argv[2]), counts, me)) for me in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(f"items {sum(counts)} seconds {time.monotonic() - begin:.3f}")
"""


def java(place):
    return ["java", f"-Xmx{'400' if place.fixed else '20'}m", "-XX:+UseParallelGC", "-cp", str(place.java(JAVA)), "Main", str(place.seconds)]


def go(place):
    return ["env", f"GOGC={'400' if place.fixed else '3'}", str(place.go("forest", GO)), "8000" if place.fixed else "600"]


def threads(place):
    return [PYTHON, str(place.write("crunch.py", THREADS)), "processes" if place.fixed else "threads", str(place.seconds)]


COLLECTOR = (r"\bGC\b", r"garbage", r"gcBg|gcDrain|scanobject|collect")
SYSTEMS = [
    System(
        name="java_small_heap",
        kind="garbage-collector",
        truth="the heap of 20 MB is nearly full, so that Java collects garbage most of the time",
        load=java,
        rate=ITEMS,
        component=(r"java", r"\bGC\b", r"VM Thread"),
        mechanism=(*COLLECTOR, r"VM Thread"),
        needs=("java", "javac"),
    ),
    System(
        name="go_gogc_work",
        kind="garbage-collector",
        truth="with GOGC=3 the Go program forest marks its live tree over and over",
        load=go,
        rate=ITEMS,
        component=(r"forest",),
        mechanism=COLLECTOR,
        needs=("go",),
    ),
    System(
        name="python_threads",
        kind="interpreter-lock",
        truth="three Python threads compute, and only the one that holds the interpreter's lock runs",
        load=threads,
        rate=ITEMS,
        component=(r"python", r"crunch\.py"),
        mechanism=(r"\bGIL\b", *LOCKS),
        needs=(PYTHON,),
    ),
]

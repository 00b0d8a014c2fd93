"""Python processes that hold a lock while they wait for something else."""

from system import ITEMS, LOCKS, PYTHON, SLEEPS, System

FLOCK = """
import fcntl, os, sys, time

path, apart, seconds = sys.argv[1], sys.argv[2] == "apart", float(sys.argv[3])
pause = float(sys.argv[4])
readers = []
begin = time.monotonic()
for worker in range(4):
    read, write = os.pipe()
    if os.fork() == 0:
        file, count = open(path, "a"), 0
        while time.monotonic() < begin + seconds:
            if not apart:
                fcntl.flock(file, fcntl.LOCK_EX)
            time.sleep(pause)
            if not apart:
                fcntl.flock(file, fcntl.LOCK_UN)
            count += 1
        os.write(write, b"%d" % count)
        os._exit(0)
    readers.append(read)
total = sum(int(os.read(read, 32)) for read in readers)
print(f"items {total} seconds {time.monotonic() - begin:.3f}")
"""

LOCK = """
import multiprocessing, sys, time

def work(lock, apart, items, pause):
    for _ in range(items):
        if apart:
            time.sleep(pause)
        else:
            with lock:
                time.sleep(pause)
        sum(range(2000))

if __name__ == "__main__":
    apart, items = sys.argv[1] == "apart", int(sys.argv[2])
    lock = multiprocessing.Lock()
    workers = [multiprocessing.Process(target=work, args=(lock, apart, items // 5, float(sys.argv[3]))) for _ in range(5)]
    begin = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def command(source, place, *words):
    return [PYTHON, str(place.write("shared.py", source)), *map(str, words)]


SYSTEMS = [
    System(
        name="python_flock",
        kind="mutex-around-slow-call",
        truth="four Python processes sleep 4 ms each time while they hold a flock",
        load=lambda place: command(FLOCK, place, place.folder / "lock", "apart" if place.fixed else "together", place.seconds, 0.004 * place.scale),
        rate=ITEMS,
        component=(r"python", r"shared\.py"),
        mechanism=(r"flock", *LOCKS, *SLEEPS),
        change="x0.25",
        halves=True,
        needs=(PYTHON,),
    ),
    System(
        name="python_lock_work",
        kind="mutex-around-slow-call",
        truth="five Python processes do fixed work and sleep 2 ms each time under a semaphore that they share",
        load=lambda place: command(LOCK, place, "apart" if place.fixed else "together", 9000 if place.fixed else 1800, 0.002 * place.scale),
        rate=ITEMS,
        component=(r"python", r"shared\.py"),
        mechanism=(r"semaphore", *LOCKS, *SLEEPS),
        change="x0.2",
        halves=True,
        needs=(PYTHON,),
    ),
]

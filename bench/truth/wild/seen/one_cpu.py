"""Programs in which only one thread computes."""
from system import COMPUTES, ITEMS, PYTHON, System

JSON = """
import json, sys, time

slow, seconds = sys.argv[1] == "slow", float(sys.argv[2])
orders = [{"id": i, "name": f"order {i}", "lines": list(range(20)), "paid": i % 3 == 0} for i in range(int(sys.argv[4]))]
begin, items = time.monotonic(), 0
with open(sys.argv[3], "w") as out:
    while time.monotonic() < begin + seconds:
        # With an indent it is Python that encodes, without one it is C.
        text = json.dumps(orders, indent=1 if slow else None)
        out.seek(0)
        out.write(text)
        items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def encoder(place):
    script = place.write("export.py", JSON)
    return [PYTHON, str(script), "fast" if place.fixed else "slow", str(place.seconds), str(place.folder / "orders.json"), str(round(400 * place.scale))]


def sorter(place):
    numbers = place.folder / "numbers"
    place.run("sh", "-c", f"seq 1 1100000 | awk '{{print $1 * 7919 % 1100009}}' > {numbers}")
    # General numbers are read as long double, plain ones are compared as text.
    return ["sort", "-n" if place.fixed else "-g", "--parallel=1", "-S", "200M", "-o", str(place.folder / "sorted"), str(numbers)]


SYSTEMS = [
    System(
        name="python_json",
        kind="single-threaded-cpu",
        truth="one Python thread encodes JSON at 100 % of a CPU",
        load=encoder,
        rate=ITEMS,
        component=(r"python", r"export\.py"),
        mechanism=COMPUTES,
        halves=True,
        needs=(PYTHON,),
    ),
    System(
        name="sort_work",
        kind="single-threaded-cpu",
        truth="sort compares general numbers in one thread",
        load=sorter,
        component=(r"\bsort\b",),
        mechanism=COMPUTES,
        needs=("sort",),
    ),
]

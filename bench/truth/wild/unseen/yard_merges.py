"""Merges the orders of a year from the sorted files of its days."""
from system import COMPUTES, System


def merged(place):
    days = []
    for number in range(64):
        text = "".join(f"{key:08} order of day {number}\n" for key in range(number, 64 * 60000, 64))
        days.append(str(place.write(f"day{number}", text, 0o644)))
    return ["env", "LC_ALL=C", "sort", "-m", "-T", str(place.folder), f"--batch-size={64 if place.fixed else 2}", "-o", "year", *days]


SYSTEMS = [
    System(
        name="sort_merges_two",
        kind="narrow-merge",
        truth="sort merges two of 64 files at a time, so that each line is read, compared and written in several passes",
        load=merged,
        component=(r"\bsort\b",),
        mechanism=(*COMPUTES, r"merg", r"pass(es)?\b", r"temporary", r"\bwrit(es|ing|e)\b", r"\bread(s|ing)?\b", r"again and again", r"\bfiles?\b", r"\bCPU"),
        never=(r"\bsleeps", r"\block\b", r"\bsocket"),
        needs=("sort",),
    ),
]

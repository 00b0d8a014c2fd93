"""A script that polls for the ends of its processes."""
from system import SLEEPS, System

WATCH = """#!/bin/bash
for n in $(seq 12); do
    ./convert_page &
    child=$!
    while kill -0 $child 2>/dev/null; do sleep $1; done
done
"""
PAGE = "int main(void) { volatile int n = 0; while (n < 20000000) n++; }\n"


def exit_polling(place):
    place.c("convert_page", PAGE)
    text = WATCH
    if place.fixed:
        text = text.replace("while kill -0 $child 2>/dev/null; do sleep $1; done", "wait $child")
    return [str(place.write("watch_pages", text)), str(0.3 * place.scale)]


SYSTEMS = [
    System(
        name="bash_polls_for_exit",
        kind="exit-polling",
        truth="watch_pages looks only each 0.3 s whether its child has ended, and sleeps meanwhile",
        load=exit_polling,
        component=(r"watch_pages", r"\bbash\b", r"\bsleep\b"),
        mechanism=(*SLEEPS, r"\bpoll"),
        never=(r"\bdisk\b", r"convert_page comput"),
        halves=True,
        needs=("bash", "gcc"),
    ),
]

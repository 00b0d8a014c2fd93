#!/usr/bin/env python3
"""Records with LTTng-UST, and compares `longpole print --json` with babeltrace2 on each recording,
value by value.

    lttng.py --longpole PATH [--only NAME]

The recordings have every kind of field and of event header, 1 and 4 threads, buffers that discard
and that overwrite, per user and per process, with contexts, rotated, and as snapshots. Needs root,
or a user whose session daemon is not running; kernel events are not recorded.
"""

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "bench"))
from common import Lttng, Open, run  # noqa: E402
from compare import compare  # noqa: E402

CONTEXTS = ["vpid", "vtid", "procname", "pthread_id", "ip", "vuid", "vgid", "cgroup_ns", "user_ns"]


def build(work):
    """Builds the load, with enough event classes for the large event header."""
    events = [f"event_{index}" for index in range(40)]
    event = "LTTNG_UST_TRACEPOINT_EVENT(many, {}, LTTNG_UST_TP_ARGS(uint32_t, a), LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, a, a)))\n"
    (work / "many.h").write_text(
        "#undef LTTNG_UST_TRACEPOINT_PROVIDER\n#define LTTNG_UST_TRACEPOINT_PROVIDER many\n#undef LTTNG_UST_TRACEPOINT_INCLUDE\n"
        '#define LTTNG_UST_TRACEPOINT_INCLUDE "many.h"\n#if !defined(MANY_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)\n#define MANY_H\n'
        "#include <lttng/tracepoint.h>\n#include <stdint.h>\n"
        + "".join(event.format(name) for name in events)
        + "#endif\n#ifndef MANY\n#define MANY(i) do { "
        + " ".join(f"lttng_ust_tracepoint(many, {name}, i);" for name in events)
        + " } while (0)\n#endif\n#include <lttng/tracepoint-event.h>\n"
    )
    program = work / "load"
    run("cc", "-O1", "-pthread", "-I", work, "-I", HERE / "lttng", HERE / "lttng" / "load.c", HERE / "lttng" / "texts.c", "-o", program, "-llttng-ust", "-ldl")
    return program


class Session:
    """A recording: the lttng commands before the program runs, and the resulting folder."""

    def __init__(self, daemon, work, program, name, snapshot=False):
        self.lttng, self.environment, self.program = daemon.lttng, daemon.environment, program
        self.name, self.folder = name, work / name
        if snapshot:
            self.folder.mkdir()
            self.lttng("create", name, "--snapshot", f"--output={self.folder}")
        else:
            self.lttng("create", name, f"--output={self.folder}")

    def channel(self, *options, events="kinds:*", contexts=()):
        self.lttng("enable-channel", "-u", "-s", self.name, "c", *options)
        for pattern in events.split(","):
            self.lttng("enable-event", "-u", "-s", self.name, "-c", "c", pattern)
        for context in contexts:
            try:
                self.lttng("add-context", "-u", "-s", self.name, "-c", "c", "-t", context)
            except Exception as error:
                print(f"not at hand: LTTng's context {context} ({str(error).strip().splitlines()[-1]})")
        self.lttng("start", self.name)

    def load(self, *arguments):
        subprocess.run([self.program, *map(str, arguments)], check=True, env=self.environment)

    def started(self, *arguments):
        return subprocess.Popen([self.program, *map(str, arguments)], env=self.environment)

    def end(self):
        self.lttng("destroy", self.name)
        return self.folder


def one_thread(make):
    session = make("one-thread-discard")
    session.channel("--discard", "--subbuf-size=256K", "--num-subbuf=8", events="*", contexts=CONTEXTS)
    session.load(1, 100)
    return session.end()


def counters(make):
    session = make("counters")
    session.channel("--subbuf-size=256K", "--num-subbuf=8", contexts=["perf:thread:instructions", "perf:thread:page-fault", "vtid"])
    session.load(2, 5)
    return session.end()


def four_threads(make):
    session = make("four-threads-discard")
    session.channel("--discard", "--subbuf-size=512K", "--num-subbuf=8", contexts=["vpid", "vtid", "procname"])
    session.load(4, 100)
    return session.end()


def losses(make):
    session = make("four-threads-discard-losses")
    session.channel("--discard", "--subbuf-size=4K", "--num-subbuf=2", contexts=["vtid"])
    session.load(4, 2000)
    return session.end()


def overwrite(make):
    session = make("four-threads-overwrite")
    session.channel("--overwrite", "--subbuf-size=16K", "--num-subbuf=4", contexts=["vtid", "procname"])
    session.load(4, 2000)
    return session.end()


def overwrite_one(make):
    session = make("one-thread-overwrite")
    session.channel("--overwrite", "--subbuf-size=4K", "--num-subbuf=2")
    session.load(1, 1000)
    return session.end()


def of_processes(make):
    session = make("of-processes")
    session.channel("--buffers-pid", "--subbuf-size=64K", "--num-subbuf=4", contexts=["vpid", "vtid"])
    session.load(1, 20)
    session.load(2, 20)
    return session.end()


def large_header(make):
    session = make("large-header")
    session.channel("--subbuf-size=512K", "--num-subbuf=8", events="many:*,kinds:*", contexts=["vtid"])
    session.load(2, 60)
    return session.end()


def rotated(make):
    session = make("rotated")
    session.channel("--subbuf-size=64K", "--num-subbuf=8", contexts=["vtid"])
    program = session.started(2, 400, 1000)
    for _ in range(3):
        time.sleep(0.1)
        session.lttng("rotate", session.name)
    program.wait()
    return session.end()


def snapshot(make):
    session = make("snapshot", snapshot=True)
    session.channel("--overwrite", "--subbuf-size=16K", "--num-subbuf=4", contexts=["vpid", "vtid"])
    session.load(4, 1000)
    session.lttng("snapshot", "record", "-s", session.name)
    session.load(1, 20)
    session.lttng("snapshot", "record", "-s", session.name)
    return session.end()


def wrong_texts(longpole, trace):
    """Returns the number of wrong texts. The text of round i is empty if i is a multiple of 6, and
    only then; babeltrace2 cannot be used to check that.
    """
    lines = subprocess.run([longpole, "print", "--json", trace], capture_output=True, check=True).stdout.decode().splitlines()
    events = [json.loads(line) for line in lines]
    if any("lost" in event for event in events):
        return 0
    rounds, wrong = {}, 0
    for event in events:
        thread = event["context"].get("vtid")
        if event["name"] == "kinds:struct_":
            rounds[thread] = event["fields"]["event"] + 1
        elif event["name"] == "kinds:strings" and thread in rounds:
            wrong += (event["fields"]["s"] == "") != (rounds[thread] % 6 == 0)
    return wrong


RECORDINGS = [one_thread, counters, four_threads, losses, overwrite, overwrite_one, of_processes, large_header, rotated, snapshot]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--longpole", required=True)
    parser.add_argument("--only")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder that the recordings are left in")
    arguments = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        work = arguments.keep or pathlib.Path(scratch)
        work.mkdir(exist_ok=True)
        program = build(work)
        daemon = Lttng(work)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(daemon)
            except Open as error:
                print(f"skipped: recordings of LTTng-UST next to babeltrace2 ({error})")
                return 0
            for recording in RECORDINGS:
                if arguments.only in (None, recording.__name__):
                    folder = recording(lambda name, **options: Session(daemon, work, program, name, **options))
                    # Each chunk and each snapshot, and if there are several, also all of them as
                    # one trace.
                    traces = sorted(metadata.parent for metadata in folder.rglob("metadata"))
                    for trace in traces + ([folder] if len(traces) > 1 else []):
                        text, good = compare(arguments.longpole, str(trace), 120, True)
                        if wrong := wrong_texts(arguments.longpole, trace):
                            text, good = f"{text}\n    ! {wrong} texts are empty that should not, or the other way round", False
                        bad += not good
                        if recording is counters and text.startswith("0 events"):
                            print("not at hand: counters of threads as LTTng's contexts (perf_event_open)")
                        print(f"{'ok  ' if good else 'WRONG'} {trace.relative_to(work)}: {text}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""Prints what babeltrace2 reads from a trace, one JSON object per line: clocks, events with exact
values, losses.

    dump.py TRACE

Runs with the Python for which Debian's python3-bt2 is made. The line of an event has `t_ns` and
`cycles`, `clock` (the index of a line with `frequency`, `offset_s` and `offset`), `stream`, `name`,
and as lists of pairs `packet`, `common`, `specific` and `fields`. An enumeration is {"enum":
number, "labels": [...]}, a structure {"struct": pairs}, and a variant {"option": one pair}. Numbers
that JSON cannot represent are {"float": text}, and bytes that are not UTF-8 are surrogates.
"""

import json
import math
import os
import pathlib
import sys
import tempfile

import bt2


def value(field):
    if isinstance(field, bt2._EnumerationFieldConst):
        try:
            labels = list(field.labels)
        except AssertionError:  # the bindings assert if no label matches
            labels = []
        return {"enum": int(field), "labels": labels}
    if isinstance(field, bt2._IntegerFieldConst):
        return int(field)
    if isinstance(field, bt2._RealFieldConst):
        number = float(field)
        return number if math.isfinite(number) else {"float": repr(number)}
    if isinstance(field, bt2._StringFieldConst):
        return str(field)
    if isinstance(field, bt2._StructureFieldConst):
        return {"struct": pairs(field)}
    if isinstance(field, bt2._VariantFieldConst):
        name = list(field.cls)[field.selected_option_index]
        return {"option": [[name, value(field.selected_option)]]}
    if isinstance(field, bt2._ArrayFieldConst):
        return [value(element) for element in field]
    raise TypeError(f"a field of {type(field).__name__}")


def pairs(structure):
    if structure is None:
        return []
    return [[name, value(field)] for name, field in structure.items()]


def trimmed(folder, copies):
    """Returns a folder whose metadata begins with its signature. Other tracers write blank lines
    before it, which babeltrace2 refuses; such a trace is copied without them.
    """
    folder = pathlib.Path(folder).resolve()
    metadata = (folder / "metadata").read_bytes()
    if metadata == metadata.lstrip():
        return str(folder)
    copy = pathlib.Path(copies, str(len(os.listdir(copies))))
    copy.mkdir()
    (copy / "metadata").write_bytes(metadata.lstrip())
    for stream in folder.iterdir():
        if stream.is_file() and stream.name != "metadata":
            (copy / stream.name).symlink_to(stream)
    return str(copy)


def main(trace, copies):
    clocks = []

    def clock_of(snapshot):
        clock = snapshot.clock_class
        offset = clock.offset
        key = (clock.name, clock.frequency, offset.seconds, offset.cycles)
        if key not in clocks:
            clocks.append(key)
            put({"frequency": clock.frequency, "offset_s": offset.seconds, "offset": offset.cycles})
        return clocks.index(key)

    def put(line):
        sys.stdout.write(json.dumps(line) + "\n")

    # babeltrace2's own search for traces queries them first, and aborts on some valid ones.
    folders = sorted(folder for folder, _, files in os.walk(trace) if "metadata" in files)
    source = bt2.ComponentSpec.from_named_plugin_and_component_class
    specs = [source("ctf", "fs", params={"inputs": [trimmed(folder, copies)]}, logging_level=bt2.LoggingLevel.ERROR) for folder in folders]
    for message in bt2.TraceCollectionMessageIterator(specs):
        if isinstance(message, bt2._EventMessageConst):
            event = message.event
            line = {"name": event.name, "stream": event.stream.name}
            if event.stream.cls.default_clock_class is not None:
                snapshot = message.default_clock_snapshot
                line["clock"] = clock_of(snapshot)
                line["cycles"] = snapshot.value
                try:
                    line["t_ns"] = snapshot.ns_from_origin
                except (bt2._Error, ValueError, OverflowError):
                    line["t_ns"] = None
            context = event.packet.context_field if event.stream.cls.supports_packets else None
            line["packet"] = pairs(context)
            line["common"] = pairs(event.common_context_field)
            line["specific"] = pairs(event.specific_context_field)
            line["fields"] = pairs(event.payload_field)
            put(line)
        elif isinstance(message, bt2._DiscardedEventsMessageConst):
            put({"lost_events": message.count})
        elif isinstance(message, bt2._DiscardedPacketsMessageConst):
            put({"lost_packets": message.count})
    put({"end": True})


with tempfile.TemporaryDirectory() as copies:
    main(sys.argv[1], copies)

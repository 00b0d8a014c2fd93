#!/usr/bin/env python3
"""Compares `longpole print --json` with babeltrace2, event by event: number and order of events,
their names, times to the nanosecond, and every value of every field.

    compare.py --longpole PATH [--timeout SECONDS] [--rewritten] TRACE…
    compare.py --longpole PATH --expected TABLE          the CTF 1.8 traces that are listed in
                                                         `expected.tsv`, located in its folder
    compare.py --longpole PATH --golden FOLDER           the valid cases of
                                                         `crates/ctf/tests/golden`, as traces

Prints a line per trace: the number of events and of values that were compared, and each kind of
difference with a known reason, with its number. Other differences are printed with the event; the
exit status is then 1. `dump.py` in this folder reads a trace with babeltrace2.
"""

import argparse
import collections
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"

# Known failures of babeltrace2 on whole traces: a pattern for its message, and the reason.
FAULTS = [
    (r"precondition not satisfied|Aborting|Assertion", "aborts on its own precondition"),
    (r"timestamp is less than muxer's|not monotonic", "refuses times that run backwards"),
]
BACKWARDS = FAULTS[1][1]

# Known wrong values of babeltrace2, by the end of the trace's path.
KNOWN = {
    "ctf-1/pass-multiple-dst-id-fl-ints/trace": "takes the first of two ids in an event's header, and reads on with a wrong class",
}

# Members of a packet's context that are the subject in our JSON.
SUBJECT = {"label": "label", "session_label": "label", "thread": "thread", "thread_name": "thread", "pid": "pid", "vpid": "pid", "tid": "tid", "vtid": "tid"}


class Pairs(list):
    """Members of an object, in order. A list, because a name may occur twice."""


class Difference(Exception):
    pass


def ours(longpole, trace):
    """Returns the events and losses of `print --json`, its errors, and its exit status."""
    run = subprocess.run([longpole, "print", "--json", trace], capture_output=True, timeout=600)
    lines = [json.loads(line, object_pairs_hook=Pairs) for line in run.stdout.decode().splitlines()]
    items = [dict(line) for line in lines]
    return items, run.stderr.decode(), run.returncode


def theirs(trace, timeout):
    """Returns the lines of `dump.py`, and the reason if it did not reach the end, otherwise None.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        try:
            status = subprocess.run([PYTHON, HERE / "dump.py", trace], stdout=out, stderr=errors, timeout=timeout).returncode
        except subprocess.TimeoutExpired:
            status = None
        out.seek(0)
        errors.seek(0)
        lines = []
        for line in out:
            try:
                lines.append(json.loads(line))
            except ValueError:
                break  # the last line of a killed reader may be incomplete
        text = errors.read().decode(errors="replace")
    if lines and lines[-1].get("end"):
        return lines[:-1], None
    if status is not None and status < 0:
        return lines, f"crashes by signal {-status}"
    if status is None:
        return lines, f"does not end within {timeout} s"
    for pattern, reason in FAULTS:
        if re.search(pattern, text):
            return lines, reason
    said = re.search(r" E [A-Z/-]+ .*?\.c:\d+ (?:\[[^]]*\] )?(.*)", text) or re.search(r"^\w*Error: (.*)", text, re.M)
    return lines, "refuses it: " + (re.sub(r": [a-z-]+=.*", "", said[1]) if said else f"status {status}")


def flat(pairs, prefix=""):
    """Flattens nested structures to dotted names, as in our JSON."""
    for name, value in pairs:
        if isinstance(value, dict) and value.get("struct"):
            yield from flat(value["struct"], f"{prefix}{name}.")
        else:
            yield prefix + name, value


class Comparison:
    def __init__(self):
        self.values = 0
        self.labelled = {}
        self.reasons = collections.Counter()
        self.texts = set()

    def same(self, mine, value, where):
        """Compares one of our values with babeltrace2's."""
        self.values += 1
        match value:
            case {"enum": number, "labels": labels}:
                told = dict(self.labelled.get(where, Pairs()))
                if "" in labels:
                    self.reasons["a label without a letter is none in ours"] += 1
                    labels = [label for label in labels if label]
                shown = labels[0] if labels else number
                if type(mine) is not type(shown) or mine != shown or told != {"value": number, "labels": labels}:
                    self.differ([mine, told], value, where)
            case {"float": number}:
                if not isinstance(mine, str) or mine.lower() != number:
                    self.differ(mine, value, where)
            case str():
                # dump.py represents bytes that are not UTF-8 as surrogates; our JSON replaces them.
                if mine == "" and value in self.texts:
                    self.reasons["babeltrace2 leaves an empty text as the field's text before it was"] += 1
                elif mine != value.encode(errors="surrogateescape").decode(errors="replace"):
                    self.differ(mine, value, where)
                self.texts.add(value)
            case {"struct": pairs} | {"option": pairs}:
                self.members(mine, pairs, where)
            case list():
                if isinstance(mine, str):  # unsigned bytes
                    if not all(isinstance(element, int) and 0 <= element < 256 for element in value) or bytes(value).hex() != mine:
                        self.differ(mine, value, where)
                elif not isinstance(mine, list) or isinstance(mine, Pairs) and mine or len(mine) != len(value):
                    self.differ(mine, value, where)
                else:
                    for index, (one, other) in enumerate(zip(mine, value)):
                        self.same(one, other, f"{where}[{index}]")
            case float():
                # A float 2.0 is written as the integer 2 in our JSON.
                if not isinstance(mine, (int, float)) or float(mine) != value:
                    self.differ(mine, value, where)
            case _:
                if type(mine) is not type(value) or mine != value:
                    self.differ(mine, value, where)

    def members(self, mine, pairs, where):
        names = {name for name, _ in mine} if isinstance(mine, list) else set()
        padding = [name for name, value in pairs if value == {"struct": []} and name not in names]
        if padding:
            self.reasons["structures without fields that only align what follows are not in ours"] += 1
            pairs = [(name, value) for name, value in pairs if name not in padding]
        if not isinstance(mine, list) or [name for name, _ in mine] != [name for name, _ in pairs]:
            self.differ(mine, pairs, where)
        for (name, one), (_, other) in zip(mine, pairs):
            self.same(one, other, f"{where}.{name}" if where else name)

    def differ(self, mine, value, where):
        raise Difference(f"{where}: {json.dumps(mine)} instead of {json.dumps(value)}")

    def scope(self, event, scope, mine, pairs):
        """Compares the values below one of the keys of our JSON."""
        self.labelled = dict(dict(event.get("labelled", Pairs())).get(scope, Pairs()))
        self.members(mine, pairs, "")

    def event(self, mine, theirs):
        if mine["name"] != theirs["name"]:
            raise Difference(f"name {mine['name']!r} instead of {theirs['name']!r}")
        if mine["t_ns"] != theirs["exact_ns"]:
            raise Difference(f"time {mine['t_ns']} instead of {theirs['exact_ns']}")
        common = dict(flat(theirs["common"]))
        # A member of the event's own context that has the same name as one of the common context.
        specific = [(f"event.{name}" if name in common else name, value) for name, value in flat(theirs["specific"])]
        context = list(common.items()) + specific
        # After the contexts of the event, our JSON has the members of the subject.
        who = dict(mine["context"][len(context) :])
        if not set(who) <= set(SUBJECT.values()) | {"host"}:
            raise Difference(f"context {mine['context']} instead of {context}")
        self.scope(mine, "context", mine["context"][: len(context)], context)
        self.scope(mine, "fields", mine["fields"], list(flat(theirs["fields"])))
        packet = list(flat(theirs["packet"]))
        shown = mine.get("packet", Pairs())
        names = {name for name, _ in shown}
        for name, value in packet:
            if name == "cpu_id" and name not in names:
                self.same(mine["cpu"], value, "cpu")
            elif name in SUBJECT and name not in names and SUBJECT[name] in who:
                self.same(who[SUBJECT[name]], value, name)
        told = [(name, value) for name, value in packet if name in names or name not in SUBJECT and name != "cpu_id"]
        self.scope(mine, "packet", shown, told)


def exact(event, clocks):
    """Nanoseconds since the origin, computed from the metadata."""
    if "clock" not in event:
        return None
    clock = clocks[event["clock"]]
    return clock["offset_s"] * 10**9 + (clock["offset"] + event["cycles"]) * 10**9 // clock["frequency"]


def compare(longpole, trace, timeout, accept=None):
    """Returns a line of text, and True if there is no unexplained difference."""
    items, errors, status = ours(longpole, trace)
    mine = [item for item in items if "name" in item]
    lines, fault = theirs(trace, timeout)
    clocks = [line for line in lines if "frequency" in line]
    other = [line for line in lines if "name" in line]
    result = Comparison()
    if status and accept:
        return f"REFUSED: {errors.strip()}", False
    if fault and not other:
        if accept is False:
            return f"{len(mine)} events before the error; babeltrace2 {fault}", True
        return f"{len(mine)} events; nothing to compare: babeltrace2 {fault}", True
    if fault:
        result.reasons[f"babeltrace2 stops after {len(other)} events: it {fault}"] += 1
    elif len(mine) != len(other):
        return f"{len(mine)} EVENTS INSTEAD OF {len(other)}", False
    for event in other:
        event["exact_ns"] = exact(event, clocks)
        if event["exact_ns"] is not None and event["t_ns"] != event["exact_ns"]:
            result.reasons["babeltrace2 rounds the time otherwise: it converts cycles and offset apart, or in floating point"] += 1
            if event["t_ns"] is not None and abs(event["t_ns"] - event["exact_ns"]) > 1 + event["cycles"] * 10**9 // clocks[event["clock"]]["frequency"] // 2**51:
                return f"{trace}: babeltrace2's {event['t_ns']} is not {event['exact_ns']}", False
    if any(one["exact_ns"] is not None and one["exact_ns"] > two["exact_ns"] for one, two in zip(other, other[1:])):
        result.reasons["with babeltrace2's rounded times the order is another"] += 1
        other.sort(key=lambda event: event["exact_ns"])
    known = next((reason for end, reason in KNOWN.items() if trace.endswith(end)), None)
    if known:
        return f"{len(mine)} events; not compared: babeltrace2 {known}", True
    at = 0
    wrong = []
    stream = lambda name: pathlib.PurePath(name or "").name
    pairs = []
    if fault == BACKWARDS:
        # The events that babeltrace2 returned are unordered. Each must be one of ours.
        places = collections.defaultdict(list)
        for index, event in enumerate(mine):
            places[event["t_ns"], event["name"]].append(index)
        for event in other:
            found = places[event["exact_ns"], event["name"]]
            pairs.append((found.pop(0) if found else None, event))
        other = []
    for _, group in itertools.groupby(other, key=lambda event: event["exact_ns"]):
        group = list(group)
        part = list(range(at, min(at + len(group), len(mine))))
        at += len(group)
        # Events with equal times may come in any order of their streams.
        if len(group) > 1:
            if [stream(mine[index]["stream"]) for index in part] != [stream(event["stream"]) for event in group]:
                result.reasons["events of one time come in another order of their streams"] += 1
            part.sort(key=lambda index: stream(mine[index]["stream"]))
            group.sort(key=lambda event: stream(event["stream"]))
        pairs += zip(part, group)
    for index, event in pairs:
        if index is None:
            wrong.append(f"{event['name']} at {event['exact_ns']} is not in ours")
            continue
        if event["exact_ns"] is None:
            event["exact_ns"] = mine[index]["t_ns"]
            result.reasons["events without a time are at the origin in ours"] += 1
        try:
            result.event(mine[index], event)
        except Difference as difference:
            wrong.append(f"event {index}, {event['name']} at {event['exact_ns']}: {difference}")
    lost = sum(item["lost"] or 0 for item in items if "lost" in item)
    their_losses = [line["lost_events"] or 0 for line in lines if "lost_events" in line]
    their_lost = sum(their_losses)
    if max(their_losses, default=0) >= 2**63:
        result.reasons["babeltrace2 takes a counter of losses that falls for one that has counted beyond 64 bits"] += 1
    elif not fault and lost != their_lost:
        wrong.append(f"{lost} lost events instead of {their_lost}")
    text = f"{len(pairs)} events, {result.values} values"
    if lost:
        text += f", {lost} lost events"
    text += " the same" if not wrong else f", {len(wrong)} DIFFER"
    for reason, count in sorted(result.reasons.items()):
        text += f"\n    {count} x {reason}"
    for line in wrong[:5]:
        text += f"\n    ! {line}"
    return text, not wrong


def golden(case, folder):
    """Writes a golden case as a trace."""
    metadata, _, rest = case.read_text().partition("--- bytes\n")
    content = bytearray()
    for line in rest.partition("--- expect\n")[0].splitlines():
        for index, part in enumerate(line.split("#")[0].split('"')):
            content += part.encode() if index % 2 else bytes.fromhex(part)
    trace = pathlib.Path(folder, case.stem)
    trace.mkdir()
    (trace / "metadata").write_text(metadata)
    (trace / "stream").write_bytes(content)
    return str(trace)


def rewritten(trace, folder, timeout):
    """Returns the trace as babeltrace2 writes it, or None if babeltrace2 fails."""
    copy = pathlib.Path(folder, str(len(list(pathlib.Path(folder).iterdir()))))
    command = ["babeltrace2", "--output-format=ctf", f"--output={copy}", trace]
    try:
        written = subprocess.run(command, capture_output=True, timeout=timeout).returncode == 0
    except subprocess.TimeoutExpired:
        written = False
    return str(copy) if written and any(copy.rglob("metadata")) else None


def rows(table):
    """Yields each CTF 1.8 trace with the expected result: True (accept), False (reject), or None if
    an error follows after some events.
    """
    for line in table.read_text().splitlines()[1:]:
        trace, version, verdict = line.split("\t")[:3]
        if version == "1.8":
            yield str(table.parent / trace), {"accept": True, "reject": False}.get(verdict)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--longpole", required=True)
    parser.add_argument("--expected", type=pathlib.Path)
    parser.add_argument("--golden", type=pathlib.Path)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--rewritten", action="store_true", help="also what babeltrace2 makes of each trace that it reads")
    parser.add_argument("traces", nargs="*")
    arguments = parser.parse_args()
    traces = [(trace, None) for trace in arguments.traces]
    if arguments.expected:
        traces += rows(arguments.expected)
    scratch = tempfile.TemporaryDirectory()
    if arguments.golden:
        traces += [(golden(case, scratch.name), True) for case in sorted(arguments.golden.glob("pass-*.txt"))]
    bad = 0
    for trace, accept in traces:
        text, good = compare(arguments.longpole, trace, arguments.timeout, accept)
        bad += not good
        print(f"{'ok  ' if good else 'WRONG'} {trace}: {text}", flush=True)
        copy = rewritten(trace, scratch.name, arguments.timeout) if arguments.rewritten and accept is not False else None
        if copy:
            text, good = compare(arguments.longpole, copy, arguments.timeout, True)
            bad += not good
            print(f"{'ok  ' if good else 'WRONG'} {trace} as babeltrace2 writes it: {text}", flush=True)
    print(f"{len(traces)} traces, {bad} with differences that have no reason")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The critical path of a machine log, computed by a plain backward walk over the whole history.

It was written only from the definition of the machine log (docs/formats/machine-log.md). The
streaming implementation is compared with it, so the two must share no idea. `Log` replays the lines
and stores for each machine its states with their begin, and the cause that ended each of its
blocks; `walk` begins at the end and follows these entries. Where the definition leaves a choice,
README.md contains the interpretation used here.
"""
import argparse
import bisect
import json
import sys
from collections import namedtuple
from types import SimpleNamespace

ACTIONS = {"get": {"n", "flow", "state"}, "peek": {"n", "flow", "state"}, "put": {"n", "flow", "link", "state"}, "reserve": {"n", "state"},
           "woken_by": {"at", "link", "state"}, "blocked": {"on", "for"}, "stop": set(), "pop": set(), "forked_by": {"at", "link", "state", "on_top_of"}}
TEXT = {"host", "machine", "class", "state", "blocked", "on", "for", "link", "put", "get", "peek", "reserve", "queue", "order", "unit", "end", "flow"}
NULLABLE = {"woken_by", "forked_by", "on_top_of"}

# A position in the history: `machine` after the lines up to `line`, at time `t`. `name` and `label`
# are those of the link that begins there.
Cause = namedtuple("Cause", "machine line t name label")
NOWHERE = Cause(None, -1, -1, None, None)  # an unknown cause; a unit without any cause has None
# A change of a machine's state. kind: plain, birth, stop, freed (`cause` ended the block that began
# at entry `block`), adopt (a context takes over the path of `cause`).
Entry = namedtuple("Entry", "line t state unknown kind cause block")
Segment = namedtuple("Segment", "start end host machine cls state unknown")


class Refused(Exception):
    """The log is no machine log; the text contains the line and the reason."""


class Machine:
    def __init__(self, host, name, cls):
        self.host, self.name, self.cls, self.entries, self.reserved, self.over, self.alive = host, name, cls, [], {}, 0, False

    def note(self, line, t, kind="plain", cause=None, block=None):
        state, unknown = (self.state, False) if self.block is None else ("blocked:" + self.block, True)
        state, unknown = ("UNKNOWN", True) if kind == "stop" else ("interrupted", False) if self.over else (state, unknown)
        self.entries.append(Entry(line, t, state, unknown, kind, cause, block))


def take(chunks, n, lifo=False, flow=None, remove=True):
    """Takes n units from the chunks. Returns them as [units, origin], and the number of missing
    units. With n None, takes all.
    """
    taken, left = [], n
    for chunk in reversed(chunks) if lifo else chunks:
        units = chunk[0] if left is None else min(left, chunk[0])
        if units and flow in (None, chunk[2]):
            taken.append([units, chunk[1]])
            left = None if left is None else left - units
            chunk[0] -= units if remove else 0
    chunks[:] = [chunk for chunk in chunks if chunk[0]]
    return taken, left or 0


def latest(taken, missing):
    """Returns the origin of the unit that arrived last. Lines are sorted by time, so the last line
    also has the greatest time.
    """
    origins = [origin for _, origin in taken if origin]
    return NOWHERE if missing or NOWHERE in origins else max(origins, key=lambda origin: origin.line, default=None)


class Log:
    def __init__(self, lines):
        self.machines, self.queues, self.slack, self.times = {}, {}, {}, []
        self.contradictions, self.ignored_wakes, self.negative_links, self.end, self.last = [], 0, 0, None, None
        for self.number, text in enumerate(lines, 1):
            if text.strip():
                self.line(text)
        if not self.last:
            raise Refused("no line names a machine")

    def demand(self, true, reason):
        if not true:
            raise Refused(f"line {self.number}: {reason}")

    def only(self, line, keys):
        self.demand(line.keys() <= keys, f"unknown keys, or keys that do not belong here: {', '.join(sorted(line.keys() - keys))}")

    def contradiction(self, text):
        self.contradictions.append({"line": self.number, "text": text})

    def line(self, text):
        try:
            line = json.loads(text)
        except ValueError as error:
            self.demand(False, f"no JSON: {error}")
        self.demand(isinstance(line, dict), "not an object")
        line = {key: value for key, value in line.items() if not key.startswith("x_")}
        for key in (TEXT | NULLABLE) & line.keys():
            self.demand(isinstance(line[key], str) or line[key] is None and key in NULLABLE, f"`{key}` is not text")
        self.demand(type(line.get("at", 0)) is int and line.get("at", 0) >= 0, "`at` is not an integer of at least 0")
        t = line.pop("t", None)
        if t is not None or "queue" not in line:
            self.demand(type(t) is int and t >= 0, "`t` is not an integer of at least 0")
            self.demand([t] >= self.times[-1:], f"time goes back to {t}")
            self.times.append(t)
        at = len(self.times) - 1
        if "queue" in line:
            self.declare(**line)
        elif "end" in line:
            self.only(line, {"end", "host"})
            self.end = (line.get("host", ""), line["end"]), at
            self.demand(self.end[0] in self.machines, f"{line['end']} has no line before its end")
        else:
            self.demand("machine" in line, "neither `machine` nor `queue` nor `end`")
            self.machine(line, t, at)

    def declare(self, queue, capacity=None, order="fifo", unit="items", initial=0, merge=False, **rest):
        self.only(rest, set())
        self.demand(queue not in self.queues, f"queue {queue} is declared twice or after its first use")
        self.demand(order in ("fifo", "lifo") and unit in ("items", "bytes") and type(merge) is bool, "an unknown order, unit or merge")
        self.demand(type(initial) is int and initial >= 0, "`initial` is not an integer of at least 0")
        self.demand(capacity is None or type(capacity) is int and capacity >= max(1, initial), "`capacity` does not hold what is there")
        # Tokens and space are lists of [units, origin, flow], the oldest first. `owed` is the
        # number of units that puts took beyond the capacity.
        self.queues[queue] = SimpleNamespace(order=order, merge=merge, capacity=capacity, owed=0, tokens=[[initial, None, None]],
                                             space=[[(capacity or 0) - initial, None, None]])

    def machine(self, line, t, at):
        actions = [action for action in ACTIONS if action in line]
        self.demand(len(actions) < 2, "two actions in one line")
        action = actions[0] if actions else None
        self.only(line, {"host", "machine", "class"} | ({action} | ACTIONS[action] if action else {"state", "on_top_of"}))
        key = line.get("host", ""), line["machine"]
        m = self.machines.setdefault(key, Machine(*key, line.get("class", key[1])))
        self.demand(line.get("class", m.cls) == m.cls, f"the class of {m.name} changes")
        self.last = self.last if action == "stop" else key
        if action in ("stop", "pop"):
            self.demand(line[action] is True, f"`{action}` is true or left out")
            return self.leave(m, action, t, at)
        context = "on_top_of" in line
        self.demand(action != "forked_by" or not m.alive or context, f"`forked_by` after the first line of {m.name}")
        if context and m.alive and m.context:
            self.contradiction(f"{m.name} is on top already")
        elif context or not m.alive:
            if m.alive:
                self.leave(m, "stop", t, at)
            cause = self.named(m, line, "forked_by", t, at) if action == "forked_by" else NOWHERE
            m.alive, m.state, m.block, m.context, m.given, m.settled = True, "run", None, context, action == "forked_by", False
            m.note(at, t, "birth", cause)
            m.beneath = self.machines.get((m.host, line.get("on_top_of")))
            if context and line["on_top_of"] is not None and (m.beneath is None or not m.beneath.alive or m.beneath is m):
                m.beneath = self.contradiction(f"{line['on_top_of']}, beneath {m.name}, is not there")
            if m.beneath:
                m.beneath.over += 1
                m.beneath.note(at, t)
        if action == "blocked":
            self.demand(line.get("for", "tokens") in ("tokens", "space"), '`for` is "tokens" or "space"')
            m.began = len(m.entries) if m.block is None else m.began
            m.block = line["blocked"]
            m.note(at, t)
        elif action == "woken_by":
            self.wake(m, line, t, at)
        elif action in ("get", "peek", "put", "reserve"):
            self.move(m, action, line, t, at)
        if "state" in line:
            m.state, m.block = line["state"], None
            m.note(at, t)

    def named(self, m, line, key, t, at):
        """Returns the cause that `woken_by` or `forked_by` names, a machine on the same host."""
        when = min(line.get("at", t), t)
        self.negative_links += line.get("at", t) > t
        other = self.machines.get((m.host, line[key]))
        if line[key] is None or other is None or not other.entries:
            return line[key] and self.contradiction(f"{line[key]} has no line before") or NOWHERE
        return Cause(other, min(at, bisect.bisect_right(self.times, when)) - 1, when, "link", line.get("link", "wakeup"))

    def leave(self, m, action, t, at):
        if not m.alive or action == "pop" and (not m.context or m.over):
            return self.contradiction(f"{m.name} is not there, or not the innermost context")
        if m.beneath:
            m.beneath.over -= 1
            if m.beneath.alive:
                m.beneath.note(at, t)
        m.alive = False
        m.note(at, t, "stop")

    def wake(self, m, line, t, at):
        blocked = m.block is not None
        if not blocked and (m.given or not m.context):
            self.ignored_wakes += 1
            return
        m.state, m.block, m.given, m.settled = "runnable" if blocked else m.state, None, True, True
        m.note(at, t, "freed" if blocked else "adopt", self.named(m, line, "woken_by", t, at), m.began if blocked else None)

    def move(self, m, action, line, t, at):
        name, n, reads = line[action], line.get("n", 1), action in ("get", "peek")
        if name not in self.queues:
            self.declare(name)
        q = self.queues[name]
        self.demand(type(n) is int and n > 0 or reads and n == "all", "`n` is not an integer of at least 1")
        held = m.reserved.setdefault(name, [])
        if reads:
            taken, missing = take(q.tokens, None if n == "all" else n, q.order == "lifo", line.get("flow"), action == "get")
        else:
            taken, missing = take(held, n) if action == "put" else ([], n)
            more, missing = take(q.space, missing) if q.capacity else ([], 0)
            taken, q.owed = taken + more, q.owed + missing
        if missing:
            self.contradiction(f"{action} {name}: {missing} units are not there")
        cause = latest(taken, missing)
        known = cause is not None and cause is not NOWHERE
        label = known and (cause.label or ("queued" if cause.machine.host == m.host else "wire"))
        cause = cause._replace(name=name, label=label) if known else cause
        if m.block is not None:
            # R11d: an initial token, too
            m.block, m.settled = None, m.settled or cause is not None or action == "get" and bool(taken)
            # without a cause the block remains, and the path stays with this machine
            m.note(at, t, *(("freed", cause, m.began) if cause else ()))
        elif action == "get" and taken and m.context and not m.given and not m.settled:
            m.settled = True
            if known:
                m.note(at, t, "adopt", cause)
        elif known:
            key = m.host, m.name, m.entries[-1].state
            self.slack[key] = min(t - cause.t, self.slack.get(key, t))
        here = Cause(m, at, t, None, line.get("link"))
        if action == "put":
            merged = q.merge and take(q.tokens, 1, remove=False)[0]
            q.tokens.append([n, merged[0][1] if merged else here, line.get("flow")])
        elif action == "reserve":
            held += [[units, origin, None] for units, origin in taken + [[missing, NOWHERE]]]
        elif action == "get":
            back = sum(units for units, _ in taken)
            paid = min(back, q.owed)
            q.owed -= paid
            q.space.append([back - paid, here, None])


def walk(m, line, hi, lo, active=False, nested=True):
    """Returns the path that ends in m after `line` at `hi`, back to `lo`; the last segment is the
    first.

    Global: every cause is followed and the walk does not return. Active: a block is replaced by the
    walk from its cause, limited to the time of the block, and then the walk continues before the
    block. `own`: the walk is in the time of the requested machine, which remains unchanged. Without
    `nested` the walk returns only to the requested machine's own blocks.
    """
    segments, returns, own = [], [], active

    def add(start, host, name, cls, state, unknown=False):
        if max(start, lo) < hi:
            segments.append(Segment(max(start, lo), hi, host, name, cls, state, unknown))

    def last(entries, line):
        return bisect.bisect_right(entries, line, key=lambda entry: entry.line) - 1

    i = last(m.entries, line)
    while hi > lo or returns:
        if hi <= lo:
            m, i, hi, lo, own = returns.pop()
            continue
        entry = m.entries[i] if i >= 0 else Entry(-1, lo, "UNKNOWN", True, "plain", None, None)
        add(entry.t, m.host, m.name, m.cls, entry.state, entry.unknown)
        hi, kind, cause = entry.t, entry.kind, entry.cause
        if hi <= lo or kind in ("plain", "stop") or own and (kind == "adopt" or kind == "birth" and cause is NOWHERE):
            i -= 1
            continue
        if kind == "freed" and active and (own or nested) or kind == "birth" and own and i:
            # return to before the block, or to the previous life
            back = i - 1 if kind == "birth" else entry.block
            returns.append((m, back - 1, m.entries[back].t, lo, own))
            lo = max(lo, m.entries[back].t)
        if cause is NOWHERE:
            add(lo, m.host, m.name, m.cls, "UNKNOWN", True)
            hi, own = lo, False
        else:
            add(cause.t, "", cause.name, "link", cause.label)
            m, i, hi, own = cause.machine, last(cause.machine.entries, cause.line), cause.t, False
    return segments


def answer(lines, mode="global", machine=None, host="", nested=True, begin=0):
    """Returns the path of a log (lines of text) from `begin` on, as the JSON of `longpole path`,
    with the other counts. `begin` must be before the end of the path.
    """
    log = Log(lines)
    key, at = log.end or (log.last, len(log.times) - 1)
    key = key if machine is None and mode == "global" else (host, machine)
    if key not in log.machines:
        raise Refused(f"no machine {key[1]} in this log")
    m = log.machines[key]
    start, end, segments, sums, unknown = max(log.times[0], begin), log.times[at], [], {}, 0
    for s in reversed(walk(m, at, end, start, mode == "active", nested)):
        assert s.start == (segments[-1].end if segments else start), "the segments leave a gap"
        sums[s[2:6]], unknown = sums.get(s[2:6], 0) + s.end - s.start, unknown + (s.end - s.start) * s.unknown
        if segments and segments[-1][2:6] == s[2:6]:
            s = s._replace(start=segments.pop().start)
        segments.append(s)
    assert sum(sums.values()) == end - start, "the segments do not sum to the length"
    names = ("start_ns", "end_ns", "host", "machine", "class", "state")
    rows = [dict(zip(names[2:], k), ns=ns, share=ns / (end - start), slack_ns=log.slack.get((k[0], k[1], k[3]))) for k, ns in sums.items()]
    return {"mode": mode, "end_machine": m.name, "end_host": m.host, "start_ns": start, "end_ns": end, "length_ns": end - start,
            "unknown_ns": unknown, "lost": 0, "segments": [dict(zip(names, s)) for s in segments],
            "criticality": sorted(rows, key=lambda row: (-row["ns"], *[row[name] for name in names[2:]])),
            "contradictions": log.contradictions, "ignored_wakes": log.ignored_wakes, "negative_links": log.negative_links}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="the critical path of a machine log, by a walk backwards over its whole history")
    parser.add_argument("log")
    parser.add_argument("--mode", choices=("global", "active"), default="global")
    parser.add_argument("--machine", help="whose end counts; active needs it")
    parser.add_argument("--host", default="")
    args = parser.parse_args()
    try:
        print(json.dumps(answer(open(args.log, encoding="utf-8"), args.mode, args.machine, args.host), indent=1))
    except (Refused, OSError) as error:
        sys.exit(f"oracle: {args.log}: {error}")

#!/usr/bin/env python3
"""Random systems as machine logs, for comparing the oracle with the streaming implementation.

`system(seed)` returns the lines of one log and the set of its features. A log is valid according to
this file's own bookkeeping (what each queue contains, which machines wait, which context runs on
top of which machine), so it contains contradictions only on purpose. Systems marked "edges" contain
lines whose meaning depends on an interpretation in README.md; the others should be beyond dispute.
"""
import argparse
import json
import random
import sys
from collections import Counter
from types import SimpleNamespace

import oracle

MUST_OCCUR = {"tie": 0.2, "overlapping waits": 0.2, "unfinished block": 0.2}
STATES = ("run", "parse", "copy", "lookup", "sum", "spin", "wait loop", "a::b", "runnable")
WHYS = ("wait", "futex", "room", "data", "io")


class System:
    def __init__(self, seed, edges=None):
        self.rng = rng = random.Random(f"system {seed}")
        self.features, self.lines, self.agenda, self.waiting = set(), [], [], set()
        self.machines, self.queues, self.t = {}, {}, rng.choice((0, 0, 7, 10**18))
        self.target = int(10 * 40 ** rng.random())
        count = min(12, max(2, int(2 + rng.random() * self.target / 10)))
        self.tie = rng.choice((0.0, 0.05, 0.3, 0.6))
        self.step = rng.choice((2, 9, 1000))
        self.bad = rng.random() < 0.06
        self.edges = rng.random() < 0.1 if edges is None else edges
        self.skew = rng.random() < 0.1
        self.hosts = [""] if rng.random() < 0.6 else rng.choice((["left", "right"], ["", "far"], ["a", "b", "c"]))
        self.serial = self.ids = 0
        if self.edges:
            self.features.add("edges")
        for n in range(rng.randint(1, 6)):
            self.make_queue(f"q{n}")
        for n in range(count):
            same = self.hosts[1:] and rng.random() < 0.1
            self.make_machine("same" if same else f"m{n}", rng.choice(self.hosts))
        if rng.random() < 0.4:
            self.declare("lock:l", capacity=1, initial=1)
        self.calls = rng.random() < 0.4

    # Queues, machines and lines.

    def make_queue(self, name):
        rng, keys = self.rng, {}
        by_bytes = rng.random() < 0.3
        if by_bytes:
            keys["unit"] = "bytes"
        if rng.random() < 0.6:
            keys["capacity"] = rng.choice((1500, 4000, 10000)) if by_bytes else rng.choice((1, 1, 2, 3, 8))
            if rng.random() < 0.3:
                keys["initial"] = rng.randint(1, keys["capacity"])
        elif rng.random() < 0.2:
            keys["initial"] = rng.randint(1, 5)
        if rng.random() < 0.25:
            keys["order"] = "lifo"
        elif rng.random() < 0.25:
            keys["merge"] = True
        self.declare(name, **keys)

    def declare(self, name, **keys):
        if keys or self.rng.random() < 0.3:
            line = {"queue": name, **keys}
            self.lines.append({"t": self.t, **line} if self.rng.random() < 0.2 else line)
        q = self.queues[name] = SimpleNamespace(name=name, capacity=keys.get("capacity"), held=Counter(), reserved=0, flows=False,
                                                most=1500 if keys.get("unit") == "bytes" else 3)
        q.held[None] = keys.get("initial", 0)
        q.flows = not keys.get("merge") and self.rng.random() < 0.2
        self.features |= {key for key in ("capacity", "initial", "merge") if keys.get(key)} | {keys.get("order", "fifo")}

    def make_machine(self, name, host):
        m = SimpleNamespace(key=(host, name), born=None, lives=[], alive=True, blocked=False, on=None, above=None, reserved=Counter(), context=False,
                            holds=False, served=None, busy=False, said=[])
        return self.machines.setdefault(m.key, m)

    def tick(self):
        if self.rng.random() >= self.tie:
            self.t += self.rng.randint(1, self.step)

    def emit(self, m, **keys):
        rng = self.rng
        if self.lines and self.lines[-1].get("t") == self.t and "machine" in self.lines[-1]:
            self.features.add("tie")
        line = {"t": self.t}
        if m.key[0]:
            line["host"] = m.key[0]
        line["machine"] = m.key[1]
        if not m.lives or m.lives[-1][1] is not None:
            m.lives.append([self.t, None])
        if {"stop", "pop"} & keys.keys():
            m.lives[-1][1] = self.t
        if m.born is None:
            m.born = self.t
            if m.key[1] != "same" and rng.random() < 0.3:
                m.cls = rng.choice(("worker", "device"))
                line["class"] = m.cls
        self.lines.append({**line, **keys})
        if self.edges and {"get", "put", "woken_by"} & keys.keys() and "state" not in keys and rng.random() < 0.2:
            self.lines[-1]["state"] = rng.choice(STATES)
        if {"get", "peek", "put", "reserve", "state"} & self.lines[-1].keys():
            self.freed(m)

    def freed(self, m):
        m.blocked, m.on = False, None
        self.waiting.discard(m.key)

    def room(self, q):
        return 10**9 if q.capacity is None else q.capacity - sum(q.held.values()) - q.reserved

    # Steps. Each returns False if it is not possible now.

    def actors(self, blocked=None):
        return [m for m in self.machines.values() if m.alive and m.above is None and (blocked is None or m.blocked == blocked)]

    def pick(self, found):
        found = list(found)
        return self.rng.choice(found) if found else None

    def state(self, m):
        if m.blocked and self.rng.random() < 0.9:
            return False
        self.emit(m, state=self.rng.choice(STATES))

    def block(self, m):
        if m.blocked and not (self.edges and self.rng.random() < 0.3) or m.context and not self.edges:
            return False
        keys, q = {"blocked": self.rng.choice(WHYS)}, self.pick(self.queues.values())
        if self.rng.random() < 0.6:
            keys["on"] = q.name
        if self.rng.random() < 0.6:
            keys["for"] = self.rng.choice(("tokens", "space"))
        self.emit(m, **keys)
        m.blocked, m.on = True, q
        self.waiting.add(m.key)
        if len(self.waiting) > 1:
            self.features.add("overlapping waits")

    def get(self, m, q=None, peek=False):
        rng = self.rng
        q = q or (m.on if m.on and rng.random() < 0.7 else self.pick(self.queues.values()))
        if q.name.startswith(("rpc:", "lock:")):
            return False
        flow = rng.choice(("x", "y")) if q.flows and rng.random() < 0.5 and (self.edges or not peek) else None
        there = q.held[flow] if flow else sum(q.held.values())
        keys = {"flow": flow} if flow else {}
        if m.context and not self.edges and there:
            # with several tokens at once, the first token of a context depends on an interpretation
            n = 1
        elif rng.random() < 0.1:
            keys["n"], n = "all", there
        elif there == 0 or self.bad and rng.random() < 0.1:
            if not self.bad or rng.random() < 0.5:
                return False
            keys["n"] = there + rng.randint(1, 2)
            n = there
            self.features.add("contradiction")
        else:
            n = rng.choice((1, there, rng.randint(1, there)))
            if n > 1 or rng.random() < 0.2:
                keys["n"] = n
        self.features.add("peek" if peek else "flow" if flow else "get")
        self.emit(m, **{"peek" if peek else "get": q.name}, **keys)
        if not peek:
            self.remove(m, q, n, flow)

    def remove(self, m, q, n, flow):
        # Which flows a get without one takes from depends on the order. This bookkeeping then asks
        # the oracle's queue.
        if flow:
            q.held[flow] -= n
        elif q.flows:
            log = oracle.Log(map(json.dumps, self.lines))
            q.held = Counter()
            for units, _, f in log.queues[q.name].tokens:
                q.held[f] += units
        else:
            q.held[None] -= n

    def peek(self, m):
        return self.get(m, peek=True)

    def put(self, m, q=None, n=None):
        rng = self.rng
        q = q or (m.on if m.on and rng.random() < 0.5 else self.pick(self.queues.values()))
        if n is None and q.name.startswith(("rpc:", "lock:")):
            return False
        room = self.room(q) + m.reserved[q.name]
        n = n or rng.randint(1, q.most)
        if room < n and room > 0:
            n = rng.randint(1, room)
        if room < n:
            if not self.bad or rng.random() < 0.7:
                return False
            self.features.add("contradiction")
        keys = {"n": n} if n > 1 or rng.random() < 0.2 else {}
        flow = rng.choice(("x", "y")) if q.flows and rng.random() < 0.7 else None
        if flow:
            keys["flow"] = flow
        if rng.random() < 0.2:
            keys["link"] = rng.choice(("pipe", "net", "irq"))
        self.emit(m, put=q.name, **keys)
        used = min(n, m.reserved[q.name])
        m.reserved[q.name] -= used
        q.reserved -= used
        q.held[flow] += n

    def reserve(self, m):
        q = self.pick(self.queues.values())
        if q.capacity is None or q.name.startswith(("rpc:", "lock:")) or self.room(q) < 1 or m.context:
            return False
        n = self.rng.randint(1, min(self.room(q), q.most))
        self.emit(m, reserve=q.name, **({"n": n} if n > 1 else {}))
        q.reserved += n
        m.reserved[q.name] += n
        self.features.add("reserve")

    def cause(self, m, key):
        """Returns `forked_by` or `woken_by`, with another machine on the same host, at a time now
        or before.
        """
        rng = self.rng
        others = [o for o in self.machines.values() if o.key[0] == m.key[0] and o.born is not None and (o.alive or rng.random() < 0.3)]
        if m.born is None or rng.random() < 0.8:
            others = [o for o in others if o is not m]
        other = self.pick(others)
        if other is None or rng.random() < 0.05:
            return {key: None}
        keys = {key: other.key[1]}
        if rng.random() < 0.4:
            first = 0 if self.edges and rng.random() < 0.3 else other.born
            near = max(min(first, self.t), self.t - rng.randint(0, 3 * self.step))
            keys["at"] = rng.choice((near, near, near, near, first, rng.randint(min(first, self.t), self.t)))
            if other.said and rng.random() < 0.5:
                keys["at"] = rng.choice(other.said)
            self.features.add("at earlier")
        elif self.skew and rng.random() < 0.3 and other.lives[-1][1] is None:
            keys["at"] = self.t + rng.randint(1, 5)
            self.features.add("negative link")
        if not self.edges:  # not at a time when the other machine did not exist
            at = keys.get("at", self.t)
            stopped = [life for life in other.lives if life[0] <= at][-1][1]
            if stopped is not None and stopped < at:
                keys["at"] = stopped
        if rng.random() < 0.3:
            keys["link"] = rng.choice(("timer", "ipi", "signal"))
        return keys

    def wake(self, _):
        m = self.pick(o for o in self.machines.values() if o.blocked and o.alive)
        if m is None or m.served == "call" and self.rng.random() < 0.9:
            return False
        if self.bad and self.rng.random() < 0.2:
            m = self.pick(o for o in self.machines.values() if o.alive and o.born is not None and not o.blocked and not o.context) or m
            self.features.add("contradiction")
        self.emit(m, **self.cause(m, "woken_by"))
        self.freed(m)
        if self.rng.random() < 0.8:
            self.tick()
            self.emit(m, state=self.rng.choice(STATES))

    def say(self, m):
        """Emits a line without anything else: a moment to which an `at` may refer later."""
        if m.born is None:
            return False
        self.emit(m)
        m.said.append(self.t)
        self.features.add("bare line")

    def fork(self, m):
        if m.born is None or len(self.machines) > 14:
            return False
        self.serial += 1
        child = self.make_machine(f"child {self.serial}", m.key[0])
        self.emit(child, **self.cause(child, "forked_by"))
        self.features.add("fork")

    def stop(self, m):
        if len(self.actors()) < 3 or m.context or m.born is None or m.holds or m.busy or self.rng.random() < 0.6:
            return False
        if m.reserved.total() and not self.edges:
            return False
        self.emit(m, stop=True)
        m.alive = False
        self.freed(m)
        self.features.add("stop")
        if self.rng.random() < 0.5:  # a join
            self.wake(m)

    def restart(self, _):
        m = self.pick(o for o in self.machines.values() if not o.alive and not o.context)
        if m is None:
            return False
        m.alive = True
        self.emit(m, **(self.cause(m, "forked_by") if self.rng.random() < 0.5 else {"state": "again"}))
        self.features.add("restart")

    def enter(self, m):
        rng = self.rng
        if rng.random() < 0.2:
            m = None
        elif m.born is None or m.blocked and not self.edges:
            return False
        host = m.key[0] if m else rng.choice(self.hosts)
        known = [o for o in self.machines.values() if o.context and not o.alive and o.key[0] == host]
        if known and rng.random() < 0.6:
            context = self.pick(known)
        elif len(self.machines) > 18:
            return False
        else:
            self.serial += 1
            context = self.make_machine(f"irq {self.serial}", host)
        context.alive, context.context, context.beneath = True, True, m
        keys = {"on_top_of": m.key[1] if m else None}
        how = rng.random()
        self.features |= {"context", "nested context" if m and m.context else "context"}
        if how < 0.3:
            keys.update(self.cause(context, "forked_by"))
        if self.edges and rng.random() < 0.2:
            keys["state"] = "entry"
        self.emit(context, **keys)
        if m:
            m.above = context
        if 0.3 <= how < 0.5:
            if rng.random() < 0.3:
                self.put(context)
            self.tick()
            self.emit(context, **self.cause(context, "woken_by"))
        elif how < 0.8:
            self.tick()
            self.get(context)

    def pop(self, _):
        context = self.pick(o for o in self.machines.values() if o.context and o.alive and o.above is None)
        if context is None:
            return False
        if context.blocked:
            self.freed(context)
        self.emit(context, pop=True)
        context.alive = False
        if context.beneath:
            context.beneath.above = None

    # The idioms of rule 14.

    def call(self, m):
        if not self.calls or m.blocked or m.context or m.busy:
            return False
        if "rpc:x" not in self.queues:
            self.declare("rpc:x")
        self.ids += 1
        reply = f"rpc:x:reply:{self.ids}"
        self.put(m, self.queues["rpc:x"], 1)
        self.emit(m, blocked="rpc:x", on=reply)
        m.blocked, m.served, m.busy = True, "call", True
        self.waiting.add(m.key)
        self.agenda.append(["serve", m, reply])
        self.features.add("rpc")

    def serve(self, item):
        _, client, reply = item
        server = self.pick(o for o in self.actors() if o is not client and not o.context and not o.busy)
        if server is None or not self.queues["rpc:x"].held[None]:
            return
        self.agenda.remove(item)
        if not server.blocked and self.rng.random() < 0.5:
            self.emit(server, blocked="next", on="rpc:x")
            self.tick()
        self.emit(server, get="rpc:x")
        self.queues["rpc:x"].held[None] -= 1
        self.emit(server, state="serve")
        server.busy = True
        self.agenda.append(["reply", client, reply, server])

    def reply(self, item):
        _, client, reply, server = item
        if server.above or not server.alive or client.above:
            return
        self.agenda.remove(item)
        if reply not in self.queues:
            self.queues[reply] = SimpleNamespace(name=reply, capacity=None, held=Counter(), reserved=0, flows=False, most=1)
        self.put(server, self.queues[reply], 1)
        server.busy = False
        self.tick()
        if client.alive and self.rng.random() < 0.95:
            self.emit(client, get=reply)
            self.queues[reply].held[None] -= 1
        client.served, client.busy = None, False
        del self.queues[reply]

    def lock(self, m):
        q = self.queues.get("lock:l")
        if q is None or m.holds or m.blocked or m.context or m.busy:
            return False
        m.busy = True
        if q.held[None]:
            self.acquire(m, q)
        else:
            self.emit(m, blocked="lock", on="lock:l")
            m.blocked = True
            self.waiting.add(m.key)
            if len(self.waiting) > 1:
                self.features.add("overlapping waits")
            self.agenda.append(["locked", m])
        self.features.add("lock")

    def acquire(self, m, q):
        self.emit(m, get="lock:l")
        q.held[None] = 0
        m.holds = True
        self.agenda.append(["unlock", m])

    def locked(self, item):
        m, q = item[1], self.queues["lock:l"]
        if q.held[None] and not m.above and m.alive:
            self.agenda.remove(item)
            self.acquire(m, q)

    def unlock(self, item):
        m, q = item[1], self.queues["lock:l"]
        if not m.above and m.alive and not m.blocked:
            self.agenda.remove(item)
            self.put(m, q, 1)
            m.holds = m.busy = False

    # The whole log.

    def run(self):
        rng = self.rng
        weights = {"state": 4, "say": 1.5, "block": 5, "get": 12, "peek": 2, "put": 8, "reserve": 1.5, "wake": 5, "fork": 0.4, "stop": 0.4, "restart": 0.4,
                   "enter": 1.5, "pop": 2, "call": 1.5, "lock": 1.5}
        for name in weights:
            weights[name] *= rng.choice((0, 0.5, 1, 1, 2)) if name not in ("block", "put", "get", "pop") else 1
        if rng.random() < 0.6 and self.target > 2 * len(self.machines):
            for m in self.machines.values():
                self.emit(m, state=rng.choice(STATES))
        early = rng.randint(1, self.target) if rng.random() < 0.1 else None
        idle = 0
        while len(self.lines) < self.target and idle < 500:
            self.tick()
            if self.agenda and rng.random() < 0.4:
                item = rng.choice(self.agenda)
                getattr(self, item[0])(item)
            else:
                blocked = rng.random() < 0.4
                m = self.pick(self.actors(blocked)) or self.pick(self.actors())
                name = rng.choices(list(weights), list(weights.values()))[0]
                idle = idle + 1 if m is None or getattr(self, name)(m) is False else 0
            if early is not None and len(self.lines) > early:
                early = self.finish()
        if not any(m.born is not None for m in self.machines.values()):
            self.emit(self.pick(self.machines.values()), state="run")
        ends = [line for line in self.lines if "machine" in line and "stop" not in line][-1]
        if rng.random() < 0.85 or "pop" in ends and not self.edges:
            self.finish()
        if any(m.blocked and m.alive for m in self.machines.values()):
            self.features.add("unfinished block")
        if self.hosts[1:]:
            self.features.add("hosts")
            self.shift()
        return [json.dumps(line) for line in self.lines], self.features

    def finish(self):
        born = [m for m in self.machines.values() if m.born is not None]
        m = self.pick(m for m in born if self.edges or m.alive and not m.context)
        if m is not None:
            self.tick()
            self.lines.append({"t": self.t, "end": m.key[1], **({"host": m.key[0]} if m.key[0] else {})})
            self.features.add("end")

    def shift(self):
        """Shifts the clock of one host. The shift is used only if every get still finds its put,
        because the log is then sorted by the shifted times.
        """
        host, by = self.rng.choice(self.hosts), self.rng.randint(1, 2 * self.step)
        lines = [dict(line) for line in self.lines]
        for line in lines:
            if "queue" in line:
                line.pop("t", None)
            elif line.get("host", "") == host:
                line["t"] += by
                if "at" in line:
                    line["at"] += by
        lines.sort(key=lambda line: line.get("t", -1))
        try:
            before, after = (oracle.Log(map(json.dumps, some)) for some in (self.lines, lines))
        except oracle.Refused:
            return
        if len(before.contradictions) == len(after.contradictions):
            self.lines = lines
            self.features.add("clock offset")


def system(seed, edges=None):
    """Returns the lines of a random machine log, and the set of its features."""
    return System(seed, edges).run()


def count(seeds):
    """Counts the features of the systems. Asserts the minimum shares without which a comparison
    would be meaningless.
    """
    found, sizes = Counter(), []
    for seed in seeds:
        lines, features = system(seed)
        found.update(features)
        sizes.append(len(lines))
    for name, share in MUST_OCCUR.items():
        assert found[name] >= share * len(sizes), f"{name}: only in {found[name]} of {len(sizes)} systems"
    return found, sizes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="a random system as a machine log, or what occurs in many of them")
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, help="number of systems from this seed on: what occurs in how many")
    args = parser.parse_args()
    if args.count:
        features, lengths = count(range(args.seed, args.seed + args.count))
        for feature, n in features.most_common():
            print(f"{n / args.count:6.1%}  {feature}")
        print(f"{min(lengths)} to {max(lengths)} lines")
    else:
        sys.stdout.writelines(line + "\n" for line in system(args.seed)[0])

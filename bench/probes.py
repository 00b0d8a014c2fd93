"""The cost of probes, ours and those of other tracers, measured in one run. The batches of all
subjects alternate (subjects.py, peers.py).
"""
import contextlib
import sys

from common import Open, ROOT, interval, outcome, shown
from peers import ALL
from subjects import PEERS, PROBES, Subject, compiled, crate, executable, library, median

STAYING, SITES = 16, 32
# Loops that every other tracer has a counterpart of: an event with two words, and a span with two
# edges.
EVENT, SPAN, SIXTEEN = "mark, data and object", "span", "mark, data"
STATES = ("on", "overwrite", "off", "out")
# The subject whose functions auto.h excludes automatically because they are short.
SHORT = "functions, left out"
# Maximum number of events per turn that may be recorded of an excluded function.
LEFT_OUT = 0.02


def both(name, source, position, language="c"):
    """Returns the loops of a file, with probes and without."""
    # The strictest C++ warnings are meant for the user's code, not for system headers.
    flags = [position, *(["-isystem", ROOT / "include"] if language == "c++" else [])]
    return (compiled(source, f"{name}{position}-on", *flags, language=language),
            compiled(source, f"{name}{position}-out", "-DLONGPOLE_DISABLE", *flags, language=language))


def loaded(title, name, on, out):
    return Subject(title, executable("loader"), [library(f"{name}-on", *on), library(f"{name}-out", *out)])


def ours():
    """Returns title and maker of each subject with our probes."""
    source = PROBES / "ours.c"

    def rust(position, flag):
        return compiled(PEERS / "rust.c", f"rust{position}{flag}", position, flag)

    def functions(title, flags, *instrumented):
        name = title.replace(", ", "-").replace(" ", "-")
        return Subject(title, executable(name, compiled(PEERS / "functions.c", name, "-fPIE", *flags),
                                         compiled(PEERS / "function.c", f"{name}-called", "-fPIE", *instrumented)))

    return [
        ("C", lambda: Subject("C", executable("c", *both("c", source, "-fPIE")))),
        ("C library", lambda: loaded("C library", "c", *([part] for part in both("c", source, "-fPIC")))),
        ("C++", lambda: Subject("C++", executable("cpp", *both("cpp", source, "-fPIE", "c++")))),
        ("C++ library", lambda: loaded("C++ library", "cpp", *([part] for part in both("cpp", source, "-fPIC", "c++")))),
        ("Rust", lambda: Subject("Rust", executable("rust", rust("-fPIE", "-DRUST_SELF"), crate("ours")))),
        ("Rust, none", lambda: Subject("Rust, none", executable("rust-out", rust("-fPIE", "-DRUST_OUT"), crate("disabled")))),
        ("Rust library", lambda: loaded("Rust library", "rust", [rust("-fPIC", "-DRUST_SELF"), crate("ours")],
                                        [rust("-fPIC", "-DRUST_OUT"), crate("disabled")])),
        ("functions", lambda: functions("functions", ["-DFUNCTIONS_OURS", "-DLONGPOLE_AUTO_SHORT=0"], "-finstrument-functions")),
        # The default: recording of such a short function ends soon.
        (SHORT, lambda: functions(SHORT, ["-DFUNCTIONS_OURS"], "-finstrument-functions")),
        ("functions, none", lambda: functions("functions, none", ["-DFUNCTIONS_OUT"])),
    ]


COLUMNS = ("C", "C library", "C++", "C++ library", "Rust", "Rust library")


def measure(subjects, rounds, say):
    """Runs all batches of all subjects, alternating. A subject that fails is left out from then on.
    The first two rounds are warm-up.
    """
    for number in range(-2, rounds):
        at = number % len(subjects)
        for subject in subjects[at:] + subjects[:at]:
            if subject.error is not None:
                continue
            batches = [(state, loop, threads) for threads in (1, 2) for state, loop in subject.loops]
            first = number * 5 % len(batches)
            try:
                for state, loop, threads in batches[first:] + batches[:first]:
                    subject.batch(number, state, loop, threads)
            except Open as why:
                subject.error = str(why)
                subject.stop()
        say(number + 1, rounds)


def rare(subject):
    """Returns the cost of the first event of new threads and of call sites: ns without the cost of
    the clock itself, and page faults.
    """
    clock = median([int(subject.ask("clock")[0]) for _ in range(31)])

    def told(rows):
        first, following, faults = zip(*([int(word) for word in row[0].split()] for row in rows))
        return {"first_ns": interval([max(ns - clock, 0) for ns in first]), "next_ns": interval([max(ns - clock, 0) for ns in following]),
                "faults": interval(faults)}

    def arrive(count, loop, how):
        subject.expected[loop] = subject.expected.get(loop, 0) + 2 * count * subject.loops.get(("on", loop), (0,))[0]
        return [subject.ask("thread", loop, how) for _ in range(count)]

    rows = {}
    for loop in (SIXTEEN, "event", "call"):
        if ("on", loop) in subject.loops:
            # At first all threads stay, so each one makes its own buffers. Then each thread finds
            # those that the previous ones left.
            rows["new thread"] = told(arrive(STAYING, loop, "stay"))
            arrive(1, loop, "leave")
            rows["new thread, another has left"] = told(arrive(STAYING, loop, "leave"))
            break
    if subject.name in COLUMNS:
        rows["new call site"] = told([subject.ask("site", n) for n in range(SITES)])
    return rows


def recorded_at_once(subject):
    """Our subjects compare their rings with the expected number of events after each batch. Returns
    the differences. An excluded function is timed now and then, and recorded for some hundred calls
    if one of these seemed long.
    """
    return [f"{loop}, {state}: {seen} of {wanted} events" for (state, loop), (turns, wanted, seen) in subject.seen.items()
            if seen != wanted and (wanted or seen > turns * LEFT_OUT)]


def grid(title, rows, columns, cell):
    """Prints a table; rows without any value are left out."""
    body = [[row, *(cell(row, column) or "" for column in columns)] for row in rows]
    body = [line for line in body if any(line[1:])]
    if not body:
        return
    lines = [[title, *columns], *body]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns) + 1)]
    print()
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())


def print_ours(named):
    probes = list(dict.fromkeys(loop for name, subject in named.items() if name in COLUMNS for state, loop in subject.loops if state in STATES))
    none = {"Rust": "Rust, none"}

    def series(state, thread=1, limit=False):
        def cell(loop, column):
            subject = named.get(none.get(column, column) if state == "out" else column)
            estimate = subject and subject.estimate(state, loop, thread)
            if not estimate:
                return None
            ratio = limit and subject.to_limit(state, loop, thread)
            return f"{estimate['min']:.2f} {estimate['median']:.2f}" + (f" {ratio['median']:.2f}x" if ratio else "")
        return cell

    def alone(loop, column):
        subject = named.get(column)
        ratios = [subject and subject.ratio("on", loop, subject, "on", loop, thread, 1) for thread in (2, 3)]
        return " ".join(f"{ratio['median']:.2f}x" for ratio in ratios if ratio) or None

    columns = [column for column in COLUMNS if column in named]
    grid("on: ns (least, median), to the limit", probes, columns, series("on", limit=True))
    grid("overwrite: ns (least, median), to the limit", probes, columns, series("overwrite", limit=True))
    grid("two threads, on, to alone", probes, columns, alone)
    grid("off: ns (least, median)", probes, columns, series("off"))
    grid("compiled out: ns (least, median)", probes, columns, series("out"))
    functions, short, none = named.get("functions"), named.get(SHORT), named.get("functions, none")
    if functions and short and none:
        rows = {state: (none if state == "out" else functions).estimate(state, "call") for state in STATES}
        rows["on, left out for it is short"] = short.estimate("on", "call left out")
        grid("-finstrument-functions: a call, ns", rows, ("min", "median"), lambda row, column: f"{rows[row][column]:.2f}")


def print_rare(rows):
    def cell(key, column):
        told = rows[key].get(column)
        return told and f"{told['median']:.0f}"
    grid("once, ns", rows, ("first_ns", "next_ns", "faults"), cell)


def budgets(results, named):
    for column in COLUMNS:
        subject = named.get(column)
        if subject is None:
            continue
        for state in ("on", "overwrite"):
            ratio = subject.to_limit(state, SIXTEEN)
            if ratio:
                results.add("probes", f"16-byte event, {state}, {column}, to the limit", shown(ratio, " x"), "1.25 x", outcome(ratio, most=1.25))
            for thread in (2, 3):
                ratio = subject.ratio(state, SIXTEEN, subject, state, SIXTEEN, thread, 1)
                if ratio:
                    results.add("probes", f"16-byte event, {state}, {column}, {('first', 'second')[thread - 2]} of two threads, to alone",
                                shown(ratio, " x"), "0.85-1.15 x", outcome(ratio, most=1.15, least=0.85))
        # The guard of a span is two probes.
        for loop, most in ((SIXTEEN, 0.5), (SPAN, 1.0)):
            off = subject.estimate("off", loop)
            if off:
                results.add("probes", f"off, {loop}, {column}, beyond the empty loop", shown(off, " ns"), f"{most} ns", outcome(off, most=most))
        scope = subject.ratio("on", "LOG_TSC scope", subject, "bare", "counter")
        if scope:
            half = {key: None if value is None else value / 2 for key, value in scope.items()}
            results.add("probes", f"LOG_TSC scope, {column}, to two bare reads", shown(half, " x"), "1.3 x", outcome(half, most=1.3))
        for loop, most in (("begin", 8), ("begin, argument", 16), ("end", 8)):
            if loop in subject.bytes:
                size = subject.bytes[loop]
                results.add("probes", f"bytes of {loop}, {column}", str(size), str(most), "met" if size <= most else "missed")


def print_peers(results, named, peers, verdicts):
    """Prints the cost of the other tracers' probes, and the ratio to ours (in C, of the same
    round).
    """
    mine = named.get("C")
    table = {}
    for peer in peers:
        subject = peer.subject
        for loop in dict.fromkeys(loop for state, loop in subject.loops if state in STATES):
            our = {peer.span: SPAN}.get(loop, EVENT)
            why, count, size = verdicts[peer.title].get(loop, ("nobody counted its events", None, None))
            for state in STATES:
                for thread in (1, 2, 3):
                    estimate = subject.estimate(state, loop, thread)
                    if estimate is None:
                        continue
                    ratio = mine and subject.ratio(state, loop, mine, state, our, thread) if state == "on" else None
                    row = f"{peer.title}, {loop}, {state}" + ("", "", ", first of two", ", second of two")[thread]
                    table[row] = {"min": f"{estimate['min']:.2f}", "median": shown(estimate), "to ours": shown(ratio, " x") if ratio else "",
                                  "bytes": f"{size:.1f}" if size and state == "on" else "",
                                  "recorded": "" if state != "on" else why or ("every event" if count is None else str(count))}
                    if state == "on" and thread == 1:
                        limit = peer.budget if loop == peer.event else None
                        name = f"{peer.title}, {loop}, to our {our}"
                        if why:
                            results.open("probes", name, why)
                        elif ratio:
                            results.add("probes", name, shown(ratio, " x"), f">= {limit} x" if limit else "",
                                        outcome(ratio, least=limit) if limit else "")
    grid("peers: ns", table, ("min", "median", "to ours", "bytes", "recorded"), lambda row, column: table[row][column])


def verdict(peer):
    """Returns for each loop: the reason why its row is open (or ""), the number of recorded events,
    and the bytes of each.
    """
    subject = peer.subject
    try:
        told = peer.recorded()
    except (Open, OSError, ValueError, KeyError, IndexError) as why:
        return {loop: (f"its trace cannot be counted: {why}", None, None) for _, loop in subject.loops}
    rows = {}
    for loop, (count, size) in told.items():
        wanted = subject.expected.get(loop, 0)
        if count is None:
            missing = recorded_at_once(subject)
            rows[loop] = (missing[0] if missing else "", None, size)
        else:
            rows[loop] = ("" if count == wanted else f"{count} of {wanted} events are in its trace", count, size)
    return rows


def data_of(subject):
    """Returns all series, for a closer look."""
    rows = []
    for (state, loop, thread) in subject.rounds:
        estimate = subject.estimate(state, loop, thread)
        if estimate and loop != "empty":
            rows.append({"state": state, "loop": loop, "thread": ("", "one", "first of two", "second of two")[thread],
                         "ns": estimate, "to_limit": subject.to_limit(state, loop, thread)})
    return {"rows": rows, "bytes": subject.bytes, "said": subject.said, "error": subject.error}


def probes(results, work, quick):
    rounds = 9 if quick else 51
    subjects, peers, once = [], [], {}
    with contextlib.ExitStack() as stack:
        for title, make in ours():
            try:
                subject = make()
                stack.callback(subject.stop)
                subject.start(work)
                subjects.append(subject)
            except Open as why:
                results.open("probes", title, why)
        for kind in ALL:
            print(f"bench: probes: {kind.title} …", file=sys.stderr)
            try:
                peer = kind(work, stack)
                stack.callback(peer.subject.stop)
                peer.subject.start(work)
                peers.append(peer)
            except Open as why:
                results.open("probes", kind.title, why)
        if not subjects:
            raise Open("none of our own subjects runs")
        everyone = subjects + [peer.subject for peer in peers]
        measure(everyone, rounds, lambda done, all_: print(f"\rbench: probes: round {done} of {all_}", end="", file=sys.stderr))
        print(file=sys.stderr)
        for subject in everyone:
            try:
                if subject.error is None:
                    once.update({f"{subject.name}, {what}": told for what, told in rare(subject).items()})
                    subject.end()
            except Open as why:
                subject.error = str(why)
        for peer in peers:
            try:
                peer.finished()
            except Open as why:
                peer.subject.error = peer.subject.error or str(why)
        verdicts = {peer.title: verdict(peer) for peer in peers if peer.subject.error is None}
    for subject in subjects:
        missing = recorded_at_once(subject)
        if subject.said.get("lost") or missing:
            subject.error = subject.error or f"lost {subject.said.get('lost')}, {'; '.join(missing)}"
    for subject in everyone:
        if subject.error is not None:
            results.open("probes", subject.name, subject.error)
    named = {subject.name: subject for subject in subjects if subject.error is None}
    whole = [peer for peer in peers if peer.subject.error is None]
    print_ours(named)
    print_rare(once)
    print_peers(results, named, whole, verdicts)
    print()
    limits(results, named)
    budgets(results, named)
    results.probes = {"rounds": rounds, "subjects": {subject.name: data_of(subject) for subject in everyone}, "once": once,
                      "recorded": {title: {loop: {"why_open": why, "events": count, "bytes": size} for loop, (why, count, size) in rows.items()}
                                   for title, rows in verdicts.items()}}


def limits(results, named):
    subject = named.get("C")
    for loop, what in (("counter", "bare time-stamp read"), (subject.limit(), "the same and 32 bytes stored: the limit")) if subject else ():
        estimate = subject.estimate("bare", loop)
        if estimate:
            results.add("probes", f"{what}, ns (least {estimate['min']:.2f})", shown(estimate))

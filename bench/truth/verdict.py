"""A first rule from the critical path to the verdict, until `report` has one: whether the top of the path stands out, or nothing does."""
import statistics
from collections import defaultdict


def folded(path, windows):
    """(class, state) to [share, error, machines], the largest share first. The error is two standard errors over windows of the path."""
    start, length = path["start_ns"], max(path["length_ns"], 1)
    parts = [defaultdict(int) for _ in range(windows)]
    machines = defaultdict(lambda: defaultdict(int))
    for segment in path["segments"]:
        # A link belongs to its queue.
        owner = segment["machine"] if segment["class"] == "link" else segment["class"]
        key = owner, segment["state"]
        begin, end = segment["start_ns"] - start, segment["end_ns"] - start
        machines[key][segment["host"], segment["machine"]] += end - begin
        for at in range(begin * windows // length, min(windows - 1, (end - 1) * windows // length) + 1):
            low, high = length * at / windows, length * (at + 1) / windows
            parts[at][key] += min(end, high) - max(begin, low)
    rows = []
    for key, of in machines.items():
        shares = [part[key] * windows / length for part in parts]
        rows.append((sum(of.values()) / length, 2 * statistics.stdev(shares) / windows**0.5, key, of))
    return sorted(rows, key=lambda row: (-row[0], row[2]))


def handovers(path):
    """How often the path goes from one machine to another; a link from a machine to itself is none."""
    last, count = None, 0
    for segment in path["segments"]:
        if segment["class"] != "link":
            count += last is not None and last != (segment["host"], segment["machine"])
            last = segment["host"], segment["machine"]
    return count


def quoted(name):
    return f'"{name}"' if " " in name or "::" in name else name


def fix(row):
    """The change that tells whether anything is gained there."""
    _, _, (owner, state), machines = row
    if state == "runnable":
        return "cpus +1"
    # One of several equal machines is on the path: then it alone is asked about. They take turns: then the class.
    most = max(machines.values())
    if len(machines) == 1 or most >= 0.9 * sum(machines.values()):
        owner = max(machines, key=machines.get)[1]
    return f"{quoted(owner)}::{quoted(state)} x0.5"


def verdict(path, thresholds, gain):
    """{kind, owner, state, share, error, second, reason}; `gain` says what a change brings, or None."""
    rows = folded(path, thresholds["windows"]["count"])
    if not rows:
        return {"kind": "nothing", "reason": "the path is empty"}
    share, error, (owner, state), _ = rows[0]
    second, second_error = (rows[1][0], rows[1][1]) if len(rows) > 1 else (0.0, 0.0)
    said = {"owner": owner, "state": state, "share": share, "error": error, "second": second, "second_error": second_error}

    def nothing(reason):
        return {"kind": "nothing", "reason": reason, **said}

    rule = thresholds["verdict"]
    if state == "UNKNOWN" or state.startswith("blocked:"):
        return nothing("unknown")
    if state == "timer":
        return nothing("it sleeps")
    # What lies in a queue waits for nothing that the queue could do.
    if state in ("queued", "wakeup"):
        return nothing("a link without length of its own")
    if share < rule["min_share"]:
        return nothing("no large share")
    if share - second < (error**2 + second_error**2) ** 0.5:
        return nothing("not ahead of the second")
    if not handovers(path):
        return nothing("no machine waits for another")
    brings = gain(fix(rows[0]))
    said["gain"] = brings
    if brings is not None and brings < rule["min_gain"]:
        return nothing("no gain")
    return {"kind": "bottleneck", "reason": "", **said}

"""The answer of `report`, and the shares of classes and states on a critical path with their
errors, with which the answer is compared.
"""
import statistics
from collections import defaultdict


def folded(path, windows):
    """Returns (share, error, (class, state)), the largest share first. The class of a link is its
    queue. The error is two standard errors over windows of the path.
    """
    start, length = path["start_ns"], max(path["length_ns"], 1)
    parts = [defaultdict(int) for _ in range(windows)]
    sums = defaultdict(int)
    for segment in path["segments"]:
        owner = segment["machine"] if segment["class"] == "link" else segment["class"]
        key = owner, segment["state"]
        begin, end = segment["start_ns"] - start, segment["end_ns"] - start
        sums[key] += end - begin
        for at in range(begin * windows // length, min(windows - 1, (end - 1) * windows // length) + 1):
            low, high = length * at / windows, length * (at + 1) / windows
            parts[at][key] += min(end, high) - max(begin, low)
    rows = []
    for key, ns in sums.items():
        shares = [part[key] * windows / length for part in parts]
        rows.append((ns / length, 2 * statistics.stdev(shares) / windows**0.5, key))
    return sorted(rows, key=lambda row: (-row[0], row[2]))


def told(report, path, windows):
    """Returns the same from `report --json` and from `path --json` without segments. The errors are
    those of the states in the participation rows of `report`; for all others the error is their
    share, which is the maximum.
    """
    strip = report["participation"]
    errors = {}
    for row in strip["rows"]:
        step = max(len(row["shares"]) // windows, 1)
        parts = [statistics.fmean(row["shares"][at : at + step]) for at in range(0, len(row["shares"]) - step + 1, step)]
        errors[row["machine"], row["state"]] = 2 * statistics.stdev(parts) / len(parts) ** 0.5
    sums = defaultdict(float)
    for row in path["criticality"]:
        sums[row["machine"] if row["class"] == "link" else row["class"], row["state"]] += row["share"]
    return sorted(((share, errors.get(key, share), key) for key, share in sums.items()), key=lambda row: (-row[0], row[2]))


def verdict_name(verdict):
    """Returns MACHINE::STATE of a bottleneck, else "nothing". A subject without a leading state has
    no second part.
    """
    if verdict["outcome"] != "bottleneck":
        return "nothing"
    return "::".join(part["name"] for part in (verdict["subject"], verdict["state"]) if part)


def quoted(name):
    return f'"{name}"' if " " in name or "::" in name else name

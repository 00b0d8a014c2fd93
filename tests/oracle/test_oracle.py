#!/usr/bin/env python3
"""Checks the oracle with cases worked by hand, with another tool's graphs, and with properties that
hold for every path.
"""
import json
import os
import pathlib
import random
import re
import unittest

import oracle
import systems

HERE = pathlib.Path(__file__).resolve().parent
SEEDS = range(int(os.environ.get("ORACLE_SEED", "1")), int(os.environ.get("ORACLE_SEED", "1")) + int(os.environ.get("ORACLE_SYSTEMS", "150")))


def rows(path):
    return [[s[key] for key in ("start_ns", "end_ns", "host", "machine", "class", "state")] for s in path["segments"]]


def machines(lines):
    """Returns every (host, machine) of a log, in order of appearance."""
    found = {}
    for line in map(json.loads, lines):
        if "machine" in line:
            found[line.get("host", ""), line["machine"]] = None
    return list(found)


def paths(lines, most=3):
    """Yields the global path and the active paths of a few machines."""
    yield oracle.answer(lines)
    for host, machine in machines(lines)[:most]:
        yield oracle.answer(lines, "active", machine, host)


class HandWorkedCases(unittest.TestCase):
    def test_every_case_comes_out_as_drawn(self):
        logs = sorted((HERE / "cases").glob("*.jsonl"))
        self.assertGreaterEqual(len(logs), 8)
        for log in logs:
            lines = log.read_text().splitlines()
            expected = json.loads(log.with_suffix(".expected.json").read_text())
            for name, want in expected.items():
                with self.subTest(case=log.stem, asked=name):
                    if name == "slack_ns":
                        slack = oracle.Log(lines).slack
                        self.assertEqual(sorted([*key, ns] for key, ns in slack.items()), want)
                    elif name == "contradictions":
                        self.assertEqual([c["line"] for c in oracle.answer(lines)["contradictions"]], want)
                    elif name in ("ignored_wakes", "negative_links"):
                        self.assertEqual(oracle.answer(lines)[name], want)
                    else:
                        mode, _, machine = name.partition(" ")
                        machine, _, host = machine.partition("@")
                        path = oracle.answer(lines, mode, machine or None, host)
                        self.assertEqual(rows(path), want["segments"])
                        self.assertEqual(path["unknown_ns"], want["unknown_ns"])


class Refusals(unittest.TestCase):
    GOOD = '{"t":5,"machine":"A","state":"run"}'

    def test_a_line_that_breaks_a_rule_is_refused_with_its_number(self):
        for bad in (
            '{"t":4,"machine":"A","state":"run"}', '{"t":-1,"machine":"A"}', '{"t":5.0,"machine":"A"}', '{"t":true,"machine":"A"}', '{"machine":"A"}',
            '{"t":5,"machine":"A","colour":1}', '{"t":5,"machine":7}', '{"t":5,"machine":"A","put":"q","n":0}', '{"t":5,"machine":"A","put":"q","n":"all"}',
            '{"t":5,"machine":"A","get":"q","put":"q"}', '{"t":5,"machine":"A","blocked":"x","for":"fun"}', '{"t":5,"end":"B"}', '{"t":5,"state":"run"}',
            '{"queue":"q","order":"random"}', '{"queue":"q","capacity":1,"initial":2}', '{"t":5,"machine":"A","woken_by":"B","at":-3}', '[1]', '{"t":5',
            '{"t":5,"machine":"A","forked_by":"B"}', '{"t":5,"machine":"A","stop":false}', '{"t":5,"machine":"A","class":"other"}',
        ):
            with self.subTest(line=bad):
                with self.assertRaisesRegex(oracle.Refused, "^line 2: "):
                    oracle.answer([self.GOOD, bad])
        for late in ('{"queue":"q"}', '{"queue":"q","capacity":3}'):
            with self.assertRaisesRegex(oracle.Refused, "^line 3: "):
                oracle.answer([self.GOOD, '{"t":5,"machine":"A","put":"q"}', late])

    def test_keys_of_others_are_passed_over_and_empty_logs_refused(self):
        self.assertEqual(oracle.answer(['{"t":5,"machine":"A","x_note":[1]}', "", '{"t":9,"end":"A","x_":0}'])["length_ns"], 4)
        for lines in ([], [""], ['{"queue":"q"}'], ['{"t":1,"queue":"q"}']):
            self.assertRaises(oracle.Refused, oracle.answer, lines)


class AnotherToolsGraphs(unittest.TestCase):
    """Execution graphs of Trace Compass's tests. README.md describes the mapping of states and
    links.
    """

    def log(self, graph):
        # At equal times wake-ups must be behind the lines before them, and before the state that
        # follows.
        lines = []
        blocked = {(e["worker"], e["to"]): e for e in graph["horizontal"] if e["state"] == "BLOCKED"}
        for edge in graph["horizontal"]:
            known = edge["state"] != "BLOCKED"
            line = {"t": edge["from"], "machine": edge["worker"], "state" if known else "blocked": edge["state"]}
            lines.append((edge["from"], 2, line))
        for edge in graph["vertical"]:
            (source, at), (target, t) = edge["from"], edge["to"]
            self.assertIn((target, t), blocked)
            lines.append((t, 1, {"t": t, "machine": target, "woken_by": source, "at": at, "link": edge["state"]}))
        end = max(t for _, t in graph["vertices"])
        lines.append((end, 3, {"t": end, "end": "Actor0"}))
        return [json.dumps(line) for *_, line in sorted(lines, key=lambda item: item[:2])]

    def expected(self, graph, path):
        path = graph if path.get("same_as") == "build" else path
        own = {(e["worker"], e["state"]) for e in graph["horizontal"]}
        found = []
        for edge in path["horizontal"]:
            # a block that was relabelled in place
            link = (edge["worker"], edge["state"]) not in own
            who = ["", "link", "link"] if link else ["", edge["worker"], edge["worker"]]
            found.append([edge["from"], edge["to"], *who, edge["state"]])
        for edge in path["vertical"]:
            if edge["from"][1] != edge["to"][1]:
                found.append([edge["from"][1], edge["to"][1], "", "link", "link", edge["state"]])
        merged = []
        for row in sorted(found):
            if merged and merged[-1][1] == row[0] and merged[-1][2:] == row[2:]:
                merged[-1][1] = row[1]
            else:
                merged.append(row)
        return merged

    def test_bounded_is_active_and_unbounded_is_global(self):
        folder = os.environ.get("LONGPOLE_CORPORA")
        file = pathlib.Path(folder or "", "critical-path", "graphs.json")
        if not folder or not file.exists():
            print("skipped: the graphs of another tool, LONGPOLE_CORPORA does not name the folder that holds them")
            return
        compared = 0
        for case in json.loads(file.read_text()):
            lines = self.log(case["graph"])
            for key, mode in (("critical_path_bounded", "active"), ("critical_path_unbounded", "global")):
                if "unsupported" in case[key]:
                    continue
                with self.subTest(graph=case["name"], mode=mode):
                    self.assertEqual(rows(oracle.answer(lines, mode, "Actor0")), self.expected(case["graph"], case[key]))
                    compared += 1
        self.assertEqual(compared, 8)


class EveryPath(unittest.TestCase):
    def test_segments_ascend_without_gaps_and_sum_to_the_length(self):
        for seed in SEEDS:
            lines, _ = systems.system(seed)
            for path in paths(lines):
                with self.subTest(seed=seed, mode=path["mode"], machine=path["end_machine"]):
                    edges = [(s["start_ns"], s["end_ns"]) for s in path["segments"]]
                    self.assertEqual([path["start_ns"]] + [end for _, end in edges], [start for start, _ in edges] + [path["end_ns"]])
                    self.assertTrue(all(start < end for start, end in edges))
                    self.assertEqual(sum(end - start for start, end in edges), path["length_ns"])
                    self.assertEqual(sum(row["ns"] for row in path["criticality"]), path["length_ns"])
                    for one, next_one in zip(path["segments"], path["segments"][1:]):
                        self.assertNotEqual([one[k] for k in ("host", "machine", "state")], [next_one[k] for k in ("host", "machine", "state")])

    def test_own_time_of_the_asked_machine_stays_as_it_is(self):
        """Compares with a count that uses neither causes nor walks: the states of the machine
        outside of its blocks, taken from the lines.
        """
        for seed in SEEDS:
            lines, features = systems.system(seed, edges=False)
            if features & {"context", "stop"}:
                continue
            path = oracle.answer(lines)
            for host, name in machines(lines)[:3]:
                own, state, blocked, since = {}, None, False, None
                for line in map(json.loads, lines):
                    if line.get("t", 0) > path["end_ns"] or (line.get("host", ""), line.get("machine")) != (host, name):
                        continue
                    if state is not None and not blocked:
                        own[state] = own.get(state, 0) + line["t"] - since
                    if "blocked" in line:
                        blocked, state = True, state or "run"
                    elif {"get", "peek", "put", "reserve", "woken_by", "state"} & line.keys():
                        state = line.get("state", "runnable" if "woken_by" in line and blocked else state or "run")
                        blocked = False
                    else:
                        state = state or "run"
                    since = line["t"]
                if state is not None and not blocked:
                    own[state] = own.get(state, 0) + path["end_ns"] - since
                active = oracle.answer(lines, "active", name, host)
                found = {row["state"]: row["ns"] for row in active["criticality"] if (row["host"], row["machine"], row["class"] != "link") == (host, name, True)}
                for state, ns in own.items():
                    with self.subTest(seed=seed, machine=name, state=state):
                        self.assertGreaterEqual(found.get(state, 0), ns)

    def test_other_names_and_another_origin_of_time_change_nothing_else(self):
        for seed in SEEDS[::3]:
            lines, _ = systems.system(seed)
            new = {name: f"renamed {n}" for n, name in enumerate(random.Random(seed).sample(sorted({m for _, m in machines(lines)}), k=len({m for _, m in machines(lines)})))}
            by = 12345
            moved = []
            for line in map(json.loads, lines):
                for key in ("machine", "woken_by", "forked_by", "on_top_of", "end"):
                    if line.get(key) in new:
                        line[key] = new[line[key]]
                for key in ("t", "at"):
                    if key in line:
                        line[key] += by
                moved.append(json.dumps(line))
            for one, other in zip(paths(lines), paths(moved)):
                want = []
                for start, end, host, machine, cls, state in rows(one):
                    is_link = cls == "link"
                    want.append([start + by, end + by, host, machine if is_link else new[machine],
                                 cls if is_link or cls != machine else new[machine], state])
                with self.subTest(seed=seed, mode=one["mode"], machine=one["end_machine"]):
                    self.assertEqual(rows(other), want)

    def test_stretching_time_stretches_every_segment(self):
        for seed in SEEDS[::3]:
            lines, _ = systems.system(seed)
            longer = [re.sub(r'"(t|at)": (\d+)', lambda m: f'"{m[1]}": {int(m[2]) * 7}', line) for line in lines]
            for one, other in zip(paths(lines), paths(longer)):
                with self.subTest(seed=seed, mode=one["mode"], machine=one["end_machine"]):
                    self.assertEqual([[7 * a, 7 * b, *rest] for a, b, *rest in rows(one)], rows(other))

    def test_later_lines_change_nothing_of_an_end_that_was_reached(self):
        """The path to an end is the same if the log continues after it or not."""
        for seed in SEEDS[::3]:
            lines, _ = systems.system(seed)
            rng = random.Random(seed)
            cut = rng.randint(1, len(lines))
            whole = [line for line in lines if '"end"' not in line]
            last = [json.loads(line) for line in whole[:cut] if '"t"' in line]
            if not last or not machines(whole[:cut]):
                continue
            host, name = rng.choice(machines(whole[:cut]))
            end = json.dumps({"t": last[-1]["t"], "host": host, "end": name})
            for mode in ("global", "active"):
                with self.subTest(seed=seed, cut=cut, mode=mode):
                    one = oracle.answer(whole[:cut] + [end], mode, name, host)
                    other = oracle.answer(whole[:cut] + [end] + whole[cut:], mode, name, host)
                    self.assertEqual(rows(one), rows(other))

    def test_the_random_systems_hold_enough_of_what_is_hard(self):
        found, sizes = systems.count(SEEDS)
        self.assertGreaterEqual(min(sizes), 10)
        for feature in ("context", "hosts", "fork", "stop", "reserve", "peek", "merge", "lifo", "flow", "rpc", "lock", "at earlier"):
            self.assertGreater(found[feature], 0, feature)


if __name__ == "__main__":
    unittest.main()

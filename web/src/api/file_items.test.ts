import assert from 'node:assert/strict';
import { test } from 'node:test';
import { valueAt } from '../timeline/values.ts';
import type { Bins, FileRow, Items } from './file_data.ts';
import { FileClient } from './file_client.ts';
import { Numbers, readRows } from './file_data.ts';
import { ItemMaker, type GridItem } from './file_items.ts';
import type { Row, StateClass } from './types.ts';

const CLASSES: StateClass[] = ['asleep', 'running', 'blocked', 'call'];

/** Numbers that look random, the same in each run. */
function generator(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

/** States that follow each other, some after a gap, up to about `end`. */
function someStates(seed: number, end: number): Items {
  const random = generator(seed);
  const [begin, ends, state, path]: number[][] = [[], [], [], []];
  for (let now = random(50); now < end; ) {
    begin.push(now);
    now += 1 + random(random(8) === 0 ? 700 : 40);
    ends.push(now);
    state.push(random(CLASSES.length));
    path.push(random(2) * 255);
    if (random(5) === 0) now += random(90);
  }
  return {
    begin: Float64Array.from(begin),
    end: Float64Array.from(ends),
    state: Uint16Array.from(state),
    path: Uint8Array.from(path),
  };
}

/** What a bin has, computed from every single state. */
function bruteForce(states: Items, begin: number, end: number) {
  const ns = new Map<number, number>();
  let [busy, path, count] = [0, 0, 0];
  for (let i = 0; i < states.begin.length; i++) {
    const part = Math.min(states.end[i], end) - Math.max(states.begin[i], begin);
    if (part <= 0) continue;
    const state = states.state[i];
    ns.set(state, (ns.get(state) ?? 0) + part);
    if (state === 1 || state === 3) busy += part;
    path += (part * states.path[i]) / 255;
    if (states.begin[i] >= begin) count++;
  }
  const severity = ['asleep', 'running', 'call', 'blocked'];
  const rank = (state: number) => severity.indexOf(CLASSES[state]);
  const byTime = [...ns].sort(([a, nsA], [b, nsB]) => nsB - nsA || a - b);
  const byRank = [...ns].sort(([a], [b]) => rank(b) - rank(a));
  return { state: byTime[0]?.[0], worst: byRank[0]?.[0], count, busy, path };
}

function itemAt(items: readonly GridItem[], time: number): GridItem | undefined {
  return items.find((item) => item.begin <= time && time < item.end);
}

test('bins have the same as a sum over every state', () => {
  for (let seed = 1; seed < 20; seed++) {
    const states = someStates(seed, 40_000);
    const maker = new ItemMaker(CLASSES, null, 0);
    const grid = { level: 8, first: 3, count: 100 };
    const { exact, items } = maker.items({ states, levels: [] }, grid);
    assert.equal(exact, false);
    for (let bin = grid.first; bin < grid.first + grid.count; bin++) {
      const expected = bruteForce(states, bin * 256, (bin + 1) * 256);
      const item = itemAt(items, bin * 256 + 128);
      assert.equal(item?.state, expected.state, `state of bin ${bin}, seed ${seed}`);
      if (!item) continue;
      assert.equal(item.worst, expected.worst);
      const length = item.end - item.begin;
      const whole = bruteForce(states, item.begin, item.end);
      assert.ok(Math.abs(item.busy * length - whole.busy) < 1e-6);
      assert.ok(Math.abs(item.path * length - whole.path) < 1e-6);
      // A state that begins in a bin before is counted there.
      assert.equal(item.count, whole.count);
    }
    const inOrder = items.every((item, i) => i === 0 || items[i - 1].end <= item.begin);
    assert.ok(inOrder);
  }
});

test('a row with few states has these as its items', () => {
  const states = someStates(1, 1000);
  const grid = { level: 0, first: 100, count: 800 };
  const { exact, items } = new ItemMaker(CLASSES, null, 0).items({ states, levels: [] }, grid);
  assert.equal(exact, true);
  const i = states.end.findIndex((end) => end > 100);
  assert.deepEqual(
    [items[0].begin, items[0].end, items[0].state],
    [states.begin[i], states.end[i], states.state[i]],
  );
});

/** A row of which only the states in a slice are known. */
function slicedRow(all: Items, slice: { begin: number; end: number }, level: number): FileRow {
  const kept = [...all.begin.keys()].filter(
    (i) => all.end[i] > slice.begin && all.begin[i] < slice.end,
  );
  const pick = <T extends NonNullable<Items[keyof Items]>>(column: T) =>
    column.slice(kept[0], kept[kept.length - 1] + 1) as T;
  const states = { begin: pick(all.begin), end: pick(all.end), state: pick(all.state),
    path: pick(all.path) };
  const width = 2 ** level;
  const columns: number[][] = [[], [], [], [], [], [], []];
  for (let bin = 0; bin * width < 40_000; bin++) {
    const found = bruteForce(all, bin * width, (bin + 1) * width);
    if (found.state === undefined) continue;
    [bin * width, (bin + 1) * width, found.state, 0, found.worst, found.count,
      (found.busy / width) * 255].forEach((value, i) => columns[i].push(value));
  }
  const bins: Bins = {
    begin: Float64Array.from(columns[0]),
    end: Float64Array.from(columns[1]),
    state: Uint16Array.from(columns[2]),
    path: Uint8Array.from(columns[3]),
    worst: Uint16Array.from(columns[4]),
    count: Uint16Array.from(columns[5]),
    busy: Uint8Array.from(columns[6]),
  };
  return { states, levels: [bins] };
}

test('beyond the slice, items are the bins of the file, and none overlap', () => {
  const all = someStates(7, 40_000);
  const slice = { begin: 10_000, end: 14_000 };
  const row = slicedRow(all, slice, 10);
  const maker = new ItemMaker(CLASSES, slice, 10);
  for (const level of [0, 2, 5, 8]) {
    const grid = { level, first: (8192 >> level), count: (12_288 >> level) };
    const { exact, items } = maker.items(row, grid);
    assert.equal(exact, false);
    assert.ok(items.every((item, i) => i === 0 || items[i - 1].end <= item.begin), `level ${level}`);
    const outside = itemAt(items, 9000)!;
    assert.equal(outside.state, bruteForce(all, 8192, 9216).state);
    // With at most one state per bin, items are states; otherwise bins.
    const width = level < 8 ? 1 : 2 ** level;
    for (let time = slice.begin + 256; time < slice.end - 256; time += 2 ** level) {
      const begin = Math.floor(time / width) * width;
      const expected = bruteForce(all, begin, begin + width);
      const found = itemAt(items, begin + Math.floor(width / 2));
      assert.equal(found?.state, expected.state, `level ${level} at ${time}`);
    }
  }
  const inside = maker.items(row, { level: 2, first: 2600, count: 512 });
  assert.equal(inside.exact, true);
});

test('coarser views have the bins of their level', () => {
  const all = someStates(3, 40_000);
  const row = slicedRow(all, { begin: 0, end: 10 }, 10);
  const { items } = new ItemMaker(CLASSES, { begin: 0, end: 10 }, 10).items(row, {
    level: 10, first: 0, count: 40,
  });
  assert.equal(items.length, row.levels[0].begin.length);
});

test('columns of numbers are read as they are written', () => {
  // A row with all of its states: two of 5 and 300 ns, the second one after a gap of 2^33 ns.
  const bytes = [1, 2, 10, 0x80, 0x80, 0x80, 0x80, 0x20, 5, 0xac, 2, 0, 1, 0, 0xff, 1];
  const row = { id: 4, states: 2 } as Row;
  const rows = readRows({ rows: [row], level: 0, levels: 0 }, new Numbers(Uint8Array.from(bytes)),
    new Numbers(new Uint8Array()));
  const { states } = rows.get(4)!;
  assert.deepEqual([...states.begin], [10, 15 + 2 ** 33]);
  assert.deepEqual([...states.end], [15, 315 + 2 ** 33]);
  assert.deepEqual([...states.state, ...states.path], [0, 1, 0, 255]);
});

test('values are read as they are written, and their bins have the least and the greatest', async () => {
  // Steps of 10, 20 and 30 ns with the values 5, -0.5 and 8; the bits of 5 are 40 14 00 ... 00.
  const swapped = (value: number) => {
    const bits = new DataView(new ArrayBuffer(8));
    bits.setFloat64(0, value);
    return bits.getUint32(0, true);
  };
  const put = (number: number): number[] =>
    number < 0x80 ? [number] : [(number % 0x80) | 0x80, ...put(Math.floor(number / 0x80))];
  const values = [5, -0.5, 8];
  const bytes = [1, 3, 0, 0, 0, 10, 20, 30, ...values.flatMap((it) => put(swapped(it))), 0, 0, 0];
  const facts = { min: -0.5, max: 8, unit: null, capacity: null };
  const row = { id: 4, kind: 'counter', states: 3, values: facts } as Row;
  const rows = readRows({ rows: [row], level: 0, levels: 0 }, new Numbers(Uint8Array.from(bytes)),
    new Numbers(new Uint8Array()));
  const steps = rows.get(4)!.states;
  assert.deepEqual([...steps.value!], values);
  const maker = new ItemMaker(CLASSES, null, 0);
  const exact = maker.items(rows.get(4)!, { level: 0, first: 0, count: 60 });
  assert.deepEqual(exact.items.map((it) => valueAt(facts, it.state)), values);
  const { items } = maker.items(rows.get(4)!, { level: 6, first: 0, count: 1 });
  assert.equal(items.length, 1);
  assert.deepEqual([valueAt(facts, items[0].state), valueAt(facts, items[0].worst)], [-0.5, 8]);
  const client = new FileClient({
    head: {
      trace: { end: 60, origin_ns: '0', version: 1 } as never, rows: [row], states: [], path: null,
      path_rows: [], graph: null, left_out: 0, slice: null, level: 0, levels: 0, notes: [],
    },
    report: '', rows,
  });
  const sums = await client.sums(5, 40, [4]);
  const mean = (5 * 5 - 0.5 * 20 + 8 * 10) / 35;
  assert.deepEqual(sums.values, [{ row: 4, min: -0.5, max: 8, mean, known_ns: 35, changes: 2 }]);
  assert.equal((await client.states(4, 12, 13, 1)).states[0].value, -0.5);
});

test('what needs single states beyond the slice is refused with the part that has them', async () => {
  const all = someStates(5, 40_000);
  const slice = { begin: 10_000, end: 14_000 };
  const row = { id: 1, kind: 'thread', states: all.begin.length } as Row;
  const client = new FileClient({
    head: {
      trace: { end: 40_000, origin_ns: '0', version: 1 } as never,
      rows: [row], states: CLASSES.map((name) => ({ name, class: name })), path: null,
      path_rows: [], left_out: 0, slice, level: 10, levels: 1, notes: [],
      graph: null,
    },
    report: '', rows: new Map([[1, slicedRow(all, slice, 10)]]),
  });
  await assert.rejects(client.states(1, 20_000, 20_001, 1), /longpole view/);
  await assert.rejects(client.sums(20_000, 30_000, [1]), /longpole view/);
  const { states } = await client.states(1, 12_000, 12_600, 1000);
  assert.equal(states.length, [...all.begin.keys()].filter(
    (i) => all.end[i] > 12_000 && all.begin[i] < 12_600).length);
  const inside = await client.sums(11_000, 30_000, [1]);
  const total = inside.sums.reduce((sum, entry) => sum + entry.total_ns, 0);
  const expected = [...all.begin.keys()].reduce((sum, i) =>
    sum + Math.max(Math.min(all.end[i], 14_000) - Math.max(all.begin[i], 11_000), 0), 0);
  assert.equal(total, expected);
  const found = await client.search('RUNN', 0, 40_000, 3);
  assert.equal(found.matches.length, 3);
  assert.ok(found.more && found.matches.every((match) => match.state === 1));
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Row, RowKind, Rows } from '../api/types.ts';
import { emptyScene } from '../timeline/scene.ts';
import { NewGeneration } from './new_generation.ts';

function row(
  id: number,
  parent: number | null,
  kind: RowKind,
  name: string,
  tid: number | null = null,
): Row {
  return { id, parent, kind, name, detail: '', tid, cpu: null, used_cpus: null, allowed_cpus: null, states: 1, busy_ns: 0, path_ns: 0 };
}

const before: Rows = {
  version: 1,
  generation: 0,
  rows: [
    row(1, null, 'process', 'server'),
    row(0, 1, 'thread', 'worker'),
    row(2, 1, 'thread', 'worker'),
    row(5, null, 'process', 'gone'),
  ],
  states: [
    { name: 'parse', class: 'running' },
    { name: 'read', class: 'blocked' },
  ],
};

const after: Rows = {
  version: 9,
  generation: 1,
  rows: [
    row(7, null, 'process', 'server'),
    row(3, 7, 'thread', 'worker'),
    row(4, 7, 'thread', 'worker'),
  ],
  states: [
    { name: 'read', class: 'blocked' },
    { name: 'parse', class: 'running' },
  ],
};

test('settings keep the rows of the same names, and forget those that are gone', () => {
  const settings = new NewGeneration(before, after, 0).settings({
    collapsed: new Set([1, 5]),
    hidden: new Set([5]),
    pinned: [2, 0],
    filter: 'w',
    order: 'name',
  });
  assert.deepEqual(settings, {
    collapsed: new Set([7]),
    hidden: new Set(),
    pinned: [4, 3],
    filter: 'w',
    order: 'name',
  });
});

test('a selection, a range, marks and notes keep their rows, states and moments', () => {
  const scene = new NewGeneration(before, after, -10).scene({
    ...emptyScene(),
    selection: { row: 2, begin: 20, end: 30, state: 1 },
    range: { begin: 15, end: 40, rows: [0, 5] },
    marks: [12],
    notes: [
      { t: 11, row: 0, text: 'here' },
      { t: 12, row: 5, text: 'no row' },
    ],
  });
  assert.deepEqual(scene, {
    selection: { row: 4, begin: 10, end: 20, state: 0 },
    range: { begin: 5, end: 30, rows: [3] },
    marks: [2],
    notes: [
      { t: 1, row: 3, text: 'here' },
      { t: 2, row: null, text: 'no row' },
    ],
  });
});

test('a selected state that is gone is no longer selected', () => {
  const selection = { row: 5, begin: 20, end: 30, state: 1 };
  const scene = new NewGeneration(before, after, 0).scene({ ...emptyScene(), selection });
  assert.equal(scene.selection, null);
});

test('threads of one name are told apart by their ids, also if they were renamed', () => {
  const threads = (...all: [id: number, name: string, tid: number][]): Rows => ({
    ...before,
    rows: [
      row(1, null, 'process', 'server'),
      ...all.map(([id, name, tid]) => row(id, 1, 'thread', name, tid)),
    ],
  });
  const adopted = new NewGeneration(
    threads([2, 'worker', 70], [3, 'worker', 71], [4, 'start', 72], [5, 'worker', 73]),
    threads([6, 'worker', 71], [7, 'worker', 70], [8, 'worker', 74], [9, 'server', 72]),
    0,
  );
  assert.deepEqual([2, 3, 4].map((id) => adopted.row(id)), [7, 6, 9]);
  assert.equal(adopted.row(5), null, 'another thread has its place');
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Row, RowKind } from '../api/types.ts';
import {
  firstRowAt,
  HEAD_HEIGHT,
  ROW_HEIGHT,
  RowTree,
  stickyHeads,
  type RowSettings,
} from './row_tree.ts';

function row(id: number, parent: number | null, kind: RowKind, name: string, pathNs = 0): Row {
  return { id, parent, kind, name, detail: '', tid: null, cpu: null, used_cpus: null, allowed_cpus: null, states: 1, busy_ns: 0, path_ns: pathNs };
}

const ROWS = [
  row(1, null, 'host', 'laptop', 90),
  row(2, 1, 'process', 'nginx', 30),
  row(3, 2, 'thread', 'master', 0),
  row(4, 2, 'thread', 'worker', 30),
  row(5, 1, 'process', 'redis', 60),
  row(6, 5, 'thread', 'redis-server', 60),
  row(7, 1, 'cpus', 'CPUs'),
  row(8, 7, 'cpu', 'CPU 0'),
  row(9, 7, 'cpu', 'CPU 1', 5),
];

const SETTINGS: RowSettings = {
  collapsed: new Set(),
  hidden: new Set(),
  pinned: [],
  filter: '',
  order: 'path',
};

function names(settings: Partial<RowSettings> = {}): string[] {
  const layout = new RowTree(ROWS).layout({ ...SETTINGS, ...settings });
  return layout.rows.map((entry) => entry.row.name);
}

test('rows with the most time on the path come first, CPUs stay in their order', () => {
  assert.deepEqual(names(), [
    'laptop', 'redis', 'redis-server', 'nginx', 'worker', 'master', 'CPUs', 'CPU 0', 'CPU 1',
  ]);
  const recorded = names({ order: 'recorded' });
  assert.deepEqual(recorded.slice(0, 4), ['laptop', 'nginx', 'master', 'worker']);
});

test('a collapsed head hides its rows and a hidden row all below it', () => {
  assert.deepEqual(names({ collapsed: new Set([5, 7]) }), [
    'laptop', 'redis', 'nginx', 'worker', 'master', 'CPUs',
  ]);
  assert.deepEqual(names({ hidden: new Set([2, 7]) }), ['laptop', 'redis', 'redis-server']);
});

test('a filter shows matching rows with their heads, also in collapsed groups', () => {
  const found = names({ filter: 'WORK', collapsed: new Set([2]) });
  assert.deepEqual(found, ['laptop', 'nginx', 'worker']);
  assert.deepEqual(names({ filter: 'nginx' }), ['laptop', 'nginx', 'worker', 'master']);
  assert.deepEqual(names({ filter: 'absent' }), []);
});

test('pinned rows move to the top', () => {
  const tree = new RowTree(ROWS);
  const layout = tree.layout({ ...SETTINGS, pinned: [8, 4] });
  assert.deepEqual(layout.pinned.map((entry) => entry.row.name), ['CPU 0', 'worker']);
  assert.equal(layout.pinnedHeight, 2 * ROW_HEIGHT);
  assert.ok(!layout.rows.some((entry) => entry.row.id === 4));
});

test('tops and heights add up, and a row is found by its height', () => {
  const { rows, height } = new RowTree(ROWS).layout(SETTINGS);
  let top = 0;
  for (const entry of rows) {
    assert.equal(entry.top, top);
    assert.equal(rows[firstRowAt(rows, top)], entry);
    assert.equal(rows[firstRowAt(rows, top + entry.height - 1)], entry);
    top += entry.height;
  }
  assert.equal(height, top);
  assert.equal(firstRowAt(rows, height), rows.length);
});

test('the heads of the rows in view stay at the top', () => {
  const layout = new RowTree(ROWS).layout(SETTINGS);
  const stuck = (scroll: number) => stickyHeads(layout, scroll).map((entry) => entry.row.name);
  assert.deepEqual(stuck(0), []);
  // The host's head covers the first pixel of the next one, which therefore stays as well.
  assert.deepEqual(stuck(1), ['laptop', 'redis']);
  // The rows of redis are scrolled out below the heads, so nginx is the process in view.
  assert.deepEqual(stuck(HEAD_HEIGHT + ROW_HEIGHT + 5), ['laptop', 'nginx']);
});

test('a row that is not visible is represented by its nearest visible ancestor', () => {
  const tree = new RowTree(ROWS);
  const layout = tree.layout({ ...SETTINGS, collapsed: new Set([5]) });
  assert.equal(tree.visible(layout, 6)?.row.name, 'redis');
  assert.equal(tree.visible(layout, 4)?.row.name, 'worker');
  assert.equal(tree.visible(layout, 99), undefined);
  assert.deepEqual(tree.ancestors(6), [5, 1]);
  assert.deepEqual(tree.leaves(0).sort(), [3, 4, 6, 8, 9]);
});

test('rows of another trace are in the order of those of the same names', () => {
  const other = [
    row(11, null, 'host', 'server', 90),
    row(12, 11, 'process', 'redis', 80),
    row(13, 12, 'thread', 'redis-server', 60),
    row(14, 11, 'process', 'new', 70),
    row(15, 11, 'process', 'nginx', 10),
    row(16, 15, 'thread', 'worker', 1),
    row(17, 15, 'thread', 'worker', 9),
    row(18, 15, 'thread', 'master', 0),
  ];
  const like = new RowTree(ROWS).places('name');
  const layout = new RowTree(other).layout(SETTINGS, like);
  assert.deepEqual(
    layout.rows.map((entry) => entry.row.id),
    [11, 15, 18, 16, 17, 12, 13, 14],
    'nginx is before redis as in the first; what is only in the second comes last',
  );
});

test('a key is that of one row, and of the same row in another trace', () => {
  const twins = [row(1, null, 'process', 'p'), row(2, 1, 'thread', 't'), row(3, 1, 'thread', 't')];
  const [a, b] = [new RowTree(twins), new RowTree(twins.map((it) => ({ ...it })))];
  assert.notEqual(a.key(2), a.key(3));
  assert.equal(b.withKey(a.key(3))?.id, 3);
  assert.equal(b.withKey('nothing'), undefined);
});

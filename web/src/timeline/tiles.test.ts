import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TileCache } from './tile_cache.ts';
import { decodeTile, findItem, itemAt, itemFacts, itemRanges } from './tiles.ts';

interface TestItem {
  begin: number;
  end: number;
  state: number;
  worst?: number;
  count?: number;
}

function pack(version: number, rows: { row: number; exact: boolean; items: TestItem[] }[]) {
  const itemCount = rows.reduce((sum, row) => sum + row.items.length, 0);
  const buffer = new ArrayBuffer(16 + rows.length * 16 + itemCount * 16);
  const data = new DataView(buffer);
  [...'LPT1'].forEach((letter, i) => data.setUint8(i, letter.charCodeAt(0)));
  data.setUint32(4, rows.length, true);
  data.setUint32(8, version, true);
  let at = 16;
  let first = 0;
  for (const row of rows) {
    for (const value of [row.row, row.exact ? 1 : 0, first, row.items.length]) {
      data.setUint32(at, value, true);
      at += 4;
    }
    first += row.items.length;
  }
  for (const { items } of rows) {
    for (const item of items) {
      data.setFloat32(at, item.begin, true);
      data.setFloat32(at + 4, item.end, true);
      data.setUint16(at + 8, item.state, true);
      data.setUint16(at + 10, item.worst ?? item.state, true);
      data.setUint16(at + 12, item.count ?? 1, true);
      at += 16;
    }
  }
  return buffer;
}

const TWO_ROWS = [
  {
    row: 4,
    exact: true,
    items: [
      { begin: -10, end: 2, state: 0 },
      { begin: 2, end: 2.5, state: 1 },
      { begin: 40, end: 100, state: 300, worst: 7, count: 65535 },
    ],
  },
  { row: 9, exact: false, items: [{ begin: 0, end: 1, state: 5, worst: 6, count: 12 }] },
];

test('a tile gives rows and items as they were packed', () => {
  const tile = decodeTile(pack(17, TWO_ROWS));
  assert.equal(tile.version, 17);
  assert.deepEqual(tile.rows, [
    { row: 4, exact: true, group: false, first: 0, count: 3 },
    { row: 9, exact: false, group: false, first: 3, count: 1 },
  ]);
  const third = { begin: 40, end: 100, state: 300, worst: 7, count: 65535, busy: 0 };
  assert.deepEqual(itemAt(tile, 2), third);
  assert.deepEqual(itemAt(tile, 3), { begin: 0, end: 1, state: 5, worst: 6, count: 12, busy: 0 });
});

test('a row of the kind 2 is a group, and has no texts', () => {
  const buffer = pack(1, [{ row: 3, exact: false, items: [{ begin: 0, end: 99, state: 1 }] }]);
  new DataView(buffer).setUint32(16 + 4, 2, true);
  const tile = decodeTile(buffer);
  assert.deepEqual(tile.rows, [{ row: 3, exact: false, group: true, first: 0, count: 1 }]);
  assert.deepEqual(itemFacts(tile, tile.rows[0], 10).wide, []);
});

test('a tile that is cut or of another format is refused', () => {
  const buffer = pack(1, TWO_ROWS);
  assert.throws(() => decodeTile(buffer.slice(0, 8)));
  assert.throws(() => decodeTile(buffer.slice(0, 40)));
  assert.throws(() => decodeTile(buffer.slice(0, buffer.byteLength - 16)));
  assert.throws(() => decodeTile(new ArrayBuffer(64)));
});

test('the item at a time is found, or the nearest one within reach', () => {
  const tile = decodeTile(pack(1, TWO_ROWS));
  const items = tile.rows[0];
  assert.equal(findItem(tile, items, 0, 0), 0);
  assert.equal(findItem(tile, items, 2.2, 0), 1);
  assert.equal(findItem(tile, items, 50, 0), 2);
  assert.equal(findItem(tile, items, 4, 2), 1);
  assert.equal(findItem(tile, items, 39, 2), 2);
  assert.equal(findItem(tile, items, 20, 2), -1);
});

test('only the items of visible rows in view are drawn', () => {
  const tile = decodeTile(pack(1, TWO_ROWS));
  const ranges = (begin: number, end: number) => itemRanges(tile, new Set([4]), begin, end);
  assert.deepEqual(ranges(-100, 200), [{ row: 4, group: false, first: 0, count: 3 }]);
  assert.deepEqual(ranges(2.1, 3), [{ row: 4, group: false, first: 1, count: 1 }]);
  assert.deepEqual(ranges(3, 40), []);
  assert.deepEqual(ranges(1, 41), [{ row: 4, group: false, first: 0, count: 3 }]);
});

test('only wide items may have a text, and only some rows need ticks', () => {
  const tile = decodeTile(pack(1, TWO_ROWS));
  assert.deepEqual(itemFacts(tile, tile.rows[0], 10), { wide: [0, 2], ticks: true });
  const plain = decodeTile(
    pack(1, [{ row: 1, exact: true, items: [{ begin: 0, end: 5, state: 1 }] }]),
  );
  assert.deepEqual(itemFacts(plain, plain.rows[0], 10), { wide: [], ticks: false });
});

test('the cache knows which rows are missing or outdated', () => {
  const cache = new TileCache();
  assert.deepEqual(cache.missing(3, 0, [4, 9, 11], 1), [4, 9, 11]);
  cache.add(3, 0, pack(1, TWO_ROWS), 1, 0);
  assert.deepEqual(cache.missing(3, 0, [4, 9, 11], 1), [11]);
  assert.deepEqual(cache.missing(3, 0, [4, 9, 11], 2), [4, 9, 11]);
  assert.deepEqual(cache.missing(3, 1, [4], 1), [4]);
});

test('a batch is dropped when newer ones have all of its rows', () => {
  const cache = new TileCache();
  const dropped: unknown[] = [];
  cache.onDrop = (batch) => dropped.push(batch);
  const old = cache.add(3, 0, pack(1, TWO_ROWS), 1, 0);
  cache.add(3, 0, pack(2, [TWO_ROWS[0]]), 2, 1);
  assert.deepEqual(dropped, []);
  cache.add(3, 0, pack(2, [TWO_ROWS[1]]), 2, 2);
  assert.deepEqual(dropped, [old]);
  assert.equal(cache.row(3, 0, 9)?.version, 2);
});

test('beyond its limit the cache drops what was not used for the longest time', () => {
  const one = pack(1, TWO_ROWS);
  const cache = new TileCache(one.byteLength * 2);
  cache.add(1, 0, one, 1, 1);
  cache.add(1, 1, one, 1, 2).lastUsed = 9;
  cache.add(1, 2, one, 1, 3);
  cache.add(1, 3, one, 1, 4);
  assert.equal(cache.row(1, 0, 4), undefined);
  assert.notEqual(cache.row(1, 1, 4), undefined);
  assert.equal(cache.row(1, 2, 4), undefined);
  assert.notEqual(cache.row(1, 3, 4), undefined);
  assert.equal(cache.size, one.byteLength * 2);
  cache.clear();
  assert.equal(cache.size, 0);
});

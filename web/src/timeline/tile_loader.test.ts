import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TileCache } from './tile_cache.ts';
import { ROWS_TOGETHER, TileLoader } from './tile_loader.ts';

/** The answer of a server without states. */
function emptyTile(rows: readonly number[]): ArrayBuffer {
  const buffer = new ArrayBuffer(16 + 16 * rows.length);
  const view = new DataView(buffer);
  [0x3154504c, rows.length, 1, 0].forEach((number, i) => view.setUint32(4 * i, number, true));
  rows.forEach((row, i) => {
    view.setUint32(16 + 16 * i, row, true);
    view.setUint32(20 + 16 * i, 1, true);
  });
  return buffer;
}

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);

test('rows around the visible ones are requested together, and visible ones at once', async () => {
  const requests: number[][] = [];
  const loader = new TileLoader(new TileCache(), async (_level, _tile, rows) => {
    requests.push([...rows]);
    return emptyTile(rows);
  });
  const groups = new Set(range(1000, 1020));
  const want = async (first: number, visible: number, around: number) => {
    const rows = range(first - around, first + visible + around);
    const urgent = new Set(range(first, first + visible));
    loader.want([{ level: 0, tile: 0 }], { rows, urgent, groups }, 1);
    await new Promise((resolve) => setTimeout(resolve));
  };
  await want(100, 8, 40);
  assert.deepEqual(requests.flat().sort((a, b) => a - b), range(60, 148));
  requests.length = 0;
  for (let first = 101; first < 100 + ROWS_TOGETHER; first++) await want(first, 8, 40);
  assert.deepEqual(requests, []);
  await want(100 + ROWS_TOGETHER, 8, 40);
  assert.deepEqual(requests, [range(148, 148 + ROWS_TOGETHER)]);
  requests.length = 0;
  await want(400, 8, 0);
  assert.deepEqual(requests, [range(400, 408)]);
  requests.length = 0;
  await want(1000, 20, 0);
  assert.deepEqual(requests, [range(1000, 1008), range(1008, 1016), range(1016, 1020)], 'groups');
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { binned } from './histogram.ts';
import { logPlace, logScale, logTicks, roundTicks } from './scales.ts';

test('joined bins have all values, each in its bounds', () => {
  const buckets: [number, number][] = [[0, 3], [1, 1], [900, 5], [1000, 7], [70_000, 2]];
  for (const most of [4, 20, 200]) {
    const bins = binned(buckets, most);
    assert.equal(bins.reduce((sum, bin) => sum + bin.count, 0), 18);
    for (const [value, count] of buckets) {
      const bin = bins.find((it) => it.from <= Math.max(value, 1) && Math.max(value, 1) < it.to);
      assert.ok(bin && bin.count >= count, `${value} of ${most}`);
    }
  }
  assert.deepEqual(binned([], 10), []);
});

test('a logarithmic scale has its values between its ends', () => {
  const scale = logScale([0, 20, 5_000], 100, 0);
  assert.ok(logPlace(scale, 1) < 100 && logPlace(scale, 5_000) > 0);
  assert.ok(logPlace(scale, 20) > logPlace(scale, 200));
  assert.deepEqual(logTicks(scale), [1, 10, 100, 1000]);
  assert.deepEqual(logTicks(logScale([100, 110], 0, 1)), [100]);
});

test('ticks are round and begin at zero', () => {
  assert.deepEqual(roundTicks(1023, 4), [0, 500, 1000]);
  assert.deepEqual(roundTicks(3, 5), [0, 1, 2, 3]);
  assert.deepEqual(roundTicks(0, 5), [0]);
});

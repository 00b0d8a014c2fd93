import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  clockZero,
  formatDay,
  formatDuration,
  formatExact,
  formatRate,
  formatRelative,
  formatUtc,
  parseDuration,
  ticks,
  tickStep,
} from './time_format.ts';

test('durations have three significant digits', () => {
  assert.equal(formatDuration(0), '0 ns');
  assert.equal(formatDuration(7), '7 ns');
  assert.equal(formatDuration(1234), '1.23 µs');
  assert.equal(formatDuration(123_456_789), '123 ms');
  assert.equal(formatDuration(5e9), '5.00 s');
  assert.equal(formatDuration(150e9), '2 min 30 s');
  assert.equal(formatDuration(3 * 3600e9), '3 h 0 min');
});

test('exact durations have every ns', () => {
  assert.equal(formatExact(1_234_567), '1.234\u2009567 ms');
  assert.equal(formatExact(999), '999 ns');
});

test('times have the digits that their steps need', () => {
  assert.equal(formatRelative(1_500_000_000, 1e9), '2 s');
  assert.equal(formatRelative(1_500_000_000, 1e6), '1.500 s');
  assert.equal(formatRelative(1_500_000_123, 1), '1.500\u2009000\u2009123 s');
});

test('times in UTC are exact in ns, before 1970 and after 2106 as well', () => {
  const origin = 1_764_000_000_123_456_789n;
  assert.equal(formatUtc(0, origin, 1), '16:00:00.123\u2009456\u2009789');
  assert.equal(formatUtc(1e9, origin, 1e9), '16:00:01');
  assert.equal(formatDay(0, origin), '2025-11-24');
  assert.equal(formatUtc(0, -1n, 1), '23:59:59.999\u2009999\u2009999');
  assert.equal(formatDay(0, 4_300_000_000_000_000_000n), '2106-04-06');
});

test('ticks are at round times of the clock', () => {
  const origin = 1_764_000_000_123_456_789n;
  const zero = clockZero(origin, 200e6);
  const [first] = ticks({ begin: 0, end: 1e9 }, 200e6, zero);
  assert.equal(formatUtc(first, origin, 1e6), '16:00:00.200');
  assert.equal(clockZero(0n, 1e6), -0);
});

test('ticks are round and far enough apart', () => {
  for (let width = 50; width < 1e16; width *= 3.7) {
    const view = { begin: width / 3, end: width / 3 + width };
    const step = tickStep(view, 1000, 120);
    assert.ok((step / width) * 1000 >= 119 || step === 1, `${width} ns`);
    assert.ok(ticks(view, step).every((time) => time >= view.begin && time <= view.end));
  }
});

test('a duration is read as it is written', () => {
  for (const ns of [0, 7, -999, 1_234_567, -5_000_000_001, 86_400e9]) {
    assert.equal(parseDuration(formatExact(ns)), ns);
  }
  assert.equal(parseDuration('1.5ms'), 1_500_000);
  assert.equal(parseDuration('+2 us'), 2000);
  assert.equal(parseDuration('\u2212 3'), -3);
  for (const text of ['', 'x', '1.2.3 s', '5 hours', '--1']) assert.equal(parseDuration(text), null);
});

test('rates have three significant digits', () => {
  assert.equal(formatRate(896.2), '896/s');
  assert.equal(formatRate(1448.869), '1.45 k/s');
  assert.equal(formatRate(2_500_000), '2.50 M/s');
});

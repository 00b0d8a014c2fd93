import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  clampView,
  levelOf,
  panView,
  pixelToTime,
  SHORTEST_SPAN_NS,
  span,
  tileSpan,
  tilesOf,
  timeToPixel,
  viewAround,
  zoomView,
} from './viewport.ts';

const LENGTH = 5_000_000_000;
const WHOLE = { begin: 0, end: LENGTH };

test('bins are between half a pixel and one pixel wide at every zoom', () => {
  for (const pixels of [300, 940, 1280, 2560, 5120]) {
    for (let width = pixels * 1.01; width < 1e16; width *= 1.37) {
      const nsPerPixel = width / pixels;
      const bin = 2 ** levelOf({ begin: 0, end: width }, pixels);
      assert.ok(bin <= nsPerPixel && bin > nsPerPixel / 2, `${width} ns on ${pixels} pixels`);
    }
  }
});

test('below one ns per pixel the level is 0', () => {
  assert.equal(levelOf({ begin: 100, end: 140 }, 1000), 0);
});

test('a zoom keeps the time at the pointer', () => {
  let view = { begin: 1e9, end: 2e9 };
  const at = 1.3e9;
  for (let i = 0; i < 20; i++) {
    const before = timeToPixel(view, 1000, at);
    view = zoomView(view, 0.7, at, WHOLE);
    assert.ok(Math.abs(timeToPixel(view, 1000, at) - before) < 1e-3);
  }
});

test('a zoom ends at the shortest span and at the whole trace', () => {
  assert.equal(span(zoomView({ begin: 1e9, end: 2e9 }, 1e-12, 1.5e9, WHOLE)), SHORTEST_SPAN_NS);
  const whole = zoomView({ begin: 1e9, end: 2e9 }, 1e6, 1.5e9, WHOLE);
  assert.ok(whole.begin <= 0 && whole.end >= LENGTH);
  assert.ok(span(whole) < LENGTH * 1.05);
});

test('a pan stops at the ends and keeps the span', () => {
  const view = { begin: 1e9, end: 2e9 };
  for (const ns of [-1e12, 1e12, 12345]) {
    assert.ok(Math.abs(span(panView(view, ns, WHOLE)) - 1e9) < 1);
  }
  assert.ok(panView(view, -1e12, WHOLE).begin > -1e8);
  assert.ok(panView(view, 1e12, WHOLE).end < LENGTH + 1e8);
});

test('an empty trace has a view with a positive span', () => {
  const empty = { begin: 0, end: 0 };
  assert.ok(span(clampView(empty, empty)) > 0);
  assert.ok(span(viewAround(empty)) > 0);
});

test('pixels and times are inverse to each other', () => {
  const view = { begin: 123, end: 456_789 };
  assert.ok(Math.abs(pixelToTime(view, 777, timeToPixel(view, 777, 9999)) - 9999) < 1e-6);
});

test('the tiles of a view cover it and stay within the trace', () => {
  for (const view of [
    { begin: -1e8, end: 5.1e9 },
    { begin: 1e9, end: 1e9 + 5000 },
    { begin: 4.9e9, end: 5e9 },
  ]) {
    const level = levelOf(view, 1280);
    const { first, last } = tilesOf(view, level, LENGTH, 0);
    assert.ok(first >= 0 && first * tileSpan(level) <= Math.max(view.begin, 0));
    assert.ok((last + 1) * tileSpan(level) >= Math.min(view.end, LENGTH));
    assert.ok(last * tileSpan(level) < LENGTH);
    assert.ok(last - first <= 3, 'a view of 1,280 pixels needs at most four tiles');
  }
});

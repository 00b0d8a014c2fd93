import assert from 'node:assert/strict';
import { test } from 'node:test';
import { firstSegmentAfter } from './path_store.ts';
import { ViewHistory } from './view_history.ts';
import { span } from './viewport.ts';
import { windowOf } from './window_store.ts';

test('the window of a view contains it and is at most four times as wide', () => {
  for (let width = 1; width < 1e15; width *= 2.9) {
    for (const begin of [0, width * 0.3, width * 7.77, -width * 0.01]) {
      const view = { begin, end: begin + width };
      const window = windowOf(view);
      assert.ok(window.begin <= view.begin && window.end >= view.end);
      assert.ok(span(window) <= 4 * span(view));
    }
  }
});

test('the first segment after a time is the one that contains it', () => {
  const segments = [0, 10, 20].map((begin) => ({
    begin, end: begin + 10, row: 1, state: 0, joined: 1,
  }));
  assert.equal(firstSegmentAfter(segments, 0), 0);
  assert.equal(firstSegmentAfter(segments, 10), 1);
  assert.equal(firstSegmentAfter(segments, 29), 2);
  assert.equal(firstSegmentAfter(segments, 30), 3);
});

test('the history leads back and forward, and forgets what was undone', () => {
  const history = new ViewHistory();
  const place = (begin: number) => ({ view: { begin, end: begin + 1 }, scrolls: [0] });
  for (const begin of [1, 2, 2, 3]) history.record(place(begin));
  assert.equal(history.back()?.view.begin, 2);
  assert.equal(history.back()?.view.begin, 1);
  assert.equal(history.back(), null);
  assert.equal(history.forward()?.view.begin, 2);
  history.record(place(9));
  assert.equal(history.forward(), null);
  assert.equal(history.back()?.view.begin, 2);
});

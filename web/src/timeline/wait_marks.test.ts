import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WaitMark } from '../api/types.ts';
import { byRow, firstMarkAfter, hasMark, markPlaces } from './wait_marks.ts';

const MARKS: WaitMark[] = [
  [7, 0, 100],
  [7, 200, 210],
  [9, 50, 60],
  [7, 900, 1000],
];

test('a part of a row has a mark if a wait overlaps it', () => {
  const marks = byRow(MARKS);
  assert.deepEqual([...marks.keys()], [7, 9]);
  assert.equal(firstMarkAfter(marks.get(7)!, 100), 1);
  assert.ok(hasMark(marks, 7, 99, 100) && !hasMark(marks, 7, 100, 200));
  assert.ok(hasMark(marks, 7, 0, 5000) && !hasMark(marks, 8, 0, 5000));
  assert.ok(!hasMark(marks, 7, 1000, 5000));
});

test('a mark is at the end of its wait, or of the view', () => {
  const ofRow = byRow(MARKS).get(7)!;
  const frame = { view: { begin: 50, end: 950 }, width: 90 };
  assert.deepEqual(markPlaces(ofRow, frame), [5, 16, 90]);
  // The second one would be covered by the first one.
  assert.deepEqual(markPlaces(ofRow, { ...frame, width: 45 }), [2.5, 45]);
});

test('a frame has no more marks than the row has space for', () => {
  const many: WaitMark[] = [];
  for (let i = 0; i < 100_000; i++) many.push([1, i * 10, i * 10 + 5]);
  const frame = { view: { begin: 0, end: 1_000_000 }, width: 1000 };
  assert.ok(markPlaces(many, frame).length <= 1000 / 7 + 1);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TimeAxis, type OnAxis } from './time_axis.ts';

class Trace implements OnAxis {
  moves = 0;
  readonly offset: number;
  readonly length: number;
  constructor(offset: number, length: number) {
    this.offset = offset;
    this.length = length;
  }
  axisMoved(): void {
    this.moves += 1;
  }
}

function axisWith(...traces: Trace[]): TimeAxis {
  const axis = new TimeAxis();
  for (const trace of traces) axis.join(trace);
  axis.showAll();
  return axis;
}

test('two traces are shown from the earliest begin to the latest end', () => {
  const [first, second] = [new Trace(0, 1000), new Trace(-400, 5000)];
  const axis = axisWith(first, second);
  assert.deepEqual(axis.extent, { begin: -400, end: 4600 });
  assert.ok(axis.view.begin <= -400 && axis.view.end >= 4600);
});

test('a zoom moves both traces by the same times', () => {
  const [first, second] = [new Trace(0, 100_000), new Trace(300, 100_000)];
  const axis = axisWith(first, second);
  const moves = [first.moves, second.moves];
  axis.zoom(0.1, 50_000);
  assert.deepEqual([first.moves, second.moves], moves.map((count) => count + 1));
  const [one, other] = [axis.viewOf(first), axis.viewOf(second)];
  assert.equal(one.begin - other.begin, 300);
  assert.equal(one.end - other.end, 300);
});

test('the view stays where a trace is when the other one leaves', () => {
  const [first, second] = [new Trace(0, 1000), new Trace(100_000, 1000)];
  const axis = axisWith(first, second);
  axis.setView({ begin: 100_200, end: 100_400 });
  axis.leave(second);
  assert.ok(axis.view.begin < 1100 && axis.view.end <= 1100, JSON.stringify(axis.view));
});

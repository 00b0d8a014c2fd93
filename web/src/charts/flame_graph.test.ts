import assert from 'node:assert/strict';
import { test } from 'node:test';
import { boxes, neighbour, partOf, search, unpack } from './flame_graph.ts';

// p (10) calls main (10), which calls a (6) and b (3); a calls b (2). q (5) calls nothing.
const graph = unpack({
  samples: 15,
  lost: 0,
  beyond: 0,
  unit: 'samples',
  left_out: 0,
  least: 1,
  names: ['p', 'main', 'a', 'b', 'q'],
  frames: [
    [0, 0, 0, 10, 0],
    [1, 1, 1, 10, 1],
    [2, 2, 1, 6, 4],
    [3, 3, 2, 2, 2],
    [2, 3, 1, 3, 3],
    [0, 4, 0, 5, 5],
  ],
});

test('a frame begins where the one before it in its row ends', () => {
  assert.equal(graph.total, 15);
  assert.deepEqual(
    graph.frames.map((frame) => [frame.name, frame.start, frame.caller]),
    [['p', 0, -1], ['main', 0, 0], ['a', 0, 1], ['b', 0, 2], ['b', 6, 1], ['q', 10, -1]],
  );
});

test('a zoomed frame fills the width, below the frames that called it', () => {
  const drawn = boxes(graph, graph.frames[2], 0);
  assert.deepEqual(
    drawn.map((box) => [box.frame.name, box.left, box.width]),
    [['p', 0, 1], ['main', 0, 1], ['a', 0, 1], ['b', 0, 2 / 6]],
  );
  // A frame in a row above the zoomed one that is no caller of it is not drawn.
  assert.deepEqual(boxes(graph, graph.frames[4], 0).map((box) => box.frame.index), [0, 1, 4]);
});

test('narrow frames are not drawn', () => {
  const drawn = boxes(graph, null, 0.2).map((box) => box.frame.index);
  assert.deepEqual(drawn, [0, 1, 2, 4, 5]);
});

test('samples that have a found frame twice count once', () => {
  const { found, samples } = search(graph, 'B');
  assert.deepEqual([[...found], samples], [[3, 4], 5]);
  assert.equal(search(graph, 'a').samples, 10);
});

test('arrow keys lead to the caller, the largest callee and the neighbours', () => {
  const drawn = boxes(graph, null, 0);
  const from = graph.frames[1];
  assert.equal(neighbour(drawn, from, 'ArrowUp')?.index, 0);
  assert.equal(neighbour(drawn, from, 'ArrowDown')?.index, 2);
  assert.equal(neighbour(drawn, graph.frames[2], 'ArrowRight')?.index, 4);
  assert.equal(neighbour(drawn, graph.frames[4], 'ArrowRight'), undefined);
});

test('the parts of a graph that run and that wait have its frames with their own times', () => {
  // p calls a, which runs for 4 and waits for a timer for 6, and b, which waits for a CPU for 2.
  const mixed = unpack({
    samples: 5,
    lost: 0,
    beyond: 0,
    unit: 'ns',
    left_out: 0,
    least: 1,
    names: ['p', 'a', 'b', 'waits for a timer', 'waits for a CPU'],
    frames: [
      [0, 0, 0, 12, 0],
      [1, 1, 1, 10, 4],
      [2, 3, 5, 6, 6],
      [1, 2, 1, 2, 0],
      [2, 4, 4, 2, 2],
    ],
  });
  const shown = (part: 'running' | 'waiting') => {
    const { frames, total } = partOf(mixed, part);
    assert.deepEqual(frames.map((frame) => frame.index), frames.map((_, i) => i));
    return [total, ...frames.map(({ name, count, own, start, caller }) => [name, count, own, start, caller])];
  };
  assert.deepEqual(shown('running'), [4, ['p', 4, 0, 0, -1], ['a', 4, 4, 0, 0]]);
  assert.deepEqual(shown('waiting'), [
    8,
    ['p', 8, 0, 0, -1],
    ['a', 6, 0, 0, 0],
    ['waits for a timer', 6, 6, 0, 1],
    ['b', 2, 0, 6, 0],
    ['waits for a CPU', 2, 2, 6, 3],
  ]);
});

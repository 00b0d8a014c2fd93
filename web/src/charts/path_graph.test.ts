import assert from 'node:assert/strict';
import { test } from 'node:test';
import { edgeShape, neighbour, type GraphNode, type PathGraph } from './path_graph.ts';

function node(x: number, y: number): GraphNode {
  return { state: `${x}`, kind: 'running', share: 0.1, lines: ['', ''], about: '', x, y, width: 40 };
}

const GRAPH: PathGraph = {
  title: '',
  width: 300,
  height: 146,
  box_height: 46,
  nodes: [node(100, 0), node(0, 100), node(90, 100), node(200, 100)],
  edges: [],
  foot: null,
};

test('arrow keys lead to the nearest node in their direction', () => {
  const keys = ['ArrowDown', 'ArrowUp', 'ArrowLeft', 'ArrowRight', 'Enter'];
  assert.deepEqual(keys.map((key) => neighbour(GRAPH, 0, key)), [2, undefined, undefined, undefined, undefined]);
  assert.deepEqual(keys.map((key) => neighbour(GRAPH, 2, key)), [undefined, 0, 1, 3, undefined]);
});

test('an edge ends with its head at the last bend, also upwards and at its own node', () => {
  const edge = { from: 0, to: 2, share: 0.25, about: '', bends: [[120, 46], [110, 100]] as [number, number][] };
  const down = edgeShape(GRAPH, edge);
  assert.match(down.line, /^M120 46C/);
  assert.match(down.head, /^M110 100L/);
  const up = edgeShape(GRAPH, { ...edge, bends: [[110, 100], [120, 46]] });
  const tip = Number(/ ([\d.]+)$/.exec(up.line)![1]);
  assert.ok(tip > 46 && tip < 60, up.line);
  const own = edgeShape(GRAPH, { ...edge, to: 0, bends: [] });
  assert.match(own.line, /^M140 /);
  assert.ok(edgeShape(GRAPH, { ...edge, share: 0.01 }).width < down.width);
});

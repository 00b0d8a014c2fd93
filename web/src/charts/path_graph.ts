// The folded graph of the critical path: its shapes as SVG paths, and the node that an arrow key
// leads to. The server places nodes and edges, as for the picture that `longpole graph` draws.

import type { StateClass } from '../api/types.ts';

export interface GraphNode {
  /** Class and state, as in the table of states; null if the node gathers rare states. */
  state: string | null;
  kind: GraphKind | null;
  share: number;
  /** Name, perhaps shortened, and figures. */
  lines: [name: string, figures: string];
  about: string;
  x: number;
  y: number;
  width: number;
}

export interface GraphEdge {
  from: number;
  to: number;
  share: number;
  about: string;
  /** Points that the edge passes vertically; none if it leads from a node to itself. */
  bends: [x: number, y: number][];
}

export interface PathGraph {
  title: string;
  width: number;
  height: number;
  box_height: number;
  nodes: GraphNode[];
  edges: GraphEdge[];
  foot: string | null;
}

export type GraphKind =
  | 'running'
  | 'runnable'
  | 'blocked'
  | 'system_call'
  | 'interrupt'
  | 'link'
  | 'unknown';

/** The class that gives a node its colour; null for links, and for nodes that gather states. */
export function classOf({ kind }: GraphNode): StateClass | null {
  if (kind === null || kind === 'link') return null;
  return kind === 'system_call' ? 'call' : kind;
}

/** Width of the arrow from a node to itself. */
const LOOP_WIDTH = 22;

export interface EdgeShape {
  line: string;
  head: string;
  width: number;
  opacity: number;
}

/** An edge is as wide as its share of the path. */
export function edgeShape(graph: PathGraph, edge: GraphEdge): EdgeShape {
  const width = 1 + 7 * Math.sqrt(edge.share);
  const opacity = 0.35 + 0.6 * Math.min(Math.sqrt(edge.share), 1);
  if (edge.bends.length < 2) return { ...loop(graph, graph.nodes[edge.from], width), opacity };
  const [[x, y], ...rest] = edge.bends;
  const [endX, endY] = rest[rest.length - 1];
  const length = 5 + width * 0.8;
  const tip = endY > y ? endY - length : endY + length;
  let line = `M${x} ${y}`;
  let from = { x, y };
  rest.forEach(([toX, bendY], i) => {
    const toY = i === rest.length - 1 ? tip : bendY;
    const middle = (from.y + toY) / 2;
    line += `C${from.x} ${middle} ${toX} ${middle} ${toX} ${toY}`;
    from = { x: toX, y: toY };
  });
  const half = length * 0.55;
  const head = `M${endX} ${endY}L${endX - half} ${tip}L${endX + half} ${tip}Z`;
  return { line, head, width, opacity };
}

function loop(graph: PathGraph, node: GraphNode, width: number): Omit<EdgeShape, 'opacity'> {
  const x = node.x + node.width;
  const top = node.y + graph.box_height * 0.3;
  const bottom = node.y + graph.box_height * 0.7;
  const far = x + LOOP_WIDTH;
  return {
    line: `M${x} ${top}C${far} ${top - 8} ${far} ${bottom + 8} ${x + 6} ${bottom}`,
    head: `M${x} ${bottom}L${x + 8} ${bottom - 4}L${x + 8} ${bottom + 5}Z`,
    width: Math.min(width, 5),
  };
}

/** The index of the node that an arrow key leads to: the nearest one in its layer or, up and down,
 * in the next layer. Undefined if there is none. */
export function neighbour(graph: PathGraph, from: number, key: string): number | undefined {
  const middle = (node: GraphNode) => node.x + node.width / 2;
  const here = graph.nodes[from];
  const sideways = key === 'ArrowLeft' || key === 'ArrowRight';
  const sign = key === 'ArrowLeft' || key === 'ArrowUp' ? -1 : 1;
  if (!sideways && key !== 'ArrowUp' && key !== 'ArrowDown') return undefined;
  const ahead = (node: GraphNode) =>
    sideways ? node.y === here.y && sign * (node.x - here.x) > 0 : sign * (node.y - here.y) > 0;
  const distance = (node: GraphNode) =>
    sideways
      ? Math.abs(node.x - here.x)
      : Math.abs(node.y - here.y) * 100 + Math.abs(middle(node) - middle(here));
  return graph.nodes
    .map((node, i) => ({ node, i }))
    .filter(({ node }) => ahead(node))
    .sort((a, b) => distance(a.node) - distance(b.node))[0]?.i;
}

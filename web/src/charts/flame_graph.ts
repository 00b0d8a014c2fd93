// The frames of a flame graph, and where they are drawn: each frame is as wide as its number of
// samples, below the frame that called it. A zoomed frame is as wide as the picture; the frames
// that called it remain above it.

import type { PackedFlameGraph } from '../api/measured.ts';

export type Code =
  | 'process'
  | 'program'
  | 'kernel'
  | 'made'
  | 'cpu'
  | 'timer'
  | 'disk'
  | 'network'
  | 'waiting'
  | 'no_stack'
  | 'truncated';

/** What a frame belongs to, as the server numbers it. From `cpu` on, a frame is no function but what
 * the stack waits for, a state without stacks, or the missing outermost part of a stack. */
export const CODES: readonly Code[] = [
  'process',
  'program',
  'kernel',
  'made',
  'cpu',
  'timer',
  'disk',
  'network',
  'waiting',
  'no_stack',
  'truncated',
];

export interface Frame {
  /** Place in the list of frames: a frame is followed by those that it called. */
  index: number;
  /** Index of the frame that called it; -1 for a process. */
  caller: number;
  depth: number;
  name: string;
  code: Code;
  count: number;
  own: number;
  /** Samples in frames to the left. */
  start: number;
}

export interface FlameGraph {
  frames: Frame[];
  /** Samples in all frames. */
  total: number;
}

/** A frame in the picture; `left` and `width` are shares of the picture's width. */
export interface Box {
  frame: Frame;
  left: number;
  width: number;
}

export function unpack(packed: PackedFlameGraph): FlameGraph {
  const frames: Frame[] = [];
  /** For each depth, the last frame, and where the next one begins. */
  const last: number[] = [];
  const next: number[] = [0];
  for (const [depth, name, code, count, own] of packed.frames) {
    const index = frames.length;
    const start = next[depth];
    next[depth] = start + count;
    next[depth + 1] = start;
    last[depth] = index;
    frames.push({
      index,
      caller: depth > 0 ? last[depth - 1] : -1,
      depth,
      name: packed.names[name],
      code: CODES[code],
      count,
      own,
      start,
    });
  }
  return { frames, total: next[0] };
}

/** The part of a graph that runs, or that waits. What a frame has on top of it runs, unless the
 * frame itself is what the stack waits for. */
export function partOf(graph: FlameGraph, part: 'running' | 'waiting'): FlameGraph {
  const firstWait = CODES.indexOf('cpu');
  const waits = (frame: Frame) => CODES.indexOf(frame.code) >= firstWait;
  const counts = graph.frames.map((frame) =>
    waits(frame) === (part === 'waiting') ? frame.own : 0,
  );
  // A frame is followed by those that it called.
  const sums = [...counts];
  for (let i = sums.length - 1; i >= 0; i--) {
    const { caller } = graph.frames[i];
    if (caller >= 0) sums[caller] += sums[i];
  }
  const places = new Map<number, number>();
  const next: number[] = [0];
  const frames: Frame[] = [];
  graph.frames.forEach((frame, i) => {
    if (sums[i] === 0) return;
    const index = frames.length;
    const { depth } = frame;
    const start = next[depth];
    next[depth] = start + sums[i];
    next[depth + 1] = start;
    places.set(i, index);
    const caller = places.get(frame.caller) ?? -1;
    frames.push({ ...frame, index, caller, count: sums[i], own: counts[i], start });
  });
  return { frames, total: next[0] };
}

/** The frames that are at least `narrowest` (a share of the width) wide. `zoomed` is the frame that
 * fills the width; null for all frames. */
export function boxes(graph: FlameGraph, zoomed: Frame | null, narrowest: number): Box[] {
  const begin = zoomed?.start ?? 0;
  const size = zoomed?.count ?? graph.total;
  const found: Box[] = [];
  for (const frame of graph.frames) {
    const inside = frame.start >= begin && frame.start + frame.count <= begin + size;
    const calls = frame.start <= begin && frame.start + frame.count >= begin + size;
    const above = zoomed !== null && frame.depth < zoomed.depth;
    if (above ? !calls : !inside) continue;
    const width = above ? 1 : frame.count / size;
    if (width < narrowest) continue;
    found.push({ frame, left: above ? 0 : (frame.start - begin) / size, width });
  }
  return found;
}

/** Frames whose name contains a text, and the number of samples with at least one of them. */
export function search(graph: FlameGraph, text: string): { found: Set<number>; samples: number } {
  const wanted = text.toLowerCase();
  const found = new Set<number>();
  let samples = 0;
  let countedUpTo = 0;
  for (const frame of graph.frames) {
    if (!frame.name.toLowerCase().includes(wanted)) continue;
    found.add(frame.index);
    // A frame within one that was found before has no further samples.
    if (frame.start >= countedUpTo) {
      samples += frame.count;
      countedUpTo = frame.start + frame.count;
    }
  }
  return { found, samples };
}

/** The frame that an arrow key leads to, among those that are drawn; undefined if there is none. */
export function neighbour(drawn: Box[], from: Frame, key: string): Frame | undefined {
  const frames = drawn.map((box) => box.frame);
  const row = frames.filter((frame) => frame.depth === from.depth);
  const at = row.findIndex((frame) => frame.index === from.index);
  switch (key) {
    case 'ArrowUp':
      return frames.find((frame) => frame.index === from.caller);
    case 'ArrowDown':
      return frames
        .filter((frame) => frame.caller === from.index)
        .sort((a, b) => b.count - a.count)[0];
    case 'ArrowLeft':
      return row[at - 1];
    case 'ArrowRight':
      return row[at + 1];
  }
  return undefined;
}

// Requests for what the server measured in addition to the states: docs/internals/viewer-interface.md.

import { request } from './server_client.ts';
import type { Trace } from './types.ts';

/** A frame as it is sent: number of frames below it, index of its name, index of what it belongs to
 * (the place in CODES of charts/flame_graph.ts), samples or ns, the same on top. */
export type PackedFrame = [depth: number, name: number, code: number, count: number, own: number];

export interface PackedFlameGraph {
  samples: number;
  lost: number;
  /** Samples with stacks beyond what the server tells apart. */
  beyond: number;
  /** What frames count. */
  unit: 'samples' | 'ns';
  /** Frames that were left out, each with less than `least` samples or ns. */
  left_out: number;
  least: number;
  names: string[];
  frames: PackedFrame[];
}

export interface Stacks {
  all: PackedFlameGraph | null;
  path: PackedFlameGraph | null;
}

/** Asks for a measurement of a trace. Null as long as the server computes it. */
async function measurement<T>(trace: Trace, what: string, signal: AbortSignal): Promise<T | null> {
  const response = await request(`api/traces/${trace.id}/${what}`, { signal });
  return response.status === 202 ? null : response.json();
}

export function readStacks(trace: Trace, signal: AbortSignal): Promise<Stacks | null> {
  return measurement(trace, 'stacks', signal);
}

/** The stacks of some rows in a range, as `all`; they are read from the trace. */
export function readStacksOf(
  trace: Trace,
  range: { begin: number; end: number; rows: number[] },
  signal: AbortSignal,
): Promise<Stacks | null> {
  const [begin, end] = [Math.max(0, Math.floor(range.begin)), Math.ceil(range.end)];
  return measurement(trace, `stacks?begin=${begin}&end=${end}&rows=${range.rows.join(',')}`, signal);
}

export type LatencyKind = 'rpc' | 'span' | 'signal' | 'activity' | 'object' | 'custom';

/** A row of what `longpole latency --json` prints. */
export interface Latency {
  kind: LatencyKind;
  name: string;
  machine: string | null;
  peer: string | null;
  count: number;
  min_ns: number | null;
  mean_ns: number | null;
  p50_ns: number | null;
  p90_ns: number | null;
  p99_ns: number | null;
  max_ns: number | null;
  total_ns: number;
}

export interface LatencyRow {
  latency: Latency;
  /** The timeline's row on which its cases are. */
  row: number | null;
}

export interface LatencyCases {
  /** Begin and duration in ns, in the order of time. */
  cases: [begin: number, ns: number][];
  /** Number of cases that are not among them. */
  left_out: number;
  /** Duration in ns and number of the cases in each bucket of the histogram. */
  buckets: [ns: number, count: number][];
}

export async function readLatencies(
  trace: Trace,
  signal: AbortSignal,
): Promise<LatencyRow[] | null> {
  const answer = await measurement<{ latencies: LatencyRow[] }>(trace, 'latency', signal);
  return answer && answer.latencies;
}

export function readLatency(
  trace: Trace,
  at: number,
  signal: AbortSignal,
): Promise<LatencyCases | null> {
  return measurement(trace, `latency/${at}`, signal);
}

/** A row of what `longpole queues --json` prints. */
export interface Queue {
  name: string;
  capacity: number | null;
  unit: 'items' | 'bytes';
  full_share: number | null;
  empty_share: number | null;
  uncertain_share: number | null;
  depth: { mean: number | null; p50: number | null; p99: number | null; max: number | null };
  residence_ns: { p50_ns: number | null; p99_ns: number | null };
  producers: string[];
  consumers: string[];
}

export interface QueueRow {
  queue: Queue;
  /** The timeline's row with its depth. */
  row: number | null;
}

/** A queue's depth over time: bin i begins at `begin` + i · `width` ns. */
export interface Depths {
  begin: number;
  width: number;
  depths: [least: number, greatest: number][];
}

export async function readQueues(trace: Trace, signal: AbortSignal): Promise<QueueRow[] | null> {
  type Answer = { queues: Queue[]; rows: (number | null)[] };
  const answer = await measurement<Answer>(trace, 'queues', signal);
  return answer && answer.queues.map((queue, i) => ({ queue, row: answer.rows[i] ?? null }));
}

export function readDepths(trace: Trace, at: number, signal: AbortSignal): Promise<Depths | null> {
  return measurement(trace, `queues/${at}`, signal);
}

interface Machine {
  host: string;
  machine: string;
}

/** An edge of what `longpole graph --waits --json` prints: `from` waits for `to`. */
export interface WaitEdge {
  from: Machine;
  to: Machine;
  direct_ns: number;
  redistributed_ns: number;
}

export interface Waits {
  waits: { length_ns: number; edges: WaitEdge[]; untold_edges_ns: number } | null;
  /** The timeline's rows of the two machines of each edge. */
  rows: [from: number | null, to: number | null][];
}

export function readWaits(trace: Trace, signal: AbortSignal): Promise<Waits | null> {
  return measurement(trace, 'waits', signal);
}

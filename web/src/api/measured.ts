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

/** A part of the stacks of a trace. */
export interface StacksPart {
  /** Null for the whole trace. */
  range: { begin: number; end: number } | null;
  rows: readonly number[];
  /** A state in which the rows are; null for all states. */
  state: number | null;
}

/** The stacks of running code and of waits of some rows, as `all`; they are read from the trace. */
export function readStacksOf(
  trace: Trace,
  { range, rows, state }: StacksPart,
  signal: AbortSignal,
): Promise<Stacks | null> {
  const query = new URLSearchParams({ rows: rows.join(',') });
  if (range) {
    query.set('begin', String(Math.max(0, Math.floor(range.begin))));
    query.set('end', String(Math.ceil(range.end)));
  }
  if (state !== null) query.set('state', String(state));
  return measurement(trace, `stacks?${query}`, signal);
}

/** A place in a function. */
export interface StackFrame {
  function: string;
  /** File with the code, without folders. */
  module: string;
  /** Source file and line; null without debug information. */
  file: string | null;
  line: number | null;
  code: 'program' | 'kernel' | 'made';
}

export interface ThreadStack {
  tid: number;
  process: string;
  /** The innermost function first. */
  frames: StackFrame[];
  /** Index of the innermost frame of the program's own code, else of any program. */
  own: number | null;
  /** The outermost functions are missing. */
  truncated: boolean;
}

/** A wait whose stack was sampled. */
export interface SampledWait {
  begin: number;
  end: number;
  /** What the thread waited for until it was woken. */
  kind: 'running' | 'cpu' | 'timer' | 'disk' | 'network' | 'waiting';
  waiter: ThreadStack;
  /** Null if no thread woke it, or if the wake-up was not sampled. */
  waker: ThreadStack | null;
  woken: number | null;
  waker_row: number | null;
}

/** The sampled wait that has most of a part of a row; null if there is none. */
export async function readSampledWait(
  trace: Trace,
  { row, begin, end }: { row: number; begin: number; end: number },
  signal: AbortSignal,
): Promise<SampledWait | null> {
  const query = `row=${row}&begin=${Math.max(0, Math.floor(begin))}&end=${Math.ceil(end)}`;
  type Answer = { wait: SampledWait | null };
  return (await measurement<Answer>(trace, `sampled-wait?${query}`, signal))?.wait ?? null;
}

/** The place of a frame as a text: source file without folders and line, or the module. */
export function placeOf({ file, line, module }: StackFrame): string {
  if (file === null) return module;
  const name = file.slice(file.lastIndexOf('/') + 1);
  return line === null ? name : `${name}:${line}`;
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

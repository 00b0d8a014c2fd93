// What the page asks about traces: answered by the server of `longpole view`, or in a file of
// `longpole report --html` by the data in the file.

import type { PathGraph } from '../charts/path_graph.ts';
import type { Report } from './report.ts';
import type {
  Diff,
  ExactState,
  Note,
  Packet,
  PathSegment,
  Prediction,
  Rows,
  SearchResult,
  Sums,
  Trace,
  WaitMark,
} from './types.ts';

/** Most rows that one request may be about. */
export const ROW_LIMIT = 512;

/** An error whose text says what to do next. */
export class RequestError extends Error {
  /** Of the server's answer; 0 if there is none. */
  readonly status: number;
  constructor(status: number, text: string) {
    super(text);
    this.status = status;
  }
}

/** The part of a trace that a file has with all states. */
export interface Part {
  begin: number;
  end: number;
  /** Elsewhere, the file has bins of 2^level ns of the rows with many states. */
  level: number;
}

export interface Source {
  traces(): Promise<Trace[]>;
  open(trace: Trace): TraceClient;
  /** What changed from one trace to another; null as long as one of them is read. */
  diff(base: number, changed: number, signal: AbortSignal): Promise<Diff | null>;
}

/** Requests about one trace. */
export interface TraceClient {
  /** Null if all states are there. */
  readonly part: Part | null;
  /** Number of rows that are missing. */
  readonly rowsLeftOut: number;
  trace(): Promise<Trace>;
  rows(): Promise<Rows>;
  tiles(
    level: number,
    first: number,
    count: number,
    rows: readonly number[],
    signal: AbortSignal,
  ): Promise<ArrayBuffer>;
  states(row: number, begin: number, end: number, limit: number): Promise<{
    states: ExactState[];
    more: boolean;
  }>;
  path(begin: number, end: number, limit: number, signal?: AbortSignal): Promise<{
    segments: PathSegment[];
    more: boolean;
  }>;
  /** Where the stacks of waits are, by row and time. */
  sampledWaits(begin: number, end: number, signal: AbortSignal): Promise<WaitMark[]>;
  sums(
    begin: number,
    end: number,
    rows: readonly number[],
    signal?: AbortSignal,
  ): Promise<Sums>;
  search(
    text: string,
    begin: number,
    end: number,
    limit: number,
    signal?: AbortSignal,
  ): Promise<SearchResult>;
  /** The packet at a time of a row of packets. */
  packet(row: number, time: number, signal: AbortSignal): Promise<Packet>;
  /** The report, or null as long as it is computed. */
  report(): Promise<Report | null>;
  /** The folded graph of the path (null without a path), or null as long as it is computed. */
  graph(signal: AbortSignal): Promise<{ graph: PathGraph | null } | null>;
  whatIf(changes: string[], signal: AbortSignal): Promise<Prediction[]>;
  notes(): Promise<Note[]>;
  saveNotes(notes: Note[]): Promise<void>;
}

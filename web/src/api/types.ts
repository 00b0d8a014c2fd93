// The shapes of the server's answers, as docs/internals/viewer-interface.md describes them. All
// times are ns since the begin of the trace, and exact up to 2^53.

export type Phase = 'reading' | 'analysing' | 'ready' | 'failed';

export interface Trace {
  id: number;
  name: string;
  path: string;
  /** Time of the trace's begin on the clock, in ns; a text because it exceeds 2^53. */
  origin_ns: string;
  end: number;
  phase: Phase;
  progress: number | null;
  events: number;
  lost: number;
  version: number;
  error: string | null;
}

export type RowKind =
  | 'host'
  | 'process'
  | 'thread'
  | 'cpus'
  | 'cpu'
  | 'interrupts'
  | 'interrupt'
  | 'recorder'
  | 'machines'
  | 'machine'
  | 'path';

export interface Row {
  id: number;
  parent: number | null;
  kind: RowKind;
  name: string;
  detail: string;
  states: number;
  busy_ns: number;
  path_ns: number;
}

export type StateClass =
  | 'asleep'
  | 'running'
  | 'call'
  | 'interrupt'
  | 'runnable'
  | 'blocked'
  | 'unknown'
  | 'lost';

export interface State {
  name: string;
  class: StateClass;
}

export interface Rows {
  version: number;
  rows: Row[];
  states: State[];
}

export interface ExactState {
  begin: number;
  end: number;
  state: number;
}

export interface PathSegment {
  begin: number;
  end: number;
  /** Null for a link: time between two machines. */
  row: number | null;
  /** A state of the row of the critical path, such as nginx::write or link::wakeup. */
  state: number;
  /** Number of short segments that this one replaces; row and state are those of the longest. */
  joined: number;
}

export interface StateSum {
  row: number;
  state: number;
  count: number;
  total_ns: number;
  mean_ns: number;
  p50_ns: number;
  p99_ns: number;
  max_ns: number;
}

export interface SearchMatch {
  row: number;
  begin: number;
  end: number;
  state: number;
}

export interface SearchResult {
  count: number;
  total_ns: number;
  matches: SearchMatch[];
  more: boolean;
}

export interface Note {
  t: number;
  row: number | null;
  text: string;
}

export interface Prediction {
  change: string;
  baseline_ns: number;
  baseline_error: number;
  predicted_ns: number | null;
  gain: number | null;
  gain_low: number | null;
  gain_high: number | null;
  next: { machine: string; state: string; kind: string | null } | null;
  refused: string | null;
  step: number | null;
}

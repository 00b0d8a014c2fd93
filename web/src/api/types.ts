// The shapes of the server's answers, as docs/internals/viewer-interface.md describes them. All
// times are ns since the begin of the trace, and exact up to 2^53.

export type Phase = 'live' | 'reading' | 'analysing' | 'ready' | 'failed';

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
  /** Ids of rows and states are valid in one generation. */
  generation: number;
  /** Null unless the phase is `live`. */
  live: Live | null;
  /** What people should know of the recording, or of what is missing in the picture. */
  note: string | null;
  error: string | null;
}

export interface Live {
  /** Time by which the picture is older than the recording. */
  behind_ns: number;
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
  | 'queues'
  | 'queue'
  | 'counters'
  | 'counter'
  | 'packets'
  | 'flow'
  | 'captured'
  | 'path';

/** What is known about the values of a row. */
export interface ValueFacts {
  min: number;
  max: number;
  unit: string | null;
  /** Largest value that is possible. */
  capacity: number | null;
}

export interface Row {
  id: number;
  parent: number | null;
  kind: RowKind;
  name: string;
  detail: string;
  /** Id of a thread, number of a CPU. */
  tid: number | null;
  cpu: number | null;
  /** CPUs that a thread used, and may use, such as `0-3,8`. */
  used_cpus: string | null;
  allowed_cpus: string | null;
  states: number;
  busy_ns: number;
  path_ns: number;
  /** Of a row that has values instead of states. */
  values?: ValueFacts;
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
  generation: number;
  rows: Row[];
  states: State[];
}

/** A state, or in a row with values a value. */
export interface ExactState {
  begin: number;
  end: number;
  state: number;
  value?: number;
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

/** A part of a row with a sampled wait, or with several that are close to each other. */
export type WaitMark = [row: number, begin: number, end: number];

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

/** The values of a row in a range; the mean is weighted by time. */
export interface RangeValues {
  row: number;
  min: number;
  max: number;
  mean: number;
  known_ns: number;
  changes: number;
}

export interface Sums {
  sums: StateSum[];
  values: RangeValues[];
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

/** A header of a packet; `begin` and `end` are places of its bytes. */
export interface PacketLayer {
  name: string;
  begin: number;
  end: number;
  fields: { name: string; value: string; begin: number; end: number }[];
}

/** A captured packet. */
export interface PacketFrame {
  t: number;
  capture: string;
  device: string;
  /** Null if the capture does not state it. */
  outbound: boolean | null;
  length: number;
  /** Another packet may be the one. */
  ambiguous: boolean;
  /** In hexadecimal digits. */
  bytes: string;
  summary: string;
  layers: PacketLayer[];
}

interface PacketUser {
  pid: number | null;
  tid: number;
  name: string;
}

/** A packet on its way through the kernel. */
export interface PacketPath {
  /** As for `longpole packets --journey`. */
  number: number;
  begin: number;
  end: number;
  ended: string;
  complete: boolean;
  length: number;
  sender: PacketUser | null;
  send_call: string | null;
  reader: PacketUser | null;
}

/** A place at which a packet was. */
export interface PacketPlace {
  t: number;
  row: number | null;
  text: string;
}

export interface Packet {
  path: PacketPath | null;
  chain: PacketPlace[];
  frames: PacketFrame[];
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

/** A change from one trace (a) to another one (b), with its 95 % interval. */
export interface Change {
  change: number | null;
  low: number | null;
  high: number | null;
  certain: boolean;
}

export interface StateChange extends Change {
  machine: string;
  state: string;
  share_a: number;
  share_b: number;
}

export interface LatencyChange extends Change {
  kind: string;
  name: string;
  machine: string | null;
  count_a: number;
  count_b: number;
  mean_a_ns: number | null;
  mean_b_ns: number | null;
  p99_a_ns: number | null;
  p99_b_ns: number | null;
}

export interface QueueChange extends Change {
  name: string;
  items_per_s_a: number | null;
  items_per_s_b: number | null;
}

export interface FindingChange {
  kind: string;
  subject: string;
  share_a: number | null;
  share_b: number | null;
}

/** What `longpole diff --json` prints. */
export interface Diff {
  verdict: { kind: 'changed' | 'nothing' | 'unsure'; text: string };
  states: StateChange[];
  latency: LatencyChange[];
  queues: QueueChange[];
  findings: FindingChange[];
  known_a: { unknown_share: number | null };
  known_b: { unknown_share: number | null };
}

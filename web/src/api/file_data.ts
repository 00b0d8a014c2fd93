// The data in a file of `longpole report --html`, as `crates/serve/src/html.rs` writes them: four
// elements with base64 of gzip.
//
//   longpole-trace    JSON: trace, rows, states, notes, and what is in the file
//   longpole-report   JSON: the report
//   longpole-bins     for each row with states: 1 and all of its states; or 0 and its bins of the
//                     whole trace on each level
//   longpole-states   for each row with bins: its states in the slice
//
// The last two are columns of numbers (`crates/serve/src/html/columns.rs`).

import type { PathGraph } from '../charts/path_graph.ts';
import type { Note, Row, State, Trace } from './types.ts';

export interface FileHead {
  trace: Trace;
  rows: Row[];
  states: State[];
  path: number | null;
  /** For each state the row that has it on the critical path, or null. */
  path_rows: (number | null)[];
  left_out: number;
  slice: { begin: number; end: number } | null;
  level: number;
  levels: number;
  notes: Note[];
  graph: PathGraph | null;
}

/** States or bins of a row, in the order of time. Times are ns. */
export interface Items {
  begin: Float64Array;
  end: Float64Array;
  state: Uint16Array;
  /** Share of the time on the critical path, 255 is all of it. */
  path: Uint8Array;
}

export interface Bins extends Items {
  worst: Uint16Array;
  count: Uint16Array;
  busy: Uint8Array;
}

export interface FileRow {
  /** All states, or those that overlap the slice. */
  states: Items;
  /** Bins of the whole trace, the finest level first; none if all states are there. */
  levels: Bins[];
}

export interface FileData {
  head: FileHead;
  /** Text of the report. */
  report: string;
  rows: Map<number, FileRow>;
}

export async function readFileData(element: (name: string) => string): Promise<FileData> {
  const names = ['trace', 'report', 'bins', 'states'];
  const [head, report, bins, states] = await Promise.all(
    names.map((name) => unpacked(element(`longpole-${name}`))),
  );
  const text = new TextDecoder();
  const parsed: FileHead = JSON.parse(text.decode(head));
  return {
    head: parsed,
    report: text.decode(report),
    rows: readRows(parsed, new Numbers(bins), new Numbers(states)),
  };
}

async function unpacked(base64: string): Promise<Uint8Array<ArrayBuffer>> {
  if (base64 === '') return new Uint8Array();
  const bytes = Uint8Array.from(atob(base64), (digit) => digit.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export function readRows(
  head: Pick<FileHead, 'rows' | 'level' | 'levels'>,
  bins: Numbers,
  states: Numbers,
): Map<number, FileRow> {
  const rows = new Map<number, FileRow>();
  for (const { id, states: count } of head.rows) {
    if (count === 0) continue;
    if (bins.next() === 1) {
      rows.set(id, { states: readItems(bins, 0), levels: [] });
      continue;
    }
    const levels: Bins[] = [];
    for (let i = 0; i < head.levels; i++) levels.push(readBins(bins, head.level + i));
    rows.set(id, { states: readItems(states, 0), levels });
  }
  return rows;
}

/** Numbers of seven bits per byte, lowest first; all bytes but the last have the top bit. */
export class Numbers {
  private readonly bytes: Uint8Array;
  private at = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  next(): number {
    let number = 0;
    // Not by shifts, which have 32 bits.
    for (let factor = 1; ; factor *= 128) {
      const byte = this.bytes[this.at++] ?? 0;
      number += (byte & 0x7f) * factor;
      if (byte < 0x80) return number;
    }
  }
}

function readItems(numbers: Numbers, level: number): Items {
  const count = numbers.next();
  const width = 2 ** level;
  const begin = new Float64Array(count);
  const end = new Float64Array(count);
  for (let i = 0; i < count; i++) begin[i] = numbers.next() * width;
  let now = 0;
  for (let i = 0; i < count; i++) {
    begin[i] += now;
    now = end[i] = begin[i] + numbers.next() * width;
  }
  const state = new Uint16Array(count);
  for (let i = 0; i < count; i++) state[i] = numbers.next();
  const path = new Uint8Array(count);
  for (let i = 0; i < count; i++) path[i] = numbers.next();
  return { begin, end, state, path };
}

function readBins(numbers: Numbers, level: number): Bins {
  const items = readItems(numbers, level);
  const { length } = items.begin;
  const worst = items.state.slice();
  for (let i = 0; i < length; i++) {
    const other = numbers.next();
    if (other > 0) worst[i] = other - 1;
  }
  const count = new Uint16Array(length);
  for (let i = 0; i < length; i++) count[i] = numbers.next();
  const busy = new Uint8Array(length);
  for (let i = 0; i < length; i++) busy[i] = numbers.next();
  return { ...items, worst, count, busy };
}

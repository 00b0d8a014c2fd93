// The data in a file of `longpole report --html`, as `crates/serve/src/html.rs` writes them: four
// elements with base64 of gzip.
//
//   longpole-trace    JSON: trace, rows, states, notes, and what is in the file
//   longpole-report   JSON: the report
//   longpole-bins     for each row with states: 1 and all of its states; or 0 and its bins of the
//                     whole trace on each level
//   longpole-states   for each row with bins: its states in the slice
//
// Rows with values have values instead of states.
//
// The last two are columns of numbers (`crates/serve/src/html/columns.rs`).

import type { PathGraph } from '../charts/path_graph.ts';
import { placeOf } from '../timeline/values.ts';
import type { Note, Row, State, Trace, ValueFacts } from './types.ts';

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
  /** In a row with values; `state` is then the place of the value on the row's scale. */
  value?: Float64Array;
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
  for (const { id, states: count, values } of head.rows) {
    if (count === 0) continue;
    const readAll = (numbers: Numbers) => (values ? readSteps(numbers, values) : readItems(numbers, 0));
    if (bins.next() === 1) {
      rows.set(id, { states: readAll(bins), levels: [] });
      continue;
    }
    const levels: Bins[] = [];
    const read = values ? readValueBins : readBins;
    for (let i = 0; i < head.levels; i++) levels.push(read(bins, head.level + i));
    rows.set(id, { states: readAll(states), levels });
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

function readIntervals(numbers: Numbers, level: number): { begin: Float64Array; end: Float64Array } {
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
  return { begin, end };
}

function readItems(numbers: Numbers, level: number): Items {
  const { begin, end } = readIntervals(numbers, level);
  const count = begin.length;
  const state = readColumn(numbers, new Uint16Array(count));
  const path = readColumn(numbers, new Uint8Array(count));
  return { begin, end, state, path };
}

function readColumn<T extends Uint8Array | Uint16Array | Uint32Array>(numbers: Numbers, to: T): T {
  for (let i = 0; i < to.length; i++) to[i] = numbers.next();
  return to;
}

function readSteps(numbers: Numbers, facts: ValueFacts): Items {
  const { begin, end } = readIntervals(numbers, 0);
  const count = begin.length;
  const upper = readColumn(numbers, new Uint32Array(count));
  const lower = readColumn(numbers, new Uint32Array(count));
  const value = new Float64Array(count);
  const state = new Uint16Array(count);
  const bits = new DataView(new ArrayBuffer(8));
  for (let i = 0; i < count; i++) {
    // The bytes of the upper half were swapped, so its first byte is the lowest one.
    bits.setUint32(0, upper[i], true);
    bits.setUint32(4, lower[i]);
    value[i] = bits.getFloat64(0);
    state[i] = placeOf(facts, value[i]);
  }
  return { begin, end, state, path: new Uint8Array(count), value };
}

function readValueBins(numbers: Numbers, level: number): Bins {
  const { begin, end } = readIntervals(numbers, level);
  const length = begin.length;
  const state = readColumn(numbers, new Uint16Array(length));
  const worst = readColumn(numbers, new Uint16Array(length));
  const count = readColumn(numbers, new Uint16Array(length));
  const busy = readColumn(numbers, new Uint8Array(length));
  return { begin, end, state, worst, count, busy, path: new Uint8Array(length) };
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

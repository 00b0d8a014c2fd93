// Answers what the page asks from the data in the file itself, as the server of `longpole view`
// would. The file has all states only in a part of the trace; what needs them elsewhere is refused
// with a text that names that part, or is about the part alone.

import { formatTime } from '../timeline/time_format.ts';
import { RequestError, type Part, type Source, type TraceClient } from './client.ts';
import { readFileData, type FileData, type FileRow, type Items } from './file_data.ts';
import { ItemMaker, overlapping, type Grid, type GridItem, type GridItems } from './file_items.ts';
import { parseReport, type Report } from './report.ts';
import type {
  ExactState,
  Note,
  Packet,
  PathSegment,
  Prediction,
  RangeValues,
  Rows,
  SearchMatch,
  SearchResult,
  StateSum,
  Sums,
  Trace,
} from './types.ts';

const HEADER_BYTES = 16;
const ROW_BYTES = 16;
const ITEM_BYTES = 16;
/** "LPT1" as a little-endian number. */
const MAGIC = 0x3154504c;

export class FileSource implements Source {
  private data: FileData | null = null;

  /** The file has one trace. */
  async traces(): Promise<Trace[]> {
    this.data = await readFileData((name) => document.getElementById(name)?.textContent ?? '');
    return [this.data.head.trace];
  }

  open(): TraceClient {
    return new FileClient(this.data!);
  }

  diff(): Promise<null> {
    return Promise.resolve(null);
  }
}

export class FileClient implements TraceClient {
  readonly part: Part | null;
  readonly rowsLeftOut: number;
  private readonly data: FileData;
  private readonly maker: ItemMaker;

  constructor(data: FileData) {
    this.data = data;
    const { slice, level, left_out, states } = data.head;
    this.part = slice && { ...slice, level };
    this.rowsLeftOut = left_out;
    this.maker = new ItemMaker(states.map((state) => state.class), slice, level);
  }

  async trace(): Promise<Trace> {
    return this.data.head.trace;
  }

  async rows(): Promise<Rows> {
    const { rows, states, trace } = this.data.head;
    return { version: trace.version, generation: 0, rows, states };
  }

  async tiles(
    level: number,
    first: number,
    count: number,
    rows: readonly number[],
  ): Promise<ArrayBuffer> {
    const grid = { level, first, count };
    const answers = rows.map((id) => {
      const row = this.data.rows.get(id);
      return row ? this.maker.items(row, grid) : { exact: true, items: [] };
    });
    return tileOf(rows, answers, grid);
  }

  async states(row: number, begin: number, end: number, limit: number) {
    const states = this.data.rows.get(row);
    if (!states) return { states: [], more: false };
    const [from, to] = overlapping(states.states, begin, end);
    if (from === to) this.refuseOutside(states, begin, end);
    const last = Math.min(to, from + limit);
    const found: ExactState[] = [];
    for (let i = from; i < last; i++) found.push(stateAt(states.states, i));
    return { states: found, more: last < to };
  }

  async path(begin: number, end: number, limit: number) {
    const { path, path_rows: rowOf } = this.data.head;
    const row = path === null ? undefined : this.data.rows.get(path);
    if (!row) return { segments: [], more: false };
    // A question about one moment is about a single segment.
    if (end - begin <= 1) this.refuseOutside(row, begin, end);
    const least = Math.max((end - begin) / Math.max(limit, 1), 1);
    const level = Math.ceil(Math.log2(least));
    const first = Math.floor(begin / 2 ** level);
    const count = Math.floor(end / 2 ** level) - first + 1;
    const { exact, items } = this.maker.items(row, { level, first, count });
    const segments: PathSegment[] = items.map((item) => ({
      begin: item.begin,
      end: item.end,
      row: rowOf[item.state],
      state: item.state,
      joined: Math.max(item.count, 1),
    }));
    return { segments, more: !exact };
  }

  /** The sums of the states in the part of the range that is in the file. */
  /** A file has no stacks of waits. */
  async sampledWaits(): Promise<[]> {
    return [];
  }

  async sums(begin: number, end: number, rows: readonly number[]): Promise<Sums> {
    const range = this.inPart(begin, end);
    const sums: StateSum[] = [];
    const values: RangeValues[] = [];
    for (const id of rows) {
      const states = this.data.rows.get(id)?.states;
      if (!states) continue;
      if (states.value) {
        values.push(...valuesOf(id, states, range));
        continue;
      }
      const durations = new Map<number, number[]>();
      const [from, to] = overlapping(states, range.begin, range.end);
      for (let i = from; i < to; i++) {
        const ns =
          Math.min(states.end[i], range.end) - Math.max(states.begin[i], range.begin);
        const list = durations.get(states.state[i]);
        if (list) list.push(ns);
        else durations.set(states.state[i], [ns]);
      }
      for (const [state, list] of durations) sums.push(sumOf(id, state, list));
    }
    return { sums, values };
  }

  /** Searches the part of the range that is in the file. */
  async search(text: string, begin: number, end: number, limit: number): Promise<SearchResult> {
    const range = this.inPart(begin, end);
    const wanted = this.data.head.states.map((state) =>
      state.name.toLowerCase().includes(text.toLowerCase()),
    );
    let [count, totalNs] = [0, 0];
    const matches: SearchMatch[] = [];
    for (const { id, kind, values } of this.data.head.rows) {
      const states = this.data.rows.get(id)?.states;
      // The row of the path repeats the states of other rows.
      if (!states || values || kind === 'path') continue;
      const [from, to] = overlapping(states, range.begin, range.end);
      for (let i = from; i < to; i++) {
        if (!wanted[states.state[i]]) continue;
        if (states.begin[i] >= range.begin) count++;
        totalNs += Math.min(states.end[i], range.end) - Math.max(states.begin[i], range.begin);
        if (matches.length < limit) matches.push({ row: id, ...stateAt(states, i) });
      }
    }
    return { count, total_ns: totalNs, matches, more: count > matches.length };
  }

  async packet(): Promise<Packet> {
    throw new RequestError(0, 'A file has no bytes and paths of packets; `longpole view` has them.');
  }

  async report(): Promise<Report> {
    return parseReport(this.data.report, this.data.head.trace.origin_ns);
  }

  async graph() {
    return { graph: this.data.head.graph };
  }

  async whatIf(): Promise<Prediction[]> {
    throw new RequestError(0, 'A file cannot replay the trace; `longpole what-if` does.');
  }

  async notes(): Promise<Note[]> {
    return this.data.head.notes;
  }

  async saveNotes(): Promise<void> {
    throw new RequestError(0, 'Notes cannot be saved in a file; `longpole view` saves them.');
  }

  /** The part of a range in which all states of all rows are in the file. */
  private inPart(begin: number, end: number): { begin: number; end: number } {
    if (!this.part) return { begin, end };
    const common = { begin: Math.max(begin, this.part.begin), end: Math.min(end, this.part.end) };
    if (common.begin >= common.end) throw this.outside(this.part);
    return common;
  }

  private refuseOutside(row: FileRow, begin: number, end: number): void {
    const { part } = this;
    if (!part || row.levels.length === 0) return;
    if (end <= part.begin || begin >= part.end) throw this.outside(part);
  }

  private outside(part: Part): RequestError {
    const [from, to] = [part.begin, part.end].map((time) =>
      formatTime(time, 'relative', 0n, (part.end - part.begin) / 100),
    );
    return new RequestError(
      0,
      `This file has single states from ${from} to ${to} only; \`longpole view\` has all of them.`,
    );
  }
}

function stateAt(states: Items, i: number): ExactState {
  const state = { begin: states.begin[i], end: states.end[i], state: states.state[i] };
  return states.value ? { ...state, value: states.value[i] } : state;
}

/** The values of a row in a range; nothing if there are none. */
function valuesOf(
  row: number,
  steps: Items,
  { begin, end }: { begin: number; end: number },
): RangeValues[] {
  let [min, max, sum, known, changes] = [Infinity, -Infinity, 0, 0, 0];
  const [from, to] = overlapping(steps, begin, end);
  for (let i = from; i < to; i++) {
    const value = steps.value![i];
    const ns = Math.min(steps.end[i], end) - Math.max(steps.begin[i], begin);
    min = Math.min(min, value);
    max = Math.max(max, value);
    sum += value * ns;
    known += ns;
    if (steps.begin[i] >= begin) changes++;
  }
  return known > 0 ? [{ row, min, max, mean: sum / known, known_ns: known, changes }] : [];
}

function sumOf(row: number, state: number, durations: number[]): StateSum {
  durations.sort((a, b) => a - b);
  const count = durations.length;
  const total = durations.reduce((sum, ns) => sum + ns, 0);
  const quantile = (share: number) => durations[Math.max(Math.ceil(share * count) - 1, 0)];
  return {
    row,
    state,
    count,
    total_ns: total,
    mean_ns: total / count,
    p50_ns: quantile(0.5),
    p99_ns: quantile(0.99),
    max_ns: durations[count - 1],
  };
}

/** A tile in the bytes of the server (timeline/tiles.ts). */
function tileOf(
  rows: readonly number[],
  answers: readonly GridItems[],
  { level, first, count }: Grid,
): ArrayBuffer {
  const width = 2 ** level;
  const begin = first * width;
  const total = answers.reduce((sum, answer) => sum + answer.items.length, 0);
  const buffer = new ArrayBuffer(HEADER_BYTES + ROW_BYTES * rows.length + ITEM_BYTES * total);
  const view = new DataView(buffer);
  [MAGIC, rows.length, 1, 0].forEach((number, i) => view.setUint32(4 * i, number, true));
  let done = 0;
  let at = HEADER_BYTES + ROW_BYTES * rows.length;
  answers.forEach(({ exact, items }, i) => {
    [rows[i], exact ? 1 : 0, done, items.length].forEach((number, field) =>
      view.setUint32(HEADER_BYTES + ROW_BYTES * i + 4 * field, number, true),
    );
    done += items.length;
    for (const item of items) {
      putItem(view, at, item, begin, width, count);
      at += ITEM_BYTES;
    }
  });
  return buffer;
}

function putItem(
  view: DataView,
  at: number,
  item: GridItem,
  begin: number,
  width: number,
  count: number,
): void {
  // What reaches far beyond the tile is cut off, where 32 bits would be too coarse.
  const bins = (time: number) =>
    Math.min(Math.max((time - begin) / width, -2 * count), 4 * count);
  view.setFloat32(at, bins(item.begin), true);
  view.setFloat32(at + 4, bins(item.end), true);
  view.setUint16(at + 8, item.state, true);
  view.setUint16(at + 10, item.worst, true);
  view.setUint16(at + 12, Math.min(item.count, 0xffff), true);
  view.setUint8(at + 14, share(item.busy));
  view.setUint8(at + 15, share(item.path));
}

/** 0 is nothing, 255 all of it: other shares are at least 1 and at most 254. */
function share(part: number): number {
  if (part <= 0) return 0;
  return part >= 1 ? 255 : Math.min(Math.max(Math.round(part * 255), 1), 254);
}

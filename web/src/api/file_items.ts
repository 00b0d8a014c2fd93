// The items of a picture from the data in a file, by the rules of the server
// (`crates/analysis/src/timeline/bins.rs`): a row with at most one state per bin has its states as
// items, any other row has bins. Where the file has no states, items are the bins that it has, which
// may be wider than those that were asked for.

import type { Bins, FileRow, Items } from './file_data.ts';
import type { StateClass } from './types.ts';

/** From the least to the most serious. */
const SEVERITY: readonly StateClass[] = [
  'asleep', 'running', 'call', 'interrupt', 'runnable', 'blocked', 'unknown', 'lost',
];
const BUSY: ReadonlySet<StateClass> = new Set<StateClass>(['running', 'call', 'interrupt']);

/** Places on the scale of a row with values. */
const PLACES = 65_535;

/** Bins of 2^level ns, of which the first one begins at first · 2^level. */
export interface Grid {
  level: number;
  first: number;
  count: number;
}

export interface GridItem {
  begin: number;
  end: number;
  state: number;
  worst: number;
  count: number;
  /** Shares of its time, 0 to 1. */
  busy: number;
  path: number;
}

export interface GridItems {
  exact: boolean;
  items: GridItem[];
}

interface Interval {
  begin: number;
  end: number;
}

/** Index of the first item that ends after `time`. */
export function firstAfter(items: Items, time: number): number {
  let low = 0;
  let high = items.end.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (items.end[middle] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Indices of the items that overlap a range. */
export function overlapping(items: Items, begin: number, end: number): [number, number] {
  const from = firstAfter(items, begin);
  let to = from;
  while (to < items.begin.length && items.begin[to] < end) to++;
  return [from, to];
}

export class ItemMaker {
  private readonly severity: number[];
  private readonly busy: boolean[];
  private readonly slice: Interval | null;
  private readonly level: number;

  /** Bins of the file begin at `level`; `slice` has all states, null is the whole trace. */
  constructor(classes: readonly StateClass[], slice: Interval | null, level: number) {
    this.severity = classes.map((name) => SEVERITY.indexOf(name));
    this.busy = classes.map((name) => BUSY.has(name));
    this.slice = slice;
    this.level = level;
  }

  items(row: FileRow, grid: Grid): GridItems {
    const width = 2 ** grid.level;
    const range = { begin: grid.first * width, end: (grid.first + grid.count) * width };
    const known = this.known(row);
    if (known.begin <= range.begin && range.end <= known.end) {
      return this.fromStates(row.states, grid.level, range);
    }
    const { levels } = row;
    const coarser = grid.level - this.level;
    if (coarser >= 0) {
      const bins = levels[Math.min(coarser, levels.length - 1)];
      return { exact: false, items: fromBins(bins, range) };
    }
    // A bin that is known only in part is drawn from the file's bins.
    const begin = Math.max(Math.ceil(known.begin / width) * width, range.begin);
    const end = Math.min(Math.floor(known.end / width) * width, range.end);
    if (begin >= end) return { exact: false, items: fromBins(levels[0], range) };
    const before = fromBins(levels[0], { begin: range.begin, end: begin });
    const middle = this.fromStates(row.states, grid.level, { begin, end }).items.map((item) =>
      cut(item, begin, end),
    );
    const after = fromBins(levels[0], { begin: end, end: range.end });
    return { exact: false, items: [...before, ...middle, ...after] };
  }

  /** The part in which all states of a row are known: those that reach beyond the slice are
   * complete. */
  private known(row: FileRow): Interval {
    if (!this.slice || row.levels.length === 0) return { begin: 0, end: Infinity };
    const { begin, end } = row.states;
    return {
      begin: Math.min(this.slice.begin, begin[0] ?? Infinity),
      end: Math.max(this.slice.end, end[end.length - 1] ?? 0),
    };
  }

  private fromStates(states: Items, level: number, range: Interval): GridItems {
    const [from, to] = overlapping(states, range.begin, range.end);
    const bins = (range.end - range.begin) / 2 ** level;
    if (to - from > bins) return { exact: false, items: this.binned(states, from, to, level, range) };
    const items: GridItem[] = [];
    for (let i = from; i < to; i++) {
      const isBusy = this.busy[states.state[i]] ? 1 : 0;
      items.push({
        begin: states.begin[i],
        end: states.end[i],
        state: states.state[i],
        worst: states.state[i],
        count: 1,
        busy: states.value ? states.state[i] / PLACES : isBusy,
        path: states.path[i] / 255,
      });
    }
    return { exact: true, items };
  }

  private binned(
    states: Items,
    from: number,
    to: number,
    level: number,
    range: Interval,
  ): GridItem[] {
    const width = 2 ** level;
    const items: GridItem[] = [];
    const bin = states.value ? new OpenValueBin() : new OpenBin(this.severity, this.busy);
    const close = () => {
      if (bin.isUsed) items.push(bin.close());
    };
    const add = (begin: number, end: number, i: number, count: number) => {
      if (end <= begin) return;
      const at = Math.floor(begin / width) * width;
      if (at !== bin.begin) {
        close();
        bin.open(at, at + width);
      }
      bin.add(states.state[i], end - begin, count, states.path[i] / 255);
    };
    for (let i = from; i < to; i++) {
      const begin = Math.max(states.begin[i], range.begin);
      const end = Math.min(states.end[i], range.end);
      let count = states.begin[i] >= range.begin ? 1 : 0;
      // The whole bins in the middle of a state are one item.
      const whole = Math.ceil(begin / width) * width;
      const rest = Math.floor(end / width) * width;
      if (whole < rest) {
        if (begin < whole) {
          add(begin, whole, i, count);
          count = 0;
        }
        close();
        bin.open(whole, rest);
        bin.add(states.state[i], rest - whole, count, states.path[i] / 255);
        items.push(bin.close());
        add(rest, end, i, 0);
      } else {
        const edge = Math.min((Math.floor(begin / width) + 1) * width, end);
        add(begin, edge, i, count);
        add(edge, end, i, 0);
      }
    }
    close();
    return items;
  }
}

/** A bin of a row with values, whose states are places of values. */
class OpenValueBin {
  private least = Infinity;
  private greatest = -Infinity;
  private sum = 0;
  private ns = 0;
  private count = 0;
  begin = -1;
  private end = -1;

  get isUsed(): boolean {
    return this.ns > 0;
  }

  open(begin: number, end: number): void {
    this.begin = begin;
    this.end = end;
  }

  add(place: number, ns: number, count: number): void {
    this.least = Math.min(this.least, place);
    this.greatest = Math.max(this.greatest, place);
    this.sum += place * ns;
    this.ns += ns;
    this.count += count;
  }

  close(): GridItem {
    const { begin, end, least, greatest, count } = this;
    const busy = this.sum / this.ns / PLACES;
    Object.assign(this, new OpenValueBin());
    return { begin, end, state: least, worst: greatest, count, busy, path: 0 };
  }
}

/** A bin whose states are being added up. */
class OpenBin {
  private readonly severity: readonly number[];
  private readonly busy: readonly boolean[];
  private readonly ns = new Map<number, number>();
  private count = 0;
  private pathNs = 0;
  begin = -1;
  private end = -1;

  constructor(severity: readonly number[], busy: readonly boolean[]) {
    this.severity = severity;
    this.busy = busy;
  }

  get isUsed(): boolean {
    return this.ns.size > 0;
  }

  open(begin: number, end: number): void {
    this.begin = begin;
    this.end = end;
  }

  add(state: number, ns: number, count: number, path: number): void {
    this.ns.set(state, (this.ns.get(state) ?? 0) + ns);
    this.count += count;
    this.pathNs += ns * path;
  }

  close(): GridItem {
    const { begin, end, severity } = this;
    const [[first, firstNs], ...others] = this.ns;
    let [state, most] = [first, firstNs];
    let [worst, worstNs] = [first, firstNs];
    let busyNs = this.busy[first] ? firstNs : 0;
    for (const [other, ns] of others) {
      if (ns > most || (ns === most && other < state)) [state, most] = [other, ns];
      const more = severity[other] - severity[worst] || ns - worstNs || worst - other;
      if (more > 0) [worst, worstNs] = [other, ns];
      if (this.busy[other]) busyNs += ns;
    }
    const length = end - begin;
    const item = { begin, end, state, worst, count: this.count, busy: busyNs / length,
      path: this.pathNs / length };
    this.ns.clear();
    this.count = this.pathNs = 0;
    this.begin = -1;
    return item;
  }
}

/** The bins that overlap a range, cut to it. */
function fromBins(bins: Bins, range: Interval): GridItem[] {
  const [from, to] = overlapping(bins, range.begin, range.end);
  const items: GridItem[] = [];
  for (let i = from; i < to; i++) {
    const item = {
      begin: bins.begin[i],
      end: bins.end[i],
      state: bins.state[i],
      worst: bins.worst[i],
      count: bins.count[i],
      busy: bins.busy[i] / 255,
      path: bins.path[i] / 255,
    };
    items.push(cut(item, range.begin, range.end));
  }
  return items;
}

function cut(item: GridItem, begin: number, end: number): GridItem {
  return { ...item, begin: Math.max(item.begin, begin), end: Math.min(item.end, end) };
}

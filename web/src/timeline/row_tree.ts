// The tree of rows and its layout: which rows are visible, in which order and at which height.
// Rows can be collapsed, hidden, pinned to the top, filtered and sorted. Everything here is a pure
// function of the rows and the settings.

import type { Row, RowKind } from '../api/types.ts';

export const ROW_HEIGHT = 20;
export const HEAD_HEIGHT = 22;
/** Height of the lane of the critical path. */
export const LANE_HEIGHT = 26;

export type RowOrder = 'path' | 'busy' | 'name' | 'recorded';

export interface RowSettings {
  collapsed: ReadonlySet<number>;
  hidden: ReadonlySet<number>;
  /** Ids of rows, in the order in which they were pinned. */
  pinned: readonly number[];
  filter: string;
  order: RowOrder;
}

export interface LayoutRow {
  row: Row;
  /** Index of the row in the tree. */
  index: number;
  depth: number;
  /** In pixels from the begin of the pinned rows, or from the begin of all other rows. */
  top: number;
  height: number;
  head: boolean;
  collapsed: boolean;
  pinned: boolean;
}

export interface Layout {
  /** The row of the critical path, which has a lane of its own above all others. */
  path: LayoutRow | null;
  pinned: LayoutRow[];
  pinnedHeight: number;
  rows: LayoutRow[];
  height: number;
  /** For each visible row, by its index in the tree. */
  byIndex: ReadonlyMap<number, LayoutRow>;
}

const GROUP_HEADS: ReadonlySet<RowKind> = new Set([
  'host',
  'process',
  'cpus',
  'interrupts',
  'recorder',
  'machines',
  'queues',
  'counters',
  'packets',
]);

/** Order of the kinds below one parent. */
const KIND_ORDER: readonly (readonly RowKind[])[] = [
  ['host'],
  ['process', 'thread', 'machines', 'machine'],
  ['cpus', 'cpu'],
  ['interrupts', 'interrupt'],
  ['queues', 'queue'],
  ['counters', 'counter'],
  ['packets', 'flow', 'captured'],
  ['recorder'],
];

/** True for rows whose states are packets. */
export function hasPackets(row: Row): boolean {
  return row.kind === 'flow' || row.kind === 'captured';
}

export function isGroupHead(row: Row): boolean {
  return GROUP_HEADS.has(row.kind);
}

export class RowTree {
  readonly rows: readonly Row[];
  readonly indexOf: ReadonlyMap<number, number>;
  /** Index of the row of the critical path; -1 if there is none. */
  readonly path: number;
  private readonly children: number[][];
  private readonly roots: number[] = [];
  private readonly parents: Int32Array;
  private keys: string[] | null = null;

  constructor(rows: readonly Row[]) {
    this.rows = rows;
    const indexOf = new Map<number, number>();
    rows.forEach((row, index) => indexOf.set(row.id, index));
    this.indexOf = indexOf;
    this.path = rows.findIndex((row) => row.kind === 'path');
    this.children = rows.map(() => []);
    this.parents = new Int32Array(rows.length).fill(-1);
    rows.forEach((row, index) => {
      const parent = row.parent === null ? undefined : indexOf.get(row.parent);
      if (index === this.path) return;
      if (parent === undefined) {
        this.roots.push(index);
      } else {
        this.parents[index] = parent;
        this.children[parent].push(index);
      }
    });
  }

  row(id: number): Row | undefined {
    const index = this.indexOf.get(id);
    return index === undefined ? undefined : this.rows[index];
  }

  parentOf(index: number): number {
    return this.parents[index];
  }

  hasChildren(index: number): boolean {
    return this.children[index].length > 0;
  }

  /** Name of a row with those of its process, for lists outside of the tree. */
  fullName(id: number): string {
    const index = this.indexOf.get(id);
    if (index === undefined) return `row ${id}`;
    const row = this.rows[index];
    const parent = this.parents[index];
    const process = parent >= 0 && this.rows[parent].kind === 'process' ? this.rows[parent] : null;
    return process && process.name !== row.name ? `${process.name} ▸ ${row.name}` : row.name;
  }

  /** Name of a row with those of its parents. The second row of a name below one parent has a
   * number, so a key is that of one row, and of the same row in another trace. The only host of a
   * trace has no name, so that traces of different hosts can be compared. */
  key(id: number): string {
    return this.allKeys()[this.indexOf.get(id) ?? -1] ?? '';
  }

  withKey(key: string): Row | undefined {
    return this.rows[this.allKeys().indexOf(key)];
  }

  private allKeys(): string[] {
    if (this.keys) return this.keys;
    const counts = new Map<string, number>();
    const keys: string[] = [];
    const hasHosts = this.rows.filter((row) => row.kind === 'host').length > 1;
    this.rows.forEach((row, index) => {
      const parent = this.parents[index];
      const own = row.kind !== 'host' || hasHosts ? row.name : '';
      const name = `${parent < 0 ? '' : keys[parent]}\n${row.kind} ${own}`;
      const count = (counts.get(name) ?? 0) + 1;
      counts.set(name, count);
      keys.push(count === 1 ? name : `${name}\n${count}`);
    });
    return (this.keys = keys);
  }

  /** Places of all rows in an order, by their keys, for another trace with such rows. */
  places(order: RowOrder): ReadonlyMap<string, number> {
    const places = new Map<string, number>();
    const keys = this.allKeys();
    const visit = (indices: number[]) => {
      for (const index of this.sorted(indices, order)) {
        places.set(keys[index], places.size);
        visit(this.children[index]);
      }
    };
    visit(this.roots);
    return places;
  }

  /** The row itself if it is visible, otherwise its nearest visible ancestor. */
  visible(layout: Layout, id: number): LayoutRow | undefined {
    let index = this.indexOf.get(id) ?? -1;
    while (index >= 0) {
      const found = layout.byIndex.get(index);
      if (found) return found;
      index = this.parents[index];
    }
    return undefined;
  }

  /** Ids of the ancestors of a row, the nearest first. */
  ancestors(id: number): number[] {
    const ids: number[] = [];
    let index = this.parents[this.indexOf.get(id) ?? -1] ?? -1;
    while (index >= 0) {
      ids.push(this.rows[index].id);
      index = this.parents[index];
    }
    return ids;
  }

  /** Ids of the rows with states in the subtree of a row. */
  leaves(index: number): number[] {
    const ids: number[] = [];
    const open = [index];
    while (open.length > 0) {
      const next = open.pop()!;
      if (!isGroupHead(this.rows[next])) ids.push(this.rows[next].id);
      for (const child of this.children[next]) open.push(child);
    }
    return ids;
  }

  /** `like` has the places of rows in another trace, whose order has precedence. */
  layout(settings: RowSettings, like?: ReadonlyMap<string, number>): Layout {
    const shown = this.filtered(settings.filter);
    const byIndex = new Map<number, LayoutRow>();
    const path = this.path < 0 ? null : this.pathEntry();
    if (path) byIndex.set(path.index, path);
    const pinnedIds = new Set(settings.pinned);
    const pinned: LayoutRow[] = [];
    let pinnedHeight = 0;
    for (const id of settings.pinned) {
      const index = this.indexOf.get(id);
      if (index === undefined) continue;
      const entry = this.entry(index, 0, pinnedHeight, settings, true);
      pinned.push(entry);
      byIndex.set(index, entry);
      pinnedHeight += entry.height;
    }
    const rows: LayoutRow[] = [];
    let height = 0;
    const visit = (index: number, depth: number) => {
      const row = this.rows[index];
      if (settings.hidden.has(row.id) || (shown && !shown[index])) return;
      const entry = this.entry(index, depth, height, settings, false);
      if (!pinnedIds.has(row.id)) {
        rows.push(entry);
        byIndex.set(index, entry);
        height += entry.height;
      }
      if (!entry.collapsed) {
        for (const child of this.sorted(this.children[index], settings.order, like)) {
          visit(child, depth + 1);
        }
      }
    };
    for (const root of this.sorted(this.roots, settings.order, like)) visit(root, 0);
    return { path, pinned, pinnedHeight, rows, height, byIndex };
  }

  /** The lane is directly above the pinned rows, so its top is negative. */
  private pathEntry(): LayoutRow {
    return {
      row: this.rows[this.path],
      index: this.path,
      depth: 0,
      top: -(LANE_HEIGHT + ROW_HEIGHT) / 2,
      height: ROW_HEIGHT,
      head: false,
      collapsed: false,
      pinned: true,
    };
  }

  private entry(
    index: number,
    depth: number,
    top: number,
    settings: RowSettings,
    pinned: boolean,
  ): LayoutRow {
    const row = this.rows[index];
    const head = isGroupHead(row);
    return {
      row,
      index,
      depth,
      top,
      height: head ? HEAD_HEIGHT : ROW_HEIGHT,
      head,
      // A filter shows what it finds, also in collapsed groups.
      collapsed: settings.filter === '' && settings.collapsed.has(row.id),
      pinned,
    };
  }

  private sorted(
    indices: number[],
    order: RowOrder,
    like?: ReadonlyMap<string, number>,
  ): number[] {
    const keys = like && this.allKeys();
    const place = (index: number) => (keys && like.get(keys[index])) ?? Number.MAX_SAFE_INTEGER;
    const rank = (index: number) =>
      KIND_ORDER.findIndex((kinds) => kinds.includes(this.rows[index].kind));
    return [...indices].sort((a, b) => {
      const first = this.rows[a];
      const second = this.rows[b];
      const kinds = rank(a) - rank(b);
      if (kinds !== 0) return kinds;
      if (like && place(a) !== place(b)) return place(a) - place(b);
      // CPUs and interrupts have numbers that people look for in their order.
      const numbered = first.kind === 'cpu' || first.kind === 'interrupt';
      if (order === 'recorded') return a - b;
      if (order === 'name' || numbered) return compareNames(first, second) || a - b;
      if (order === 'path' && first.path_ns !== second.path_ns) {
        return second.path_ns - first.path_ns;
      }
      return second.busy_ns - first.busy_ns || a - b;
    });
  }

  /** For each row, if it matches, or has a matching row above or below it; null without filter. */
  private filtered(filter: string): boolean[] | null {
    const text = filter.trim().toLowerCase();
    if (text === '') return null;
    const matches = this.rows.map(
      (row) => row.name.toLowerCase().includes(text) || row.detail.toLowerCase().includes(text),
    );
    const shown = [...matches];
    // A parent comes before its children, so one pass down and one up are enough.
    for (let i = 0; i < shown.length; i++) {
      const parent = this.parents[i];
      if (parent >= 0 && matches[parent]) matches[i] = shown[i] = true;
    }
    for (let i = shown.length - 1; i >= 0; i--) {
      const parent = this.parents[i];
      if (parent >= 0 && shown[i]) shown[parent] = true;
    }
    return shown;
  }
}

function compareNames(a: Row, b: Row): number {
  return a.name.localeCompare(b.name, 'en', { numeric: true });
}

/** Index of the first row of a list that ends below `y`. */
export function firstRowAt(rows: readonly LayoutRow[], y: number): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (rows[middle].top + rows[middle].height <= y) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Heads of groups whose rows are in view while the head itself is scrolled out; the outermost
 * first. They stay at the top, so that a row never lacks its process. */
export function stickyHeads(layout: Layout, scroll: number): LayoutRow[] {
  const heads: LayoutRow[] = [];
  let covered = 0;
  for (;;) {
    const at = firstRowAt(layout.rows, scroll + covered);
    if (at >= layout.rows.length) return heads;
    const depth = heads.length;
    const candidate = ancestorAtDepth(layout.rows, at, depth);
    if (!candidate || !candidate.head || candidate.top >= scroll + covered) return heads;
    if (layout.rows[at] === candidate && candidate.collapsed) return heads;
    heads.push(candidate);
    covered += candidate.height;
  }
}

function ancestorAtDepth(rows: LayoutRow[], at: number, depth: number): LayoutRow | null {
  for (let i = at; i >= 0; i--) {
    if (rows[i].depth === depth) return rows[i];
    if (rows[i].depth < depth) return null;
  }
  return null;
}

/** Whether a row has a bar: a group has one, of all its rows, while these are not shown. */
export function hasBar(entry: LayoutRow): boolean {
  return !entry.head || entry.collapsed;
}

/** Rows `around` rows before and after `count` rows from `first` on. */
export function rowsAround(
  rows: readonly LayoutRow[],
  first: number,
  count: number,
  around: number,
): readonly LayoutRow[] {
  return rows.slice(Math.max(0, first - around), first + count + around);
}

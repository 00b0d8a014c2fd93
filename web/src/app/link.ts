// The view in the address: the fragment holds the traces that are shown, the view, selections and
// settings of the rows, so that a copied address restores what its sender saw. The fragment is never
// sent to the server.
//
// Example: #trace=1&view=1000_250000&range=2000_3000&rows=4.5&state=12.2100&pinned=4&collapsed=9
//
// In a comparison, what belongs to the second trace has a 2 behind its name, and `offset` is where
// its begin is on the time axis: #trace=1&state=4.100&trace2=2&state2=5.140&offset=-40

import type { RowOrder, RowSettings } from '../timeline/row_tree.ts';
import type { View } from '../timeline/viewport.ts';

/** What the link says about one trace. */
export interface TraceLink {
  trace: number | null;
  /** The one in which the ids of rows are valid. */
  generation: number;
  /** A selected range of time on some rows. */
  range: { interval: View; rows: number[] } | null;
  /** A selected state: a row, and a time in the state. */
  state: { row: number; time: number } | null;
  rows: RowSettings | null;
  marks: number[];
}

export interface Link {
  /** The part of the time axis that is in view. */
  view: View | null;
  /** Name of the state of the path's table whose segments are highlighted. */
  highlight: string | null;
  first: TraceLink;
  /** The trace that the first one is compared with; null without a comparison. */
  second: TraceLink | null;
  /** Time of the axis at which the second trace begins. */
  offset: number;
  /** The open panel of the drawer, and the drawer's height in pixels; null if it is closed. */
  drawer: DrawerLink | null;
}

export interface DrawerLink {
  panel: string;
  height: number;
}

export const NO_TRACE_LINK: TraceLink = {
  trace: null,
  generation: 0,
  range: null,
  state: null,
  rows: null,
  marks: [],
};

const ORDERS: readonly RowOrder[] = ['path', 'busy', 'name', 'recorded'];

type Add = (name: string, value: string) => void;

export function writeLink(link: Link): string {
  const parts: string[] = [];
  const add: Add = (name, value) => {
    if (value !== '') parts.push(`${name}=${value}`);
  };
  if (link.view) add('view', interval(link.view));
  if (link.highlight) add('highlight', encodeURIComponent(link.highlight));
  if (link.drawer) add('drawer', `${link.drawer.panel}.${link.drawer.height}`);
  writeTrace(link.first, add);
  if (link.second) {
    writeTrace(link.second, (name, value) => add(`${name}2`, value));
    if (link.offset !== 0) add('offset', String(Math.round(link.offset)));
  }
  return `#${parts.join('&')}`;
}

function writeTrace(link: TraceLink, add: Add): void {
  if (link.trace !== null) add('trace', String(link.trace));
  if (link.generation !== 0) add('generation', String(link.generation));
  if (link.range) {
    add('range', interval(link.range.interval));
    add('rows', link.range.rows.join('.'));
  }
  if (link.state) add('state', `${link.state.row}.${Math.round(link.state.time)}`);
  if (link.rows) {
    add('collapsed', [...link.rows.collapsed].join('.') || 'none');
    add('hidden', [...link.rows.hidden].join('.'));
    add('pinned', link.rows.pinned.join('.'));
    add('filter', encodeURIComponent(link.rows.filter));
    add('order', link.rows.order);
  }
  add('marks', link.marks.map(Math.round).join('.'));
}

/** Reads a fragment. Parts that are missing or malformed are left out. */
export function readLink(fragment: string): Link {
  const values = new Map<string, string>();
  for (const part of fragment.replace(/^#/, '').split('&')) {
    const at = part.indexOf('=');
    if (at > 0) values.set(part.slice(0, at), part.slice(at + 1));
  }
  const second = readTrace((name) => values.get(`${name}2`));
  const offset = values.get('offset') ?? '';
  return {
    view: readInterval(values.get('view')),
    highlight: readText(values.get('highlight')) || null,
    first: readTrace((name) => values.get(name)),
    second: second.trace === null ? null : second,
    drawer: readDrawer(values.get('drawer')),
    offset: second.trace !== null && /^-?\d{1,16}$/.test(offset) ? Number(offset) : 0,
  };
}

function readDrawer(text: string | undefined): DrawerLink | null {
  const match = /^([a-z]+)\.(\d{1,5})$/.exec(text ?? '');
  return match && { panel: match[1], height: Number(match[2]) };
}

function readTrace(value: (name: string) => string | undefined): TraceLink {
  const trace = Number(value('trace') ?? NaN);
  const range = readInterval(value('range'));
  const state = readNumbers(value('state'));
  const names = ['collapsed', 'hidden', 'pinned', 'filter', 'order'];
  const hasRows = names.some((name) => value(name) !== undefined);
  return {
    trace: Number.isInteger(trace) ? trace : null,
    generation: readNumbers(value('generation'))[0] ?? 0,
    range: range && { interval: range, rows: readNumbers(value('rows')) },
    state: state.length === 2 ? { row: state[0], time: state[1] } : null,
    rows: hasRows
      ? {
          collapsed: new Set(readNumbers(value('collapsed'))),
          hidden: new Set(readNumbers(value('hidden'))),
          pinned: readNumbers(value('pinned')),
          filter: readText(value('filter')),
          order: ORDERS.find((name) => name === value('order')) ?? 'path',
        }
      : null,
    marks: readNumbers(value('marks')),
  };
}

function interval(view: View): string {
  return `${Math.round(view.begin)}_${Math.round(view.end)}`;
}

function readInterval(text: string | undefined): View | null {
  const match = /^(-?\d{1,16})_(-?\d{1,16})$/.exec(text ?? '');
  if (!match) return null;
  const view = { begin: Number(match[1]), end: Number(match[2]) };
  return view.end > view.begin ? view : null;
}

function readNumbers(text: string | undefined): number[] {
  if (!text) return [];
  return text.split('.').filter((part) => /^\d{1,16}$/.test(part)).map(Number);
}

function readText(text: string | undefined): string {
  try {
    return decodeURIComponent(text ?? '');
  } catch {
    return '';
  }
}

// The view in the address: the fragment holds trace, range, selection and settings of the rows, so
// that a copied address restores what its sender saw. The fragment is never sent to the server.
//
// Example: #trace=1&view=1000_250000&range=2000_3000&rows=4.5&state=12.2100&pinned=4&collapsed=9

import type { RowOrder, RowSettings } from '../timeline/row_tree.ts';
import type { View } from '../timeline/viewport.ts';

export interface Link {
  trace: number | null;
  view: View | null;
  /** A selected range of time on some rows. */
  range: { interval: View; rows: number[] } | null;
  /** A selected state: a row, and a time in the state. */
  state: { row: number; time: number } | null;
  rows: RowSettings | null;
  marks: number[];
  /** Name of the state of the path's table whose segments are highlighted. */
  highlight: string | null;
}

const ORDERS: readonly RowOrder[] = ['path', 'busy', 'name', 'recorded'];

export function writeLink(link: Link): string {
  const parts: string[] = [];
  const add = (name: string, value: string) => {
    if (value !== '') parts.push(`${name}=${value}`);
  };
  if (link.trace !== null) add('trace', String(link.trace));
  if (link.view) add('view', interval(link.view));
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
  if (link.highlight) add('highlight', encodeURIComponent(link.highlight));
  return `#${parts.join('&')}`;
}

/** Reads a fragment. Parts that are missing or malformed are left out. */
export function readLink(fragment: string): Link {
  const values = new Map<string, string>();
  for (const part of fragment.replace(/^#/, '').split('&')) {
    const at = part.indexOf('=');
    if (at > 0) values.set(part.slice(0, at), part.slice(at + 1));
  }
  const trace = Number(values.get('trace') ?? NaN);
  const range = readInterval(values.get('range'));
  const state = readNumbers(values.get('state'));
  const hasRows = ['collapsed', 'hidden', 'pinned', 'filter', 'order'].some((n) => values.has(n));
  const order = ORDERS.find((name) => name === values.get('order')) ?? 'path';
  return {
    trace: Number.isInteger(trace) ? trace : null,
    view: readInterval(values.get('view')),
    range: range && { interval: range, rows: readNumbers(values.get('rows')) },
    state: state.length === 2 ? { row: state[0], time: state[1] } : null,
    rows: hasRows
      ? {
          collapsed: new Set(readNumbers(values.get('collapsed'))),
          hidden: new Set(readNumbers(values.get('hidden'))),
          pinned: readNumbers(values.get('pinned')),
          filter: readText(values.get('filter')),
          order,
        }
      : null,
    marks: readNumbers(values.get('marks')),
    highlight: readText(values.get('highlight')) || null,
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

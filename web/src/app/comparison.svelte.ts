// A comparison of the first trace with a second one: where the second one is on the time axis, and
// what the server says about their differences.

import { source } from '../api/source.ts';
import type { Diff } from '../api/types.ts';
import type { SelectedState } from '../timeline/scene.ts';
import { span } from '../timeline/viewport.ts';
import type { Viewer } from './viewer.svelte.ts';

/** Part of the view by which one key press moves the second trace. */
const NUDGE = 1 / 200;
/** States of a row that are requested at once, while one of them is looked for. */
const STATES_PER_REQUEST = 20_000;

/** What a comparison needs of the page. */
export interface ComparisonHost {
  readonly first: Viewer;
  userMoved: boolean;
  follow(): void;
  keepLink(): void;
}

export class Comparison {
  readonly second: Viewer;
  /** Time of the axis, which is that of the first trace, at which the second one begins. */
  offset = $state(0);
  diff = $state.raw<Diff | null>(null);
  /** Why there is no difference. */
  error = $state<string | null>(null);
  private readonly host: ComparisonHost;

  constructor(host: ComparisonHost, second: Viewer) {
    this.host = host;
    this.second = second;
  }

  /** Forgets the differences, because one of the traces is another one. */
  forget(): void {
    this.diff = null;
    this.error = null;
  }

  /** Asks for the differences of two traces that are read. */
  async load(base: number, changed: number, signal: AbortSignal): Promise<void> {
    try {
      this.diff = await source.diff(base, changed, signal);
    } catch (error) {
      if (!signal.aborted) this.error = error instanceof Error ? error.message : String(error);
    }
  }

  /** Puts the second trace at a place on the axis. */
  place(offset: number): void {
    this.offset = offset;
    this.second.setOffset(offset);
    this.host.follow();
  }

  /** Moves the second trace to a place that the user has chosen. */
  setOffset(ns: number): void {
    this.host.userMoved = true;
    this.place(Math.round(ns));
    this.host.keepLink();
  }

  /** Moves the second trace by a small part of the view. */
  nudge(direction: 1 | -1): void {
    this.setOffset(this.offset + direction * Math.max(span(this.second.view) * NUDGE, 1));
  }

  /** Moves the second trace so that the selected states of both begin at the same place. */
  alignSelections(): void {
    const { first } = this.host;
    const [a, b] = [first.scene.selection, this.second.scene.selection];
    if (!a || !b) throw new Error('Select a state in each recording first.');
    this.setOffset(a.begin - b.begin);
    const { begin, end } = first.view;
    if (a.begin < begin || a.begin > end) first.show(a, null, 4);
  }

  /** Selects in the other trace the state that corresponds to the selected one, and aligns both:
   * the state of the same name in the row of the same name that occurs as often before. */
  async alignSame(of: Viewer): Promise<void> {
    const { selection } = of.scene;
    if (!selection) throw new Error('Select a state first.');
    const other = this.otherThan(of);
    const state = await corresponding(of, selection, other);
    other.changeScene({ selection: state });
    other.revealRow(state.row);
    this.alignSelections();
  }

  /** Selects the same match of a search in the other trace, and aligns both. */
  async alignMatch(of: Viewer, text: string, index: number): Promise<void> {
    const other = this.otherThan(of);
    const { client, trace } = other;
    if (!client || !trace) return;
    const { matches, count } = await client.search(text, 0, trace.end, index + 1);
    const match = matches[index];
    if (!match) throw new Error(`${trace.name} has only ${count} such states.`);
    other.changeScene({ selection: match });
    other.revealRow(match.row);
    this.alignSelections();
  }

  otherThan(viewer: Viewer): Viewer {
    return viewer === this.second ? this.host.first : this.second;
  }
}

async function corresponding(
  from: Viewer,
  selection: SelectedState,
  to: Viewer,
): Promise<SelectedState> {
  const there = to.trace?.name ?? 'The other recording';
  if (from.row(selection.row)?.values) {
    throw new Error('Values have no names to be found by; select one in each recording, and align.');
  }
  const { name } = from.rows.states[selection.state];
  const row = to.tree.withKey(from.tree.key(selection.row));
  if (!row) throw new Error(`${there} has no row ${from.rowName(selection.row)}.`);
  const state = to.rows.states.findIndex((other) => other.name === name);
  const before = (await from.client?.sums(0, selection.begin, [selection.row]))?.sums ?? [];
  let index = before.find((sum) => sum.state === selection.state)?.count ?? 0;
  const occurrence = index + 1;
  for (let begin = 0, more = true; more && to.client && to.trace; ) {
    const part = await to.client.states(row.id, begin, to.trace.end, STATES_PER_REQUEST);
    for (const found of part.states) {
      if (found.state === state && index-- === 0) return { row: row.id, ...found };
    }
    more = part.more && part.states.length > 0;
    begin = part.states.at(-1)?.end ?? 0;
  }
  throw new Error(`${there} has fewer than ${occurrence} states ${name} in ${to.rowName(row.id)}.`);
}

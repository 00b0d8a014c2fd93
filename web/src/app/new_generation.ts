// What the user has set, for rows and states with new ids: when a recording that was followed has
// ended, it is read again, and rows and states get other ids. Rows of threads and CPUs are found by
// their numbers, others by their names and those of their groups, states by their names.

import type { Note, Row, Rows } from '../api/types.ts';
import { RowTree, type RowSettings } from '../timeline/row_tree.ts';
import type { Scene } from '../timeline/scene.ts';
import { shifted } from '../timeline/viewport.ts';

export class NewGeneration {
  private readonly before: RowTree;
  private readonly after: RowTree;
  private readonly numberedBefore: ReadonlyMap<string, Row | null>;
  private readonly numberedAfter: ReadonlyMap<string, Row | null>;
  private readonly statesBefore: Rows['states'];
  private readonly statesAfter: Rows['states'];
  /** What is added to times, because the trace's begin is another one. */
  private readonly shift: number;

  constructor(before: Rows, after: Rows, shift: number) {
    this.before = new RowTree(before.rows);
    this.after = new RowTree(after.rows);
    this.numberedBefore = numbered(this.before);
    this.numberedAfter = numbered(this.after);
    this.statesBefore = before.states;
    this.statesAfter = after.states;
    this.shift = shift;
  }

  /** The row that has this id before; null if there is no such row any more. */
  row(id: number): number | null {
    const row = this.before.row(id);
    if (!row) return null;
    const number = numberOf(this.before, row);
    if (number !== null && this.numberedBefore.get(number)) {
      const found = this.numberedAfter.get(number);
      if (found) return found.id;
    }
    const named = this.after.withKey(this.before.key(id));
    if (!named || !mayBeSame(row.tid, named.tid) || !mayBeSame(row.cpu, named.cpu)) return null;
    return named.id;
  }

  rows(ids: Iterable<number>): number[] {
    return [...ids].map((id) => this.row(id)).filter((id) => id !== null);
  }

  settings(settings: RowSettings): RowSettings {
    return {
      ...settings,
      collapsed: new Set(this.rows(settings.collapsed)),
      hidden: new Set(this.rows(settings.hidden)),
      pinned: this.rows(settings.pinned),
    };
  }

  notes(notes: readonly Note[]): Note[] {
    return notes.map((note) => ({
      ...note,
      t: note.t + this.shift,
      row: note.row === null ? null : this.row(note.row),
    }));
  }

  /** The parts of the scene that name rows, states and times. */
  scene({ selection, range, marks, notes }: Scene): Partial<Scene> {
    const row = selection && this.row(selection.row);
    const state = selection && this.state(selection.state);
    return {
      selection:
        selection && row !== null && state !== null
          ? { ...shifted(selection, this.shift), row, state }
          : null,
      range: range && { ...shifted(range, this.shift), rows: this.rows(range.rows) },
      marks: marks.map((mark) => mark + this.shift),
      notes: this.notes(notes),
    };
  }

  private state(id: number): number | null {
    const known = this.statesBefore[id];
    if (!known) return null;
    const found = this.statesAfter.findIndex(
      (state) => state.name === known.name && state.class === known.class,
    );
    return found < 0 ? null : found;
  }
}

/** The kind of a row with its thread or CPU, and its host; null if it has neither of them. */
function numberOf(tree: RowTree, { id, kind, tid, cpu }: Row): string | null {
  if (tid === null && cpu === null) return null;
  const host = tree.ancestors(id).find((ancestor) => tree.row(ancestor)?.kind === 'host');
  return [host === undefined ? '' : tree.key(host), kind, tid, cpu].join(' ');
}

/** The rows by their numbers; null where several have the same, such as a CPU's interrupts. */
function numbered(tree: RowTree): Map<string, Row | null> {
  const rows = new Map<string, Row | null>();
  for (const row of tree.rows) {
    const number = numberOf(tree, row);
    if (number !== null) rows.set(number, rows.has(number) ? null : row);
  }
  return rows;
}

function mayBeSame(one: number | null, other: number | null): boolean {
  return one === null || other === null || one === other;
}

// What the user has set, for rows and states with new ids: when a recording that was followed has
// ended, it is read again, and rows and states get other ids. Rows are found by their names and
// those of their groups, states by their names.

import type { Note, Rows } from '../api/types.ts';
import { RowTree, type RowSettings } from '../timeline/row_tree.ts';
import type { Scene } from '../timeline/scene.ts';
import { shifted } from '../timeline/viewport.ts';

export class NewGeneration {
  private readonly before: RowTree;
  private readonly after: RowTree;
  private readonly statesBefore: Rows['states'];
  private readonly statesAfter: Rows['states'];
  /** What is added to times, because the trace's begin is another one. */
  private readonly shift: number;

  constructor(before: Rows, after: Rows, shift: number) {
    this.before = new RowTree(before.rows);
    this.after = new RowTree(after.rows);
    this.statesBefore = before.states;
    this.statesAfter = after.states;
    this.shift = shift;
  }

  /** The row that has this id before; null if there is no such row any more. */
  row(id: number): number | null {
    const key = this.before.key(id);
    return key === '' ? null : (this.after.withKey(key)?.id ?? null);
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

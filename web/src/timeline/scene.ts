// What the timeline shows in addition to the states: selections, marks, notes. The viewer owns the scene
// and changes it; the timeline draws it.

import type { Note, PacketPlace } from '../api/types.ts';
import type { TimeDisplay } from './time_format.ts';
import type { View } from './viewport.ts';

/** A selected state of a row. */
export interface SelectedState extends View {
  row: number;
  state: number;
  /** In a row with values. */
  value?: number;
}

/** A selected range of time on some rows. */
export interface SelectedRange extends View {
  rows: number[];
}

export interface Scene {
  selection: SelectedState | null;
  range: SelectedRange | null;
  /** Times that the user marked. */
  marks: number[];
  notes: Note[];
  /** Names of the states of the critical path that are highlighted. */
  highlight: ReadonlySet<string> | null;
  /** The rows that a packet passes; drawn as long as the packet is selected. */
  chain: { row: number; time: number; places: PacketPlace[] } | null;
  /** Where the verdict's evidence is. */
  evidence: View | null;
  timeDisplay: TimeDisplay;
  originNs: bigint;
}

export function emptyScene(): Scene {
  return {
    selection: null,
    range: null,
    marks: [],
    notes: [],
    highlight: null,
    chain: null,
    evidence: null,
    timeDisplay: 'relative',
    originNs: 0n,
  };
}

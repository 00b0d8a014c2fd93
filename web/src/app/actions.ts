// What the user can do, apart from moving the view by mouse: selections, steps along a row and
// along the critical path, marks and notes. Keys, the command palette and buttons call these.

import type { ExactState, PathSegment } from '../api/types.ts';
import { isGroupHead, type LayoutRow } from '../timeline/row_tree.ts';
import { span, type View } from '../timeline/viewport.ts';
import { viewer } from './viewer.svelte.ts';

const STATES_PER_REQUEST = 2000;
const SEGMENTS_PER_REQUEST = 1000;
/** Distance in which the next segment of the path is looked for at first. */
const FIRST_REACH_NS = 100_000;

function guard(action: Promise<void>): void {
  action.catch((error) => viewer.fail(error));
}

/** Selects the state of a row at a time, or if there is none the nearest within `reach` ns. */
export function selectAt(row: number, time: number, reach: number): void {
  guard(
    (async () => {
      const { client } = viewer;
      if (!client) return;
      const at = Math.max(0, Math.floor(time));
      const exact = (await client.states(row, at, at + 1, 1)).states[0];
      if (exact) return select(row, exact);
      const begin = Math.max(0, Math.floor(time - reach));
      const { states } = await client.states(row, begin, Math.ceil(time + reach), 200);
      const nearest = states.sort((a, b) => distance(a, time) - distance(b, time))[0];
      if (nearest) select(row, nearest);
      else viewer.changeScene({ selection: null });
    })(),
  );
}

function distance(state: ExactState, time: number): number {
  return Math.max(state.begin - time, time - state.end, 0);
}

export function select(row: number, state: ExactState): void {
  viewer.changeScene({ selection: { row, ...state } });
  viewer.focusedRow = row;
  viewer.panel = 'details';
}

/** Selects a state and moves the view only if the state is not in it. */
function selectAndFollow(row: number, state: ExactState): void {
  select(row, state);
  follow(state);
  viewer.revealRow(row);
}

/** Pans so that an interval is in view; the width of the view stays. */
function follow(interval: View): void {
  const { timeline } = viewer;
  if (!timeline) return;
  const { view } = timeline;
  if (interval.end > view.begin && interval.begin < view.end && span(interval) > span(view)) return;
  if (interval.begin >= view.begin && interval.end <= view.end) return;
  viewer.userMoved = true;
  const middle = span(interval) > span(view) ? interval.begin : (interval.begin + interval.end) / 2;
  timeline.setView({ begin: middle - span(view) / 2, end: middle + span(view) / 2 });
}

/** Selects the next (1) or previous (-1) state of the row of the selection. */
export function stepInRow(direction: 1 | -1): void {
  guard(
    (async () => {
      const { client, trace } = viewer;
      const { selection } = viewer.scene;
      if (!client || !trace) return;
      if (!selection) return selectFocusedRow();
      const next =
        direction === 1
          ? await firstAfter(selection.row, selection.end, trace.end)
          : await lastBefore(selection.row, selection.begin, span(selection));
      if (next) selectAndFollow(selection.row, next);
    })(),
  );
}

async function firstAfter(row: number, time: number, end: number): Promise<ExactState | null> {
  const { states } = await viewer.client!.states(row, time, end, 2);
  return states.find((state) => state.begin >= time) ?? null;
}

/** The last state that ends at `time` or before: looked for in ever longer parts before it. */
async function lastBefore(row: number, time: number, first: number): Promise<ExactState | null> {
  let reach = Math.max(first, 1000);
  for (let end = time; end > 0; reach *= 8) {
    let begin = Math.max(0, end - reach);
    let found: ExactState | null = null;
    for (;;) {
      const { states, more } = await viewer.client!.states(row, begin, end, STATES_PER_REQUEST);
      found = states.filter((state) => state.begin < time).at(-1) ?? found;
      if (!more || states.length === 0) break;
      begin = states[states.length - 1].end;
    }
    if (found) return found;
    end = Math.max(0, end - reach);
  }
  return null;
}

/** Selects the state of the focused row (or the first visible one) in the middle of the view. */
export function selectFocusedRow(): void {
  const { timeline, focusedRow, layout } = viewer;
  if (!timeline) return;
  const focused = focusedRow === null ? null : viewer.tree.visible(layout, focusedRow);
  const entry = focused && !focused.head ? focused : layout.rows.find((row) => !row.head);
  if (!entry) return;
  const { view } = timeline;
  selectAt(entry.row.id, (view.begin + view.end) / 2, span(view) / 2);
}

/** Selects the next (1) or previous (-1) segment of the critical path. */
export function stepOnPath(direction: 1 | -1): void {
  guard(
    (async () => {
      const { client, trace, timeline } = viewer;
      if (!client || !trace || !timeline) return;
      const { selection } = viewer.scene;
      const { view } = timeline;
      const anchor = selection ?? { begin: view.begin, end: (view.begin + view.end) / 2 };
      const segment =
        direction === 1
          ? await segmentAfter(anchor.end, trace.end)
          : await segmentBefore(anchor.begin);
      if (segment) selectSegment(segment);
    })(),
  );
}

/** The first segment of a row that begins at `time` or later. Links have no row, so a step goes
 * over them. */
async function segmentAfter(time: number, end: number): Promise<PathSegment | null> {
  let reach = FIRST_REACH_NS;
  for (let begin = time; begin < end; ) {
    const until = Math.min(end, begin + reach);
    const segments = await exactSegments(begin, until);
    if (!segments) {
      reach = Math.ceil(reach / 4);
      continue;
    }
    const found = segments.find((s) => s.row !== null && s.end > time);
    if (found) return found;
    begin = until;
    reach *= 8;
  }
  return null;
}

/** The last segment of a row that begins before `time`. */
async function segmentBefore(time: number): Promise<PathSegment | null> {
  let reach = FIRST_REACH_NS;
  for (let end = time; end > 0; ) {
    const from = Math.max(0, end - reach);
    const segments = await exactSegments(from, end);
    if (!segments) {
      reach = Math.ceil(reach / 4);
      continue;
    }
    const found = segments.filter((s) => s.row !== null && s.begin < time).at(-1);
    if (found) return found;
    end = from;
    reach *= 8;
  }
  return null;
}

/** The segments of a range; null if some were joined because there are too many. */
async function exactSegments(begin: number, end: number): Promise<PathSegment[] | null> {
  const { segments, more } = await viewer.client!.path(begin, end, SEGMENTS_PER_REQUEST);
  return more && end - begin > 1 ? null : segments;
}

function selectSegment(segment: PathSegment): void {
  if (segment.row === null) return;
  const { begin, end, state } = segment;
  selectAndFollow(segment.row, { begin, end, state });
}

/** Selects the segment of the path at a time, for a click on its lane. */
export function selectOnPath(time: number): void {
  guard(
    (async () => {
      const at = Math.floor(time);
      const { segments } = (await viewer.client?.path(at, at + 1, 10)) ?? { segments: [] };
      if (segments[0]) selectSegment(segments[0]);
    })(),
  );
}

/** Ids of the rows with states among the given rows; a head counts with all of its rows. */
export function leavesOf(rows: readonly LayoutRow[] | null): number[] {
  const { layout, tree } = viewer;
  const ids = new Set<number>();
  for (const entry of rows ?? [...layout.pinned, ...layout.rows]) {
    // The rows of an expanded head were dragged over themselves, or were not meant.
    if (!isGroupHead(entry.row)) ids.add(entry.row.id);
    else if (entry.collapsed || rows?.length === 1) {
      for (const leaf of tree.leaves(entry.index)) ids.add(leaf);
    }
  }
  return [...ids];
}

export function selectRange(interval: View, rows: readonly LayoutRow[] | null): void {
  viewer.changeScene({ range: { ...interval, rows: leavesOf(rows) } });
  viewer.panel = 'details';
}

export function fit(): void {
  if (!viewer.trace) return;
  viewer.userMoved = true;
  viewer.timeline?.setView({ begin: 0, end: viewer.trace.end });
}

/** Zooms to the range, or to the selected state. */
export function zoomToSelection(): void {
  const { range, selection } = viewer.scene;
  const interval = range ?? selection;
  if (interval) viewer.show(interval, null, range ? 0.02 : 0.5);
}

export function back(): void {
  restore(viewer.history.back());
}

export function forward(): void {
  restore(viewer.history.forward());
}

function restore(place: { view: View; scroll: number } | null): void {
  if (!place || !viewer.timeline) return;
  viewer.userMoved = true;
  viewer.timeline.setView(place.view);
  viewer.timeline.setScroll(place.scroll);
}

/** Sets a mark at the pointer, the selection or the middle; a mark that is there goes away. */
export function toggleMark(time: number | null): void {
  const { view, scene } = viewer;
  const at = Math.round(time ?? scene.selection?.begin ?? (view.begin + view.end) / 2);
  const near = scene.marks.find((mark) => Math.abs(mark - at) < span(view) / 200);
  const marks =
    near === undefined
      ? [...scene.marks, at].sort((a, b) => a - b)
      : scene.marks.filter((mark) => mark !== near);
  viewer.changeScene({ marks });
}

/** Highlights a state of the path's table, or ends it if it was highlighted. */
export function highlight(name: string): void {
  viewer.setHighlight(viewer.highlight === name ? null : name);
}

/** Esc: closes what is open, then clears the range, the selection, the highlight. */
export function escape(): void {
  const { scene } = viewer;
  if (viewer.dialog) viewer.dialog = null;
  else if (scene.range) viewer.changeScene({ range: null });
  else if (scene.selection) viewer.changeScene({ selection: null });
  else if (viewer.highlight !== null) viewer.setHighlight(null);
  else if (viewer.panel !== 'states') viewer.panel = 'states';
}

export function toggleCollapsed(id: number): void {
  const collapsed = new Set(viewer.settings.collapsed);
  if (!collapsed.delete(id)) collapsed.add(id);
  viewer.changeSettings({ collapsed });
}

export function togglePinned(id: number): void {
  const { pinned } = viewer.settings;
  viewer.changeSettings({
    pinned: pinned.includes(id) ? pinned.filter((other) => other !== id) : [...pinned, id],
  });
}

export function hideRow(id: number): void {
  viewer.changeSettings({ hidden: new Set([...viewer.settings.hidden, id]) });
}

export function showHiddenRows(): void {
  viewer.changeSettings({ hidden: new Set() });
}

export function collapseAll(collapse: boolean): void {
  const heads = viewer.rows.rows.filter((row) => row.kind !== 'host' && isGroupHead(row));
  const collapsed = new Set(collapse ? heads.map((row) => row.id) : []);
  viewer.changeSettings({ collapsed });
}

export async function saveNotes(notes: typeof viewer.scene.notes): Promise<void> {
  const sorted = [...notes].sort((a, b) => a.t - b.t);
  await viewer.client?.saveNotes(sorted);
  viewer.changeScene({ notes: sorted });
}

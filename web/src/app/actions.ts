// What the user can do, apart from moving the view by mouse: selections, steps along a row and
// along the critical path, marks and notes, alignments. Keys, the command palette and buttons call
// these. What is about one trace is about the active one.

import type { TraceClient } from '../api/client.ts';
import type { ExactState, Note, PathSegment } from '../api/types.ts';
import { isGroupHead, type LayoutRow } from '../timeline/row_tree.ts';
import { span, type View } from '../timeline/viewport.ts';
import { page } from './page.svelte.ts';
import type { Viewer } from './viewer.svelte.ts';

const STATES_PER_REQUEST = 2000;
const SEGMENTS_PER_REQUEST = 1000;
/** Distance in which the next segment of the path is looked for at first. */
const FIRST_REACH_NS = 100_000;

function guard(action: Promise<void>): void {
  action.catch((error) => page.fail(error));
}

/** Selects the state of a row at a time, or if there is none the nearest within `reach` ns. */
export function selectAt(row: number, time: number, reach: number): void {
  const viewer = page.active;
  guard(
    (async () => {
      const { client } = viewer;
      if (!client) return;
      const at = Math.max(0, Math.floor(time));
      const exact = (await client.states(row, at, at + 1, 1)).states[0];
      if (exact) return select(viewer, row, exact);
      const begin = Math.max(0, Math.floor(time - reach));
      const { states } = await client.states(row, begin, Math.ceil(time + reach), 200);
      const nearest = states.sort((a, b) => distance(a, time) - distance(b, time))[0];
      if (nearest) select(viewer, row, nearest);
      else viewer.changeScene({ selection: null });
    })(),
  );
}

function distance(state: ExactState, time: number): number {
  return Math.max(state.begin - time, time - state.end, 0);
}

export function select(viewer: Viewer, row: number, state: ExactState): void {
  viewer.changeScene({ selection: { row, ...state } });
  viewer.focusedRow = row;
  page.panel = 'details';
}

/** Selects a state and moves the view only if the state is not in it. */
function selectAndFollow(viewer: Viewer, row: number, state: ExactState): void {
  select(viewer, row, state);
  follow(viewer, state);
  viewer.revealRow(row);
}

/** Pans so that an interval is in view; the width of the view stays. */
function follow({ timeline }: Viewer, interval: View): void {
  if (!timeline) return;
  const { view } = timeline;
  if (interval.end > view.begin && interval.begin < view.end && span(interval) > span(view)) return;
  if (interval.begin >= view.begin && interval.end <= view.end) return;
  page.userMoved = true;
  const middle = span(interval) > span(view) ? interval.begin : (interval.begin + interval.end) / 2;
  timeline.setView({ begin: middle - span(view) / 2, end: middle + span(view) / 2 });
}

/** Shows a moment: the state in which the row was just before, or without one the time alone. */
export function showMoment(t: number, row: number | null): void {
  const viewer = page.active;
  guard(
    (async () => {
      const { client } = viewer;
      if (!client) return;
      // Events may be earlier than the first state.
      const at = Math.max(0, t);
      const begin = Math.max(0, at - 1);
      const answer = row === null ? null : await client.states(row, begin, at + 1, 1);
      if (client !== viewer.client) return;
      const state = answer?.states[0];
      if (row !== null && state) selectAndFollow(viewer, row, state);
      else follow(viewer, { begin: at, end: at + 1 });
    })(),
  );
}

/** Selects the next (1) or previous (-1) state of the row of the selection. */
export function stepInRow(direction: 1 | -1): void {
  const viewer = page.active;
  guard(
    (async () => {
      const { client, trace } = viewer;
      const { selection } = viewer.scene;
      if (!client || !trace) return;
      if (!selection) return selectFocusedRow();
      const next =
        direction === 1
          ? await firstAfter(client, selection.row, selection.end, trace.end)
          : await lastBefore(client, selection.row, selection.begin, span(selection));
      if (next) selectAndFollow(viewer, selection.row, next);
    })(),
  );
}

/** Selects the first state of the next (1), or the last one of the previous (-1) execution of the
 * selected thread. `current` is the one of the selection; null if the thread is not on a CPU. */
export function stepInstance(direction: 1 | -1, current: View | null): void {
  const viewer = page.active;
  guard(
    (async () => {
      const { client, trace } = viewer;
      const { selection } = viewer.scene;
      if (!client || !trace || !selection) return;
      const { row } = selection;
      let place: View = current ?? selection;
      for (;;) {
        const state =
          direction === 1
            ? await firstAfter(client, row, place.end, trace.end)
            : await lastBefore(client, row, place.begin, span(place));
        if (!state || client !== viewer.client) return;
        const kind = viewer.rows.states[state.state]?.class;
        if (kind === 'running' || kind === 'call') return selectAndFollow(viewer, row, state);
        place = state;
      }
    })(),
  );
}

async function firstAfter(
  client: TraceClient,
  row: number,
  time: number,
  end: number,
): Promise<ExactState | null> {
  const { states } = await client.states(row, time, end, 2);
  return states.find((state) => state.begin >= time) ?? null;
}

/** The last state that ends at `time` or before: looked for in ever longer parts before it. */
async function lastBefore(
  client: TraceClient,
  row: number,
  time: number,
  first: number,
): Promise<ExactState | null> {
  let reach = Math.max(first, 1000);
  for (let end = time; end > 0; reach *= 8) {
    let begin = Math.max(0, end - reach);
    let found: ExactState | null = null;
    for (;;) {
      const { states, more } = await client.states(row, begin, end, STATES_PER_REQUEST);
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
  const viewer = page.active;
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
  const viewer = page.active;
  guard(
    (async () => {
      const { client, trace, timeline } = viewer;
      if (!client || !trace || !timeline) return;
      const { selection } = viewer.scene;
      const { view } = timeline;
      const anchor = selection ?? { begin: view.begin, end: (view.begin + view.end) / 2 };
      const segment =
        direction === 1
          ? await segmentAfter(client, anchor.end, trace.end)
          : await segmentBefore(client, anchor.begin);
      if (segment) selectSegment(viewer, segment);
    })(),
  );
}

/** The first segment of a row that begins at `time` or later. Links have no row, so a step goes
 * over them. */
async function segmentAfter(
  client: TraceClient,
  time: number,
  end: number,
): Promise<PathSegment | null> {
  let reach = FIRST_REACH_NS;
  for (let begin = time; begin < end; ) {
    const until = Math.min(end, begin + reach);
    const segments = await exactSegments(client, begin, until);
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
async function segmentBefore(client: TraceClient, time: number): Promise<PathSegment | null> {
  let reach = FIRST_REACH_NS;
  for (let end = time; end > 0; ) {
    const from = Math.max(0, end - reach);
    const segments = await exactSegments(client, from, end);
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
async function exactSegments(
  client: TraceClient,
  begin: number,
  end: number,
): Promise<PathSegment[] | null> {
  const { segments, more } = await client.path(begin, end, SEGMENTS_PER_REQUEST);
  return more && end - begin > 1 ? null : segments;
}

function selectSegment(viewer: Viewer, segment: PathSegment): void {
  if (segment.row === null) return;
  const { begin, end, state } = segment;
  selectAndFollow(viewer, segment.row, { begin, end, state });
}

/** Selects the segment of the path at a time, for a click on its lane. */
export function selectOnPath(time: number): void {
  const viewer = page.active;
  guard(
    (async () => {
      const at = Math.floor(time);
      const { segments } = (await viewer.client?.path(at, at + 1, 10)) ?? { segments: [] };
      if (segments[0]) selectSegment(viewer, segments[0]);
    })(),
  );
}

/** Ids of the rows with states among the given rows; a head counts with all of its rows. */
export function leavesOf(rows: readonly LayoutRow[] | null): number[] {
  const { layout, tree } = page.active;
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
  page.active.changeScene({ range: { ...interval, rows: leavesOf(rows) } });
  page.panel = 'details';
}

export function fit(): void {
  page.userMoved = true;
  page.axis.showAll();
}

/** Zooms to the range, or to the selected state. */
export function zoomToSelection(): void {
  const { range, selection } = page.active.scene;
  const interval = range ?? selection;
  if (interval) page.active.show(interval, null, range ? 0.02 : 0.5);
}

export function back(): void {
  page.restore(page.history.back());
}

export function forward(): void {
  page.restore(page.history.forward());
}

/** Time of the active trace at the pointer; null if it is not on a timeline. */
function pointerTime(): number | null {
  return page.pointerTime === null ? null : page.pointerTime - (page.active.timeline?.offset ?? 0);
}

/** Time for a note: at the pointer, the selection, or the middle of the view. */
export function noteTime(): number {
  const { view, scene } = page.active;
  return Math.round(pointerTime() ?? scene.selection?.begin ?? (view.begin + view.end) / 2);
}

/** Sets a mark at the pointer, the selection or the middle; a mark that is there goes away. */
export function toggleMark(): void {
  const { view, scene } = page.active;
  const at = noteTime();
  const near = scene.marks.find((mark) => Math.abs(mark - at) < span(view) / 200);
  const marks =
    near === undefined
      ? [...scene.marks, at].sort((a, b) => a - b)
      : scene.marks.filter((mark) => mark !== near);
  page.active.changeScene({ marks });
}

/** Highlights a state of the path's table, or ends it if it was highlighted. */
export function highlight(name: string): void {
  page.setHighlight(page.highlight === name ? null : name);
}

/** Esc: closes what is open, then clears the range, the selection, the highlight, and ends the
 * comparison. */
export function escape(): void {
  const viewers = [page.active, ...page.viewers];
  const viewer = viewers.find(({ scene }) => scene.range ?? scene.selection) ?? page.active;
  const { range, selection } = viewer.scene;
  const panel = page.comparison ? 'changes' : 'states';
  if (page.dialog) page.dialog = null;
  else if (range) viewer.changeScene({ range: null });
  else if (selection) viewer.changeScene({ selection: null });
  else if (page.highlight !== null) page.setHighlight(null);
  else if (page.panel !== panel) page.panel = panel;
  else page.endComparison();
}

/** Compares with another trace: with the only other one, or the one that is chosen from a list. */
export function compare(): void {
  guard(
    (async () => {
      await page.listTraces();
      const others = page.traces.filter((trace) => trace.id !== page.first.trace?.id);
      if (others.length === 1 && !page.comparison) page.compare(others[0]);
      else page.dialog = 'compare';
    })(),
  );
}

export function alignBegins(): void {
  page.comparison?.setOffset(0);
}

/** Aligns the selected states of both traces. */
export function alignSelections(): void {
  guard((async () => page.comparison?.alignSelections())());
}

/** Aligns the selected state of the active trace with the same one of the other. */
export function alignSame(): void {
  guard((async () => page.comparison?.alignSame(page.active))());
}

export function alignMatch(text: string, index: number): void {
  guard((async () => page.comparison?.alignMatch(page.active, text, index))());
}

/** Makes the other timeline of a comparison the active one, and gives it the keyboard. */
export function otherTimeline(): void {
  const { comparison } = page;
  if (!comparison) return;
  page.activate(comparison.otherThan(page.active));
  page.active.timeline?.element.focus();
}

export function toggleCollapsed(id: number): void {
  const viewer = page.active;
  const collapsed = new Set(viewer.settings.collapsed);
  if (!collapsed.delete(id)) collapsed.add(id);
  viewer.changeSettings({ collapsed });
}

export function togglePinned(id: number): void {
  const viewer = page.active;
  const { pinned } = viewer.settings;
  viewer.changeSettings({
    pinned: pinned.includes(id) ? pinned.filter((other) => other !== id) : [...pinned, id],
  });
}

export function hideRow(id: number): void {
  const viewer = page.active;
  viewer.changeSettings({ hidden: new Set([...viewer.settings.hidden, id]) });
}

export function showHiddenRows(): void {
  page.active.changeSettings({ hidden: new Set() });
}

export function collapseAll(collapse: boolean): void {
  const viewer = page.active;
  const heads = viewer.rows.rows.filter((row) => row.kind !== 'host' && isGroupHead(row));
  const collapsed = new Set(collapse ? heads.map((row) => row.id) : []);
  viewer.changeSettings({ collapsed });
}

export async function saveNotes(viewer: Viewer, notes: Note[]): Promise<void> {
  const sorted = [...notes].sort((a, b) => a.t - b.t);
  if (!viewer.notesRead) throw new Error('The notes of the trace are not read yet; try again.');
  await viewer.client?.saveNotes(sorted);
  viewer.changeScene({ notes: sorted });
}

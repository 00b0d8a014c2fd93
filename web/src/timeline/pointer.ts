// Mouse and touch on the timeline: drag selects a range, middle-drag pans, right-drag zooms into
// what was dragged over, the wheel scrolls, Ctrl+wheel zooms at the pointer, Shift+wheel pans.

import { HEADER_HEIGHT, rowAt, timeAt } from './frame.ts';
import type { LayoutRow } from './row_tree.ts';
import type { Timeline } from './timeline.ts';
import type { View } from './viewport.ts';

/** Movement from which a press is a drag and not a click, in pixels. */
const DRAG_PIXELS = 4;
const ZOOM_PER_WHEEL_PIXEL = 0.0022;
/** Pixels of a line and of a page, for wheels that count in these units. */
const WHEEL_UNITS = [1, 20, 400];

export interface PointerEvents {
  /** A click on a row, or on the lane of the critical path if `row` is null. */
  clicked(row: LayoutRow | null, time: number, y: number): void;
  /** A range is being selected, or was if `final`. Rows are those that were dragged over; null,
   * which means all, for a drag in the ruler, in the lane, or below the rows. */
  dragged(interval: View, rows: LayoutRow[] | null, final: boolean): void;
  hovered(place: { x: number; y: number; row: LayoutRow | null } | null): void;
  /** True if the plain wheel zooms instead of scrolling. */
  wheelZooms(): boolean;
}

type Gesture =
  | { kind: 'select' | 'zoom'; x: number; y: number; started: boolean }
  | { kind: 'pan'; x: number; y: number };

export function listenToPointer(timeline: Timeline, events: PointerEvents): () => void {
  const { element } = timeline;
  let gesture: Gesture | null = null;

  const place = (event: MouseEvent) => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  const interval = (from: number, to: number): View => {
    const frame = timeline.frame();
    const times = [timeAt(frame, from), timeAt(frame, to)].map(Math.round);
    return { begin: Math.max(Math.min(...times), 0), end: Math.max(...times, 1) };
  };

  const rowsBetween = (from: number, to: number): LayoutRow[] | null => {
    if (from < HEADER_HEIGHT) return null;
    const frame = timeline.frame();
    const [top, bottom] = [Math.min(from, to), Math.max(from, to)];
    const rows: LayoutRow[] = [];
    for (let y = Math.max(top, HEADER_HEIGHT); y <= bottom; y += 4) {
      const row = rowAt(frame, y);
      if (row && row !== rows[rows.length - 1]) rows.push(row);
    }
    const last = rowAt(frame, bottom);
    if (last && last !== rows[rows.length - 1]) rows.push(last);
    return rows.length > 0 ? rows : null;
  };

  const onDown = (event: PointerEvent) => {
    const { x, y } = place(event);
    if (event.button === 1) gesture = { kind: 'pan', x, y };
    else if (event.button === 2) gesture = { kind: 'zoom', x, y, started: false };
    else if (event.button === 0) gesture = { kind: 'select', x, y, started: false };
    else return;
    // Keeps the middle button from scrolling and a drag from selecting text.
    event.preventDefault();
    element.setPointerCapture(event.pointerId);
    element.focus({ preventScroll: true });
  };

  const onMove = (event: PointerEvent) => {
    const { x, y } = place(event);
    if (!gesture) {
      timeline.setPointer(x);
      events.hovered({ x, y, row: rowAt(timeline.frame(), y) });
      return;
    }
    if (gesture.kind === 'pan') {
      timeline.pan(gesture.x - x);
      timeline.setScroll(timeline.scroll + gesture.y - y);
      gesture = { kind: 'pan', x, y };
      return;
    }
    if (!gesture.started && Math.abs(x - gesture.x) < DRAG_PIXELS) return;
    gesture.started = true;
    timeline.setPointer(null);
    events.hovered(null);
    const rows = gesture.kind === 'zoom' ? null : rowsBetween(gesture.y, y);
    events.dragged(interval(gesture.x, x), rows, false);
  };

  const onUp = (event: PointerEvent) => {
    const ended = gesture;
    gesture = null;
    if (!ended || ended.kind === 'pan') return;
    const { x, y } = place(event);
    if (ended.kind === 'zoom') {
      events.dragged({ begin: 0, end: 0 }, null, true);
      if (ended.started) timeline.setView(interval(ended.x, x));
    } else if (ended.started) {
      events.dragged(interval(ended.x, x), rowsBetween(ended.y, y), true);
    } else {
      const frame = timeline.frame();
      events.clicked(rowAt(frame, y), timeAt(frame, x), y);
    }
  };

  const onCancel = () => {
    gesture = null;
  };

  const onLeave = () => {
    timeline.setPointer(null);
    events.hovered(null);
  };

  const onWheel = (event: WheelEvent) => {
    event.preventDefault();
    const unit = WHEEL_UNITS[event.deltaMode] ?? 1;
    const { x } = place(event);
    const zooms = event.ctrlKey || event.metaKey || (events.wheelZooms() && !event.shiftKey);
    if (zooms) {
      timeline.zoom(Math.exp(event.deltaY * unit * ZOOM_PER_WHEEL_PIXEL), x);
    } else if (event.shiftKey) {
      timeline.pan((event.deltaX || event.deltaY) * unit);
    } else {
      if (event.deltaX !== 0) timeline.pan(event.deltaX * unit);
      if (event.deltaY !== 0) timeline.setScroll(timeline.scroll + event.deltaY * unit);
    }
  };

  const noMenu = (event: Event) => event.preventDefault();

  element.addEventListener('pointerdown', onDown);
  element.addEventListener('pointermove', onMove);
  element.addEventListener('pointerup', onUp);
  element.addEventListener('pointercancel', onCancel);
  element.addEventListener('pointerleave', onLeave);
  element.addEventListener('wheel', onWheel, { passive: false });
  element.addEventListener('contextmenu', noMenu);
  return () => {
    element.removeEventListener('pointerdown', onDown);
    element.removeEventListener('pointermove', onMove);
    element.removeEventListener('pointerup', onUp);
    element.removeEventListener('pointercancel', onCancel);
    element.removeEventListener('pointerleave', onLeave);
    element.removeEventListener('wheel', onWheel);
    element.removeEventListener('contextmenu', noMenu);
  };
}

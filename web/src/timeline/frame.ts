// The geometry of one frame, which all drawing functions share. Coordinates are CSS pixels from the
// top left corner of the canvas: the ruler, the lane of the critical path, pinned rows, rows.

import type { State } from '../api/types.ts';
import type { Palette } from './palette.ts';
import {
  firstRowAt,
  LANE_HEIGHT,
  type Layout,
  type LayoutRow,
  type RowTree,
} from './row_tree.ts';
import type { Scene } from './scene.ts';
import { pixelToTime, timeToPixel, type View } from './viewport.ts';

export const RULER_HEIGHT = 26;
export const HEADER_HEIGHT = RULER_HEIGHT + LANE_HEIGHT;

export interface Frame {
  width: number;
  height: number;
  ratio: number;
  view: View;
  layout: Layout;
  tree: RowTree;
  states: readonly State[];
  palette: Palette;
  scene: Scene;
  scroll: number;
  /** Heads that stay at the top, and their height. */
  sticky: readonly LayoutRow[];
  stickyHeight: number;
  /** Top of the rows that scroll, below the pinned ones. */
  rowsTop: number;
}

/** A row with the place that it has on the canvas. */
export interface PlacedRow {
  entry: LayoutRow;
  y: number;
}

/** The y of a row, which may be outside of the canvas or behind the sticky heads. */
export function rowY(frame: Frame, entry: LayoutRow): number {
  if (entry.pinned) return HEADER_HEIGHT + entry.top;
  const stuck = frame.sticky.indexOf(entry);
  if (stuck >= 0) {
    let y = frame.rowsTop;
    for (let i = 0; i < stuck; i++) y += frame.sticky[i].height;
    return y;
  }
  return frame.rowsTop + entry.top - frame.scroll;
}

/** Rows that are in view, without the sticky heads; the path and the pinned ones first. */
export function visibleRows(frame: Frame): PlacedRow[] {
  const placed: PlacedRow[] = [];
  const { path } = frame.layout;
  if (path) placed.push({ entry: path, y: HEADER_HEIGHT + path.top });
  for (const entry of frame.layout.pinned) placed.push({ entry, y: HEADER_HEIGHT + entry.top });
  const { rows } = frame.layout;
  for (let i = firstRowAt(rows, frame.scroll + frame.stickyHeight); i < rows.length; i++) {
    const y = frame.rowsTop + rows[i].top - frame.scroll;
    if (y >= frame.height) break;
    placed.push({ entry: rows[i], y });
  }
  return placed;
}

export function rowAt(frame: Frame, y: number): LayoutRow | null {
  if (y < HEADER_HEIGHT) return null;
  if (y < frame.rowsTop) {
    return frame.layout.pinned[firstRowAt(frame.layout.pinned, y - HEADER_HEIGHT)] ?? null;
  }
  if (y < frame.rowsTop + frame.stickyHeight) {
    let bottom = frame.rowsTop;
    for (const head of frame.sticky) {
      bottom += head.height;
      if (y < bottom) return head;
    }
  }
  const at = y - frame.rowsTop + frame.scroll;
  return frame.layout.rows[firstRowAt(frame.layout.rows, at)] ?? null;
}

export function xOf(frame: Frame, time: number): number {
  return timeToPixel(frame.view, frame.width, time);
}

export function timeAt(frame: Frame, x: number): number {
  return pixelToTime(frame.view, frame.width, x);
}

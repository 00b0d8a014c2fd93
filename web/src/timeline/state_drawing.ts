// Draws the states of the visible rows from cached tiles, and decides which tiles and rows are
// wanted. If tiles of the view's level are missing, those of other levels are drawn below, so that
// a zoom shows a coarse picture at once and a sharp one as soon as it arrives.

import { RULER_HEIGHT, type Frame, type PlacedRow } from './frame.ts';
import type { Pane, Renderer } from './renderer.ts';
import { firstRowAt, hasBar, LANE_HEIGHT, rowsAround, type LayoutRow } from './row_tree.ts';
import { TextDrawing } from './text_drawing.ts';
import type { Batch, TileCache } from './tile_cache.ts';
import type { WantedRows, WantedTile } from './tile_loader.ts';
import { findItem, itemAt, itemRanges } from './tiles.ts';
import { levelOf, tileSpan, tilesOf, timeToPixel, type View } from './viewport.ts';

/** Finer levels that may stand in for missing tiles: they cost more items per pixel. */
const FINER_LEVELS = 2;
/** Rows around the visible ones that are requested as well, so that scrolling shows them. */
const ROWS_AROUND = 40;
/** Part of the view on each side that is requested as well. */
const PADDING = 0.5;
/** Distance in bins at which the pointer still finds an item: about two pixels. */
const REACH_BINS = 4;

export class StateDrawing {
  private readonly texts = new TextDrawing();

  /** Returns false if another frame is necessary because this one had no budget for uploads. */
  draw(
    renderer: Renderer,
    context: CanvasRenderingContext2D,
    frame: Frame,
    rows: readonly PlacedRow[],
    cache: TileCache,
    length: number,
    grid: readonly number[],
    moving: boolean,
    frameNumber: number,
  ): boolean {
    renderer.begin();
    drawBackground(renderer, frame, rows, length, grid);
    const level = levelOf(frame.view, frame.width * frame.ratio);
    const tiles = tilesOf(frame.view, level, length, 0);
    const visible = new Set<number>();
    for (const { entry } of rows) if (hasBar(entry)) visible.add(entry.row.id);
    const groups = batchesByLevel(cache, frame.view, visible, level, length);
    let complete = true;
    for (const pane of panesOf(frame)) {
      renderer.beginPane(pane);
      for (const group of groups) {
        for (const batch of group) {
          batch.lastUsed = frameNumber;
          const width = frame.width * frame.ratio;
          const offset = timeToPixel(frame.view, width, batch.tile * tileSpan(batch.level));
          const scale = (2 ** batch.level / (frame.view.end - frame.view.begin)) * width;
          const ranges = itemRanges(
            batch.decoded,
            visible,
            (-1 - offset) / scale,
            (width + 1 - offset) / scale,
          );
          if (!renderer.draw(batch, ranges, { offset, scale })) complete = false;
        }
        renderer.endLevel();
      }
      renderer.end();
    }
    context.save();
    context.beginPath();
    const top = frame.rowsTop + frame.stickyHeight;
    context.rect(0, RULER_HEIGHT, frame.width, frame.rowsTop - RULER_HEIGHT);
    context.rect(0, top, frame.width, frame.height - top);
    context.clip();
    this.texts.draw(context, frame, rows, cache, level, tiles, moving);
    context.restore();
    return complete;
  }

  wantedTiles(view: View, level: number, length: number): WantedTile[] {
    const inView = tilesOf(view, level, length, 0);
    const padded = tilesOf(view, level, length, PADDING);
    const centre = (inView.first + inView.last) / 2;
    const tiles: number[] = [];
    for (let tile = padded.first; tile <= padded.last; tile++) tiles.push(tile);
    tiles.sort((a, b) => Math.abs(a - centre) - Math.abs(b - centre));
    return tiles.map((tile) => ({ level, tile }));
  }

  /** Rows with bars: the visible ones, and also those around them. */
  wantedRows(frame: Frame, placed: readonly PlacedRow[]): WantedRows {
    const urgent = new Set<number>();
    const groups = new Set<number>();
    const rows = new Set<number>();
    const add = (entry: LayoutRow) => {
      if (!hasBar(entry)) return;
      rows.add(entry.row.id);
      if (entry.head) groups.add(entry.row.id);
    };
    for (const { entry } of placed) {
      add(entry);
      if (hasBar(entry)) urgent.add(entry.row.id);
    }
    const first = firstRowAt(frame.layout.rows, frame.scroll);
    rowsAround(frame.layout.rows, first, placed.length, ROWS_AROUND).forEach(add);
    return { rows: [...rows], urgent, groups };
  }

  /** The item of a row at a time, with times in ns. */
  itemAt(cache: TileCache, level: number, row: number, time: number) {
    const width = tileSpan(level);
    const tile = Math.floor(time / width);
    const cached = cache.row(level, tile, row);
    if (!cached) return null;
    const { decoded } = cached.batch;
    const bin = time / 2 ** level - tile * (width / 2 ** level);
    const index = findItem(decoded, cached.items, bin, REACH_BINS);
    if (index < 0) return null;
    const item = itemAt(decoded, index);
    const begin = tile * width;
    return {
      ...item,
      begin: begin + item.begin * 2 ** level,
      end: begin + item.end * 2 ** level,
      exact: cached.items.exact,
      group: cached.items.group,
    };
  }
}

/** The parts of the canvas with pinned rows and with rows that scroll, in device pixels. */
function panesOf(frame: Frame): Pane[] {
  const { ratio } = frame;
  const panes: Pane[] = [];
  if (frame.layout.path || frame.layout.pinned.length > 0) {
    // The lane of the critical path is above the pinned rows, whose tops count from the header.
    panes.push({
      top: RULER_HEIGHT * ratio,
      height: (LANE_HEIGHT + frame.layout.pinnedHeight) * ratio,
      scroll: -LANE_HEIGHT * ratio,
      pinned: true,
    });
  }
  const top = frame.rowsTop + frame.stickyHeight;
  panes.push({
    top: top * ratio,
    height: Math.max(0, frame.height - top) * ratio,
    scroll: (frame.scroll + frame.stickyHeight) * ratio,
    pinned: false,
  });
  return panes;
}

function drawBackground(
  renderer: Renderer,
  frame: Frame,
  rows: readonly PlacedRow[],
  length: number,
  grid: readonly number[],
): void {
  const { ratio, palette, view, width, height } = frame;
  const fill = (x: number, y: number, w: number, h: number, colour: readonly number[]) =>
    renderer.fill(x * ratio, y * ratio, w * ratio, h * ratio, colour);
  fill(0, 0, width, height, palette.background);
  for (const { entry, y } of rows) if (entry.head) fill(0, y, width, entry.height, palette.head);
  for (const time of grid) {
    fill(Math.round(timeToPixel(view, width, time)), 0, 1, height, palette.grid);
  }
  // What is before the begin and after the end of the trace was not recorded.
  const begin = timeToPixel(view, width, 0);
  const end = timeToPixel(view, width, length);
  if (begin > 0) fill(0, 0, begin, height, palette.grid);
  if (end < width) fill(Math.max(end, 0), 0, width - Math.max(end, 0), height, palette.grid);
  let y = frame.rowsTop;
  for (const head of frame.sticky) {
    fill(0, y, width, head.height, palette.head);
    y += head.height;
  }
}

/** Batches to draw, the level of the view last. If it is incomplete, one other level is drawn below
 * it: more would cost more than they show. */
function batchesByLevel(
  cache: TileCache,
  view: View,
  visible: ReadonlySet<number>,
  level: number,
  length: number,
): Batch[][] {
  const levels = new Map<number, Batch[]>();
  for (const batch of cache.batches()) {
    const begin = batch.tile * tileSpan(batch.level);
    if (begin >= view.end || begin + tileSpan(batch.level) <= view.begin) continue;
    if (!batch.decoded.rows.some((items) => visible.has(items.row))) continue;
    const group = levels.get(batch.level);
    if (group) group.push(batch);
    else levels.set(batch.level, [batch]);
  }
  const own = levels.get(level) ?? [];
  const covers = (other: number) =>
    isComplete(cache, visible, other, tilesOf(view, other, length, 0));
  if (covers(level)) return [own];
  const others = [...levels.keys()]
    .filter((other) => other !== level && other >= level - FINER_LEVELS)
    .sort((a, b) => Math.abs(a - level) - Math.abs(b - level));
  const below = others.find(covers) ?? others.find((other) => other > level) ?? others[0];
  return below === undefined ? [own] : [levels.get(below)!, own];
}

function isComplete(
  cache: TileCache,
  rows: ReadonlySet<number>,
  level: number,
  tiles: { first: number; last: number },
): boolean {
  for (let tile = tiles.first; tile <= tiles.last; tile++) {
    const cached = cache.rowsOf(level, tile);
    if (!cached) return false;
    for (const row of rows) if (!cached.has(row)) return false;
  }
  return true;
}

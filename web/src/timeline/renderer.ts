// What the timeline needs of a renderer of rectangles. There are two: WebGL2 (gl_renderer.ts), and
// a 2D canvas for machines without it (canvas_renderer.ts). Both draw the same picture from the
// same tiles: below the text canvas, in device pixels.

import type { Palette, StateLook } from './palette.ts';
import type { Layout } from './row_tree.ts';
import type { Batch } from './tile_cache.ts';
import type { ItemRange } from './tiles.ts';

/** Distance of a bar from the border of its row, in CSS pixels. */
export const BAR_INSET = 2;
/** Height of the tick that shows a worse state than the dominant one. */
export const TICK_HEIGHT = 5;
/** Width of the tick of an event that is shorter than a pixel. */
export const TICK_WIDTH = 2;
/** Thickness of the line of a row with values. */
export const VALUE_LINE = 1.5;
/** Height of the strip that shows the part on the critical path. */
export const PATH_HEIGHT = 2;
/** Height from which the bar of a group has this strip. */
export const STRIP_FROM = 6;

/** Which part of the canvas a group of rows has, in device pixels. */
export interface Pane {
  top: number;
  height: number;
  /** Offset of the rows' own coordinates. */
  scroll: number;
  pinned: boolean;
}

/** Position of a tile on the time axis, in device pixels. */
export interface TileTransform {
  offset: number;
  scale: number;
}

/** Numbers of rows in the renderer's table. A row keeps its slot while the trace grows, although
 * its place in the list of rows may change. */
export class RowSlots {
  private readonly slots = new Map<number, number>();

  get count(): number {
    return this.slots.size;
  }

  /** The slot of a row, by its id. */
  of(row: number): number {
    let slot = this.slots.get(row);
    if (slot === undefined) {
      slot = this.slots.size;
      this.slots.set(row, slot);
    }
    return slot;
  }
}

export interface Renderer {
  resize(width: number, height: number, ratio: number): void;
  setStates(looks: readonly StateLook[], palette: Palette): void;
  setLayout(layout: Layout): void;
  /** Begins a frame and clears the canvas. */
  begin(): void;
  fill(x: number, y: number, width: number, height: number, colour: readonly number[]): void;
  /** Begins to draw tiles into a pane; what was drawn before is below. */
  beginPane(pane: Pane): void;
  /** Draws parts of a batch. Returns false if it was not uploaded because the frame has no budget
   * left. */
  draw(batch: Batch, ranges: readonly ItemRange[], transform: TileTransform): boolean;
  /** Ends the drawing of one level: bars and ticks of the next one cover those of this one. */
  endLevel(): void;
  end(): void;
  forget(batch: Batch): void;
  dispose(): void;
}

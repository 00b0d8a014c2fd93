// Draws tiles on a 2D canvas, for browsers without WebGL2 (some virtual machines). The picture is
// that of gl_renderer.ts, but each visible item costs a call, so it is slower.

import { CLASSES, css, mix, type Palette, type StateLook } from './palette.ts';
import {
  BAR_INSET,
  PATH_HEIGHT,
  STRIP_FROM,
  TICK_HEIGHT,
  TICK_WIDTH,
  VALUE_LINE,
  type Pane,
  type Renderer,
  type TileTransform,
} from './renderer.ts';
import { hasPackets, type Layout, type LayoutRow } from './row_tree.ts';
import type { Batch } from './tile_cache.ts';
import type { DecodedTile, ItemRange } from './tiles.ts';

const RUNNING = CLASSES.indexOf('running');
const UNKNOWN = CLASSES.indexOf('unknown');
const LOST = CLASSES.indexOf('lost');

interface StateStyle {
  fill: string | CanvasPattern;
  classIndex: number;
}

interface Tick {
  x: number;
  y: number;
  width: number;
  style: StateStyle;
}

export class CanvasRenderer implements Renderer {
  private readonly context: CanvasRenderingContext2D;
  private styles: StateStyle[] = [];
  private pathColour = '#000';
  /** Of the line or band, and of the area below it. */
  private valueColours: readonly [string, string] = ['#000', '#888'];
  private rows = new Map<number, LayoutRow>();
  private pane: Pane = { top: 0, height: 0, scroll: 0, pinned: false };
  private ticks: Tick[] = [];
  private width = 1;
  private ratio = 1;

  constructor(canvas: HTMLCanvasElement) {
    this.context = canvas.getContext('2d', { alpha: false })!;
  }

  resize(width: number, _height: number, ratio: number): void {
    this.width = width;
    this.ratio = ratio;
  }

  setStates(looks: readonly StateLook[], palette: Palette): void {
    const hatch = this.pattern(css(palette.classes.unknown), css(palette.background), 6);
    const stripes = this.pattern('#000', css(palette.classes.lost), 8);
    this.styles = looks.map(({ colour, classIndex }) => ({
      fill: classIndex === UNKNOWN ? hatch : classIndex === LOST ? stripes : css(colour),
      classIndex,
    }));
    this.pathColour = css(palette.path);
    this.valueColours = [css(palette.value), css(mix(palette.value, palette.background, 0.6))];
  }

  setLayout(layout: Layout): void {
    this.rows = new Map([...layout.byIndex.values()].map((entry) => [entry.row.id, entry]));
  }

  begin(): void {}

  fill(x: number, y: number, width: number, height: number, colour: readonly number[]): void {
    this.context.fillStyle = `rgb(${colour.join(' ')})`;
    this.context.fillRect(Math.round(x), Math.round(y), Math.round(width), Math.round(height));
  }

  beginPane(pane: Pane): void {
    this.context.save();
    this.context.beginPath();
    this.context.rect(0, pane.top, this.width, pane.height);
    this.context.clip();
    this.pane = pane;
  }

  draw(batch: Batch, ranges: readonly ItemRange[], transform: TileTransform): boolean {
    for (const range of ranges) {
      const row = this.rows.get(range.row);
      if (row && row.pinned === this.pane.pinned) {
        this.drawRow(row, batch.decoded, range, transform);
      }
    }
    return true;
  }

  endLevel(): void {
    // The most serious tick of a pixel is drawn last.
    this.ticks.sort((a, b) => a.style.classIndex - b.style.classIndex);
    for (const tick of this.ticks) {
      this.context.fillStyle = tick.style.fill;
      this.context.fillRect(tick.x, tick.y, tick.width, TICK_HEIGHT * this.ratio);
    }
    this.ticks = [];
  }

  end(): void {
    this.context.restore();
  }

  forget(): void {}

  dispose(): void {}

  private drawRow(
    row: LayoutRow,
    tile: DecodedTile,
    items: ItemRange,
    transform: TileTransform,
  ): void {
    const { context, ratio } = this;
    const inset = BAR_INSET * ratio;
    const top = this.pane.top + row.top * ratio - this.pane.scroll + inset;
    const height = row.height * ratio - 2 * inset;
    if (top + height < this.pane.top || top > this.pane.top + this.pane.height) return;
    if (row.row.values) return this.drawValues(tile, items, transform, top, height);
    const packets = hasPackets(row.row);
    let covered = -Infinity;
    for (let i = items.first; i < items.first + items.count; i++) {
      const begin = transform.offset + tile.times[4 * i] * transform.scale;
      const end = transform.offset + tile.times[4 * i + 1] * transform.scale;
      if (end < 0 || begin > this.width) continue;
      const style = this.styles[tile.words[8 * i + 4]];
      const worst = this.styles[tile.words[8 * i + 5]];
      if (!style || !worst) continue;
      const left = Math.max(Math.round(begin), -16);
      const right = Math.max(Math.min(Math.round(end), this.width + 16), left + 1);
      // Sleeping does not cover what happened in the same pixel.
      const busy = tile.bytes[16 * i + 14] / 255;
      const isIdleGroup = items.group && busy === 0;
      if (!isIdleGroup && (style.classIndex > 0 || right > covered)) {
        const from = style.classIndex > 0 ? left : Math.max(left, covered);
        // The bar of a group is as high as the group is busy.
        const bar = items.group ? Math.max(Math.round(height * busy), ratio) : height;
        const barTop = top + height - bar;
        context.fillStyle = packets && style.classIndex === 0 ? this.valueColours[0] : style.fill;
        context.fillRect(from, barTop, right - from, bar);
        const path = tile.bytes[16 * i + 15];
        if (path > 0 && (!items.group || bar >= STRIP_FROM * ratio)) {
          context.globalAlpha = 0.35 + (0.65 * path) / 255;
          context.fillStyle = this.pathColour;
          context.fillRect(from, barTop, right - from, PATH_HEIGHT * ratio);
          context.globalAlpha = 1;
        }
        covered = Math.max(covered, right);
      }
      const narrow = end - begin < 1;
      if (items.group && worst.classIndex < UNKNOWN) continue;
      if (worst.classIndex > style.classIndex || (narrow && worst.classIndex > RUNNING)) {
        const y = top + height - TICK_HEIGHT * ratio;
        const tickWidth = narrow ? Math.round(TICK_WIDTH * ratio) : right - left;
        this.ticks.push({ x: left, y, width: tickWidth, style: worst });
      }
    }
  }

  /** An area up to the least value of an item, and a line or a band from there to the greatest. */
  private drawValues(
    tile: DecodedTile,
    items: ItemRange,
    transform: TileTransform,
    top: number,
    height: number,
  ): void {
    const { context } = this;
    const line = VALUE_LINE * this.ratio;
    const bottom = top + height;
    for (let i = items.first; i < items.first + items.count; i++) {
      const begin = transform.offset + tile.times[4 * i] * transform.scale;
      const end = transform.offset + tile.times[4 * i + 1] * transform.scale;
      if (end < 0 || begin > this.width) continue;
      const left = Math.max(Math.round(begin), -16);
      const width = Math.max(Math.min(Math.round(end), this.width + 16), left + 1) - left;
      const band = bottom - (tile.words[8 * i + 4] / 65_535) * (height - line);
      const peak = bottom - (tile.words[8 * i + 5] / 65_535) * (height - line) - line;
      context.fillStyle = this.valueColours[1];
      context.fillRect(left, band, width, bottom - band);
      context.fillStyle = this.valueColours[0];
      context.fillRect(left, peak, width, band - peak);
    }
  }

  private pattern(stripe: string, gap: string, period: number): CanvasPattern | string {
    const size = period * this.ratio;
    const tile = document.createElement('canvas');
    tile.width = tile.height = Math.max(2, Math.round(size));
    const context = tile.getContext('2d');
    if (!context) return stripe;
    context.fillStyle = gap;
    context.fillRect(0, 0, tile.width, tile.height);
    context.strokeStyle = stripe;
    context.lineWidth = size / 3;
    context.beginPath();
    for (const shift of [-size, 0, size]) {
      context.moveTo(shift, size);
      context.lineTo(shift + size, 0);
    }
    context.stroke();
    return this.context.createPattern(tile, 'repeat') ?? stripe;
  }
}

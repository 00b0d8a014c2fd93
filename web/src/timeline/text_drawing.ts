// Names of states, and values, in bars that are wide enough. Only the wide items of a tile are
// looked at, which were collected when it arrived, and the number of texts in a frame is limited.

import type { State } from '../api/types.ts';
import { rowY, type Frame, type PlacedRow } from './frame.ts';
import {
  css,
  drawnColour,
  fading,
  hasPattern,
  readableOn,
  textOn,
  type Colour,
  type Palette,
} from './palette.ts';
import { hasPackets } from './row_tree.ts';
import type { TileCache } from './tile_cache.ts';
import { formatNumber, valueAt } from './values.ts';
import { timeToPixel, tileSpan } from './viewport.ts';

/** Texts in a frame while the view moves, and when it has come to rest. */
const TEXTS_MOVING = 120;
const TEXTS_RESTING = 900;
const LEAST_WIDTH = 26;
const PADDING = 4;

export const TEXT_FONT = '11px system-ui, sans-serif';

export class TextDrawing {
  private readonly widths = new Map<string, number>();

  draw(
    context: CanvasRenderingContext2D,
    frame: Frame,
    rows: readonly PlacedRow[],
    cache: TileCache,
    level: number,
    tiles: { first: number; last: number },
    moving: boolean,
  ): void {
    const { view, width, states, palette } = frame;
    context.font = TEXT_FONT;
    context.textBaseline = 'middle';
    const isFaded = fading(frame.scene.highlight);
    const colours = new Map<State, string>();
    const onPacket = css(textOn(palette.value));
    let left = moving ? TEXTS_MOVING : TEXTS_RESTING;
    for (let tile = tiles.first; tile <= tiles.last; tile++) {
      const offset = timeToPixel(view, width, tile * tileSpan(level));
      const scale = (2 ** level / (view.end - view.begin)) * width;
      for (const { entry } of rows) {
        const cached = cache.row(level, tile, entry.row.id);
        if (!cached || cached.wide.length === 0) continue;
        const { times, words } = cached.batch.decoded;
        const middle = rowY(frame, entry) + entry.height / 2 + 0.5;
        for (const i of cached.wide) {
          // A state that began in an earlier tile in view has its text there.
          if (times[4 * i] < 0 && tile > tiles.first) continue;
          const begin = Math.max(offset + times[4 * i] * scale, 0);
          const end = Math.min(offset + times[4 * i + 1] * scale, width);
          if (end - begin < LEAST_WIDTH) continue;
          const available = end - begin - 2 * PADDING;
          if (entry.row.values) {
            // Where several values are in an item, no single one can be named.
            if (words[8 * i + 4] !== words[8 * i + 5]) continue;
            const text = formatNumber(valueAt(entry.row.values, words[8 * i + 4]));
            if (context.measureText(text).width > available) continue;
            context.fillStyle = css(palette.text);
            context.fillText(text, begin + PADDING, middle);
            if (--left <= 0) return;
            continue;
          }
          const state = states[words[8 * i + 4]];
          if (!state) continue;
          const text = this.fitted(context, state.name, available);
          if (text === '') continue;
          if (hasPattern(state.class)) {
            // Text on a pattern cannot be read.
            const textWidth = context.measureText(text).width;
            context.fillStyle = css(palette.background);
            context.fillRect(begin + 1, middle - 8, textWidth + 2 * PADDING - 2, 15);
          }
          let colour = colours.get(state);
          if (colour === undefined) {
            colour = css(textColour(palette, state, isFaded(state.name)));
            colours.set(state, colour);
          }
          context.fillStyle =
            hasPackets(entry.row) && state.class === 'asleep' ? onPacket : colour;
          context.fillText(text, begin + PADDING, middle);
          if (--left <= 0) return;
        }
      }
    }
  }

  /** The name, shortened to the given width; empty if less than three letters would remain. */
  private fitted(context: CanvasRenderingContext2D, name: string, available: number): string {
    let width = this.widths.get(name);
    if (width === undefined) {
      width = context.measureText(name).width;
      this.widths.set(name, width);
    }
    if (width <= available) return name;
    const letters = Math.floor((available / width) * name.length) - 1;
    return letters < 3 ? '' : `${name.slice(0, letters)}…`;
  }
}

function textColour(palette: Palette, state: State, isFaded: boolean): Colour {
  if (hasPattern(state.class)) return palette.faintText;
  const colour = drawnColour(palette, state, isFaded);
  return isFaded || state.class === 'asleep' ? readableOn(colour, palette.faintText) : textOn(colour);
}

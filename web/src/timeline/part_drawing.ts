// Draws which part of the trace a file has with all states. Elsewhere it has bins only: a view that
// is closer than these is hatched there, and a text says so.

import type { Part } from '../api/client.ts';
import { RULER_HEIGHT, xOf, type Frame } from './frame.ts';
import { css } from './palette.ts';
import { TEXT_FONT } from './text_drawing.ts';
import { formatDuration } from './time_format.ts';
import { levelOf } from './viewport.ts';

const HATCH_DISTANCE = 9;
const BRACKET_HEIGHT = 3;

/** What the file has outside of the part. */
export function coarseText(part: Part): string {
  return `not in this file: only bins of ${formatDuration(2 ** part.level)}`;
}

export function drawPart(
  context: CanvasRenderingContext2D,
  frame: Frame,
  part: Part,
  length: number,
): void {
  const { palette, width, height } = frame;
  const begin = xOf(frame, part.begin);
  const end = xOf(frame, part.end);
  if (levelOf(frame.view, width * frame.ratio) < part.level) {
    hatch(context, frame, Math.max(xOf(frame, 0), 0), Math.min(begin, width), part);
    hatch(context, frame, Math.max(end, 0), Math.min(xOf(frame, length), width), part);
  }
  context.fillStyle = css(palette.faintText);
  for (const x of [begin, end]) {
    if (x > 0 && x < width) context.fillRect(Math.round(x), RULER_HEIGHT, 1, height);
  }
  const left = Math.max(begin, 0);
  const right = Math.min(Math.max(end, begin + 2), width);
  context.fillStyle = css(palette.selection);
  if (left < right) {
    context.fillRect(left, RULER_HEIGHT - BRACKET_HEIGHT, right - left, BRACKET_HEIGHT);
  }
}

function hatch(
  context: CanvasRenderingContext2D,
  frame: Frame,
  left: number,
  right: number,
  part: Part,
): void {
  if (left >= right) return;
  const { palette, height } = frame;
  const depth = height - RULER_HEIGHT;
  context.save();
  context.beginPath();
  context.rect(left, RULER_HEIGHT, right - left, depth);
  context.clip();
  context.fillStyle = css(palette.background, 0.45);
  context.fillRect(left, RULER_HEIGHT, right - left, depth);
  context.beginPath();
  const first = Math.floor((left - depth) / HATCH_DISTANCE) * HATCH_DISTANCE;
  for (let x = first; x < right; x += HATCH_DISTANCE) {
    context.moveTo(x, height);
    context.lineTo(x + depth, RULER_HEIGHT);
  }
  context.strokeStyle = css(palette.faintText, 0.3);
  context.lineWidth = 1;
  context.stroke();
  context.restore();
  context.font = TEXT_FONT;
  context.textBaseline = 'middle';
  const text = coarseText(part);
  const textWidth = context.measureText(text).width + 12;
  if (textWidth > right - left) return;
  const x = (left + right - textWidth) / 2;
  context.fillStyle = css(palette.text);
  context.fillRect(x, height - 26, textWidth, 18);
  context.fillStyle = css(palette.background);
  context.fillText(text, x + 6, height - 16.5);
}

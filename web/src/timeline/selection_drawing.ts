// Draws what the user chose: the selected state, the selected range with T1, T2 and Δ, marks,
// notes, and the pointer's time.

import { HEADER_HEIGHT, RULER_HEIGHT, rowY, xOf, type Frame } from './frame.ts';
import { css } from './palette.ts';
import { TEXT_FONT } from './text_drawing.ts';
import { formatDuration, formatTime, tickStep } from './time_format.ts';

/** Shades what is outside of the range and draws its borders, over the full height. */
export function drawRange(context: CanvasRenderingContext2D, frame: Frame): void {
  const { range } = frame.scene;
  if (!range) return;
  const { width, height, palette } = frame;
  const left = xOf(frame, range.begin);
  const right = xOf(frame, range.end);
  context.fillStyle = css(palette.selection, 0.1);
  context.fillRect(left, RULER_HEIGHT, right - left, height);
  context.fillStyle = css(palette.selection);
  for (const x of [left, right]) {
    if (x >= -1 && x <= width + 1) context.fillRect(Math.round(x), 0, 1, height);
  }
  const rows = range.rows
    .map((id) => frame.tree.visible(frame.layout, id))
    .filter((entry) => entry !== undefined);
  context.fillStyle = css(palette.selection, 0.12);
  for (const entry of new Set(rows)) {
    const y = rowY(frame, entry);
    if (y + entry.height > HEADER_HEIGHT && y < height) {
      context.fillRect(left, y, right - left, entry.height);
    }
  }
}

/** The texts of the range, over the ruler, so that they are always visible. */
export function drawRangeTexts(context: CanvasRenderingContext2D, frame: Frame): void {
  const { range, timeDisplay, originNs } = frame.scene;
  if (!range) return;
  const { width, palette } = frame;
  const step = Math.min(tickStep(frame.view, width, 1), (range.end - range.begin) / 10);
  const left = xOf(frame, range.begin);
  const right = xOf(frame, range.end);
  const texts = [
    `T1 ${formatTime(range.begin, timeDisplay, originNs, step)}`,
    `Δ ${formatDuration(range.end - range.begin)}`,
    `T2 ${formatTime(range.end, timeDisplay, originNs, step)}`,
  ];
  context.font = `600 ${TEXT_FONT}`;
  context.textBaseline = 'middle';
  const widths = texts.map((text) => context.measureText(text).width + 10);
  const total = widths[0] + widths[1] + widths[2];
  let places: number[];
  if (right - left > total + 12) {
    places = [left, (left + right - widths[1]) / 2, right - widths[2]];
  } else {
    const from = Math.min(Math.max((left + right - total) / 2, 0), Math.max(width - total, 0));
    places = [from, from + widths[0], from + widths[0] + widths[1]];
  }
  places[0] = Math.min(Math.max(places[0], 0), Math.max(width - total, 0));
  places[2] = Math.min(Math.max(places[2], total - widths[2]), width - widths[2]);
  places[1] = Math.min(Math.max(places[1], places[0] + widths[0]), places[2] - widths[1]);
  texts.forEach((text, i) => {
    context.fillStyle = css(palette.selection);
    context.fillRect(places[i], 3, widths[i] - 1, RULER_HEIGHT - 7);
    context.fillStyle = css(palette.background);
    context.fillText(text, places[i] + 5, RULER_HEIGHT / 2);
  });
}

export function drawSelection(context: CanvasRenderingContext2D, frame: Frame): void {
  const { selection } = frame.scene;
  if (!selection) return;
  const entry = frame.tree.visible(frame.layout, selection.row);
  if (!entry) return;
  const left = Math.max(xOf(frame, selection.begin), -4);
  const right = Math.min(xOf(frame, selection.end), frame.width + 4);
  if (right < 0 || left > frame.width) return;
  const y = rowY(frame, entry);
  const width = Math.max(right - left, 3);
  context.strokeStyle = css(frame.palette.background);
  context.lineWidth = 4;
  context.strokeRect(left - 0.5, y + 1.5, width + 1, entry.height - 3);
  context.strokeStyle = css(frame.palette.selection);
  context.lineWidth = 2;
  context.strokeRect(left - 0.5, y + 1.5, width + 1, entry.height - 3);
}

/** Marks and notes: a flag in the ruler and a line over all rows. */
export function drawMarks(context: CanvasRenderingContext2D, frame: Frame): void {
  const { marks, notes } = frame.scene;
  const { width, height, palette } = frame;
  const flag = (time: number, text: string) => {
    const x = Math.round(xOf(frame, time));
    if (x < -200 || x > width) return;
    context.fillStyle = css(palette.text, 0.55);
    context.fillRect(x, RULER_HEIGHT - 8, 1, height);
    context.fillStyle = css(palette.text);
    context.beginPath();
    context.moveTo(x, RULER_HEIGHT - 1);
    context.lineTo(x - 5, RULER_HEIGHT - 9);
    context.lineTo(x + 5, RULER_HEIGHT - 9);
    context.fill();
    if (text === '') return;
    context.font = TEXT_FONT;
    context.textBaseline = 'middle';
    const shown = text.length > 40 ? `${text.slice(0, 39)}…` : text;
    const textWidth = context.measureText(shown).width + 8;
    context.fillStyle = css(palette.text);
    context.fillRect(x, HEADER_HEIGHT + 1, textWidth, 16);
    context.fillStyle = css(palette.background);
    context.fillText(shown, x + 4, HEADER_HEIGHT + 9.5);
  };
  for (const time of marks) flag(time, '');
  for (const note of notes) flag(note.t, note.text);
}

/** A thin line at the pointer with its time. */
export function drawPointer(context: CanvasRenderingContext2D, frame: Frame, x: number): void {
  const { palette, scene, view, width } = frame;
  context.fillStyle = css(palette.faintText, 0.5);
  context.fillRect(Math.round(x), RULER_HEIGHT, 1, frame.height);
  if (scene.range) return;
  const time = view.begin + (x / width) * (view.end - view.begin);
  const text = formatTime(time, scene.timeDisplay, scene.originNs, tickStep(view, width, 4));
  context.font = TEXT_FONT;
  context.textBaseline = 'middle';
  const textWidth = context.measureText(text).width + 8;
  const left = Math.min(Math.max(x - textWidth / 2, 0), width - textWidth);
  context.fillStyle = css(palette.text);
  context.fillRect(left, 4, textWidth, RULER_HEIGHT - 9);
  context.fillStyle = css(palette.background);
  context.fillText(text, left + 4, RULER_HEIGHT / 2);
}

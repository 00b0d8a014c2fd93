// Marks of waits whose stacks were sampled: a small triangle in the lower corner at the end of the
// wait, where the stack was taken. A frame looks at the visible rows only, and draws one mark of
// those that would cover each other, so its effort depends on the size of the picture.

import type { TraceClient } from '../api/client.ts';
import type { WaitMark } from '../api/types.ts';
import { HEADER_HEIGHT, type Frame, type PlacedRow } from './frame.ts';
import { css } from './palette.ts';
import { pixelToTime, timeToPixel } from './viewport.ts';
import { WindowStore } from './window_store.ts';

/** Width and height of a mark in pixels; two marks of a row are at least so far apart. */
const MARK_SIZE = 7;
/** Distance of a mark from the lower end of its row. */
const BELOW = 2;

/** Width of the outline, and size of the image of a mark in pixels. */
const OUTLINE = 1;
const IMAGE_SIZE = MARK_SIZE + 2 * OUTLINE;

/** The marks of each row, in the order of time. */
export type WaitMarks = ReadonlyMap<number, readonly WaitMark[]>;

export function waitMarkStore(client: TraceClient): WindowStore<WaitMarks> {
  return new WindowStore(async (begin, end, signal) =>
    byRow(await client.sampledWaits(begin, end, signal)),
  );
}

export function byRow(marks: readonly WaitMark[]): WaitMarks {
  const rows = new Map<number, WaitMark[]>();
  for (const mark of marks) {
    const [row] = mark;
    const others = rows.get(row);
    if (others) others.push(mark);
    else rows.set(row, [mark]);
  }
  return rows;
}

/** Index of the first mark that ends after `time`. */
export function firstMarkAfter(marks: readonly WaitMark[], time: number): number {
  let low = 0;
  let high = marks.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (marks[middle][2] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** True if there is a mark in a part of a row. */
export function hasMark(marks: WaitMarks, row: number, begin: number, end: number): boolean {
  const ofRow = marks.get(row) ?? [];
  const mark = ofRow[firstMarkAfter(ofRow, begin)];
  return mark !== undefined && mark[1] < end;
}

/** The right ends of the marks of a row in pixels. A wait that lasts beyond the view has its mark at
 * the end of the view. */
export function markPlaces(
  marks: readonly WaitMark[],
  { view, width }: Pick<Frame, 'view' | 'width'>,
): number[] {
  const places: number[] = [];
  let i = firstMarkAfter(marks, view.begin);
  while (i < marks.length && marks[i][1] < view.end) {
    const place = Math.min(timeToPixel(view, width, marks[i][2]), width);
    places.push(place);
    // Those that this one would cover are skipped, however many they are.
    i = Math.max(i + 1, firstMarkAfter(marks, pixelToTime(view, width, place + MARK_SIZE)));
  }
  return places;
}

let cached: { key: string; canvas: HTMLCanvasElement } | null = null;

/** A mark as an image, which is drawn faster than its outline and its area. */
function markImage({ palette, ratio }: Frame): HTMLCanvasElement {
  const [fill, outline] = [css(palette.text), css(palette.background)];
  const key = `${fill} ${outline} ${ratio}`;
  if (cached?.key === key) return cached.canvas;
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = Math.ceil(IMAGE_SIZE * ratio);
  const context = canvas.getContext('2d')!;
  context.scale(canvas.width / IMAGE_SIZE, canvas.width / IMAGE_SIZE);
  const end = OUTLINE + MARK_SIZE;
  const path = new Path2D();
  path.moveTo(end, end);
  path.lineTo(OUTLINE, end);
  path.lineTo(end, OUTLINE);
  path.closePath();
  // An outline, because states have any colour, and the line of the path may go through.
  context.strokeStyle = outline;
  context.lineWidth = 2 * OUTLINE;
  context.stroke(path);
  context.fillStyle = fill;
  context.fill(path);
  cached = { key, canvas };
  return canvas;
}

export function drawWaitMarks(
  context: CanvasRenderingContext2D,
  frame: Frame,
  rows: readonly PlacedRow[],
  marks: WaitMarks,
): void {
  if (marks.size === 0) return;
  context.save();
  context.beginPath();
  const top = frame.rowsTop + frame.stickyHeight;
  context.rect(0, HEADER_HEIGHT, frame.width, frame.rowsTop - HEADER_HEIGHT);
  context.rect(0, top, frame.width, frame.height - top);
  context.clip();
  const image = markImage(frame);
  for (const { entry, y } of rows) {
    const ofRow = entry.head ? undefined : marks.get(entry.row.id);
    if (!ofRow) continue;
    const top = y + entry.height - BELOW - MARK_SIZE - OUTLINE;
    for (const place of markPlaces(ofRow, frame)) {
      context.drawImage(image, place - MARK_SIZE - OUTLINE, top, IMAGE_SIZE, IMAGE_SIZE);
    }
  }
  context.restore();
}

// Draws the way of the selected packet through the rows: a place on each row that it passes, and
// lines between them.

import { HEADER_HEIGHT, rowY, xOf, type Frame } from './frame.ts';
import { css } from './palette.ts';

const RADIUS = 4;
/** Places this far outside of the view are not drawn one by one. */
const OUTSIDE = 1000;

export function drawChain(context: CanvasRenderingContext2D, frame: Frame): void {
  const { chain, selection } = frame.scene;
  if (!chain || selection?.row !== chain.row || selection.begin !== chain.time) return;
  const { palette, width } = frame;
  const places: { x: number; y: number }[] = [];
  for (const { t, row } of chain.places) {
    const entry = row === null ? undefined : frame.tree.visible(frame.layout, row);
    if (!entry) continue;
    const x = Math.min(Math.max(xOf(frame, t), -OUTSIDE), width + OUTSIDE);
    places.push({ x, y: rowY(frame, entry) + entry.height / 2 });
  }
  context.save();
  context.beginPath();
  context.rect(0, HEADER_HEIGHT, width, frame.height - HEADER_HEIGHT);
  context.clip();
  const line = new Path2D();
  places.forEach(({ x, y }, i) => (i === 0 ? line.moveTo(x, y) : line.lineTo(x, y)));
  context.lineJoin = 'round';
  context.strokeStyle = css(palette.background, 0.85);
  context.lineWidth = 5;
  context.stroke(line);
  context.strokeStyle = css(palette.selection);
  context.lineWidth = 2.5;
  context.stroke(line);
  for (const { x, y } of places) {
    context.beginPath();
    context.arc(x, y, RADIUS, 0, 2 * Math.PI);
    context.fillStyle = css(palette.background);
    context.fill();
    context.stroke();
  }
  context.restore();
}

// Draws the critical path as a line through the rows. (Its lane is a row of tiles like others.)
// Segments that fall into one pixel are drawn once, so the effort depends on the width and not on
// the number of segments.

import type { PathSegment } from '../api/types.ts';
import { rowY, xOf, type Frame } from './frame.ts';
import { css } from './palette.ts';
import { firstSegmentAfter } from './path_store.ts';

/** Distance between two changes of the row that are drawn. Closer ones would cover the rows. */
const LEAST_JOINT_DISTANCE = 7;

function isHighlighted(frame: Frame, segment: PathSegment): boolean {
  return frame.scene.highlight?.has(frame.states[segment.state]?.name ?? '') ?? false;
}

/** The line through the rows: along the row of each segment, and down or up to the next one. */
export function drawPathLine(
  context: CanvasRenderingContext2D,
  frame: Frame,
  segments: readonly PathSegment[],
): void {
  if (segments.length === 0) return;
  const { palette, view } = frame;
  const line = new Path2D();
  const highlight = new Path2D();
  let last: { x: number; y: number } | null = null;
  let lastJoint = -LEAST_JOINT_DISTANCE;
  for (let i = Math.max(firstSegmentAfter(segments, view.begin) - 1, 0); i < segments.length; i++) {
    const segment = segments[i];
    if (segment.begin > view.end) break;
    if (segment.row === null) {
      // Joined links have no direction, so the line is interrupted.
      if (segment.joined > 1) last = null;
      continue;
    }
    const highlighted = isHighlighted(frame, segment);
    const left = xOf(frame, segment.begin);
    const right = xOf(frame, segment.end);
    if (last && right - last.x < 1 && !highlighted) continue;
    const entry = frame.tree.visible(frame.layout, segment.row);
    if (!entry) continue;
    const y = rowY(frame, entry) + entry.height - 3.5;
    if (last && (last.y === y || left - lastJoint >= LEAST_JOINT_DISTANCE)) {
      line.lineTo(left, y);
      if (last.y !== y) lastJoint = left;
    } else {
      line.moveTo(left, y);
    }
    line.lineTo(right, y);
    last = { x: right, y };
    if (highlighted) {
      const top = rowY(frame, entry) + 1.5;
      highlight.rect(left, top, Math.max(right - left, 1), entry.height - 3);
    }
  }
  context.lineJoin = 'round';
  context.strokeStyle = css(palette.background, 0.85);
  context.lineWidth = 3.5;
  context.stroke(line);
  context.strokeStyle = css(palette.path);
  context.lineWidth = 1.5;
  context.stroke(line);
  if (frame.scene.highlight !== null) {
    context.strokeStyle = css(palette.selection);
    context.lineWidth = 2;
    context.stroke(highlight);
  }
}

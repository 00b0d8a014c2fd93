// Draws the critical path: as a lane of its own below the ruler, and as a line through the rows.
// Segments that fall into one pixel are drawn once, so the effort depends on the width and not on
// the number of segments.

import type { PathSegment, State } from '../api/types.ts';
import { HEADER_HEIGHT, LANE_HEIGHT, RULER_HEIGHT, rowY, xOf, type Frame } from './frame.ts';
import { css, stateColour, textOn, type Colour } from './palette.ts';
import { firstSegmentAfter } from './path_store.ts';
import { TEXT_FONT } from './text_drawing.ts';

const LEAST_TEXT_WIDTH = 34;
/** Distance between two changes of the row that are drawn. Closer ones would cover the rows. */
const LEAST_JOINT_DISTANCE = 7;

export function segmentColour(frame: Frame, segment: PathSegment): Colour {
  const state: State | undefined =
    segment.state === null ? undefined : frame.states[segment.state];
  return state ? stateColour(frame.palette, state.class, state.name) : frame.palette.link;
}

/** True if the segment, or a link to it, belongs to the highlighted state. */
export function isHighlighted(frame: Frame, segment: PathSegment): boolean {
  return frame.scene.highlight !== null && segment.text === frame.scene.highlight;
}

export function drawPathLane(
  context: CanvasRenderingContext2D,
  frame: Frame,
  segments: readonly PathSegment[],
): void {
  const { width, palette, scene, view } = frame;
  context.fillStyle = css(palette.background);
  context.fillRect(0, RULER_HEIGHT, width, LANE_HEIGHT);
  const top = RULER_HEIGHT + 3;
  const height = LANE_HEIGHT - 6;
  let drawnTo = -1;
  for (let i = firstSegmentAfter(segments, view.begin); i < segments.length; i++) {
    const segment = segments[i];
    if (segment.begin > view.end) break;
    const left = Math.max(Math.round(xOf(frame, segment.begin)), 0);
    const right = Math.min(Math.max(Math.round(xOf(frame, segment.end)), left + 1), width);
    const highlighted = isHighlighted(frame, segment);
    if (right <= drawnTo && !highlighted) continue;
    drawnTo = right;
    const faded = scene.highlight !== null && !highlighted;
    context.fillStyle = css(segmentColour(frame, segment), faded ? 0.3 : 1);
    context.fillRect(left, top, right - left, height);
  }
  drawLaneTexts(context, frame, segments, top + height / 2 + 0.5);
  context.fillStyle = css(palette.grid);
  context.fillRect(0, HEADER_HEIGHT - 1, width, 1);
}

function drawLaneTexts(
  context: CanvasRenderingContext2D,
  frame: Frame,
  segments: readonly PathSegment[],
  middle: number,
): void {
  const { width, view, scene, palette } = frame;
  const least = (LEAST_TEXT_WIDTH / width) * (view.end - view.begin);
  context.font = TEXT_FONT;
  context.textBaseline = 'middle';
  for (let i = firstSegmentAfter(segments, view.begin); i < segments.length; i++) {
    const segment = segments[i];
    if (segment.begin > view.end) break;
    if (segment.end - segment.begin < least) continue;
    const left = Math.max(xOf(frame, segment.begin), 0);
    const right = Math.min(xOf(frame, segment.end), width);
    if (right - left < LEAST_TEXT_WIDTH) continue;
    const faded = scene.highlight !== null && !isHighlighted(frame, segment);
    context.fillStyle = css(faded ? palette.text : textOn(segmentColour(frame, segment)));
    const letters = Math.floor((right - left - 8) / 6.2);
    const { text } = segment;
    const shown = text.length <= letters ? text : `${text.slice(0, letters - 1)}…`;
    if (letters >= 3) context.fillText(shown, left + 4, middle);
  }
}

/** The line through the rows: along the row of each segment, and down or up to the next one. */
export function drawPathLine(
  context: CanvasRenderingContext2D,
  frame: Frame,
  segments: readonly PathSegment[],
): void {
  const { palette, view } = frame;
  const line = new Path2D();
  const highlight = new Path2D();
  let last: { x: number; y: number } | null = null;
  let lastJoint = -LEAST_JOINT_DISTANCE;
  for (let i = Math.max(firstSegmentAfter(segments, view.begin) - 1, 0); i < segments.length; i++) {
    const segment = segments[i];
    if (segment.begin > view.end) break;
    if (segment.row === null) continue;
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

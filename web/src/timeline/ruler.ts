// The ruler at the top of the timeline: ticks with times, relative or in UTC.

import { RULER_HEIGHT, xOf, type Frame } from './frame.ts';
import { css } from './palette.ts';
import { TEXT_FONT } from './text_drawing.ts';
import { clockZero, formatDay, formatTime, ticks, tickStep } from './time_format.ts';

/** Distance between ticks that leaves space for a time with nine digits after the point. */
const TICK_SPACING = 120;

export function rulerTicks(frame: Frame): { step: number; times: number[] } {
  const step = tickStep(frame.view, frame.width, TICK_SPACING);
  const { timeDisplay, originNs } = frame.scene;
  const zero = timeDisplay === 'utc' ? clockZero(originNs, step) : 0;
  return { step, times: ticks(frame.view, step, zero) };
}

export function drawRuler(
  context: CanvasRenderingContext2D,
  frame: Frame,
  { step, times }: { step: number; times: number[] },
): void {
  const { palette, scene, width } = frame;
  context.fillStyle = css(palette.head);
  context.fillRect(0, 0, width, RULER_HEIGHT);
  context.font = TEXT_FONT;
  context.textBaseline = 'middle';
  context.fillStyle = css(palette.faintText);
  for (const time of times) {
    const x = Math.round(xOf(frame, time));
    context.fillRect(x, RULER_HEIGHT - 7, 1, 7);
    context.fillText(
      formatTime(time, scene.timeDisplay, scene.originNs, step),
      x + 4,
      RULER_HEIGHT / 2,
    );
  }
  if (scene.timeDisplay === 'utc') {
    const day = `${formatDay(Math.max(frame.view.begin, 0), scene.originNs)} UTC`;
    const textWidth = context.measureText(day).width;
    context.fillStyle = css(palette.head);
    context.fillRect(width - textWidth - 10, 0, textWidth + 10, RULER_HEIGHT - 8);
    context.fillStyle = css(palette.text);
    context.fillText(day, width - textWidth - 5, RULER_HEIGHT / 2 - 2);
  }
  context.fillStyle = css(palette.grid);
  context.fillRect(0, RULER_HEIGHT - 1, width, 1);
}

// Smooth motion while W, A, S or D is held: zoom and pan at a speed that depends on time and not
// on the number of frames or on the key's repetition.

import type { Timeline } from './timeline.ts';

export type Motion = 'in' | 'out' | 'left' | 'right';

/** Pan in widths of the view per second, and zoom in natural logarithms per second. */
const PAN_SPEED = 1.2;
const ZOOM_SPEED = 3.2;
/** What a single short press does, in seconds of motion. */
const FIRST_STEP_S = 0.08;
/** Longest time between frames that counts, so that a pause is not made up for by a jump. */
const LONGEST_STEP_S = 0.05;

export class KeyMotion {
  private readonly timeline: Timeline;
  private readonly held = new Set<Motion>();
  private last = 0;
  /** Where the zoom is centred; null for the middle of the view. */
  pointerX: number | null = null;

  constructor(timeline: Timeline) {
    this.timeline = timeline;
  }

  press(motion: Motion): void {
    if (this.held.has(motion)) return;
    this.held.add(motion);
    this.step(FIRST_STEP_S);
    if (this.held.size === 1) {
      this.last = performance.now();
      requestAnimationFrame(this.run);
    }
  }

  release(motion: Motion): void {
    this.held.delete(motion);
  }

  releaseAll(): void {
    this.held.clear();
  }

  private readonly run = (now: number): void => {
    if (this.held.size === 0) return;
    this.step(Math.min(Math.max((now - this.last) / 1000, 0), LONGEST_STEP_S));
    this.last = now;
    requestAnimationFrame(this.run);
  };

  private step(seconds: number): void {
    const { timeline } = this;
    const width = timeline.canvasWidth;
    const centre = this.pointerX ?? width / 2;
    if (this.held.has('left')) timeline.pan(-PAN_SPEED * seconds * width);
    if (this.held.has('right')) timeline.pan(PAN_SPEED * seconds * width);
    if (this.held.has('in')) timeline.zoom(Math.exp(-ZOOM_SPEED * seconds), centre);
    if (this.held.has('out')) timeline.zoom(Math.exp(ZOOM_SPEED * seconds), centre);
  }
}

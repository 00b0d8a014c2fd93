// The time axis that all timelines of the page share, so that they move and zoom together. Each
// timeline has a place on the axis: the time of the axis at which its trace begins. A single
// timeline begins at 0.

import { clampView, panView, shifted, zoomView, type View } from './viewport.ts';

export interface OnAxis {
  /** Time of the axis at which the trace begins. */
  readonly offset: number;
  readonly length: number;
  /** Called when the view of the axis, or the place of the trace on it, has changed. */
  axisMoved(): void;
}

export class TimeAxis {
  view: View = { begin: 0, end: 1 };
  private readonly timelines = new Set<OnAxis>();

  join(timeline: OnAxis): void {
    this.timelines.add(timeline);
  }

  leave(timeline: OnAxis): void {
    this.timelines.delete(timeline);
    this.setView(this.view);
  }

  /** From the earliest begin to the latest end of a trace. */
  get extent(): View {
    const traces = [...this.timelines].filter((timeline) => timeline.length > 0);
    if (traces.length === 0) return { begin: 0, end: 0 };
    return {
      begin: Math.min(...traces.map(({ offset }) => offset)),
      end: Math.max(...traces.map(({ offset, length }) => offset + length)),
    };
  }

  setView(view: View): void {
    const next = clampView(view, this.extent);
    if (next.begin === this.view.begin && next.end === this.view.end) return;
    this.view = next;
    for (const timeline of this.timelines) timeline.axisMoved();
  }

  showAll(): void {
    this.setView(this.extent);
  }

  zoom(factor: number, at: number): void {
    this.setView(zoomView(this.view, factor, at, this.extent));
  }

  pan(ns: number): void {
    this.setView(panView(this.view, ns, this.extent));
  }

  /** The view in times of a trace. */
  viewOf(timeline: OnAxis): View {
    return shifted(this.view, -timeline.offset);
  }
}

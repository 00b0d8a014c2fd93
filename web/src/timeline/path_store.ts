// The segments of the critical path around the view, for the line through the rows. They are
// requested in windows whose width is a power of two, so that pans and small zooms need no request.
// The server joins short segments if a window has too many; a closer view requests smaller windows.

import type { PathSegment } from '../api/types.ts';
import { span, type View } from './viewport.ts';

/** Most segments of a window. A view is at least a quarter of its window, so it has enough for one
 * segment every two pixels. */
const SEGMENT_LIMIT = 3000;
const WINDOWS_KEPT = 16;
const RETRY_MS = 2000;

interface PathWindow extends View {
  key: string;
  segments: PathSegment[];
  version: number;
}

export type FetchPath = (
  begin: number,
  end: number,
  limit: number,
  signal: AbortSignal,
) => Promise<{ segments: PathSegment[] }>;

export class PathStore {
  private readonly fetchPath: FetchPath;
  /** The most recently used one last. */
  private windows: PathWindow[] = [];
  private active: { key: string; abort: AbortController } | null = null;
  private failedUntil = 0;
  onArrival: () => void = () => {};

  constructor(fetchPath: FetchPath) {
    this.fetchPath = fetchPath;
  }

  /** Requests the segments of a view unless they are there, and aborts other requests. */
  want(view: View, length: number, version: number): void {
    const window = windowOf(view);
    const key = `${window.begin}-${window.end}`;
    const begin = Math.max(window.begin, 0);
    const end = Math.min(window.end, length);
    // The trace is not in view, which is possible next to another one.
    if (end <= begin) return;
    if (this.active?.key === key || performance.now() < this.failedUntil) return;
    const found = this.windows.find((w) => w.key === key);
    if (found && found.version >= version) return;
    this.active?.abort.abort();
    const abort = new AbortController();
    const request = (this.active = { key, abort });
    this.fetchPath(begin, end, SEGMENT_LIMIT, abort.signal)
      .then(({ segments }) => {
        this.windows = this.windows.filter((w) => w.key !== key).slice(1 - WINDOWS_KEPT);
        this.windows.push({ ...window, key, segments, version });
        this.onArrival();
      })
      .catch(() => {
        if (!abort.signal.aborted) this.failedUntil = performance.now() + RETRY_MS;
      })
      .finally(() => {
        if (this.active === request) this.active = null;
      });
  }

  /** The segments of the window that shows most of the view; they may reach beyond it. */
  segments(view: View): readonly PathSegment[] {
    let best: PathWindow | null = null;
    let bestCover = 0;
    for (const window of this.windows) {
      const cover = Math.min(window.end, view.end) - Math.max(window.begin, view.begin);
      const better =
        cover > bestCover || (cover === bestCover && best !== null && span(window) < span(best));
      if (cover > 0 && better) {
        best = window;
        bestCover = cover;
      }
    }
    return best?.segments ?? [];
  }

  clear(): void {
    this.active?.abort.abort();
    this.active = null;
    this.windows = [];
  }
}

/** The window of a view: twice the power of two that is at least its span, aligned to it. */
export function windowOf(view: View): View {
  const unit = 2 ** Math.ceil(Math.log2(Math.max(span(view), 1)));
  const begin = Math.floor(view.begin / unit) * unit;
  return { begin, end: begin + 2 * unit };
}

/** Index of the first segment that ends after `time`. */
export function firstSegmentAfter(segments: readonly PathSegment[], time: number): number {
  let low = 0;
  let high = segments.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (segments[middle].end <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

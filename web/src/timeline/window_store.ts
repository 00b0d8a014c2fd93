// Answers about the time around the view, such as the segments of the critical path. They are
// requested in windows whose width is a power of two, so that pans and small zooms need no request.
// A closer view requests smaller windows.

import { span, type View } from './viewport.ts';

const WINDOWS_KEPT = 16;
const RETRY_MS = 2000;

interface Window<T> extends View {
  key: string;
  answer: T;
  version: number;
}

export class WindowStore<T> {
  private readonly fetchAnswer: (begin: number, end: number, signal: AbortSignal) => Promise<T>;
  /** The most recently used one last. */
  private windows: Window<T>[] = [];
  private active: { key: string; abort: AbortController } | null = null;
  private failedUntil = 0;
  onArrival: () => void = () => {};

  constructor(fetchAnswer: (begin: number, end: number, signal: AbortSignal) => Promise<T>) {
    this.fetchAnswer = fetchAnswer;
  }

  /** Requests the answer for a view unless it is there, and aborts other requests. */
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
    this.fetchAnswer(begin, end, abort.signal)
      .then((answer) => {
        this.windows = this.windows.filter((w) => w.key !== key).slice(1 - WINDOWS_KEPT);
        this.windows.push({ ...window, key, answer, version });
        this.onArrival();
      })
      .catch(() => {
        if (!abort.signal.aborted) this.failedUntil = performance.now() + RETRY_MS;
      })
      .finally(() => {
        if (this.active === request) this.active = null;
      });
  }

  /** The answer for the window that shows most of the view, which may reach beyond it; null if
   * there is none. */
  best(view: View): T | null {
    let best: Window<T> | null = null;
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
    return best?.answer ?? null;
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

// Mathematics of the visible part of the time axis: which times are in view, how they map to
// pixels, and which tiles a view needs. Times are ns since the begin of the trace; a 64-bit float
// holds them exactly. Everything here is a pure function.

/** An interval of time, in ns. */
export interface View {
  begin: number;
  end: number;
}

/** The shortest span that can be shown. Times are whole ns, so less would show nothing new. */
export const SHORTEST_SPAN_NS = 40;

/** Bins of one tile. A tile of 48 full rows is then below 1 MB, which is the most that may be
 * uploaded in one frame. */
export const TILE_BINS = 1024;

/** Part of the span that may be visible before the begin and after the end of what there is. */
const MARGIN = 0.02;

export function span(view: View): number {
  return view.end - view.begin;
}

/** The same interval, counted from a begin that is `ns` earlier. */
export function shifted(view: View, ns: number): View {
  return { begin: view.begin + ns, end: view.end + ns };
}

/** Keeps the view within an extent, with a small margin on both sides. */
export function clampView(view: View, extent: View): View {
  const widest = widestSpan(extent);
  const width = Math.min(Math.max(span(view), SHORTEST_SPAN_NS), widest);
  const margin = width * MARGIN;
  const centre = (view.begin + view.end) / 2;
  let begin = span(view) === width ? view.begin : centre - width / 2;
  begin = Math.min(begin, extent.end + margin - width);
  begin = Math.max(begin, extent.begin - margin);
  return { begin, end: begin + width };
}

function widestSpan(extent: View): number {
  return Math.max(span(extent), SHORTEST_SPAN_NS) * (1 + 2 * MARGIN);
}

/** An interval with some space on both sides. */
export function viewAround(interval: View, space = 0.25): View {
  const extra = Math.max(span(interval), 1) * space;
  return { begin: interval.begin - extra, end: interval.end + extra };
}

/** Scales the span by `factor` so that the time `at` stays where it is. */
export function zoomView(view: View, factor: number, at: number, extent: View): View {
  const width = Math.min(Math.max(span(view) * factor, SHORTEST_SPAN_NS), widestSpan(extent));
  const ratio = width / span(view);
  const begin = at - (at - view.begin) * ratio;
  return clampView({ begin, end: begin + width }, extent);
}

export function panView(view: View, ns: number, extent: View): View {
  return clampView(shifted(view, ns), extent);
}

export function timeToPixel(view: View, width: number, time: number): number {
  return ((time - view.begin) / span(view)) * width;
}

export function pixelToTime(view: View, width: number, pixel: number): number {
  return view.begin + (pixel / width) * span(view);
}

/** The level whose bins are between half a pixel (exclusive) and one pixel wide. Level 0 is the
 * finest: its bins of 1 ns may be wider than a pixel. */
export function levelOf(view: View, devicePixels: number): number {
  const nsPerPixel = span(view) / Math.max(devicePixels, 1);
  return nsPerPixel <= 1 ? 0 : Math.floor(Math.log2(nsPerPixel));
}

/** Time of one tile at a level, in ns. */
export function tileSpan(level: number): number {
  return TILE_BINS * 2 ** level;
}

/** Numbers of the first and last tile that show a part of the view, padded by a part of the span
 * on both sides, so that a short pan needs no request. */
export function tilesOf(
  view: View,
  level: number,
  length: number,
  padding: number,
): { first: number; last: number } {
  const width = tileSpan(level);
  const extra = span(view) * padding;
  const newest = Math.max(Math.ceil(length / width) - 1, 0);
  const first = Math.max(Math.floor((view.begin - extra) / width), 0);
  const last = Math.min(Math.floor((view.end + extra) / width), newest);
  return { first: Math.min(first, newest), last: Math.max(last, 0) };
}

// The segments of the critical path around the view, for the line through the rows.

import type { TraceClient } from '../api/client.ts';
import type { PathSegment } from '../api/types.ts';
import { WindowStore } from './window_store.ts';

/** Most segments of a window; the server joins short ones if there are more. A view is at least a
 * quarter of its window, so it has enough for one segment every two pixels. */
const SEGMENT_LIMIT = 3000;

export function pathStore(client: TraceClient): WindowStore<PathSegment[]> {
  return new WindowStore(
    async (begin, end, signal) => (await client.path(begin, end, SEGMENT_LIMIT, signal)).segments,
  );
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

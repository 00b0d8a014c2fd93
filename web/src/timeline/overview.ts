// The strip above the timeline: the load of the CPUs over the whole trace, the critical path's
// states below it, and the part that is in view. Its data are fetched once per version of the
// trace: one tile that contains the whole trace.

import { ROW_LIMIT, type TraceClient } from '../api/client.ts';
import type { State } from '../api/types.ts';
import { css, stateColour, type Palette } from './palette.ts';
import type { RowTree } from './row_tree.ts';
import { decodeTile, itemAt, type DecodedTile, type Item } from './tiles.ts';
import { TILE_BINS, type View } from './viewport.ts';

export const OVERVIEW_HEIGHT = 44;
const PATH_STRIP_HEIGHT = 10;

export interface OverviewData {
  length: number;
  /** Ns of one bin. */
  binNs: number;
  /** Load of each bin, 0 to 1. */
  load: Float32Array;
  /** What the load is of, for the label. */
  loadOf: string;
  /** The critical path, in bins. */
  path: Item[];
}

export async function loadOverview(
  client: TraceClient,
  tree: RowTree,
  length: number,
  signal: AbortSignal,
): Promise<OverviewData> {
  const level = Math.max(0, Math.ceil(Math.log2(Math.max(length, 1) / TILE_BINS)));
  const cpus = tree.rows.filter((row) => row.kind === 'cpu' && row.states > 0);
  // Without the kernel's events there are no CPUs; then it is the load of the busiest rows.
  const others = () =>
    tree.rows
      .filter((row) => row.states > 0 && row.kind !== 'path' && !row.values)
      .sort((a, b) => b.busy_ns - a.busy_ns)
      .slice(0, 64);
  // One place is left for the critical path.
  const rows = (cpus.length > 0 ? cpus : others()).slice(0, ROW_LIMIT - 1);
  const ids = rows.map((row) => row.id);
  if (tree.path >= 0) ids.push(tree.rows[tree.path].id);
  const tile = decodeTile(await client.tiles(level, 0, TILE_BINS, ids, signal));
  const load = loadOf(tile, rows.length);
  const most = cpus.length > 0 ? cpus.length : Math.max(...load, 1e-9);
  return {
    length,
    binNs: 2 ** level,
    load: load.map((value) => Math.min(value / most, 1)),
    loadOf: cpus.length > 0 ? `${cpus.length} CPUs` : 'threads',
    path: tree.path >= 0 ? itemsOf(tile, rows.length) : [],
  };
}

function itemsOf(tile: DecodedTile, row: number): Item[] {
  const items = tile.rows[row];
  if (!items) return [];
  return Array.from({ length: items.count }, (_, i) => itemAt(tile, items.first + i));
}

/** Sum of the busy shares of the first rows, for each bin. */
function loadOf(tile: DecodedTile, rowCount: number): Float32Array {
  const load = new Float32Array(TILE_BINS);
  const count = tile.rows.slice(0, rowCount).reduce((sum, items) => sum + items.count, 0);
  for (let i = 0; i < count; i++) {
    const busy = tile.bytes[16 * i + 14] / 255;
    if (busy === 0) continue;
    const begin = Math.max(tile.times[4 * i], 0);
    const end = Math.min(tile.times[4 * i + 1], TILE_BINS);
    for (let bin = Math.floor(begin); bin < end; bin++) {
      load[bin] += busy * (Math.min(end, bin + 1) - Math.max(begin, bin));
    }
  }
  return load;
}

export function drawOverview(
  canvas: HTMLCanvasElement,
  data: OverviewData | null,
  states: readonly State[],
  palette: Palette,
): void {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext('2d')!;
  context.scale(ratio, ratio);
  context.fillStyle = css(palette.background);
  context.fillRect(0, 0, width, height);
  if (!data || data.length <= 0) return;
  const bottom = height - PATH_STRIP_HEIGHT - 2;
  context.fillStyle = css(palette.classes.running, 0.75);
  const binWidth = (data.binNs / data.length) * width;
  for (let bin = 0; bin * data.binNs < data.length; bin++) {
    const size = data.load[bin] * (bottom - 2);
    const x = bin * binWidth;
    if (size > 0) context.fillRect(x, bottom - size, Math.max(binWidth, 1), size);
  }
  for (const item of data.path) {
    const state = states[item.state];
    if (!state) continue;
    context.fillStyle = css(stateColour(palette, state.class, state.name));
    const itemWidth = Math.max((item.end - item.begin) * binWidth, 0.5);
    context.fillRect(item.begin * binWidth, bottom + 2, itemWidth, PATH_STRIP_HEIGHT);
  }
}

/** Left edge and width of the view in the strip, as parts of its width. */
export function viewBox(view: View, length: number): { left: number; width: number } {
  const begin = Math.min(Math.max(view.begin / Math.max(length, 1), 0), 1);
  const end = Math.min(Math.max(view.end / Math.max(length, 1), 0), 1);
  return { left: begin, width: end - begin };
}

// Cache of tiles. The server answers a request with a batch: some rows of one tile. The cache finds
// the batch of a row, knows which rows are missing or outdated, and drops the batches that were not
// used for the longest time when it exceeds its limit of bytes.

import { decodeTile, itemFacts, type DecodedTile, type RowItems } from './tiles.ts';

/** Bytes of all batches together. Each is on the GPU as well. */
export const CACHE_LIMIT_BYTES = 128 * 1024 * 1024;

/** Items from this width (in bins, which are at most a pixel) may get a text. */
const TEXT_WIDTH_BINS = 28;

export interface Batch {
  level: number;
  tile: number;
  decoded: DecodedTile;
  bytes: number;
  /** Number of the frame that drew it last. */
  lastUsed: number;
  /** Rows for which no newer batch has arrived. */
  current: number;
  /** Some item may need a tick. */
  ticks: boolean;
}

/** One row of a batch. */
export interface CachedRow {
  batch: Batch;
  items: RowItems;
  wide: number[];
  version: number;
}

export class TileCache {
  private readonly rowsByTile = new Map<string, Map<number, CachedRow>>();
  private readonly allBatches = new Set<Batch>();
  private readonly limit: number;
  private bytes = 0;
  /** Called for each batch that is dropped, to free its memory on the GPU. */
  onDrop: (batch: Batch) => void = () => {};

  constructor(limit = CACHE_LIMIT_BYTES) {
    this.limit = limit;
  }

  get size(): number {
    return this.bytes;
  }

  batches(): Iterable<Batch> {
    return this.allBatches;
  }

  row(level: number, tile: number, row: number): CachedRow | undefined {
    return this.rowsByTile.get(key(level, tile))?.get(row);
  }

  rowsOf(level: number, tile: number): ReadonlyMap<number, CachedRow> | undefined {
    return this.rowsByTile.get(key(level, tile));
  }

  /** Rows of `wanted` that are not cached, or are older than `version`. */
  missing(level: number, tile: number, wanted: Iterable<number>, version: number): number[] {
    const rows = this.rowsByTile.get(key(level, tile));
    const missing: number[] = [];
    for (const row of wanted) {
      const cached = rows?.get(row);
      if (!cached || cached.version < version) missing.push(row);
    }
    return missing;
  }

  /** Adds the answer to a request that was made when the trace had `requested` as its version. */
  add(level: number, tile: number, buffer: ArrayBuffer, requested: number, frame: number): Batch {
    const decoded = decodeTile(buffer);
    // The trace may have grown between the request and the answer.
    const version = Math.max(requested, decoded.version);
    const batch: Batch = {
      level,
      tile,
      decoded,
      bytes: buffer.byteLength,
      lastUsed: frame,
      current: decoded.rows.length,
      ticks: false,
    };
    const tileKey = key(level, tile);
    let rows = this.rowsByTile.get(tileKey);
    if (!rows) this.rowsByTile.set(tileKey, (rows = new Map()));
    this.allBatches.add(batch);
    this.bytes += batch.bytes;
    // Bins of level 0 are wider than a pixel when the view is shorter than the canvas is wide.
    const width = level === 0 ? 1 : TEXT_WIDTH_BINS;
    for (const items of decoded.rows) {
      const older = rows.get(items.row);
      const { wide, ticks } = itemFacts(decoded, items, width);
      batch.ticks ||= ticks;
      rows.set(items.row, { batch, items, wide, version });
      if (older && --older.batch.current === 0) this.drop(older.batch);
    }
    this.trim(batch);
    return batch;
  }

  clear(): void {
    for (const batch of [...this.allBatches]) this.drop(batch);
    this.rowsByTile.clear();
  }

  private trim(keep: Batch): void {
    if (this.bytes <= this.limit) return;
    const oldestFirst = [...this.allBatches].sort((a, b) => a.lastUsed - b.lastUsed);
    for (const batch of oldestFirst) {
      if (this.bytes <= this.limit) return;
      if (batch !== keep) this.drop(batch);
    }
  }

  private drop(batch: Batch): void {
    if (!this.allBatches.delete(batch)) return;
    this.bytes -= batch.bytes;
    const tileKey = key(batch.level, batch.tile);
    const rows = this.rowsByTile.get(tileKey);
    if (rows) {
      for (const items of batch.decoded.rows) {
        if (rows.get(items.row)?.batch === batch) rows.delete(items.row);
      }
      if (rows.size === 0) this.rowsByTile.delete(tileKey);
    }
    this.onDrop(batch);
  }
}

function key(level: number, tile: number): string {
  return `${level}/${tile}`;
}
